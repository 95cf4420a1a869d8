"""The lesson: that its pages hold the chapters, all of them, and the numbers of the records."""

from __future__ import annotations

import ast
import csv
import hashlib
import html
import io
import re
import shutil
from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
import torch
from conftest import Call

from seqmodels.cli import main
from seqmodels.comparison.arm import count_parameters
from seqmodels.models import MODELS, PAPERS
from seqmodels.report import reading
from seqmodels.site import attention, build, layout, pair, source
from seqmodels.site.source import Chapter

RESULTS = Path(__file__).parents[1] / "results"
CHAPTERS = {chapter.name: chapter for chapter in source.chapters()}
FOLLOWING = [*pairwise(CHAPTERS)]

each_chapter = pytest.mark.parametrize("chapter", CHAPTERS.values(), ids=[*CHAPTERS])
each_pair = pytest.mark.parametrize("names", [*combinations(CHAPTERS, 2)], ids="-".join)
each_following = pytest.mark.parametrize("names", FOLLOWING, ids="-".join)


def tagged(chapter: Chapter) -> list[tuple[source.Unit, source.Line]]:
    """Return the lines that compute an equation, with their units."""
    return [(unit, line) for unit in chapter.units for line in unit.lines if line.tag]


def page(folder: Path, name: str) -> str:
    """Return the text of a page."""
    return (folder / f"{name}.html").read_text(encoding="utf-8")


def bare(text: str) -> str:
    """Return a program without what is only said: docstrings and the help below fields."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            kept = [n for n in body if not (isinstance(n, ast.Expr) and is_text(n.value))]
            node.body = kept or [ast.Pass()]
    return ast.dump(tree)


def is_text(node: ast.expr) -> bool:
    """Return whether an expression is a string."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def lines(cells: list[str]) -> list[tuple[int, str]]:
    """Return the numbers and the texts of lines of code in a page; empty cells have none."""
    found = (re.match(r'<code.*?data-n="(\d+)">(.*)</code>', cell) for cell in cells)
    return [(int(m[1]), html.unescape(re.sub("<.*?>", "", m[2]))) for m in found if m]


def is_whole(chapter: Chapter, found: list[tuple[int, str]]) -> None:
    """Assert that these are all lines of code of a chapter, in their order and as they are."""
    assert [number for number, _ in found] == sorted({number for number, _ in found})
    file = chapter.path.read_text().splitlines()
    for number, text in found:
        assert file[number - 1].startswith(text.partition("  # ")[0])
    assert bare("\n".join(text for _, text in found)) == bare(chapter.path.read_text())


# ------------------------------------------------------------------------------------ chapters


@each_chapter
def test_chapter_pages_hold_the_code(site_folder: Path, chapter: Chapter) -> None:
    """Keeps out a page that leaves out lines of the file, or changes them."""
    is_whole(chapter, lines(re.findall("<code id=.*?</code>", page(site_folder, chapter.name))))


@each_pair
def test_diffs_hold_both_files(site_folder: Path, names: tuple[str, str]) -> None:
    """Keeps out a diff from which a line of either file is missing, or in another place."""
    row = r'<div class="pair \w+">(<code.*?</code>)(<code.*?</code>)</div>'
    columns = zip(*re.findall(row, page(site_folder, "-".join(names))), strict=True)
    for name, cells in zip(names, columns, strict=True):
        is_whole(CHAPTERS[name], lines([*cells]))


@each_pair
def test_marks_are_what_changed(names: tuple[str, str]) -> None:
    """Keeps out a changed line that is called the same, and marks at what did not change."""
    old, new = (CHAPTERS[name] for name in names)
    for block in pair.blocks(old, new):
        for row in block.rows:
            if row.old and row.new:
                texts = (row.old.text, row.old_marks), (row.new.text, row.new_marks)
                kept = [
                    "".join(c for c, is_marked in zip(text, marks, strict=True) if not is_marked)
                    if marks else text for text, marks in texts
                ]  # fmt: skip
                own = old.own_class, new.own_class
                same = [k.replace(c, "Model") for k, c in zip(kept, own, strict=True)]
                assert same[0] == same[1]
        is_same = all(row.kind == "same" for row in block.rows)
        assert (block.kind == "same") == is_same


@each_following
def test_every_change_has_its_reason(site_folder: Path, names: tuple[str, str]) -> None:
    """Keeps out a unit that changed without a sentence why, and a sentence about none."""
    blocks = pair.blocks(*(CHAPTERS[name] for name in names))
    changed = {block.name: block.why for block in blocks if block.kind != "same"}
    assert changed == pair.WHYS["-".join(names)]
    text = page(site_folder, "-".join(names))
    for block in blocks:
        (section,) = re.findall(rf'id="{re.escape(block.name)}".*?</section>', text, re.S)
        assert (str(layout.prose(block.why)) in section) == (block.kind != "same") or not block.why
    assert {*pair.WHYS} == {"-".join(both) for both in FOLLOWING}


# ----------------------------------------------------------------------------------- equations


