"""Differences between the models of a folder: from the sums of its rows, beside its records."""

from __future__ import annotations

import gzip
import json
import shutil
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import rows_of
from fake_records import BUCKETS, with_rows
from toys import load_records

from seqmodels.evaluation import metrics
from seqmodels.records import io as records
from seqmodels.records import significance
from seqmodels.records.schema import Data
from seqmodels.report import figures, load, style

SHARES = {
    "rnn_encdec": (0.5, 0.52, 0.51), "bahdanau": (0.8, 0.81, 0.82), "gpt": (0.81, 0.79, 0.8, 0.81),
}  # fmt: skip
"""Model -> the share of right words of each seed."""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_rows(tmp_path_factory.mktemp("records"), SHARES)


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "records"))


def find(folder: Path) -> significance.Significance | None:
    return significance.compare_folder(folder, load.load_folder(folder).records)


def compare(folder: Path) -> significance.Comparison:
    return find(folder).comparisons[0]


def stored(path: Path) -> dict[str, Any]:
    return json.loads(gzip.decompress(path.read_bytes()))["tests"]["length"]


def change(path: Path, to: Path, **fields: Any) -> None:
    to.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | fields))


@pytest.mark.parametrize("metric", ["bleu", "exact_match", "bits_per_byte"])
def test_differences_are_those_of_the_records(metric: str, tmp_path: Path) -> None:
    whole = find(with_rows(tmp_path, SHARES, metric))
    found = whole.comparisons
    assert whole.on("length") is found[0]
    assert [c.metric for c in found] == [metric, *(["nats"] if metric != "bits_per_byte" else [])]
    groups = load.group_by_model(load_records(tmp_path))
    for comparison in found:
        assert comparison.test == "length"
        assert comparison.buckets == [list(bucket) for bucket in BUCKETS]
        scores = {m: load.score_array(g, "length", comparison.metric) for m, g in groups.items()}
        means = {model: own[..., 0].mean(0) for model, own in scores.items()}
        assert [(p.column, p.row) for p in comparison.pairs] == [*combinations(SHARES, 2)]
        for pair in comparison.pairs:
            assert pair.n_seeds == [len(SHARES[pair.row]), len(SHARES[pair.column])]
            parts = [part.value for part in (pair.overall, *pair.buckets)]
            assert parts == pytest.approx(means[pair.row] - means[pair.column], abs=1e-5)


def test_named_contrasts_are_tested_together(folder: Path) -> None:
    alone = [("gpt", "bahdanau")]
    for named, tested in (
        ({"gpt": ["bahdanau", "transformer"]}, alone),
        ({"bahdanau": ["gpt"]}, alone),
        ({"gpt": None}, [("gpt", "rnn_encdec"), *alone]),
        ({"gpt": ["transformer"]}, [("bahdanau", "rnn_encdec"), ("gpt", "rnn_encdec"), *alone]),
    ):
        for path in folder.glob("*-seed*.json"):
            change(path, path, contrasts=named.get(path.name.partition("-")[0], []))
        comparison = compare(folder)
        assert [(p.row, p.column) for p in comparison.pairs if p.p is not None] == tested
        assert comparison.n_tested == len(tested)


