"""A comparison: what is recorded is not trained again, and settings do not mix."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from toy_task import contents, flags, toy

from seqmodels import MODELS
from seqmodels.cli.compare import compare_and_report
from seqmodels.comparison import compare, launch, runs
from seqmodels.data import tokenizers
from seqmodels.evaluation import intervals
from seqmodels.records import record
from seqmodels.training.config import Precision


def named_files(folder: Path) -> dict[str, int]:
    """Return when each record, its rows and its weights were last written."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*-seed*")}


def test_seeds_and_flags_reach_their_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a second seed that trains the first again, and a rate or precision unused."""
    asked: list[runs.Run] = []
    monkeypatch.setattr(compare, "run_all", lambda todo, *_: asked.extend(todo) or [])
    given = {"models": ["gpt", "bahdanau"], "seeds": [1, 4], "lr": 0.5, "precision": "bfloat16"}
    compare.compare(
        toy(training={**toy().training, "max_grad_norm": 0.7}), flags(tmp_path, **given)
    )
    assert [(run.name, run.cfg.seed) for run in asked] == [
        ("gpt", 1), ("bahdanau", 1), ("gpt", 4), ("bahdanau", 4),
    ]  # fmt: skip
    for run in asked:
        assert run.path.name == f"{run.name}-seed{run.cfg.seed}.json"
        assert (run.cfg.lr, run.cfg.precision, run.cfg.max_grad_norm) == (0.5, "bfloat16", 0.7)


def test_what_is_recorded_is_not_trained_again(
    copied: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out hours of training for a figure: a second call only draws."""
    before = named_files(copied)
    monkeypatch.setattr(launch, "run_one", lambda *_: pytest.fail("trained again"))
    compare_and_report(toy(), flags(copied))
    assert named_files(copied) == before
    assert (copied / "tables.md").exists()
    assert capsys.readouterr().out.count("recorded in") == len(MODELS)


@pytest.mark.usefixtures("undrawn")
def test_only_what_is_missing_is_trained(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a comparison that starts anew after it was stopped."""
    monkeypatch.setattr(intervals, "N_BOOTSTRAP", 20)
    before = named_files(copied)
    for path in copied.glob("gpt-seed1.json*"):
        path.unlink()
    compare.compare(toy(), flags(copied))
    after = named_files(copied)
    assert {name for name in after if after[name] != before[name]} == {
        "gpt-seed1.json", "gpt-seed1.jsonl", "gpt-seed1.safetensors", "gpt-seed1.sums.json.gz",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "given", "fault"),
    [
        ({"data": {**toy().data, "sha256": "1" * 64}}, {}, "data.sha256 was 000.*, is 111"),
        ({"data": {**toy().data, "name": "b→a"}}, {}, "data.name was letters, is b→a"),
        ({"training": {**toy().training, "tokens": 300}}, {}, "tokens was 200, is 300"),
        ({"beam": 5}, {}, "beam was 1, is 5"),
        ({"n_parameters": 500_000}, {}, "d_model was "),
        ({}, {"lr": 0.5}, "lr was 0.01, is 0.5"),
    ],
)
def test_other_settings_need_another_folder(
    changes: dict[str, Any], given: dict[str, Any], fault: str, copied: Path
) -> None:
    """Keeps out old results under new settings."""
    before = contents(copied)
    with pytest.raises(ValueError, match=f"{fault}.*choose another --out"):
        compare.compare(toy(**changes), flags(copied, models=["gpt"], **given))
    assert contents(copied) == before


def test_a_folder_holds_one_experiment(copied: Path) -> None:
    """Keeps out a tokenizer that is taken from under the weights of another run."""
    for path in copied.glob("rnn_encdec-seed1*"):
        path.unlink()
    before = contents(copied)
    other = toy(
        tokenizer=tokenizers.Words([*"gfedcba"]), data={"name": "letters", "sha256": "1" * 64}
    )
    with pytest.raises(ValueError, match=r"data\.sha256 was 000.*choose another --out"):
        compare.compare(other, flags(copied, models=["rnn_encdec"]))
    assert contents(copied) == before


def test_all_is_checked_before_anything_is_trained(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out an error after an hour of training that could be known before it."""
    monkeypatch.setattr(launch, "run_one", lambda *_: pytest.fail("trained"))
    for path in copied.glob("rnn_encdec-seed1*"):
        path.unlink()
    with pytest.raises(ValueError, match=r"gpt-seed1.* was made with other settings"):
        compare.compare(toy(), flags(copied, models=["rnn_encdec", "gpt"], lr=0.5))


def test_records_of_another_version_are_left_alone(copied: Path) -> None:
    """Keeps out an old record that is overwritten or read as if it were new."""
    path = copied / "gpt-seed1.json"
    old = json.dumps(json.loads(path.read_text()) | {"schema": "seqmodels.record/0"})
    path.write_text(old)
    with pytest.raises(ValueError, match=r"has the schema 'seqmodels\.record/0'"):
        compare.compare(toy(), flags(copied))
    assert path.read_text() == old


@pytest.mark.slow
def test_two_at_once_give_what_one_by_one_gives(compared: Path, tmp_path: Path) -> None:
    """Keeps out a result that depends on what else is trained beside it."""
    models = ["rnn_encdec", "gpt"]
    torch.set_num_threads(2)
    try:
        compare.compare(toy(), flags(tmp_path, models=models))
    finally:
        torch.set_num_threads(1)
    for name in models:
        for ending in ("jsonl", "safetensors"):
            file = f"{name}-seed1.{ending}"
            assert (tmp_path / file).read_bytes() == (compared / file).read_bytes()
        made = record.load(tmp_path / f"{name}-seed1.json")
        assert made["provenance"]["threads"] == 1


def test_a_run_that_diverges_costs_the_others_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out a comparison that stops at the first model whose rate is too high."""
    run_one = launch.run_one

    def diverge(one: runs.Run, *patience: float) -> dict[str, Any]:
        if one.name == "rnn_encdec":
            raise ValueError("training diverged")
        return run_one(one, *patience)

    monkeypatch.setattr(launch, "run_one", diverge)
    with pytest.raises(ValueError, match=r"^rnn_encdec, seed 1: training diverged$"):
        compare_and_report(toy(), flags(tmp_path, models=["rnn_encdec", "gpt"]))
    assert (tmp_path / "gpt-seed1.json").exists()
    assert "score-length.svg" in capsys.readouterr().out


def test_the_faster_precision_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out bfloat16 on processors that take longer for it."""
    assert compare.fastest_precision("cpu") in get_args(Precision)
    for seconds, choice in ((0.9, "float32"), (0.5, "bfloat16")):
        ticks = itertools.chain.from_iterable((0.0, duration) for duration in [1.0, seconds] * 10)
        monkeypatch.setattr(compare.time, "perf_counter", lambda ticks=ticks: next(ticks))
        assert compare.fastest_precision("cpu") == choice
