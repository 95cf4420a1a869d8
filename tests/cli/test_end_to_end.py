"""Whole runs: as their records say, dropout where the papers have it, several processes."""

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from conftest import Pairs, Tiny
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close
from toys import draw_examples, options, same, toy

from seqmodels import BOS, PAD, build
from seqmodels.data import batches
from seqmodels.evaluation import evaluate
from seqmodels.experiments import compare
from seqmodels.models.ops import attend
from seqmodels.records import record
from seqmodels.training import loop
from tools import golden

# ---------------------------------------------------------------------------- one run, by hand
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
        given = {"models": ["transformer"], "seeds": [3], "lr": 0.02, "precision": precision}
        compare.compare(task, options(tmp_path, **given))
        return record.load(tmp_path / "transformer-seed3.json")

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
    size = cfg["batch_tokens"]
    epochs = [batches.shuffled_batches(examples, size, seed, epoch) for epoch in range(99)]
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
def test_a_run_is_its_record(precision: str, tolerance: float, run_it: Any, tmp_path: Path) -> None:
    """Keeps out a setting that is recorded and not used, and a validation on some examples."""
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
    """Keeps out the last weights, or the first, in the file that translates."""
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


# ------------------------------------------------------------------------- where dropout acts
P = 0.37
S, T = 5, 6


class Sites:
    """Every place where a model drops units, in its order; all but one hand on what they got."""

    def __init__(self, model: torch.nn.Module, patch: pytest.MonkeyPatch):
        self.model = model
        patch.setattr(F, "dropout", self.dropout)
        for name, module in model.named_modules():
            if not isinstance(module, torch.nn.Dropout):
                module.register_forward_hook(
                    lambda _, x, y, name=name: self.modules.append((name, x[0], y))
                )

    def run(self, pairs: Pairs, only: int | None = None) -> Tensor:
        """Return the logits where one site alone drops."""
        self.only = only
        self.seen: list[tuple[Tensor, float]] = []
        self.modules: list[tuple[str, Any, Any]] = []
        with torch.no_grad():  # the fused kernel shows no weights
            return self.model(*pairs)

    def dropout(self, x: Tensor, p: float = 0.5, training: bool = True, *_: Any) -> Tensor:
        """Stand in for torch's."""
        if not training or p == 0.0:
            return x
        self.seen.append((x, p))
        if self.only != len(self.seen) - 1:
            return x
        return x * (torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < 0.5)

    def names(self) -> list[str]:
        found = []
        for x, p in self.seen:
            assert p == P
            if x.dim() == 4:
                assert_close(x.sum(-1), torch.ones_like(x.sum(-1)))
                found.append(f"weights {x.shape[2]} × {x.shape[3]}")
            else:
                makes = [f"out of {name}" for name, _, tensor in self.modules if tensor is x]
                gets = [f"into {name}" for name, tensor, _ in self.modules if tensor is x]
                found.append([*makes, *gets, "nowhere"][0])
        return found


def layers(*sites: str) -> list[str]:
    """Write the sites of two layers, {} for the number of each."""
    return [site.format(i) for i in range(2) for site in sites]


def transformer(first: str) -> list[str]:
    """Write section 5.4's sites, and the attention weights that the authors' code drops as well."""
    coded = layers(f"weights {S} × {S}", "out of encoder.{}.self_attention.W_o",
                   "out of encoder.{}.ff.2")  # fmt: skip
    decoded = layers(f"weights {T} × {T}", "out of decoder.{}.self_attention.W_o",
                     f"weights {T} × {S}", "out of decoder.{}.src_attention.W_o",
                     "out of decoder.{}.ff.2")  # fmt: skip
    return [f"into decoder.0.{first}", f"into encoder.0.{first}", *coded, *decoded]


PLACES = {
    "rnn_encdec": ["out of embed", "out of embed", "into output.W_o"],
    "bahdanau": ["out of embed", "out of embed", "into output.W_o"],
    "lstm_seq2seq": ["out of embed", "into encoder.layers.1.W", "nowhere",
                     "out of embed", "into decoder.layers.1.W", "into output"],
    "transformer": transformer("self_attention.W_k"),
    "prenorm": transformer("self_residual.norm"),
    "gpt": ["into decoder.0.norm_1",
            f"weights {S + T} × {S + T}", "out of decoder.0.self_attention.W_o",
            "out of decoder.0.ff.2", f"weights {T} × {S + T}",
            "out of decoder.1.self_attention.W_o", "out of decoder.1.ff.2"],
    "linear_attention": ["into decoder.0.norm_1", *layers(
        "out of decoder.{}.self_attention.W_o", "out of decoder.{}.ff.2"
    )],
}  # fmt: skip
"""Where each paper's model drops units: what a module says, or what it gets. The embeddings of
source and target come first, sums with their positions where there are any; `nowhere` is the top
of the LSTM's encoder, which no one reads."""


@pytest.mark.parametrize("which", PLACES)
def test_each_place_drops_by_itself(which: str, tiny: Tiny, pairs: Pairs, monkeypatch: Any) -> None:
    """Keeps out a place that drops nothing, another place, another share, and one in evaluation."""
    is_prenorm = {"is_prenorm": True} if which == "prenorm" else {}
    model = tiny("transformer" if is_prenorm else which, dropout=P, **is_prenorm)
    sites, wanted = Sites(model, monkeypatch), PLACES[which]
    model.train()
    whole = sites.run(pairs)
    assert sites.names() == wanted
    for i, place in enumerate(wanted):
        is_changed = (sites.run(pairs, only=i) - whole).abs().max() > 1e-6
        assert is_changed == (place != "nowhere"), place
    model.eval()
    assert_close(sites.run(pairs, only=0), whole)
    assert not sites.seen


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_drops_weights(dtype: torch.dtype) -> None:
    """Keeps out a share that one of the two attentions does not drop: P of the weights are zero."""
    q, k = torch.randn(2, 8, 4, 25, 6).to(dtype)
    unit_vectors, seen = torch.eye(25, dtype=dtype).expand(8, 4, -1, -1), torch.ones(25).bool()
    weights = attend(q, k, unit_vectors, seen, P)
    assert (weights == 0).float().mean().item() == pytest.approx(P, abs=0.03)
    assert weights.float().sum(-1).mean().item() == pytest.approx(1.0, abs=0.03)


# ------------------------------------------------------------------------------- the golden run
@pytest.mark.parametrize("optimizer", golden.OPTIMIZERS)
def test_the_golden_run_stays(name: str, optimizer: Any) -> None:
    """Keeps out drift that no one meant: of a start, a step, an optimiser, a version of torch.

    Threads, older instructions and weights off by one in their last bit move a loss by 2e-8 of it
    at most, a decay of 0.011 for 0.01 by 1e-5. They hold on torch 2.10.0 (a build for CUDA, run on
    a CPU) and 2.13.0 (for CPUs). `python -m tools.golden` writes the losses anew.
    """
    kept = json.loads(golden.PATH.read_text(encoding="utf-8"))[optimizer][name]
    assert golden.losses(golden.trainer_of(name, optimizer)) == pytest.approx(kept, rel=2e-6)
