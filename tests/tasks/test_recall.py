"""Copying and reversing random symbols."""

import argparse
import random

import pytest

from seqmodels import EOS
from tasks.recall import __main__ as recall


@pytest.mark.parametrize("kind", recall.KINDS)
def test_the_target_repeats_or_reverses_the_source(kind: str) -> None:
    rng = random.Random(2)
    for n in (4, 7, 128):
        pair = recall.draw_pair(rng, kind, n)
        first, *symbols = pair.src.split()
        assert (first, len(symbols)) == (kind, n)
        assert pair.tgt.split() == (symbols if kind == "copy" else symbols[::-1]) != symbols[::2]
        assert {*symbols} <= {*recall.SYMBOLS}


def test_each_kind_has_its_test_set() -> None:
    task = recall.make_task(argparse.Namespace(size="smoke", tokens=None))
    for kind, test in zip(recall.KINDS, task.tests, strict=True):
        assert {task.tokenizer.decode(e.src).split()[0] for e in test.examples} == {kind}
    assert all(e.tgt[-1] == EOS for e in task.train)
    assert {len(e.tgt) - 1 for e in task.train} == {*range(4, 17, 2)}
    assert {task.tokenizer.decode(e.src).split()[0] for e in task.train} == {"copy", "reverse"}
    example, links = task.alignment_example
    assert len(links) == len(example.tgt) - 1
    assert all(example.src[s] == example.tgt[t] for s, t in links)
