"""Records -> figures and tables: score against length, curves, size of the state, alignments.

Read the JSON records of one folder, one per (model, seed), and nothing else: neither torch nor a
model is needed to draw again. The same records give the same bytes.
"""

from __future__ import annotations

import html
import io
import math
import re
import sys
import textwrap
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from seqmodels.catalog import CATALOG
from seqmodels.records import ledger, schema
from seqmodels.report import findings, fonts
from seqmodels.report.findings import THIN, bin_name, label_of
from seqmodels.utils import files

Record = dict[str, Any]

FEWEST = 10
"""Examples without which a bin has no interval."""

METRICS = {"bleu": "BLEU", "chrf": "chrF", "exact": "exactly right (%)"}
METRICS |= {"accuracy": "symbols right (%)", "token_accuracy": "next tokens right (%)"}
LOSSES = {"nats": "nats per token", "bits_per_byte": "bits per byte"}
NAMES = METRICS | LOSSES | {"perplexity": "perplexity per word"}
NAMES |= {"source_gain": "gain from the source (nats per token)"}
TEACHER_FORCED = (*LOSSES, "token_accuracy")


class Look(NamedTuple):
    """How one model is named and drawn."""

    label: str
    colour: str
    dashes: Any
    marker: str


Line = tuple[Look, Sequence[Record]]
"""How the records of one model, or of one system, are drawn."""

LOOKS = {  # in order of history; warm and dashed = one vector, cool and solid = attends
    "rnn_encdec": Look(CATALOG["rnn_encdec"].label, "#C98200", (0, (4, 1.6)), "s"),
    "bahdanau": Look(CATALOG["bahdanau"].label, "#1B75BC", "-", "o"),
    "lstm_seq2seq": Look(CATALOG["lstm_seq2seq"].label, "#B02A1E", (0, (1.6, 1.2)), "D"),
    "transformer": Look(CATALOG["transformer"].label, "#009B77", "-", "^"),
    "gpt": Look(CATALOG["gpt"].label, "#3B2A84", "-", "v"),
}
FURTHER = ("#B5509C", "#6B6B6B", "#7A5230")
INK, GREY = "#222222", "#666666"
MARKERS = "soD^vPX*"
MOST_DRAWN = len(MARKERS)
"""Systems from elsewhere, as many as there are colours."""
HEAT = LinearSegmentedColormap.from_list("heat", ["#FFFFFF", "#9CC7E8", "#1B75BC", "#14254F"])
WIDTH = 9.5
"""Inches; at 800 pixels a point is 1.17 pixels."""
ROW = 14
"""Characters in a row of what is written beside the end of a line."""

RC: dict[str, Any] = {
    **{"font.size": 9.5, "text.color": INK, "axes.labelcolor": INK, "axes.labelsize": 9.5},
    **{"axes.spines.right": False, "axes.spines.top": False, "axes.edgecolor": "#999999"},
    **{"axes.grid": True, "axes.grid.axis": "y", "axes.axisbelow": True, "grid.color": "#E6E6E6"},
    **{"xtick.color": GREY, "ytick.color": GREY, "xtick.labelsize": 8.5, "ytick.labelsize": 8.5},
    "svg.fonttype": "none",  # text stays text, to be searched, selected and read aloud
    "font.sans-serif": ["DejaVu Sans", "Verdana"],  # as wide as each other
    "svg.hashsalt": "seqmodels",
    "text.parse_math": False,  # a price of $5 is no formula
}


# Records


def _find(folder: Path) -> tuple[list[Path], list[str]]:
    """Return where a folder's records are, and a sentence for each whose version is not read here.

    Other JSON files are passed over. Raises ValueError for a file that is not JSON.
    """
    read = {path: files.read_json(path) for path in sorted(Path(folder).glob("*.json"))}
    whys = {
        path: schema.unknown_version(path, v) for path, v in read.items() if schema.is_record(v)
    }
    return [path for path, why in whys.items() if not why], [why for why in whys.values() if why]


def load_records(folder: Path) -> list[Record]:
    """Read all records of a folder, in order of history, then of seed.

    Raises ValueError for a file that is not JSON, a record that `schema.load` refuses, the same
    (model, seed) twice, two tasks, or no record at all.
    """
    found: dict[tuple[str, int], Record] = {}
    paths, unknown = _find(folder)
    for path in paths:
        record = schema.load(path)
        if (key := (record["model"], record["seed"])) in found:
            raise ValueError(f"{path}: a second record of {key[0]}, seed {key[1]}; keep one")
        found[key] = record
    if not found:
        why = "; ".join(unknown) or f"*.json with schema {schema.SCHEMA!r}"
        raise ValueError(f"{folder} holds no record that can be drawn ({why})")
    if len(tasks := sorted({r["task"] for r in found.values()})) > 1:
        raise ValueError(f"{folder} mixes the tasks {', '.join(tasks)}; give each its own folder")
    return [r for group in _by_model(found.values()).values() for r in group]