def test_tags_and_equations() -> None:
    """Keeps out a tag without its equation, an equation without a tag, and a chapter without."""
    table = source.EQUATIONS
    assert {*table} == {*CHAPTERS}
    for name, chapter in CHAPTERS.items():
        tags = [(unit.name, line.tag) for unit, line in tagged(chapter)]
        listed = [(unit, e["tag"]) for unit, its in table[name].items() for e in its]
        assert sorted(tags) == sorted(listed)
        assert tags


@each_chapter
def test_equations_stand_on_their_page(site_folder: Path, chapter: Chapter) -> None:
    """Keeps out an equation that is drawn beside another line, twice, or not at all."""
    text = page(site_folder, chapter.name)
    found = re.findall(r'<div class="equations" id="eq-(\d+)">(.*?)<span class="tag">', text, re.S)
    assert [int(number) for number, _ in found] == [line.number for _, line in tagged(chapter)]
    for (unit, line), (_, drawn) in zip(tagged(chapter), found, strict=True):
        assert drawn.count("<math") == len(source.equations_of(chapter, unit)[line.number])
        assert "\\" not in drawn


# ------------------------------------------------------------------------------------ attention


def test_attention_step_by_step() -> None:
    """Keeps out a step that computes something else than attention, and a row marked wrongly."""
    one, causal, looped, reshaped, chapter = attention.rungs()
    x = attention.WORDS
    attend = torch.nn.functional.scaled_dot_product_attention
    heads = x.unflatten(-1, (attention.N_HEADS, -1)).transpose(0, 1)
    true = attend(heads, heads, heads, is_causal=True).transpose(0, 1).flatten(1)
    torch.testing.assert_close(torch.tensor(one.rows), attend(x, x, x))
    torch.testing.assert_close(torch.tensor(causal.rows), attend(x, x, x, is_causal=True))
    for rung in (looped, reshaped, chapter):
        torch.testing.assert_close(torch.tensor(rung.rows), true)
    assert causal.is_same == [False, False, False, True]
    assert looped.is_same == [True, False, False, False]
    assert all(reshaped.is_same + chapter.is_same)


def test_where_the_parameters_are() -> None:
    """Keeps out a parameter that is counted nowhere, or as part of something else."""
    found = {p["name"]: p for p in attention.count_by_part()}
    for name, its in found.items():
        with torch.device("meta"):
            model = MODELS[name](attention.paper_sizes(name))
        assert sum(its["parts"].values()) == count_parameters(model)
        assert its["parts"]["norms"] < its["parts"]["attention"] / 50
    d = attention.paper_sizes("gpt").d_model
    assert found["gpt"]["parts"]["attention"] == 12 * (4 * d**2 + 4 * d)
    assert found["gpt"]["parts"]["feed-forward"] == 12 * (8 * d**2 + 5 * d)
    assert round(found["gpt"]["shares"]["attention"], 2) == 0.33


# -------------------------------------------------------------------------------------- records


def tables(text: str) -> list[list[list[str]]]:
    """Return the tables behind the figures of a page."""
    found = re.findall(r'href="data:text/csv;charset=utf-8,(.*?)"', text)
    return [[*csv.reader(io.StringIO(unquote(part)))] for part in found]


def test_numbers_are_those_of_the_records(site_folder: Path) -> None:
    """Keeps out a figure of other records than the page names, and rounding in its texts."""
    ((names, *rows),) = tables(page(site_folder, "index"))
    for record in reading.load_records(RESULTS / "translation-grammar-laptop"):
        (row,) = [row for row in rows if row[:2] == [record["model"], str(record["seed"])]]
        (test,) = record["tests"]
        scores = [part["bleu"]["value"] for part in (*test["buckets"], test["overall"])]
        assert row[2:] == [f"{score:.1f}" for score in scores]
    assert len(names) == 2 + len(test["buckets"]) + 1
    drawn = re.findall(r"<svg.*?</svg>", page(site_folder, "rnn_encdec"), re.S)[0]
    stored = (RESULTS / "bottleneck" / "bits.svg").read_text(encoding="utf-8")
    texts = [Counter(re.findall(r"<text[^>]*>([^<]*)</text>", svg)) for svg in (drawn, stored)]
    assert texts[0] == texts[1]


def test_contents_are_what_the_figures_show(site_folder: Path) -> None:
    """Keeps out names of folders where a reader looks for findings, and links to another figure."""
    shown = page(site_folder, "results")
    links = dict(re.findall(r'<li><a href="#([^"]+)">([^<]+)</a> \(<code>', shown))
    titles = dict(re.findall(r'<figure id="([^"]+)".*?<title[^>]*>([^<]+)</title>', shown, re.S))
    assert links == titles
    assert links["bottleneck"].startswith("Bits carried ")


@each_following
def test_the_figure_of_a_pair(site_folder: Path, names: tuple[str, str]) -> None:
    """Keeps out other models from the figure of two chapters, and a figure without one of them."""
    ((_, *rows),) = tables(page(site_folder, "-".join(names)))
    assert [row[0] for row in rows] == [*names]


