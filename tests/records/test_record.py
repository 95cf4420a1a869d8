"""Records on the disk, and the commit that they name."""

import json
from pathlib import Path

import pytest
from conftest import ROOT
from fake_records import fake_rows

from seqmodels.records import io as record
from seqmodels.utils import files


def test_a_record_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suffixes, replace = [], files.write

    def write(path: Path, content: str | bytes) -> Path:
        suffixes.append(path.name.removeprefix("gpt-seed1"))
        return replace(path, content)

    monkeypatch.setattr(files, "write", write)
    rows = [row | {"hyp": "a\u2028b"} for row in fake_rows(1, 0.5)]
    rows[0] |= {"hyp": "Bär"}
    saved = record.load(ROOT / "results" / "translation-grammar" / "gpt-seed1.json")
    saved["tests"][0] |= {"primary_metric": "nats"}
    path = tmp_path / "gpt-seed1.json"
    record.save(path, saved, rows)
    assert record.load(path) == saved
    lines = path.with_suffix(".jsonl").read_text(encoding="utf-8").split("\n")
    assert [json.loads(line)["hyp"] for line in lines[:2]] == ["Bär", "a\u2028b"]
    assert "Bär" in lines[0]
    assert suffixes == [".jsonl", ".sums.json.gz", ".json"]
    path.write_text('{"schema": "seqmodels.record/3"}')
    with pytest.raises(ValueError, match=r"'seqmodels\.record/3'"):
        record.load(path)
