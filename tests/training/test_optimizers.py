"""The optimisers: Muon against torch's own, what it trains, and its place in records."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from conftest import Tiny
from toys import options, toy

from seqmodels import build
from seqmodels.experiments.launch import compare
from seqmodels.records import io as record
from seqmodels.training import optimizers
from seqmodels.training.config import Precision, TrainConfig

SHAPES = [(20, 30), (8, 8), (30, 20), (20, 30), (40, 5)]
ADAMWS = {"embed", "embedding", "positions", "output", "output.W_o", "attention.v_a"}
"""Embeddings, positions, the output layer, and the vector of a score."""
SPARED = {"mamba2": {"log_A", "W_dt.bias", "skip"}, "gated_deltanet": {"log_A", "W_alpha.bias"}}


def draw(scale: float = 1.0) -> list[torch.nn.Parameter]:
    """Draw matrices that are wide, tall and square, some of one shape."""
    return [torch.nn.Parameter(scale * torch.randn(shape)) for shape in SHAPES]


def test_muon_steps_as_torchs_does() -> None:
    ours = draw()
    theirs = [torch.nn.Parameter(p.detach().clone()) for p in ours]
    muon = optimizers.Muon(ours, 0.02, 0.1, is_bfloat16=True)
    oracle = torch.optim.Muon(theirs, 0.02, 0.1, adjust_lr_fn="match_rms_adamw")
    for lr in (0.02, 0.01, 0.03):
        for p, q, g in zip(ours, theirs, draw(0.1), strict=True):
            p.grad, q.grad = g.detach().clone(), g.detach().clone()
        ours[1].grad = theirs[1].grad = None
        muon.param_groups[0]["lr"] = oracle.param_groups[0]["lr"] = lr
        muon.step()
        oracle.step()
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-4)


def test_muon_is_as_precise_as_the_training(fresh: Tiny) -> None:
    for precision in get_args(Precision):
        cfg = TrainConfig(tokens=1, lr=0.1, optimizer="muon", precision=precision)
        muon: Any = optimizers.make_optimizers(fresh("gpt"), cfg)[1]
        assert muon.is_bfloat16 == (precision == "bfloat16")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_orthogonalize_keeps_singular_vectors(dtype: torch.dtype) -> None:
    u = torch.linalg.qr(torch.randn(3, 6, 6, dtype=dtype))[0]
    v = torch.linalg.qr(torch.randn(3, 9, 6, dtype=dtype))[0]
    sizes = torch.tensor([4.0, 3.0, 2.0, 1.0, 0.5, 0.25], dtype=dtype)
    inside = u.mT @ optimizers.orthogonalize(u @ torch.diag(sizes) @ v.mT) @ v
    values = inside.diagonal(dim1=1, dim2=2)
    assert inside.dtype == dtype
    assert ((values > 0.67) & (values < 1.22)).all()
    assert (inside - torch.diag_embed(values)).abs().max() < 1e-4


def test_muon_trains_neither_embeddings_nor_the_output_layer(name: str, fresh: Tiny) -> None:
    many = build("lstm_seq2seq", 64, d_model=16, d_embed=12, n_layers=2)
    for model in (fresh(name), many):
        muons = {id(p) for p in optimizers.hidden_matrices(model)}
        named = {n.removesuffix(".weight"): p for n, p in model.named_parameters() if p.ndim == 2}
        assert {n for n, p in named.items() if id(p) not in muons} == ADAMWS & named.keys()
        assert len(muons) == len(named.keys() - ADAMWS) > 0


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_weight_decay_spares_rates_of_forgetting(name: str, optimizer: Any, fresh: Tiny) -> None:
    """As the authors of Mamba-2 and of Gated DeltaNet do; without gradients, all else shrinks."""
    rates: Any = {"lr": 0.1, "muon_lr": 0.1, "weight_decay": 0.5, "optimizer": optimizer}
    model, cfg = fresh(name), TrainConfig(tokens=1, batch_tokens=1, **rates)
    for p in model.parameters():
        torch.nn.init.ones_(p).grad = torch.zeros_like(p)
    for step in optimizers.make_optimizers(model, cfg):
        step.step()
    shrunk = {round(x, 4) for p in model.parameters() for x in p.flatten().tolist()} - {1.0}
    assert shrunk == {1 - 0.1 * 0.5}
    kept = {n.rpartition("self_attention.")[2] for n, p in model.named_parameters() if p.max() == 1}
    assert kept == SPARED.get(name, set())


def test_a_comparison_has_one_optimizer(tmp_path: Path, undrawn: None, few_draws: None) -> None:
    task = toy(training=toy().training | {"optimizer": "muon"})
    chosen = {"models": ["gpt"], "vary": [("muon_lr", ["0.002"])]}
    compare(task, options(tmp_path, **chosen))
    made = [record.load(tmp_path / f"gpt{spec}-seed1.json") for spec in ("", "-muon_lr-0.002")]
    settings = [(m.train_config["optimizer"], m.train_config["muon_lr"]) for m in made]
    assert settings == [("muon", task.recipes["gpt"].muon_lr), ("muon", 0.002)]
    assert made[0].curve[-1].valid_nats != made[1].curve[-1].valid_nats
    for how in (chosen, {"models": ["gpt"], "set": [("muon_lr", "0.002")]}):
        with pytest.raises(ValueError, match="trained with AdamW"):
            compare(toy(), options(tmp_path / "adamw", **how))
    chosen["vary"] = [("optimizer", ["adamw"])]
    with pytest.raises(ValueError, match="optimizer"):
        compare(task, options(tmp_path / "x", **chosen))
