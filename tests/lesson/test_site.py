"""The site: its pages hold all code, equations and numbers, and can be read in a browser."""

import ast
import hashlib
import html
import re
import sys
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from browser import PHONE, Tab, points_of, table_of
from conftest import RESULTS, Tiny, rows_of

import seqmodels
from lesson import attention, build, essays, layout, pair, questions, source, trace
from seqmodels.data.batches import Example, collate
from seqmodels.models import MODELS, paper_of
from seqmodels.report import load

CHAPTERS = {chapter.name: chapter for chapter in source.read_chapters()}
PAIRS = [*combinations(CHAPTERS, 2)]
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
    for names in PAIRS:
        row = r'<div class="pair \w+">(<code.*?</code>)(<code.*?</code>)</div>'
        columns = zip(*re.findall(row, page(site_folder, "-".join(names))), strict=True)
        for name, cells in zip(names, columns, strict=True):
            check_code(CHAPTERS[name], [*cells])


@pytest.mark.parametrize("names", PAIRS, ids="-".join)
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


def test_every_change_has_its_reason(site_folder: Path) -> None:
    assert {*pair.REASONS} == {"-".join(names) for names in CONSECUTIVE}
    for names in CONSECUTIVE:
        blocks = pair.compare_chapters(*(CHAPTERS[name] for name in names))
        changed = {block.name: block.reason for block in blocks if block.kind != "same"}
        assert changed == pair.REASONS["-".join(names)]
        text = page(site_folder, "-".join(names))
        listed = re.findall(r'<li><a href="#(.*?)">.*?<span class="chip">', text)
        assert sorted(listed) == sorted(changed)
        assert names != ("rnn_encdec", "bahdanau") or listed[:2] == [
            "Attention",
            "GatedUnit.forward",
        ]
        for name, reason in changed.items():
            (section,) = re.findall(rf'id="{re.escape(name)}".*?</section>', text, re.S)
            assert str(layout.format_prose(reason)) in re.sub("</?button.*?>", "", section)


def test_prose_code_and_tables_become_elements() -> None:
    prose = layout.format_prose("`a*b*c` is\n  *not so?* <b> 2 * 3 * 4: arXiv:1409.0473v7, 3")
    link = '<a href="https://arxiv.org/abs/1409.0473">arXiv:1409.0473v7</a>'
    assert prose == f"<code>a*b*c</code> is <em>not so?</em> &lt;b&gt; 2 * 3 * 4: {link}, 3"
    prose = layout.format_prose("[a](b.html#c) [d](https://e.org) [f](../g.md)")
    assert prose == '<a href="b.html#c">a</a> <a href="https://e.org">d</a> [f](../g.md)'
    line = "return x < 1  # so"
    marks = [i in (7, 16) for i in range(len(line))]
    assert layout.highlight(line, marks, "ins") == (
        "<i class=k>return</i> <ins>x</ins> &lt; <i class=n>1</i>  "
        "<i class=c># </i><ins><i class=c>s</i></ins><i class=c>o</i>"
    )
    assert layout.highlight(line).count("<ins") == 0
    long = layout.highlight('    score = q.mm(k) * at["a", ...].half() + 1.5 - eps')
    parts = "score = q<wbr>.mm(k) * at[", '<i class=s>"a"</i>', ", <wbr>...]<wbr>.half() + "
    assert long == f"    {''.join(parts)}<i class=n>1.5</i> - eps"
    table = [["a,b", 'c"d', "#1 100%"], ["é\n&", "", "<x>"]]
    assert table_of(layout.csv_url(table)) == table
    assert not {*'"<>#\n&'} & {*layout.csv_url(table)}
    assert table_of(layout.csv_url(table, is_packed=True)) == table
    css = layout.select_rules({"gap", "missing"})
    assert ".note,.missing,figcaption" in css
    assert [part in css for part in (".gap{", "h1{", ".arcs", "{}")] == [True, True, False, False]
    some = layout.select_rules({"present", "opening"})
    parts = ".present .opening{", ".opening :is(.controls,", ".present .machines{"
    assert [part in some for part in parts] == [True, True, False]
    assert css.count("{") == css.count("}")


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


def test_symbols_are_typeset_outside_code() -> None:
    found = layout.format_prose("h'<t-1> alpha_ij, s_{i-1} v_jᵀ n_layers `c_i` W_s. x.y_t 3_a")
    texts = [html.unescape(text) for text in re.findall("<math.*?</math>", found)]
    assert [re.sub("<.*?>", "", text) for text in texts] == ["h⟨t−1⟩′", "αij", "si−1", "vj", "Ws"]
    assert all(text in found for text in ("n_layers", "<code>c_i</code>", "x.y_t", "3_a"))
    symbols = html.unescape(layout.format_symbol("h'<t>, E φ(y_i)"))
    assert re.sub("<.*?>", "", symbols).replace("\xa0", " ") == "h⟨t⟩′, E ϕ(yi)"


