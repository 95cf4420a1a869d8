"""Swap cups in one matrix, without training: a swap is a mirror, which needs β = 2.

Question
    Row c of a memory is the ball under cup c: at first the identity. The delta rule with the key
    k = (e_i − e_j) / √2 and the value 0 multiplies it by I − β k kᵀ. With β = 2, that is the mirror
    that swaps rows i and j (Grazzi et al. 2025, arXiv:2411.12537). After how many swaps of five
    cups is a ball first read under a wrong cup, by β, and by the noise of the keys?

    python -m tasks.tracking.mirror

    Seconds, without torch. With β = 2 and exact keys, all of 4,096 swaps are followed. With β ≤ 1,
    the first one is lost: a row can be erased, but nothing can be turned round. And nothing in a
    linear recurrence repairs what noise has done; if, with β = 2, the memory is rounded to 0 and 1
    after each swap, much as by a cell that saturates, the same noise does no harm.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from matplotlib.figure import Figure

from seqmodels.report import style
from seqmodels.report.style import LineStyle

from ..exhibits import Exhibit, normalise, run_exhibit, write_pair

SETTINGS = {
    "seed": 1, "n_draws": 20, "n_cups": 5, "n_swaps": 4096,
    "betas": [0.5, 1.0, 1.25, 1.5, 1.75, 1.9, 1.99, 2.0], "noises": [0.0, 0.01, 0.05],
}  # fmt: skip
MARGIN = 1e-6
"""By how much the right ball has to lead all others under its cup: a tie is no answer."""


def find_first_errors(
    beta: float, noise: float, is_rounded: bool, settings: Exhibit
) -> list[int | None]:
    """Return the first swap after which a ball is read wrongly, of each draw; None: there is none.

    Noise of this standard deviation is added to each number of a key.
    """
    rng = np.random.default_rng(settings["seed"])
    n, n_cups = settings["n_draws"], settings["n_cups"]
    draws, s = np.arange(n), np.tile(np.eye(n_cups), (n, 1, 1))
    right = s.copy()  # which ball is under which cup
    first: list[int | None] = [None] * n
    for swap in range(1, settings["n_swaps"] + 1):
        i, j = rng.permuted(np.tile(np.arange(n_cups), (n, 1)), axis=1)[:, :2].T
        right[draws, i], right[draws, j] = right[draws, j], right[draws, i]
        k = (np.eye(n_cups)[i] - np.eye(n_cups)[j]) * 0.5**0.5
        k = normalise(k + noise * rng.normal(size=k.shape))
        s = write_pair(s, k, np.zeros(n_cups), beta=beta)
        s = s.round() if is_rounded else s
        lead = (s * right).sum(-1) - np.where(right > 0, -np.inf, s).max(-1)
        for draw in np.flatnonzero((lead < MARGIN).any(-1)):
            first[draw] = first[draw] or swap
        if None not in first:
            break
    return first


def measure(settings: Exhibit = SETTINGS) -> Exhibit:
    """Return the first errors for each noise and β, and with the most noise also if rounded."""
    noises = [(noise, False) for noise in settings["noises"]]
    noises.append((settings["noises"][-1], True))
    rows = [
        {"noise": noise, "is_rounded": is_rounded, "beta": beta,
         "first_errors": find_first_errors(beta, noise, is_rounded, settings)}
        for (noise, is_rounded), beta in product(noises, settings["betas"])
    ]  # fmt: skip
    return {"settings": settings, "rows": rows}


def draw(exhibit: Exhibit) -> Figure:
    """Draw the first swap that is lost against β: median of the draws, and their range."""
    settings = exhibit["settings"]
    betas, most = settings["betas"], settings["n_swaps"]
    labels = ["exact keys", *(f"keys with {100 * x:g} % noise" for x in settings["noises"][1:])]
    labels.append(f"{labels[-1]}, memory rounded")
    colours = "#11538F", "#009B77", "#C98200", "#C2459A"
    looks = [LineStyle(*its) for its in zip(labels, colours, "----", "oDs^", strict=True)]
    caption = (
        "Memory: the identity at first; each swap of two random cups is one step of the delta rule "
        "with value 0 and a key that its noise changes. Lost: a ball does not lead under its cup. "
        f"Line: median of {settings['n_draws']} draws; whisker: their range. Rounded: to whole "
        "numbers after each swap."
    )
    subtitle = (
        f"{settings['n_cups']} cups in one matrix, by the delta rule without any training · "
        f"hollow: all of {most:,} swaps are followed"
    )
    texts = "Swaps until a ball is lost", subtitle, caption
    figure, ((ax,),) = style.make_panels(texts, looks, n_columns=1)
    errors = np.array([[e or 2 * most for e in row["first_errors"]] for row in exhibit["rows"]])
    ends = np.minimum([errors.min(1), np.median(errors, 1), errors.max(1)], most)
    for n, look in enumerate(looks):
        low, middle, high = ends[:, n * len(betas) : (n + 1) * len(betas)]
        x = np.arange(len(betas)) + 0.08 * (n - 1.5)
        ax.plot(x, middle, color=look.colour, lw=1.8)
        ax.vlines(x, low, high, color=look.colour, lw=1.1)
        fill = np.where(middle == most, "white", look.colour)
        kept = {"marker": look.marker, "ec": look.colour, "clip_on": False, "zorder": 4}
        ax.scatter(x, middle, 25, fill, **kept)
    ax.set_xticks(range(len(betas)), [f"{beta:g}" for beta in betas])
    style.set_log(ax, "y", lambda y, _: f"{y:,.0f}", base=4)
    ax.set(xlabel="β: 1 erases, 2 mirrors", ylim=(0.8, most))
    ax.set_title("First swap after which a ball is read wrongly")
    return figure


if __name__ == "__main__":
    run_exhibit("mirror", __doc__, measure, draw)
