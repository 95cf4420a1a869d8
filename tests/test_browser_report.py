"""The report in a browser: by mouse, by keyboard, reloaded, on a phone, and given hostile text."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from test_report_page import data_of, hostile, some

import seqmodels
from seqmodels.data.batches import Example, collate
from seqmodels.site import report


@pytest.fixture(scope="module")
def page(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the report on three toy runs, and on their records alone."""
    out = tmp_path_factory.mktemp("page")
    alone = some(trained, out / "alone")
    return report.write([trained, alone], out / "report.html", 9)


class Tab:
    """A page that is open, and what it asked for and complained of."""

    def __init__(self, chromium: Any, path: Path, **settings: Any):
        self.context = chromium.new_context(**settings)
        self.page = self.context.new_page()
        self.asked: list[str] = []
        self.said: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.open(path)

    def open(self, path: Path) -> None:
        """Go to a page; forget what the last one asked for."""
        self.path = path
        self.asked.clear()
        self.page.goto(path.as_uri())

    def text(self, selector: str) -> str:
        """Return the visible text of an element, once it is there."""
        return self.page.locator(selector).first.inner_text()

    def press(self, *keys: str) -> None:
        """Press keys, and wait for the page to follow."""
        for key in keys:
            self.page.keyboard.press(key)
            self.settle()

    def settle(self) -> None:
        """Wait until the last choice is drawn."""
        self.page.wait_for_timeout(50)  # the address changes in a task of its own
        self.wait_until("turn === drawnTurn")

    def wait_until(self, script: str) -> None:
        """Wait until an expression holds; Playwright's own way evaluates text in the page."""
        deadline = time.monotonic() + 30
        while not self.page.evaluate(script):
            assert time.monotonic() < deadline, script
            self.page.wait_for_timeout(20)


@pytest.fixture
def tab(chromium: Any, page: Path) -> Iterator[Tab]:
    """Open the report."""
    opened = Tab(chromium, page)
    opened.page.wait_for_selector(".pick")
    yield opened
    opened.context.close()


def test_asks_for_nothing(tab: Tab) -> None:
    """Keeps out a font, script or image from elsewhere, and anything on the console."""
    assert tab.asked == [tab.path.as_uri()]
    assert tab.said == []
    policy = tab.page.locator("meta[http-equiv]").get_attribute("content")
    assert policy.startswith("default-src 'none'; ")


def test_from_bucket_to_head(tab: Tab, trained: Path) -> None:
    """Keeps out another bucket, sentence or map than the one that was chosen."""
    (test,) = data_of(tab.path)["folders"][0]["tests"]
    tab.page.locator("#f0-score-length-bucket-0 path").click()
    tab.settle()
    assert "b=0" in tab.page.url
    assert tab.text(".count").startswith(f"{test['buckets'][0]['n']} sentences of 1–10")
    assert tab.page.locator(".pick a").count() == test["buckets"][0]["n"]
    tab.page.locator(".pick a").nth(1).click()
    tab.settle()
    chosen = int(re.search(r"e=(\d+)", tab.page.url)[1])
    example = test["examples"][chosen]
    assert tab.text(".pick [aria-current]") == example["src"]
    rows = tab.page.locator(".explore tbody tr")
    for k in range(3):
        cells = rows.nth(k).locator("td").all_inner_texts()
        assert cells[0].split() == example["hyps"][k].split()
        assert [float(cell) for cell in cells[1:4]] == example["scores"][k]
    tab.page.select_option('[data-key="m"]', label="GPT")
    tab.page.select_option('[data-key="l"]', label="layer 2")
    tab.page.select_option('[data-key="h"]', label="head 3")
    tab.settle()
    tab.page.wait_for_selector(".map .cell")
    run = seqmodels.load(trained / "gpt-seed1")
    src, tgt = run.encode_source(example["src"]), run.encode(example["hyps"][2])
    batch = collate([Example(src, tgt)])
    with torch.no_grad():
        true = run.model.attention_weights(batch.src, batch.src_mask, batch.tgt_in)[0, 1, 2]
    drawn = tab.page.locator(".map .cell").evaluate_all(
        "cells => cells.map(cell => ['x', 'y', 'fill-opacity'].map(key => cell.getAttribute(key)))"
    )
    place = [[float(cell[i]) for cell in drawn] for i in range(3)]
    columns, lines = ({at: i for i, at in enumerate(sorted({*axis}))} for axis in place[:2])
    assert len(columns) == len(src) + 1  # the last is the target
    for x, y, weight in zip(*place, strict=True):
        if (s := columns[x]) < len(src):
            assert weight == pytest.approx(float(true[lines[y], s]), abs=0.006)


