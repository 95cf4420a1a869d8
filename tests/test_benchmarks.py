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
from benchmarks import against, contests, draw, growth, harness, measure
from seqmodels.data.batches import Example

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def _points_start_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process of a point import no pytest, which is the main module here."""
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    def call(*args: object) -> None:
        given = "--size", "smoke", "--rounds", 1, *args
        monkeypatch.setattr(sys, "argv", ["benchmarks", *map(str, given)])
        command.main()

    yield call
    logging.disable(logging.NOTSET)


def test_slower_is_beyond_the_noise_and_three_per_cent() -> None:
    """Keeps out old over new, an interval of 50 %, and noise that stops a change."""
    median, low, high = against.ratio_of([float(i) for i in range(1, 41)], [2.0] * 40)
    assert median == 10.25
    assert 5 < low < 8 < median < 13 < high < 16
    for found, is_kept in (
        ((0.97, 0.96, 0.98), True), ((0.96, 0.95, 0.97), False), ((0.9, 0.8, 1), True),
        ((0.9, 0.8, 0.99), False), ((1.2, 1.1, 1.3), True),
    ):  # fmt: skip
        assert against.is_as_fast(against.Ratio(*found)) == is_kept


def test_padding_is_of_both_sides() -> None:
    """Keeps out a share of the sources alone, of real tokens, or of the last batch."""
    examples = [Example([5] * n, [6] * m) for n, m in ((1, 2), (3, 2), (4, 6))]
    assert harness.padding(examples, 100) == pytest.approx(100 * (1 - 18 / 30))
    assert harness.padding(examples, 1) == 0
    names = ["aten::mm", "aten::addmv_", "aten::_foreach_add", "aten::matmul", "aten::TANH"]
    groups = ["matrix products", "matrix products", "optimiser", "Python and dispatch"]
    assert [*map(harness.group_of, names)] == [*groups, "elementwise"]


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


def test_autocast_stands_beside_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out float32 under the name of autocast, and a row of two precisions."""
    monkeypatch.setattr(contests, "precisions", lambda: ["float32", "bfloat16"])
    sides = contests.their_training({"peer": lambda precision: precision})
    assert {name: make() for name, make in sides.items()} == {
        "peer": "float32", "peer, autocast": "bfloat16",
    }  # fmt: skip
    rates = {"ours, float32": [1.0], "ours, bfloat16": [2.0]} | {side: [4.0] for side in sides}
    part = {"title": "", "unit": "", "rates": rates, "skipped": {}, "bars": {}}
    found = [(row[2], row[4], row[6][:4]) for row in draw.contest_rows([part])[1:]]
    assert found == [("float32", "peer", "0.25"), ("bfloat16", "peer", "0.50"),
                     ("bfloat16", "peer, autocast", "0.50")]  # fmt: skip


RESULTS = sorted((command.Path(command.__file__).parent / "results").glob("*.json"))


def test_the_committed_tables_are_those_of_the_results() -> None:
    """Keeps out a ratio turned round, another side's rate, and another unit or model."""
    for path in RESULTS:
        assert draw.tables(draw.load(path)) == path.with_suffix(".md").read_text(encoding="utf-8")


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
