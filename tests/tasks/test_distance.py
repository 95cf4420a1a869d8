"""Gradients by distance and depth, and what a probe reads."""

import argparse
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from conftest import TINY, Pairs, Tiny
from fake_records import as_records, fake_record
from torch import Tensor, nn
from torch.testing import assert_close

from seqmodels import MODELS, SequenceModel
from seqmodels.data.batches import Example
from seqmodels.models import PAPERS
from seqmodels.models.memory import rotate
from seqmodels.report import style
from tasks import analyses
from tasks.distance import __main__ as distance
from tasks.distance import figure as distance_figure
from tasks.distance import measure


class Decay(SequenceModel):
    """h_n = a h_{n-1} + e_n, and the logits are h: a linear recurrence."""

    def __init__(self, a: float):
        super().__init__(SimpleNamespace(vocab_size=9))
        self.a, self.embed = a, nn.Embedding(9, 9)

    def encode(self, src: Tensor, src_mask: Tensor) -> tuple[Tensor]:
        return (F.one_hot(src, 9).float(),)

    def forward(self, src: Tensor, src_mask: Tensor, tgt_in: Tensor) -> Tensor:
        h, logits = torch.zeros(len(src), 9), []
        for e in [*self.embed(src).unbind(1), *self.embed(tgt_in).unbind(1)]:
            h = self.a * h + e
            logits.append(h)
        return torch.stack(logits[src.shape[1] :], 1)


EXAMPLES = [Example([4, 5, 6, 7], [4, 5, 6, 7]), Example([8, 8, 4, 6], [8, 8, 4, 6])]


def test_the_gradient_of_a_linear_recurrence_is_known() -> None:
    """Quartiles have their own names, and a median is no mean."""
    model = Decay(0.5)
    norms = analyses.gradient_norms(model, analyses.batch_of(model, EXAMPLES))
    place = torch.arange(4)
    assert_close(norms, 0.5 ** (4 + place.view(4, 1) - place).float().expand(2, 4, 4))
    rows = analyses.measure_gradients(Decay(2.0), model, EXAMPLES)
    for when, a in (("before", 0.5), ("after", 2.0)):
        medians = {row["distance"]: row["median"] for row in rows if row["when"] == when}
        assert medians == pytest.approx({d: a ** (d - 4) for d in range(1, 8)})
    row, *_ = analyses.by_distance(torch.tensor([1.0, 1, 2, 5, 100]).view(5, 1, 1))
    assert row == {"distance": 1, "low": 0.5, "median": 1.0, "high": 2.5}


