"""Values looked up by their keys, and balls under cups."""

import random
from collections import Counter
from typing import Any

import pytest
from conftest import RESULTS
from fake_records import as_records, fake_record

from seqmodels import EOS
from seqmodels.experiments.sweep import expand_specs, model_sizes
from seqmodels.experiments.task import Task
from seqmodels.models import PAPERS
from seqmodels.records.io import load
from tasks.memory import __main__ as memory
from tasks.memory import figure, lookup, tracking


def make(*flags: str) -> Task:
    return memory.make_task(memory.PARSER.parse(["--size=smoke", *flags]))


@pytest.mark.parametrize("n", [2, 5, 16])
def test_every_answer_is_in_the_source(n: int) -> None:
    rng, places, asked = random.Random(n), Counter[int](), Counter[int]()
    symbols = lookup.make_symbols(30)
    for i in range(400):
        pair = lookup.draw_pair(rng, n, symbols, is_query=bool(i % 2))
        src, tgt = pair.src.split(), pair.tgt.split()
        values = dict(zip(src[0::2], src[1::2], strict=True))
        assert len(values) == len(set(values.values())) == n
        assert tgt[0::3] == tgt[1::3]
        assert [values[key] for key in tgt[0::3]] == tgt[2::3]
        assert len(set(tgt[0::3])) == len(tgt) // 3
        asked[len(tgt) // 3, bool(i % 2)] += 1
        places[src.index(tgt[0]) // 2] += 1
    assert set(places) == set(range(n))
    assert asked.keys() == {(1, True), (n // 2, False), (n, False)}
    assert 70 < asked[n, False] < 130


@pytest.mark.parametrize(("source", "asked", "target", "chance"), [
    ("c 7 a 12 c 3 b 1 a 5 c 9", "a c b", "a a 5 c c 9 b b 1", 1 / 3),  # the last value of a key
    ("f 12 c a a 7 b f", "c b", "c c 7 b b 12", 1 / 2),  # the value of a value
])  # fmt: skip
def test_answers_by_hand(source: str, asked: str, target: str, chance: float) -> None:
    words = source.split()
    pair = lookup.make_pair([*zip(words[0::2], words[1::2], strict=True)], asked.split())
    assert pair[:2] == (source, target)
    assert lookup.guess_last(pair) == chance
    assert lookup.make_symbols(30).keys[25:28] == ["z", "aa", "bb"]


def test_keys_given_again_are_of_half_as_many() -> None:
    """Naming the last value is right as often as the baseline says; no other place is better."""
    rng, symbols, times = random.Random(5), lookup.make_symbols(30, "again"), Counter[int]()
    n, hits, chance, n_draws = 10, Counter[int](), 0.0, 4000
    for _ in range(n_draws):
        query = lookup.draw_pair(rng, n, symbols, is_query=True)
        keys, values = query.src.split()[0::2], query.src.split()[1::2]
        assert len({*values}) == n == len(keys)
        assert len({*keys}) <= n // 2
        times.update(Counter(keys).values())
        hits[values.index(query.tgt.split()[2])] += 1
        chance += lookup.guess_last(query)
    assert times.keys() >= {1, 2, 3, 4}
    assert max(hits, key=hits.__getitem__) == n - 1
    assert hits[n - 1] / n_draws == pytest.approx(chance / n_draws, abs=0.02)


def test_half_of_the_keys_lead_to_another_key() -> None:
    rng, symbols = random.Random(5), lookup.make_symbols(30, "hops")
    is_first, n_asked = Counter[bool](), Counter[int]()
    for _ in range(300):
        pair = lookup.draw_pair(rng, 10, symbols)
        src, tgt = pair.src.split(), pair.tgt.split()
        values = dict(zip(src[0::2], src[1::2], strict=True))
        assert sum(value in values for value in values.values()) == 5
        assert [values[values[key]] for key in tgt[0::3]] == tgt[2::3]
        is_first[src.index(tgt[0]) < src.index(values[tgt[0]])] += 1
        n_asked[len(tgt) // 3] += 1
    assert min(is_first.values()) > 100  # the first hop may come after the second
    assert n_asked.keys() == {2, 5}
    sizes = {len(p.src.split()) // 2 for p in lookup.draw_pairs(rng, 200, 8, symbols)}
    assert sizes == {2, 4, 6, 8}


@pytest.mark.parametrize(("flags", "folder"), [
    ([], "lookup"), (["--preset=again"], "lookup-again"), (["--preset=cups-5"], "tracking-5"),
])  # fmt: skip
@pytest.mark.slow
def test_the_data_are_those_of_the_records(flags: list[str], folder: str) -> None:
    record = load(RESULTS / folder / "gpt-seed1.json")
    task = memory.make_task(memory.PARSER.parse(flags))
    assert (record.task, record.data.sha256) == (task.name, task.data["sha256"])
    assert record.train_config.tokens == task.training["tokens"]


@pytest.mark.parametrize(
    ("most", "tested"), [(8, [2, 4, 6, 8, 12, 16]), (12, [3, 6, 9, 12, 18, 24])]
)
def test_values_alone_are_scored(most: int, tested: list[int]) -> None:
    task = make(f"--pairs={most}")
    (test,) = task.tests
    for example in (*task.train, *task.valid, *test.examples):
        assert task.tokenizer.tokens(example.scored()) == task.tokenizer.tokens(example.tgt)[2::3]
        assert example.src[-1] == EOS
    assert max(len(e.src) for e in task.train) == task.data["n_tokens_source"]
    assert Counter(test.x) == dict.fromkeys(tested, lookup.SIZES["smoke"]["per_number"])
    assert [len(e.src) for e in test.examples] == [2 * n + 1 for n in test.x]
    example, links = task.alignment_example
    assert all(example.src[s] == example.tgt[t] for s, t in links)  # to the value, not the key


def test_a_width_holds_for_all_models() -> None:
    """Wider models have lower rates, except for the LSTM."""
    names = [*PAPERS, "transformer_rotary"]
    specs = expand_specs(names, [], given=[("d_model", "48")])
    assert {model_sizes(spec, make("--set=d_model=48"))["d_model"] for spec in specs} == {48}
    narrow, wide = (make(f"--set=d_model={width}").recipes for width in (128, 256))
    for name, recipe in make().recipes.items():
        factor = 1 if name == "lstm_seq2seq" else 0.5
        assert (narrow[name].lr, wide[name].lr) == (recipe.lr, factor * recipe.lr)
    assert [recipes["gpt"].sizes["init_std"] for recipes in (narrow, wide)] == [0.08, 0.04]


def test_flags_that_do_not_fit_are_refused() -> None:
    read = memory.PARSER.parse
    assert read(["--preset", "cups-5"]).models == [*PAPERS]
    for wrong in (["--pairs", "32", "--preset", "cups-3"], ["--pairs", "9"], ["--size", "full"]):
        with pytest.raises(ValueError, match=wrong[0]):
            read(wrong)


BY_HAND = [
    (2, "", "1 2"),
    (2, "- 12 -", "2 1"),
    (3, "12 23", "3 1 2"),  # a b c, b a c, b c a
    (3, "23 12", "2 3 1"),  # a c b, c a b: the order matters
    (5, "15 34 25 23", "3 5 4 2 1"),  # e b c d a, e b d c a, e a d c b, e d a c b
]


@pytest.mark.parametrize(("n_cups", "moves", "cups"), BY_HAND)
def test_the_cups_are_those_found_by_hand(n_cups: int, moves: str, cups: str) -> None:
    assert " ".join(map(str, tracking.follow(moves.split(), n_cups))) == cups


@pytest.mark.parametrize("n_cups", [2, 3, 5])
def test_no_answer_is_in_the_source_or_in_the_inputs(n_cups: int) -> None:
    task = make(f"--preset=cups-{n_cups}")
    ids = {name: i for i, name in enumerate(task.tokenizer.labels)}
    balls = [ids[ball] for ball in "abcde"[:n_cups]]
    cups = {ids[str(cup)] for cup in range(1, n_cups + 1)}
    (test,) = task.tests
    for example in (*task.train, *task.valid, *test.examples):
        assert [*example.src[:n_cups]] == balls
        assert example.src[-1] == EOS
        assert not {*example.src} & cups
        assert {*example.tgt} == cups  # each once: no cup before it is the answer
        assert len(example.scored()) == n_cups
    assert {*test.baseline} == {{2: 1 / 2, 3: 1 / 6, 5: 1 / 120}[n_cups]}
    assert [len(e.src) - n_cups - 1 for e in test.examples] == [*test.x]
    assert {len(e.src) - n_cups - 1 for e in task.train} == {*range(1, 9)}
    longest = max(len(e.src) + len(e.tgt) for e in test.examples)
    assert longest < task.recipes["gpt"].sizes["n_positions"]


def test_moves_are_equally_likely_and_few_of_them_are_frequent(monkeypatch: Any) -> None:
    monkeypatch.setattr(tracking, "LONGEST", 3)
    pairs = tracking.draw_pairs(random.Random(4), 6000, 4)
    found = Counter(move for pair in pairs for move in pair.src.split()[4:])
    assert [*sorted(found)] == tracking.list_moves(4) == ["-", "12", "13", "14", "23", "24", "34"]
    assert max(found.values()) < 1.15 * min(found.values())
    lengths = Counter(len(pair.src.split()) - 4 for pair in pairs)
    shares = {k: lengths[k] / 6000 for k in (1, 2, 3)}
    assert shares == pytest.approx({1: 6 / 11, 2: 3 / 11, 3: 2 / 11}, abs=0.02)


def test_each_number_of_cups_has_its_panel() -> None:
    folders = [as_records([fake_record("gpt", 1)])]
    for n_cups, models in ((5, ["gpt"]), (2, ["gpt", "lstm_seq2seq"]), (2, ["gpt"])):
        records = [fake_record(model, seed) for model in models for seed in (1, 2)]
        for record in records:
            record["data"] |= {"name": f"{n_cups} cups", "n_cups": n_cups}
        folders.append(as_records(records))
    drawn = figure.draw_tracking(folders)["tracking"]
    panels = {ax.get_title(): ax for ax in drawn.axes}
    assert [*panels] == ["2 cups", "5 cups"]
    assert [len(ax.collections) for ax in panels.values()] == [4, 2]  # a model's band and whiskers


def test_a_hybrid_is_drawn_where_it_looks_up_and_follows_twice_as_far() -> None:
    folders, models = [], ("gpt", "gated_deltanet_last")
    for name, kept, most in (("query", 8_900, 6), ("moves", 6_700, 5)):
        fields = [fake_record(model, seed) for model in models for seed in (1, 2, 3)]
        for n, record in enumerate(fields):
            test = record["tests"][0]
            test |= {"name": name, "max_train_length": most, "primary_metric": "exact_match"}
            record["cache_bytes"] = [(64, kept + n), (128, 1)]
            values = 90, (0, 10, 50, 60, 70, 80)[n] + (name == "query")
            for bucket, value in zip(test["buckets"], values, strict=False):
                bucket |= dict.fromkeys(("low", "high"), 2 * most if value < 90 else most)
                bucket["exact_match"] = {"value": float(value), "low": None, "high": None}
        folders.append(as_records(fields))
    drawn = figure.draw_both(folders)["both"]
    drawn_at = [line.get_xydata().tolist() for line in drawn.axes[0].lines]
    places = [places[0] for places in drawn_at if len(places) == 1]
    assert places == [[20.0, 21.0], [70.0, 71.0]]
    across, up = (bars.get_segments()[0].tolist() for bars in drawn.axes[0].collections[:2])
    assert (across, up) == ([[0, 21], [50, 21]], [[20, 1], [20, 51]])  # the range of seeds
    labels = [text.get_text() for text in drawn.legends[0].texts]
    assert [label.endswith(", 9 and 7\N{NO-BREAK SPACE}kB") for label in labels] == [True, True]
    assert "10 moves (%), trained on 5" in drawn.axes[0].get_xlabel()
    assert "12 pairs (%), trained on 6" in drawn.axes[0].get_ylabel()
    assert figure.draw_both(folders[:1]) == {}
