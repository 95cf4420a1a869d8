"""The benchmark suite at toy size: every part runs, and its arithmetic and its files are right."""

from __future__ import annotations

import copy
import json
import logging
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks import __main__ as command
from benchmarks import contests, draw, growth, harness, measure, peers

Run = Callable[..., Any]
LIBRARIES = {
    "train-bahdanau": ["joeynmt"],
    "train-transformer": ["joeynmt", "x_transformers"],
    "train-gpt": ["transformers", "x_transformers"],
    "beam-bahdanau": ["joeynmt"],
    "beam-transformer": ["joeynmt", "transformers"],
    "sample-gpt-1": ["transformers"],
}


@pytest.fixture(autouse=True)
def _points_start_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process of a point import no pytest, which is the main module here."""
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Return the command, called with its arguments."""

    def call(*args: object) -> None:
        monkeypatch.setattr(sys, "argv", ["benchmarks", *map(str, args)])
        command.main()

    yield call
    logging.disable(logging.NOTSET)


def test_a_ratio_is_of_two_turns_of_the_same_round() -> None:
    """A median of one side over a median of the other would mix good and bad minutes."""
    assert measure.ratio([2.0, 30.0, 8.0], [1.0, 10.0, 2.0]) == (3.0, 2.0, 4.0)
    assert measure.spread([3.0, 1.0, 2.0, 10.0]) == (2.5, 1.0, 10.0)


def test_contestants_take_turns() -> None:
    """All turns of one side before the other's would measure the machine's mood."""
    turns = ""

    def turn(name: str) -> Callable[[], float]:
        def work() -> float:
            nonlocal turns
            turns += name
            return 1.0

        return work

    rates = measure.alternate({"a": turn("a"), "b": turn("b")}, measure.Effort(3, 0.0))
    assert turns == "ab" + 3 * "ab"  # a warm-up, then the rounds
    assert {name: len(found) for name, found in rates.items()} == {"a": 3, "b": 3}


def test_a_turn_is_at_least_as_long_as_asked() -> None:
    """A pace from one call alone would be a pace of the clock's own noise."""
    calls = []
    assert measure.pace(lambda: calls.append(1) or 1.0, 0.01) <= (len(calls) + 1) / 0.01
    assert len(calls) > 10


def test_a_missing_peer_is_a_skipped_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A contest without its peer's library must say how to install it, and go on."""
    for module in ("joeynmt", "joeynmt.vocabulary"):
        monkeypatch.setitem(sys.modules, module, None)
    part = contests.CONTESTS["train-bahdanau"](measure.SIZES["smoke"], measure.Effort(1, 0.0))
    assert list(part["rates"]) == [f"ours, {p}" for p in contests.precisions()]
    for row in draw.contest_rows([part])[1:]:
        assert "Joey NMT" in " ".join(row)
        assert "pip install joeynmt==2.3.0" in " ".join(row)


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.filterwarnings("ignore")  # those of other libraries
def test_peers_do_the_same_work(name: str, run: Run, tmp_path: Path) -> None:
    """Adapters assert that as many tokens were written; an interface of a peer may change."""
    for library in LIBRARIES[name]:
        if not find_spec(library):
            pytest.skip(f"{library} is not installed: {peers.INSTALL[library]}")
    run("--size", "smoke", "--rounds", 1, "--out", tmp_path, "--only", name)
    [path] = tmp_path.glob("*.json")
    part = draw.load(path)["parts"][name]
    assert not part["skipped"]
    assert min(min(rates) for rates in part["rates"].values()) > 0


