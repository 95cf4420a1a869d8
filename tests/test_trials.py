"""Trials of learning rates: trained as a comparison trains, and test is never scored."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from seqmodels.comparison import runs
from tools import trials

Run = Callable[..., list[str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return the command, called with rates and flags; it returns the lines of results."""

    def call(*args: object) -> list[str]:
        argv = ["tools.trials", "--out", str(tmp_path), "translation", *map(str, args)]
        precision = [] if "--precision" in argv else ["--precision", "float32"]
        monkeypatch.setattr(sys, "argv", [*argv, "--size", "smoke", *precision])
        with pytest.raises(SystemExit) as ended:
            trials.main()
        said = capsys.readouterr()
        assert not ended.value.code, said.err
        return [line for line in said.out.splitlines() if "training on" not in line]

    return call


def test_each_rate_is_trained_once(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out one rate for all, a score on test, and a trial that is repeated."""
    monkeypatch.setattr(runs, "evaluate", lambda *_: pytest.fail("test is scored"))
    first = run("gpt=2e-3,4e-3", "rnn_encdec=1e-3", "--tokens", 2_000)
    assert [line.split(" seed")[0] for line in first] == [
        "gpt 0.002", "gpt 0.004", "rnn_encdec 0.001",
    ]  # fmt: skip
    assert len({line.split(": ")[1] for line in first}) == 3
    path = tmp_path / trials.FILE
    kept = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [one["settings"]["lr"] for one in kept] == [2e-3, 4e-3, 1e-3]
    for line, one in zip(first, kept, strict=True):
        losses = [f"{point['valid_nats']:.3f}" for point in one["curve"]]
        assert line.split(": ")[1].split() == losses
    with monkeypatch.context() as context:
        context.setattr(trials, "train_run", lambda *_: pytest.fail("trained again"))
        assert run("gpt=4e-3", "--tokens", 2_000) == first[1:2]
    assert run("gpt=4e-3", "--tokens", 3_000) != first[1:2]
    assert [file.name for file in tmp_path.iterdir()] == [trials.FILE]


def test_the_precision_is_passed_on(run: Run, tmp_path: Path) -> None:
    """Keeps out trials in another precision than the one that was asked for."""
    run("gpt=2e-3", "--tokens", 500, "--precision", "bfloat16")
    run("gpt=2e-3", "--tokens", 500)
    kept = (tmp_path / trials.FILE).read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["settings"]["precision"] for line in kept] == ["bfloat16", "float32"]


@pytest.mark.parametrize(
    "rate", ["gpt", "gpt=", "gpt=x", "gpt=-1", "nobody=1e-3", "gpt=1e-3 --lr 2e-3"]
)
def test_wrong_rates(rate: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keeps out a traceback for a typo, and a rate that is given twice."""
    argv = ["trials", "--out", str(tmp_path), "translation", *rate.split()]
    monkeypatch.setattr(sys, "argv", argv)
    with pytest.raises(SystemExit) as ended:
        trials.main()
    assert ended.value.code == 2
