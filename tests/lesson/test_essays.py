"""The essays: numbers of the records, linked terms, attention that can be changed, a lesson."""

import json
import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from browser import Tab
from conftest import RESULTS, fields_of
from fake_records import as_records, fake_record
from test_javascript import run_node

from lesson import attention, build, essays, glossary, layout
from seqmodels.report import load, style
from tasks.copy.figure import find_plateaus


def span(values: Iterable[float]) -> str:
    """Return the lowest and the highest of some numbers, one of them where they round to one."""
    its = [*values]
    low, high = f"{min(its):.0f}", f"{max(its):.0f}"
    return low if low == high else f"{low} to {high}"


def test_numbers_are_those_of_the_records(site_folder: Path) -> None:
    runs = site_folder.parent / "runs"
    text = {p: (site_folder / f"{p}.html").read_text(encoding="utf-8") for p in essays.ENTRIES}
    budgets = load.group_by_model(load.load_records(runs / "budgets"))
    less, more, attending = (
        load.score_array(budgets[model], "length", "bleu")[:, 4, 0].mean()
        for model in ("rnn_encdec", "rnn_encdec-tokens-40000000", "bahdanau")
    )
    assert f"has {less:.0f} BLEU on sentences of 31–40 words" in re.sub(
        "<.*?>", "", text["long-sentences"]
    )
    assert f"200 numbers gives {more:.0f} BLEU in place of {less:.0f}" in text["long-sentences"]
    written = load.score_array(budgets["rnn_encdec"], "best_state", "bleu")[:, 1:, 0].mean(0)
    plain = re.sub("<.*?>", "", text["long-sentences"]).replace("\n", " ")
    assert f"From these vectors it has {written[3]:.0f} BLEU" in plain
    assert f"fall as well, to {written[7]:.0f} BLEU at 71–80 words" in plain
    assert f"looks back, has {attending:.1f} after 5 M" in text["long-sentences"]
    words, roles = (
        [
            row for r in load.load_records(runs / "vector") if r.model == "lstm_seq2seq"
            for row in r.analyses["prefixes"]
            if (row["cut"], row["kept"], row["low"]) == ("clause ends", kept, 31)
        ] for kept in ("content words", "roles")
    )  # fmt: skip
    beyond = [(row["share_value"] - row["chance"]) / (100 - row["chance"]) for row in words]
    expected = [100 * share * share for share in beyond]
    shares = [
        [row["share_value"] for row in words],
        expected,
        [row["share_value"] for row in roles],
    ]
    cells = "".join(f"<td>{span(its)}</td>" for its in shares)
    assert f"{cells}</tr>\n</tbody>" in text["long-sentences"]
    copied = find_plateaus(load.group_by_model(load.load_records(runs / "bottleneck")))
    assert f"carries {copied[max(copied)].mean():.0f}: " in text["long-sentences"]
    heads = (r.analyses["article"] for r in load.load_records(runs / "heads-full"))
    best = [max(rows, key=lambda row: row["share"]) for rows in heads]
    assert f"{span(row['share'] for row in best)} % of its weight" in text["one-head"]
    assert f"{span(row['whole'] - row['exact'] for row in best)} of 200" in text["one-head"]
    assert "In 1 of the 3 it is in the" in text["one-head"]
    groups = load.group_by_model(load.load_records(runs / "lookup-convolution"))
    for model in ("linear_attention", "transformer", "linear_attention_conv"):
        found = load.score_array(groups[model], "query", "exact_match")[:, 4, 0]
        assert f"{span(found)} %" in text["memory"].partition("With 8 pairs")[2]
    assert "No record of this comparison" in text["cups"]  # none is among those shown
    assert "1 → 4,096 swaps" in (site_folder / "index.html").read_text(encoding="utf-8")


