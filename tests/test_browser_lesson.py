"""The lesson in a browser: by day and by night, on a phone, and as its reader finds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from test_browser_report import Tab
from test_lesson import tagged

from seqmodels.site import source

CHAPTERS = [chapter.name for chapter in source.chapters()]
KINDS = [
    "index",
    "bahdanau",
    "rnn_encdec-bahdanau",
    "rnn_encdec-gpt",
    "attention",
    "results",
    "sources",
]
"""A page of each kind."""


@pytest.fixture
def open_tab(chromium: Any, site_folder: Path) -> Iterator[Any]:
    """Return a function that opens a page of the lesson."""
    opened = []

    def make(name: str, **settings: Any) -> Tab:
        opened.append(Tab(chromium, site_folder / f"{name}.html", **settings))
        return opened[-1]

    yield make
    for tab in opened:
        tab.context.close()


def check_page(tab: Tab) -> None:
    """Assert that a page asks for nothing else, says nothing, and breaks no rule of access."""
    policy = tab.page.locator("meta[http-equiv]").get_attribute("content")
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    for scheme in ("light", "dark"):
        tab.page.emulate_media(color_scheme=scheme)
        found = Axe().run(tab.page).response["violations"]
        assert not [(v["id"], [n["html"][:200] for n in v["nodes"][:3]]) for v in found], scheme
    assert tab.asked == [tab.path.as_uri()]
    assert tab.said == []


@pytest.mark.parametrize("name", KINDS)
def test_pages(open_tab: Any, name: str) -> None:
    """Keeps out requests, messages, and what a screen reader or a weak eye cannot read."""
    check_page(open_tab(name))


@pytest.mark.slow
def test_all_pages(open_tab: Any, site_folder: Path) -> None:
    """Keeps out the same from every other page."""
    tab = open_tab("index")
    for path in sorted(site_folder.glob("*.html")):
        if path.stem not in KINDS:
            tab.open(path)
            check_page(tab)


def test_no_sideways_scrolling(open_tab: Any, site_folder: Path) -> None:
    """Keeps out a page that is wider than a phone."""
    tab = open_tab("index", viewport={"width": 390, "height": 800})
    for path in sorted(site_folder.glob("*.html")):
        tab.page.goto(path.as_uri())
        assert tab.page.evaluate("document.documentElement.scrollWidth") == 390, path.name


@pytest.mark.parametrize("name", CHAPTERS)
def test_equations_stand_at_their_lines(open_tab: Any, name: str) -> None:
    """Keeps out an equation that has slid away from the line that computes it."""
    tab = open_tab(name, viewport={"width": 1360, "height": 900})
    places = tab.page.evaluate("""[...document.querySelectorAll('.equations')].map(equation => {
        const box = equation.getBoundingClientRect();
        const line = document.getElementById('L' + equation.id.slice(3)).getBoundingClientRect();
        return [(box.top + box.bottom) / 2, (line.top + line.bottom) / 2, line.height];
    })""")
    chapter = source.read(name)
    assert len(places) == len(tagged(chapter))
    for equation, line, height in places:
        assert abs(equation - line) <= height


@pytest.mark.parametrize("name", CHAPTERS)
def test_tags_stand_in_the_column_of_equations(open_tab: Any, name: str) -> None:
    """Keeps out a tag that an equation pushes below the code, where nobody can read it."""
    tab = open_tab(name, viewport={"width": 1360, "height": 900})
    over = tab.page.evaluate("""[...document.querySelectorAll('.equations .tag')].map(tag => [
        tag.textContent, tag.getBoundingClientRect().right
        - tag.closest('.beside').getBoundingClientRect().right])""")
    assert over
    assert [text for text, width in over if width > 0.5] == []


def test_equations_have_a_size(open_tab: Any) -> None:
    """Keeps out equations that are not drawn, or wider than their column."""
    tab = open_tab("transformer", viewport={"width": 1360, "height": 900})
    sizes = tab.page.evaluate("""[...document.querySelectorAll('.equations math')].map(equation => [
        equation.getBoundingClientRect().height,
        equation.scrollWidth - equation.clientWidth])""")
    assert len(sizes) >= len(tagged(source.read("transformer")))
    for height, cut in sizes:
        assert 14 <= height <= 60
        assert cut <= 0


def test_is_there_at_once(open_tab: Any) -> None:
    """Keeps out a chapter that takes a second to appear."""
    tab = open_tab("index")
    (link,) = tab.page.locator("nav a", has_text="Bahdanau").all()
    link.click()
    tab.page.wait_for_selector("h1")
    ready = "performance.getEntriesByType('navigation')[0].loadEventEnd"
    tab.wait_until(f"{ready} > 0")
    assert tab.page.evaluate(ready) < 1000


def test_by_keyboard(open_tab: Any) -> None:
    """Keeps out a page that begins with ten links for those who use no mouse."""
    tab = open_tab("bahdanau")
    tab.page.keyboard.press("Tab")
    assert tab.page.evaluate("document.activeElement.textContent") == "Skip to the content"
    tab.page.keyboard.press("Enter")
    assert tab.page.url.endswith("#main")


def test_without_scripts(open_tab: Any, site_folder: Path) -> None:
    """Keeps out a script, which the pages do without."""
    assert not [path for path in site_folder.glob("*.html") if "<script" in path.read_text()]
    tab = open_tab("index", java_script_enabled=False)
    tab.page.get_by_text("Why did translation fail on long sentences").click()
    assert tab.page.locator("h1").inner_text() == "RNN encoder–decoder → Bahdanau"
