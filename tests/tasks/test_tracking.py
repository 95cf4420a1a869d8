"""Following balls under cups."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from fake_records import as_records, fake_record

from seqmodels import EOS, MODELS
from seqmodels.experiments.sweep import make_spec, model_sizes
from seqmodels.experiments.task import Task
from seqmodels.utils import files
from tasks.tracking import __main__ as tracking
from tasks.tracking import figure, mirror


def make_tracking(n_cups: int) -> Task:
    return tracking.make_task(tracking.PARSER.parse_args(["--size=smoke", f"--cups={n_cups}"]))


BY_HAND = [
    (2, "", "1 2"),
    (2, "- 12 -", "2 1"),
    (2, "12 - 12", "1 2"),
    (3, "12 23", "3 1 2"),  # a b c, b a c, b c a
    (3, "23 12", "2 3 1"),  # a c b, c a b: the order matters
    (3, "12 23 12 13", "1 2 3"),  # b a c, b c a, c b a, a b c
    (5, "15 34 25 23", "3 5 4 2 1"),  # e b c d a, e b d c a, e a d c b, e d a c b
]


@pytest.mark.parametrize(("n_cups", "moves", "cups"), BY_HAND)
def test_the_cups_are_those_found_by_hand(n_cups: int, moves: str, cups: str) -> None:
    assert " ".join(map(str, tracking.follow(moves.split(), n_cups))) == cups


GOLDEN = {
    2: ["a b 12 2 1", "a b - 12 - - - - 2 1", "a b 12 - 12 - 12 - - - 2 1"],
    3: ["a b c 13 3 2 1", "a b c 12 13 - 12 12 12 1 3 2", "a b c 23 12 23 - 13 - 12 12 1 2 3"],
    5: ["a b c d e 23 1 3 2 4 5", "a b c d e 14 23 - 15 15 14 1 3 2 4 5",
        "a b c d e 34 15 35 - 25 12 15 15 3 5 4 1 2"],
}  # fmt: skip
"""The first two examples of training and the first of validation, at the size smoke."""


@pytest.mark.parametrize("n_cups", GOLDEN)
def test_the_data_stay_the_same(n_cups: int) -> None:
    task = make_tracking(n_cups)
    examples = *task.train[:2], task.valid[0]
    assert [" ".join(map(task.tokenizer.decode, e[:2])) for e in examples] == GOLDEN[n_cups]
    assert len({make_tracking(n).data["sha256"] for n in GOLDEN}) == len(GOLDEN)


@pytest.mark.parametrize("n_cups", [2, 3, 5])
def test_no_answer_is_in_the_source_or_in_the_inputs(n_cups: int) -> None:
    task = make_tracking(n_cups)
    ids = {name: i for i, name in enumerate(task.tokenizer.labels)}
    balls = [ids[ball] for ball in "abcde"[:n_cups]]
    cups = {ids[str(cup)] for cup in range(1, n_cups + 1)}
    assert len(balls) == len(cups) == n_cups
    assert len(ids) == 4 + 2 * n_cups + 1 + n_cups * (n_cups - 1) // 2
    for example in (*task.train, *task.valid, *task.tests[0].examples):
        assert [*example.src[:n_cups]] == balls
        assert example.src[-1] == EOS
        assert not {*example.src} & cups
        assert {*example.tgt} == cups  # each once: no cup before it is the answer
        assert len(example.scored()) == len(example.tgt) == n_cups
    assert {*task.tests[0].baseline} == {{2: 1 / 2, 3: 1 / 6, 5: 1 / 120}[n_cups]}


def test_moves_are_equally_likely_and_few_of_them_are_frequent(monkeypatch: Any) -> None:
    monkeypatch.setattr(tracking, "LONGEST", 3)
    pairs = tracking.draw_pairs(random.Random(4), 6000, 4)
    found = Counter(move for pair in pairs for move in pair.src.split()[4:])
    assert [*sorted(found)] == tracking.list_moves(4) == ["-", "12", "13", "14", "23", "24", "34"]
    assert max(found.values()) < 1.15 * min(found.values())
    lengths = Counter(len(pair.src.split()) - 4 for pair in pairs)
    shares = {k: lengths[k] / 6000 for k in (1, 2, 3)}
    assert shares == pytest.approx({1: 6 / 11, 2: 3 / 11, 3: 2 / 11}, abs=0.02)


def test_tests_reach_twelve_times_as_far_as_training() -> None:
    task = make_tracking(3)
    (test,) = task.tests
    assert test.buckets[-1] == (96, 96)
    assert [len(e.src) - 3 - 1 for e in test.examples] == [*test.x]
    assert {len(e.src) - 4 for e in task.train} == {*range(1, 9)}
    assert {len(e.src) - 4 for e in task.valid} == {test.max_train_length} == {8}
    assert task.data["n_tokens_source"] == max(len(e.src) for e in task.train) == 12
    for name in MODELS:
        assert model_sizes(make_spec(name), task)["d_model"] >= 16
    longest = max(len(e.src) + len(e.tgt) for e in test.examples)
    assert longest < task.recipes["gpt"].sizes["n_positions"] < 2 * longest
    assert task.recipes["lstm_seq2seq"].sizes["is_reversed"] is False


def test_each_number_of_cups_has_its_own_folder() -> None:
    read = tracking.PARSER.parse_args
    assert read([]).out == Path("runs/tracking-3-laptop")
    assert read(["--cups", "5", "--size", "smoke"]).out == Path("runs/tracking-5-smoke")
    assert read(["--cups", "5", "--out", "x", "--dry-run"]).out == Path("x")
    for wrong in (["--cups", "6"], ["--cups", "1"]):
        with pytest.raises(SystemExit):
            read(wrong)


def test_each_number_of_cups_has_its_panel() -> None:
    folders = []
    for n_cups, models in ((5, ["gpt"]), (2, ["gpt", "lstm_seq2seq"]), (2, ["gpt"])):
        records = [fake_record(model, seed) for model in models for seed in (1, 2)]
        for record in records:
            record["data"] |= {"name": f"{n_cups} cups", "n_cups": n_cups}
        folders.append(as_records(records))
    drawn = figure.draw_across(folders)["tracking"]
    panels = {ax.get_title(): ax for ax in drawn.axes}
    assert [*panels] == ["2 cups", "5 cups"]
    assert [len(ax.collections) for ax in panels.values()] == [2, 1]  # whiskers of each model
    buckets = folders[0][0].tests[0].buckets
    mean = [sum(r.tests[0].buckets[i]["bleu"].value for r in folders[0]) / 2 for i in range(8)]
    assert len(buckets) == 8
    assert panels["5 cups"].lines[0].get_ydata() == pytest.approx(mean)


def test_a_mirror_follows_4096_swaps_and_beta_1_none() -> None:
    few = {**mirror.SETTINGS, "n_draws": 3}
    assert mirror.find_first_errors(2.0, 0.0, False, few) == [None] * 3
    for beta in (0.5, 1.0):
        assert mirror.find_first_errors(beta, 0.0, False, few) == [1] * 3
    assert all(mirror.find_first_errors(2.0, 0.05, False, few))
    assert not any(mirror.find_first_errors(2.0, 0.05, True, few | {"n_swaps": 400}))


def test_the_record_of_the_mirrors_can_be_measured_again() -> None:
    record = files.read_json(ROOT / "results" / "mirror.json")
    assert record["settings"] == mirror.SETTINGS
    rows = [row for row in record["rows"] if max(e or 9999 for e in row["first_errors"]) < 70]
    assert len(rows) > 10
    for row in rows:
        given = row["beta"], row["noise"], row["is_rounded"], record["settings"]
        assert mirror.find_first_errors(*given) == row["first_errors"]
    (ax,) = mirror.draw(record).axes
    exact = {row["beta"]: row["first_errors"] for row in record["rows"] if not row["noise"]}
    drawn = dict(zip(exact, ax.lines[0].get_ydata(), strict=True))
    assert (drawn[1.0], drawn[2.0]) == (1, 4096)
    assert drawn[1.5] == sorted(exact[1.5])[9] == sorted(exact[1.5])[10] == 11
