"""Whole runs: their weights and scores follow from their records."""

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from conftest import fields_of
from torch import Tensor
from torch.nn import functional as F
from toys import draw_examples, options, same, toy

from seqmodels import BOS, PAD, build
from seqmodels.data import batches
from seqmodels.evaluation import evaluate
from seqmodels.experiments.launch import compare
from seqmodels.training import loop

UNUSUAL = {
    "tokens": 300, "batch_tokens": 60, "warmup": 0.4, "beta_2": 0.9, "weight_decay": 0.5,
    "max_grad_norm": 0.3, "label_smoothing": 0.2, "n_validations": 1,
}  # fmt: skip
"""Every setting is another one than TrainConfig's own."""


@pytest.fixture
def run_it(tmp_path: Path, undrawn: None, few_draws: None) -> Callable[..., dict[str, Any]]:
    """Return a function that compares a small Transformer over several epochs: its record."""

    def run(precision: str = "float32", **training: Any) -> dict[str, Any]:
        examples = {"train": draw_examples(20, 6), "valid": draw_examples(80, 6, 2)}
        task = toy(**examples, training=UNUSUAL | training)
        given = {"seeds": [3], "set": [("lr", 0.02)], "precision": precision}
        compare(task, options(tmp_path, models=["transformer"], **given))
        return fields_of(tmp_path / "transformer-seed3.json")

    return run


def smoothed(logits: Tensor, tgt: Tensor, share: float) -> Tensor:
    """Return the mean loss, a share of the target's probability spread over the vocabulary."""
    log_p = logits.float().log_softmax(-1)
    nats = -(1 - share) * log_p.gather(2, tgt.unsqueeze(2)).squeeze(2) - share * log_p.mean(2)
    return nats[tgt != PAD].mean()


def by_hand(made: dict[str, Any]) -> tuple[torch.nn.Module, int, list[float]]:
    """Train as a record says, with AdamW written out; return the model, its tokens, its losses."""
    cfg, seed = made["train_config"], made["seed"]
    torch.manual_seed(seed)
    model = build(made["model"], **made["model_config"]).train()
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in model.parameters()]
    torch.manual_seed(seed)
    examples, tokens, step, losses = draw_examples(20, 6), 0, 0, []
    epochs = [batches.shuffled_batches(examples, cfg["batch_tokens"], seed, n) for n in range(99)]
    drawn = itertools.chain.from_iterable(epochs)
    while tokens < cfg["tokens"]:
        rows = next(drawn)
        batch = batches.collate([examples[i] for i in rows])
        done = (tokens + 1) / cfg["tokens"]
        falls = (1 - done) / (1 - cfg["warmup"])
        rate = cfg["lr"] * (done / cfg["warmup"] if done < cfg["warmup"] else falls)
        with torch.autocast("cpu", torch.bfloat16, enabled=cfg["precision"] == "bfloat16"):
            logits = model(batch.src, batch.src_mask, batch.tgt_in)
        loss = smoothed(logits, batch.tgt_out, cfg["label_smoothing"])
        grads = torch.autograd.grad(loss, [*model.parameters()])
        norm = math.sqrt(sum(g.square().sum().item() for g in grads))
        step, tokens = step + 1, tokens + sum(len(examples[i].tgt) for i in rows)
        with torch.no_grad():
            for p, g, (m, v) in zip(model.parameters(), grads, moments, strict=True):
                g = g * min(1.0, cfg["max_grad_norm"] / norm)
                m += (1 - 0.9) * (g - m)
                v += (1 - cfg["beta_2"]) * (g * g - v)
                p *= 1 - rate * cfg["weight_decay"]
                root = (v / (1 - cfg["beta_2"] ** step)).sqrt() + 1e-8
                p -= rate * m / (1 - 0.9**step) / root
        losses.append(loss.item())
    return model.eval(), tokens, losses


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 0.02), ("bfloat16", 0.2)])
def test_training_by_hand_from_the_record_gives_the_same_weights(
    precision: str, tolerance: float, run_it: Any, tmp_path: Path
) -> None:
    made = run_it(precision)
    cfg = made["train_config"]
    assert cfg == UNUSUAL | {"lr": 0.02, "seed": 3, "precision": precision}
    model, tokens, losses = by_hand(made)
    assert len(losses) > 4
    (point,) = made["curve"]
    assert (point["step"], point["tokens"]) == (len(losses), tokens)
    assert point["train_nats"] == pytest.approx(sum(losses) / len(losses), rel=1e-4)
    found = safetensors.torch.load_file(tmp_path / "transformer-seed3.safetensors")
    for name, p in model.state_dict().items():
        n_full_steps = (found[name] - p).abs().max().item() / cfg["lr"]
        assert n_full_steps < tolerance, name
    nats = n_right = n = 0.0
    with torch.no_grad():
        for example in draw_examples(80, 6, 2):
            src = torch.tensor([example.src])
            logits = model(src, src > 0, torch.tensor([[BOS, *example.tgt[:-1]]]))[0]
            tgt = torch.tensor(example.tgt)
            nats += F.cross_entropy(logits, tgt, reduction="sum").item()
            n_right, n = n_right + (logits.argmax(-1) == tgt).sum().item(), n + len(tgt)
    assert point["valid_nats"] == pytest.approx(nats / n, rel=1e-3)
    assert point["valid_accuracy"] == pytest.approx(100 * n_right / n, abs=200 / n)


def test_the_best_weights_are_written(run_it: Any, tmp_path: Path, monkeypatch: Any) -> None:
    losses, seen = iter([3.0, 1.0, 2.0]), []

    def validate(model: torch.nn.Module, *_: Any) -> dict[str, float]:
        seen.append({k: v.clone() for k, v in model.state_dict().items()})
        return {"valid_nats": next(losses), "valid_accuracy": 0.0}

    monkeypatch.setattr(loop, "validate", validate)
    made = run_it(n_validations=3)
    assert len(made["curve"]) == len(seen) == 3
    saved = safetensors.torch.load_file(tmp_path / "transformer-seed3.safetensors")
    assert same(saved, {name: seen[1][name] for name in saved})
    assert not torch.equal(seen[1]["embedding.weight"], seen[2]["embedding.weight"])
    rows = (tmp_path / "transformer-seed3.jsonl").read_text().splitlines()
    model = build("transformer", **made["model_config"]).eval()
    model.load_state_dict(seen[1])
    nats = [row["nats"] for row in evaluate.score_teacher_forced(model, toy().tests[0].examples)]
    assert [json.loads(row)["nats"] for row in rows] == pytest.approx(nats)