@pytest.mark.slow
def test_all_parts_without_peers_run_and_are_drawn_again(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Figures and tables must come from the file alone, and be the same bytes."""
    for module in (growth, harness):
        monkeypatch.setattr(module, "MODELS", ["bahdanau", "gpt"])
    monkeypatch.setattr(growth, "LIMIT_S", 600)  # on a busy machine a start alone takes long
    names = ["train-lstm", "train-cho", "peak", "growth", "text", "memory", "profile"]
    run("--size", "smoke", "--rounds", 1, "--out", tmp_path, "--only", *names)
    [path] = tmp_path.glob("*.json")
    results = draw.load(path)
    assert set(results["parts"]) == {
        part for part in command.PARTS if part.startswith(tuple(names))
    }
    assert results["provenance"]["threads"] >= 1
    shown = capsys.readouterr().out
    assert shown.strip() == path.with_suffix(".md").read_text(encoding="utf-8").strip()
    drawn = {file.name: file.read_bytes() for file in tmp_path.iterdir() if file != path}
    assert sorted(drawn) == [f"{path.stem}{end}" for end in (
        "-batch.svg", "-length.svg", "-memory.svg", ".md")]  # fmt: skip
    for name in drawn:
        (tmp_path / name).unlink()
    run("--draw", path)
    assert {name: (tmp_path / name).read_bytes() for name in drawn} == drawn
    points = [p for axis in draw.GROWTH for p in results["parts"][f"growth-{axis}"]["points"]]
    assert not [p for p in points if "skipped" in p]
    for row in results["parts"]["profile"]["rows"]:
        assert sum(row["shares"].values()) == pytest.approx(100, abs=1)


@pytest.mark.slow
def test_a_point_that_needs_too_much_is_kept_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One point must not take the machine's memory, the suite's time, or the suite with it."""
    monkeypatch.setattr(growth, "LIMIT_S", 600)  # on a busy machine a start alone takes long
    found = growth.in_own_process(growth.train_point, "gpt", 8, 10**8, 8, 0.0)
    assert found == {"skipped": "needs more than 4 GB"}
    found = growth.in_own_process(growth.train_point, "no such model", 8, 1, 8, 0.0)
    assert "no such model" in found["skipped"]
    monkeypatch.setattr(growth, "LIMIT_S", 0)
    assert growth.in_own_process(growth.train_point, "gpt", 8, 1, 8, 0.0) == {
        "skipped": "takes more than 0 s"
    }


def test_results_of_two_states_never_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run with other settings or code on the same day must not change the first one's."""
    where = command.provenance("cpu") | {"commit": "c0ffee"}
    monkeypatch.setattr(command, "provenance", lambda device: copy.deepcopy(where))
    path, results = command.open_results("smoke", 1, tmp_path)
    results["parts"]["startup"] = {"kind": "rows", "title": "Start-up", "rows": []}
    path.write_text(json.dumps(results))
    assert command.open_results("smoke", 1, tmp_path) == (path, results)
    other, empty = command.open_results("smoke", 2, tmp_path)
    assert other.name == path.name.replace(".json", "-2.json")
    assert not empty["parts"]
    where["commit"] += "+"
    path, results = command.open_results("smoke", 1, tmp_path)
    path.write_text(json.dumps(results))
    assert command.open_results("smoke", 1, tmp_path)[0] not in (path, other)


def test_ctrl_c_keeps_what_is_measured(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Twenty minutes of measurements must not be lost with the last one."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(command.PARTS, "profile", stop)
    with pytest.raises(SystemExit) as ended:
        run("--size", "smoke", "--rounds", 1, "--out", tmp_path, "--only", "text", "profile")
    assert ended.value.code == 130
    assert capsys.readouterr().err.endswith(
        "python -m benchmarks: stopped; the results so far are kept\n"
    )
    [path] = tmp_path.glob("*.json")
    assert list(draw.load(path)["parts"]) == ["text"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--only", "fasttext"], "no such part"),
        (["--rounds", "0"], "'0' is not a whole number from 1"),
        (["--size", "huge"], "smoke"),
        (["--draw", "nowhere.json"], "nowhere.json"),
        (["--draw", __file__], "holds no results"),
        (["--quick"], "--quick"),
    ],
)
def test_what_a_person_can_mend_is_one_line(
    args: list[str], says: str, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """A traceback for a mistyped flag tells nobody what to type."""
    with pytest.raises(SystemExit) as ended:
        run(*args)
    assert ended.value.code == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert says in line


def test_missing_points_leave_a_gap_in_the_figures(run: Run, tmp_path: Path) -> None:
    """A model without any point along an axis must not stop the drawing."""
    points = [
        {"model": name, "n": n, "rows": 1, "width": 8, "step_s": 0.1, "peak_bytes": 1, "token_s": 1}
        for name in draw.LOOKS
        for n in (8, 16)
    ]
    points[1] = {"model": "rnn_encdec", "n": 16, "rows": 1, "width": 8, "skipped": "too much"}
    points = points[:2] + [p for p in points if p["model"] == "gpt"]
    _, results = command.open_results("smoke", 1, tmp_path)
    for axis in draw.GROWTH:
        part = {"kind": "growth", "axis": axis, "points": copy.deepcopy(points)}
        results["parts"][f"growth-{axis}"] = part
    path = tmp_path / "results.json"
    path.write_text(json.dumps(results))
    assert len(draw.draw(path)) == 4
    assert "too much" in path.with_suffix(".md").read_text(encoding="utf-8")
