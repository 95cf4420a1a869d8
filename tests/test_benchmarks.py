"""The benchmark suite at toy size: every part runs, and its arithmetic and its files are right."""

import copy
import json
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
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


def grown(axis: str, **changes: Any) -> dict[str, Any]:
    """Make the points of an axis: two models, of which GPT has no result at the second place."""
    places = [(n, 5, 64) for n in (128, 8)] if axis in ("length", "writing") else []
    places = places or [(32, *place) for place in ((16, 128), (2, 64))]
    points = [
        {"model": model, "n": n, "rows": rows, "width": width, "step_s": k * n / 1e3,
         "token_s": k * n / 1e6, "peak_bytes": k * 1e6 * n}
        for k, model in ((2, "gpt"), (1, "bahdanau")) for n, rows, width in places
    ]  # fmt: skip
    points[1] = {**{key: points[1][key] for key in ("model", "n", "rows", "width")}, **changes}
    return {"kind": "growth", "axis": axis, "points": points}


def test_tables_and_figures_have_the_numbers_of_the_file() -> None:
    """Keeps out a ratio turned round, another round's or side's rate, and another unit or place."""
    contest = {
        "kind": "contest", "title": "Training", "unit": "tokens/s", "bars": {"theirs": 1.5},
        "rates": {"ours, float32": [300.0, 100.0, 260.0], "ours, bfloat16": [10.0, 40.0, 50.0],
                  "theirs": [200.0, 50.0, 130.0], "others": [4.0, 5.0, 6.25]},
        "skipped": {"missing": "pip | install"},
    }  # fmt: skip
    rows = draw.contest_rows([contest])[1:]
    assert [row[2:] for row in rows] == [
        ["float32", "260", "theirs", "130", "2.00 [1.50–2.00]", "1.5", "yes"],
        ["bfloat16", "40", "theirs", "130", "0.38 [0.05–0.80]", "1.5", "no"],
        ["float32", "260", "others", "5", "41.60 [20.00–75.00]", "–", "–"],
        ["bfloat16", "40", "others", "5", "8.00 [2.50–8.00]", "–", "–"],
        ["", "", "missing", "pip / install", "skipped", "–", "–"],
    ]
    profile = {"kind": "profile", "title": "Where the time goes", "rows": [
        {"model": "gpt", "step": "training", "step_s": 0.25, "shares": {"a": 60.4, "b": 39.6},
         "most": {"mm": 50.0, "add": 9.0, "mul": 8.0, "cat": 7.0, "sub": 1.0}},
    ]}  # fmt: skip
    assert draw.profile_rows(profile)[1] == [
        "GPT", "training", "250", "60", "40", "mm 50, add 9, mul 8, cat 7"
    ]  # fmt: skip
    parts = {axis: grown(axis, skipped="too long") for axis in draw.GROWTH}
    cells = {axis: draw.growth_rows(part["points"], axis) for axis, part in parts.items()}
    assert cells["length"] == [
        ["S", "8", "128"], ["Bahdanau", "1.6 ms, 8 MB", "25.6 ms, 128 MB"],
        ["GPT", "–", "51.2 ms, 256 MB"],
    ]  # fmt: skip
    assert cells["writing"][1:] == [["Bahdanau", "1.6 µs", "25.6 µs"], ["GPT", "–", "51.2 µs"]]
    assert cells["batch"] == [
        ["rows", "2", "16"], ["Bahdanau", "2,000", "16,000"], ["GPT", "–", "8,000"]
    ]  # fmt: skip
    assert cells["width"][0] == ["width", "64", "128"]
    assert draw.growth_text(parts["length"]).endswith("\n\nNo result: GPT at 8: too long.")
    values = [{"what": "start", "unit": "s", "values": x} for x in ([3.0, 1.0, 2.5], [4.0], [])]
    parts |= {"startup": {"kind": "rows", "title": "Start-up", "rows": values}, "profile": profile}
    where = {"device": "cpu", "threads": 2, "date": "today", "commit": None, "versions": {}}
    results = {"provenance": where, "rounds": 3, "parts": parts | {"contest": contest}}
    text = draw.tables(results)
    assert [line.split("|")[3].strip() for line in text.splitlines() if "| start" in line] == [
        "2.5 [1–3]", "4", "–"
    ]  # fmt: skip
    assert all(f"### {part['title']}\n" in text for part in (profile, parts["startup"]))
    figures = draw.figures(results)
    drawn = {
        (name, i): {line.get_label(): line for line in ax.lines if line.get_linestyle() != ":"}
        for name, figure in figures.items() for i, ax in enumerate(figure.axes)
    }  # fmt: skip
    for place, points in {
        ("length", 0): [(128, 25.6), (8, 1.6)], ("length", 1): [(128, 0.0256), (8, 0.0016)],
        ("memory", 0): [(128, 128e6), (8, 8e6)], ("batch", 0): [(16, 16_000), (2, 2_000)],
        ("batch", 1): [(128, 16_000), (64, 2_000)],
    }.items():  # fmt: skip
        lines = {line.get_color(): line.get_xydata() for line in drawn[place].values()}
        assert lines[draw.LOOKS["bahdanau"].colour] == pytest.approx(np.array(points))
        assert len(lines[draw.LOOKS["gpt"].colour]) == 1
    (guide,) = [line for line in figures["length"].axes[1].lines if line.get_linestyle() == ":"]
    (x, end), (y, top) = guide.get_data()
    assert top / y == pytest.approx(end / x)
    assert y < 0.0016


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
