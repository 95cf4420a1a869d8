"""Tables of records."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from fake_records import drawn_scores, row, several, write

from seqmodels.report import reading, tables, wording


def test_one_seed_in_the_tables_is_the_record(tmp_path: Path) -> None:
    """A number in a table that comes from another bin, metric or model."""
    records = reading.load_records(write(tmp_path, several(1)))
    r = next(r for r in records if r["model"] == "lstm_seq2seq")
    test = r["tests"][0]

    def shown(part: dict[str, Any], metric: str = "bleu", digits: int = 1) -> str:
        value, low, high = (f"{part[metric][k]:.{digits}f}" for k in ("value", "low", "high"))
        return f"{value} [{low}, {high}]"

    bins = test["buckets"]
    assert row(tables.table(records), "LSTM") == [
        "LSTM seq2seq", "1", "1.00 M", shown(test["overall"]), shown(bins[0]),
        shown(bins[3]), shown(bins[7]) + "*", shown(test["overall"], "nats", 3),
        shown(test["overall"], "bits_per_byte", 3), "8,000", "121",
    ]  # fmt: skip
    by_length = tables.by_length_table(records)
    stars = [""] * 7 + ["*"]
    assert row(by_length, "LSTM")[1:] == [shown(b) + s for b, s in zip(bins, stars, strict=True)]
    assert row(by_length, "n ")[1:] == [f"{b['n']:,}" for b in bins]
    assert "nrefs:1|case:mixed|tok:13a" in tables.table(records)


def test_several_seeds_are_averaged_and_their_spread_told(tmp_path: Path) -> None:
    """The first seed, or a sum, passed off as the mean of all."""
    records = reading.load_records(write(tmp_path, several(3)))
    seeds = [r["tests"][0]["overall"]["bleu"] for r in records if r["model"] == "gpt"]
    value, low, high = (np.mean([s[k] for s in seeds]) for k in ("value", "low", "high"))
    half = np.ptp([s["value"] for s in seeds]) / 2
    cells = row(tables.table(records), "GPT ")
    assert cells[1] == "3"
    assert cells[-1] == "142"  # seconds, the mean of 141, 142 and 143
    assert "2 M target tokens" in wording.subtitle(records)
    assert cells[3] == f"{value:.1f} ± {half:.1f} [{low:.1f}, {high:.1f}]"


def test_the_columns_of_a_table_are_padded(tmp_path: Path) -> None:
    """Tables that only a browser can read."""
    records = reading.load_records(write(tmp_path, several(1)))
    lines = [line for line in tables.table(records).splitlines() if line.startswith("| ")]
    assert len(lines) == 7
    assert len(set(map(len, lines))) == 1


def test_signatures_and_untrained_lengths_are_told_where_they_belong(tmp_path: Path) -> None:
    """Keeps out BLEU's signature under accuracies, and long bins that look like trained ones."""
    recall = reading.load_records(write(tmp_path / "a", several(1, "recall")))
    text = tables.table(recall) + tables.by_length_table(recall)
    assert "tok:13a" not in text
    assert "nc:6" not in text
    assert "| 32, longest trained | 128, longest, longer than trained |" in re.sub(" +", " ", text)
    assert "| 32 | 64† | 128† |" in re.sub(" +", " ", text)
    assert text.count("† longer than trained") == 3
    translation = reading.load_records(write(tmp_path / "b", several(1)))
    text = tables.table(translation)
    assert ("tok:13a" in text, "nc:6" in text) == (True, False)
    for index, name in enumerate(["copy", "reverse", "lookup"]):
        figure = drawn_scores(recall, index)
        assert recall[0]["tests"][index]["name"] == name
        for ax in figure.axes[:2]:
            assert "longer than trained" in [t.get_text() for t in ax.texts]