def test_thin_buckets_have_no_intervals(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(significance, "MIN_ROWS", 31)  # a bucket has 30
    pairs = compare(folder).pairs
    assert [(p.overall.low is None, p.buckets[0].low is None) for p in pairs] == [(False, True)] * 3
    monkeypatch.setattr(significance, "MIN_ROWS", 1_000)
    assert [(p.overall.low, p.p) for p in compare(folder).pairs] == [(None, None)] * 3


def test_a_model_alone_is_not_compared(tmp_path: Path) -> None:
    assert find(with_rows(tmp_path / "b", {"gpt": (0.5, 0.6)})) is None


def test_rows_of_a_text_are_drawn_together(folder: Path) -> None:
    single = compare(folder).pairs[0].overall
    for record in load_records(folder):
        rows = rows_of(folder / record.hypotheses)
        rows = [r | {"group": f"text {i % 15}"} for i, r in enumerate(rows)]
        records.save_sums(records.sums_path(folder, record), record, rows)
    grouped = compare(folder).pairs[0].overall
    assert single.value == grouped.value
    assert single.high != grouped.high


def test_sums_are_those_of_the_rows(tmp_path: Path) -> None:
    digests = set()  # of the same sentences, whatever is measured
    for metric, share in (("bleu", 0.5), ("exact_match", 0.6), ("nats", 0.7)):
        folder = with_rows(tmp_path / metric, {"gpt": (share,)}, metric)
        (record,) = load_records(folder)
        rows = rows_of(folder / record.hypotheses)
        (sums,) = records.load_sums(records.sums_path(folder, record), record).values()
        assert np.array_equal(sums.terms, metrics.metric_of(metric).terms(rows, "13a"))
        assert list(sums.x) == [row["x"] for row in rows]
        digests.add(sums.examples)
        data = Data.model_validate(record.data.model_dump() | {"bleu_tokenize": "char"})
        chinese = record.model_copy(update={"data": data})
        records.save_sums(tmp_path / "char", chinese, rows)
        columns = np.transpose(stored(tmp_path / "char")["columns"])
        assert np.array_equal(columns, metrics.metric_of(metric).terms(rows, "char"))
        for change in ({"ref": "another"}, {"x": 99}, {"group": "g"}):
            other = [r | change if i == 7 else r for i, r in enumerate(rows)]
            if "group" in change:
                other = [{"group": f"g{i // 7}", **r} for i, r in enumerate(other)]
            records.save_sums(tmp_path / "other", record, other)
            assert stored(tmp_path / "other")["examples"] != sums.examples
        assert stored(tmp_path / "other")["groups"][5:9] == [0, 0, 1, 2]
        assert (tmp_path / "other").read_bytes()[4:8] == bytes(4)  # no time of gzip's
        if metric == "bleu":  # a token more than words: the end
            longer = [r | {"n_tokens": r["n_places"] + 1} for r in rows]
            records.save_sums(tmp_path / "longer", record, longer)
            losses = [(round(r["nats"], 5), len(r["ref"].split()) + 1) for r in rows]
            assert [*zip(*stored(tmp_path / "longer")["losses"], strict=True)] == losses
    assert len(digests) == 1


# ------------------------------------------------------------------------------- The file's life
def test_the_file_is_made_from_the_sums(folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(style, "save", lambda figure, path: path)
    its = load.load_folder(folder)
    drawn = figures.plot_folder(its, figures.find_significance(its))
    paths = {path.name: path for path in drawn}
    written = json.loads(paths["significance.json"].read_text(encoding="utf-8"))
    assert written["schema"] == significance.SCHEMA
    assert written["comparisons"] == find(folder).model_dump()["comparisons"]
    with_rows(folder, {"gpt": (0.2, 0.3)})
    assert compare(folder).pairs[2].overall.value < -10
    (folder / "gpt-seed1.sums.json.gz").unlink()
    assert find(folder) is None


def test_sums_must_be_those_of_the_records(folder: Path, capsys: Any) -> None:
    path = folder / "gpt-seed1.sums.json.gz"
    content = path.read_bytes()

    def packed(**fields: Any) -> bytes:
        whole = json.loads(gzip.decompress(content))
        whole["tests"]["length"] |= fields
        return gzip.compress(json.dumps(whole).encode())

    for spoiled in (
        (folder / "gpt-seed4.sums.json.gz").read_bytes(),  # which scores about the same
        *(
            packed(**fields)
            for fields in ({"examples": "0" * 64}, {"x": [1]}, {"losses": [[1], [2]]})
        ),
        *(content[:-20], b"{}", b"not gzipped"),
    ):
        path.write_bytes(spoiled)
        with pytest.raises(ValueError, match=r"gpt-seed1\.sums\.json\.gz") as error:
            find(folder)
        assert "\n" not in str(error.value)
        assert figures.find_significance(load.load_folder(folder)) is None
        assert "gpt-seed1.sums.json.gz" in capsys.readouterr().err
    path.write_bytes(packed(losses=None))
    assert [c.metric for c in find(folder).comparisons] == ["bleu"]
