"""The plan of ten minutes, presented: its screens fit a projector, and its answers come last."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
from browser import Tab
from conftest import RESULTS

from lesson import build
from seqmodels.report import style

PLAN: list[dict[str, Any]] = build.TEACHING["step"]
WORDS_A_MINUTE = 130
"""How fast a teacher reads aloud."""
PROJECTORS = [(1280, 720), (1024, 768), (1920, 1080)]
READ = """() => [...document.querySelectorAll(":is(h1, h2, h3, p, legend, .turner p)")]
  .filter((e) => e.checkVisibility() && !e.matches(".offstage, .written, figure *"))
  .map((e) => e.innerText)"""
"""The text of a screen that a teacher reads aloud."""
SCREENS = """() => {
  const next = document.querySelector("[aria-label='next screen']"), seen = [];
  const place = () => document.querySelector(".turner [role=status]").textContent;
  const parts = [...document.querySelectorAll("main :is(h1, h2, h3, p, td, code, svg, li)")];
  while (place() !== seen.at(-1)?.[0]) {
    const shown = (e) => e.checkVisibility() && e.textContent && !e.matches(".offstage");
    seen.push([place(), parts.filter(shown).length]);
    next.click();
  }
  return seen;
}"""
"""Each screen of a page, and how much is on it."""


@pytest.fixture(scope="module")
def lesson(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the pages of the plan, and all pairs, from the committed records without weights."""
    out, runs = tmp_path_factory.mktemp("presented"), tmp_path_factory.mktemp("runs")
    names = ["translation-live", "translation-grammar-laptop", "budgets", "heads-full", "vector"]
    for folder in map(RESULTS.joinpath, names):
        (runs / folder.name).mkdir()
        for path in folder.iterdir():
            if path.suffix != ".safetensors":
                os.symlink(path, runs / folder.name / path.name)
    with style.context():
        site = build.Site(out, build.read_folders(runs), url="")
        build.write_essays(site)
        build.write_pairs(site)
        site.write("teach")
    return out


def open_step(tab: Tab, lesson: Path, step: dict[str, Any]) -> None:
    """Show the first screen of a step."""
    tab.page.goto(f"{(lesson / step['page']).as_uri()}?present#{step['place']}")
    assert tab.text(".turner p") == step["ask"]


def turn_to(tab: Tab, key: str, step: dict[str, Any]) -> None:
    """Press a key that leads to another step; wait for its question."""
    tab.page.keyboard.press(key)
    tab.page.locator(".turner p", has_text=step["ask"]).wait_for()


def place(tab: Tab) -> str:
    """Return which screen is shown."""
    return tab.text(".turner [role=status]")


@pytest.mark.parametrize("size", PROJECTORS, ids=str)
def test_no_screen_of_the_plan_scrolls(chromium: Any, lesson: Path, size: tuple[int, int]) -> None:
    tab = Tab(chromium, lesson / "teach.html", viewport={"width": size[0], "height": size[1]})
    scrolled = list[Any]()

    def check_screen() -> None:
        height = tab.page.evaluate("document.documentElement.scrollHeight")
        scrolled.extend([(tab.page.url, place(tab), height)] * (height > size[1]))
        assert tab.page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)") >= 22

    tab.page.goto(f"{(lesson / 'teach.html').as_uri()}?present#plan")
    check_screen()
    for step in PLAN:
        open_step(tab, lesson, step)
        for i in range(step["screens"]):
            tab.page.keyboard.press("ArrowRight") if i else None
            check_screen()
            for choice in tab.page.locator("input[type=radio]:visible").all():
                choice.check()
                check_screen()
    assert (scrolled, tab.messages) == ([], [])
    tab.context.close()


@pytest.mark.parametrize("size", PROJECTORS, ids=str)
def test_the_opening_picture_fits_at_any_length(
    chromium: Any, site_folder: Path, size: tuple[int, int]
) -> None:
    view = {"width": size[0], "height": size[1]}
    tab = Tab(chromium, site_folder / "index.html", viewport=view, reduced_motion="reduce")
    tab.page.goto(f"{(site_folder / 'index.html').as_uri()}?present#opening")
    slider, sizes = tab.page.locator("#length"), list[float]()
    for place in range(int(slider.get_attribute("max") or 0) + 1):
        slider.fill(str(place))
        tab.page.wait_for_timeout(50)
        assert tab.page.evaluate("document.documentElement.scrollHeight") == size[1], place
        own = "parseFloat(getComputedStyle(document.querySelector('.opening')).fontSize)"
        sizes.append(tab.page.evaluate(own))
    assert (sizes == sorted(sizes, reverse=True), sizes[0] >= 22, sizes[-1] >= 15) == (True,) * 3
    assert tab.text(".said").startswith("Der")  # the longest sentence, whole
    tab.context.close()


def test_questions_come_before_their_answers(chromium: Any, lesson: Path) -> None:
    tab = Tab(chromium, lesson / "teach.html", viewport={"width": 1280, "height": 720})
    for step in (step for step in PLAN if "answer" in step):
        open_step(tab, lesson, step)
        shown = tab.page.locator(step["answer"]).locator("visible=true")
        assert not shown.count(), step
        tab.page.keyboard.press("PageDown")
        shown.first.wait_for()
    open_step(tab, lesson, PLAN[1])  # nothing is wrong in the shortest sentence
    assert not tab.page.locator(".written mark:visible").count()
    tab.check_access()
    tab.context.close()


