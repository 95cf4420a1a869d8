"""Transformers with four kinds of positions."""

import argparse

import pytest

from seqmodels import build
from seqmodels.experiments.specs import count_parameters, make_spec, model_sizes
from tasks.positions import __main__ as positions

POSITIONS = ["sinusoids", "learned", "rotary", "none"]
BY_POSITION = [f"transformer_{kind}" for kind in POSITIONS]


@pytest.mark.parametrize("size", ["smoke", "laptop", "full"])
def test_models_differ_in_their_positions_alone(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    few = positions.SIZES[size] | {"n_train": 200, "n_valid": 10}
    monkeypatch.setitem(positions.SIZES, size, few)
    task = positions.make_task(argparse.Namespace(size=size, tokens=None))
    sizes = {name: model_sizes(make_spec(name), task) for name in BY_POSITION}
    counts = [count_parameters(build(name, **sizes[name])) for name in BY_POSITION]
    assert max(counts) / min(counts) < 1.1
    assert [own.pop("positions") for own in sizes.values()] == POSITIONS
    assert len({own.pop("d_model") for own in sizes.values()}) <= 2  # a table of positions is small
    assert len({str(own) for own in sizes.values()}) == 1
    assert len({task.recipe(name).lr for name in BY_POSITION}) == 1
    assert positions.PARSER.parse_args(["--size", size]).models == BY_POSITION
    (test,) = task.tests
    longest = max(max(2 * len(e.src) + 10, len(e.tgt)) for e in test.examples)
    n_positions = {task.recipe(name).sizes["n_positions"] for name in BY_POSITION}
    assert longest <= min(n_positions)
    if size != "smoke":
        assert min(n_positions) < 1.3 * longest
        assert test.max_train_length == 20
        assert sum(low > 20 for low, _ in test.buckets) == 8
        inside = [sum(low <= x <= high for x in test.x) for low, high in test.buckets]
        assert min(inside) >= 15
        assert sum(inside) == len(test.x) == 6 * positions.SIZES[size]["per_bucket"]
