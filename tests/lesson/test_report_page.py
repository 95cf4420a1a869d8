"""The report: its data at each of its three levels, and in a browser."""

import base64
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from browser import PHONE, Tab, data_of, points_of, table_of
from conftest import Call, copy_records, copy_seed, rows_of
from fake_records import as_records, fake_record
from sacrebleu.metrics import BLEU, CHRF

import seqmodels
from lesson import report
from lesson import rows as page_rows
from seqmodels.cli import main
from seqmodels.data.batches import Example, collate
from seqmodels.records.schema import Bucket
from seqmodels.report import load


@pytest.fixture(scope="session")
def page(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the report on three toy runs, and on their records alone."""
    out = tmp_path_factory.mktemp("page")
    alone = copy_records(trained, out / "alone")
    return report.write([trained, alone], out / "report.html", 9)


# ------------------------------------------------------------------------------- Its content
def test_records_alone_make_a_report(
    trained: Path, page: Path, language_model: Path, tmp_path: Path
) -> None:
    whole, alone = data_of(page)["folders"]
    assert alone == {"name": "alone", "runs": [], "tests": []}
    assert [run["model"] for run in whole["runs"]] == ["bahdanau", "lstm_seq2seq", "gpt"]
    texts = copy_records(trained, tmp_path / "texts", ".jsonl")
    (folder,) = data_of(report.write([texts], tmp_path / "b.html", 4))["folders"]
    assert folder["tests"][0]["examples"]
    assert folder["tests"][0]["maps"] == {}
    (folder,) = data_of(report.write([language_model], tmp_path / "c.html", 2))["folders"]
    assert [score["key"] for score in folder["tests"][0]["scores"]] == ["nats"]


def test_hypotheses_are_those_of_their_model(trained: Path, page: Path) -> None:
    (test,) = data_of(page)["folders"][0]["tests"]
    records = load.load_folder(trained).records
    buckets = [(b["low"], b["high"], b["n"]) for b in test["buckets"]]
    for low, high, n in buckets:
        assert sum(low <= e["x"] <= high for e in test["examples"]) == n
    for k, (name, record) in enumerate(records.items()):
        parts = record.tests[0].buckets
        assert buckets == [(b.low, b.high, b.n) for b in parts]
        rows = rows_of(trained / name)
        assert [e["hyps"][k] for e in test["examples"]] == [row["hyp"] for row in rows]
        assert [e["ref"] for e in test["examples"]] == [row["ref"] for row in rows]
    assert [score["key"] for score in test["scores"]] == ["bleu", "chrf", "nats"]
    assert [score["lower"] for score in test["scores"]] == [False, False, True]
    for k, record in enumerate(records.values()):
        parts = record.tests[0].buckets
        assert [b["values"][k] for b in test["buckets"]] == [p["bleu"].value for p in parts]


def test_examples_with_maps_differ_most() -> None:
    x = [3, 1, 12, 2, 14, 25]
    buckets = [Bucket.model_validate({"low": n, "high": n + 9, "n": 2}) for n in (1, 11, 21)]
    gaps = [0.0, 5.0, 7.0, 6.0, 8.0, 1.0]
    chosen = [report.spread_over_buckets(x, gaps, buckets, n) for n in (2, 4, 9)]
    assert chosen == [[3, 4], [1, 3, 4, 5], [*range(6)]]
    assert report.measure_gap([{"bleu": 3.0, "nats": 90.0}, {"bleu": 9.5, "nats": 0.0}]) == 6.5


def test_errors_are_counted_by_kind() -> None:
    fields = fake_record("gpt", 1)
    other = fields | {"data": {"name": "bible", "sha256": "00"}}
    record, bible = as_records([fields, other])
    example: dict[str, Any] = {"ref": "Der Hund sah heute die Katze."}
    example["hyps"] = ["Den Hund heute sah, die Maus.", None]
    report.count_errors(record, [example])
    kinds = ("ending", "choice", "order", "omission", "addition")
    counts = [(1, 1, 1, 0, 0), (0, 0, 0, 6, 0)]
    assert example["errors"] == [dict(zip(kinds, its, strict=True)) for its in counts]
    report.count_errors(bible, [fresh := {"ref": "a", "hyps": ["b"]}])
    assert "errors" not in fresh


def weights_of(side: dict[str, Any]) -> np.ndarray:
    """Return the weights of a map: target, layer, head, source."""
    parts = np.frombuffer(gzip.decompress(base64.b64decode(side["weights"])), "<u2")
    sizes = len(side["tgt"]), side["layers"], side["heads"], len(side["src"])
    return parts.reshape(sizes) / report.PARTS


def test_maps_are_those_of_the_model(trained: Path, page: Path) -> None:
    (test,) = data_of(page)["folders"][0]["tests"]
    assert len(test["maps"]) == min(9, len(test["examples"]))
    assert {sides[1] for sides in test["maps"].values()} == {None}  # the LSTM attends to nothing
    for k, name in ((0, "bahdanau-seed1"), (2, "gpt-seed1")):
        run, sides = seqmodels.load(trained / name), {i: m[k] for i, m in test["maps"].items()}
        assert any(sides.values())
        for i, side in sides.items():
            example = test["examples"][int(i)]
            hyp = example["hyps"][k]
            assert bool(side) == bool(hyp.strip())
            if side:
                expected = run.align(example["src"], hyp)
                assert (side["src"], side["tgt"]) == (expected.src, expected.tgt)
                mean = weights_of(side)[:, side["aligned_layers"]].mean((1, 2))
                np.testing.assert_allclose(mean, expected.weights, atol=0.51 / report.PARTS)
                batch = collate([Example(run.encode_source(example["src"]), run.encode(hyp))])
                with torch.inference_mode():
                    heads = run.model.attention_weights(*batch[:3])[0].numpy()
                one = weights_of(side)[:, -1, 0]  # the last layer's first head, not the reverse
                np.testing.assert_allclose(one, heads[-1, 0], atol=0.51 / report.PARTS)


def test_maps_of_the_first_seed_with_weights(trained: Path, tmp_path: Path) -> None:
    folder = copy_records(trained, tmp_path / "seeds", ".jsonl", "tokenizer.json")
    for seed in (2, 3):
        copy_seed(trained / "gpt-seed1", folder, seed)
    (content,) = data_of(report.write([folder], tmp_path / "p.html", 3))["folders"]
    assert [run["seed"] for run in content["runs"]] == [1, 1, 1, 2, 3]
    sides = [*content["tests"][0]["maps"].values()]
    has_map = [any(side[k] for side in sides) for k in range(5)]
    assert has_map == [False, False, False, True, False]


def test_tables_are_the_records_and_ids_are_unique(trained: Path, page: Path) -> None:
    text = page.read_text()
    tables = points_of(text)
    scores, curves = tables[0], next(rows for rows in tables if "valid_nats" in rows[0])
    records = [*load.load_folder(trained).records.values()]
    for record in records:
        parts = [*record.tests[0].buckets, record.tests[0].overall]
        own = [r for r in scores if r["model"] == load.label_of(record)]
        values = [part["bleu"].value for part in parts]
        assert [float(r["value"]) for r in own[: len(parts)]] == pytest.approx(values, rel=1e-5)
        cells = "".join(f"<td>{value:.6g}</td>" for value in values)
        assert f'<th scope="row">{own[0]["model"]}</th><td>1</td>{cells}' in text
    last = records[-1].curve[-1].model_dump()
    assert {key: float(curves[-1][key]) for key in last} == pytest.approx(last, rel=1e-5)
    ids = re.findall(r'\bid="(.*?)"', text)
    assert len(ids) == len(set(ids)) > 30
    assert {*re.findall(r"url\(#(.*?)\)", text)} <= {*ids}


def test_a_page_without_maps(call: Call, trained: Path, tmp_path: Path) -> None:
    page = tmp_path / "p.html"
    assert call(main, "report", trained, "--out", page, "--maps", 0)[:2] == (0, f"{page}\n")
    assert data_of(page)["folders"][0]["tests"][0]["maps"] == {}


# -------------------------------------------------------------------------------- In a browser
@pytest.fixture
def tab(chromium: Any, page: Path) -> Iterator[Tab]:
    tab = Tab(chromium, page)
    tab.page.wait_for_selector(".pick")
    yield tab
    tab.context.close()


def test_from_bucket_to_head(tab: Tab) -> None:
    (test,) = data_of(tab.path)["folders"][0]["tests"]
    tab.page.locator("#f0-score-length-bucket-0 path").click()
    tab.settle()
    assert tab.page.locator(".chosen").first.get_attribute("id") == "f0-score-length-bucket-0"
    assert tab.page.locator(".pick li").count() == test["buckets"][0]["n"]
    tab.page.locator(".pick li").nth(1).click()
    tab.settle()
    for key, label in (("m", "GPT"), ("l", "layer 2"), ("h", "head 3")):
        tab.page.select_option(f'[data-key="{key}"]', label=label)
    tab.settle()
    tab.page.wait_for_selector(".map .cell")
    weights = weights_of(test["maps"][re.search(r"e=(\d+)", tab.page.url)[1]][2])[:, 1, 2]
    cells = tab.page.locator(".map .cell").evaluate_all(
        "cells => cells.map(cell => ['x', 'y', 'fill-opacity'].map(key => +cell.getAttribute(key)))"
    )
    columns, rows_of_map = (sorted({cell[axis] for cell in cells}) for axis in (0, 1))
    assert len(columns) == weights.shape[1] + 1  # the last is the target
    for x, y, opacity in cells:
        if (s := columns.index(x)) < weights.shape[1]:
            assert opacity == pytest.approx(weights[rows_of_map.index(y), s], abs=0.006)
    address = tab.page.locator('[download="attention.csv"]').get_attribute("href")
    numbers = [[float(x) for x in row[1:-1]] for row in table_of(address)[1:]]
    np.testing.assert_allclose(numbers, weights, atol=1e-4)


def test_accessible_on_a_phone(chromium: Any, page: Path) -> None:
    tab = Tab(chromium, page, **PHONE)
    tab.page.wait_for_selector(".map .cell")
    tab.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    tab.check_isolation()
    tab.check_access("dark")
    assert tab.width() <= 390
    tab.context.close()


HOSTILE = '</script><script>window.ran = 1</script><img src=x onerror="window.ran = 1">\u202e'


def test_hostile_text_runs_nowhere(chromium: Any, trained: Path, tmp_path: Path) -> None:
    folder = copy_records(trained, tmp_path / "hostile", ".jsonl")
    texts = {"src": HOSTILE, "ref": HOSTILE, "hyp": HOSTILE + "x" * 10_000}
    for path in folder.glob("*.jsonl"):
        rows = [json.loads(line) | texts for line in path.read_text().splitlines()[:2]]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for path in folder.glob("*.json"):
        record = json.loads(path.read_text())
        record["data"]["name"] = record["provenance"]["system"] = HOSTILE
        record["tests"][0]["axis"] = HOSTILE
        record["events"] = [{"step": 1, "kind": "spike", "what": HOSTILE}]
        path.write_text(json.dumps(record))
    tab = Tab(chromium, report.write([folder], tmp_path / "p.html", 4), **PHONE)
    text = tab.path.read_text()
    assert (len(re.findall("<script", text)), "<img" in text) == (2, False)
    assert tab.text(".pick li").startswith("</script><script>window.ran = 1")
    assert tab.page.evaluate("window.ran") is None
    assert tab.width() <= 390
    tab.check_isolation()
    n = data_of(tab.path)["folders"][0]["tests"][0]["buckets"][0]["n"]
    assert tab.text(".count").startswith(f"2 of {n} ")  # a sample says so
    tab.context.close()


# -------------------------------------------------------------------------------- Its examples
def test_sentences_of_runs_are_side_by_side() -> None:

    def row(src: str, hyp: str, name: str = "length") -> page_rows.Row:
        return page_rows.Row(set=name, x=3, src=src, ref=ref, hyp=hyp, nats=6.0, n_tokens=4)

    said, ref = "The cat sat there .", "The cat sits there ."
    (record,) = as_records([fake_record("gpt", 1)])
    buckets = [record.tests[0].buckets[0].model_copy(update={"low": 1, "high": 9})]
    test = record.tests[0].model_copy(update={"name": "length", "buckets": buckets})
    a = [row("a b", "x"), row("q", "y", "greedy"), row("d", ref)]
    b = [row("a b", "z"), row("d", said)]
    first, second = page_rows.side_by_side({"a": a, "b": b}, test, "13a")
    assert (first["src"], first["hyps"]) == ("a b", ["x", "z"])
    assert (second["src"], second["hyps"]) == ("d", [ref, said])
    with pytest.raises(ValueError, match="a and b have other examples of the test 'length'"):
        page_rows.side_by_side({"a": a, "b": b[:1]}, test, "13a")
    bleu = BLEU(effective_order=True).sentence_score(said, [ref]).score
    chrf = CHRF().sentence_score(said, [ref]).score
    assert second["scores"][1] == {"bleu": round(bleu, 1), "chrf": round(chrf, 1), "nats": 1.5}
    assert bleu > 20


def test_each_bucket_has_its_first_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those at both borders of a bucket are in it, and in no other."""
    (record,) = as_records([fake_record("gpt", 1)])
    buckets = [
        record.tests[0].buckets[0].model_copy(update={"low": low, "high": high})
        for low, high in ((2, 4), (5, 7))
    ]
    test = record.tests[0].model_copy(update={"buckets": buckets, "primary_metric": "accuracy"})
    lengths = [8, 4, 5, 2, 7, 3, 1]
    its = [page_rows.Row(set="length", x=x, src=f"{x}", ref="r") for x in lengths]
    for most, chosen in ((1, [4, 5]), (2, [4, 5, 2, 7]), (9, [4, 5, 2, 7, 3])):
        monkeypatch.setattr(page_rows, "MAX_EXAMPLES_PER_BUCKET", most)
        assert [e["x"] for e in page_rows.side_by_side({"a": its}, test, "13a")] == chosen
    gaps = [0.0] * len(lengths)
    assert report.spread_over_buckets(lengths, gaps, buckets, 9) == [1, 2, 3, 4, 5]
    row = page_rows.Row(
        set="length", x=1, src="", ref="", hyp="", nats=6.0, n_tokens=5, n_same=3, n_places=4
    )
    assert page_rows.score(row, {}) == {"right": 75.0, "nats": 1.2}


def test_a_page_starts_at_the_longest_trained_length() -> None:
    (record,) = as_records([fake_record("gpt", 1)])
    values = [[*map(float, range(7)), float("nan")], [50.0] * 8]
    described = report.describe_test(record.tests[0], [], {}, values)
    assert described["start"] == 3  # 31 to 40 words
    assert described["buckets"][1]["values"] == [1.0, 50.0]
    assert described["buckets"][7]["values"] == [None, 50.0]
    names = ["metric", "model", "bucket", "seed", "value"]
    points = [["BLEU", "GPT", "1–5", 2, "7"], ["BLEU", "GPT", "all", 2, "6"]]
    points += [["BLEU", "GPT", "all", "mean", "5"], ["loss", "GPT", "all", 2, "0.5"]]
    table = report.table_by_bucket([names, *points])
    expected = [["model", "seed", "1–5", "all"], ["GPT", 2, "7", "6"], ["GPT", "mean", "", "5"]]
    assert table == expected