def _by_model(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Group by model, in order of history, then of name; within a model by seed."""
    rank = {model: i for i, model in enumerate(LOOKS)}
    groups: dict[str, list[Record]] = {}
    for r in sorted(records, key=lambda r: (rank.get(r["model"], 99), r["model"], r["seed"])):
        groups.setdefault(r["model"], []).append(r)
    return groups


def _looks(models: Collection[str]) -> dict[str, Look]:
    """Order the models and give each its look; unknown ones a further colour and their own name."""
    unknown = sorted(set(models) - set(LOOKS))
    further = {
        model: Look(model, FURTHER[i % 3], (0, (6, 1.5, 1.2, 1.5)), "PX*"[i % 3])
        for i, model in enumerate(unknown)
    }
    return {m: k for m, k in (LOOKS | further).items() if m in models}


def _tests(records: Sequence[Record]) -> dict[str, dict[str, Any]]:
    """Return every test set by name; all records must have been scored on the same bins."""
    tests: dict[str, dict[str, Any]] = {}
    for r in records:
        for test in r["tests"]:
            first = tests.setdefault(test["name"], test)
            here, there = (
                [(b["low"], b["high"], b["n"]) for b in t["bins"]] for t in (test, first)
            )
            if not here or here != there:
                raise ValueError(
                    f"{r['model']}, seed {r['seed']}: test {test['name']!r} has no bins or not "
                    "those of the other records; evaluate all models on the same examples"
                )
    return tests


def _scores(group: Sequence[Record], name: str, metric: str) -> np.ndarray:
    """Return (seeds, 1 + bins, 3): value, low, high; overall first; nan where not recorded."""
    tests = [t for r in group for t in r["tests"] if t["name"] == name]
    parts = [[part.get(metric) or {} for part in (t["overall"], *t["bins"])] for t in tests]
    return np.array(
        [[[c.get(k) for k in ("value", "low", "high")] for c in p] for p in parts], float
    )


# Words


def short(n: float, _: object = None, unit: str = "") -> str:
    """Write 2000000 as 2 M, also for the ticks of an axis."""
    sizes = {1e9: "G", 1e6: "M", 1e3: "k", 0: ""}
    size, prefix = next((s or 1, p) for s, p in sizes.items() if n >= s)
    return f"{n / size:.3g} {prefix}{unit}".strip()


def _span(values: Iterable[float], write: Callable[[float], str]) -> str:
    """Write the lowest and the highest value, or the one value."""
    low, high = write(min(values := list(values))), write(max(values))
    return high if low == high else f"{low}–{high}"


def _parameters(records: Iterable[Record]) -> str:
    return _span((r["n_parameters"] / 1e6 for r in records), "{:.2f}".format) + " M"


def _subtitle(records: Sequence[Record]) -> str:
    seeds = _span(Counter(r["model"] for r in records).values(), str)
    tokens = _span((r["train_config"]["tokens"] for r in records), short)
    parts = [records[0]["task"].replace("_", " ").capitalize()]
    parts += dict.fromkeys(r["data"]["name"] for r in records)
    parts += [f"{_parameters(records)} parameters", f"{tokens} target tokens"]
    parts += ["one seed" if seeds == "1" else f"{seeds} seeds"]
    parts += ["trained further"] * any(r.get("continued") for r in records)
    return " · ".join(parts)


def _brief(labels: Sequence[str]) -> list[str]:
    """Return what is written beside the ends of lines, in up to three rows.

    Where names are long, what all begin or end with goes; what differs stays.
    """
    if len(labels) > 1 and max(map(len, labels)) > 2 * ROW:
        start = _common(labels)
        end = _common([label[start:][::-1] for label in labels])
        cut = [label[start : len(label) - end] for label in labels]
        labels = ["…" * (start > 0) + label + "…" * (end > 0) for label in cut]
    return [_in_rows(_shortened(label, labels)) for label in labels]


def _common(labels: Sequence[str]) -> int:
    """Count the characters that all labels begin with, in whole words where words are short."""
    same = _start_of(labels)[: min(map(len, labels)) - 1]
    words = re.match(r".*[\W_]", same)
    end = words.end() if words else 0
    return end if len(same) - end <= ROW else len(same)


def _start_of(labels: Sequence[str]) -> str:
    """Return what all labels begin with."""
    least, most = min(labels), max(labels)
    n_same = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(least, most, strict=False))
    )
    return least[:n_same]


def _shortened(label: str, labels: Sequence[str]) -> str:
    """Cut a label that is still too long before where it differs from the one most like it."""
    others = [_start_of([label, other]) for other in labels if other != label]
    start = max(0, *map(len, others), 4) - 4 if others else 0
    if len(label) <= 3 * ROW or start <= ROW:
        return label
    return f"{label[:ROW]}…{label[start:]}"


def _in_rows(label: str) -> str:
    """Break a label into at most three rows of about ROW characters, between words."""
    rows = [""]
    for part in re.findall(rf"[^\W_]{{1,{ROW}}}[\W_]?|[\W_]", label):
        if rows[-1] and len((rows[-1] + part).strip()) > ROW:
            rows.append("")
        rows[-1] += part
    return "\n".join(row.strip() for row in rows[:3]) + "…" * (len(rows) > 3)


def _noun(records: Sequence[Record]) -> str:
    return "sentences" if records[0]["task"] == "translation" else "examples"


# Figures


def _canvas(
    body: float, title: str, subtitle: str, caption: str, width: float = WIDTH
) -> tuple[Figure, float, float]:
    """Return a figure with its words, and bottom and top of the `body` inches between them."""
    wide = width / WIDTH
    title = _fill(title[0].upper() + title[1:], int(84 * wide))
    head = "\n".join(_fill(line, int(122 * wide)) for line in subtitle.split("\n"))
    foot = _fill(caption, int(130 * wide))
    first = 0.4 + 0.22 * title.count("\n")
    above = first + 0.1 + 0.17 * (head.count("\n") + 1)
    below = 0.2 + 0.16 * (foot.count("\n") + 1)
    height, x = above + body + below, 0.12 / width
    figure = Figure(figsize=(width, height))
    figure.text(x, 1 - 0.12 / height, title, va="top", size=12.5, weight="bold")
    figure.text(x, 1 - first / height, head, va="top", color=GREY)
    figure.text(x, 0.12 / height, foot, va="bottom", color=GREY, size=9, linespacing=1.25)
    return figure, below / height, 1 - above / height


def _fill(text: str, width: int) -> str:
    """Break a text into lines, but for the space before a number, an arrow or a per cent sign."""
    kept = re.sub(r" (?=[−+±\d%→])", "\N{NO-BREAK SPACE}", text)
    return textwrap.fill(kept, width).replace("\N{NO-BREAK SPACE}", " ")


def _key(records: Sequence[Record]) -> list[Look]:
    """Return the models' looks, labelled with their years and parameters."""
    groups = _by_model(records)
    years = {model: f" ({entry.year})" for model, entry in CATALOG.items()}
    return [
        look._replace(label=f"{look.label}{years.get(model, '')} · {_parameters(groups[model])}")
        for model, look in _looks(groups).items()
    ]


def _panels(
    words: tuple[str, str, str], key: Sequence[Look], ratios: Sequence[float], foot: float
) -> tuple[Figure, np.ndarray]:
    """Return a figure with title, subtitle, caption, key and two columns of axes, `foot` inches up.

    Long labels share fewer columns of the key.
    """
    longest = max(len(k.label) for k in key)
    n_columns = 3 if longest <= 40 else 2 if longest <= 60 else 1
    n_lines = math.ceil(len(key) / n_columns)
    body = 0.85 + 0.2 * max(0, n_lines - 2) + foot + 0.42 * sum(ratios)
    figure, bottom, top = _canvas(body, *words)
    height = figure.get_figheight()
    handles = [
        Line2D([], [], color=k.colour, ls=k.dashes, marker=k.marker, lw=2, ms=5, label=k.label)
        for k in key
    ]
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.06 / WIDTH, top)}
    look: dict[str, Any] = {"frameon": False, "handlelength": 3, "columnspacing": 1.6}
    figure.legend(handles=handles, ncols=n_columns, borderaxespad=0, fontsize=9.5, **place, **look)
    top -= (0.5 + 0.2 * n_lines) / height
    edges = {"left": 0.5 / WIDTH, "right": 1 - 1.2 / WIDTH, "bottom": bottom + foot / height}
    space = {"height_ratios": ratios, "hspace": 0.07, "wspace": 0.48, "top": top}
    axes = figure.subplots(len(ratios), 2, sharex="col", squeeze=False, gridspec_kw=edges | space)
    return figure, axes


