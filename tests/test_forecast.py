"""The estimated cost of a comparison, printed before anything is trained."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from toy_task import contents, flags, toy

from seqmodels.comparison import compare, forecast
from seqmodels.comparison.forecast import Forecast, place_of, table
from seqmodels.records import record

GPT = ["gpt"]


def printed(out: Path, capsys: pytest.CaptureFixture[str], **changes: Any) -> str:
    """Return what a dry run prints."""
    compare.compare(toy(), flags(out, models=GPT, dry_run=True, **changes))
    return capsys.readouterr().out


@pytest.fixture
def recorded(tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with one run's record."""
    monkeypatch.chdir(tmp_path)  # no other records are at hand
    compare.compare(toy(), flags(tmp_path / "runs" / "one", models=GPT))
    return tmp_path / "runs" / "one"


def test_the_forecast_is_what_it_takes(
    recorded: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out another speed, and another memory, than those of the run itself."""
    known, found = record.load(recorded / "gpt-seed1.json"), list[Forecast]()
    original = forecast.forecast

    def watch(*given: Any) -> Forecast:
        found.append(original(*given))
        return found[-1]

    monkeypatch.setattr(forecast, "forecast", watch)
    text = printed(recorded.parent / "other", capsys, seeds=[2, 3])
    trained = known["curve"][-1]["tokens"]
    assert [f.tokens for f in found] == [200, 200]
    for f in found:
        assert f.seconds == pytest.approx(known["train_s"] * 200 / trained)
        assert f.is_here
        assert f.memory_bytes == known["peak_memory_bytes"]
    assert "gpt, seed 3" in text
    assert "To train: 2 runs, 1 at once" in text


def test_the_disk_holds_what_is_forecast(recorded: Path) -> None:
    """Keeps out a disk that fills up: two checkpoints, and the weights, with little besides."""
    known, sizes = record.load(recorded / "gpt-seed1.json"), []
    remove = compare.Checkpoints.remove

    def measured(self: Any) -> None:
        sizes.append(sum(path.stat().st_size for path in self.paths()) / len(self.paths()))
        remove(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare.Checkpoints, "remove", measured)
        compare.compare(toy(), flags(recorded.parent / "more", models=GPT))
    (per_checkpoint,) = sizes
    weights = (recorded / "gpt-seed1.safetensors").stat().st_size
    ((run, _),) = compare.plan(recorded, "cpu", toy(), flags(recorded, models=GPT))
    said = forecast.forecast(run, 200, 1, [known])
    assert said.disk_bytes == pytest.approx(2 * per_checkpoint + weights, rel=0.1)


def test_nothing_is_written(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keeps out a dry run that leaves a folder or changes one."""
    before = contents(recorded)
    assert "Nothing to train: all 1 runs are recorded" in printed(recorded, capsys)
    assert re.search(r"gpt, seed 2 +200 ", printed(recorded, capsys, seeds=[1, 2]))
    assert contents(recorded) == before
    printed(recorded.parent / "new", capsys)
    assert not (recorded.parent / "new").exists()


def test_what_does_not_fit_is_said(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keeps out a forecast of what the folder would refuse."""
    with pytest.raises(ValueError, match="made with other settings"):
        printed(recorded, capsys, lr=0.5)


def test_without_a_record_the_time_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a time that was made up."""
    monkeypatch.chdir(tmp_path)
    text = printed(tmp_path / "runs" / "one", capsys)
    assert re.search(r"gpt, seed 1 .* unknown ", text)
    assert "an unknown time" in text


def test_other_machines_are_marked(recorded: Path) -> None:
    """Keeps out another machine's speed as this one's, where this one's is known."""
    known = record.load(recorded / "gpt-seed1.json")
    other = {**known, "train_s": 9 * known["train_s"]}
    other["provenance"] = {**known["provenance"], "device": "another"}
    ((run, _),) = compare.plan(recorded, "cpu", toy(), flags(recorded, models=GPT))
    threads = known["provenance"]["threads"]
    assert place_of(other) != place_of(known)
    here = forecast.forecast(run, 100, threads, [other, known])
    there = forecast.forecast(run, 100, threads, [other])
    assert (here.is_here, there.is_here) == (True, False)
    assert there.seconds == pytest.approx(9 * (here.seconds or 0))
    assert "* from records of another machine" in table([here, there], 0, 2)
    assert "* from" not in table([here], 0, 2)


def test_the_time_is_the_median_of_this_task(recorded: Path) -> None:
    """Keeps out the fastest time, a mean, and the speed of another task beside that of this one."""
    known = record.load(recorded / "gpt-seed1.json")
    per_token = known["train_s"] / known["curve"][-1]["tokens"]
    local = [{**known, "train_s": n * known["train_s"]} for n in (1, 3, 11)]
    elsewhere = [{**one, "task": "another", "train_s": 100 * one["train_s"]} for one in local]
    ((run, _),) = compare.plan(recorded, "cpu", toy(), flags(recorded, models=GPT))
    threads = known["provenance"]["threads"]
    here = forecast.forecast(run, 100, threads, [*elsewhere, *local])
    assert here.seconds == pytest.approx(3 * 100 * per_token)
    there = forecast.forecast(run, 100, threads, elsewhere)
    assert there.seconds == pytest.approx(300 * 100 * per_token)


def test_runs_share_the_machine() -> None:
    """Keeps out a sum of times where two are trained at once, and one shorter than the longest."""
    runs = [Forecast(f"m{i}", 10, s, True, 1, 1) for i, s in enumerate((600.0, 600.0, 60.0))]
    assert "about 10 min without" in table(runs, 0, 3)
    assert "about 10 min without" in table(runs[:2], 0, 2)
    assert "about 21 min without" in table(runs, 0, 1)
