"""The numbers and tables of the exhibits: what is measured without training."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean, median
from typing import Any

from seqmodels.report.tables import format_markdown
from seqmodels.utils.files import read_json
from tools.numbers import GPT, RESULTS, table

SHOWN = {"once": (16, 32, 64), "again": (4, 16, 32), "alike": (4, 8, 16)}
"""Numbers of keys in the table of memories, by how they are drawn."""


def load_exhibit(name: str) -> Mapping[str, Any]:
    """Return settings and rows of an exhibit."""
    return dict(read_json(RESULTS / f"{name}.json"))


GROWTH = RESULTS.parent / "benchmarks" / "results" / "2026-11-28-growth.json"
"""The record of the seconds of a training step, by the length of source and target."""


def read_steps(model: str) -> dict[int, float]:
    """Return the seconds of a training step of a model by the tokens of source and target."""
    points = read_json(GROWTH)["parts"]["growth-length"]["points"]
    return {p["n"]: p["step_s"] for p in points if p["model"] == model and p.get("step_s")}


def against_gpt(model: str, n: int) -> float:
    """Return the time of a training step with n tokens as a multiple of GPT's."""
    return read_steps(model)[n] / read_steps(GPT)[n]


def doublings(model: str, start: int = 512) -> list[float]:
    """Return how many times as long a step takes with twice as many tokens, from a start on."""
    steps = read_steps(model)
    return [steps[2 * n] / steps[n] for n in steps if n >= start and 2 * n in steps]


def read_shares() -> dict[tuple[str, str, int], float]:
    """Return the share (%) of reads that are right by rule, kind of keys and number of keys."""
    rows = load_exhibit("memory")["rows"]
    return {(r["rule"], r["keys"], r["n_pairs"]): r["right"] for r in rows}


def memory_table() -> str:
    """Return the reads that are right by rule."""
    share, rules = read_shares(), load_exhibit("memory")["settings"]["rules"]
    columns = [(keys, n) for keys, numbers in SHOWN.items() for n in numbers]
    rows = {rule: [f"{share[rule, *column]:.0f} %" for column in columns] for rule in rules}
    return table(["", *(f"{n} {keys}" for keys, n in columns)], rows)


def mirror_table() -> str:
    """Return the median of the first swap that is lost, by β."""
    mirror = load_exhibit("mirror")
    most = mirror["settings"]["n_swaps"]
    rows = [["", *(f"β {beta:g}" for beta in mirror["settings"]["betas"])]]
    for noise in mirror["settings"]["noises"]:
        own = [r for r in mirror["rows"] if (r["noise"], r["is_rounded"]) == (noise, False)]
        middle = [median(e or most + 1 for e in r["first_errors"]) for r in own]
        name = f"{100 * noise:g} % noise" if noise else "exact keys"
        rows.append([name, *(f"{m:.0f}" if m <= most else f"> {most:,}" for m in middle)])
    return format_markdown(rows)


def confirm_mirror() -> None:
    """Confirm: β ≤ 1 loses the first swap; β = 2 none with exact keys, or if it is rounded."""
    for row in load_exhibit("mirror")["rows"]:
        if row["beta"] <= 1:
            assert {*row["first_errors"]} == {1}
        elif row["beta"] == 2 and (row["is_rounded"] or not row["noise"]):
            assert not any(row["first_errors"])


def confirm_memory() -> None:
    """Confirm: adding up is best with keys once, a coin toss with up to 16 given again.

    With 4 and more keys that are alike, every rule keeps less than with keys once.
    """
    share, settings = read_shares(), load_exhibit("memory")["settings"]
    for n in settings["n_pairs"]:
        once = {rule: share[rule, "once", n] for rule in settings["rules"]}
        assert n < 4 or all(share[rule, "alike", n] < once[rule] for rule in once)
        assert once.pop("add up") >= max(once.values())
        assert n > 16 or abs(share["add up", "again", n] - 50) < 3


def find_gain() -> int:
    """Return the number of keys that are alike from which correcting keeps more than adding up."""
    share, numbers = read_shares(), load_exhibit("memory")["settings"]["n_pairs"]
    gains = [share["correct, β 0.5", "alike", n] > share["add up", "alike", n] for n in numbers]
    first = gains.index(True)
    assert all(gains[first:])
    return int(numbers[first])


def read_start(model: str, d_k: int, column: str) -> float:
    """Return what is measured before training at this width of a head: the mean of the seeds."""
    own = [r for r in load_exhibit("scale")["rows"] if (r["model"], r["d_k"]) == (model, d_k)]
    return mean(row[column] for row in own)


def compare_starts(column: str, d_k: int, model: str = "transformer") -> float:
    """Return how many times as large a measurement is without the division by √d_k."""
    return read_start(f"{model}_unscaled", d_k, column) / read_start(model, d_k, column)


def confirm_scale() -> None:
    """Confirm: without 1/√d_k, saturation and the gradient of W_q and W_k grow with the width.

    And in wide heads, the median gradient at the scores is smaller, but not the root mean square.
    """
    for model in ("transformer", "gpt"):
        for column in ("largest", "relative"):
            without = [read_start(f"{model}_unscaled", d, column) for d in (16, 32, 64, 128)]
            assert without == sorted(without)
            assert all(compare_starts(column, d, model) > 1 for d in (16, 32, 64, 128))
        times = [compare_starts(column, 128, model) for column in ("median", "root_mean_square")]
        assert times[0] < 1 < times[1]


def read_distances(when: str, column: str = "pairs") -> list[float]:
    """Return the mean distance of two heads ("equal": of a head to equal weights) by layer."""
    layers: dict[tuple[str, int], list[float]] = {}
    for row in (row for row in load_exhibit("two_heads")["rows"] if row["when"] == when):
        layers.setdefault((row["attention"], row["layer"]), []).extend(row[column])
    return [mean(own) for own in layers.values()]


def confirm_two_heads() -> None:
    """Confirm: before training, in every layer, two heads are further apart than from equal."""
    apart, equal = read_distances("before"), read_distances("before", "equal")
    assert all(own > other for own, other in zip(apart, equal, strict=True))