def _label_ends(ax: Axes, ends: Iterable[tuple[float, float, str, str]]) -> None:
    """Write (x, y, text, colour) to the right of the axes, moved apart until none overlaps."""
    ax.autoscale_view()  # else the limits of log axes are not there yet
    to_axes = ax.transScale + ax.transLimits
    ends = sorted(ends, key=lambda end: end[1])
    y = np.array([to_axes.transform(end[:2])[1] for end in ends])
    point = 100 / 72 / ax.get_window_extent().height  # at the default of 100 dpi
    tall = np.array([(12.5 + 11 * end[2].count("\n")) * point for end in ends])
    gap = (tall[:-1] + tall[1:]) / 2
    for _ in range(500):
        overlap = np.maximum(gap - np.diff(y), 0) / 2
        y[:-1] -= overlap
        y[1:] += overlap
        y = np.clip(y, 0, 1)
    words: dict[str, Any] = {"va": "center", "size": 9, "annotation_clip": False}
    words["linespacing"] = 1.05
    for (x_end, y_end, text, colour), y_text in zip(ends, y, strict=True):
        line: dict[str, Any] = {
            "arrowstyle": "-",
            "color": colour,
            "lw": 0.7,
            "shrinkA": 2,
            "shrinkB": 4,
        }
        line["relpos"] = (0, 0.5)
        place: dict[str, Any] = {"xytext": (1.05, y_text), "textcoords": "axes fraction"}
        ax.annotate(text, (x_end, y_end), color=colour, arrowprops=line, **place, **words)


def _draw_scores(records: Sequence[Record], test: dict[str, Any]) -> Figure:
    """Draw headline and teacher-forced score against the bins, and the counts below."""
    name, headline, noun = test["name"], test["headline"], _noun(records)
    records = [r for r in records if any(t["name"] == name for t in r["tests"])]
    groups = _by_model(records)
    lines = [(look, groups[model]) for model, look in _looks(groups).items()]
    second = "token_accuracy" if headline in LOSSES else "nats"
    key = _key(records)
    is_gain = _is_gain(test)
    if is_gain:
        without = [_scores(group, name, headline)[:, 1, 0].mean() for _, group in lines]
        key = [k._replace(label=f"{k.label} · {x:.2f}") for k, x in zip(key, without, strict=True)]
    how = f"({_methods(records, (headline, second))}) over {test.get('grouped_by') or noun}"
    caption = f"{_spread(records, how, is_gain)} {_bars(test, noun)}"
    if is_gain:
        caption += f" Key: parameters and, without context, {NAMES[headline]}."
    if all(set(groups) & set(models) for models in findings.GROUPS.values()):
        caption += " Dashed: source in one vector; solid: attends to every word."
    what = f"{NAMES.get(headline, headline)} against {test['axis'].split(' (')[0]}"
    which = "" if name in test["axis"] else f"{name}: "
    title, numbers = finding(records, test) or (what, "")
    subtitle = f"{what[0].upper()}{what[1:]}. {numbers}\n" if numbers else ""
    words = which + title, subtitle + _subtitle(records), caption
    return _draw_bins(words, key, lines, test, (headline, second))


def finding(records: Sequence[Record], test: dict[str, Any]) -> findings.Finding | None:
    """Return what the headline of a test set shows; None where nothing can be said."""
    name, headline = test["name"], test["headline"]
    groups = {model: _scores(group, name, headline) for model, group in _by_model(records).items()}
    means = {model: seeds.mean(axis=0) for model, seeds in groups.items() if seeds.size}
    return findings.find(test, headline, NAMES.get(headline, headline), means)


def _is_gain(test: dict[str, Any]) -> bool:
    """Return whether to draw what a context gains: the first bin is without, and the loss small."""
    return test["headline"] in LOSSES and test["bins"][0]["high"] == 0 and len(test["bins"]) > 1


def _spread(records: Sequence[Record], how: str, is_gain: bool) -> str:
    """Say what lines, bands and whiskers are."""
    is_many = len(records) > len(_by_model(records))
    seeds = "Line: mean of the seeds; whisker: lowest to highest seed" if is_many else "One seed"
    if is_gain:
        text = "the records hold intervals of the scores, not of the gains, so that none is drawn."
        return f"Gain: the score with a context less that without. {seeds}; {text}"
    averaged = ", its ends averaged over the seeds" if is_many else ""
    return f"{seeds}; band: 95 % interval {how}{averaged}."


def _bars(test: dict[str, Any], noun: str) -> str:
    """Say what the bars are, and how many bins are thin."""
    n_thin = sum(b["n"] < THIN for b in test["bins"])
    text = f"Bars: number n of {noun}."
    if n_thin:
        have = f"{n_thin} of {len(test['bins'])} bins {'has' if n_thin == 1 else 'have'}"
        text += f" Hollow: fewer than {THIN} ({have}); lines end at the last bin with {THIN}."
    return text


def _methods(records: Iterable[Record], metrics: Iterable[str]) -> str:
    """Tell how the intervals of these scores were computed."""
    told = {(r.get("intervals") or {}).get(m, "bootstrap"): None for m in metrics for r in records}
    return ", ".join(told)


def _draw_bins(
    words: tuple[str, str, str],
    key: Sequence[Look],
    lines: Sequence[Line],
    test: dict[str, Any],
    metrics: tuple[str, str],
) -> Figure:
    """Draw two metrics against the bins of a test set, and the counts below."""
    figure, axes = _panels(words, key, (5.6, 0.9), 0.8 if _is_crowded(test) else 0.45)
    for column, metric in enumerate(metrics):
        _mark_trained(axes[:, column], test)
        _draw_metric(axes[0, column], lines, test, metric)
        _draw_counts(axes[1, column], test)
    return figure


