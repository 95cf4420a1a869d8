"""Tasks on random symbols: recall, look-up, the bottleneck, and distances."""

import argparse
import math
import random
from collections import Counter
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import TINY, Pairs, Tiny
from fake_records import fake_record, metric
from torch import Tensor, nn
from torch.testing import assert_close

from seqmodels import EOS, MODELS, SequenceModel
from seqmodels.data.batches import Example
from seqmodels.experiments.specs import make_spec, model_sizes
from seqmodels.experiments.task import Task
from seqmodels.models import VARIANTS, papers
from seqmodels.models.bahdanau import Bahdanau
from seqmodels.report import style
from tasks.bottleneck import __main__ as bottleneck
from tasks.bottleneck import figure as bottleneck_figure
from tasks.distance import __main__ as distance
from tasks.distance import figure as distance_figure
from tasks.distance import measure
from tasks.lookup import __main__ as lookup
from tasks.lookup import figure as lookup_figure
from tasks.recall import __main__ as recall
from tasks.synthetic import gradients


# ------------------------------------------------------------------------------------------- Recall
@pytest.mark.parametrize("kind", recall.KINDS)
def test_answers(kind: str) -> None:
    """Keeps out a target that the source does not fix."""
    rng = random.Random(2)
    for n in (4, 7, 128):
        pair = recall.draw_pair(rng, kind, n)
        first, *symbols = pair.src.split()
        assert (first, len(symbols), recall.n_symbols(pair)) == (kind, n, n)
        assert pair.tgt.split() == (symbols if kind == "copy" else symbols[::-1]) != symbols[::2]
        assert {*symbols} <= {*recall.SYMBOLS}


def test_tests_have_exact_lengths() -> None:
    """Keeps out bins that do not hold the lengths that they name, and links of another example."""
    task = recall.make_task(argparse.Namespace(size="smoke", tokens=None))
    size = recall.SIZES["smoke"]
    for kind, test in zip(recall.KINDS, task.tests, strict=True):
        assert test.name == kind
        assert sorted(test.x) == sorted([4, 8, 16, 32] * size["per_length"])
        assert [len(e.src) - 2 for e in test.examples] == test.x  # the kind and EOS
        assert [len(e.scored()) for e in test.examples] == [n + 1 for n in test.x]
        assert test.max_train_length == max(len(e.src) for e in task.train) - 2 == 16
        assert {task.tokenizer.decode(e.src).split()[0] for e in test.examples} == {kind}
    assert all(e.tgt[-1] == EOS for e in task.train)
    assert {len(e.tgt) - 1 for e in task.train} == {*range(4, 17, 2)}
    assert {task.tokenizer.decode(e.src).split()[0] for e in task.train} == {"copy", "reverse"}
    example, links = task.alignment_example
    assert len(links) == len(example.tgt) - 1
    assert all(example.src[s] == example.tgt[t] for s, t in links)


# ------------------------------------------------------------------------------------------ Look-up
def make_lookup(**given: object) -> Task:
    flags = {"size": "smoke", "tokens": None, "width": None, "pairs": 8} | given
    return lookup.make_task(argparse.Namespace(**flags))


