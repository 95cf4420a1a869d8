"""Figures in pages: their tables hold every point, and their texts can be read day and night."""

import re
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from browser import Tab
from conftest import RESULTS
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from lesson import colours, svg
from seqmodels.records.schema import Alignment
from seqmodels.report import alignment, effects, figures, load, style

ALL = sorted(path.parent.name for path in RESULTS.glob("*/tables.md"))
FAST = {"bottleneck", "heads", "ladder", "ladder-bias", "ladder-transformer", "vector"}
CSS = (Path(svg.__file__).parent / "templates" / "style.css").read_text()


def draw_folder(name: str) -> dict[str, Figure]:
    """Draw all figures of committed records but the differences."""
    folder = load.load_folder(RESULTS / name)
    return figures.draw_all([*folder.records.values()], None)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in FAST)) for n in ALL]
)
def test_texts_have_enough_contrast_by_day_and_by_night(name: str) -> None:
    for drawn in draw_folder(name).values():
        for text in drawn.findobj(Text):
            colour = to_hex(text.get_color())
            if text.get_text():
                day = colours.for_day(colour, True)
                assert colours.contrast(day, colours.DAY) >= 4.5
                night = colours.for_night(colour, True, True)
                assert colours.contrast(night, colours.NIGHT) >= 4.5


def test_a_line_in_a_shade_of_heat_maps_keeps_its_colour_by_night() -> None:
    blue = to_hex(style.line_style_of("bahdanau").colour)
    assert blue in colours.HEAT_BY_NIGHT
    assert colours.for_night(blue, False, False) == blue


def test_larger_weights_stand_out_more_by_day_and_by_night() -> None:
    weights = [[0.0, 0.013, 0.3], [0.62, 0.9, 1.0]]
    a = Alignment(src=["a", "b", "c"], tgt=["d", "e"], alpha=weights, gold=None)
    panels = [(style.line_style_of("bahdanau"), a)]
    with style.context():
        text = svg.inline(alignment.draw_heat_maps(panels, ""), "f", styles := svg.Styles())
    assert "<image" not in text
    rules = {name: rule for rule, name in styles.items()}
    fills = re.findall(r'<path d="[^"]*"(?: clip-path="[^"]*")? class="(c[0-9]+)"/>', text)
    cells = [rules[name] for name in fills if "stroke:light-dark(#ededed" in rules[name]]
    colours_of = [re.findall(r"fill:light-dark\((.*?),(.*?)\)", cell)[0] for cell in cells]
    papers = re.findall(r"--paper: light-dark\((#\w+), (#\w+)\);", CSS)[0]
    assert [*map(to_hex, papers)] == [colours.DAY, colours.NIGHT]
    for paper, fills_of in zip(papers, zip(*colours_of, strict=True), strict=True):
        contrasts = [colours.contrast(colour, paper) for colour in fills_of]
        assert contrasts == sorted(set(contrasts))
        assert contrasts[0] == pytest.approx(1)
        assert contrasts[-1] > 7


def test_a_figure_in_a_page_is_that_of_the_file() -> None:
    """Its texts are cut off, coordinates are rounded, clips and hatches have ids of the page."""
    with style.context():
        figure = style.make_figure(2, ("Title", "About\nit", "Caption"))
        ax = figure.subplots()
        ax.plot([0, 1, 1], [0, 0, 9])
        ax.axhspan(2, 4, hatch="///")
        height = 72 * figure.get_figheight()
        text = svg.inline(figure, "f", svg.Styles())
    assert "Title</p>" in text
    assert "About<br>it</p>" in text
    assert text.count("Caption") == 1
    drawn = text[text.index("<svg") : text.index("</svg>")]
    assert not any(word in drawn for word in ("Title", "About", "Caption"))
    (top, shown) = map(float, re.findall(r'viewBox="0 (\S+) 684 (\S+)"', text)[0])
    assert 12 < height - top - shown < 22  # the line of the caption
    assert 144 < shown < 170
    clips, hatches = (
        re.findall(rf'<{tag}[^>]* id="(f-\d)"', text) for tag in ("clipPath", "pattern")
    )
    assert {*re.findall(r"url\(#(.*?)\)", text)} == {*clips, *hatches}
    assert clips
    assert hatches
    assert svg.round_numbers("M 1.25 -2 L 1.04 5.96 z") == "M1.2-2 1 6z"  # a line is meant
    assert svg.round_numbers("M 1 2 C 3 4 5 6 7 8 L 9 1") == "M1 2C3 4 5 6 7 8L9 1"
    assert svg.round_numbers("rotate(-90.04 3.06 2)") == "rotate(-90 3.1 2)"


def test_keys_name_the_lines_and_the_bars_of_legends() -> None:
    figure = Figure()
    (ax, other) = figure.subplots(1, 2)
    ax.bar([0], [1], color="#aa0000", label="lost words")
    ax.legend()
    other.plot([0, 1], marker="o", color="#0000aa", label="GPT")
    figure.legend(handles=other.lines)
    keys = [re.sub("<.*?>", "", key) for key in svg.format_keys(figure)]
    assert keys == ["● GPT", "\u2003 lost words"]
    other.legend()  # in view already, beside its lines
    assert len([*svg.format_keys(figure)]) == 2


