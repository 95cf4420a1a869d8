"""Every figure and table of a folder of records."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from fake_records import fake_record, fake_tests, several, write

from seqmodels.report import figures


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Draw a folder once for all tests."""
    folder = write(tmp_path_factory.mktemp("records"), several(2))
    figures.plot_folder(folder)
    return folder


def test_the_folder_holds_every_figure_twice_and_the_tables(drawn: Path) -> None:
    """A figure that is missing from the folder, or a half-written file that stays in it."""
    figures = {"score-length", "curves", "state", "alignment"}
    expected = {f"{name}.{kind}" for name in figures for kind in ("svg", "png")} | {"tables.md"}
    assert {p.name for p in drawn.iterdir() if p.suffix != ".json"} == expected


def drawn_captions(folder: Path) -> dict[str, str]:
    """Return the captions below the figures of tables.md."""
    text = (folder / "tables.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^!\[.*\]\((.*)\.svg\)\n\n(.+)$", text, re.MULTILINE))


def test_figures_made_again_are_the_same_bytes(drawn: Path, tmp_path: Path) -> None:
    """A date or a random id in a figure, so that every remake shows up as a change."""
    again = figures.plot_folder(drawn, tmp_path / "out")
    assert again
    for path in again:
        assert path.read_bytes() == (drawn / path.name).read_bytes(), path.name


@pytest.mark.parametrize("task", ["recall", "next_token"])
def test_every_test_set_of_every_task_gets_a_figure(task: str, tmp_path: Path) -> None:
    """A metric or an axis of one task that the others never draw."""
    folder = write(tmp_path, several(1, task)[:2])
    paths = figures.plot_folder(folder)
    names = [t["name"] for t in fake_tests("gpt", task)]
    assert {f"score-{n}.svg" for n in names} <= {p.name for p in paths}
    assert all(f"### {n}:" in (folder / "tables.md").read_text(encoding="utf-8") for n in names)


def test_plotting_needs_neither_torch_nor_pyplot() -> None:
    """A plot of stored records that waits for torch, or that touches pyplot's global state."""
    spec = importlib.util.find_spec("seqmodels.report.figures")
    assert spec is not None
    code = (
        "import runpy, sys; runpy.run_path(sys.argv[1]); "
        "print([m for m in ('torch', 'matplotlib.pyplot') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code, str(spec.origin)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_figure_as_svg_is_text_with_title_and_description(drawn: Path) -> None:
    """Keeps out words that are drawings, which nobody can search, select or have read aloud."""
    for path in sorted(drawn.glob("*.svg")):
        root = ElementTree.parse(path).getroot()
        space = root.tag.removesuffix("svg")
        title, desc = (root[i] for i in (0, 1))
        assert (title.tag, desc.tag) == (f"{space}title", f"{space}desc")
        shown = [text.text or "" for text in root.iter(f"{space}text")]
        words = " ".join(" ".join(shown).split())
        caption = drawn_captions(drawn)[path.stem]
        assert title.text, path.name
        assert desc.text, path.name
        assert desc.text.endswith(caption)
        about = desc.text.removesuffix(caption).split()
        assert all(word in words for word in [*title.text.split(), *about])
        assert caption not in words
        assert "Bahdanau" in words
        styles = {text.get("style", "") for text in root.iter(f"{space}text")}
        assert all("'DejaVu Sans'" in style and "sans-serif" in style for style in styles)


def test_figures_of_a_task_whose_records_lack_its_rows_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out a traceback, or a figure that is missing in silence, for records from elsewhere."""
    bare = fake_record("gpt", 1) | {"task": "distance"}
    drawn = {path.name for path in figures.plot_folder(write(tmp_path, [bare]))}
    assert "curves.svg" in drawn
    assert "distance.svg" not in drawn
    assert "figures of distance, whose records lack 'analyses'" in capsys.readouterr().err