def test_the_opening_picture_shows_its_sentences(site_folder: Path) -> None:
    for name in ("index", "long-sentences"):
        page = (site_folder / f"{name}.html").read_text(encoding="utf-8")
        shown = re.search('<figure class="opening".*?</figure>', page, re.S)
        data = re.search('<script type="application/json" id="data">(.*?)</script>', page, re.S)
        assert shown
        assert data
        assert len(data[0]) < 130_000
        row = next(r for r in json.loads(data[1]) if f">{r['src']}<" in shown[0])
        written = [essays.mark(output, row["ref"]) for output in row["outputs"]]
        assert written[0]["n_right"] < written[0]["n"] / 2
        rights = re.findall(r'class="right">.*?: (\d+) of (\d+) words', shown[0])
        assert rights == [(str(m["n_right"]), str(m["n"])) for m in written]
        assert "<code>opening</code>, 5 M target tokens" in shown[0]
        assert ">Only the encoder loses this sentence.<" in shown[0]
        labels = [r["label"] for r in json.loads(data[1])]
        assert labels[5:8] == ["30 words", "40 words", "50 words, more than in training"]


@pytest.mark.parametrize("size", [(1280, 720), (360, 740)], ids=str)
def test_the_first_screen_answers_its_question_in_twenty_seconds(
    chromium: Any, site_folder: Path, size: tuple[int, int]
) -> None:
    view = {"width": size[0], "height": size[1]}
    tab = Tab(chromium, site_folder / "index.html", viewport=view, reduced_motion="reduce")
    seen = """[...document.querySelectorAll("main :is(h1, h2, .lead, .verdict, figcaption)")]
        .filter((e) => e.getBoundingClientRect().top < innerHeight).map((e) => e.innerText)"""
    asked, answer, *labels = tab.page.evaluate(seen)
    assert asked.endswith("long sentences when an RNN encoder–decoder cannot?")
    assert re.findall(r"\d+", answer) == ["31", "40", "26", "100"]
    assert labels[0] == "RNN encoder–decoder"
    assert len(" ".join([asked, answer, *labels]).split()) <= 230 * 20 / 60
    box = tab.page.locator(".cells").first.bounding_box()
    assert box["y"] + box["height"] < size[1]  # the picture that plays is there as well
    assert tab.page.locator(".lead a").get_attribute("href") == "long-sentences.html#who"
    tab.context.close()


def test_an_answer_says_no_more_than_its_records() -> None:
    best = {"trained": "96", "beyond": "3"}
    budgets: dict[str, Any] = {"words": "5–6", "before": "20", "best": best}
    _, answer = essays.answer_first(budgets, "there")
    assert "write 5–6 words well into one vector ([20 BLEU](there))" in answer
    fewer: list[dict[str, Any]] = [{"best": None}, {"best": best | {"trained": "95"}}]
    for lacking in (None, *(budgets | its for its in [*fewer, {"before": "50"}])):
        assert essays.answer_first(lacking, "there") == []


def test_numbers_of_the_picture_are_packed_in_levels_of_a_seventh() -> None:
    assert essays.pack_levels("Af/A") == "B+A="  # 0 7, 14 0: -1, nearly 0, 1 and -1
    assert essays.pack_levels("CD") == "AQ=="  # on both sides of the middle of 0 and 1


def test_pages_without_the_opening_picture_have_no_script_for_it(tmp_path: Path) -> None:
    with style.context():
        site = build.Site(tmp_path, build.read_folders(RESULTS / "budgets"), url="")
        build.write_home(site)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert ("class Machine" in text, text.count("<script>")) == (False, 1)
    scripts = {"long-sentences": "", "attention": "numbers.js", "cups": "cups.js"}
    assert {q.page: q.script for q in site.questions} == scripts


def test_a_sentence_is_judged_by_the_shares_that_are_right() -> None:
    shares = [(0.9, 0.2), (0.89, 1.0), (0.89, 0.9), (0.5, 0.89), (0.5, 0.5)]
    assert [essays.judge(*its) for its in shares] == ["short", "whole", "room", "part", "none"]