def test_the_ends_of_a_source_by_depth(fresh: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = measure.ends_by_length(Decay(0.5), "after", [EXAMPLES])
    assert rows == [{"when": "after", "length": 4, "near": 0.5, "far": 0.5**4, "ratio": 0.5**3}]
    monkeypatch.setattr(measure, "N_STARTS", 2)
    model = fresh("lstm_seq2seq", n_layers=2, is_reversed=False)
    groups = [[Example(e.src[:n], e.tgt) for e in EXAMPLES] for n in (2, 4)]
    rows = measure.measure_depth(model, model, groups)
    before, after = ([row for row in rows if row["when"] == when] for when in ("before", "after"))
    keys = [(row["start"], row["n_layers"], row["forget_bias"], row["length"]) for row in before]
    assert keys == [*product((1, 2), (1, 2, 3, 4, 5), (0.0, 2.0), (2, 4))]
    assert len({row["far"] for row in before}) == len(before)
    assert after == measure.ends_by_length(model.double(), "after", groups)


def test_depth_is_drawn_for_models_with_one_vector() -> None:
    """Seeds are averaged by their factors: of 1 and 16 the mean is 4."""
    lstm, other, gpt = (
        record(*r, 0.5) for r in (("lstm_seq2seq", 1), ("lstm_seq2seq", 2), ("gpt", 1))
    )
    for each, by in ((lstm, 1), (other, 16), (gpt, 3)):
        each["analyses"]["depth"] = [
            {"when": when, "n_layers": n, "forget_bias": bias, "length": length,
             "near": by * (n + bias), "far": by * (n + bias) / length}
            for when in ("before", "after") for n in (1, 2) for bias in (0.0, 2.0)
            for length in (5, 9)
        ]  # fmt: skip
    axes = distance_figure.draw(as_records([lstm, other, gpt]))["depth"].axes
    assert [[list(line.get_ydata()) for line in ax.lines] for ax in axes] == 2 * [
        [pytest.approx([4 * (n + bias) / x for x in (1, 5, 9)]) for n in (1, 2)] for bias in (0, 2)
    ]
    shallow = as_records([record("lstm_seq2seq", 1, 0.5), gpt])
    assert [*distance_figure.draw(shallow)] == ["distance"]


def test_gradients_reach_exactly_the_source_tokens(name: str, tiny: Tiny, pairs: Pairs) -> None:
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    if "is_reversed" in TINY[name] or name == "lstm_seq2seq":
        model = tiny(name, is_reversed=False)
    logits, embedded = analyses.source_embeddings(model, src, src_mask, tgt_in)
    assert_close(logits, model(src, src_mask, tgt_in))
    assert not any(module._forward_hooks for module in model.modules())
    (grad,) = torch.autograd.grad(logits[:, -1].square().sum(), embedded, retain_graph=True)
    is_used = grad[:, : src.shape[1]].norm(dim=-1) > 1e-9
    if PAPERS[name].memory == "fixed":  # pads are read first
        src_mask = rotate(src_mask, src_mask.sum(1))
    assert torch.equal(is_used, src_mask)


@pytest.mark.parametrize("name", MODELS)
def test_the_last_place_is_read(name: str, tiny: Tiny) -> None:
    model = tiny(name)
    src = torch.tensor([[4, 5, 6, 7, 8, 9, 10], [4, 4, 6, 7, 8, 9, 10]])
    state = model.encode(src, src > 0)
    if name == "bahdanau":
        parts = [state.h[:, 6], state.keys[:, 6]]
    elif name in ("transformer", "gpt"):
        cache = state.memory if name == "transformer" else state.cache
        parts = [t[:, :, 6] for layer in cache.layers for t in layer]
    else:  # all there is; lengths are not
        parts = [t for t in state if t.is_floating_point()]
    assert_close(measure.state_at_last_token(state, 7), torch.cat([t.flatten(1) for t in parts], 1))


def test_a_linear_probe_generalises_and_its_control_does_not() -> None:
    labels = torch.randint(4, 20, (900, 3))
    x = torch.cat([F.one_hot(labels[:, 1], 20).double(), torch.ones(900, 1).double()], 1)
    found, control = (measure.score_probes(x, labels, 600, c) for c in (False, True))
    assert found[1] == 100
    assert max(found[0], found[2], *control) < 15
    random = torch.randn(900, 500).double()  # nearly as many inputs as texts: they fit anything
    assert measure.score_probes(random, labels, 600, False).max() < 15


def test_probe_rows_count_back_from_the_last_token() -> None:
    model = Decay(0.5)
    drawn = torch.randint(4, 9, (900, 6)).tolist()
    rows = measure.probe_states(model, model, [Example(src, src) for src in drawn])
    assert [row["back"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert rows[0]["accuracy"] == 100
    assert max(row["accuracy"] for row in rows[1:]) < 40


def test_texts_are_said_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    few = distance.SIZES["full"] | {"n_train": 40}
    monkeypatch.setitem(distance.SIZES, "full", few)
    task = distance.make_task(argparse.Namespace(size="full", tokens=None))
    assert all(e.tgt == [*e.src, 2] for e in [*task.train, *task.valid, *task.tests[0].examples])
    gradients, probe = (task.measure[name].keywords["examples"] for name in ("gradients", "probe"))
    assert len(gradients) == few["n_gradient"]
    assert len(probe) == few["n_probe"]
    assert all(e.tgt == e.src and len(e.src) == distance.LONGEST for e in gradients)
    assert {len(e.src) for e in probe} == {distance.LONGEST}
    assert not {str(e.src) for e in probe} & {str(e.src) for e in [*gradients, *task.train]}
    assert task.recipes.keys() == MODELS.keys()
    assert min(r.sizes.get("n_positions", 99) for r in task.recipes.values()) > 2 * 24 + 10


def record(model: str, seed: int, a: float, later: float = 1.0) -> dict[str, Any]:
    """Make a record whose gradient falls by `a` per token, and by `later` after training."""
    made = fake_record(model, seed)
    gradients = [
        {"when": when, "distance": d, "low": f**d / 2, "median": f**d, "high": f**d * 2}
        for when, f in (("before", a), ("after", later))
        for d in range(1, 8)
    ]
    probe = [{"back": i, "accuracy": 100.0 / i, "control": 5.0 + seed} for i in range(1, 5)]
    made["analyses"] = {"gradients": gradients, "probe": probe}
    return made


def test_each_panel_has_its_rows() -> None:
    records = [record("rnn_encdec", 1, 0.1), record("lstm_seq2seq", 1, 0.5)]
    records += [record("gpt", 1, 1.0), record("gpt", 2, 3.0, 0.5)]
    before, after, probe = distance_figure.draw_distance(as_records(records)).axes
    lines = {ax: {line.get_color(): line for line in ax.lines} for ax in (before, after, probe)}
    colour, other = (style.line_style_of(m).colour for m in ("gpt", "rnn_encdec"))
    assert lines[before][colour].get_ydata()[1] == pytest.approx((1 + 9) / 2)
    assert lines[after][colour].get_ydata()[1] == pytest.approx((1 + 0.25) / 2)
    assert [*lines[before][other].get_xdata()] == [1, 2, 3, 4, 5, 6, 7]
    assert [*lines[probe][colour].get_ydata()] == pytest.approx([100, 50, 100 / 3, 25])
    controls = [line.get_ydata()[0] for line in probe.lines if line.get_color() == "#AAAAAA"]
    assert sorted(controls) == [6.0, 6.0, 6.5]
    marks = [line.get_xdata()[0] for line in before.lines if line.get_linestyle() == ":"]
    assert marks == [4]
    assert before.get_ylim() == after.get_ylim()