UNTRACED = {"transformer": ["(2)"]}
"""A line that makes a module."""
TRACED = {
    "rnn_encdec": ("A.1.1", "c"), "bahdanau": ("(6)", ""), "lstm_seq2seq": ("eq. (1)", ""),
    "transformer": ("tied weights, 3.4", ""), "gpt": ("2018, (2)", ""),
    "linear_attention": ("(18), (19)", "s"), "mamba2": ("5.1", "s"), "gated_deltanet": ("3.1", "s"),
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


def test_a_unit_of_the_decoder_has_the_decoders_values(fresh: Tiny) -> None:
    chapter, model = CHAPTERS["bahdanau"], fresh("bahdanau")
    src, tgt = torch.tensor([[5, 9, 4, 7]]), torch.tensor([[1, 6, 8]])
    values = trace.trace_lines(chapter, model, src, tgt)
    (unit,) = (unit for unit in chapter.units if unit.name == "GatedUnit.forward")
    (state,) = values[[line.number for line in unit.lines if line.tag][-1]]
    with torch.inference_mode():
        s = model.step(tgt[:, 0], model.encode(src, src == src))[1].s
    assert state.first == pytest.approx(s.flatten()[:4].tolist(), abs=1e-5)


def test_a_chapter_shows_a_test_sentence(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "MIN_WORDS", 5)
    folders, chapter = build.read_folders(trained), CHAPTERS["lstm_seq2seq"]
    assert build.compute_example(CHAPTERS["transformer"], folders) is None  # it has no weights
    row = next(r for r in rows_of(trained / "lstm_seq2seq-seed1") if r["x"] >= 5)
    run = seqmodels.load(trained / "lstm_seq2seq-seed1")
    batch = collate([Example(run.encode_source(row["src"]), run.encode(row["ref"]))])
    values = trace.trace_lines(chapter, run.model, batch.src, batch.tgt_in)
    example = f"{trained.name}/lstm_seq2seq-seed1", row["src"], row["ref"], values
    assert build.compute_example(chapter, folders) == example


def test_findings_have_question_command_and_figure(site_folder: Path) -> None:
    findings = questions.read_findings()
    assert findings[0][:3] == ("translation-grammar", "score-length", "Grammar")
    assert questions.find_question(findings[0].asked).startswith(
        "How does BLEU depend on the length"
    )
    for finding in findings:
        assert (RESULTS / finding.folder / f"{finding.figure}.svg").exists()
        task = load.load_records(RESULTS / finding.folder)[0].task
        assert any(f"python -m tasks.{task}" in other.asked for other in findings)
        assert not re.search(r"\]\(\.|\*\*", finding.asked + finding.observed)
    text = page(site_folder, "results")  # of copied records, of which nothing is known
    assert "Observed" not in text
    assert str(layout.format_prose(questions.read_question("bottleneck"))) in text


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


def test_every_parameter_is_counted_once() -> None:
    for count in attention.count_by_part():
        config = attention.paper_config(count["name"])
        with torch.device("meta"):
            n = sum(p.numel() for p in MODELS[count["name"]](config).parameters())
        assert sum(count["parts"].values()) == n
        if count["name"] == "gpt":
            d = config.d_model
            assert count["parts"]["attention"] == 12 * (4 * d**2 + 4 * d)
            assert count["shares"]["attention"] == pytest.approx(1 / 3, abs=0.01)


def test_scores_are_those_of_the_records(site_folder: Path) -> None:
    records = load.load_records(RESULTS / "translation-grammar-laptop")
    trained = {record.model for record in records}
    for pair_of_names in (names for names in CONSECUTIVE if trained >= {*names}):
        (rows,) = points_of(page(site_folder, "-".join(pair_of_names)))
        labels = [paper_of(name).label for name in pair_of_names]
        assert [*dict.fromkeys(r["model"] for r in rows)] == labels
        for record in (r for r in records if r.model in pair_of_names):
            (test,) = record.tests
            run = load.label_of(record), str(record.seed)
            for metric, key in (("BLEU", "bleu"), ("loss (nats per token)", "nats")):
                own = [r for r in rows if (r["metric"], r["model"], r["seed"]) == (metric, *run)]
                parts = [*test.buckets, test.overall]
                for row, part in zip(own, parts, strict=True):
                    for name in ("value", "low", "high"):
                        assert float(row[name]) == pytest.approx(getattr(part[key], name), rel=1e-5)
                assert [int(row["n"]) for row in own[:-1]] == [b.n for b in test.buckets]
                assert own[-1]["bucket"] == "all"
        own = [r.tests[0].buckets[3] for r in records if r.model == pair_of_names[0]]
        means = [r for r in rows if (r["seed"], r["bucket"]) == ("mean", "31–40")]
        assert bool(means) == (len(own) > 1)
        if means:
            cells = [bucket["bleu"].high for bucket in own]
            assert float(means[0]["high"]) == pytest.approx(sum(cells) / len(cells), rel=1e-5)


def test_the_main_comparison_is_found_by_its_name() -> None:
    names = ("translation-grammar", "translation-grammar-laptop")
    folders = {name: load.load_folder(RESULTS / name) for name in names}
    assert len(folders[names[0]].records) < len(folders[names[1]].records)
    assert build.find_folder(folders, "rnn_encdec", "bahdanau") == names[0]
    assert build.find_folder({names[1]: folders[names[1]]}, "rnn_encdec", "gpt") == names[1]
    assert build.find_folder({names[0]: folders[names[0]]}, "mamba2", "gpt") is None


def test_the_first_page_shows_three_curves(site_folder: Path) -> None:
    (rows,) = points_of(page(site_folder, "index"))
    lines = [*dict.fromkeys(row["line"] for row in rows)]
    assert lines == [
        "what the encoder writes", "what could have been written",
        "what looking back reads: Bahdanau",
    ]  # fmt: skip
    group = [r for r in load.load_records(RESULTS / "budgets") if r.model == "rnn_encdec"]
    for line, test in zip(lines, ("length", "best_state"), strict=False):
        own = [r for r in rows if r["line"] == line and r["panel"].endswith(", 5 M tokens")]
        expected = load.mean_scores(group, test, "bleu")[1:]
        for row, scores in zip(own, expected, strict=True):
            shown = [float(row[name]) for name in ("bleu", "low", "high")]
            assert shown == pytest.approx([*scores], rel=1e-5)


def test_every_csv_of_scores_is_complete(site_folder: Path) -> None:
    records = [r for path in (site_folder.parent / "runs").glob("*/")
               for r in load.load_folder(path).records.values()]  # fmt: skip
    kept, names = set[tuple[str, ...]](), ("value", "low", "high")
    for r in records:
        scores = [own for test in r.tests for own in test.overall.values()]
        buckets = [b for test in r.tests for b in test.buckets]
        scores += [own for b in buckets for own in b.model_extra.values()]
        for score in scores:
            if score.high is not None:
                numbers = (f"{getattr(score, name):.6g}" for name in names)
                kept.add((load.label_of(r), str(r.seed), *numbers))
    n_tables = 0
    for path in site_folder.glob("*.html"):
        for rows in points_of(path.read_text(encoding="utf-8")):
            assert "" not in rows[0]
            if {"seed", "bucket", "low"} <= rows[0].keys():
                own = [row for row in rows if row["seed"].isdigit() and row["low"]]
                cells = [[row[name] for name in ("model", "seed", *names)] for row in own]
                found = {(m, s, *(f"{float(x):.6g}" for x in its)) for m, s, *its in cells}
                assert found <= kept, (path.name, [*found - kept][:3])
                n_tables += 1
    assert n_tables > 5


def test_links_lead_somewhere(site_folder: Path) -> None:
    pages = {path.name: path.read_text(encoding="utf-8") for path in site_folder.glob("*.html")}
    ids = {name: {*re.findall(r'\bid="([^"]*)"', text)} for name, text in pages.items()}
    (report,) = (name for name in pages if name.startswith("report-"))
    assert f'href="{report}"' in pages["results.html"]
    others = {"index", "glossary", "questions", "teach", "results", "sources", "live"}
    others |= {*essays.ENTRIES}
    others |= {*CHAPTERS, *map("-".join, PAIRS)}
    assert {*pages} == {report, *(f"{name}.html" for name in others)}
    records = (RESULTS / "bottleneck").glob("*-seed*.json")
    for path in [*records, *(chapter.path for chapter in CHAPTERS.values())]:
        assert hashlib.sha256(path.read_bytes()).hexdigest() in pages["sources.html"]
    for name, text in pages.items():
        assert ("unsafe-inline' 'wasm" in text) == (name == "live.html")
        assert len(re.findall(r'\bid="', text)) == len(ids[name]), name
        for link in re.findall(r'<a [^>]*href="([^"]*)"', text):
            if not link.startswith(("data:", "https://")):
                target, _, place = link.replace("?present", "").partition("#")
                assert (target or name) in pages, link
                assert not place or "=" in place or place in ids[target or name], link


def test_a_hostile_name_is_escaped(site_folder: Path) -> None:
    assert "<img" not in (text := page(site_folder, "results"))
    (folder,) = (path for path in (site_folder.parent / "runs").iterdir() if "<" in path.name)
    assert html.escape(folder.name) in text.replace("&#34;", "&quot;")
    assert [*build.read_folders(folder)] == [folder.name]


@pytest.mark.slow
def test_a_site_of_all_results_is_below_6_mb(tmp_path: Path) -> None:
    pages = build.build(tmp_path, RESULTS)
    assert sum(path.stat().st_size for path in pages) < 6e6
    for name, entry in build.FIGURE_OF_CHAPTER.items():
        text = page(tmp_path, name)
        assert f"records in <code>{entry['folder']}</code>" in text
        assert str(layout.format_prose(entry.get("caption", ""))) in text
        is_shipped = (RESULTS / "translation-live" / f"{name}-seed1.json").exists()
        assert ("<samp>" in text) == (name in CHAPTERS and is_shipped)
    text, last = page(tmp_path, "results"), 0
    for finding in questions.read_findings():
        last = text.index(str(layout.format_prose(finding.observed)), last)
        last = text.index(f'id="{finding.folder}-{finding.figure}"', last)
    assert text.count('id="translation-grammar-state"') == 1
    titles = re.findall(r'<h2 id="h-\d+">(.*?)</h2>', text)
    assert len({*titles}) == len(titles) > 40
    assert {*build.RESULTS["titles"].values()} < {*titles}
    assert not [title for title in titles if re.search(r"BLEU|%|\((?!What)", title)]


def test_changes_can_be_seen_without_colours(chromium: Any, site_folder: Path) -> None:
    tab = Tab(chromium, site_folder / "rnn_encdec-bahdanau.html", forced_colors="active", **PHONE)
    see = """[".gone > :first", ".changed > :first", ".new > :last", ".same > :last"].map((side) =>
        [...new Set([...document.querySelectorAll(`.pair${side}-child`)]
            .filter((code) => code.checkVisibility()).map((code) =>
                getComputedStyle(code, "::after").content + (code.offsetLeft > 200)))].join())"""
    assert tab.page.evaluate(see) == ['"−"false', '"−"false', '"+"false', "nonefalse"]
    tab.page.emulate_media(media="print")
    assert tab.page.evaluate(see) == ['"−"false', '"−"false', '"+"true', "nonetrue"]
    count = """['.block.same', '.pair.same', '.pair.new'].map((selector) =>
        [...document.querySelectorAll(selector)].filter((e) => e.checkVisibility()).length)"""
    blocks, lines, new = tab.page.evaluate(count)
    tab.page.evaluate("only.click()")  # controls are not printed
    all_blocks, all_lines, all_new = tab.page.evaluate(count)
    assert (0 == blocks < all_blocks, 0 < lines < all_lines, new) == (True, True, all_new)
    tab.context.close()


def test_no_page_is_wider_than_a_phone(chromium: Any, site_folder: Path) -> None:
    tab, wide = Tab(chromium, site_folder / "index.html", **PHONE), list[tuple[str, int]]()
    for path in sorted(site_folder.glob("*.html")):
        tab.open(path)
        wide.extend([(path.name, tab.width())] * (tab.width() > 390))
    assert wide == []
    tab.context.close()


SLOW_PAGES = [*essays.ENTRIES, "glossary", "questions", "bahdanau", "rnn_encdec-bahdanau"]
SLOW_PAGES += ["rnn_encdec-gpt", "gpt-linear_attention", "results", "sources"]


@pytest.mark.parametrize(
    "name", ["index", "teach", *(pytest.param(n, marks=pytest.mark.slow) for n in SLOW_PAGES)]
)
def test_pages_are_isolated_and_accessible(chromium: Any, site_folder: Path, name: str) -> None:
    tab = Tab(chromium, site_folder / f"{name}.html", **PHONE)
    tab.check_isolation()
    tab.check_access()
    assert (tab.width(), tab.page.locator("header").bounding_box()["height"]) == (390, 45)
    tab.check_figures()
    tab.page.set_viewport_size(PHONE["viewport"])
    tab.page.get_by_role("button", name="Papers").click()
    assert tab.page.locator("header a[href='bahdanau.html']").is_visible()
    about = tab.page.locator("meta[name=description]").get_attribute("content")
    assert ("MIT" in tab.text("footer"), len(about) > 40) == (True, True)
    picture = tab.page.locator("meta[property='og:image']").get_attribute("content")
    assert (site_folder / picture.removeprefix("https://example.org/lesson/")).exists()
    tab.context.close()
