"""Forecasts of the time that a comparison takes."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import fields_of
from toys import options, toy

from seqmodels.experiments import forecast
from seqmodels.experiments.plan import plan_runs
from seqmodels.records.io import build
from seqmodels.utils import progress


def test_a_forecast_is_of_the_runs_most_like_it(recorded_gpt: Path) -> None:
    own = fields_of(recorded_gpt / "gpt-seed1.json")
    plan = plan_runs(recorded_gpt, "cpu", toy(), options(recorded_gpt, models=["gpt"]))
    (run,), threads = plan.recorded, own["provenance"]["threads"]
    one = run.cfg.tokens * own["train_s"] / own["curve"][-1]["tokens"]

    def slower(n: int, **changes: Any) -> dict[str, Any]:
        return own | {"train_s": n * own["train_s"]} | changes

    def seconds_from(*records: dict[str, Any]) -> float | None:
        return forecast.estimate_seconds(run, threads, [*map(build, records)])

    local = seconds_from(slower(1), slower(3), slower(11), slower(90, task="another"))
    assert local == pytest.approx(3 * one)
    for other in (
        slower(9, provenance=own["provenance"] | {"device": "another"}),
        slower(9, provenance=own["provenance"] | {"threads": threads + 1}),
        slower(9, train_config=own["train_config"] | {"precision": "bfloat16"}),
    ):
        assert seconds_from(slower(2), other) == pytest.approx(2 * one)
        assert seconds_from(other) == pytest.approx(9 * one)
    assert seconds_from(slower(5, model="bahdanau")) is None
    assert seconds_from(slower(7, task="another")) == pytest.approx(7 * one)
    assert build(own) in forecast.find_records(recorded_gpt.with_name("new"))
    again = plan_runs(recorded_gpt, "cpu", toy(), options(recorded_gpt, models=["gpt"], fresh=True))
    given = options(recorded_gpt, models=["gpt"], fresh=True, dry_run=True)
    row = re.search(r"^gpt, seed 1 +200 +about (.*)$", forecast.format_forecast(
        again, recorded_gpt, given
    ), re.M)  # fmt: skip
    assert row
    assert row[1] == progress.format_duration(one).removeprefix("about ")


def test_recorded_runs_count_for_how_many_train_at_once(
    recorded_gpt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next command then trains with as many threads as the first one did."""
    given = options(recorded_gpt, models=["gpt"], seeds=[1, 2])
    plan = plan_runs(recorded_gpt, "cpu", toy(), given)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    seen: list[int] = []
    monkeypatch.setattr(
        forecast, "estimate_seconds", lambda run, threads, records: seen.append(threads) or 600.0
    )
    text = forecast.format_forecast(plan, recorded_gpt, given)
    assert text == "To train: 1 run, 2 at once, about 10 min without evaluation. Recorded: 1."
    assert seen == [2]


def test_runs_in_parallel_take_as_long_as_the_longest() -> None:
    times = [7200.0, 600.0, 600.0]
    assert "3 runs, 2 at once, about 2 h 0 min" in forecast.summarize(times, 2)
    assert "3 runs, 1 at once, about 2 h 20 min" in forecast.summarize(times, 1)
    assert "3 runs, one after the other, an unknown time" in forecast.summarize(
        [None, *times[1:]], None
    )