def draw_systems(systems: Sequence[dict[str, Any]], subtitle: str, out: Path) -> list[Path]:
    """Draw BLEU and chrF by source length of systems from elsewhere: {name, overall, bins} each.

    Writes score-length.svg and .png. Draws the first MOST_DRAWN systems; the caption says so.
    """
    colours = [*(look.colour for look in LOOKS.values()), *FURTHER]
    fixed: dict[str, Any] = {"name": "length", "axis": "source length (words)"}
    fixed |= {"headline": "bleu", "trained_to": None}
    lines: list[Line] = []
    key = []
    for system, colour, marker in zip(systems, colours, MARKERS, strict=False):
        look = Look(system["name"], colour, "-", marker)
        bleu = system["overall"]["bleu"]["value"]
        test = {"overall": system["overall"], "bins": system["bins"], **fixed}
        lines.append((look, [{"tests": [test]}]))
        key.append(look._replace(label=f"{look.label} · {bleu:.1f}"))
    caption = f"Band: 95 % interval (BCa bootstrap) over sentences. {_bars(test, 'sentences')} "
    caption += "Key: overall BLEU."
    if len(systems) > len(lines):
        caption += f" The first {len(lines)} of {len(systems)} systems."
    words = "BLEU and chrF against source length", subtitle, caption
    with style.context(["default", RC], after_reset=True):
        figure = _draw_bins(words, key, lines, test, ("bleu", "chrf"))
        return [save(figure, out / f"score-length.{kind}") for kind in ("svg", "png")]


def _mark_trained(axes: Iterable[Axes], test: dict[str, Any]) -> None:
    """Shade the bins that are longer than anything trained on."""
    n_bins = len(test["bins"])
    beyond = [i for i, b in enumerate(test["bins"]) if _is_beyond(test, b)]
    for ax, words in zip(axes, ("longer than trained", ""), strict=True):
        ax.set_xlim(-0.5, n_bins - 0.5)
        for edge in beyond[:1]:
            ax.axvspan(edge - 0.5, n_bins - 0.5, color="#F5F2EA", lw=0, zorder=0)
            ax.axvline(edge - 0.5, color="#999999", lw=0.9, ls=(0, (2, 2)), zorder=1)
            ax.text(1, 1.02, words, transform=ax.transAxes, ha="right", color=GREY, size=9)


def _is_beyond(test: dict[str, Any], part: dict[str, Any]) -> bool:
    """Return whether all of a bin is longer than anything trained on."""
    return test["trained_to"] is not None and part["low"] > test["trained_to"]


def _draw_metric(ax: Axes, lines: Sequence[Line], test: dict[str, Any], metric: str) -> None:
    """Draw one metric against the bins: a line, a band and the seeds' whiskers per model.

    Lines and names end at the last bin with THIN examples; beyond it there are hollow marks alone.
    """
    ends = []
    n = np.array([b["n"] for b in test["bins"]])
    is_gain, is_loss = _is_gain(test), metric in LOSSES or metric == "perplexity"
    names = _brief([look.label for look, _ in lines])
    for i, (name, (look, group)) in enumerate(zip(names, lines, strict=True)):
        seeds = _scores(group, test["name"], metric)[:, 1:]
        if is_gain:
            gains = (seeds[:, :1, 0] - seeds[..., 0]) * (1 if is_loss else -1)
            seeds = np.stack([gains, np.full_like(gains, np.nan), np.full_like(gains, np.nan)], -1)
        mean, low, high = seeds.mean(axis=0).T
        known = np.flatnonzero(np.isfinite(mean))
        enough = known[n[known] >= THIN]
        x = np.arange(len(mean)) + 0.06 * (i - (len(lines) - 1) / 2)
        draw: dict[str, Any] = {"color": look.colour, "clip_on": False, "zorder": 4}
        to = slice(enough[-1] + 1 if enough.size else 0)
        band = (n >= FEWEST)[to]
        ax.fill_between(x[to], low[to], high[to], band, color=look.colour, alpha=0.16, lw=0)
        ax.plot(x[to], mean[to], ls=look.dashes, lw=1.9, **draw)
        ax.vlines(x[to], seeds[:, to, 0].min(axis=0), seeds[:, to, 0].max(axis=0), lw=1.1, **draw)
        for where, fill in ((n >= THIN, look.colour), (n < THIN, "white")):
            ax.plot(x[where], mean[where], look.marker, ms=4.5, mfc=fill, mew=1.1, **draw)
        last = (enough if enough.size else known)[-1:]
        ends += [(x[k], mean[k], name, look.colour) for k in last]
    if metric == test["headline"] and test.get("baseline"):
        without = [b["baseline"]["value"] for b in test["bins"]]
        ax.plot(without, ls=":", lw=1.8, color=INK, zorder=5)
        place: dict[str, Any] = {"transform": ax.transAxes, "ha": "right", "va": "top"}
        ax.text(0.99, 0.98, f"dotted: {test['baseline']}", color=INK, size=8.5, **place)
    title = NAMES.get(metric, metric)
    if is_gain:
        title = f"{title} saved" if is_loss else title.replace(" (%)", ", gain (points)")
    ax.set_title(title + _how(test, metric), loc="left", size=10.5, pad=19)
    better = "lower is better ↓" if is_loss and not is_gain else "higher is better ↑"
    ax.text(0, 1.02, better, transform=ax.transAxes, color=GREY, size=9)
    full = 50 if "nats" in test["overall"] else 100  # no text, but the grammar, has a BLEU of 100
    is_low = metric in ("bleu", "chrf") and ax.get_ylim()[1] < full
    if metric in ("bleu", "chrf", test["headline"]) and metric in METRICS:
        ax.set_ylim(0, None if is_low else 100)
    ax.tick_params(labelbottom=False, length=0)
    ax.text(0.5, 0.5, "" if ends else "not recorded", transform=ax.transAxes, ha="center")
    _label_ends(ax, ends)


def _how(test: dict[str, Any], metric: str) -> str:
    """Tell whether a model was given the true words; systems from elsewhere never are."""
    if "nats" not in test["overall"]:
        return ""
    is_forced = metric in TEACHER_FORCED or "accuracy" not in test["overall"]
    return ", teacher-forced" if is_forced else f", free-running{_search(test)}"


