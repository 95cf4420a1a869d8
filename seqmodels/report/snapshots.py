"""Draw the snapshots of a run: a sentence as the model writes it while it learns, and attention."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import groupby, zip_longest

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from seqmodels.records import snapshots
from seqmodels.records.schema import Record
from seqmodels.records.snapshots import Axes as Words
from seqmodels.records.snapshots import Sentence, Snapshot, SnapshotsFile
from seqmodels.report import style
from seqmodels.report.load_records import (
    Folder,
    describe_run,
    format_short,
    group_by_model,
    label_of,
)
from seqmodels.report.style import GREY, INK, WIDTH, Look, Texts
from seqmodels.report.tidy import FigureWithData, Table

MAX_ROWS, MAX_MAPS = 15, 6
ROW, MAP, TEXT = 0.29, 1.42, 1.7
"""Inches: height of a row, side of a map with its title, left edge of the texts."""
SIZE = 8.2
LETTER = 0.602 * SIZE / 72
"""Inches per letter of DejaVu Sans Mono at this size; 11 pixels of a PNG."""
N_LETTERS = 59
"""Letters that fit beside maps, by which the sentence is chosen: all models show the same one."""
WRONG = "#D9661F"


def draw_all_snapshots(folder: Folder) -> dict[str, FigureWithData]:
    """Return a figure for each record that has snapshots, by the names of their files.

    If the snapshots are invalid, a note is printed.
    """
    figures = {}
    line_styles = style.line_styles_for(group_by_model(folder.records.values()))
    for name, r in folder.records.items():
        path = snapshots.path_of(folder.path / name)
        if path.exists():
            try:
                colour = line_styles[r.model].colour
                figure = draw_snapshots(r, snapshots.load(path), colour)
            except ValueError as error:
                print(f"not drawn: {error}", file=sys.stderr)
                continue
            figures[f"snapshots-{r.model}-seed{r.seed}"] = figure
    return figures


def draw_snapshots(r: Record, taken: SnapshotsFile, colour: str) -> FigureWithData:
    """Draw a row for each snapshot, and the attention of some of them to the right."""
    table = Table()
    rows = choose_evenly(taken.snapshots, MAX_ROWS)
    maps = choose_evenly(rows, MAX_MAPS) if taken.alignment else []
    body = max(ROW * (len(rows) + 2), ROW + MAP * ((len(maps) + 1) // 2))
    figure, bottom, top = style.make_canvas(body, *_texts(r, taken))
    height, right = figure.get_figheight(), WIDTH - 0.12
    ax = figure.add_axes((0, bottom, 1, top - bottom), xlim=(0, WIDTH), ylim=(body, 0))
    ax.set_axis_off()
    if taken.alignment:
        right -= 2 * MAP
        text = "attention: target rows, source columns"
        ax.text(right, ROW / 2, text, color=GREY, size=SIZE, va="center")
        for i, snapshot in enumerate(maps):
            x, y = right + MAP * (i % 2), ROW + MAP * (i // 2 + 1)  # of its lower left corner
            sides = (MAP - 0.15) / WIDTH, (MAP - 0.3) / height
            inner = figure.add_axes((x / WIDTH, top - y / height, *sides))
            _draw_map(inner, snapshot, taken.alignment)
            for word, weights in zip(taken.alignment.tgt, snapshot.alpha or (), strict=True):
                places = {"target_word": word, "source_word": taken.alignment.src}
                table.add(panel="attention", tokens=snapshot.tokens, **places, weight=weights)
        right -= 0.2
    _draw_rows(ax, table, rows, taken.sentences, right, colour)
    return FigureWithData(figure, table.rows())


def _texts(r: Record, taken: SnapshotsFile) -> Texts:
    """Return the title, subtitle and caption."""
    caption = (
        "Each row shows the target tokens trained on so far, and what the model then writes for "
        "the source above. Dark words are those of the reference, in its order. Words right: their "
        "number as a share of the words of the output or of the reference, whichever is longer, "
        f"over {len(taken.sentences)} sentences of the test set. The last row is the model that is "
        "evaluated, the one with the lowest validation loss."
    )
    if taken.alignment:
        caption += " Maps: attention of the words of another target (rows) to their source."
        caption += " Open squares: gold links." if taken.alignment.gold else ""
    return f"{label_of(r)}: what it writes as it learns", describe_run(r), caption


def _draw_rows(
    ax: Axes,
    table: Table,
    rows: Sequence[Snapshot],
    sentences: Sequence[Sentence],
    right: float,
    colour: str,
) -> None:
    """Draw a row for each snapshot between the source and the reference of a sentence."""
    n_letters = int((right - TEXT) / LETTER)
    fitting = [s for s in sentences if max(len(s.src), len(s.ref)) <= N_LETTERS]
    shown = max(fitting, key=lambda s: len(s.ref), default=sentences[0])
    step = ax.get_ylim()[0] / (len(rows) + 2)
    grey: Look = {"color": GREY, "size": SIZE, "va": "center"}
    ax.text(0.75, ROW / 2, "tokens", ha="right", **grey)
    ax.text(0.9, ROW / 2, "words right", **grey)
    _draw_words(ax, ROW / 2, [(shown.src, GREY)], n_letters)
    for i, snapshot in enumerate(rows, 1):
        y, share = ROW / 2 + i * step, share_right(snapshot.hyps, sentences)
        ax.text(0.75, y, format_short(snapshot.tokens), ha="right", size=SIZE, va="center")
        ax.add_patch(Rectangle((0.9, y - 0.09), 0.65, 0.18, color="#EEEEEE", lw=0))
        ax.add_patch(Rectangle((0.9, y - 0.09), 0.65 * share, 0.18, color=colour, alpha=0.45, lw=0))
        ax.text(0.96, y, f"{100 * share:.0f} %", size=SIZE, va="center")
        hyp = snapshot.hyps[sentences.index(shown)]
        texts = {"source": shown.src, "output": hyp, "reference": shown.ref}
        table.add(panel="outputs", tokens=snapshot.tokens, words_right=100 * share, **texts)
        pairs = zip(hyp.split(), find_right_words(hyp, shown.ref), strict=True)
        pieces = [
            (" ".join(word for word, _ in group), INK if is_right else WRONG)
            for is_right, group in groupby(pairs, key=lambda pair: pair[1])
        ]
        _draw_words(ax, y, pieces or [("(nothing)", GREY)], n_letters)
    y = ROW / 2 + (len(rows) + 1) * step
    ax.text(1.55, y, "reference", ha="right", **grey)
    _draw_words(ax, y, [(shown.ref, GREY)], n_letters)


def _draw_words(ax: Axes, y: float, pieces: Sequence[tuple[str, str]], n_letters: int) -> None:
    """Write pieces of text and their colours in one line, cut after so many letters."""
    start = 0
    for text, colour in pieces:
        left = n_letters - start
        text = text if len(text) <= left else f"{text[: left - 1]}…"
        line_style: Look = {"family": "monospace", "size": SIZE, "va": "center"}
        ax.text(TEXT + LETTER * start, y, text if left > 0 else "", color=colour, **line_style)
        start += len(text) + 1


def _draw_map(ax: Axes, snapshot: Snapshot, words: Words) -> None:
    """Draw the attention of one snapshot, without the words."""
    style.draw_map(ax, snapshot.alpha or (), [], [], top=1, lw=0.2)
    for s, t in words.gold or ():
        style.mark_cell(ax, s, t, lw=0.7, colour=WRONG)
    ax.set_aspect("equal", anchor="NW")
    ax.spines[:].set_visible(False)
    ax.set_title(f"{format_short(snapshot.tokens)} tokens", loc="left", size=SIZE, pad=3)


def choose_evenly(items: Sequence[Snapshot], most: int) -> list[Snapshot]:
    """Return at most so many of the items, the first and the last included."""
    n = min(len(items), most)
    return [items[round(i * (len(items) - 1) / max(1, n - 1))] for i in range(n)]


def share_right(hyps: Sequence[str], sentences: Sequence[Sentence]) -> float:
    """Return the right words of outputs as a share of the longer of output and reference."""
    n_right = n_words = 0
    for hyp, sentence in zip(hyps, sentences, strict=True):
        is_right = find_right_words(hyp, sentence.ref)
        n_right += sum(is_right)
        n_words += max(len(is_right), len(sentence.ref.split()))
    return n_right / max(1, n_words)


def find_right_words(hyp: str, ref: str) -> list[bool]:
    """Return which words of an output are words of the reference, in its order."""
    steps = align_words(hyp.split(), ref.split())
    return [kind == "same" for kind, i, _ in steps if i is not None]


Step = tuple[str, int | None, int | None]
"""same, substitution, insertion or omission; the places in output and reference."""


def align_words(words: Sequence[str], reference: Sequence[str]) -> list[Step]:
    """Align the words of an output with its reference, as difflib does.

    Between two words that are the same, those of both sides are substitutions in order, and what is
    left is inserted or omitted. templates/differences.js of the lesson does the same in pages.
    """
    kinds = {(True, True): "substitution", (True, False): "insertion", (False, True): "omission"}
    steps = list[Step]()
    matcher = SequenceMatcher(None, words, reference, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        for i, j in zip_longest(range(a, b), range(c, d)):
            steps.append(("same" if kind == "equal" else kinds[i is not None, j is not None], i, j))
    return steps
