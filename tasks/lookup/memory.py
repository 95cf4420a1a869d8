"""Write pairs into one matrix and read them, without training: which rule keeps which values.

Question
    N pairs of a key and a value, random vectors of length 1, are written into a memory of 32 × 32
    numbers; then each key reads. How often is the right value the nearest of all that were written?
    The rules: add up (linear attention, 2020), forget (α < 1, as in Mamba-2, 2024), correct (the
    delta rule, 2021), or both (Gated DeltaNet, 2024). The keys: each once; each again, with another
    value, which then counts; or alike, with a direction that all of them share.

    python -m tasks.lookup.memory

    Seconds, without torch. If each random key is written once, adding up is the best of these
    rules: each correction also disturbs other pairs. If keys are given again, adding up is a coin
    toss between the two values, fading lets all older pairs go, and the delta rule replaces the
    value of one key.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from seqmodels.report import style

from ..exhibits import Exhibit, normalise, run_exhibit, write_pair
from .figure import ADD, BOTH, CORRECT, FORGET

Rule = tuple[float, float, bool]
"""α, β, and whether it is the delta rule: the last arguments of `write_pair`."""
RULES: dict[str, Rule] = {
    "add up": (1.0, 1.0, False),
    "forget, α 0.95": (0.95, 1.0, False),
    "correct, β 0.5": (1.0, 0.5, True),
    "correct, β 1": (1.0, 1.0, True),
    "both, α 0.95, β 1": (0.95, 1.0, True),
}
LINE_STYLES = ADD, FORGET, CORRECT._replace(colour="#4EA4F1", marker="o"), CORRECT, BOTH
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
    rows = []
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
    return {"settings": {**settings, "rules": RULES}, "rows": rows}


def draw(exhibit: Exhibit) -> Figure:
    """Draw a panel for each case: the share of reads that are right against the pairs."""
    settings = exhibit["settings"]
    caption = (
        "Keys and values: random vectors of length 1. A read is right if the nearest of all values "
        f"written is the last one of its key. Mean of {settings['n_draws']} draws. Again: each key "
        "has had another value before. Alike: a vector of length 1 that all keys share is added."
    )
    subtitle = "One matrix of {0} × {0} numbers, without any training".format(settings["width"])
    texts = "Reads that are right (%), by the rule that writes", subtitle, caption
    pairs = zip(LINE_STYLES, settings["rules"], strict=True)
    looks = [look._replace(label=rule) for look, rule in pairs]
    figure, axes = style.make_panels(texts, looks, n_columns=len(CASES))
    for ax, (case, title) in zip(axes[0], CASES.items(), strict=True):
        for look in looks:
            own = [r for r in exhibit["rows"] if (r["keys"], r["rule"]) == (case, look.label)]
            x, y = ([row[column] for row in own] for column in ("n_pairs", "right"))
            ax.plot(x, y, look.marker, c=look.colour, ls=look.dashes, lw=1.8, ms=4, clip_on=False)
        style.set_log(ax, "x", "{x:g}", base=2)
        ax.set(title=title, xlabel="keys", xticks=settings["n_pairs"], ylim=(0, 100))
    return figure


if __name__ == "__main__":
    run_exhibit("memory", __doc__, measure, draw)
