"""Attention as kernel smoothing: the weights, what is measured with them, and its figure."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from conftest import ROOT, Tiny
from fake_records import as_records, fake_record
from torch.testing import assert_close

from seqmodels import EOS, SequenceModel, build
from seqmodels.data.batches import Example, collate
from seqmodels.evaluation.evaluate import score_teacher_forced
from seqmodels.utils import files
from tasks.smoothing import figure, measure
from tasks.smoothing import scale as exhibit

EXAMPLES = [
    Example([5, 6, 7, EOS], [8, 9, 10, EOS]),
    Example([9, 8, 6, 5, 7, EOS], [4, 7, EOS]),
    Example([6, EOS], [10, 5, 8, 4, EOS]),
]


def scale(model: SequenceModel, queries: float, keys: float) -> SequenceModel:
    for a in measure.list_smoothers(model):
        a.module.W_q.weight.data *= queries
        a.module.W_k.weight.data *= keys
    return model


def test_softmax_is_a_kernel_with_weights_by_length(tiny: Tiny) -> None:
    """Where all keys are equally long, the kernel alone is the softmax."""
    model = scale(tiny("transformer", d_k=5), 4, 4)
    for call in measure.collect_calls(model, measure.list_smoothers(model), EXAMPLES):
        exact = call.attention.module.attention_weights(call.q, call.k, call.k, call.mask)
        kernel, pure = (measure.kernel_weights(*call[1:4], has_prior=p) for p in (True, False))
        assert_close(kernel, exact, rtol=0, atol=1e-6)
        assert (pure - exact).abs().max() > 0.01
        k = 3 * torch.nn.functional.normalize(call.k, dim=-1)
        pure = measure.kernel_weights(call.q, k, call.mask, has_prior=False)
        assert_close(pure, measure.equal_weights(call.q, k, call.mask))


def test_lengths_are_those_of_their_heads(tiny: Tiny) -> None:
    model, other = tiny("transformer"), tiny("transformer")
    rows = measure.measure_lengths(model, other, EXAMPLES)
    swapped = [row | {"when": "before"} for row in measure.measure_lengths(other, model, EXAMPLES)]
    assert rows[: len(rows) // 2] == swapped[len(rows) // 2 :]
    seen = [measure.collect_calls(model, measure.list_smoothers(model), [e]) for e in EXAMPLES]
    for row in rows[len(rows) // 2 :]:
        place, h = (row["attention"], row["layer"]), row["head"] - 1
        calls = [c for own in seen for c in own if c.attention[:2] == place]
        for side in "qk":
            lengths = torch.cat([getattr(c, side)[0, h].norm(dim=-1) for c in calls])
            assert row[f"{side}_mean"] == pytest.approx(lengths.mean().item())
            assert row[f"{side}_std"] == pytest.approx(lengths.std().item())
        sums = torch.zeros(3)
        for c in calls:
            for i, query in enumerate(c.q[0, h]):
                k = c.k[0, h][: i + 1 if place[0] == "decoder" else None]
                length = k.norm(dim=-1)
                along = k @ query / length
                scores = along * length, along * length.mean(), along.mean() * length
                sums += torch.tensor([s.var(correction=0).item() for s in scores])
        both, angles, lengths = sums.tolist()
        assert row["angles"] == pytest.approx(100 * angles / both, rel=1e-4)
        assert row["lengths"] == pytest.approx(100 * lengths / both, rel=1e-4)


def test_gpt_compares_source_and_target_as_one_text(tiny: Tiny) -> None:
    """In the last layer, only the target has queries; each sees all that came before."""
    model = tiny("gpt")
    calls = measure.collect_calls(model, measure.list_smoothers(model), EXAMPLES)
    for call in calls:
        exact = call.attention.module.attention_weights(call.q, call.k, call.k, call.mask)
        kernel = measure.kernel_weights(*call[1:4], has_prior=True)
        assert_close(kernel, exact, rtol=0, atol=1e-6)
    n = {1: sum(len(e.src) + len(e.tgt) for e in EXAMPLES), 2: sum(len(e.tgt) for e in EXAMPLES)}
    rows = measure.measure_lengths(model, model, EXAMPLES)
    for layer in (1, 2):
        own = [c for c in calls if c.attention.layer == layer]
        assert sum(int(c.queries.sum()) for c in own) == n[layer]
        assert sum(int(c.keys.sum()) for c in own) == n[1]
        lengths = torch.cat([c.q[:, 1].norm(dim=-1)[c.queries] for c in own])
        (row,) = (r for r in rows if (r["when"], r["layer"], r["head"]) == ("after", layer, 2))
        assert (row["attention"], row["q_mean"]) == ("text", pytest.approx(lengths.mean().item()))
    (exact, *_), one = measure.measure_kernel(model, model, EXAMPLES), measure.FACTORS.index(1)
    assert measure.measure_bandwidth(model, model, EXAMPLES)[one]["nats"] == pytest.approx(
        exact["nats"]
    )
    unscaled = tiny("gpt_unscaled")
    assert measure.measure_lengths(unscaled, unscaled, EXAMPLES)
    assert measure.measure_kernel(unscaled, unscaled, EXAMPLES) == []


def test_weights_are_replaced_and_compared(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    model, cosine = scale(tiny("transformer"), 4, 4), tiny("transformer_cosine")
    scored = score_teacher_forced(model, EXAMPLES)
    nats = sum(row["nats"] for row in scored) / sum(row["n_tokens"] for row in scored)
    exact, _, _, *heads = measure.measure_kernel(model, model, EXAMPLES)
    assert exact["nats"] == pytest.approx(nats)
    assert all(0 < row["kernel"] < 1 for row in heads)
    monkeypatch.setattr(measure, "FACTORS", [0.5, 1, 2])
    monkeypatch.setattr(measure, "N_FEATURES", [4, 4_000])
    rows = measure.measure_bandwidth(model, model, EXAMPLES)
    assert rows[1]["nats"] == pytest.approx(nats)
    assert rows[0]["entropy"] < rows[1]["entropy"] < rows[2]["entropy"]
    rows = measure.measure_bandwidth(scale(model, 4, 1), model, EXAMPLES)
    assert rows[2]["nats"] == pytest.approx(nats)  # twice the bandwidth, for four times the scores
    scale(model, 1 / 64, 1 / 8)  # a smooth kernel, of which few samples suffice
    _, *rows = measure.measure_favor(model, model, EXAMPLES)
    few, many = rows[: measure.N_DRAWS], rows[measure.N_DRAWS :]
    assert len({row["nats"] for row in few}) == measure.N_DRAWS
    assert max(row["distance"] for row in many) < 0.3 * min(row["distance"] for row in few)
    assert measure.measure_lengths(cosine, cosine, EXAMPLES)
    for name in ("kernel", "bandwidth", "favor"):
        assert getattr(measure, f"measure_{name}")(cosine, cosine, EXAMPLES) == []


def test_a_distance_is_half_of_what_has_moved(tiny: Tiny) -> None:
    """From equal weights of n keys to the first alone: 1 - 1/n; the loss is per token."""
    model = scale(tiny("transformer"), 0, 1)  # all scores are zero
    attentions = measure.list_smoothers(model)[:1]

    def first_alone(q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.eye(k.shape[2])[0].expand(*q.shape[:3], -1).to(q)

    calls = measure.collect_calls(model, attentions, EXAMPLES)
    weights = {attentions[0].module: first_alone}
    loss, distances = measure.try_weights(model, EXAMPLES, calls, weights)
    mean = sum(n * (1 - 1 / n) for n in (4, 6, 2)) / (4 + 6 + 2)
    assert distances[attentions[0]].tolist() == pytest.approx([mean] * 2)
    with measure.replace_weights(weights):
        rows = score_teacher_forced(model, EXAMPLES)
    n = sum(len(e.tgt) for e in EXAMPLES)
    assert loss == pytest.approx(sum(row["nats"] for row in rows) / n)


def smoothed(seed: int, by: float, **sizes: Any) -> dict[str, Any]:
    """Make a record whose numbers are multiples of `by`."""
    head = {"attention": "encoder", "layer": 1, "head": 1}
    lengths = {"q_mean": 4.0 * by, "q_std": 1.0 * by, "k_mean": 10.0 * by, "k_std": 4.0 * by}
    names = ("softmax", "kernel", "equal lengths")
    kernel = [{"weights": n, "nats": by * i} for i, n in enumerate(names, 1)]
    favor = [{"features": 0, "draw": 0, "nats": by, "distance": 0.0}]
    favor += [{"features": n, "draw": i, "nats": by * x, "distance": x / 16}
              for n in (8, 16) for i, x in ((1, 1), (2, 2), (3, 9))]  # fmt: skip
    return fake_record("transformer", seed) | {
        "model_config": {"d_model": 96, "n_heads": 6, **sizes},
        "analyses": {
            "lengths": [head | {"when": when} | lengths for when in ("before", "after")],
            "kernel": [*kernel, head | {"kernel": by / 8}], "favor": favor,
            "bandwidth": [{"factor": f, "nats": by * f, "entropy": f} for f in (0.5, 1.0, 2.0)],
        },
    }  # fmt: skip


def test_what_is_drawn_of_smoothing_is_known() -> None:
    group = as_records([smoothed(1, 1.0), smoothed(2, 3.0)])
    drawn = figure.draw([*group])["smoothing-transformer"]
    lengths, loss, features, kernel, *_ = drawn.axes
    points = [line.get_xydata()[0].tolist() for line in lengths.lines]
    assert points[-2:] == [[12, 25], [30, 40]]
    assert features.lines[0].get_xydata().tolist()[0] == [8, 8]
    assert kernel.lines[0].get_ydata().tolist() == [0.125]
    assert loss.lines[0].get_xdata().tolist() == [0.5, 1, 2]
    assert "is 4 nats per token, with the learned weights it is 2," in drawn.get_label()
    assert "with keys of equal length 6." in drawn.get_label()
    widths = [smoothed(1, 1.0), smoothed(1, 1.0, d_k=None), smoothed(1, 1.0, d_k=5)]
    assert [figure.key_width(r) for r in as_records(widths)] == [16, 16, 5]


def test_scores_spread_as_the_root_of_their_width_unless_divided_by_it() -> None:
    """Queries and keys have unit variance: W_q and W_k of N(0, 1/D) read what LayerNorm returns."""
    examples = [Example(own, own) for own in torch.randint(4, 300, (20, 40)).tolist()]
    found = []
    for d_model, name in product((32, 128), figure.STARTS[:2]):
        torch.manual_seed(5)
        sizes: dict[str, Any] = {"d_model": d_model, "d_ff": 8, "n_heads": 2, "n_layers": 1}
        model = build(name, 300, **sizes, is_prenorm=True, dropout=0.0)
        model.embedding.weight.data *= 30  # positions hardly count
        for W in (W for a in measure.list_attentions(model) for W in (a.module.W_q, a.module.W_k)):
            torch.nn.init.normal_(W.weight, std=d_model**-0.5)
        found.append(measure.measure_start(model, collate(examples)))
    spread, largest = ([row[key] for row in found] for key in ("spread", "largest"))
    assert spread == pytest.approx([1, 4, 1, 8], rel=0.06)  # d_k: 16, 64
    assert largest[0] == pytest.approx(largest[2], abs=0.03)
    assert largest[2] + 0.2 < largest[1] < largest[3] - 0.1


@pytest.mark.parametrize("name", figure.STARTS)
def test_gradients_of_a_start_are_those_of_the_models_own_pass(name: str, tiny: Tiny) -> None:
    """And a softmax that has chosen has almost none."""
    model, batch, squares = tiny(name), collate(EXAMPLES), torch.zeros(2)
    found = measure.measure_start(model, batch)
    logits = model(batch.src, batch.src_mask, batch.tgt_in)
    torch.nn.functional.cross_entropy(logits.mT, batch.tgt_out, ignore_index=0).backward()
    for key, W in model.named_parameters():
        if key.endswith(("W_q.weight", "W_k.weight", "W_qkv.weight")):
            n = 2 * len(W) // 3 if name.startswith("gpt") else len(W)  # without W_v
            squares += torch.stack([x[:n].square().sum() for x in (W.grad, W.detach())])
            W.data *= 1e3
    assert found["relative"] == pytest.approx((squares[0] / squares[1]).sqrt().item(), rel=1e-3)
    chosen = measure.measure_start(model, batch)
    assert found["largest"] < 0.9 < 0.999 < chosen["largest"]
    assert chosen["median"] == 0 < found["median"] < found["root_mean_square"]


def test_the_record_of_the_scale_can_be_measured_again() -> None:
    record = files.read_json(ROOT / "results" / "scale.json")
    again = exhibit.measure({**exhibit.SETTINGS, "seeds": [2], "d_model": [64]})["rows"]
    rows = [row for row in record["rows"] if (row["d_k"], row["seed"]) == (16, 2)]
    for row, found in zip(rows, again, strict=True):
        assert row.pop("model") == found.pop("model")
        assert found == pytest.approx(row, rel=0.02)
    ax = figure.draw_scale(files.read_json(ROOT / "results" / "scale.json")).axes[3]
    own = [r["relative"] for r in record["rows"] if r.get("model") == "gpt_unscaled"]
    assert ax.lines[3].get_ydata()[1:] == pytest.approx(np.reshape(own[-9:], (3, 3)).mean(1))
