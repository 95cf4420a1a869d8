"""What a comparison prints at its end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from fake_records import MODELS, several, write

from seqmodels.evaluation import metrics
from seqmodels.models import PAPERS
from seqmodels.report import reading, tables
from seqmodels.report.reading import bucket_name

LABELS = [PAPERS[model].label for model in MODELS]
Records = list[dict[str, Any]]


def records_of(folder: Path, records: Records) -> Records:
    """Return the records as they are read."""
    return reading.load_records(write(folder, records))


def set_score(records: Records, metric: str, values: dict[str, list[float]], last: int = 1) -> None:
    """Give each model these scores overall, in the first bin and in another."""
    for r in records:
        test = r["tests"][0]
        parts = test["overall"], test["buckets"][0], test["buckets"][last]
        for part, value in zip(parts, values[r["model"]], strict=True):
            part[metric] = {"value": value, "low": value - 0.1, "high": value + 0.1}


@pytest.mark.parametrize("task", ["translation", "recall", "next_token"])
@pytest.mark.parametrize("n_seeds", [1, 3])
def test_every_bins_score_fits_100_columns(task: str, n_seeds: int, tmp_path: Path) -> None:
    """Keeps out a table that wraps in a terminal, or that leaves out the bins between the ends."""
    made = several(n_seeds, task)
    for r in made:
        for test in r["tests"]:
            test["overall"]["length_ratio"] = {"value": 0.931, "low": None, "high": None}
    records = records_of(tmp_path, made)
    lines = tables.summary(records).splitlines()
    assert max(map(len, lines)) <= 100
    for test in reading.tests(records).values():
        begin = next(i for i, line in enumerate(lines) if line.startswith(f"{test['name']}: "))
        heads = lines[begin + 1].split()
        names = [re.sub("[*†]", "", head) for head in heads]
        has_ratio = test["primary_metric"] == "bleu"
        assert names == [
            "model",
            "all",
            *map(bucket_name, test["buckets"]),
            *["length"] * has_ratio,
        ]
        marks = ["*" * (b["n"] < 30) for b in test["buckets"]]
        assert [head.count("*") * "*" for head in heads[2 : 2 + len(marks)]] == marks
        digits = 3 if test["primary_metric"] == "bits_per_byte" else 1
        for label, model in zip(LABELS, MODELS, strict=True):
            (row,) = [line for line in lines[begin:][2:8] if line.startswith(label)]
            group = [r for r in records if r["model"] == model]
            means = reading.scores(group, test["name"], test["primary_metric"])[..., 0].mean(axis=0)
            cells = row.removeprefix(label).split()
            assert cells == [*(f"{x:.{digits}f}" for x in means), *["0.931"] * has_ratio]
    assert sum(line.startswith("GPT ") for line in lines) == len(records[0]["tests"]) + 1
    assert re.search(r"^model +parameters +seeds +valid nats +tokens/s +train s +evaluate s$",
                     "\n".join(lines), re.MULTILINE)  # fmt: skip


def test_many_bins_go_on_below(tmp_path: Path) -> None:
    """Keeps out bins that are cut off where a text has sentences of 200 words."""
    made = several(1)[:2]
    for r in made:
        (test,) = r["tests"]
        test["buckets"] = [
            {**test["buckets"][0], "low": low, "high": low + 9} for low in range(1, 200, 10)
        ]
        r["model"] = {"rnn_encdec": "x" * 60}.get(r["model"], r["model"])
    text = tables.summary(records_of(tmp_path, made))
    assert max(map(len, text.splitlines())) <= 100
    assert all(f"{low}–{low + 9}" in text for low in range(1, 200, 10))
    assert text.count("\nn  ") == 5


@pytest.mark.parametrize(("trained", "first"), [(40, 4), (41, 5), (45, 5), (50, 5)])
def test_a_bin_that_was_trained_in_part_is_not_marked_as_longer(
    trained: int, first: int, tmp_path: Path
) -> None:
    """Keeps out a mark on a bin that has lengths seen in training."""
    made = several(1)
    for r in made:
        r["tests"][0]["max_train_length"] = trained
    lines = tables.summary(records_of(tmp_path, made)).splitlines()
    heads = next(line for line in lines if line.split()[:2] == ["model", "all"]).split()[2:10]
    assert ["†" in head for head in heads] == [False] * first + [True] * (8 - first)


def test_the_costs_are_the_means_of_the_seeds(tmp_path: Path) -> None:
    """Keeps out the last validation, or a training loss, where the best validation belongs."""
    made = several(2)
    for r in made:
        valid = [3.0, r["seed"] * 1.0, 2.5]
        r["curve"] = [
            point | {"train_nats": 0.5, "valid_nats": nats}
            for point, nats in zip(r["curve"], valid, strict=False)
        ]
        r["speed"]["train_tokens_per_s"] = 1_000.0 * r["seed"]
        r["train_s"], r["evaluate_s"] = 100.0 * r["seed"], 10.0 * r["seed"]
    lines = tables.summary(records_of(tmp_path, made)).splitlines()
    (row,) = [line for line in lines if re.match(r"GPT .*  1 2  ", line)]
    assert row.split()[-6:] == ["1", "2", "1.500", "1,500", "150", "15"]


def test_the_length_of_what_was_written_is_scored() -> None:
    """Keeps out a BLEU that is low for brevity alone, unseen."""
    rows = [
        {"nats": 1.0, "n_tokens": 4, "n_correct": 2, "n_bytes": 9, "exact_match": False,
         "n_same": 1, "n_places": 4, "hyp": "longer words here", "ref": "a b c d"}
    ] * 3  # fmt: skip
    assert metrics.scores(rows)["length_ratio"] == {"value": 0.75, "low": None, "high": None}


def test_the_share_kept_is_that_of_the_longest_trained_bin(tmp_path: Path) -> None:
    """Keeps out shares of another bin, of bins of five sentences, and of a score of nothing."""
    made = several(1)
    values = {"rnn_encdec": [0, 80, 40], "bahdanau": [0, 100, 98], "lstm_seq2seq": [0, 90, 54]}
    values |= {"transformer": [0, 0.5, 0.5], "gpt": [0, 50, 46]}
    set_score(made, "bleu", values, last=3)
    lines = tables.summary(records_of(tmp_path, made)).splitlines()
    (at,) = [i for i, line in enumerate(lines) if line.startswith("BLEU at 31–40 words")]
    shares = re.findall(r"[,:] ([^:,]+?) (\d+)\s%", " ".join(lines[at : at + 3]))
    assert shares == [
        ("RNN encoder–decoder", "50"), ("Bahdanau", "98"), ("LSTM seq2seq", "60"), ("GPT", "92"),
    ]  # fmt: skip
    for part in (part for r in made for part in r["tests"][0]["buckets"]):
        part["n"] = 5
    assert "as a share" not in tables.summary(records_of(tmp_path, made))


def test_what_learned_nothing_is_marked(tmp_path: Path) -> None:
    """Keeps out a newcomer who takes 0.3 BLEU after a smoke run for a defect."""
    made = several(1)
    set_score(made, "bleu", {model: [0.4, 0.4, 0.3] for model in MODELS})
    for r in made:
        chance = 0.1 if r["model"] == "bahdanau" else 0.5
        r["tests"][0]["overall"]["chance_bleu"] = {"value": chance, "low": None, "high": None}
    lines = tables.summary(records_of(tmp_path, made)).splitlines()
    marked = [line.partition("‡")[0] for line in lines if "‡ " in line and line[0] != "*"]
    assert marked == ["RNN encoder–decoder", "LSTM seq2seq", "Transformer", "GPT"]
