"""The program of test_launch.py; it imports no fixtures, to start fast."""

import sys
from functools import partialmethod
from pathlib import Path

import torch
from toys import options, toy

from seqmodels.experiments import compare, executors
from seqmodels.utils.terminal import run_cli


def main(out: Path, launcher: str) -> None:
    """Compare two models for a long time on Ray, or by submitit on this machine."""
    torch.set_num_threads(1)
    init = partialmethod(executors.SlurmLauncher.__init__, cluster="local")
    executors.SlurmLauncher.__init__ = init  # type: ignore[method-assign]
    task = toy(training=toy().training | {"tokens": 10_000_000, "n_validations": 4})
    given = {"checkpoint_every": 0.5, "device": "auto", "launcher": launcher}
    compare.compare(task, options(out, models=["bahdanau", "gpt"], **given))


if __name__ == "__main__":
    run_cli("worker", lambda: main(Path(sys.argv[1]), sys.argv[2]))