def _search(test: dict[str, Any]) -> str:
    """Tell how targets were searched for, where the test set says it."""
    beam = test.get("beam")
    return "" if beam is None else ", greedy" if beam == 1 else f", beam {beam}"


def _is_crowded(test: dict[str, Any]) -> bool:
    """Tell whether the names of the bins must be turned to fit below a panel."""
    return sum(len(bin_name(b)) + 1 for b in test["bins"]) > 50


def _draw_counts(strip: Axes, test: dict[str, Any]) -> None:
    """Draw the number of examples of each bin, and the names of the bins."""
    counts, names = [b["n"] for b in test["bins"]], [bin_name(b) for b in test["bins"]]
    fills = ["white" if n < THIN else "#BDBDBD" for n in counts]
    bars = strip.bar(range(len(counts)), counts, 0.62, color=fills, edgecolor="#9A9A9A", lw=0.8)
    strip.bar_label(bars, [short(n) for n in counts], size=8, color=GREY, padding=1)
    strip.set_ylim(0, 1.9 * max(counts))
    strip.set_ylabel("n", rotation=0, labelpad=10, va="center", color=GREY)
    strip.set_yticks([])
    strip.spines["left"].set_visible(False)
    turn: dict[str, Any] = {"rotation": 38, "ha": "right"} if _is_crowded(test) else {}
    strip.set_xticks(range(len(names)), names, **turn)
    strip.tick_params(axis="x", length=0)
    strip.set_xlabel(test["axis"])


def _draw_curves(records: Sequence[Record]) -> Figure:
    """Draw validation loss against target tokens and against time, one line per seed."""
    caption = "Each line is one seed; teacher-forced loss on the validation split, log scale."
    words = *_ended(records), caption
    figure, axes = _panels(words, _key(records), (6,), 0.45)
    looks, records = _looks(_by_model(records)), [r for r in records if r["curve"]]
    fields = {"tokens": "target tokens", "seconds": "seconds of training"}
    for ax, (field, label) in zip(axes[0], fields.items(), strict=True):
        ax.set_yscale("log")
        ends: dict[str, tuple[float, float, str, str]] = {}
        for r in records:
            look = looks[r["model"]]
            x, y = ([p[k] for p in r["curve"]] for k in (field, "valid_nats"))
            ax.plot(x, y, color=look.colour, ls=look.dashes, lw=1.4)
            ax.plot(x[-1:], y[-1:], look.marker, color=look.colour, ms=4.5, clip_on=False, zorder=4)
            ends[r["model"]] = x[-1], y[-1], _in_rows(look.label), look.colour
        ax.set_title("nats per token, teacher-forced", loc="left", size=10.5)
        ax.set_xlim(0)
        ax.set_xlabel(label)
        ax.xaxis.set_major_locator(MaxNLocator(5))
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.minorticks_off()
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(FuncFormatter(short))
        _label_ends(ax, ends.values() if field == "tokens" else ())
    return figure


def _ended(records: Sequence[Record]) -> tuple[str, str]:
    """Return title and subtitle: which model ends with the lowest loss, which with the highest.

    Nothing is said where their seeds overlap.
    """
    what, subtitle = "Learning curves", _subtitle(records)
    groups = _by_model(r for r in records if r["curve"])
    last = {m: [r["curve"][-1]["valid_nats"] for r in group] for m, group in groups.items()}
    low, high = (pick(last, key=lambda m: np.mean(last[m]), default="") for pick in (min, max))
    if low == high or max(last[low]) >= min(last[high]):
        return what, subtitle
    at = [f"{label_of(m)} ends at {np.mean(last[m]):.3f} nats per token" for m in (low, high)]
    title = (
        f"{at[0]}, the lowest validation loss; {at[1].replace(' nats per token', '')}, the highest"
    )
    return title, f"{what}\n{subtitle}"


def _draw_state(records: Sequence[Record]) -> Figure:
    """Draw the bytes of State against the source length; lines that coincide share the dashes."""
    caption = (
        "Size of what encode hands over for one source. Flat: one vector, whatever the length; "
        "rising: one vector per word. Lines that coincide alternate in colour."
    )
    what = "What the decoder is given: bytes of State against source length"
    groups = {m: g for m, g in _by_model(records).items() if g[0]["state_bytes"]}
    sizes = {m: np.array(g[0]["state_bytes"], float).T for m, g in groups.items()}
    title = _growth(sizes)
    subtitle = f"{what}\n{_subtitle(records)}" if title else _subtitle(records)
    figure, bottom, top = _canvas(3.7, title or what, subtitle, caption)
    height = figure.get_figheight()
    box = (0.75 / WIDTH, bottom + 0.5 / height, 1 - 4 / WIDTH, top - bottom - 0.6 / height)
    ax, ends = figure.add_axes(box), []
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    for model, look in _looks(groups).items():
        S, size = sizes[model]
        alike = {m: other for m, other in sizes.items() if other.shape == sizes[model].shape}
        twins = [m for m, other in alike.items() if np.allclose(other, sizes[model], rtol=0.06)]
        k, n = twins.index(model), len(twins)
        dashes = (5 * k, (5, 5 * (n - 1))) if n > 1 else look.dashes
        ax.plot(S, size, color=look.colour, ls=dashes, lw=2.2, dash_capstyle="butt")
        ax.plot(S, size, look.marker, color=look.colour, ms=5.5, markevery=(k, n), zorder=4)
        ends.append((S[-1], size[-1], f"{look.label} · {_parameters(groups[model])}", look.colour))
    ax.set_xlabel("source length S (tokens)")
    ax.grid(True, axis="both")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: short(v, unit="B")))
    ax.minorticks_off()
    _label_ends(ax, ends)
    return figure


def _growth(sizes: Mapping[str, np.ndarray]) -> str:
    """Say which sizes stay and which grow with the source; nothing if all do the same."""
    said = []
    for name, models in findings.GROUPS.items():
        ends = [sizes[m][1, [0, -1]] for m in models if m in sizes]
        if ends and len({after > before for before, after in ends}) == 1:
            verb = "grows to" if ends[0][1] > ends[0][0] else "stays at"
            size = _span((after for _, after in ends), lambda n: short(n, unit="B"))
            said.append(f"{name} {verb} {size}")
    longest = {int(S[-1]) for S, _ in sizes.values()}
    if len(said) < 2 or len(longest) > 1:
        return ""
    return f"State: {said[0]}, {said[1]} at {longest.pop():,} tokens of source"