def test_cups_are_those_of_the_records(tmp_path: Path) -> None:
    fields = [fake_record(m, s) for m, s in (("gpt", 1), ("lstm_seq2seq", 1), ("lstm_seq2seq", 2))]
    for r in fields:
        r["data"] |= {"n_cups": 3}
        for i, bucket in enumerate(r["tests"][0]["buckets"]):
            value = 10.0 * i + 4 * r["seed"] + (r["model"] == "lstm_seq2seq")
            bucket["bleu"] = {"value": value, "low": value, "high": value}
            bucket["baseline"] = {"value": 16.7 + i, "low": None, "high": None}
    cups = essays.compare_cups(as_records(fields))
    assert cups
    assert {row["label"]: row["shares"][1:3] for row in cups["rows"]} == {
        "LSTM seq2seq": ["17", "27"], "GPT": ["14", "24"],
    }  # fmt: skip
    assert (cups["best"]["label"], cups["seeds"], cups["chance"]) == (
        "LSTM seq2seq",
        "1 to 2",
        "17",
    )
    settings = {"n_swaps": 9, "betas": [1.0, 2.0], "n_draws": 3, "n_cups": 4}
    for last, shown in ((None, ["1", "> 9"]), (2, None)):
        firsts = [[1, 1, 1], [last] * 3, [3, 5, None], [4, None, None]]
        keys = [(0.0, False), (0.0, False), (0.05, True), (0.05, True)]
        found = [
            {"noise": noise, "is_rounded": is_rounded, "beta": 0.0, "first_errors": its}
            for (noise, is_rounded), its in zip(keys, firsts, strict=True)
        ]
        text = json.dumps({"settings": settings, "rows": found})
        (tmp_path / "mirror.json").write_text(text)
        folder = load.Folder(tmp_path / "own", {}, [])
        mirror = essays.read_mirror({"own": folder})
        assert (mirror and [row["firsts"] for row in mirror["rows"]]) == (
            shown and [shown, ["5", "> 9"]]
        )


def test_without_records_only_attention_is_asked() -> None:
    nothing = essays.collect({}, "")
    assert [question.page for question in essays.ask(nothing)] == ["attention"]
    asked = {"question": essays.Question("", "Why?", "", "", "", ""), "chart": None, "here": ""}
    page = layout.render("long-sentences.html", **asked, **nothing)
    assert not re.search("None| % | bits", re.sub("<.*?>", "", page.partition("<main")[2]))


def test_records_that_contradict_an_essay_give_none() -> None:

    def translate_all(r: dict[str, Any]) -> None:
        for bucket in r["tests"][0]["buckets"]:
            bucket["bleu"]["value"] = 100.0

    def find_all(r: dict[str, Any]) -> None:
        for bucket in r["tests"][0]["buckets"]:
            bucket["exact_match"]["value"] = 100.0

    def break_no_ending(r: dict[str, Any]) -> None:
        for row in r["analyses"]["article"]:
            row["ending"], row["choice"] = 0, 9

    for name, model, collect, change in (
        ("budgets", "rnn_encdec", essays.compare_budgets, translate_all),
        ("lookup-convolution", "linear_attention", essays.compare_lookup, find_all),
        ("heads-full", "transformer", essays.describe_head, break_no_ending),
    ):
        files = load.load_folder(RESULTS / name).records
        assert collect([*files.values()])
        fields = [fields_of(RESULTS / name / file) for file in files]
        change(next(r for r in fields if r["model"] == model))
        assert collect(as_records(fields)) is None, name


def test_wrong_words_and_omissions_are_marked() -> None:
    for hyp, marked, n_right, n in [
        ("Der heute", "Der[Hund schläft‸] heute[.‸]", 2, 4),
        ("Der <b> schlief heute.", "Der [&lt;][b][&gt;] [schlief] heute.", 2, 4),
        ("", "[Der Hund schläft heute .‸]", 0, 4),
        ("Der Hund ja, er er schläft.", "Der Hund [ja][,] [er] [er] schläft[heute‸].", 3, 6),
    ]:
        made = essays.mark(hyp, "Der Hund schläft heute.")
        marks = '<mark(?:[^>]*left out: (.*?)")?>(.*?)</mark>'
        text = re.sub(marks, r"[\1\2]", str(made["html"]))
        assert (text, made["n_right"], made["n"]) == (marked, n_right, n)


