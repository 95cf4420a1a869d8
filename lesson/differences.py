"""Align an output with its reference, as templates/differences.js does in the pages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

Step = tuple[str, int | None, int | None]
"""same, substitution, insertion or omission; the places in output and reference."""


def align_words(words: Sequence[str], reference: Sequence[str]) -> list[Step]:
    """Align words: those of the longest common subsequence are right.

    Between two right words, those of both sides are substitutions in order, and what is left is
    inserted or omitted.
    """
    n, m = len(words), len(reference)
    best = [[0] * (m + 1) for _ in range(n + 1)]
    for i in reversed(range(n)):
        for j in reversed(range(m)):
            is_same = words[i] == reference[j]
            best[i][j] = best[i + 1][j + 1] + 1 if is_same else max(best[i + 1][j], best[i][j + 1])
    steps, i, j = list[Step](), 0, 0
    own, theirs = list[int](), list[int]()
    while i < n or j < m:
        if i < n and j < m and words[i] == reference[j]:
            steps += [*close_gap(own, theirs), ("same", i, j)]
            own, theirs, i, j = [], [], i + 1, j + 1
        elif j == m or (i < n and best[i + 1][j] >= best[i][j + 1]):
            own, i = [*own, i], i + 1
        else:
            theirs, j = [*theirs, j], j + 1
    return [*steps, *close_gap(own, theirs)]


def close_gap(own: Sequence[int], theirs: Sequence[int]) -> list[Step]:
    """Return the steps between two right words."""
    kinds = {(True, True): "substitution", (True, False): "insertion", (False, True): "omission"}
    return [(kinds[i is not None, j is not None], i, j) for i, j in zip_longest(own, theirs)]
