"""The live page: what goes into it, and what it refuses."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Call
from test_report_page import data_of

from seqmodels.cli import main
from seqmodels.data.tokenizers import Tokenizer
from seqmodels.site import build, export, live, runtime, vocabulary

MANIFEST = {"files": {"weights.bin": "ab" * 32}, "run_weights_sha256": None, "attention": None}


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be fetched or traced."""
    program = "onmessage = 1", b"\0asm", {"onnxruntime-web": "1.2.3"}
    contents = {
        "encode.onnx": b"read",
        "step.onnx": b"write",
        "weights.bin": bytes(range(200)),
        "manifest.json": json.dumps(MANIFEST).encode(),
    }
    monkeypatch.setattr(runtime, "runtime", lambda: program)
    monkeypatch.setattr(export, "contents_of", lambda path, is_half: (contents, None))


def unpacked(text: str, id: str) -> bytes:
    """Return what an element holds."""
    found = re.search(rf'id="{id}">([^<]*)</script>', text)
    assert found
    return gzip.decompress(base64.b64decode(found[1]))


def test_what_the_page_holds(trained: Path, tmp_path: Path, pretended: None) -> None:
    """Keeps out a page without its models, and examples that crowd it."""
    out = live.write(trained, tmp_path / "live.html")
    data, text = data_of(out), out.read_text()
    assert [run["label"] for run in data["runs"]] == ["Bahdanau", "LSTM seq2seq", "GPT"]
    assert [run["graphs"] for run in data["runs"]] == [["encode", "step"]] * 3
    assert unpacked(text, "worker") == b"onmessage = 1"
    assert unpacked(text, "wasm") == b"\0asm"
    assert unpacked(text, "step-2") == b"write"
    planes = np.frombuffer(unpacked(text, "weights-1"), np.uint8)
    assert planes.reshape(2, -1).T.tobytes() == bytes(range(200))
    rows = [json.loads(line) for line in (trained / "gpt-seed1.jsonl").read_text().splitlines()]
    known = {(row["x"], row["src"], row["ref"]) for row in rows}
    assert {(e["x"], e["src"], e["ref"]) for e in data["examples"]} <= known
    lengths = [e["x"] for e in data["examples"]]
    assert lengths == sorted(lengths)
    for bucket in data["buckets"]:
        inside = [x for x in lengths if bucket["low"] <= x <= bucket["high"]]
        n = len({row["src"] for row in rows if bucket["low"] <= row["x"] <= bucket["high"]})
        assert 0 < len(inside) <= live.EXAMPLES_PER_BUCKET
        assert len(inside) == live.EXAMPLES_PER_BUCKET or n <= live.EXAMPLES_PER_BUCKET
    assert data["case"] is None
    assert data["continues"] is None


def test_continues(language_model: Path, tmp_path: Path, pretended: None) -> None:
    """Keeps out a language model that is asked to translate."""
    data = data_of(live.write(language_model, tmp_path / "live.html"))
    assert (data["continues"], data["block"], data["has_source_end"]) == ("prefix", 12, False)


def test_a_site_has_the_page(trained: Path, tmp_path: Path, pretended: None) -> None:
    """Keeps out a page that the site cannot hold, or holds with other models."""
    runs = Path(__file__).parents[1] / "results" / "bottleneck"
    shutil.copytree(runs, tmp_path / "runs" / "bottleneck")
    (tmp_path / "site").mkdir()
    pages = build.build(tmp_path / "site", tmp_path / "runs", trained)
    data = data_of(tmp_path / "site" / "live.html")
    assert [run["label"] for run in data["runs"]] == ["Bahdanau", "LSTM seq2seq", "GPT"]
    assert pages[-1].name == "live.html"
    assert 'href="live.html"' in pages[0].read_text()


def test_names_are_text(trained: Path, tmp_path: Path, pretended: None) -> None:
    """Keeps out a folder's name, a label or a sentence that is run as a script."""
    bent = "<script>alert(1)<"
    folder = Path(shutil.copytree(trained, tmp_path / bent))
    for path in folder.glob("*.jsonl"):
        lines = path.read_text().splitlines()
        rows = [json.loads(line) | {"src": f"</script>{bent}"} for line in lines]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = live.write(folder, tmp_path / "live.html").read_text()
    assert "alert(1)" in text
    assert bent not in text


