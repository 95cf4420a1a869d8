"""The commands of the lesson: what they need, and the runs that they take."""

import hashlib
import json
from pathlib import Path
from unittest.mock import Mock

import pytest
from conftest import RESULTS, Call

import seqmodels
from lesson import export
from seqmodels.cli import main
from seqmodels.cli.main import build_parser
from seqmodels.models import PAPERS

LIVE = RESULTS / "translation-live"
SHIPPED = [name for name in PAPERS if (LIVE / f"{name}-seed1.json").exists()]
USES_RUN = {
    "translate": ["the cat sleeps ."],
    "generate": ["the cat sleeps .", "--length", "2"],
    "export": ["--out", "onnx"],
}


@pytest.mark.parametrize("name", SHIPPED)
def test_every_command_that_takes_a_run_takes_a_shipped_one(
    name: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = build_parser()._subparsers._group_actions[0].choices
    takes_run = [c for c, p in commands.items() if any(a.dest == "run" for a in p._actions)]
    assert takes_run == [*USES_RUN]
    monkeypatch.setattr(export.graphs, "trace", lambda _: Mock(protos={}))  # takes seconds
    monkeypatch.setattr(export, "deduplicate_weights", lambda *_: b"")
    monkeypatch.setattr(export, "make_runner", lambda *_: None)
    monkeypatch.setattr(export, "check", lambda *_: export.Check(1, 0.0, 0.0))
    monkeypatch.setattr(export, "describe_run", lambda *_: {})
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).mkdir()  # a folder without a run is not meant
    printed = {c: call(main, c, name, *rest) for c, rest in USES_RUN.items()}
    assert {(code, err) for code, _, err in printed.values()} == {(0, "")}
    run = seqmodels.load(shipped := LIVE / f"{name}-seed1")
    assert printed["translate"][1] == f"{run.translate([USES_RUN['translate'][0]])[0]}\n"
    assert printed["generate"][1].startswith("the cat sleeps.")
    own = {p.name: p.read_bytes() for p in shipped.parent.iterdir() if p.is_file()}
    record = json.loads((tmp_path / "onnx" / "manifest.json").read_text())["record"]
    sha256 = hashlib.sha256(own[f"{name}-seed1.json"]).hexdigest()
    assert record == {"file": f"{name}-seed1.json", "sha256": sha256}
    assert (tmp_path / "onnx" / "vocabulary.json").read_bytes() == own["vocabulary.json"]