def test_marks_what_is_wrong(tab: Tab) -> None:
    """Keeps out marks at the words that are right."""
    words = "a b c d", "a x c d d"
    shown = "([ref, hyp]) => marked(hyp, ref).map(part => part.textContent && [part.textContent])"
    marks = [part[0] for part in tab.page.evaluate(shown, [*words]) if isinstance(part, list)]
    assert marks == ["x", "d"]


def test_the_place_survives(tab: Tab) -> None:
    """Keeps out a page that forgets where one was when it is reloaded, and no way back."""
    tab.page.locator(".pick a").nth(2).click()
    tab.settle()
    tab.page.select_option('[data-key="m"]', label="GPT")
    tab.page.select_option('[data-key="l"]', label="layer 1")
    tab.settle()
    here, text = tab.page.url, tab.text(".pick [aria-current]")
    tab.page.reload()
    tab.page.wait_for_selector('[data-key="h"]')
    assert (tab.page.url, tab.text(".pick [aria-current]")) == (here, text)
    assert tab.page.locator('[data-key="l"]').input_value() == "0"
    tab.page.go_back()
    tab.page.wait_for_selector('[data-key="h"]', state="detached")
    tab.settle()
    assert tab.text(".pick [aria-current]") == text


def test_by_keyboard_alone(tab: Tab) -> None:
    """Keeps out a control that only a mouse reaches, and a focus that is lost on the way."""
    focus = """(now => now === document.body ? "" : now.textContent + "|" + (now.dataset.key || ""))
        (document.activeElement)"""

    def tab_to(what: str) -> None:
        for _ in range(60):
            tab.press("Tab")
            if what in tab.page.evaluate(focus):
                return
        pytest.fail(f"{what} cannot be reached")

    tab_to("1–10")
    tab.press("Enter")
    assert "1–10" in tab.page.evaluate(focus)
    second = tab.page.locator(".pick a").nth(1).inner_text()
    tab_to(second)
    tab.press("Enter")
    assert tab.text(".pick [aria-current]") == second
    assert second in tab.page.evaluate(focus)
    tab_to("|m")
    tab.press("ArrowDown")
    tab_to("|l")
    tab.press("ArrowDown")
    tab_to("|h")
    tab.press("ArrowDown")
    assert re.search("m=2.*l=0.*h=1", tab.page.url)
    for _ in range(4):
        tab.page.go_back()
        tab.settle()
    assert "e=" not in tab.page.url or tab.text(".pick [aria-current]") != second


def test_order(tab: Tab) -> None:
    """Keeps out an order that is none."""
    (test,) = data_of(tab.path)["folders"][0]["tests"]

    def bleu() -> list[list[float]]:
        sources = tab.page.locator(".pick a").all_inner_texts()
        return [next(e["scores"] for e in test["examples"] if e["src"] == src) for src in sources]

    gaps = [max(s[0] for s in scores) - min(s[0] for s in scores) for scores in bleu()]
    assert gaps == sorted(gaps, reverse=True)
    tab.page.select_option('[data-key="sort"]', label="worst of GPT")
    tab.settle()
    worst = [scores[2][0] for scores in bleu()]
    assert worst == sorted(worst)
    tab.page.select_option('[data-key="sort"]', label="as in the test set")
    tab.settle()
    assert tab.page.locator(".pick a").all_inner_texts() == [e["src"] for e in test["examples"]]


