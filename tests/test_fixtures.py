"""Shared fixtures: quantities that a test must tell apart are not equal by chance."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from fake_records import fake_record, scored
from toys import toy


def list_quantities(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Yield the name and the number of each quantity in nested mappings and lists of them."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from list_quantities(part, f"{name}.{key}".lstrip("."))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for i, part in enumerate(value):
            if isinstance(part, Mapping):
                yield from list_quantities(part, f"{name}[{i}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value


def list_equal_quantities(value: Any, but: str) -> list[list[str]]:
    """Return the names that have the same number, in groups, but those that match an expression."""
    names = defaultdict(list)
    for name, number in list_quantities(value):
        if not re.search(but, name):
            names[number].append(name)
    return [group for group in names.values() if len(group) > 1]


AXES = r"\.low$|\.high$|\.n$|\.step$|\.tokens$|max_train_length$|tests\[\d\]\.beam$"
"""Bounds and counts of buckets and intervals, steps, and the search that a run's tests share."""
RECORDS = {task: fake_record("gpt", 1, task) for task in ("translation", "recall", "next_token")}
RECORDS["scored"] = scored({"gpt": [80, 40, 20]}, counts=[30, 20, 10])[0]


@pytest.mark.parametrize("task", RECORDS)
def test_quantities_of_made_up_records_differ(task: str) -> None:
    assert list_equal_quantities(RECORDS[task], but=AXES) == []


def test_splits_of_the_toy_task_differ() -> None:
    task, (test,) = toy(), toy().tests
    sizes = {"train": len(task.train), "valid": len(task.valid), "test": len(test.examples)}
    sizes |= {f"{low}": sum(low <= x <= high for x in test.x) for low, high in test.buckets}
    assert list_equal_quantities(sizes, but=" ") == []
