"""Equal budgets: each model's loss where it has spent as much as the others."""

from __future__ import annotations

from typing import Any

import pytest

from seqmodels.report import matching, wording


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


def cells(records: list[Any]) -> list[list[str]]:
    """Return the table's cells."""
    lines = [line for line in matching.table(records).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_each_model_is_read_off_at_the_budget() -> None:
    """Keeps out a budget that one of them has not spent, and a loss after the best weights."""
    head, _, lstm, gpt = cells([FAST, SLOW])
    assert head[2:] == ["equal target tokens: 300", "equal compute: 600 MFLOP", "equal time: 3 s"]
    assert lstm == ["LSTM seq2seq", "1.00 M", "3.000", "3.000", "3.000"]  # its best, not its last
    assert gpt == ["GPT", "1.00 M", "1.000", "3.500", "5.000"]  # 150 tokens cost as much, 3 s 100


def test_seeds_are_spread() -> None:
    """Keeps out the first seed for all, and a spread that is not half the range."""
    other = run("gpt", 2, 4e6, [(100, 3.0, 5.0), (300, 9.0, 1.5)])
    *_, gpt = cells([FAST, SLOW, other])
    assert gpt[2] == "1.250 ± 0.250"


def test_an_unknown_budget_has_no_column() -> None:
    """Keeps out a comparison of two machines' seconds, and of compute that was not counted."""
    elsewhere = SLOW | {"provenance": SLOW["provenance"] | {"device": "another"}}
    assert len(cells([FAST, elsewhere])[0]) == 4
    uncounted = {key: value for key, value in SLOW.items() if key != "flops_per_token"}
    assert [c.split(":")[0] for c in cells([FAST, uncounted])[0][2:]] == [
        "equal target tokens", "equal time",
    ]  # fmt: skip
    assert matching.table([FAST]) == ""


@pytest.mark.parametrize(("n", "text"), [(2.5e13, "25 TFLOP"), (3e15, "3 PFLOP")])
def test_compute_is_readable(n: float, text: str) -> None:
    """Keeps out ten thousand giga."""
    assert wording.short(n, unit="FLOP") == text


def test_small_losses_have_short_ticks() -> None:
    """Keeps out the loss of a task that is learned, 0.00005, over the edge of the figure."""
    ticks = {0: "0", 5e-5: "5e-5", 2e-4: "2e-4", 0.001: "0.001", 0.02: "0.02"}
    assert [wording.short(x) for x in ticks] == [*ticks.values()]
