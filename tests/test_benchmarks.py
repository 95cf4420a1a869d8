"""Measurements of speed at toy size: they run, and their arithmetic and files are right."""

import json
from pathlib import Path

import pytest
import torch
from conftest import Call

from benchmarks import __main__ as command
from benchmarks import against, draw, growth, turns
from benchmarks.workloads import SIZES, WORKLOADS


def test_slower_is_beyond_the_noise_and_three_per_cent() -> None:
    median, low, high = against.ratio_of([float(i) for i in range(1, 41)], [2.0] * 40)
    assert median == 10.25
    assert 5 < low < 8 < median < 13 < high < 16
    for found, is_kept in (
        ((0.97, 0.96, 0.98), True), ((0.96, 0.95, 0.97), False), ((0.9, 0.8, 1), True),
        ((0.9, 0.8, 0.99), False), ((1.2, 1.1, 1.3), True),
    ):  # fmt: skip
        assert against.is_as_fast(against.Ratio(*found)) == is_kept


def test_a_rate_is_of_all_work_of_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 11.0, 13.0, 14.0])
    monkeypatch.setattr(turns.time, "perf_counter", lambda: next(clock))
    assert turns.measure_rate(lambda: 6.0, 3.0) == 12.0 / 3.0


@pytest.mark.parametrize("name", WORKLOADS)
def test_each_workload_does_the_same_amount_each_time(name: str) -> None:
    work = WORKLOADS[name](SIZES["smoke"], "float32")
    assert work() == work() > 1


def test_only_selects_by_prefix() -> None:
    assert command.select_workloads(["beam", "sample-gpt-3"]) == [
        "beam-bahdanau", "beam-transformer", "sample-gpt-32",
    ]  # fmt: skip
    assert command.select_workloads([""]) == [*WORKLOADS]
    with pytest.raises(ValueError, match="--only am: choose from train-bahdanau"):
        command.select_workloads(["beam", "am"])


def test_a_figure_is_drawn_from_its_results_alone(tmp_path: Path) -> None:
    committed = Path(command.__file__).parent / "results" / "2026-11-21-cpu-2.json"
    copy = tmp_path / committed.name
    copy.write_bytes(committed.read_bytes())
    text = draw.draw(copy).read_text(encoding="utf-8")
    assert "AMD EPYC, threads: 2, 2026-11-21" in text
    assert "Bahdanau" in text
    assert "Linear attention" not in text  # not measured then
    other = committed.with_name("2026-11-26-cpu.json")
    with pytest.raises(ValueError, match="holds no growth with length"):
        draw.draw(other)


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


def test_growth_stops_at_the_first_length_that_lacks_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measure(name: str, n: int, width: int, seconds: float) -> growth.Point:
        if (name, n) == ("bahdanau", 16):
            torch.empty(2 * growth.LIMIT_BYTES, dtype=torch.uint8)
        return {"rows": 1, "step_s": float(n)}

    monkeypatch.setattr(growth, "MODELS", ["bahdanau", "gpt"])
    monkeypatch.setitem(growth.AXES, "length", measure)
    size = SIZES["smoke"]._replace(lengths=(8, 16, 32))
    points = growth.measure_growth("length", size)["points"]
    assert [p.get("step_s") for p in points] == [8.0, None, None, 8.0, 16.0, 32.0]
    assert {p.get("skipped") for p in points} == {None, "needs more than 4 GB"}
    monkeypatch.setitem(growth.AXES, "length", lambda *_: torch.zeros(2) @ torch.zeros(3))
    with pytest.raises(RuntimeError, match="size"):
        growth.measure_growth("length", size)
