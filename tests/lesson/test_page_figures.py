"""Figures in pages: their tables hold every point, and their texts can be read day and night."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Tab
from conftest import RESULTS
from matplotlib.collections import LineCollection, PolyCollection, QuadMesh
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

from lesson import colours, svg
from seqmodels.report import alignment, bucket_plots, load_records, render_folder, style
from seqmodels.report.tidy import FigureWithData

ALL = sorted(path.parent.name for path in RESULTS.glob("*/tables.md"))
FAST = {"bottleneck", "heads", "ladder", "ladder-bias", "ladder-transformer", "vector"}
CSS = (Path(svg.__file__).parent / "templates" / "style.css").read_text()


def draw_folder(name: str) -> dict[str, FigureWithData]:
    """Draw all figures of committed records but the differences."""
    folder = load_records.read_folder(RESULTS / name)
    return render_folder.draw_all([*folder.records.values()], None)


def drawn_numbers(drawn: FigureWithData) -> Iterator[tuple[str, np.ndarray]]:
    """Return the two coordinates of all lines, bands, whiskers, bars, and the cells of maps.

    Lines across a panel are not data.
    """
    for ax in (ax for ax in drawn.figure.axes if ax.get_label() != "<colorbar>"):
        for line in (line for line in ax.lines if line.get_transform() == ax.transData):
            yield f"line {line.get_label()}", np.asarray(line.get_xydata(), float)
        for bars in ax.containers:
            yield "bars", np.array([[b.get_x(), b.get_height()] for b in bars])
        for each in ax.collections:
            if isinstance(each, QuadMesh):
                values = np.asarray(each.get_array()).ravel()
                yield "map", np.stack([values, values], 1)
            elif isinstance(each, LineCollection):
                yield "whiskers", np.concatenate([[*segment] for segment in each.get_segments()])
            elif isinstance(each, PolyCollection):
                paths = [path.vertices for path in each.get_paths()]
                yield "band", np.concatenate(paths) if paths else np.zeros((0, 2))


def in_table(table: list[list[Any]], points: np.ndarray) -> bool:
    """Return whether the heights of all points are in the table, or in one row their places."""
    cells = {float(cell) for row in table[1:] for cell in row if is_number(cell)}
    is_found = np.array(
        [[float(f"{x:.6g}") in cells or not np.isfinite(x) for x in point] for point in points]
    )
    if not len(points):
        return True
    is_row = np.ptp(points[:, 1]) == 0
    return bool(is_found[:, 1].all() or (is_row and is_found[:, 0].all()))


def is_number(cell: Any) -> bool:
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return False


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in FAST)) for n in ALL]
)
def test_every_point_is_in_the_table(name: str) -> None:
    """Keeps out a panel, an interval or a seed that the CSV lacks, and text that is hard to see."""
    for figure_name, drawn in draw_folder(name).items():
        names, *rows = drawn.table
        assert all(names)
        assert all(len(row) == len(names) for row in rows)
        for what, points in drawn_numbers(drawn):
            assert in_table(drawn.table, points), (figure_name, what)
        for text in drawn.figure.findobj(Text):
            colour = to_hex(text.get_color())
            if text.get_text() and colour != "#ffffff":  # in files, on dark cells
                day = colours.for_day(colour, True)
                assert colours.contrast(day, colours.DAY) >= 4.5
                night = colours.for_night(colour, True, True)
                assert colours.contrast(night, colours.NIGHT) >= 4.5


def test_a_map_in_a_page() -> None:
    """Keeps out an image, and a weight that stands out less than a smaller one, day or night."""
    weights = [[0.0, 0.013, 0.3], [0.62, 0.9, 1.0]]
    maps = {"bahdanau": {"src": ["a", "b", "c"], "tgt": ["d", "e"], "alpha": weights, "gold": None}}
    (pair,) = svg.draw_for_pages(lambda: {"map": alignment.draw_heat_maps(maps, "")}).values()
    text = svg.inline(pair, "f", styles := svg.Styles())
    assert "<image" not in text
    ink = next(name for rule, name in styles.items() if "fill:var(--pick)" in rule)
    cells = re.findall(rf'<path d="[^"]*"(?: fill-opacity="(.*?)")? class="{ink}"', text)
    opacity = [float(x or 1) for x in cells[:5]]
    assert opacity == pytest.approx(np.ravel(weights)[1:].tolist(), abs=0.003)
    papers, picks = (re.findall(rf"--{name}: (#\w+);", CSS) for name in ("paper", "pick"))
    assert [*map(to_hex, papers)] == [colours.DAY, colours.NIGHT]
    for paper, pick in zip(papers, picks, strict=True):
        mixed = [
            to_hex((1 - x) * np.array(to_rgb(paper)) + x * np.array(to_rgb(pick))) for x in opacity
        ]
        contrasts = [1.0, *(colours.contrast(colour, paper) for colour in mixed)]
        assert contrasts == sorted(set(contrasts))
        assert contrasts[-1] > 7


def test_only_clips_that_cut_are_kept() -> None:
    """Keeps out a line that leaves its panel, clips of all the others, and a path that moves."""
    figure = Figure(figsize=(4, 2))
    for i, ax in enumerate(figure.subplots(1, 2)):
        ax.plot([0, 1, 1], [0, 0, 9])
        ax.axis([0, 1, 0, 4 + 6 * i])
    drawn = FigureWithData(figure, [])
    text = svg.inline(svg.Pair(drawn, drawn), "f", svg.Styles())
    assert (text.count("<clipPath"), text.count('clip-path="')) == (1, 1)
    assert svg.shorten_path("M 1 2 L 1 5 L 4 5 L 6 -7 z") == "M1 2V5H4L6-7z"


def test_text_on_fills_can_be_read() -> None:
    """Keeps out grey text on the blue of a better score, and numbers that a dark cell hides."""
    pale = [style.INK_HEAT(0.45), *map(to_rgb, (*bucket_plots.BETTER[:1], *bucket_plots.WORSE[:1]))]
    for text in (style.INK, style.GREY):
        for fill in map(to_hex, pale[1:]):
            assert colours.contrast(colours.for_day(text, True), fill) >= 4.5
            night = colours.for_night(fill, False, True)
            assert colours.contrast(colours.for_night(text, True, True), night) >= 4.5


@pytest.mark.parametrize("width", [390, 1360])
@pytest.mark.parametrize("name", ["index", "rnn_encdec-bahdanau", "rnn_encdec"])
def test_figures_fit_the_page(chromium: Any, site_folder: Path, name: str, width: int) -> None:
    """Keeps out text below 12 pixels, both figures at once, and panels side by side on a phone."""
    tab = Tab(chromium, site_folder / f"{name}.html", viewport={"width": width, "height": 800})
    (texts,) = tab.figure_texts()
    starts = {
        "index": ("RNN, 200 numbers, 5 M", "RNN, 200 numbers, 15 M"),
        "rnn_encdec-bahdanau": ("BLEU,", "loss"),
        "rnn_encdec": ("Bits transmitted", "Most bits"),
    }[name]
    (left, right) = (next(t for t in texts if t[0].startswith(start)) for start in starts)
    if width == 390:
        assert right[2] == pytest.approx(left[2], abs=1)
        assert right[3] > left[3] + 100
    else:
        assert right[3] == pytest.approx(left[3], abs=20)
        assert right[2] > left[2] + 200
    assert tab.width() <= width
    tab.context.close()