def test_marks_are_clipped_by_their_own_panel() -> None:
    figure = Figure()
    for n, ax in enumerate(figure.subplots(1, 2), 1):
        for k in (n, 2 * n):
            ax.scatter(range(k), range(k))
    root = svg.convert(style.render(figure, ".svg"), "figure", {}, False)
    groups = [group for group in root.iter("g") if "clip-path" in group.attrib]
    counts = Counter(group.get("clip-path") for group in groups for _ in group.iter("use"))
    assert sorted(counts.values()) == [3, 6]
    assert len(groups) < 4  # what is clipped alike, one after the other, is one group


def test_names_of_lines_are_a_text_as_well() -> None:
    """The signs are those of the markers, the colours those of the lines, dark enough by day."""
    looks = [
        style.LineStyle("one\n0.3 M", "#b02a1e", "-", "^"),
        style.LineStyle("b", "#111111", "-", "8"),
    ]
    with style.context():
        figure, axes = style.make_panels(("", "", ""), looks, n_columns=1)
        style.name_lines(axes[0, 0], [(1, "beside", "#e0e000")])
        text = svg.inline(figure, "f", svg.Styles())
    pattern = r'<span style="color:light-dark\((#\w+),#\w+\);">(.)</span> ([^<·]*[^<· ])'
    red, black, yellow = re.findall(pattern, text.partition("<div")[0])
    assert red == ("#b02a1e", "▲", "one 0.3 M")
    assert black == ("#111111", "■", "b")
    assert yellow[1:] == ("■", "beside")
    assert colours.contrast(yellow[0], colours.DAY) >= 4.5


def test_a_figure_can_be_saved_as_a_file(chromium: Any, site_folder: Path, tmp_path: Path) -> None:
    """It has the figure's texts, and the colours of day in a page or without one."""
    tab = Tab(chromium, site_folder / "results.html", color_scheme="dark")
    figure = tab.page.locator("figure[id='bottleneck']")
    with tab.page.expect_download() as download:
        figure.get_by_role("link", name="the figure as SVG").click()
    assert download.value.suggested_filename == "bottleneck.svg"
    download.value.save_as(path := tmp_path / "bottleneck.svg")  # Playwright's name has no ending
    text = path.read_text(encoding="utf-8")
    ElementTree.fromstring(text)
    shown = [figure.locator(".title").inner_text(), *figure.locator(".note").all_inner_texts()]
    drawn = " ".join(re.findall(r"<text [^>]*>([^<]*)</text>", text))
    assert all(word in drawn for part in shown for word in part.split())
    assert "light-dark" not in text
    names = {*re.findall(r"(?:url\(#|href=\"#)([^\")]*)", text)}
    assert {*re.findall(r' id="([^"]*)"', text)} == names != set()
    (opened := tab.context.new_page()).goto(path.as_uri())
    fills = "new Set([...document.querySelectorAll('text')].map((e) => getComputedStyle(e).fill))"
    papers = "getComputedStyle(document.documentElement).backgroundColor"
    inks, paper = opened.evaluate(f"[[...{fills}], {papers}]")
    assert paper == "rgb(255, 255, 255)"
    for ink in inks:
        rgb = [int(x) / 255 for x in re.findall(r"\d+", ink)]
        assert colours.contrast(to_hex(rgb), colours.DAY) >= 4.5
    tab.check_isolation()
    tab.context.close()


def test_text_on_fills_can_be_read() -> None:
    heat = to_hex(style.HEAT(0.45))  # the darkest cell with a number
    pale = effects.BETTER[0], effects.WORSE[0]
    for text, fill in [(style.INK, heat), *product((style.INK, style.GREY), map(to_hex, pale))]:
        assert colours.contrast(colours.for_day(text, True), fill) >= 4.5
        night = colours.for_night(fill, False, True)
        assert colours.contrast(colours.for_night(text, True, True), night) >= 4.5


@pytest.mark.parametrize("width", [390, 1360])
@pytest.mark.parametrize("name", ["index", "rnn_encdec-bahdanau", "rnn_encdec"])
def test_figures_fit_the_page(chromium: Any, site_folder: Path, name: str, width: int) -> None:
    """A phone shows a part of a figure, which is scrolled sideways in its frame."""
    tab = Tab(chromium, site_folder / f"{name}.html", viewport={"width": width, "height": 800})
    tab.check_figures(width)
    frame, figure = (
        tab.page.locator(selector).first.bounding_box()["width"]
        for selector in (".plot", ".plot svg")
    )
    assert (figure > frame) == (width == 390)
    assert tab.page.locator(".keys").first.is_visible() == (width == 390)
    assert frame <= width
    assert tab.width() <= width
    tab.context.close()