def test_each_step_leaves_half_of_its_time_for_the_class(chromium: Any, lesson: Path) -> None:
    tab = Tab(chromium, lesson / "teach.html", viewport={"width": 1280, "height": 720})
    for step in PLAN:
        open_step(tab, lesson, step)
        texts = set[str]()
        for i in range(step["screens"]):
            tab.page.keyboard.press("ArrowRight") if i else None
            texts |= {*tab.page.evaluate(READ)}
        first, last = map(int, step["minute"].split("–"))
        words = " ".join(texts).split()
        assert len(words) <= WORDS_A_MINUTE * (last - first) / 2, step
    tab.context.close()


def test_arrows_lead_through_the_plan_and_back(chromium: Any, lesson: Path) -> None:
    """From the last screen of a step to the next step, and from its first to the end before it."""
    tab, places = Tab(chromium, lesson / "teach.html"), list[str]()
    open_step(tab, lesson, PLAN[0])
    for step, after in zip(PLAN, [*PLAN[1:], None], strict=True):
        for i in range(step["screens"]):
            tab.page.keyboard.press("PageDown") if i else None
            assert tab.text(".turner p") == step["ask"]
            is_last = i == step["screens"] - 1
            assert tab.page.locator(".due:visible").count() == (is_last and after is not None)
            places.append(place(tab))
        turn_to(tab, "PageDown", after) if after else None
    for step, before in zip(PLAN[::-1], [*PLAN[-2::-1], None], strict=True):
        for i in range(step["screens"]):
            tab.page.keyboard.press("ArrowLeft") if i else None
            assert (tab.text(".turner p"), place(tab)) == (step["ask"], places.pop())
        turn_to(tab, "ArrowLeft", before) if before else None
    seen = place(tab)
    tab.page.keyboard.press("Shift+ArrowRight")  # stays in the page
    assert (tab.text(".turner p"), place(tab) != seen) == (PLAN[0]["ask"], True)
    tab.context.close()


def test_arrows_up_and_down_choose(chromium: Any, lesson: Path) -> None:
    tab = Tab(chromium, lesson / "teach.html")
    for step, hint in ((PLAN[1], 1), (PLAN[3], 0), (PLAN[4], 1)):
        open_step(tab, lesson, step)
        assert tab.page.locator(".turner small:visible").count() == hint
        chosen = "document.querySelector('input:checked')?.id"
        before = tab.page.evaluate(chosen)
        tab.page.keyboard.press("ArrowDown")
        assert (tab.page.evaluate(chosen) != before) == bool(hint)
    tab.context.close()


def test_arrows_turn_pages_wherever_the_focus_is(chromium: Any, lesson: Path) -> None:
    tab = Tab(chromium, lesson / "teach.html")
    for page, control in (
        ("long-sentences.html?present#length-1", "#length-3"),
        ("attention.html?present#step-scores", "#weights input >> nth=1"),
        ("attention.html?present#kernel", "#bandwidth"),
        ("attention.html?present#kernel", "#query"),
        ("rnn_encdec-bahdanau.html?present#changes", "#only"),
    ):
        tab.page.goto(f"{lesson.as_uri()}/{page}")
        for key, back in (("ArrowRight", "ArrowLeft"), ("PageDown", "PageUp")):
            own = tab.page.locator(control)
            own.click(force=True) if control == "#length-3" else own.focus()
            state, before = own.evaluate("(e) => e.value + e.checked"), place(tab)
            tab.page.keyboard.press(key)
            assert place(tab) != before, control
            tab.page.keyboard.press(back)
            assert place(tab) == before
            assert control == "#length-3" or own.evaluate("(e) => e.value + e.checked") == state
    tab.context.close()


def test_no_screen_is_empty(chromium: Any, lesson: Path) -> None:
    tab = Tab(chromium, lesson / "teach.html")
    for path in lesson.glob("*.html"):
        tab.page.goto(f"{path.as_uri()}?present")
        screens = tab.page.evaluate(SCREENS)
        assert all(n for _, n in screens), (path.name, screens)
        assert screens[-1][0] == f"{len(screens)} of {len(screens)}"
    tab.context.close()


def test_links_keep_presenting(chromium: Any, lesson: Path) -> None:
    tab = Tab(chromium, lesson / "teach.html")
    follow = """() => [...document.querySelectorAll("a[href]")].map((link) => {
      link.dispatchEvent(new Event("contextmenu", { bubbles: true }));
      return link.getAttribute("href");
    })"""
    for name in ("teach", "long-sentences", "attention", "rnn_encdec-bahdanau"):
        before = re.findall(r'<a [^>]*href="([^"]*)"', (lesson / f"{name}.html").read_text())
        tab.page.goto(f"{(lesson / name).as_uri()}.html?present")
        after = tab.page.evaluate(follow)
        plain = [link.replace("?present", "") for link in after]
        assert plain[: len(before)] == [link.replace("?present", "") for link in before]
        for link in after[:-1]:  # the last one leaves
            assert ("?present" in link) == bool(re.match(r"[\w-]+\.html", link)), link
            assert link.count("present") <= 1
    tab.page.goto(f"{(lesson / 'teach.html').as_uri()}?present#plan")
    for step in PLAN:  # all of the plan by the links of the bar and of the table
        link = ".plan a >> nth=0" if step is PLAN[0] else ".turner a >> nth=0"
        tab.page.locator(link).click()
        shown = re.compile(f"^{re.escape(step['ask'])}$")
        tab.page.locator(".turner p", has_text=shown).wait_for()  # the click has not navigated yet
    tab.page.get_by_role("link", name="plan").click()
    tab.page.locator(".plan").wait_for()
    assert tab.page.url.endswith("teach.html?present#plan")
    tab.context.close()
