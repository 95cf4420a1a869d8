"""Transformers with four kinds of positions."""

import pytest

from tasks.positions import __main__ as positions


@pytest.mark.parametrize("size", ["laptop", "full"])
def test_half_of_the_test_is_beyond_training_and_has_room(
    size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = positions.SIZES[size] | {"n_train": 200, "n_valid": 10}
    monkeypatch.setitem(positions.SIZES, size, few)
    task = positions.make_task(positions.PARSER.parse_args(["--size", size]))
    (test,) = task.tests
    longest = max(max(2 * len(e.src) + 10, len(e.tgt)) for e in test.examples)
    n_positions = [task.recipe(name).sizes["n_positions"] for name in positions.MODELS]
    assert longest <= min(n_positions) < 1.3 * longest
    assert test.max_train_length == 20
    assert sum(low > 20 for low, _ in test.buckets) == 8
    inside = [sum(low <= x <= high for x in test.x) for low, high in test.buckets]
    assert min(inside) >= 15
    assert sum(inside) == len(test.x) == 6 * positions.SIZES[size]["per_bucket"]
