"""Forecasts of the time that a comparison takes."""

import re
from pathlib import Path
from typing import Any

import pytest
from conftest import fields_of
from toys import options, toy

from seqmodels.experiments import forecast
from seqmodels.experiments.forecast import Forecast
from seqmodels.experiments.plan import plan_runs
from seqmodels.experiments.specs import Spec
from seqmodels.records.io import build


def test_a_forecast_is_of_the_runs_most_like_it(recorded_gpt: Path) -> None:
    own = fields_of(recorded_gpt / "gpt-seed1.json")
    plan = plan_runs(recorded_gpt, "cpu", toy(), options(recorded_gpt, models=["gpt"]))
    ((run, _),), threads = plan.runs, own["provenance"]["threads"]
    one = run.cfg.tokens * own["train_s"] / own["curve"][-1]["tokens"]

    def slower(n: int, **changes: Any) -> dict[str, Any]:
        return own | {"train_s": n * own["train_s"]} | changes

    def forecast_from(*records: dict[str, Any]) -> Forecast:
        return forecast.forecast_run(run, threads, [*map(build, records)])

    local = forecast_from(slower(1), slower(3), slower(11), slower(90, task="another"))
    assert local.seconds == pytest.approx(3 * one)
    assert local.is_here
    for other in (
        slower(9, provenance=own["provenance"] | {"device": "another"}),
        slower(9, provenance=own["provenance"] | {"threads": threads + 1}),
        slower(9, train_config=own["train_config"] | {"precision": "bfloat16"}),
    ):
        assert forecast_from(slower(2), other).seconds == pytest.approx(2 * one)
        elsewhere = forecast_from(other)
        assert not elsewhere.is_here
        assert elsewhere.seconds == pytest.approx(9 * one)
    assert forecast_from(slower(5, model="bahdanau")).seconds is None
    assert forecast_from(slower(7, task="another")).seconds == pytest.approx(7 * one)
    near = forecast.find_records(recorded_gpt.with_name("new"))
    assert build(own) in near
    # runs in parallel take as long as the longest; those of another machine are marked
    times = {"a": 7200.0, "b": 600.0, "c": 600.0}
    few = [Forecast(run._replace(spec=Spec(name, {})), s, name > "a") for name, s in times.items()]
    assert "3 runs, 2 at once, about 2 h 0 min" in forecast.summarize(few, 2)
    assert "3 runs, 1 at once, about 2 h 20 min" in forecast.summarize(few, 1)
    text = forecast.tabulate(few, "")
    rows = [("a", "2 h 0 min*"), ("b", "10 min"), ("c", "10 min")]
    assert re.findall(r"^([abc]), .* about (.*)$", text, re.M) == rows
