"""The site: its pages hold all code and equations, its links lead somewhere."""

import ast
import base64
import hashlib
import html
import random
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from browser import PHONE, Tab
from conftest import RESULTS, Tiny, rows_of
from test_javascript import run_node

import seqmodels
from lesson import attention, build, essays, pair, source, trace
from seqmodels.data.batches import Example, collate

CHAPTERS = {chapter.name: chapter for chapter in source.read_chapters()}
CONSECUTIVE = [*pairwise(CHAPTERS)]

each_chapter = pytest.mark.parametrize("chapter", CHAPTERS.values(), ids=[*CHAPTERS])


def page(folder: Path, name: str) -> str:
    return (folder / f"{name}.html").read_text(encoding="utf-8")


def dump_code(text: str) -> str:
    """Return a program's syntax tree without docstrings and the help below fields."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            texts = [
                n for n in body if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)
            ]
            node.body = [n for n in body if n not in texts] or [ast.Pass()]
    return ast.dump(tree)


def check_code(chapter: source.Chapter, cells: list[str]) -> None:
    """Assert that cells of a page hold all code of a chapter in order; empty cells have none."""
    matches = (re.match(r'<code.*?data-n="(\d+)".*?>(.*)</code>', cell) for cell in cells)
    lines = {int(m[1]): html.unescape(re.sub("<.*?>", "", m[2])) for m in matches if m}
    assert [*lines] == sorted(lines)
    text = chapter.path.read_text()
    for number, line in lines.items():
        assert text.splitlines()[number - 1].startswith(line.partition("  # ")[0])
    assert dump_code("\n".join(lines.values())) == dump_code(text)


def test_pages_hold_all_code(site_folder: Path) -> None:
    for chapter in CHAPTERS.values():
        check_code(chapter, re.findall("<code id=.*?</code>", page(site_folder, chapter.name)))
    for names in CONSECUTIVE:
        row = r'<div class="pair \w+">(<code.*?</code>)(<code.*?</code>)</div>'
        columns = zip(*re.findall(row, page(site_folder, "-".join(names))), strict=True)
        for name, cells in zip(names, columns, strict=True):
            check_code(CHAPTERS[name], [*cells])


@pytest.mark.parametrize("names", CONSECUTIVE, ids="-".join)
def test_changed_lines_are_marked(names: tuple[str, str]) -> None:
    old, new = (CHAPTERS[name] for name in names)
    for block in pair.compare_chapters(old, new):
        assert (block.kind == "same") == all(row.kind == "same" for row in block.rows)
        for row in (row for row in block.rows if row.old and row.new):
            before = row.old.text.replace(old.own_class, "Model")
            after = row.new.text.replace(new.own_class, "Model")
            assert (row.kind == "same") == (before == after)
            sides = (row.old.text, row.old_marks), (row.new.text, row.new_marks)
            if row.kind == "changed":
                kept = ["".join(c for c, m in zip(*side, strict=True) if not m) for side in sides]
                assert kept[0] == kept[1] != ""


TYPESET = {"h'<0>, A.1.2": "h⟨0⟩′, A.1.2", "s_0, A.2.2": "s0, A.2.2", "s_i, A.2.2": "si, A.2.2"}
"""The texts of the tags with symbols."""


@each_chapter
def test_each_equation_is_beside_its_line(site_folder: Path, chapter: source.Chapter) -> None:
    lines = [(unit, line) for unit in chapter.units for line in unit.lines if line.tag]
    entries = source.EQUATIONS[chapter.name]
    listed = [(unit, e["tag"]) for unit, its in entries.items() for e in its]
    assert sorted((unit.name, line.tag) for unit, line in lines) == sorted(listed) != []
    parts = r'<div class="equations" id="eq-(\d+)">(.*?)<span class="tag">(.*?)</span>'
    on_page = re.findall(parts, page(site_folder, chapter.name), re.S)
    assert [int(number) for number, _, _ in on_page] == [line.number for _, line in lines]
    for (unit, line), (_, markup, tag) in zip(lines, on_page, strict=True):
        assert markup.count("<math") == len(source.convert_equations(chapter, unit)[line.number])
        assert "\\" not in markup
        text = html.unescape(re.sub("<.*?>", "", tag))
        assert text == TYPESET.get(line.tag, line.tag)
        assert ("<msub" in tag) == (line.tag in TYPESET)


UNTRACED = {"transformer": ["(2)"]}
"""A line that makes a module."""
TRACED = {
    "rnn_encdec": ("A.1.1", "c"), "bahdanau": ("(6)", ""), "lstm_seq2seq": ("eq. (1)", ""),
    "transformer": ("tied weights, 3.4", ""), "gpt": ("2018, (2)", ""),
    "linear_attention": ("(18), (19)", "s"), "mamba2": ("2.1", "s"),
    "gated_deltanet": ("(10)", "s"),
}  # fmt: skip
"""A line of each chapter by its tag, and what it names."""


@each_chapter
def test_values_are_those_that_lines_compute(chapter: source.Chapter, fresh: Tiny) -> None:
    model, src, tgt = fresh(chapter.name), torch.tensor([[5, 9, 4, 7]]), torch.tensor([[1, 6, 8]])
    before, mask = sys.gettrace(), src == src
    values = trace.trace_lines(chapter, model, src, tgt)
    assert sys.gettrace() is before
    lines = [line for unit in chapter.units for line in unit.lines if line.tag]
    missing = [line.tag for line in lines if line.number not in values]
    assert missing == UNTRACED.get(chapter.name, [])
    with torch.inference_mode():
        tensor = model(src, mask, tgt)
        if chapter.name == "rnn_encdec":
            tensor = model.encode(src, mask).c
        elif chapter.name == "bahdanau":
            tensor = model.align(src, mask, tgt)[:, :1]
        elif chapter.name in ("linear_attention", "mamba2", "gated_deltanet"):
            tensor = model.step(tgt[0, :1], model.encode(src, mask))[1].s[:, 0]
    tag, name = TRACED[chapter.name]
    value = [values[line.number] for line in lines if line.tag == tag][-1][0]
    assert (value.name, value.shape) == (name, tuple(tensor.shape))
    assert value.first == pytest.approx(tensor.flatten()[:4].tolist(), abs=1e-5)
    if chapter.name == "bahdanau":  # both sides have such a unit; that of the decoder is shown
        last = {line.tag: values[line.number][0].first for line in lines}
        assert last["A.1.1"] == pytest.approx(last["s_i, A.2.2"], abs=1e-6)


def test_a_chapter_shows_a_test_sentence(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "MIN_WORDS", 5)
    chapter = CHAPTERS["lstm_seq2seq"]
    assert build.compute_example(CHAPTERS["transformer"], trained) is None  # it has no weights
    row = next(r for r in rows_of(trained / "lstm_seq2seq-seed1") if r["x"] >= 5)
    run = seqmodels.load(trained / "lstm_seq2seq-seed1")
    batch = collate([Example(run.encode_source(row["src"]), run.encode(row["ref"]))])
    values = trace.trace_lines(chapter, run.model, batch.src, batch.tgt_in)
    example = f"{trained.name}/lstm_seq2seq-seed1", row["src"], row["ref"], values
    assert build.compute_example(chapter, trained) == example


def test_each_step_computes_attention() -> None:
    one, causal, looped, reshaped, chapter = attention.compute_steps()
    q, k, v = (attention.X @ W for W in attention.WEIGHTS.values())
    attend = torch.nn.functional.scaled_dot_product_attention
    heads = [x.unflatten(-1, (attention.N_HEADS, -1)).transpose(0, 1) for x in (q, k, v)]
    true = attend(*heads, is_causal=True).transpose(0, 1).flatten(1)
    torch.testing.assert_close(torch.tensor(one.rows), attend(q, k, v))
    torch.testing.assert_close(torch.tensor(causal.rows), attend(q, k, v, is_causal=True))
    for step in (looped, reshaped, chapter):
        torch.testing.assert_close(torch.tensor(step.rows), true)
    assert causal.is_same == [False] * 6 + [True]
    assert looped.is_same == [i in (0, 3) for i in range(7)]  # "sat" has a query of zeros
    assert all(reshaped.is_same + chapter.is_same)


def test_attention_equals_torch_after_any_edit(site_folder: Path) -> None:
    draw = random.Random(3)
    edits = [(draw.randrange(18), round(draw.uniform(-3, 3), 1)) for _ in range(50)]
    read = """return given.edits.map(([place, value]) => {
        const input = document.all("#weights input")[place];
        input.value = value;
        fire(input, "input");
        return ["weights-of", "causal_means"].map((id) =>
          document.all(`#${id} tbody tr`).map(({ cells }) => cells.slice(1)
            .map((cell) => Number(cell.textContent.replace("−", "-")))));
    })"""
    tables = run_node(read, "numbers.js", html=page(site_folder, "attention"), edits=edits)
    weights, attend = [W.clone() for W in attention.WEIGHTS.values()], torch.nn.functional
    for (place, value), shown in zip(edits, tables, strict=True):
        weights[place // 6].view(-1)[place % 6] = value
        q, k, v = (attention.X @ W for W in weights)
        alpha = attend.scaled_dot_product_attention(q, k, torch.eye(7))
        means = attend.scaled_dot_product_attention(q, k, v, is_causal=True)
        for table, true in zip(shown, (alpha, means), strict=True):
            torch.testing.assert_close(torch.tensor(table), true, atol=0.0051, rtol=0)


def test_two_weights_give_each_article_its_noun(site_folder: Path) -> None:
    solve = """const inputs = document.all("#weights input");
    fire(document.all("#empty")[0], "click");
    return [[0, "2"], [5, "0.5"]].map(([place, value]) => {
      inputs[place].value = value;
      fire(inputs[place], "input");
      return document.all("#given")[0].textContent;
    });"""
    told = run_node(solve, "numbers.js", html=page(site_folder, "attention"))
    assert ["85 %, the second 93 %. Done, with 2 weights" in text for text in told] == [False, True]


def test_the_shown_head_finds_the_nouns_of_articles() -> None:
    head = essays.describe_head(RESULTS / essays.HEAD_RECORD)
    assert head["share"] == max(row["share"] for row in [head]) > 95
    assert head["words"][head["chosen"]]["text"] == "the"
    before, after = head["words"][head["chosen"]]["weights"]
    assert max(before) < 50 < max(after)
    (shown,) = (row for row in head["muted"] if row["is_shown"])
    assert shown["lost"] == head["whole"] - head["exact"]


REPORTED = {
    "I get 98% accuracy on the validation set, translate.py produces non-sense": "The score",
    "Very low perplexity, but when examining the actual output the results are bad": "The score",
    'lower loss but the BLEU is 0, all the result is the same, like "the the the"': "It repeats",
    "at most the first word sort of right, then repeat some random word": "It repeats",
    "Tutorial 6: Different output at different batch size during Inference": "A result changes",
    "The training loss is a constant from beginning": "The loss stays",
    "Generate with KV-cache enabled vs. not enabled gives different results": "Generating differs",
    "Transformers | decoding long sentence fails": "Fine on short",
    "Zero blue score at the 1st epoch": "BLEU is 0",
    "Lower loss does not necessarily imply high BLEU?": "A lower loss",
    "why do LLMs attend to the first token": "Every head",
    "masked_log_softmax() Returning Nan's": "The loss is NaN",
    "getting only unk symbols and bleu test/dev score 0.0": "Only unknown",
    "the loss is increasing all of sudden at epoch 15": "The loss jumps",
    "Generation cannot properly stops at EOS and only stops at max length": "It never",
    "Same reply for all questions": "Every source",
    "BLEU score ~6, much lower than the expected ~20": "BLEU is lower",
    "we do not normalize": "Attention weights",
}
"""Reports as people wrote them, and the beginning of the symptom that they are of."""


def test_the_words_of_a_report_lead_to_its_symptom(site_folder: Path) -> None:
    ask = """const box = document.all("#symptom")[0], [body] = document.all("#index tbody");
      const all = body.rows;
      return [...given.asked, "qqq", ""].map((words) => {
        box.value = words;
        fire(box, "input");
        const n_hidden = all.filter((row) => row.hidden).length;
        return [body.rows[0].textContent, n_hidden, document.all("#unknown")[0].hidden];
      });"""
    html = page(site_folder, "symptoms")
    *found, unknown, empty = run_node(ask, "symptoms.js", html=html, asked=[*REPORTED])
    for (text, n_hidden, is_found), (asked, symptom) in zip(found, REPORTED.items(), strict=True):
        assert text.startswith(symptom), asked
        assert (n_hidden > 0, is_found) == (True, True)
    assert empty[0].startswith("The score")
    assert (unknown, empty) == ([empty[0], 0, False], [empty[0], 0, True])


def test_links_lead_somewhere(site_folder: Path) -> None:
    pages = {path.name: path.read_text(encoding="utf-8") for path in site_folder.glob("*.html")}
    ids = {name: {*re.findall(r'\bid="([^"]*)"', text)} for name, text in pages.items()}
    names = {"index", "results", "live", *build.ESSAYS, *CHAPTERS, *map("-".join, CONSECUTIVE)}
    assert {*pages} == {f"{name}.html" for name in names}
    for name, text in pages.items():
        assert ("unsafe-inline' 'wasm" in text) == (name == "live.html")
        for script in re.findall("(?s)<script>(.*?)</script>", text) if name != "live.html" else ():
            digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
            assert f"; script-src 'sha256-{digest}'\"" in text, name
        assert len(re.findall(r'\bid="', text)) == len(ids[name]), name
        for link in re.findall(r'<[^>]+ (?:href|src)="([^"]*)"', text):
            target, _, place = html.unescape(link).partition("#")
            if target in pages or not target:
                assert not place or "=" in place or place in ids[target or name], link
            elif not re.match("(?:data|https):", link):
                assert (site_folder / target).is_file(), link


@pytest.mark.slow
def test_every_figure_is_there_and_the_site_is_below_3_mb(tmp_path: Path) -> None:
    old = build.files.claim_folder(tmp_path, "lesson") / "figures" / "opening-film.svg"
    old.parent.mkdir()
    old.write_text("old")
    build.build(tmp_path)
    assert old.read_text("utf-8") != "old"
    assert sum(path.stat().st_size for path in tmp_path.rglob("*")) < 3.2e6
    shown = [*build.FIGURES["chapter"].values()]
    shown += [figure for group in build.FIGURES["group"] for figure in group["figure"]]
    pages = [(tmp_path / f"{name}.html").read_text("utf-8") for name in ("results", "index")]
    assert re.sub(r"(?s)<details>.*?</details>", "", pages[0]).count("<img") == 12
    assert pages[1].partition('<figure class="film"')[0].count("<figure") == 0
    for figure in shown:
        assert (tmp_path / "figures" / f"{figure['file'].replace('/', '-')}.svg").is_file()


NAMES = ["index", *build.ESSAYS, "bahdanau", "rnn_encdec-bahdanau", "results"]


@pytest.mark.parametrize("name", NAMES)
def test_pages_are_isolated_and_accessible(chromium: Any, site_folder: Path, name: str) -> None:
    tab = Tab(chromium, site_folder / f"{name}.html", **PHONE)
    tab.check_isolation()
    tab.check_access()
    assert tab.width() == 390
    assert tab.page.evaluate("[...document.images].every((one) => one.loading || one.naturalWidth)")
    tab.page.get_by_role("button", name="Papers").click()
    assert tab.page.locator("header a[href='bahdanau.html']").is_visible()
    tab.context.close()
