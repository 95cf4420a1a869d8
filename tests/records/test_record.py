"""Records on the disk, and the commit that they name."""

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import RESULTS, fields_of
from fake_records import fake_rows
from pydantic import ValidationError

from seqmodels.records import io as record
from seqmodels.records.schema import OLD_FIELDS
from seqmodels.utils import files


def test_a_record_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suffixes, replace = [], files.write

    def write(path: Path, content: str | bytes) -> Path:
        suffixes.append(path.name.removeprefix("gpt-seed1"))
        return replace(path, content)

    monkeypatch.setattr(files, "write", write)
    rows = [row | {"hyp": "a\u2028b"} for row in fake_rows(1, 0.5)]
    rows[0] |= {"hyp": "Bär"}
    fields = fields_of(RESULTS / "translation-grammar" / "gpt-seed1.json")
    fields["tests"][0] |= {"primary_metric": "nats"}
    fields = {name: field for name, field in fields.items() if name not in OLD_FIELDS}
    saved = record.build(fields)
    path = tmp_path / "gpt-seed1.json"
    written = record.save(path, saved, rows)
    assert record.load(path) == written
    sums = fields_of(path).pop("files_sha256")
    assert fields_of(path) == fields | {"files_sha256": sums}
    for suffix in (".jsonl", ".sums.json.gz"):
        beside = path.with_suffix(suffix)
        content = record.read_checked(beside, written)
        assert sums.pop(suffix) == hashlib.sha256(content).hexdigest()
        beside.write_bytes(content[:-1])
        with pytest.raises(ValueError, match=f"seed1{suffix} is not the file of its record"):
            record.read_checked(beside, written)
        beside.write_bytes(content)
    lines = path.with_suffix(".jsonl").read_text(encoding="utf-8").split("\n")
    assert [json.loads(line)["hyp"] for line in lines[:2]] == ["Bär", "a\u2028b"]
    assert "Bär" in lines[0]
    assert suffixes == [".jsonl", ".sums.json.gz", ".json"]
    path.write_text('{"schema": "seqmodels.record/3"}')
    with pytest.raises(ValueError, match=r"'seqmodels\.record/3'"):
        record.load(path)


def test_the_committed_records_are_written_as_they_are_read() -> None:
    for path in RESULTS.rglob("*-seed*[0-9].json"):
        read, fields = record.load(path), fields_of(path)
        written = record.format_record(read.model_copy(update={"task": fields["task"]}))
        assert json.loads(written) == {k: v for k, v in fields.items() if k not in OLD_FIELDS}, path


def test_what_is_read_cannot_be_changed() -> None:
    loaded = record.load(RESULTS / "translation-grammar" / "gpt-seed1.json")
    for part in (loaded, loaded.tests[0], loaded.tests[0].buckets[0], loaded.train_config):
        with pytest.raises(ValidationError, match="frozen"):
            part.n = 3


def test_further_fields_are_found_by_name() -> None:
    loaded = record.load(RESULTS / "choices" / "transformer-n_layers-1-seed1.json")
    bucket = loaded.test("length").buckets[0]
    assert bucket["bleu"].low < bucket["bleu"].value < bucket["bleu"].high
    assert (bucket.get("ter"), loaded.data.get("case", "?")) == (None, "?")
    with pytest.raises(KeyError):
        bucket["ter"]
    assert (loaded.base, loaded.size("n_layers")) == ("transformer", 1)
    assert loaded.test("context") is None


def test_a_run_names_its_processor_and_its_threads(monkeypatch: Any) -> None:
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "a GPU")
    monkeypatch.setattr("torch.get_num_threads", lambda: 3)
    its = record.collect_provenance("cuda")
    assert (its["device"], its["threads"]) == ("a GPU", 3)


def test_a_commit_is_the_clones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    copy = tmp_path / "venv" / "record.py"
    copy.parent.mkdir()
    copy.write_text("")
    monkeypatch.setattr(record, "__file__", str(copy))
    commit = record.read_commit.__wrapped__  # without the cache
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    git += ["-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "ours"]):
        subprocess.run([*git, *command], check=True)
    clean = commit() or ""
    assert len(clean) == 40
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "gpt-seed1.json").write_text("{}")
    subprocess.run([*git, "add", "."], check=True)
    (tmp_path / "notes").write_text("")
    assert commit() == clean  # a comparison that writes its second record, and notes
    copy.write_text("changed")
    assert commit() == f"{clean}+"
    monkeypatch.setenv("PATH", "/nowhere")  # git is not installed
    assert commit() is None