@pytest.mark.parametrize("n", [2, 5, 16])
def test_every_answer_is_in_the_source(n: int) -> None:
    """Keeps out values of other keys, repeated keys, a fixed question, and all keys asked for."""
    rng, places, asked = random.Random(n), Counter(), Counter()
    symbols = lookup.make_symbols(30)
    assert symbols.keys[25:28] == ["z", "aa", "bb"]
    for _ in range(200):
        trained, query = lookup.draw_pair(rng, n, symbols), lookup.draw_query(rng, n, symbols)
        asked[len(trained.tgt.split()) // 3] += 1
        assert len(query.tgt.split()) == 3
        for pair in (trained, query):
            src, tgt = pair.src.split(), pair.tgt.split()
            values = dict(zip(src[0::2], src[1::2], strict=True))
            assert len(values) == len(set(values.values())) == n == lookup.n_pairs(pair)
            assert values.keys() <= set(symbols.keys)
            assert set(values.values()) <= set(symbols.values)
            assert tgt[0::3] == tgt[1::3]
            assert [values[key] for key in tgt[0::3]] == tgt[2::3]
            assert len(set(tgt[0::3])) == len(tgt) // 3
            places[src.index(tgt[0]) // 2] += 1
    assert set(places) == set(range(n))
    assert asked.keys() == {n // 2, n}
    assert 70 < asked[n] < 130


TESTED = [(8, [2, 4, 6, 8, 12, 16]), (12, [3, 6, 9, 12, 18, 24])]


@pytest.mark.parametrize(("most", "tested"), TESTED)
def test_values_alone_are_scored(most: int, tested: list[int]) -> None:
    """Keeps out points for keys, which are given, and a test in which later values help."""
    task = make_lookup(pairs=most)
    (test,) = task.tests
    for example in (*task.train, *task.valid, *test.examples):
        assert task.tokenizer.tokens(example.scored()) == task.tokenizer.tokens(example.tgt)[2::3]
        assert example.src[-1] == EOS
    assert {len(e.tgt) for e in (*task.valid, *test.examples)} == {3}
    assert {len(e.src) for e in task.valid} == {2 * most + 1}
    assert max(len(e.src) for e in task.train) == task.data["n_tokens_source"]
    assert Counter(test.x) == dict.fromkeys(tested, lookup.SIZES["smoke"]["per_number"])
    assert [len(e.src) for e in test.examples] == [2 * n + 1 for n in test.x]
    assert test.baseline == [1 / n for n in test.x]
    assert task.training["precision"] == "float32"
    example, links = task.alignment_example
    assert all(example.src[s] == example.tgt[t] for s, t in links)  # to the value, not the key
    assert len(links) == len(example.scored())


def test_widths_and_sizes() -> None:
    """Keeps out other widths or sizes, and a rate with which GPT does not learn at 256."""
    names = [*MODELS, "transformer_rotary"]
    assert "transformer_rotary" in VARIANTS
    wide = make_lookup(width=48)
    assert {model_sizes(make_spec(name), wide)["d_model"] for name in names} == {48}
    assert len({model_sizes(make_spec(name), make_lookup())["d_model"] for name in names}) > 2
    equal, narrow, wide = (make_lookup(width=width).recipes for width in (None, 128, 256))
    for name, recipe in equal.items():
        factor = 1 if name == "lstm_seq2seq" else 0.5
        assert (narrow[name].lr, wide[name].lr) == (recipe.lr, factor * recipe.lr)
    starts = [recipes["gpt"].sizes["init_std"] for recipes in (equal, narrow, wide)]
    assert starts == [0.08, 0.08, 0.04]


def test_every_seed_has_its_marker() -> None:
    """Keeps out a failed seed that is drawn as if it had learned at the end."""
    seeds: dict[str, list[tuple[list[float], tuple[int, bool]]]] = {
        "gpt": [
            ([5, 20, 96, 99], (300, True)), ([5, 95, 90, 99], (200, True)),
            ([5, 20, 94.9, 99], (400, True)),
        ],
        "lstm_seq2seq": [([5, 20, 30, 40], (400, False))],
        "bahdanau": [([5, 20, 30, 97], (400, True)), ([5, 20, 30, 40], (400, False))],
    }  # fmt: skip
    records = []
    for model, accuracies in seeds.items():
        for seed, (accuracy, _) in enumerate(accuracies, 1):
            record = fake_record(model, seed)
            steps = [{"step": 100 * i, "valid_accuracy": a} for i, a in enumerate(accuracy, 1)]
            record["curve"] = [record["curve"][0] | step for step in steps]
            record["tests"][0]["baseline"] = "knows nothing"
            records.append(record)
    left, right = lookup_figure.draw_transition(records).figure.axes
    assert [len(ax.lines) for ax in (left, right)] == [7, 6]  # and the line at 95 %
    filled: dict[str, list[tuple[float, bool]]] = {}
    for line in right.lines:
        is_filled = line.get_markerfacecolor() != "white"
        filled.setdefault(line.get_color(), []).append((line.get_xdata()[0], is_filled))
    line_styles = style.line_styles_for(papers())
    assert filled == {line_styles[m].colour: [mark for _, mark in seeds[m]] for m in seeds}


def wide(model: str, seed: int, d_model: int, score: float) -> dict[str, Any]:
    """Make a record of this width, which passes d_model bytes per token, with one score."""
    record = fake_record(model, seed)
    record["model_config"] = {"d_model": d_model}
    record["data"] |= {"n_tokens_source": 17}
    grows = model != "lstm_seq2seq"
    record["source_bytes"] = [[n, d_model * (n if grows else 1)] for n in (8, 16, 32)]
    for bucket in record["tests"][0]["buckets"]:
        bucket["bleu"] = {"value": score, "low": score, "high": score}
    return record


def test_a_point_is_its_bytes_and_its_score() -> None:
    """Keeps out bytes of another length, widths for bytes, a seed for the mean, two tasks mixed."""
    one, two = (
        [wide("gpt", 1, d, 60 + d), wide("gpt", 2, d, 64 + d), wide("lstm_seq2seq", 1, d, d)]
        for d in (16, 32)
    )
    other = [r | {"data": r["data"] | {"sha256": "11"}} for r in two]
    short = [r | {"train_config": r["train_config"] | {"tokens": 9}} for r in two]
    for folders in ([one], [one, other], [one, short]):
        assert lookup_figure.draw_across(folders) == {}
    drawn = lookup_figure.draw_across([one, two])
    assert [*drawn] == ["widths-lookup"]
    plot = drawn["widths-lookup"].figure
    assert any("1–2 seeds" in text.get_text() for text in plot.texts)  # at each width
    for model, sizes, means in (
        ("gpt", [17 * 16, 17 * 32], [78, 94]), ("lstm_seq2seq", [16, 32], [16, 32]),
    ):  # fmt: skip
        for ax, x in zip(plot.axes, (sizes, [16, 32]), strict=True):
            colour = style.line_styles_for([model])[model].colour
            line = next(line for line in ax.lines if line.get_color() == colour)
            assert np.allclose(line.get_xdata(), x)
            assert np.allclose(line.get_ydata(), means)


# ----------------------------------------------------------------------------------- The bottleneck
NAMES = bottleneck.MODELS


def test_a_vector_is_a_weighted_mean_of_real_annotations(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out pads that are pooled, and a softmax over the queries instead of the words."""
    src, src_mask, _ = pairs
    model = tiny("bahdanau_4")
    h, state = Bahdanau.encode(model, src, src_mask).h, model.encode(src, src_mask)
    for b, n in enumerate(src_mask.sum(1).tolist()):
        for k, query in enumerate(model.pooling.query.weight):
            scores = torch.stack([(query @ h[b, s]).exp() for s in range(n)])
            mean = sum(scores[s] / scores.sum() * h[b, s] for s in range(n))
            assert_close(state.h[b, k], mean)
    assert state.src_mask.all()
    assert_close(state.keys, model.attention.U_a(state.h))


def test_pooled_annotations_are_the_chapter(tiny: Tiny, pairs: Pairs, monkeypatch: Any) -> None:
    """Keeps out a decoder that attends to anything else than the pooled vectors."""
    src, _, tgt_in = pairs
    mask = torch.ones_like(src, dtype=torch.bool)
    published, model = tiny("bahdanau"), tiny("bahdanau_1", n_queries=5)
    model.load_state_dict(published.state_dict(), strict=False)
    one_each = torch.eye(5).double().expand(len(src), -1, -1)
    monkeypatch.setattr(model.pooling, "attention_weights", lambda h, src_mask: one_each)
    assert_close(model(src, mask, tgt_in), published(src, mask, tgt_in))
    assert_close(model.align(src, mask, tgt_in), published.align(src, mask, tgt_in))


def test_targets_are_copies_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out an end that is scored with the symbols, and lengths that are not trained."""
    few = bottleneck.SIZES["full"] | {"n_train": 200, "n_valid": 10}
    monkeypatch.setitem(bottleneck.SIZES, "full", few)
    task = bottleneck.make_task(argparse.Namespace(size="full", tokens=None))
    (test,) = task.tests
    for e in (*task.train, *task.valid, *test.examples):
        assert [*e.tgt, EOS] == list(e.src)
        assert not e.unscored
        assert len(e.tgt) <= few["max_length"]
    assert [len(e.tgt) for e in test.examples] == list(test.x)
    assert task.data["n_symbols"] == 64
    assert not test.is_generated
    sizes = {name: model_sizes(make_spec(name), task) for name in NAMES}
    widths = [own["d_model"] for name, own in sizes.items() if name.startswith("rnn_encdec")]
    assert widths == [32, 64, 128, 256, 512]
    pooled = [own for name, own in sizes.items() if name.startswith("bahdanau")]
    assert [own.pop("n_queries", None) for own in pooled] == [1, 2, 4, 8, 16, None]
    assert len({str(own) for own in pooled}) == 1


LENGTHS = (1, 4, 8)


def carrying(model: str, bits: list[float], seed: int = 1) -> dict[str, Any]:
    """Make a record of a model that carries so many bits at each length, ± 1 bit a symbol."""
    r = fake_record(model, seed) | {"model_config": {"d_model": 64, **VARIANTS[model].sizes}}
    r["data"] |= {"name": "random symbols", "n_symbols": 64}
    (test,), buckets = r["tests"], []
    for n, b in zip(LENGTHS, bits, strict=True):
        accuracy = metric(100 * b / (6 * n), 1, 100)
        nats = metric((6 - b / n) * math.log(2), math.log(2))
        buckets.append({"low": n, "high": n, "n": 100, "token_accuracy": accuracy, "nats": nats})
    test |= {"name": "copy", "primary_metric": "token_accuracy"}
    test |= {"max_train_length": 8, "buckets": buckets}
    return r


RECORDS = [
    carrying("rnn_encdec_32", [6, 20, 16]), carrying("rnn_encdec_32", [6, 22, 20], 2),
    carrying("rnn_encdec_128", [6, 24, 40]), carrying("bahdanau_2", [6, 24, 36]),
]  # fmt: skip


def test_bits_are_those_of_the_symbols_less_the_loss() -> None:
    """Keeps out nats for bits, a loss per token for one per text, and a band upside down."""
    left, right = bottleneck_figure.draw_bits(RECORDS).figure.axes
    expected = {"rnn_encdec_32": [6, 21, 18], "bahdanau_2": [6, 24, 36]}
    for model, bits in expected.items():
        colour = style.line_styles_for([model])[model].colour
        line = next(line for line in left.lines if line.get_color() == colour)
        assert list(line.get_xdata()) == list(LENGTHS)
        assert list(line.get_ydata()) == pytest.approx(bits)
    found = bottleneck_figure.compute_bits({"bahdanau_2": RECORDS[3:]})["bahdanau_2"][0, 2]
    assert list(found) == pytest.approx([36, 36 - 8, 36 + 8])
    assert list(right.lines[0].get_xdata()) == [32, 128]
    assert list(right.lines[0].get_ydata()) == pytest.approx([(20 + 22) / 2, 40])
    assert [text.get_text() for text in right.texts] == ["0.66", "0.31"]


def test_a_length_is_reached_between_two_lengths() -> None:
    """Keeps out the next length tested for the one at which the accuracy falls."""
    n = np.array([1.0, 4.0, 8.0])
    assert bottleneck_figure.interpolate_reach(np.array([100.0, 90, 50]), n, 70) == pytest.approx(6)
    assert bottleneck_figure.interpolate_reach(np.array([100.0, 90, 50]), n, 40) == math.inf
    assert math.isnan(bottleneck_figure.interpolate_reach(np.array([60.0, 50, 40]), n, 70))
    by_width, by_number = bottleneck_figure.draw_reach(RECORDS).figure.axes
    at_90 = by_width.lines[0]
    assert list(at_90.get_xdata()) == [32, 128]
    # 32 numbers: from 87.5 % at 4 symbols, so between 1 and 4; 128: from 100 % at 4 to 83 % at 8
    expected = [1 + 3 * 10 / 12.5, 4 + 4 * 10 / (100 - 100 * 40 / 48)]
    assert list(at_90.get_ydata()) == pytest.approx(expected, rel=0.02)
    assert list(by_number.lines[0].get_xdata()) == [2]


# ---------------------------------------------------------------------------------------- Distances
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
    """Keeps out a distance off by one, another token's loss, and after training as before.

    Quartiles have their own names, and a median is no mean.
    """
    model = Decay(0.5)
    norms = gradients.gradient_norms(model, gradients.batch_of(model, EXAMPLES))
    place = torch.arange(4)
    assert_close(norms, 0.5 ** (4 + place.view(4, 1) - place).float().expand(2, 4, 4))
    rows = gradients.measure_gradients(Decay(2.0), model, EXAMPLES)
    for when, a in (("before", 0.5), ("after", 2.0)):
        medians = {row["distance"]: row["median"] for row in rows if row["when"] == when}
        assert medians == pytest.approx({d: a ** (d - 4) for d in range(1, 8)})
    row, *_ = gradients.by_distance(torch.tensor([1.0, 1, 2, 5, 100]).view(5, 1, 1))
    assert row == {"distance": 1, "low": 0.5, "median": 1.0, "high": 2.5}


def test_the_ends_of_a_source_by_depth(fresh: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out far for near, another target token, and one start for several depths."""
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
    """Keeps out the near end for the far one, a panel's other bias, and records without depths."""
    lstm, gpt = record("lstm_seq2seq", 1, 0.5), record("gpt", 1, 0.5)
    rows = [
        {"when": when, "n_layers": n, "forget_bias": bias, "length": length,
         "near": n + bias, "far": (n + bias) / length}
        for when in ("before", "after") for n in (1, 2) for bias in (0.0, 2.0) for length in (5, 9)
    ]  # fmt: skip
    lstm["analyses"]["depth"] = gpt["analyses"]["depth"] = rows
    axes = distance_figure.draw([lstm, gpt])["depth"].figure.axes
    assert [[list(line.get_ydata()) for line in ax.lines] for ax in axes] == 2 * [
        [pytest.approx([n + bias, (n + bias) / 5, (n + bias) / 9]) for n in (1, 2)]
        for bias in (0, 2)
    ]
    assert [*distance_figure.draw([record("lstm_seq2seq", 1, 0.5), gpt])] == ["distance"]


def test_gradients_reach_the_source(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out the target's embeddings for the source's, and hooks that stay on the model."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    if "is_reversed" in TINY[name] or name == "lstm_seq2seq":
        model = tiny(name, is_reversed=False)
    logits, embedded = gradients.source_embeddings(model, src, src_mask, tgt_in)
    assert_close(logits, model(src, src_mask, tgt_in))
    assert not any(module._forward_hooks for module in model.modules())
    (grad,) = torch.autograd.grad(logits[:, -1].square().sum(), embedded, retain_graph=True)
    is_used = grad[:, : src.shape[1]].norm(dim=-1) > 0
    assert torch.equal(is_used, src_mask)


@pytest.mark.parametrize("name", MODELS)
def test_the_last_place_is_read(name: str, tiny: Tiny) -> None:
    """Keeps out another place than the last, a mask, and what is not at any place."""
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


def test_a_probe_finds_what_is_there() -> None:
    """Keeps out a control above chance, and accuracy on the texts to which the probe was fitted."""
    labels = torch.randint(4, 20, (900, 3))
    x = torch.cat([F.one_hot(labels[:, 1], 20).double(), torch.ones(900, 1).double()], 1)
    found, control = (measure.accuracies(x, labels, 600, c) for c in (False, True))
    assert found[1] == 100
    assert max(found[0], found[2], *control) < 15
    random = torch.randn(900, 500).double()  # nearly as many inputs as texts: they fit anything
    assert measure.accuracies(random, labels, 600, False).max() < 15


def test_probe_rows_count_back_from_the_last_token() -> None:
    """Keeps out the first token as the last, the only one that the last place has."""
    model = Decay(0.5)
    drawn = torch.randint(4, 9, (900, 6)).tolist()
    rows = measure.probe_states(model, model, [Example(src, src) for src in drawn])
    assert [row["back"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert rows[0]["accuracy"] == 100
    assert max(row["accuracy"] for row in rows[1:]) < 40


def test_texts_are_said_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a source that ends with a mark, lengths that differ, and texts of training."""
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
    """Keeps out the panels in the wrong order, and seeds that are drawn as one another."""
    records = [record("rnn_encdec", 1, 0.1), record("lstm_seq2seq", 1, 0.5)]
    records += [record("gpt", 1, 1.0), record("gpt", 2, 3.0, 0.5)]
    before, after, probe = distance_figure.draw_distance(records).figure.axes
    lines = {ax: {line.get_color(): line for line in ax.lines} for ax in (before, after, probe)}
    colour, other = (style.line_styles_for(papers())[m].colour for m in ("gpt", "rnn_encdec"))
    assert lines[before][colour].get_ydata()[1] == pytest.approx((1 + 9) / 2)
    assert lines[after][colour].get_ydata()[1] == pytest.approx((1 + 0.25) / 2)
    assert [*lines[before][other].get_xdata()] == [1, 2, 3, 4, 5, 6, 7]
    assert [*lines[probe][colour].get_ydata()] == pytest.approx([100, 50, 100 / 3, 25])
    controls = [line.get_ydata()[0] for line in probe.lines if line.get_color() == "#AAAAAA"]
    assert sorted(controls) == [6.0, 6.0, 6.5]
    marks = [line.get_xdata()[0] for line in before.lines if line.get_linestyle() == ":"]
    assert marks == [4]
    assert before.get_ylim() == after.get_ylim()
