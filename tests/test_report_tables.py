"""Tables of records."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_records import drawn_scores, row, several, write

from seqmodels.report import reading, tables
from seqmodels.report.reading import short, subtitle


def test_one_seed_in_the_tables_is_the_record(tmp_path: Path) -> None:
    """A number in a table that comes from another bin, metric or model."""
    records = reading.load_records(write(tmp_path, several(1)))
    r = next(r for r in records if r["model"] == "lstm_seq2seq")
    test = r["tests"][0]

    def shown(part: dict[str, Any], metric: str = "bleu", digits: int = 1) -> str:
        value, low, high = (f"{part[metric][k]:.{digits}f}" for k in ("value", "low", "high"))
        return f"{value} [{low}, {high}]"

    bins = test["buckets"]
    text = tables.tables(records)
    by_length, losses, costs = text.split("\n### ")[:3]
    assert row(losses, "LSTM") == [
        "LSTM seq2seq", shown(test["overall"], "nats", 3),
        shown(test["overall"], "bits_per_byte", 3),
    ]  # fmt: skip
    assert row(by_length, "LSTM")[1:-1] == [shown(test["overall"]), *map(shown, bins)]
    assert row(by_length, "n ")[2:-1] == [f"{b['n']:,}" for b in bins]
    assert ["*" in head for head in row(by_length, "model")[2:-1]] == [False] * 7 + [True]
    assert row(costs, "LSTM")[:3] == ["LSTM seq2seq", "1.00 M", "1"]
    assert row(costs, "LSTM")[4:6] == ["8,000", "121"]
    assert "nrefs:1|case:mixed|tok:13a" in text


def test_several_seeds_are_averaged_and_their_spread_told(tmp_path: Path) -> None:
    """The first seed, or a sum, passed off as the mean of all."""
    records = reading.load_records(write(tmp_path, several(3)))
    seeds = [r["tests"][0]["overall"]["bleu"] for r in records if r["model"] == "gpt"]
    value, low, high = (np.mean([s[k] for s in seeds]) for k in ("value", "low", "high"))
    half = np.ptp([s["value"] for s in seeds]) / 2
    by_length, _, costs = tables.tables(records).split("\n### ")[:3]
    assert row(costs, "GPT ")[2] == "1 2 3"
    assert row(costs, "GPT ")[5] == "142"  # seconds, the mean of 141, 142 and 143
    assert "2 M target tokens" in subtitle(records)
    assert row(by_length, "GPT ")[1] == f"{value:.1f} ± {half:.1f} [{low:.1f}, {high:.1f}]"


def test_the_columns_of_a_table_are_padded(tmp_path: Path) -> None:
    """Tables that only a browser can read."""
    records = reading.load_records(write(tmp_path, several(1)))
    by_length = tables.tables(records).split("\n### ")[0]
    lines = [line for line in by_length.splitlines() if line.startswith("| ")]
    assert len(lines) == 8
    assert len(set(map(len, lines))) == 1


def test_signatures_and_untrained_lengths_are_told_where_they_belong(tmp_path: Path) -> None:
    """Keeps out BLEU's signature under accuracies, and long bins that look like trained ones."""
    recall = reading.load_records(write(tmp_path / "a", several(1, "recall")))
    text = tables.tables(recall)
    assert "tok:13a" not in text
    assert "nc:6" not in text
    assert "| 32 | 64† | 128† |" in re.sub(" +", " ", text)
    assert text.count("† longer than trained") == 3
    translation = reading.load_records(write(tmp_path / "b", several(1)))
    text = tables.tables(translation)
    assert ("tok:13a" in text, "nc:6" in text) == (True, False)
    for index, name in enumerate(["copy", "reverse", "lookup"]):
        figure = drawn_scores(recall, index)
        assert recall[0]["tests"][index]["name"] == name
        for ax in figure.axes[:2]:
            assert "longer than trained" in [t.get_text() for t in ax.texts]


# Equal budgets


def run(model: str, seed: int, flops: float | None, curve: list[tuple[int, float, float]]) -> Any:
    """Make a record from (tokens, seconds, loss) of each point."""
    points = [{"tokens": t, "seconds": s, "valid_nats": v} for t, s, v in curve]
    where = {"system": "", "device": "", "threads": 1, "versions": {}}
    return {
        "model": model, "seed": seed, "n_parameters": 1_000_000, "flops_per_token": flops,
        "provenance": where, "curve": points,
    }  # fmt: skip


FAST = run("lstm_seq2seq", 1, 2e6, [(100, 1.0, 4.0), (200, 2.0, 3.0), (300, 3.0, 3.5)])
SLOW = run("gpt", 1, 4e6, [(100, 3.0, 5.0), (200, 6.0, 2.0), (300, 9.0, 1.0)])


def budget_cells(records: list[Any]) -> list[list[str]]:
    """Return the table's cells."""
    lines = [line for line in tables.equal_budgets(records).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_each_model_is_read_off_at_the_budget() -> None:
    """Keeps out a budget that one of them has not spent, and a loss after the best weights."""
    head, _, lstm, gpt = budget_cells([FAST, SLOW])
    assert head[1:] == ["equal target tokens: 300", "equal compute: 600 MFLOP", "equal time: 3 s"]
    assert lstm == ["LSTM seq2seq", "3.000", "3.000", "3.000"]  # its best, not its last
    assert gpt == ["GPT", "1.000", "3.500", "5.000"]  # 150 tokens cost as much, 3 s 100


def test_seeds_are_spread() -> None:
    """Keeps out the first seed for all, and a spread that is not half the range."""
    other = run("gpt", 2, 4e6, [(100, 3.0, 5.0), (300, 9.0, 1.5)])
    *_, gpt = budget_cells([FAST, SLOW, other])
    assert gpt[1] == "1.250 ± 0.250"


def test_an_unknown_budget_has_no_column() -> None:
    """Keeps out a comparison of two machines' seconds, and of compute that was not counted."""
    elsewhere = SLOW | {"provenance": SLOW["provenance"] | {"device": "another"}}
    assert len(budget_cells([FAST, elsewhere])[0]) == 3
    uncounted = {key: value for key, value in SLOW.items() if key != "flops_per_token"}
    assert [c.split(":")[0] for c in budget_cells([FAST, uncounted])[0][1:]] == [
        "equal target tokens", "equal time",
    ]  # fmt: skip
    assert tables.equal_budgets([FAST]) == ""


@pytest.mark.parametrize(("n", "text"), [(2.5e13, "25 TFLOP"), (3e15, "3 PFLOP")])
def test_compute_is_readable(n: float, text: str) -> None:
    """Keeps out ten thousand giga."""
    assert short(n, unit="FLOP") == text


def test_small_losses_have_short_ticks() -> None:
    """Keeps out the loss of a task that is learned, 0.00005, over the edge of the figure."""
    ticks = {0: "0", 5e-5: "5e-5", 2e-4: "2e-4", 0.001: "0.001", 0.02: "0.02"}
    assert [short(x) for x in ticks] == [*ticks.values()]
