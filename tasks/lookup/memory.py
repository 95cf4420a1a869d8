"""Write pairs into one matrix and read them, without training: which rule keeps which values.

Question
    A memory is a matrix of 32 × 32 numbers. N pairs of a key and a value, random vectors of
    length 1, are written into it; then each key reads. In how many reads is the right value the
    nearest of all that were written? The rules: add up (linear attention, 2020), forget (α < 1, as
    in Mamba-2, 2024), correct (the delta rule, 2021), or both (Gated DeltaNet, 2024). The keys:
    each once; each again, with another value, which then counts; or alike, with a direction that
    all of them share.

    python -m tasks.lookup.memory

    Seconds, without torch. If each random key is written once, adding up is the best of these
    rules: each correction also disturbs other pairs. If keys are given again, adding up is a coin
    toss between the two values, fading lets all older pairs go, and the delta rule replaces the
    value of one key.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from seqmodels.report import style
from seqmodels.report.load_records import format_plain
from seqmodels.report.tidy import FigureWithData, Table

from ..exhibits import Exhibit, normalise, run_exhibit, write_pair
from .figure import ADD, BOTH, CORRECT, FORGET


class Rule(NamedTuple):
    """How a memory changes when it writes; see `write_pair`."""

    alpha: float
    beta: float
    is_delta: bool


RULES = {
    "add up": Rule(1.0, 1.0, False),
    "forget, α 0.95": Rule(0.95, 1.0, False),
    "correct, β 0.5": Rule(1.0, 0.5, True),
    "correct, β 1": Rule(1.0, 1.0, True),
    "both, α 0.95, β 1": Rule(0.95, 1.0, True),
}
HALF = CORRECT._replace(colour="#4EA4F1", marker="o")
LINE_STYLES = dict(zip(RULES, (ADD, FORGET, HALF, CORRECT, BOTH), strict=True))
CASES = {"once": "Each key once", "again": "Each key again", "alike": "Keys that are alike"}
"""How keys are drawn, and the titles of their panels."""
SETTINGS = {"seed": 1, "n_draws": 200, "width": 32, "n_pairs": [2, 4, 8, 16, 32, 64]}


def draw_vectors(rng: np.random.Generator, n: int, settings: Exhibit) -> np.ndarray:
    """Draw n random vectors of length 1 for each draw: (draws, n, width)."""
    return normalise(rng.normal(size=(settings["n_draws"], n, settings["width"])))


def read_share(k: np.ndarray, v: np.ndarray, n: int, rule: Rule) -> float:
    """Return the share (%) of n keys that read their last value, after all pairs are written.

    Keys and values are (draws, pairs, width); the last n pairs have all keys.
    """
    s = np.zeros((len(k), k.shape[-1], v.shape[-1]))
    for i in range(k.shape[1]):
        s = write_pair(s, k[:, i], v[:, i], *rule)
    nearest = (k[:, -n:] @ s @ v.swapaxes(1, 2)).argmax(-1)
    return float(100 * (nearest == np.arange(k.shape[1])[-n:]).mean())


def measure(settings: Exhibit = SETTINGS) -> Exhibit:
    """Return the share of reads that are right for each case, number of pairs and rule."""
    rows: list[dict[str, Any]] = []
    for case in CASES:
        rng = np.random.default_rng(settings["seed"])
        for n in settings["n_pairs"]:
            k, v, old = (draw_vectors(rng, n, settings) for _ in range(3))
            if case == "alike":
                k = normalise(k + draw_vectors(rng, 1, settings))
            if case == "again":
                k, v = np.concatenate([k, k], 1), np.concatenate([old, v], 1)
            for name, rule in RULES.items():
                right = round(read_share(k, v, n, rule), 2)
                rows.append({"keys": case, "n_pairs": n, "rule": name, "right": right})
    rules = {name: rule._asdict() for name, rule in RULES.items()}
    return {"settings": {**settings, "rules": rules}, "rows": rows}


def draw(exhibit: Exhibit) -> FigureWithData:
    """Draw a panel for each case: the share of reads that are right against the pairs."""
    settings, table = exhibit["settings"], Table()
    width = settings["width"]
    caption = (
        f"Keys and values: random vectors of {width} numbers and length 1. A read is right if the "
        "nearest of all values written is the last one of its key. Mean of "
        f"{settings['n_draws']} draws. Again: each key has had another value before. Alike: a "
        "vector of length 1 that all keys share is added to each of them."
    )
    subtitle = f"One matrix of {width} × {width} numbers, without any training"
    texts = "Reads that are right (%), by the rule that writes", subtitle, caption
    looks = [look._replace(label=rule) for rule, look in LINE_STYLES.items()]
    figure, axes = style.make_panels(texts, looks, n_columns=len(CASES))
    for ax, (case, title) in zip(axes[0], CASES.items(), strict=True):
        for name, look in LINE_STYLES.items():
            own = [r for r in exhibit["rows"] if (r["keys"], r["rule"]) == (case, name)]
            x, y = ([row[column] for row in own] for column in ("n_pairs", "right"))
            ax.plot(x, y, look.marker, color=look.colour, ls=look.dashes, lw=1.8, ms=4,
                    clip_on=False)  # fmt: skip
            table.add(keys=case, rule=name, n_pairs=x, right=y)
        ax.set_title(title, loc="left")
        ax.set_ylim(0, 100)
        style.set_log(ax, "x", format_plain, base=2)
        ax.set_xticks(settings["n_pairs"])
        ax.set_xlabel("keys")
    return FigureWithData(figure, table.rows())


if __name__ == "__main__":
    run_exhibit("tasks.lookup.memory", __doc__, measure, draw)