def test_terms_are_linked_at_their_first_use(site_folder: Path) -> None:
    prose = "<h1>Token</h1><p>A <code>token</code>, <a>token</a>, Tokens, token.</p>"
    prose += "mask <li>masked masks"
    button = '<button class="term" popovertarget="term-{}">{}</button>'.format
    linked = prose[:-5].replace("Tokens", button("token", "Tokens")) + button("mask", "masks")
    page = glossary.link_terms(f"<main>{prose}</li></main>")
    assert page.partition("<div popover")[0] == f"<main>{linked}</li>"
    examples = [
        '<blockquote><p lang="en">This beautiful small key must have fallen.</p></blockquote>',
        "<blockquote><p>Masks</p></blockquote><p lang=de>Token</p>",
        '<p class="written">token <span lang="de">der <mark>mask</mark></span> token</p>',
        '<section aria-labelledby="paper"><p>State Space Duality, tokens</p></section>',
        "<p>the shape, and the first values; one state; a fused kernel; linear decay</p>",
    ]
    for example in examples:
        assert glossary.link_terms(f"<main>{example}</main>") == f"<main>{example}</main>"
    for term in glossary.COMMON:  # marked, and so linked, and once
        page = glossary.link_terms(
            f"<main><p>{term} <dfn>{term}</dfn> <dfn>{term}</dfn></p></main>"
        )
        assert page.startswith(f"<main><p>{term} {button(term, term)} {term}</p><div popover")
    linked_somewhere = set[str]()
    for name in [*essays.ENTRIES, "bahdanau", "rnn_encdec-bahdanau"]:
        text = (site_folder / f"{name}.html").read_text(encoding="utf-8")
        notes = dict(re.findall(r'id="term-(.*?)"><dfn>(.*?)</dfn>', text))
        assert re.findall('popovertarget="term-(.*?)"', text) == [*notes] != []
        for meaning in map(
            layout.format_prose, map(glossary.GLOSSARY["field"].get, notes.values())
        ):
            assert f"</dfn>: {meaning}." in text
        linked_somewhere |= {*notes.values()}
    assert linked_somewhere >= {*glossary.COMMON}


def test_attention_equals_torch_after_any_edit(site_folder: Path) -> None:
    html, draw = (site_folder / "attention.html").read_text(encoding="utf-8"), random.Random(3)
    edits = [(draw.randrange(18), round(draw.uniform(-3, 3), 1)) for _ in range(50)]
    read = """return given.edits.map(([place, value]) => {
        const input = document.all("#weights input")[place];
        input.value = value;
        fire(input, "input");
        return ["weights-of", "causal_means", "smoothed"].map((id) =>
          document.all(`#${id} tbody tr`).map(({ cells }) => cells.slice(1)
            .map((cell) => Number(cell.textContent.replace("−", "-")))));
    })"""
    tables = run_node(read, "numbers.js", html=html, edits=edits)
    weights, attend = [W.clone() for W in attention.WEIGHTS.values()], torch.nn.functional
    for (place, value), shown in zip(edits, tables, strict=True):
        weights[place // 6].view(-1)[place % 6] = value
        q, k, v = (attention.X @ W for W in weights)
        alpha = attend.scaled_dot_product_attention(q, k, torch.eye(7))
        means = attend.scaled_dot_product_attention(q, k, v, is_causal=True)
        d = (q[0] - k).norm(dim=1)
        smoothed = torch.stack([d, (-(d**2) / 2**1.5).softmax(0), k.norm(dim=1), alpha[0]], 1)
        for table, true in zip(shown, (alpha, means, smoothed), strict=True):
            torch.testing.assert_close(torch.tensor(table), true, atol=0.0051, rtol=0)
