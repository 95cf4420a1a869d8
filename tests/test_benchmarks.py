"""Measurements of speed at toy size: they run, and their arithmetic is right."""

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import Call

from benchmarks import __main__ as command
from benchmarks import against, growth, turns
from benchmarks.workloads import SIZES, WORKLOADS


def test_a_ratio_is_of_new_to_old_round_by_round() -> None:
    rates = np.array([(8.0, 4.0), (1.0, 0.5), (2.0, 1.0)] * 5)
    assert against.ratio_of(rates) == pytest.approx((0.5, 0.5, 0.5))
    value, low, high = against.ratio_of(rates * np.linspace(1, 1.5, 30).reshape(15, 2))
    assert low < value < high


def test_a_rate_is_of_all_work_of_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 11.0, 13.0, 14.0])
    monkeypatch.setattr(turns.time, "perf_counter", lambda: next(clock))
    assert turns.measure_rate(lambda: 6.0, 3.0) == 12.0 / 3.0


@pytest.mark.parametrize("name", WORKLOADS)
def test_each_workload_does_the_same_amount_each_time(name: str) -> None:
    work = WORKLOADS[name](SIZES["smoke"])
    assert work() == work() > 1


def test_growth_is_measured_at_each_length(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "MODELS", ["bahdanau", "gpt"])
    code, out, _ = call(command, "--size", "smoke", "--out", tmp_path)
    path, figure = map(Path, out.split())
    assert (code, figure.read_bytes()[:5]) == (0, b"<?xml")
    parts = json.loads(path.read_text(encoding="utf-8"))["parts"]
    for axis, column in (("length", "step_s"), ("writing", "token_s")):
        points = parts[f"growth-{axis}"]["points"]
        assert [(p["model"], p["n"]) for p in points] == [
            ("bahdanau", 8), ("bahdanau", 16), ("gpt", 8), ("gpt", 16),
        ]  # fmt: skip
        assert all(p[column] > 0 for p in points)
    gpt = [p["state_bytes"] for p in points if p["model"] == "gpt"]
    assert gpt[1] > 1.9 * gpt[0] > 0  # keys and values of each token
