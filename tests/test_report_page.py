"""The report: what it holds at each of its three levels, and what it refuses."""

from __future__ import annotations

import base64
import csv
import gzip
import html
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from conftest import Call
from matplotlib.figure import Figure

import seqmodels
from seqmodels.cli import main
from seqmodels.models import papers
from seqmodels.report import reading, style
from seqmodels.site import figure, report


def data_of(page: Path) -> dict[str, Any]:
    """Return what the page's script is given."""
    found = re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.S)
    assert found
    return json.loads(found[1])


def some(trained: Path, to: Path, *suffixes: str) -> Path:
    """Copy a folder's records and the files with these suffixes."""
    to.mkdir()
    for path in trained.iterdir():
        if path.name.endswith(("seed1.json", *suffixes)):
            shutil.copy(path, to)
    return to


@pytest.fixture(scope="module")
def page(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the report on three toy runs with all that they left."""
    return report.write([trained], tmp_path_factory.mktemp("page") / "report.html", 4)


def test_three_levels(trained: Path, tmp_path: Path) -> None:
    """Keeps out a page that needs more than the records, or that hides what is there."""
    alone = report.write([some(trained, tmp_path / "a")], tmp_path / "a.html", 4)
    assert data_of(alone)["folders"] == [{"name": "a", "runs": [], "tests": []}]
    assert "No hypotheses are beside these records" in alone.read_text()
    written = some(trained, tmp_path / "b", ".jsonl")
    (folder,) = data_of(report.write([written], tmp_path / "b.html", 4))["folders"]
    assert [run["model"] for run in folder["runs"]] == ["bahdanau", "lstm_seq2seq", "gpt"]
    assert folder["tests"][0]["examples"]
    assert folder["tests"][0]["maps"] == {}


def test_examples(trained: Path, page: Path) -> None:
    """Keeps out hypotheses under another model, and buckets that are not the record's."""
    (folder,) = data_of(page)["folders"]
    (test,) = folder["tests"]
    records = reading.load_folder(trained).records
    buckets = [(b["low"], b["high"], b["n"]) for b in test["buckets"]]
    for record in records.values():
        kept = record["tests"][0]["buckets"]
        assert buckets == [(b["low"], b["high"], b["n"]) for b in kept]
    for low, high, n in buckets:
        assert sum(low <= e["x"] <= high for e in test["examples"]) == n
    for k, name in enumerate(records):
        lines = (trained / name).with_suffix(".jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        assert [e["hyps"][k] for e in test["examples"]] == [row["hyp"] for row in rows]
        assert [e["ref"] for e in test["examples"]] == [row["ref"] for row in rows]


def test_maps(trained: Path, page: Path) -> None:
    """Keeps out a map of another sentence, model or head, and weights that are rounded too far."""
    (folder,) = data_of(page)["folders"]
    (test,) = folder["tests"]
    assert len(test["maps"]) == min(4, len(test["examples"]))
    n_shown = 0
    for i, sides in test["maps"].items():
        example = test["examples"][int(i)]
        assert sides[1] is None  # the LSTM attends to nothing
        for k, name in ((0, "bahdanau-seed1"), (2, "gpt-seed1")):
            if not (shown := sides[k]):
                assert not example["hyps"][k].strip()
                continue
            n_shown += 1
            expected = seqmodels.load(trained / name).align(example["src"], example["hyps"][k])
            assert (shown["src"], shown["tgt"]) == (expected.src, expected.tgt)
            parts = np.frombuffer(gzip.decompress(base64.b64decode(shown["weights"])), "<u2")
            sizes = len(shown["tgt"]), shown["layers"], shown["heads"], len(shown["src"])
            weights = parts.reshape(sizes) / report.PARTS
            mean = weights[:, shown["aligned_layers"]].mean((1, 2))
            np.testing.assert_allclose(mean, expected.weights, atol=0.51 / report.PARTS)
            if k == 0:
                assert sizes[1:3] == (1, 1)
            else:
                assert not np.allclose(weights[:, 1, 2], weights[:, 0, 1], atol=0.01)
    assert n_shown


def test_maps_are_spread_over_the_buckets() -> None:
    """Keeps out maps of the shortest sentences alone."""
    x = [1, 2, 3, 11, 12, 25, 99]
    buckets = [{"low": low, "high": low + 9} for low in (1, 11, 21)]
    assert report.spread(x, buckets, 3) == [0, 3, 5]
    assert report.spread(x, buckets, 5) == [0, 1, 3, 4, 5]
    assert report.spread(x, buckets, 9) == [0, 1, 2, 3, 4, 5]


def test_numbers_as_csv(trained: Path, page: Path) -> None:
    """Keeps out a table with other numbers than the record's."""
    found = re.findall(
        r'download="(.*?)" href="data:text/csv;charset=utf-8,(.*?)"', page.read_text()
    )
    tables = {name: [*csv.reader(io.StringIO(unquote(text)))] for name, text in found}
    by_length, curves = tables.values()
    records = reading.load_folder(trained).records.values()
    for row, record in zip(by_length[1:], records, strict=True):
        parts = [*record["tests"][0]["buckets"], record["tests"][0]["overall"]]
        assert row[:2] == [record["model"], "1"]
        assert row[2:] == [f"{part['bleu']['value']:.1f}" for part in parts]
    last = [row for row in curves if row[0] == "gpt"][-1]
    point = next(r for r in records if r["model"] == "gpt")["curve"][-1]
    assert [float(x) for x in last[2:]] == [*point.values()]
    assert curves[0][2:] == [*point]


def test_ids_are_unique(trained: Path, tmp_path: Path) -> None:
    """Keeps out a figure that is drawn with another's clip paths."""
    text = report.write(
        [trained, some(trained, tmp_path / "b")], tmp_path / "p.html", 0
    ).read_text()
    ids = re.findall(r'\bid="(.*?)"', text)
    assert len(ids) == len(set(ids)) > 30
    used = set(re.findall(r'url\(#(.*?)\)|xlink:href="#(.*?)"', text))
    assert {a or b for a, b in used} <= {*ids}


def test_figures_keep_their_texts() -> None:
    """Keeps out a text that is taken for a colour or an element, and what no viewer uses."""
    drawn = Figure()
    drawn.text(0, 0, "#123456 <b>", color="#1b75bc")
    text = figure.inline(drawn, "a")
    assert "fill: #1b75bc" in text
    assert "#123456 &lt;b&gt;" in text
    assert "<metadata" not in text


def test_models_are_seen_in_the_dark() -> None:
    """Keeps out a line that its background swallows: a contrast below 3 : 1."""
    sheet = (Path(report.__file__).parent / "templates" / "style.css").read_text()
    (by,) = re.findall(r"svg \{ filter: invert\((0\.\d+)\) hue-rotate\(180deg\)", sheet)
    # hue-rotate(180deg) as the specification of filter effects defines it
    turned = [[-0.574, 1.43, 0.144], [0.426, 0.43, 0.144], [0.426, 1.43, -0.856]]

    def luminance(rgb: np.ndarray) -> float:
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        return float([0.2126, 0.7152, 0.0722] @ linear)

    def at_night(colour: str) -> float:
        day = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        return luminance(np.clip(turned @ (day + float(by) * (1 - 2 * day)), 0, 1))

    ground = at_night("#ffffff")
    for look in style.looks(papers()).values():
        assert (at_night(look.colour) + 0.05) / (ground + 0.05) > 3, look.label


HOSTILE = '</script><script>window.ran = 1</script><img src=x onerror="window.ran = 1">\u202e'


def hostile(trained: Path, to: Path) -> Path:
    """Write such a text wherever a stranger could."""
    folder = some(trained, to, ".jsonl")
    for path in folder.glob("*.jsonl"):
        rows = [
            json.loads(line) | {"src": HOSTILE, "ref": HOSTILE}
            for line in path.read_text().splitlines()
        ]
        made = [row | {"hyp": HOSTILE + "x" * 10_000} for row in rows]
        path.write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")
    for path in folder.glob("*.json"):
        record = json.loads(path.read_text())
        record["data"]["name"] = record["provenance"]["system"] = HOSTILE
        record["tests"][0]["axis"] = HOSTILE
        record["events"] = [{"step": 1, "kind": "spike", "what": HOSTILE}]
        path.write_text(json.dumps(record))
    return folder


def test_hostile_text_is_shown_as_text(trained: Path, tmp_path: Path) -> None:
    """Keeps out a text that becomes part of the page."""
    text = report.write([hostile(trained, tmp_path / "h")], tmp_path / "p.html", 4).read_text()
    assert len(re.findall("<script", text)) == 2
    assert "<img" not in text
    assert html.escape(HOSTILE.split('"')[0], quote=False).split("<")[0] in text


def test_mistakes(call: Call, trained: Path, tmp_path: Path) -> None:
    """Keeps out a traceback, and a page of half the folders."""
    page, empty = tmp_path / "p.html", tmp_path / "empty"
    empty.mkdir()
    for given, said in (
        ((trained, "--out", tmp_path / "p.txt"), "name a FILE.html in a folder"),
        ((trained, "--out", tmp_path / "no" / "p.html"), "in a folder that exists"),
        ((trained, trained, "--out", page), "a folder is given twice"),
        ((trained, empty, "--out", page), "holds no record"),
        ((tmp_path / "none", "--out", page), "does not exist"),
        ((trained, "--out", page, "--maps", "-1"), "--maps"),
        ((trained,), "--out"),
    ):
        code, out, err = call(main, "report", *given)
        assert (code, out) == (2, "")
        assert said in err
        assert "Traceback" not in err
        assert not page.exists()
    assert call(main, "report", trained, "--out", page, "--maps", 0)[:2] == (0, f"{page}\n")
    assert data_of(page)["folders"][0]["tests"][0]["maps"] == {}


def test_tasks_without_sentences(language_model: Path, compared: Path, tmp_path: Path) -> None:
    """Keeps out a report of translations alone."""
    folders = data_of(report.write([language_model, compared], tmp_path / "p.html", 2))["folders"]
    assert [score["key"] for score in folders[0]["tests"][0]["scores"]] == ["nats"]
    assert [score["key"] for score in folders[1]["tests"][0]["scores"]] == ["right", "nats"]
