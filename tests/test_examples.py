"""The examples run, at toy size."""

import subprocess
import sys

import torch
import torch.nn.functional as F
from conftest import ROOT, needs_tasks

from examples.descent_targets import Config as DescentConfig
from examples.descent_targets import DescentTargets
from examples.encoder_first import Config, EncoderFirst
from seqmodels.interface import BOS, EOS, PAD
from seqmodels.models.rnn_encdec import RNNEncDec

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
    assert harness == "[]"
    assert len(eval(translations)) == 5


def test_the_decoder_learns_in_every_second_step() -> None:
    model = EncoderFirst(Config(vocab_size=9, d_model=6, d_embed=4, d_maxout=3)).train()
    src, learns = torch.tensor([[4, 6, 5, 7]]), []
    for _ in range(4):
        model.zero_grad()
        model(src, src > 0, src).square().sum().backward()
        learns.append([k for k, p in model.named_parameters() if p.grad is not None])
    assert {key.split(".")[0] for key in learns[0]} == {"encoder", "V"}
    assert learns == [learns[0], [k for k, _ in model.named_parameters()]] * 2


def test_the_encoder_learns_what_descent_finds_and_the_decoder_as_usual() -> None:
    torch.manual_seed(5)
    model = DescentTargets(DescentConfig(vocab_size=9, d_model=6, d_embed=4, d_maxout=3)).train()
    src, tgt_in = torch.tensor([[4, 6, 5], [5, 8, PAD]]), torch.tensor([[BOS, 4, 7], [BOS, 6, PAD]])
    tgt_out = torch.tensor([[4, 7, EOS], [6, EOS, PAD]]).flatten()

    def gradients(loss: torch.Tensor) -> list[torch.Tensor]:
        weights = [model.V.weight, model.output.W_o.weight]
        return [*torch.autograd.grad(loss.sum(), weights, allow_unused=True)]

    def nats(logits: torch.Tensor) -> torch.Tensor:
        each = F.cross_entropy(logits.flatten(0, 1), tgt_out, ignore_index=PAD, reduction="none")
        return each.view(2, 3).sum(1)

    c = model.encode(src, src > 0).c
    moved = model.descend(c.detach(), tgt_in)
    assert (nats(model.write(moved, tgt_in)) < nats(model.write(c.detach(), tgt_in))).all()
    written, read = gradients(nats(model(src, src > 0, tgt_in)))
    towards, _ = gradients((c - moved).square())
    assert F.cosine_similarity(written.flatten(), towards.flatten(), 0) > 0.9999
    assert read.equal(gradients(nats(RNNEncDec.forward(model, src, src > 0, tgt_in)))[1])
    object.__setattr__(model.config, "semi_amortised", True)
    _, read = gradients(nats(model(src, src > 0, tgt_in)))
    torch.testing.assert_close(read, gradients(nats(model.write(moved, tgt_in)))[1])
