"""The examples run, at toy size."""

import subprocess
import sys

import torch
from conftest import ROOT, needs_tasks

from examples.encoder_first import Config, EncoderFirst

PROGRAM = """
import sys, examples.train_one as example
translations = example.main(n_steps=12, n_train=50)
harness = ("seqmodels.experiments", "seqmodels.training", "seqmodels.records")
print([name for name in sys.modules if name.startswith(harness)])
print(translations)
"""


@needs_tasks
def test_one_model_is_trained_without_the_harness() -> None:
    printed = subprocess.check_output([sys.executable, "-c", PROGRAM], cwd=ROOT, text=True)
    *_, harness, translations = printed.splitlines()
    assert (harness, len(eval(translations))) == ("[]", 5)


def test_the_decoder_learns_in_one_of_three_steps() -> None:
    model = EncoderFirst(Config(vocab_size=9, d_model=6, d_embed=4, d_maxout=3, period=3))
    src, learns = torch.tensor([[4, 6, 5, 7]]), []
    for _ in range(6):
        model.train().zero_grad()
        model(src, src > 0, src).square().sum().backward()
        learns.append([k for k, p in model.named_parameters() if p.grad is not None])
        model.eval()(src, src > 0, src)  # an evaluation is no step
    assert {key.split(".")[0] for key in learns[0]} == {"encoder", "V"}
    assert learns == [learns[0], learns[0], [k for k, _ in model.named_parameters()]] * 2
