"""The benchmark suite at toy size: every part runs, and its arithmetic and its files are right."""

import copy
import json
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks import __main__ as command
from benchmarks import contests, draw, growth, harness, measure

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def _points_start_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process of a point import no pytest, which is the main module here."""
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Return the command at toy size, called with its arguments."""

    def call(*args: object) -> None:
        given = "--size", "smoke", "--rounds", 1, *args
        monkeypatch.setattr(sys, "argv", ["benchmarks", *map(str, given)])
        command.main()

    yield call
    logging.disable(logging.NOTSET)


def test_ratios_are_within_rounds() -> None:
    """Keeps out a median of one side over a median of the other, which mixes rounds."""
    assert measure.ratio([2.0, 30.0, 8.0], [1.0, 10.0, 2.0]) == (3.0, 2.0, 4.0)
    assert measure.spread([3.0, 1.0, 2.0, 10.0]) == (2.5, 1.0, 10.0)


def test_sides_take_turns() -> None:
    """Keeps out all turns of one side before the other's."""
    turns: list[str] = []

    def work(name: str) -> Callable[[], float]:
        return lambda: turns.append(name) or 1.0

    rates = measure.alternate({"a": work("a"), "b": work("b")}, measure.Effort(3, 0.0))
    assert "".join(turns) == "ab" + 3 * "ab"  # a warm-up, then the rounds
    assert {name: len(values) for name, values in rates.items()} == {"a": 3, "b": 3}


def test_a_missing_peer_is_a_skipped_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a contest that stops without its peer's library."""
    for module in ("joeynmt", "joeynmt.vocabulary"):
        monkeypatch.setitem(sys.modules, module, None)
    part = contests.CONTESTS["train-bahdanau"](measure.SIZES["smoke"], measure.Effort(1, 0.0))
    assert list(part["rates"]) == [f"ours, {p}" for p in contests.precisions()]
    assert all("pip install joeynmt" in " ".join(row) for row in draw.contest_rows([part])[1:])


@pytest.mark.slow
def test_all_parts_without_peers(run: Run, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    """Keeps out a part that fails, and figures that the file alone does not give to the byte."""
    for module in (growth, harness):
        monkeypatch.setattr(module, "MODELS", ["bahdanau", "gpt"])
    monkeypatch.setattr(growth, "LIMIT_S", 600)  # on a busy machine a start alone takes long
    names = ["train-lstm", "train-cho", "peak", "growth", "text", "memory", "profile"]
    run("--out", tmp_path, "--only", *names)
    [path] = tmp_path.glob("*.json")
    parts = draw.load(path)["parts"]
    assert set(parts) == {part for part in command.PARTS if part.startswith(tuple(names))}
    table = path.with_suffix(".md").read_text(encoding="utf-8")
    assert capsys.readouterr().out.strip() == table.strip()
    files = {file.name: file.read_bytes() for file in tmp_path.iterdir() if file != path}
    endings = ("-batch.svg", "-length.svg", "-memory.svg", ".md")
    assert sorted(files) == [f"{path.stem}{ending}" for ending in endings]
    for name in files:
        (tmp_path / name).unlink()
    run("--draw", path)
    assert {name: (tmp_path / name).read_bytes() for name in files} == files
    points = [point for axis in draw.GROWTH for point in parts[f"growth-{axis}"]["points"]]
    assert not [point for point in points if "skipped" in point]
    for row in parts["profile"]["rows"]:
        assert sum(row["shares"].values()) == pytest.approx(100, abs=1)


def test_results_of_two_states_never_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a run with other settings or code that changes the results of the same day."""
    provenance = command.provenance("cpu") | {"commit": "c0ffee"}
    monkeypatch.setattr(command, "provenance", lambda device: copy.deepcopy(provenance))
    path, results = command.open_results("smoke", 1, tmp_path)
    results["parts"]["startup"] = {"kind": "rows", "title": "Start-up", "rows": []}
    path.write_text(json.dumps(results))
    assert command.open_results("smoke", 1, tmp_path) == (path, results)
    other, empty = command.open_results("smoke", 2, tmp_path)
    assert (other.name, empty["parts"]) == (path.name.replace(".json", "-2.json"), {})
    provenance["commit"] += "+"  # a changed working tree differs from itself
    path, results = command.open_results("smoke", 1, tmp_path)
    path.write_text(json.dumps(results))
    assert command.open_results("smoke", 1, tmp_path)[0] not in (path, other)
