"""Recall: random symbols are copied and reversed, in tests of exact lengths."""

import argparse
import random
from pathlib import Path

import pytest
from checks import check_folder
from conftest import ATTENDING, Run

from seqmodels import EOS, MODELS
from tasks.recall import __main__ as recall


@pytest.mark.slow
def test_recall_runs(run: Run, tmp_path: Path) -> None:
    """Keeps out a model that the harness cannot train, search, score or draw."""
    assert run(recall, "--out", tmp_path) == 0
    records = check_folder(tmp_path, list(MODELS))
    assert [test["name"] for test in records[0]["tests"]] == ["copy", "reverse"]
    assert {r["model"] for r in records if r["alignment"]} == set(ATTENDING)
    sizes = [r["n_parameters"] for r in records]
    assert max(sizes) / min(sizes) < 1.1


@pytest.mark.parametrize("kind", recall.KINDS)
def test_answers(kind: str) -> None:
    """Keeps out a target that the source does not fix."""
    rng = random.Random(2)
    for n in (4, 7, 128):
        pair = recall.draw_pair(rng, kind, n)
        first, *symbols = pair.src.split()
        assert (first, len(symbols), recall.n_symbols(pair)) == (kind, n, n)
        assert pair.tgt.split() == (symbols if kind == "copy" else symbols[::-1]) != symbols[::2]
        assert {*symbols} <= {*recall.SYMBOLS}


def test_tests_have_exact_lengths() -> None:
    """Keeps out bins that do not hold the lengths that they name, and links of another example."""
    task = recall.make_task(argparse.Namespace(size="smoke", tokens=None))
    size = recall.SIZES["smoke"]
    for kind, test in zip(recall.KINDS, task.tests, strict=True):
        assert test.name == kind
        assert sorted(test.x) == sorted([4, 8, 16, 32] * size["per_length"])
        assert [len(e.src) - 2 for e in test.examples] == test.x  # the kind and EOS
        assert [len(e.scored()) for e in test.examples] == [n + 1 for n in test.x]
        assert test.max_train_length == max(len(e.src) for e in task.train) - 2 == 16
        assert {task.tokenizer.decode(e.src).split()[0] for e in test.examples} == {kind}
    assert all(e.tgt[-1] == EOS for e in task.train)
    assert {len(e.tgt) - 1 for e in task.train} == {*range(4, 17, 2)}
    assert {task.tokenizer.decode(e.src).split()[0] for e in task.train} == {"copy", "reverse"}
    example, links = task.alignment_example
    assert len(links) == len(example.tgt) - 1
    assert all(example.src[s] == example.tgt[t] for s, t in links)
