"""The report: its rows are those of the runs, and in a browser a bucket leads to a head."""

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from browser import PHONE, Tab, data_of
from conftest import Call, copy_records, fields_of, rows_of
from sacrebleu.metrics import BLEU

import seqmodels
from lesson import report
from seqmodels.cli import main
from seqmodels.data.batches import Example, collate
from seqmodels.report.load import load_folder


@pytest.fixture(scope="session")
def page(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the report on three toy runs."""
    return report.write(trained, tmp_path_factory.mktemp("page") / "report.html", 9)


def test_records_alone_make_a_report(trained: Path, tmp_path: Path) -> None:
    alone = report.write(copy_records(trained, tmp_path / "alone"), tmp_path / "a.html", 9)
    assert data_of(alone)["examples"] == []
    assert "RUN.jsonl" in alone.read_text(encoding="utf-8")
    texts = copy_records(trained, tmp_path / "texts", ".jsonl")
    data = data_of(report.write(texts, tmp_path / "b.html", 4))
    assert (bool(data["examples"]), data["maps"]) == (True, {})


def test_losses_are_sentences_scores_where_nothing_is_generated(
    language_model: Path, tmp_path: Path
) -> None:
    data = data_of(report.write(language_model, tmp_path / "c.html", 2))
    runs = [rows_of(language_model / f"{name}-seed1") for name in ("lstm_seq2seq", "gpt")]
    for e in data["examples"]:
        its = [r for rows in runs for r in rows if (r["set"], r["ref"]) == ("whole", e["ref"])]
        losses = [-r["nats"] / r["n_tokens"] for r in its]
        assert e["scores"] == pytest.approx(losses, abs=5.1e-4)
    gaps = [max(e["scores"]) - min(e["scores"]) for e in data["examples"]]
    assert gaps == sorted(gaps, reverse=True) != sorted(gaps)


def test_hypotheses_and_scores_are_those_of_their_model(trained: Path, page: Path) -> None:
    data, records = data_of(page), load_folder(trained).records
    assert data["runs"] == ["Bahdanau", "LSTM seq2seq", "GPT"]
    bleu = BLEU(effective_order=True)
    for k, name in enumerate(records):
        rows = {(r["src"], r["ref"]): r["hyp"] for r in rows_of(trained / name)}
        for e in data["examples"]:
            assert e["hyps"][k] == rows[e["src"], e["ref"]]
            expected = bleu.sentence_score(e["hyps"][k], [e["ref"]]).score
            assert e["scores"][k] == pytest.approx(expected, abs=0.051)
    for bucket, b in zip(data["buckets"], records["gpt-seed1.json"].tests[0].buckets, strict=True):
        inside = [e for e in data["examples"] if bucket["low"] <= e["x"] <= bucket["high"]]
        assert len(inside) == min(b.n, report.PER_BUCKET)


def test_a_damaged_file_costs_its_run_alone(trained: Path, tmp_path: Path, capsys: Any) -> None:
    folder = copy_records(trained, tmp_path / "other", ".jsonl")
    path = folder / "gpt-seed1.jsonl"
    whole, early = path.read_bytes(), path.with_suffix(".json")

    def check(content: bytes, fault: str) -> None:
        path.write_bytes(content)
        data = data_of(report.write(folder, tmp_path / "d.html", 0))
        assert data["runs"] == ["Bahdanau", "LSTM seq2seq"]
        assert {len(e["hyps"]) for e in data["examples"]} == {2}
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("left out: ")
        assert fault in line

    check(whole[:-20], "gpt-seed1.jsonl is not the file of its record: restore it")
    early.write_text(json.dumps(fields_of(early) | {"files_sha256": {}}), "utf-8")  # no checksums
    n = whole.count(b"\n")
    check(whole[:-20], f"gpt-seed1.jsonl, line {n}, is not a row of a run (")
    check(b"", "gpt-seed1.jsonl, line 1, is not a row")
    check(whole[whole.index(b"\n") + 1 :], "gpt-seed1.json: its test examples are not")


def weights_of(side: Any) -> Any:
    """Return the weights of a map in a page, (layers, heads, target, source)."""
    parts = np.frombuffer(gzip.decompress(base64.b64decode(side["weights"])), "<u2")
    shape = len(side["tgt"]), side["layers"], side["heads"], -1
    return parts.reshape(shape).transpose(1, 2, 0, 3) / report.PARTS


def test_maps_are_those_of_the_model(trained: Path, page: Path) -> None:
    data = data_of(page)
    e, maps = data["examples"][0], data["maps"]["0"]
    assert len(data["maps"]) == min(9, len(data["examples"]))
    for side, hyp, name in zip(maps, e["hyps"], ("bahdanau", "lstm_seq2seq", "gpt"), strict=True):
        if name == "lstm_seq2seq" or not hyp:
            assert side is None
            continue
        run = seqmodels.load(trained / f"{name}-seed1")
        batch = collate([Example(run.encode_source(e["src"]), run.encode(hyp))])
        with torch.inference_mode():
            true = run.model.attention_weights(batch.src, batch.src_mask, batch.tgt_in)[0]
        np.testing.assert_allclose(weights_of(side), true, atol=0.6 / report.PARTS)


def test_the_mean_of_a_map_is_the_alignment() -> None:
    run, texts = seqmodels.load("transformer"), ("The clever dog ran.", "der Hund lief.")
    side = report.encode_map(run, *texts)
    mean = weights_of(side)[side["aligned_layers"]].mean((0, 1))
    np.testing.assert_allclose(mean, run.align(*texts).weights, atol=0.6 / report.PARTS)


HOSTILE = "</script><script>window.ran = 1</script><img src=x onerror='window.ran = 1'>"


def test_from_bucket_to_head(chromium: Any, trained: Path, tmp_path: Path, call: Call) -> None:
    folder = copy_records(trained, tmp_path / "runs", ".jsonl", ".safetensors", "vocabulary.json")
    for path in folder.glob("*.jsonl"):
        first, *rows = path.read_text().splitlines()
        first = json.dumps(json.loads(first) | {"src": HOSTILE})
        path.write_text("\n".join([first, *rows]) + "\n", encoding="utf-8")
        early = path.with_suffix(".json")
        early.write_text(json.dumps(fields_of(early) | {"files_sha256": {}}), "utf-8")
    out = tmp_path / "report.html"
    done = call(main, "report", folder, "--out", out, "--maps", 200)
    assert done[0] == 0, done
    text, data = out.read_text(), data_of(out)
    assert (len(re.findall("<script", text)), "<img src=x" in text) == (2, False)
    tab = Tab(chromium, out, **PHONE)
    tab.page.locator("#scores thead a").first.click()
    tab.wait_until("document.querySelector('.pick').dataset.bucket === '0'")
    inside = [i for i, e in enumerate(data["examples"]) if e["x"] <= data["buckets"][0]["high"]]
    tab.page.focus(".pick")
    tab.page.keyboard.press("ArrowDown")
    tab.wait_until(f"document.body.dataset.drawn === '{inside[1]}'")
    directed = tab.page.locator("#example bdi, #example [dir=auto]").all_inner_texts()
    assert {data["examples"][inside[1]][side] for side in ("src", "ref")} <= {*directed}
    tab.page.select_option('[data-key="m"]', label="GPT")
    tab.wait_until("document.querySelector('[data-key=l]').options.length > 2")
    tab.page.select_option('[data-key="l"]', "1")
    tab.wait_until("document.querySelector('[data-key=h]') !== null")
    assert tab.page.locator(".map .cell").count() > 0
    assert tab.page.evaluate("window.ran") is None
    assert tab.width() <= 390
    tab.check_isolation()
    tab.check_access()
    tab.context.close()