def test_order_of_made_up_scores(tab: Tab) -> None:
    """Keeps out the best first, also where a low score is good."""
    ask = """([lower, sort]) => examplesIn(
        { scores: [{ lower }], examples: [[5, 1], [3, 9], [4, 4], [1, 1]].map(([a, b], i) =>
            ({ x: i, scores: [[a], [b]] })) },
        { low: 0, high: 2 }, [{ model: "a", i: 0 }, { model: "b", i: 1 }], sort)"""
    for lower, sort, expected in (
        (False, "gap", [1, 0, 2]),
        (False, "b", [0, 2, 1]),
        (True, "b", [1, 2, 0]),
        (True, "a", [0, 2, 1]),
        (False, "test", [0, 1, 2]),
    ):
        assert tab.page.evaluate(ask, [lower, sort]) == expected, (lower, sort)


def test_folders(tab: Tab) -> None:
    """Keeps out two folders at once, and an error where there are no sentences."""
    assert tab.page.locator(".folder:visible").count() == 1
    tab.page.locator("#folders a").nth(1).click()
    tab.settle()
    assert tab.page.locator(".folder:visible").get_attribute("id") == "f1"
    assert "No hypotheses" in tab.text("#f1 .explore")
    assert tab.said == []


def test_leads_to_a_map(chromium: Any, trained: Path, tmp_path: Path) -> None:
    """Keeps out a sentence without a map as the end of the way."""
    opened = Tab(chromium, report.write([trained], tmp_path / "p.html", 1))
    (test,) = data_of(opened.path)["folders"][0]["tests"]
    ((shown, _),) = test["maps"].items()
    other = next(i for i in range(len(test["examples"])) if i != int(shown))
    opened.page.goto(f"{opened.path.as_uri()}#e={other}")
    opened.page.locator(".others a").click()
    opened.page.wait_for_selector(".map .cell")
    assert opened.text(".pick [aria-current]") == test["examples"][int(shown)]["src"]
    opened.context.close()


def test_a_sample_says_so(chromium: Any, trained: Path, tmp_path: Path) -> None:
    """Keeps out a count of what is listed in place of what was scored."""
    folder = some(trained, tmp_path / "few", ".jsonl")
    for path in folder.glob("*.jsonl"):
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    opened = Tab(chromium, report.write([folder], tmp_path / "p.html", 0))
    n = data_of(opened.path)["folders"][0]["tests"][0]["buckets"][0]["n"]
    assert opened.text(".count").startswith(f"2 of {n} sentences")
    opened.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible(chromium: Any, page: Path, scheme: str) -> None:
    """Keeps out what axe finds, in both schemes, and sideways scrolling on a phone."""
    opened = Tab(chromium, page, color_scheme=scheme, viewport={"width": 390, "height": 800})
    opened.page.wait_for_selector(".map .cell")
    opened.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    found = Axe().run(opened.page)
    assert found.response["violations"] == [], found.generate_report()
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 390
    opened.context.close()


def test_without_javascript(chromium: Any, page: Path) -> None:
    """Keeps out an empty page."""
    opened = Tab(chromium, page, java_script_enabled=False)
    assert opened.page.locator("article svg").count() > 4
    assert opened.page.locator(".folder:visible").count() == 2
    assert "JavaScript, which is off" in opened.text(".explore")
    opened.context.close()


def test_hostile_text_runs_nowhere(chromium: Any, trained: Path, tmp_path: Path) -> None:
    """Keeps out markup from a file of hypotheses, and a long word that widens the page."""
    path = report.write([hostile(trained, tmp_path / "h")], tmp_path / "p.html", 4)
    opened = Tab(chromium, path, viewport={"width": 390, "height": 800})
    assert opened.text(".pick a").startswith("</script><script>window.ran = 1")
    assert opened.page.evaluate("window.ran") is None
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert opened.said == []
    assert json.dumps(opened.asked) == json.dumps([path.as_uri()])
    opened.context.close()
