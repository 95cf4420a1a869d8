"""Records: written, read, upgraded, and signed with the clone's commit."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from fake_records import fake_rows

from seqmodels.comparison import runs
from seqmodels.records import record, schema
from seqmodels.utils import files

ROOT = Path(__file__).parents[1]


def test_a_record_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a record before its hypotheses are there, and letters written as escapes."""
    written, write = [], files.write
    monkeypatch.setattr(files, "write", lambda at, what: written.append(at) or write(at, what))
    rows = [row | {"hyp": "a\u2028b"} for row in fake_rows(1, 0.5)]
    rows[0] |= {"hyp": "Bär"}
    kept = record.load(ROOT / "results" / "translation-grammar" / "gpt-seed1.json")
    kept["tests"][0] |= {"primary_metric": "nats"}
    path = tmp_path / "gpt-seed1.json"
    record.save(path, kept, rows)
    assert record.load(path) == kept
    lines = path.with_suffix(".jsonl").read_text(encoding="utf-8").split("\n")
    assert [json.loads(line)["hyp"] for line in lines[:2]] == ["Bär", "a\u2028b"]
    assert "Bär" in lines[0]
    assert [at.name[9:] for at in written] == [".jsonl", ".sums.json.gz", ".json"]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (None, "no such record; name a RUN"),
        (b"{", "is not JSON: "),
        (b"\xff\xfe", "is not JSON: "),
        ("{}".encode("utf-16"), "is not JSON: "),
        (b"[1]", "is not a record"),
        (b'{"schema": "seqmodels.record/0"}', "'seqmodels.record/0'; this version reads seqm"),
        (b'{"schema": "seqmodels.record/1"}', "is not a record: it lacks the field task"),
        (b'{"kind": "bytes"}', "is not a record"),
    ],
)
def test_what_is_no_record_is_said(content: bytes | None, fault: str, tmp_path: Path) -> None:
    """Keeps out a KeyError for a file of another kind or another version."""
    path = tmp_path / "run.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=fault):
        record.load(path)


VERSION_1 = sorted((ROOT / "results").glob("*/*-seed1.json"))


@pytest.mark.parametrize("path", VERSION_1[::5], ids=lambda path: path.parent.name)
def test_version_1_is_upgraded(path: Path) -> None:
    """Keeps out committed records that can no longer be read, or that claim what they never held.

    The one interval that was wrong goes: all contexts of a continuation as if independent.
    """
    old, new = json.loads(path.read_text(encoding="utf-8")), record.load(path)
    if old["schema"] != "seqmodels.record/1":
        pytest.skip("made by this version")
    assert new["schema"] == "seqmodels.record/3"
    assert new["weights_sha256"] is new["intervals"] is new["continued"] is None
    settings = runs.settings_of(new)
    assert settings["data.source_end"] == "none"
    assert settings["precision"] == old["train_config"].get("precision", "float32")
    for was, now in zip(old["tests"], new["tests"], strict=True):
        names = {"exact": "exact_match"}
        for here, there in zip(was["bins"], now["buckets"], strict=True):
            assert there == {names.get(key, key): value for key, value in here.items()}
        for score, interval in was["overall"].items():
            gone = {"low": None, "high": None} if was["name"] == "context" else {}
            assert now["overall"][names.get(score, score)] == interval | gone


def test_the_case_of_version_1_is_known() -> None:
    """Keeps out capitals in the sources of an old run that was trained on lower-cased text."""
    cases = {}
    for folder in ("translation-multi30k-en-de", "next_token-shakespeare"):
        (path,) = (ROOT / "results" / folder).glob("transformer-seed1.json")
        assert json.loads(path.read_text(encoding="utf-8"))["schema"] == "seqmodels.record/1"
        cases[folder] = record.load(path)["data"].get("case")
    assert [*cases.values()] == ["lower", None]


def test_version_2_is_upgraded() -> None:
    """Keeps out a field that the newer names lose: every one is found again, with its value."""
    path = ROOT / "results" / "next_token" / "lstm_seq2seq-seed1.json"
    old = json.loads(path.read_text(encoding="utf-8"))
    assert old["schema"] == "seqmodels.record/2"
    assert (old["tests"][1]["headline"], old["tests"][1]["trained_to"]) == ("exact", 64)
    old |= {"weights_sha256": None, "intervals": {"exact": "Wilson"}, "continued": None}
    new = schema.upgrade(json.loads(json.dumps(old)))
    was, now = old["tests"][1], new["tests"][1]
    assert (now["primary_metric"], now["max_train_length"], now["noun"]) == (
        "exact_match", 64, "examples",
    )  # fmt: skip
    assert now["buckets"][0]["exact_match"] == was["bins"][0]["exact"]
    assert new["train_config"]["lr"] == old["train_config"]["rate"]
    assert new["train_config"]["max_grad_norm"] == old["train_config"]["clip"]
    assert new["intervals"] == {"exact_match": "Wilson"}
    assert new["cache_bytes"] == old["state_bytes"]
    sizes = old["model_config"]
    each = 4 * 2 * sizes["n_layers"] * sizes["d_model"]  # h and c of every layer
    assert new["source_bytes"] == [[n, each] for n, _ in old["state_bytes"]]
    unknown = schema.upgrade(old | {"model": "perceptron"})
    assert unknown["source_bytes"] == []


def test_a_commit_is_the_clones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out another project's commit: a copy installed inside its clone is not its file."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    copy = tmp_path / "venv" / "record.py"
    copy.parent.mkdir()
    copy.write_text("")
    monkeypatch.setattr(record, "__file__", str(copy))
    commit = record.commit.__wrapped__  # as in a process that has not asked yet
    assert commit() is None
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    git += ["-c", "commit.gpgsign=false"]
    (tmp_path / "theirs.txt").write_text("")
    for command in (["init", "-q"], ["add", "theirs.txt"], ["commit", "-qm", "theirs"]):
        subprocess.run([*git, *command], check=True)
    assert commit() is None
    for command in (["add", "."], ["commit", "-qm", "ours"]):
        subprocess.run([*git, *command], check=True)
    clean = commit() or ""
    assert len(clean) == 40
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "gpt-seed1.json").write_text("{}")
    subprocess.run([*git, "add", "."], check=True)
    assert commit() == clean  # a comparison that writes its second record
    copy.write_text("changed")
    assert commit() == f"{clean}+"


def test_outside_git_there_is_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out an error where git is not installed."""
    monkeypatch.setenv("PATH", "/nowhere")
    assert record.commit.__wrapped__() is None
