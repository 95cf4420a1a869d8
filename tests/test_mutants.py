"""Mutants: the list of bugs to plant still fits the code."""

from __future__ import annotations

import pytest

from tools.mutants import Mutant, faults, read

SOURCE = """
def f(x):
    return x + x

class C:
    y: int = 1

    def f(self):
        return 2
"""


def test_every_listed_mutant_still_applies() -> None:
    """Keeps out a list that rots: a bug that cannot be planted any more counts for nothing."""
    listed = read()
    assert len([m for m in listed if m.origin == "hand" and not m.equivalent]) >= 150
    assert len([m for m in listed if m.origin == "cosmic-ray"]) >= 100
    assert faults(listed) == []


def test_a_mutant_names_its_text_once() -> None:
    """Keeps out a bug planted in the wrong place, in none, or that is not valid Python."""
    assert Mutant("", "C.f", "2", "3", "").applied(SOURCE) == SOURCE.replace("2", "3")
    assert Mutant("", "C.y", "1", "3", "").applied(SOURCE) == SOURCE.replace("1", "3")
    for function, old, new in (("f", "x", "y"), ("f", "2", "3"), ("g", "x", "y"), ("f", "+", ")")):
        with pytest.raises(ValueError, match=r"times|not valid Python"):
            Mutant("", function, old, new, "").applied(SOURCE)
