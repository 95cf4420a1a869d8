"""Trials of settings."""

import csv
from pathlib import Path
from typing import Any

import pytest
from conftest import Call, check_one_line

from seqmodels.experiments import run as one_run
from tasks.recipes import GRAMMAR_MUON
from tools import trials


def test_each_trial_is_made_once(call: Call, tmp_path: Path, monkeypatch: Any) -> None:
    out, table = tmp_path / "trials", tmp_path / "tasks" / "translation" / trials.TABLE
    table.parent.mkdir(parents=True)
    monkeypatch.setattr(trials, "ROOT", tmp_path)

    def try_out(*given: object) -> list[str]:
        argv = ["--out", out, "translation", *given, "--size", "smoke"]
        code, printed, err = call(trials, *argv, "--precision", "float32")
        assert code == 0, err
        return [line for line in printed.splitlines() if "training on" not in line]

    monkeypatch.setattr(one_run, "evaluate", lambda *_: pytest.fail("test is scored"))
    specs = ["gpt,lr=2e-3", "gpt,batch_tokens=300,lr=4e-3,n_layers=2", "rnn_encdec"]
    first = try_out(*specs, "--tokens", 500)
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["model"] for row in rows] == ["gpt", "gpt", "rnn_encdec"]
    assert [float(row["lr"]) for row in rows] == [2e-3, 4e-3, GRAMMAR_MUON["rnn_encdec"].lr]
    assert [row["batch_tokens"] for row in rows] == ["1600", "300", "1600"]
    assert [row["changes"] for row in rows] == ["", "n_layers=2", ""]
    for line, row in zip(first, rows, strict=True):
        losses = [float(loss) for loss in line.split(": ")[1].split()]
        assert float(row["valid_nats"]) == pytest.approx(min(losses), abs=6e-4)
    with monkeypatch.context() as patch:
        patch.setattr(trials, "fit", lambda *_: pytest.fail("trained again"))
        assert try_out(specs[1], "--tokens", 500) == first[1:2]
    assert try_out(specs[1], "--tokens", 600) != first[1:2]
    assert [file.name for file in out.iterdir()] == [trials.FILE]
    for wrong in (["gpt,"], ["gpt,lr=x"], ["gpt,d_x=1"], ["no"], ["gpt", "--lr", 1]):
        check_one_line(call(trials, "--out", out, "translation", *wrong))