def draw_alignment(
    alignments: Mapping[str, dict[str, Any]], path: Path, subtitle: str = ""
) -> Path:
    """Draw model -> {src, tgt, alpha (T, S), gold} as one heat map each; write .svg or .png.

    Raises ValueError for another kind of file, for nothing to draw, and if `alpha` has not one row
    per target word and one column per source word.
    """
    if not alignments:
        raise ValueError("no model here attends to the source; there is no alignment to draw")
    for model, a in alignments.items():
        if np.shape(a["alpha"]) != (words := (len(a["tgt"]), len(a["src"]))):
            raise ValueError(f"{model}: alpha is {np.shape(a['alpha'])}, but the words are {words}")
    with style.context(["default", RC], after_reset=True):
        return save(_draw_alignments(alignments, subtitle), Path(path))


def _draw_alignments(alignments: Mapping[str, dict[str, Any]], subtitle: str) -> Figure:
    """Lay the heat maps out in one row, with cells in which words fit, and one colour scale."""
    cell, letter = 0.14, 0.072  # inches, at least
    shown = {m: [*map(_pieces, (a["src"], a["tgt"]))] for m, a in alignments.items()}
    n_src, n_tgt = (max(len(pieces[i]) for pieces in shown.values()) for i in (0, 1))
    above, margin = (
        0.15 + letter * max(_width(w) for pieces in shown.values() for w in pieces[i])
        for i in (0, 1)
    )
    is_same = len({tuple(tgt) for _, tgt in shown.values()}) == 1  # then its words are written once
    margins = [margin if i == 0 or not is_same else 0.15 for i in range(len(shown))]
    bar, n = 0.75, len(shown)
    cell = max(cell, min(0.24, (WIDTH - bar - sum(margins)) / n / n_src))
    width = max(WIDTH, sum(margins) + n * cell * n_src + bar)
    has_gold = any(a.get("gold") is not None for a in alignments.values())
    what = "Alignments: target words (rows) look at source words (columns)"
    title, subtitle = (_looked(alignments), f"{what}\n{subtitle}") if has_gold else (what, subtitle)
    caption = (
        "Each row shows how the attention is shared among the source words while one target word "
        "is written: it sums to one"
    )
    caption += ", GPT's to less, because the rest lies on the target" * ("gpt" in alignments)
    caption += ". Open squares: gold links." if has_gold else ". No gold links for this sentence."
    caption += _signs(w for pieces in shown.values() for words in pieces for w in words)
    figure, _, top = _canvas(above + 0.4 + cell * n_tgt, title, subtitle, caption, width)
    height = figure.get_figheight()
    y, x = top * height - 0.3, 0.0
    for i, (model, look) in enumerate(_looks(alignments).items()):
        a, (src, tgt) = alignments[model], shown[model]
        x += margins[i]
        size = cell * len(src) / width, cell * len(tgt) / height
        ax = figure.add_axes((x / width, (y - above) / height - size[1], *size))
        _draw_heat(ax, a | {"src": src, "tgt": tgt if margins[i] == margin else [""] * len(tgt)})
        words: dict[str, Any] = {"color": look.colour, "weight": "bold", "size": 10}
        figure.text(x / width, y / height, look.label, va="bottom", **words)
        x += cell * n_src
    tall = min(1.6, cell * n_tgt)
    place = ((x + 0.15) / width, (y - above - tall) / height, 0.12 / width, tall / height)
    scale = figure.colorbar(
        ScalarMappable(cmap=HEAT), cax=figure.add_axes(place), ticks=[0, 0.5, 1]
    )
    scale.outline.set_visible(False)
    scale.ax.set_title("weight", size=8.5, loc="left", color=GREY, pad=5)
    scale.ax.grid(False)
    return figure


def _looked(alignments: Mapping[str, dict[str, Any]]) -> str:
    """Say for how many of the target words with a gold link the strongest weight is on one."""
    counts = []
    for model in _looks(alignments):
        a = alignments[model]
        gold = {(s, t) for s, t in a.get("gold") or ()}
        linked = {t for _, t in gold}
        n = sum((int(np.argmax(a["alpha"][t])), t) in gold for t in linked)
        counts.append(f"{label_of(model)} {n}")
    return f"Strongest weight on a gold link, of {len(linked)} target words: {', '.join(counts)}"


def _pieces(labels: Sequence[str]) -> list[str]:
    """Return a text's pieces as they are shown: the mark of the space before a word goes.

    Where there are such marks, a piece that goes on with the word before it gets a dot.
    """
    words = _joined(labels)
    has_marks = any(re.match(r"▁[^▁]", word) for word in words)
    shown = []
    for before, word in pairwise(["", *words]):
        goes_on = has_marks and _is_letter(word[:1]) and (_is_letter(before[-1:]) or before == "…")
        bare = word[1:] if has_marks and re.match(r"▁[^▁]", word) else word
        shown.append("·" * goes_on + bare.replace("▁", "␣"))
    return shown


def _is_letter(char: str) -> bool:
    return char != "" and unicodedata.category(char)[0] in "LMN"


def _joined(labels: Sequence[str]) -> list[str]:
    """Move a character whose bytes pieces share to the first of them; "…" is what has the rest."""
    pieces = [
        re.sub(rb"\\x([89a-f][0-9a-f])", lambda m: bytes.fromhex(m[1].decode()), label.encode())
        for label in labels
    ]
    owner = [i for i, piece in enumerate(pieces) for _ in piece]
    words, n = ["" for _ in pieces], 0
    for char in b"".join(pieces).decode(errors="surrogateescape"):
        size = len(char.encode(errors="surrogateescape"))
        words[owner[n]] += char if char.isprintable() else labels[owner[n]]
        n += size
    return [word or "…" * bool(piece) for word, piece in zip(words, pieces, strict=True)]


def _width(word: str) -> int:
    """Count the columns that a word takes: two for each wide character."""
    return sum(1 + (unicodedata.east_asian_width(char) in "WF") for char in word)


def _signs(words: Iterable[str]) -> str:
    """Explain the signs among the pieces that stand for something else."""
    words = set(words)
    told = {
        "A dot (·): goes on with the word before.": any(w[:1] == "·" and len(w) > 1 for w in words),
        "An open box (␣): a space.": any("␣" in w for w in words),
        "An ellipsis (…): the rest of the character before.": "…" in words,
    }
    return "".join(f" {text}" for text, is_there in told.items() if is_there)