def test_folders_with_models(site_folder: Path) -> None:
    """Keeps out a comparison in which one of two models was not trained."""
    folders = build.read_folders(site_folder.parent / "runs")
    assert build.folder_with(folders, "rnn_encdec", "bahdanau") == "translation-grammar-laptop"
    assert build.folder_with(folders, "rnn_encdec_64", "bahdanau") == "bottleneck"
    assert build.folder_with(folders, "rnn_encdec_64", "gpt") is None


def test_drawn_numbers_are_those_of_the_records(site_folder: Path) -> None:
    """Keeps out a table behind a figure that does not hold what is drawn."""
    ((_, *rows),) = tables(page(site_folder, "rnn_encdec"))
    records = reading.load_records(RESULTS / "bottleneck")
    group = reading.by_model(records)["rnn_encdec_64"]
    nats = np.mean([[b["nats"]["value"] for b in r["tests"][0]["buckets"]] for r in group], 0)
    n = np.array([b["low"] for b in group[0]["tests"][0]["buckets"]])
    bits = n * (np.log2(group[0]["data"]["n_symbols"]) - nats / np.log(2))
    label = "RNN, 64 numbers"
    drawn = [(float(x), float(y)) for panel, name, kind, x, y, _ in rows
             if (panel, name, kind) == ("Bits carried", label, "line")]  # fmt: skip
    np.testing.assert_allclose(drawn, np.stack([n, bits], 1), rtol=1e-4)


def test_sources_are_summed(site_folder: Path) -> None:
    """Keeps out a checksum of another file, and a chapter or record that is not named."""
    text = page(site_folder, "sources")
    for path in [
        *(RESULTS / "bottleneck").glob("*-seed*.json"),
        *(c.path for c in CHAPTERS.values()),
    ]:
        assert hashlib.sha256(path.read_bytes()).hexdigest() in text
    assert len(re.findall(r"<code>[0-9a-f]{64}</code>", text)) > 40


def test_links_lead_somewhere(site_folder: Path) -> None:
    """Keeps out a link to a page or a place that is not there."""
    pages = {path.name: path.read_text(encoding="utf-8") for path in site_folder.glob("*.html")}
    ids = {name: {*re.findall(r'\bid="([^"]*)"', text)} for name, text in pages.items()}
    assert len(pages) == 4 + len(CHAPTERS) + len([*combinations(CHAPTERS, 2)])
    for name, text in pages.items():
        for link in re.findall(r'<a [^>]*href="([^"]*)"', text):
            if not link.startswith(("data:", "https://arxiv.org/abs/")):
                target, _, place = link.partition("#")
                assert not place or html.unescape(place) in ids[target or name], link
                assert (target or name) in pages, link


def test_why_translation_failed(site_folder: Path) -> None:
    """Keeps out a first question that is not answered after one click: figure, equation, code."""
    home = page(site_folder, "index")
    (target,) = re.findall(r'href="([\w-]+)\.html">Why did translation fail', home)
    text = page(site_folder, target)
    assert text.index("<figure") < text.index('id="Model.encode"')
    (section,) = re.findall(r'id="Model.encode".*?</section>', text, re.S)
    assert CHAPTERS["bahdanau"].name in target
    assert section.count("<math") == 3
    assert pair.WHYS[target]["Model.encode"].partition(",")[0] in section


# ------------------------------------------------------------------------------------- mistakes


def test_mistakes(call: Call, tmp_path: Path) -> None:
    """Keeps out a traceback where there are no records, or no folder."""
    out = tmp_path / "site"
    code, _, said = call(main, "site", "--out", out, "--runs", tmp_path / "none")
    assert (code, f"{tmp_path / 'none'} does not exist" in said) == (2, True)
    (tmp_path / "empty").mkdir()
    code, _, said = call(main, "site", "--out", out, "--runs", tmp_path / "empty")
    assert (code, "holds no records" in said) == (2, True)
    assert not [*tmp_path.glob("site/*")]
    (tmp_path / "file").write_text("")
    assert "is not a folder" in call(main, "site", "--out", tmp_path / "file", "--runs", RESULTS)[2]


def test_one_folder_of_a_hostile_name(call: Call, compared: Path, tmp_path: Path) -> None:
    """Keeps out a page that runs what a folder is called, or that needs a folder of folders."""
    name = '<img src=x onerror="alert(1)">'
    runs = tmp_path / name
    shutil.copytree(compared, runs, ignore=shutil.ignore_patterns("*.safetensors"))
    code, printed, said = call(main, "site", "--out", tmp_path / "site", "--runs", runs)
    assert (code, said) == (0, "")
    assert printed.strip() == str(tmp_path / "site" / "index.html")
    text = page(tmp_path / "site", "results")
    assert "<img" not in text
    assert html.escape(name) in text.replace("&#34;", "&quot;")
    for model in PAPERS:
        assert "<figure" in page(tmp_path / "site", model)


@pytest.mark.slow
def test_size(tmp_path: Path) -> None:
    """Keeps out a site that is too large to send: 3 MB with all committed results."""
    pages = build.build(tmp_path, RESULTS)
    assert sum(path.stat().st_size for path in pages) < 3e6
