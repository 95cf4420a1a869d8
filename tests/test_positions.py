"""Positions beyond the trained lengths: it runs end to end, and compares positions alone."""

import argparse
from pathlib import Path

import pytest
from checks import check_folder
from conftest import Run

from seqmodels.comparison.arm import count_parameters, model_sizes
from seqmodels.models import build
from tasks.positions import __main__ as positions

KINDS = ["sinusoids", "learned", "rotary", "none"]
NAMES = [f"transformer_{kind}" for kind in KINDS]


@pytest.mark.slow
def test_positions_runs(run: Run, tmp_path: Path) -> None:
    """Keeps out variants that the harness cannot train, search, score or draw."""
    assert run(positions, "--out", tmp_path) == 0
    records = check_folder(tmp_path, NAMES)
    assert [r["model_config"]["positions"] for r in records] == KINDS
    (test,) = records[0]["tests"]
    assert [b["low"] for b in test["buckets"]] == [1, 6, 11, 16]
    assert test["max_train_length"] == 10
    drawn = (tmp_path / "score-length.svg").read_text(encoding="utf-8")
    assert all(f"Transformer, {kind}" in drawn for kind in ("sinusoids", "learned", "no pos"))


@pytest.mark.parametrize("size", ["smoke", "laptop", "full"])
def test_positions_alone_differ(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a difference in size, rate or layers, and a test of lengths trained on."""
    few = positions.SIZES[size] | {"n_train": 200, "n_valid": 10}
    monkeypatch.setitem(positions.SIZES, size, few)
    task = positions.make_task(argparse.Namespace(size=size, tokens=None))
    sizes = {name: model_sizes(name, task) for name in NAMES}
    counts = [count_parameters(build(name, **sizes[name])) for name in NAMES]
    assert max(counts) / min(counts) < 1.1
    assert [own.pop("positions") for own in sizes.values()] == KINDS
    assert len({own.pop("d_model") for own in sizes.values()}) <= 2  # a table of positions is small
    assert len({str(own) for own in sizes.values()}) == 1
    assert len({task.recipe(name).lr for name in NAMES}) == 1
    assert positions.PARSER.parse_args(["--size", size]).models == NAMES
    (test,) = task.tests
    longest = max(max(2 * len(e.src) + 10, len(e.tgt)) for e in test.examples)
    n_positions = {task.recipe(name).sizes["n_positions"] for name in NAMES}
    assert longest <= min(n_positions)
    if size != "smoke":
        assert min(n_positions) < 1.3 * longest
        assert test.max_train_length == 20
        assert sum(low > 20 for low, _ in test.buckets) == 8
        inside = [sum(low <= x <= high for x in test.x) for low, high in test.buckets]
        assert min(inside) >= 15
        assert sum(inside) == len(test.x) == 6 * positions.SIZES[size]["per_bucket"]
