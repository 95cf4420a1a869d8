"""Looking up values by their keys."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from fake_records import as_arm, as_records, fake_record, metric

from seqmodels import EOS, MODELS
from seqmodels.experiments.sweep import make_spec, model_sizes
from seqmodels.experiments.task import Task
from seqmodels.models import VARIANTS
from seqmodels.report import style
from seqmodels.utils import files
from tasks.lookup import __main__ as lookup
from tasks.lookup import figure as lookup_figure
from tasks.lookup import memory


def make_lookup(*flags: str) -> Task:
    return lookup.make_task(lookup.PARSER.parse_args(["--size=smoke", *flags]))


@pytest.mark.parametrize("n", [2, 5, 16])
def test_every_answer_is_in_the_source(n: int) -> None:
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


@pytest.mark.parametrize(("source", "asked", "target", "chance"), [
    ("c 7 a 12 c 3 b 1 a 5 c 9", "a c b", "a a 5 c c 9 b b 1", 1 / 3),  # the last value of a key
    ("f 12 c a a 7 b f", "c b", "c c 7 b b 12", 1 / 2),  # the value of a value
])  # fmt: skip
def test_answers_by_hand(source: str, asked: str, target: str, chance: float) -> None:
    words = source.split()
    pair = lookup.make_pair([*zip(words[0::2], words[1::2], strict=True)], asked.split())
    assert pair[:2] == (source, target)
    assert lookup.n_pairs(pair) == len(words) // 2
    assert lookup.guess_last(pair) == chance


def test_keys_given_again_are_of_half_as_many() -> None:
    """Naming the last value is right as often as the baseline says; no other place is better."""
    rng, symbols, times = random.Random(5), lookup.make_symbols(30, is_again=True), Counter[int]()
    n, hits, chance, n_draws = 10, Counter[int](), 0.0, 4000
    for _ in range(n_draws):
        trained, query = lookup.draw_pair(rng, n, symbols), lookup.draw_query(rng, n, symbols)
        src, tgt = trained.src.split(), trained.tgt.split()
        keys, last = src[0::2], dict(zip(src[0::2], src[1::2], strict=True))
        assert len({*src[1::2]}) == n == len(keys)
        assert len({*keys}) <= n // 2
        assert [last[key] for key in tgt[0::3]] == tgt[2::3]
        assert len({*tgt[0::3]}) == len(tgt) // 3 in (len(last), max(1, len(last) // 2))
        times.update(Counter(keys).values())
        hits[query.src.split()[1::2].index(query.tgt.split()[2])] += 1
        chance += lookup.guess_last(query)
    assert times.keys() >= {1, 2, 3, 4}
    assert max(hits, key=hits.__getitem__) == n - 1
    assert hits[n - 1] / n_draws == pytest.approx(chance / n_draws, abs=0.02)
    assert hits[0] / n_draws < 0.1


def test_half_of_the_keys_lead_to_another_key() -> None:
    rng, symbols = random.Random(5), lookup.make_symbols(30, has_two_hops=True)
    is_first, n_asked = Counter[bool](), Counter[int]()
    for _ in range(300):
        pair = lookup.draw_pair(rng, 10, symbols)
        src, tgt = pair.src.split(), pair.tgt.split()
        values = dict(zip(src[0::2], src[1::2], strict=True))
        assert len(values) == 10
        assert sum(value in values for value in values.values()) == 5
        assert [values[values[key]] for key in tgt[0::3]] == tgt[2::3]
        is_first[src.index(tgt[0]) < src.index(values[tgt[0]])] += 1
        n_asked[len(tgt) // 3] += 1
    assert min(is_first.values()) > 100  # the first hop may come after the second
    assert n_asked.keys() == {2, 5}
    sizes = {lookup.n_pairs(pair) for pair in lookup.draw_pairs(rng, 200, 8, symbols)}
    assert sizes == {2, 4, 6, 8}


def test_the_data_of_the_records_are_drawn_as_before() -> None:
    once, again = make_lookup(), make_lookup("--again")
    assert once.data["sha256"].startswith("8e28f995f02506d1")
    assert "keys" in once.data["name"] != again.data["name"]
    assert once.data["sha256"] != again.data["sha256"]
    example, links = again.alignment_example
    assert links == [(11, 2), (9, 5), (1, 8)]
    assert all(example.src[s] == example.tgt[t] for s, t in links)
    assert max(test.baseline[-1] for test in again.tests) > 1 / 16
    hops = make_lookup("--two-hops")
    assert len({task.data["name"] for task in (once, again, hops)}) == 3
    assert {test.baseline[-1] for test in hops.tests} == {1 / 8}
    example, links = hops.alignment_example
    assert len(links) == 3 == len(example.scored())
    assert all(example.src[s] == example.tgt[t] for s, t in links)


def test_keys_given_again_have_their_own_folder() -> None:
    read = lookup.PARSER.parse_args
    assert read([]).out is None
    assert read(["--again"]).out == Path("runs/lookup-again-laptop")
    assert read(["--again", "--out", "x", "--dry-run"]).out == Path("x")
    assert read(["--two-hops"]).out == Path("runs/lookup-hops-laptop")
    with pytest.raises(SystemExit):
        read(["--two-hops", "--again"])


@pytest.mark.parametrize(
    ("most", "tested"), [(8, [2, 4, 6, 8, 12, 16]), (12, [3, 6, 9, 12, 18, 24])]
)
def test_values_alone_are_scored(most: int, tested: list[int]) -> None:
    task = make_lookup(f"--pairs={most}")
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
    example, links = task.alignment_example
    assert all(example.src[s] == example.tgt[t] for s, t in links)  # to the value, not the key
    assert len(links) == len(example.scored())


def test_a_width_holds_for_all_models() -> None:
    """Wider models have lower rates, except for the LSTM."""
    names = [*MODELS, "transformer_rotary"]
    assert "transformer_rotary" in VARIANTS
    wide = make_lookup("--width=48")
    assert {model_sizes(make_spec(name), wide)["d_model"] for name in names} == {48}
    assert len({model_sizes(make_spec(name), make_lookup())["d_model"] for name in names}) > 2
    flags = ([], ["--width=128"], ["--width=256"])
    equal, narrow, wide = (make_lookup(*given).recipes for given in flags)
    for name, recipe in equal.items():
        factor = 1 if name == "lstm_seq2seq" else 0.5
        assert (narrow[name].lr, wide[name].lr) == (recipe.lr, factor * recipe.lr)
    starts = [recipes["gpt"].sizes["init_std"] for recipes in (equal, narrow, wide)]
    assert starts == [0.08, 0.08, 0.04]


def test_every_seed_has_its_marker() -> None:
    """It is hollow for a seed that never learned."""
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
    left, right = lookup_figure.draw_transition(as_records(records)).axes
    assert [len(ax.lines) for ax in (left, right)] == [7, 6]  # and the line at 95 %
    filled: dict[str, list[tuple[float, bool]]] = {}
    for line in right.lines:
        is_filled = line.get_markerfacecolor() != "white"
        filled.setdefault(line.get_color(), []).append((line.get_xdata()[0], is_filled))
    expected = {style.line_style_of(m).colour: [mark for _, mark in seeds[m]] for m in seeds}
    assert filled == expected


def wide(model: str, seed: int, d_model: int, score: float) -> dict[str, Any]:
    """Make a record that keeps 3 d_model bytes per token and passes d_model, with this score."""
    record = fake_record(model, seed)
    record["model_config"] = {"d_model": d_model}
    record["data"] |= {"n_tokens_source": 17, "name": "keys"}
    lengths = [(n, n if model != "lstm_seq2seq" else 1) for n in (8, 16, 32)]
    record["source_bytes"] = [[n, d_model * k] for n, k in lengths]
    record["cache_bytes"] = [[n, 3 * d_model * k] for n, k in lengths]
    record["tests"][0]["baseline"] = "knows nothing"
    for i, bucket in enumerate(record["tests"][0]["buckets"]):  # the fourth is the longest trained
        bucket["bleu"] = metric(score if i == 3 else float(i), 0)
        bucket["baseline"] = {"value": 7.0 + i, "low": None, "high": None}
    return record


def test_a_point_is_its_bytes_and_its_score() -> None:
    one, two = (
        [wide("gpt", 1, d, 60 + d), wide("gpt", 2, d, 64 + d), wide("lstm_seq2seq", 1, d, d)]
        for d in (16, 32)
    )
    arm = [as_arm(wide("gpt", 1, 8, 50), sizes={"n_heads": 1})]
    other = [r | {"data": r["data"] | {"sha256": "11"}} for r in two]
    short = [r | {"train_config": r["train_config"] | {"tokens": 9}} for r in two]
    again = [r | {"data": r["data"] | {"sha256": "12", "name": "again"}} for r in (*one, *arm)]
    for folders in ([one], [one, other], [one, short]):
        assert lookup_figure.draw_across([*map(as_records, folders)]) == {}
    drawn = lookup_figure.draw_across([*map(as_records, (other, one, short, two, arm, again))])
    assert [*drawn] == ["widths-lookup"]
    figure = drawn["widths-lookup"]
    assert any("1–2 seeds" in text.get_text() for text in figure.texts)  # at each width
    by_title = {ax.get_title(): ax for ax in figure.axes}
    for title, model, sizes, means in (
        ("Keys", "gpt", [17 * 24, 17 * 48, 17 * 96], [50, 78, 94]),
        ("Keys", "lstm_seq2seq", [48, 96], [16, 32]),
        ("Again", "gpt", [17 * 24, 17 * 48], [50, 78]), ("Again", "lstm_seq2seq", [48], [16]),
    ):  # fmt: skip
        colour = style.line_style_of(model).colour
        line = next(its for its in by_title[title].lines if its.get_color() == colour)
        assert np.allclose(line.get_xdata(), sizes)
        assert np.allclose(line.get_ydata(), means)


def with_rules(model: str, seed: int, name: str, sha: str, score: float) -> dict[str, Any]:
    """Make a record of a rule on these data, whose buckets score 1, 2, … points more."""
    record = fake_record(model, seed)
    record["data"] |= {"name": name, "sha256": sha}
    record["tests"][0] |= {"baseline": "knows nothing"}
    for i, bucket in enumerate(record["tests"][0]["buckets"], 1):
        bucket["bleu"] = {"value": score + i, "low": score, "high": score + 9}
        bucket["baseline"] = {"value": 10.0 - i, "low": None, "high": None}
    return record


def test_each_rule_has_its_line_on_each_data() -> None:
    once = [with_rules("gated_deltanet", s, "keys and values", "01", 60 + s) for s in (1, 3)]
    again = [
        with_rules("gated_deltanet_sum", 1, "keys given again", "02", 20),
        with_rules("gated_deltanet", 1, "keys given again", "02", 80),
    ]
    fewer = [with_rules("gated_deltanet", 1, "keys given again", "03", 33)]
    other = [with_rules("gpt", 1, "keys and values", "01", 50)]
    draw = lookup_figure.draw_rules_across
    assert draw([*map(as_records, (once, other))]) == {}  # one rule says nothing
    ((name, figure),) = draw([*map(as_records, (fewer, other, again, once))]).items()
    assert (name, "last value counts" in figure.texts[1].get_text()) == ("rules-lookup", True)
    by_title = {ax.get_title(): ax for ax in figure.axes}
    assert by_title.keys() == {"Keys and values", "Keys given again"}
    for title, scores in (("Keys and values", [62]), ("Keys given again", [20, 80])):
        lines = [line for line in by_title[title].lines if len(line.get_xdata()) == 8]
        firsts = [line.get_ydata()[0] for line in lines]
        assert firsts == [*(score + 1 for score in scores), 9]  # the baseline comes last


# ------------------------------------------------------------------------- memory without training


def test_what_orthonormal_keys_keep_is_known() -> None:
    rng = np.random.default_rng(2)
    n, settings = 8, {"n_draws": 200, "width": 32}
    k = np.tile(np.eye(32)[:n], (200, 1, 1))
    v, old = (memory.draw_vectors(rng, n, settings) for _ in range(2))
    rules = memory.RULES.items()
    assert {memory.read_share(k, v, n, rule) for _, rule in rules} == {100}
    again = np.concatenate([k, k], 1), np.concatenate([old, v], 1)
    shares = {name: memory.read_share(*again, n, rule) for name, rule in rules}
    assert shares.pop("add up") < 70  # the sum of two values is as near to either
    assert shares.pop("forget, α 0.95") > 90
    assert {*shares.values()} == {100}


def test_the_record_of_the_memories_can_be_measured_again() -> None:
    record = files.read_json(ROOT / "results" / "memory.json")
    few = {**memory.SETTINGS, "n_pairs": memory.SETTINGS["n_pairs"][:3]}
    measured = memory.measure(few)["rows"]
    assert measured == [row for row in record["rows"] if row["n_pairs"] in few["n_pairs"]]
    assert len(measured) == 3 * 3 * len(memory.RULES)
    axes = memory.draw(record).axes
    assert [len(ax.lines) for ax in axes] == [len(memory.RULES)] * 3
    sums = [row for row in record["rows"] if row["rule"] == "add up"]
    assert [y for ax in axes for y in ax.lines[0].get_ydata()] == [row["right"] for row in sums]
    tossed = [row["right"] for row in sums if row["keys"] == "again" and row["n_pairs"] <= 16]
    assert tossed == [pytest.approx(50, abs=4)] * 4
