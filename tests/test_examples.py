"""The examples run, at toy size."""

import subprocess
import sys

from conftest import ROOT, needs_tasks

PROGRAM = """
import sys, examples.train_one as example
translations = example.main(n_steps=12, n_train=50)
harness = ["seqmodels.experiments", "seqmodels.training", "seqmodels.records"]
print([name for name in sys.modules if name.startswith(tuple(harness))])
print(translations)
"""


@needs_tasks
def test_one_model_is_trained_without_the_harness() -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True
    )
    *_, harness, translations = run.stdout.splitlines()
    assert harness == "[]"
    assert len(eval(translations)) == 5
