"""Recall: it runs end to end, and asks what it says it asks."""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import pytest
from checks import check_folder
from conftest import ATTENDING, Run

from seqmodels import EOS, MODELS
from tasks.recall import __main__ as recall


def test_recall_runs(run: Run, tmp_path: Path) -> None:
    """Keeps out a model that the harness cannot train, search, score or draw."""
    assert run(recall, "--out", tmp_path) == 0
    records = check_folder(tmp_path, list(MODELS))
    assert [test["name"] for test in records[0]["tests"]] == ["copy", "reverse"]
    assert {r["model"] for r in records if r["alignment"]} == set(ATTENDING)
    sizes = [r["n_parameters"] for r in records]
    assert max(sizes) / min(sizes) < 1.1


def answer(source: str) -> str:
    """Answer as a person would."""
    kind, *symbols = source.split()
    return " ".join(symbols if kind == "copy" else reversed(symbols))


def test_answers_by_hand() -> None:
    """Keeps out a checker below that is as wrong as what it checks."""
    assert answer("copy ba du fe") == "ba du fe"
    assert answer("reverse ba du fe") == "fe du ba"


@pytest.mark.parametrize("kind", recall.KINDS)
def test_recall_is_answered(kind: str) -> None:
    """Keeps out a target that the source does not fix."""
    rng = random.Random(2)
    for n in (4, 6, 8, 32, 128) * 20:
        pair = recall.draw_pair(rng, kind, n)
        words = pair.src.split()
        assert words[0] == kind
        assert len(words) == n + 1
        assert pair.tgt == answer(pair.src)
        assert recall.n_symbols(pair) == n
        assert {*words[1:]} <= {*recall.SYMBOLS}


def test_recall_tests_exact_lengths() -> None:
    """Keeps out a test set whose bins do not hold the lengths that they name."""
    made = recall.make_task(argparse.Namespace(size="smoke", tokens=None))
    size = recall.SIZES["smoke"]
    assert len(set(recall.SYMBOLS)) == len(recall.SYMBOLS) >= max(recall.LENGTHS) // 2
    for kind, test in zip(recall.KINDS, made.tests, strict=True):
        assert test.name == kind
        lengths = [n for n in recall.LENGTHS if n <= size["max_test"]]
        assert sorted(test.x) == sorted(lengths * size["per_length"])
        assert [len(e.src) - 2 for e in test.examples] == test.x  # the kind and EOS
        assert [len(e.scored()) for e in test.examples] == [n + 1 for n in test.x]
        assert test.max_train_length == size["max_train"]
    assert max(len(e.src) for e in made.train) <= size["max_train"] + 2
    assert all(e.tgt[-1] == EOS for e in made.train)


def test_the_shown_example_is_linked() -> None:
    """Keeps out gold links of another example: word i of a reversal comes from the end."""
    made = recall.make_task(argparse.Namespace(size="smoke", tokens=None))
    example, links = made.alignment_example
    assert len(links) == len(example.tgt) - 1
    assert all(example.src[s] == example.tgt[t] for s, t in links)