def test_classes_of_characters() -> None:
    """Keeps out a class that is negated, doubled or left out, and ranges that touch."""
    classes = {r"\w": r"\u{61}-\u{7a}", r"\s": r"\u{20}", r"\p{L}": r"\u{41}"}
    assert vocabulary.spelled_out(r"\w+[^\w\s]|\S", classes) == (
        r"[\u{61}-\u{7a}]+[^\u{61}-\u{7a}\u{20}]|[^\u{20}]"
    )
    assert vocabulary.spelled_out(r"(?!\S)[^\r\p{L}]\p{L}", classes) == (
        r"(?![^\u{20}])[^\r\u{41}][\u{41}]"
    )
    assert vocabulary.as_ranges([1, 2, 3, 7, 9, 10]) == r"\u{1}-\u{3}\u{7}\u{9}-\u{a}"


def test_no_npm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keeps out a traceback where Node.js is missing, or the network."""
    monkeypatch.setenv("SEQMODELS_CACHE", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    with pytest.raises(ValueError, match="needs npm, which comes with"):
        runtime.runtime()
    monkeypatch.setattr(shutil, "which", lambda name, path=None: "npm")

    def fail(*args: Any, **settings: Any) -> None:
        raise subprocess.CalledProcessError(1, "npm", "", "npm error network\nmore\n")

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(ValueError, match=r"npm cannot fetch onnxruntime-web: npm error network$"):
        runtime.runtime()
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_is_fetched_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keeps out a program that is fetched again, or in other versions than declared."""
    called: list[Any] = []

    def run(command: list[str], **settings: Any) -> Any:
        called.append(command[:2])
        if command[1] == "ci":
            part = Path(command[-1])
            declared = [(part / n).read_bytes() for n in runtime.DECLARED]
            assert declared == [(runtime.TEMPLATES / n).read_bytes() for n in runtime.DECLARED]
            dist = part / "node_modules" / "onnxruntime-web" / "dist"
            dist.mkdir(parents=True)
            (dist / "ort-wasm-simd-threaded.wasm").write_bytes(b"\0asm")
        return subprocess.CompletedProcess(command, 0, "script", "")

    monkeypatch.setenv("SEQMODELS_CACHE", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name, path=None: name)
    monkeypatch.setattr(subprocess, "run", run)
    assert runtime.runtime() == runtime.runtime() == (
        "script", b"\0asm", {"esbuild": "0.28.2", "onnxruntime-web": "1.30.0"}
    )  # fmt: skip
    assert [Path(name).name for name, _ in called] == ["npm", "esbuild", "esbuild"]


def test_lock_has_checksums() -> None:
    """Keeps out packages that anyone on the way could change, and addresses of one registry."""
    text = (runtime.TEMPLATES / "package-lock.json").read_text()
    packages = {k: v for k, v in json.loads(text)["packages"].items() if k}
    assert all(its["integrity"].startswith("sha512-") for its in packages.values())
    assert "http" not in text
    declared = json.loads((runtime.TEMPLATES / "package.json").read_text())["dependencies"]
    for name, version in declared.items():
        assert packages[f"node_modules/{name}"]["version"] == version


def test_mistakes(call: Call, trained: Path, tmp_path: Path, pretended: None) -> None:
    """Keeps out a traceback for a folder whose models cannot run, and for a wrong name."""
    bare = tmp_path / "bare"
    bare.mkdir()
    for path in trained.glob("gpt-seed1.json"):
        shutil.copy(path, bare)
    cases = [
        ((tmp_path / "none", "--out", tmp_path / "a.html"), "does not exist"),
        ((bare, "--out", tmp_path / "a.html"), "holds no weights"),
        ((trained, "--out", tmp_path / "a.txt"), "name a FILE.html"),
        ((trained, "--out", tmp_path / "none" / "a.html"), "in a folder that exists"),
    ]
    for given, why in cases:
        code, _, said = call(main, "live", *given)
        assert (code, said.count("\n"), why in said) == (2, 1, True), said


class Other(Tokenizer):
    """A tokenizer that no page knows."""

    name = "gpt2 (50,260)"
    labels = ()

    def encode(self, text: str) -> list[int]:
        """Return nothing."""
        return []

    def decode(self, ids: Iterable[int]) -> str:
        """Return nothing."""
        return ""

    def _fields(self) -> dict[str, Any]:
        return {}


def test_unknown_tokenizer() -> None:
    """Keeps out a page that tokenizes otherwise than its models learned."""
    with pytest.raises(ValueError, match="not as gpt2"):
        vocabulary.described(Other())
