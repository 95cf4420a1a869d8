"""Every field of TrainConfig moves what a few steps leave; a wrong value is refused."""

from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from conftest import RESULTS, TINY, V, fields_of
from torch.testing import assert_close
from toys import examples, same

from seqmodels import build
from seqmodels.data.batches import collate
from seqmodels.experiments.task import Recipe
from seqmodels.training import loop
from seqmodels.training.config import TrainConfig
from seqmodels.training.trainer import Trainer

BASE = TrainConfig(tokens=70, lr=0.05, batch_tokens=40, n_validations=1, max_grad_norm=0.5)
OTHERS: dict[str, Any] = {
    "tokens": 90, "lr": 0.04, "optimizer": "muon", "muon_lr": 0.05, "batch_tokens": 60,
    "warmup": 0.4, "beta_2": 0.5, "weight_decay": 0.3, "max_grad_norm": 0.4, "loss": "squared",
    "label_smoothing": 0.2, "source_loss": 0.5, "n_validations": 2, "seed": 2,
    "precision": "bfloat16",
}  # fmt: skip


def train(cfg: TrainConfig) -> tuple[dict[str, torch.Tensor], list[int | float]]:
    """Return the weights that are kept of about three steps, and the steps that have a point."""
    torch.manual_seed(1)
    one = Trainer(build("gpt", V, **TINY["gpt"]), cfg)
    curve = loop.train(one, examples()[10:], examples()[:10])
    return one.model.state_dict(), [point["step"] for point in curve]


BESIDE: list[dict[str, Any]] = [{}, {"optimizer": "muon"}, {"source_loss": 0.3}]
FIELDS = [f.name for f in fields(TrainConfig) if f.name != "micro_batches"]  # tested below
CASES = [(name, beside) for name in FIELDS for beside in BESIDE if name not in beside]
CASES.remove(("loss", {"source_loss": 0.3}))  # is refused


@pytest.mark.parametrize(("field", "beside"), CASES)
def test_each_field_moves_the_weights_of_three_steps(field: str, beside: dict[str, Any]) -> None:
    """More points of the curve move the point whose weights are kept."""
    cfg = replace(BASE, **beside)
    changed = replace(cfg, **{field: OTHERS[field]})
    assert getattr(cfg, field) != OTHERS[field]
    (weights, steps), (moved, others) = train(cfg), train(changed)
    assert len(steps) == cfg.n_validations
    assert len(others) == changed.n_validations
    assert 3 <= steps[-1] <= 4
    assert same(train(cfg)[0], weights)
    is_unused = field == "muon_lr" and cfg.optimizer == "adamw"
    assert same(moved, weights) == (field == "n_validations" or is_unused)


@pytest.mark.parametrize("beside", [{}, {"source_loss": 0.3}, {"loss": "squared"}])
def test_micro_batches_add_up_to_the_gradient_of_the_batch(beside: dict[str, Any]) -> None:
    model, found = build("gpt", V, **TINY["gpt"]).double(), []
    rows = [e._replace(unscored=frozenset(range(i % 2))) for i, e in enumerate(examples()[:5])]
    for n in (1, 2, 9):  # more parts than rows are as many as rows
        one = Trainer(model, replace(BASE, micro_batches=n, **beside))
        found.append([loop.backward(one, one.prepare(collate(rows)))])
        found[-1] += [p.grad.clone() for p in model.parameters() if p.grad is not None]
    for parts in found[1:]:
        assert_close(parts, found[0], rtol=1e-6, atol=1e-9)
    assert replace(BASE, micro_batches=2).settings()["micro_batches"] == 2


def test_defaults_are_those_of_a_committed_run() -> None:
    was = fields_of(RESULTS / "translation-multi30k" / "gpt-seed1.json")["train_config"]
    chosen = {name: was[name] for name in ("tokens", "lr", "precision", "label_smoothing")}
    assert TrainConfig(**chosen).settings() == was
    assert TrainConfig(**chosen).muon_lr == Recipe({}, 1e-3).muon_lr == 8e-3


def test_a_wrong_value_is_refused_before_anything_is_built() -> None:
    for name, value in (("dropout", 1.0), ("d_model", 0), ("n_heads", 0)):
        with pytest.raises(ValueError, match=f"^{name}={value}: "):
            build("transformer", 9, **{name: value})
    for name, value in (("lr", -0.5), ("max_grad_norm", 0.0)):
        with pytest.raises(ValueError, match=f"^{name}={value}: "):
            TrainConfig(**{"tokens": 9, "lr": 0.5, name: value})