def _draw_heat(ax: Axes, a: dict[str, Any]) -> None:
    """Draw one heat map, words at its edges, gold links as open squares."""
    alpha = np.array(a["alpha"], float)
    ax.pcolormesh(alpha, cmap=HEAT, vmin=0, vmax=1, edgecolors="#EDEDED", lw=0.4)
    ax.invert_yaxis()
    ax.grid(False)
    for s, t in a.get("gold") or ():
        ax.add_patch(Rectangle((s + 0.06, t + 0.06), 0.88, 0.88, fill=False, ec="#E8741C", lw=1.5))
    ax.xaxis.tick_top()
    ax.set_xticks(np.arange(len(a["src"])) + 0.5, a["src"], rotation=90)
    ax.set_yticks(np.arange(len(a["tgt"])) + 0.5, a["tgt"])
    ax.tick_params(length=0, labelcolor=INK, pad=2)


# Tables


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Pad the columns, so that the table can be read in a terminal too; the first row heads."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = ["-" * widths[0], *("-" * (w - 1) + ":" for w in widths[1:])]
    lines = [[row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in (lines[0], rule, *lines[1:]))


def cell(seeds: np.ndarray, metric: str, n: int = THIN) -> str:
    """Write mean, half the range of the seeds and interval of (seeds, 3)."""
    digits = 3 if metric in (*LOSSES, "source_gain") else 1
    value, low, high = (f"{v:.{digits}f}" for v in seeds.mean(axis=0))
    spread = f" ± {np.ptp(seeds[:, 0]) / 2:.{digits}f}" if len(seeds) > 1 else ""
    interval = "[–]" if low == "nan" or n < FEWEST else f"[{low}, {high}]"
    return "–" if value == "nan" else f"{value}{spread} {interval}{'*' if n < THIN else ''}"


def _overall(records: Sequence[Record], test: dict[str, Any]) -> list[list[str]]:
    """Return the rows of one test set: score overall and at three lengths, losses, cost."""
    name, headline, bins = test["name"], test["headline"], test["bins"]
    trained = [i for i, b in enumerate(bins) if b["high"] <= (test["trained_to"] or -math.inf)]
    ends = ("first", "last") if test["axis"].startswith("place") else ("shortest", "longest")
    at = {0: ends[0]} | dict.fromkeys(trained[-1:], "longest trained")
    at |= {len(bins) - 1: ends[1] + ", longer than trained" * _is_beyond(test, bins[-1])}
    losses = [m for m in LOSSES if m != headline]
    heads = [NAMES.get(headline, headline), *(f"{bin_name(bins[i])}, {at[i]}" for i in at)]
    losses += ["source_gain"] * ("source_gain" in test["overall"])
    heads += [*(NAMES[m] for m in losses), "train tokens/s", "train s"]
    rows = [["model", "seeds", "parameters", *heads]]
    for model, group in _by_model(records).items():
        if (scores := _scores(group, name, headline)).size:
            row = [_looks([model])[model].label, str(len(scores)), _parameters(group)]
            row += [cell(scores[:, 0], headline)]
            row += [cell(scores[:, i + 1], headline, bins[i]["n"]) for i in at]
            row += [cell(_scores(group, name, m)[:, 0], m) for m in losses]
            speed = np.mean([r["speed"]["train_tokens_per_s"] for r in group])
            rows.append([*row, f"{speed:,.0f}", f"{np.mean([r['train_s'] for r in group]):,.0f}"])
    return rows


def table(records: Sequence[Record]) -> str:
    """Return one Markdown table per test set, with what its cells mean and the signatures."""
    parts = [_subtitle(records)]
    for name, test in _tests(records).items():
        title = f"### {name}: by {test['axis']}{_search(test)}"
        parts += [title, markdown(_overall(records, test))]
        signed = {
            (k, s) for r in records for k, s in r["signatures"].items() if k == test["headline"]
        }
        parts += ["\n".join(f"{NAMES.get(k, k)}: `{s}`" for k, s in sorted(signed))] * bool(signed)
    noun = _noun(records)
    tests = _tests(records).values()
    shown = {m: None for test in tests for m in (test["headline"], *LOSSES)}
    units = ", ".join(dict.fromkeys(test.get("grouped_by") or noun for test in tests))
    note = "Mean over the seeds ± half their range [95 % interval "
    note += f"({_methods(records, shown)}) over {units}, mean over the seeds]"
    note += f"; – not recorded; * fewer than {THIN} {noun}, [–] fewer than {FEWEST} {units}"
    parts += [f"{note}. {', '.join(LOSSES.values())}: teacher-forced."]
    return "\n\n".join(parts) + "\n"


def by_length_table(records: Sequence[Record]) -> str:
    """Return one Markdown table per test set: the headline, models × bins, and how many each."""
    parts = []
    for name, test in _tests(records).items():
        headline, bins = test["headline"], test["bins"]
        rows = [[test["axis"], *(bin_name(b) + "†" * _is_beyond(test, b) for b in bins)]]
        for model, group in _by_model(records).items():
            if (scores := _scores(group, name, headline)).size:
                cells = [cell(scores[:, i + 1], headline, b["n"]) for i, b in enumerate(bins)]
                rows.append([_looks([model])[model].label, *cells])
        if test.get("baseline"):
            values = (f"{b['baseline']['value']:.1f}" for b in bins)
            rows.append([f"({test['baseline']})", *values])
        rows.append(["n", *(f"{b['n']:,}" for b in bins)])
        parts += [f"### {name}: {NAMES.get(headline, headline)}", markdown(rows)]
        parts += ["† longer than trained"] * any(_is_beyond(test, b) for b in bins)
    return "\n\n".join(parts) + "\n"


# Published figures


def _ours(figure: ledger.Figure | None, folders: Mapping[str, Sequence[Record]]) -> str:
    """Write our score with its interval and our parameters; a dash where no record has it."""
    if figure is None or (ours := figure.ours) is None:
        return "–"
    group = [r for r in folders.get(ours.folder, ()) if r["model"] == ours.model]
    scores = _scores(group, ours.test, ours.score)
    score = cell(scores[:, 0], ours.score) if scores.size else "–"
    return score if score == "–" else f"{score} ({_parameters(group)})"


def _theirs(figure: ledger.Figure | None) -> str:
    """Write a value as it was printed, and the parameters where they are known."""
    if figure is None:
        return "–"
    return figure.value + (f" ({short(figure.parameters)})" if figure.parameters else "")


def _beside(entry: ledger.Entry, folders: Mapping[str, Sequence[Record]]) -> str:
    """Return one Markdown table: systems × what was measured, with ours to the right of each."""
    columns = dict.fromkeys((f.metric, f.on) for f in entry.figures)
    systems: dict[str, dict[Any, ledger.Figure]] = {}
    for f in entry.figures:
        systems.setdefault(f.system, {})[f.metric, f.on] = f
    rows = [["system", "model here"]]
    for metric, on in columns:
        name = NAMES.get(metric, metric) + (f", {on}" if on else "")
        rows[0] += [name, "ours"] if entry.comparable else [name]
    for system, figures in systems.items():
        models = {LOOKS[f.model].label for f in figures.values() if f.model}
        rows.append([system, ", ".join(sorted(models)) or "–"])
        for column in columns:
            figure = figures.get(column)
            rows[-1] += [_theirs(figure)]
            rows[-1] += [_ours(figure, folders)] if entry.comparable else []
    return markdown(rows)


def published(entries: Sequence[ledger.Entry], folders: Mapping[str, Sequence[Record]]) -> str:
    """Return all figures of a ledger with ours beside them, those that can be compared first."""
    parts = [
        "## Published figures",
        f"From [{ledger.FILE}]({ledger.FILE}): values as they were printed, in parentheses the "
        "parameters, where they are told. Ours [95 % interval] stand beside them where "
        "data, test set and measure are the same but for what is said; – where there is no such "
        "figure or no record of it.",
    ]
    for entry in sorted(entries, key=lambda entry: not entry.comparable):
        title = f"{entry.source} {entry.year}" if entry.year else entry.source
        title = f"[{title}]({entry.url})" if entry.url else title
        told = (entry.corpus, entry.direction, entry.test, entry.text, entry.search, entry.setting)
        verdict = "Comparable" if entry.comparable else "Not comparable"
        parts += [
            f"### {title}{f', {entry.place}' if entry.place else ''}",
            f"{' · '.join(filter(None, told))}. **{verdict}**: {entry.why}.",
            _beside(entry, folders),
        ]
        parts += [f"{entry.finding}."] if entry.finding else []
    return "\n\n".join(parts)


# Files


def plot_folder(folder: Path, out: Path | None = None) -> list[Path]:
    """Write all figures (SVG and PNG) and tables.md to `out` or the folder; return the paths."""
    records, out = load_records(folder), Path(out or folder)
    for unknown in _find(folder)[1]:
        print(f"not drawn: {unknown}", file=sys.stderr)
    out.mkdir(parents=True, exist_ok=True)
    attending = _by_model(r for r in records if r["alignment"])
    first = [group[0] for group in attending.values()]
    alignments = {r["model"]: r["alignment"] for r in first}
    with style.context(["default", RC], after_reset=True):
        figures = {"curves": _draw_curves(records), "state": _draw_state(records)}
        for name, test in _tests(records).items():
            figures["score-" + re.sub(r"[^\w.-]+", "-", name)] = _draw_scores(records, test)
        names = [f"{name}.{kind}" for name in figures for kind in ("svg", "png")]
        paths = [save(figures[name[:-4]], out / name) for name in names]
    for kind in ("svg", "png") if alignments else ():
        paths.append(draw_alignment(alignments, out / f"alignment.{kind}", _subtitle(first)))
    text = f"{table(records)}\n{by_length_table(records)}"
    return [*paths, files.write(out / "tables.md", text.encode())]


def plot_results(root: Path) -> list[Path]:
    """Draw a folder of records, or every one below it with a README.md that shows them all.

    A ledger of published figures in the folder is shown there, too, set beside the records.
    """
    folders = sorted({path.parent for path in root.glob("*/*.json") if _is_record(path)})
    if not folders:
        return plot_folder(root)
    entries = ledger.load(root)
    paths: list[Path] = []
    parts = [
        "# Results",
        "Made from the records in these folders by `seqmodels plot`. A record holds what trains it "
        "again (task, seed, settings, commit); hypotheses and weights are not kept here. "
        "`python -m tasks --out FOLDER` trains them again, with `--corpora` those on real text.",
    ]
    for folder in folders:
        drawn = plot_folder(folder)
        paths += drawn
        parts += [f"## {folder.name}", (folder / "tables.md").read_text(encoding="utf-8").strip()]
        figures = sorted(path for path in drawn if path.suffix == ".svg")
        parts += [f"![{path.stem}]({folder.name}/{path.name})" for path in figures]
    if entries:
        parts += [published(entries, {f.name: load_records(f) for f in folders})]
    return [*paths, files.write(root / "README.md", ("\n\n".join(parts) + "\n").encode())]


def _is_record(path: Path) -> bool:
    """Tell records from other JSON files."""
    return schema.is_record(files.read_json(path))


def save(figure: Figure, path: Path) -> Path:
    """Write .svg or .png, the same bytes every time.

    An SVG has the first text of the figure as its title, and the others as its description.
    """
    stamps: dict[str, dict[str, None]] = {
        ".svg": dict.fromkeys(("Date", "Creator")),
        ".png": {"Software": None},
    }
    if (kind := path.suffix.lower()) not in stamps:
        raise ValueError(f"{path}: a figure is written as .svg or .png")
    _give_fonts(figure)
    page = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from")  # one note has said so
        figure.savefig(page, format=kind[1:], dpi=160, metadata=stamps[kind])
    made = page.getvalue()
    if kind == ".svg":
        title, *more = [" ".join(text.get_text().split()) for text in figure.texts] or [""]
        words = f"<title>{html.escape(title)}</title>\n <desc>{html.escape(' '.join(more))}</desc>"
        made = re.sub(rb"(<svg [^>]*>)", lambda m: m[0] + f"\n {words}".encode(), made, count=1)
    return files.write(path, made)


def _give_fonts(figure: Figure) -> None:
    """Give each text the fonts of its characters; note the characters that no font has."""
    texts: list[Text] = figure.findobj(Text)
    needed = {text: fonts.lacking(text.get_text()) for text in texts}
    if everything := frozenset().union(*needed.values()):
        found, missing = fonts.families(everything)
        for text in (text for text, characters in needed.items() if characters):
            text.set_fontfamily([fonts.DEFAULT, *found])
        fonts.note(missing)
