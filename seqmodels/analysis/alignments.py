"""Word alignments: files of links, and how far a system's are from gold ones.

A line has the links of one sentence pair, `i-j` for source word i and target word j; annotators
mark those of which they were not sure `ipj`. Some files count words from 0, others from 1, and no
line says so: the wrong base makes an alignment error rate of 0.04 look like 0.44.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from seqmodels.data.readers import lines

Link = tuple[int, int]
LINK = re.compile(r"(\d{1,6})([-p])(\d{1,6})")


class Links(NamedTuple):
    """The links of one sentence pair, words counted from 0."""

    sure: frozenset[Link]
    possible: frozenset[Link]
    """All links, the sure ones among them."""


def read_alignments(path: str | Path, first: int = 0) -> list[Links]:
    """Read a file of links in which words are counted from `first`: 0 or 1.

    A line may begin with its number and a tab. Raises ValueError that names file and line.
    """
    return [_links(path, n, line, first) for n, line in enumerate(lines(path), start=1)]


def _links(path: str | Path, n: int, line: str, first: int) -> Links:
    sure, possible = set(), set()
    for text in line.rpartition("\t")[2].split():
        if (found := LINK.fullmatch(text)) is None:
            raise ValueError(f"{path}, line {n}: {text!r} is no link such as 3-4 or 3p4")
        link = int(found[1]) - first, int(found[3]) - first
        if min(link) < 0:
            raise ValueError(f"{path}, line {n}: {text!r}, where words are counted from {first}")
        possible.add(link)
        if found[2] == "-":
            sure.add(link)
    return Links(frozenset(sure), frozenset(possible))


def alignment_error_rate(found: Sequence[Links], gold: Sequence[Links]) -> float:
    """Return 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|) (Och and Ney 2003): 0 is best, 1 worst.

    A are all links that were found, S the sure gold ones, P all gold ones. Raises ValueError for
    unequal lengths, and where there is no link at all.
    """
    if len(found) != len(gold):
        raise ValueError(f"{len(found):,} and {len(gold):,} alignments cannot be compared")
    n_right = n = 0
    for ours, true in zip(found, gold, strict=True):
        n_right += len(ours.possible & true.sure) + len(ours.possible & true.possible)
        n += len(ours.possible) + len(true.sure)
    if not n:
        raise ValueError("no link was found, and none is sure; there is nothing to compare")
    return 1 - n_right / n
