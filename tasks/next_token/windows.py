"""Cut texts into contexts and continuations, and the test sets that they make."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from seqmodels.data import SPLITS
from seqmodels.data.batches import Example, LazyExamples, TokenStream, longest
from seqmodels.data.prepare import Prepared
from seqmodels.experiments.task import TestSet
from seqmodels.interface import BOS

CONTINUATION = 32
"""Tokens in a target after a context."""
MAX_EVAL = 300
"""Maximum windows of the user's own text in valid, and in test for every context."""
MAX_BLOCKS = 2**20
"""Training blocks start at every token, or up to a block apart if they would be more than this."""


def context_lengths(longest: int) -> list[int]:
    """Return the context lengths 0, 8, 16, 32, … and the longest."""
    doubled = [8 * 2**i for i in range(20) if 8 * 2**i < longest]
    return [0, *doubled, longest] if longest else [0]


class ContextWindows(LazyExamples):
    """Targets of one length, each after a context of random length: its source, or only BOS.

    Short contexts are as frequent as long ones: as many windows have no context as have 1 to 8
    tokens, 9 to 16, 17 to 32 and so on (see `context_lengths`). Contexts depend on the seed.
    """

    def __init__(
        self, ids: TokenStream, starts: range, n_target: int, context: int = 0, seed: int = 0
    ):
        self.ids, self.starts, self.n_target = ids, starts, n_target
        most = np.array(context_lengths(context), np.int32)
        least = np.append(0, most[:-1] + 1)
        rng = np.random.default_rng(seed)
        kind = rng.integers(len(most), size=len(starts))
        self.contexts = rng.integers(least[kind], most[kind] + 1, dtype=np.int32)

    def lengths(self) -> np.ndarray:
        """Return the source and target lengths of all examples: (n, 2)."""
        n_source = np.maximum(self.contexts, 1)  # BOS is a token
        return np.stack([n_source, np.full_like(n_source, self.n_target)], 1)

    def __len__(self) -> int:
        return len(self.starts)

    def build(self, i: int) -> Example:
        """Return an example."""
        start = self.starts[i]
        src = self.ids.slice(start - int(self.contexts[i]), start) or [BOS]
        return Example(src, self.ids.slice(start, start + self.n_target))


class Blocks(LazyExamples):
    """Every token of a text, or of its first n, scored once, in blocks that begin after BOS.

    All are of one length: the last one repeats tokens of the block before it, unscored.
    """

    def __init__(self, ids: TokenStream, block: int, n: int | None = None):
        self.ids, self.block = ids, block
        self.n = len(ids) if n is None else min(n, len(ids))

    def lengths(self) -> np.ndarray:
        """Return the source and target lengths of all examples: (n, 2)."""
        return np.broadcast_to([1, min(self.block, self.n)], (len(self), 2))

    def __len__(self) -> int:
        return max(1, -(-self.n // self.block))

    def build(self, i: int) -> Example:
        """Return an example."""
        end = min(self.block * (i + 1), self.n)
        start = max(0, end - self.block)
        return Example([BOS], self.ids.slice(start, end), frozenset(range(self.block * i - start)))


def window(tokens: Sequence[int], context: int, n_target: int = CONTINUATION) -> Example:
    """Split the end of a text into its last `context` tokens (BOS if none) and a target."""
    n = min(n_target, len(tokens) // 2)
    return Example(list(tokens[:-n][-context:] if context else []) or [BOS], list(tokens[-n:]))


def windows(texts: Iterable[Sequence[int]], context: int, seed: int) -> list[Example]:
    """Split each text once, before its last 1 to CONTINUATION tokens: any word can be first.

    Half of the texts keep the full context, the others a random part of it.
    """
    rng = random.Random(seed)
    return [
        window(
            text,
            context if rng.random() < 0.5 else int((context + 1) * rng.random()),
            1 + int(CONTINUATION * rng.random()),
        )
        for text in texts
    ]


def context_test(examples: Sequence[Example], context: int, train: Sequence[Example]) -> TestSet:
    """Return a test set of the same continuations after growing contexts."""
    points = context_lengths(context)
    return TestSet(
        name="context",
        axis="context (tokens)",
        unit="tokens",
        kind="context",
        primary_metric="bits_per_byte",
        examples=[Example(e.src[-k:] if k else [BOS], e.tgt) for k in points for e in examples],
        x=[k for k in points for _ in examples],
        buckets=[(k, k) for k in points],
        max_train_length=longest(train)[0],
        is_generated=False,
        groups=[i for _ in points for i in range(len(examples))],
        grouped_by="continuations",
    )


def distance_test(examples: Sequence[Example], distances: Sequence[int], max_train: int) -> TestSet:
    """Return a test set of the needed words, each after the full story up to it."""
    return TestSet(
        name="distance",
        axis="distance of the needed word (words)",
        unit="words",
        kind="distance",
        primary_metric="exact_match",
        examples=[e._replace(unscored=frozenset(range(len(e.tgt) - 1))) for e in examples],
        x=distances,
        buckets=[(d, d) for d in sorted(set(distances))],
        max_train_length=max_train,
        is_generated=False,
    )


def full_text_test(name: str, examples: Blocks, primary: str) -> TestSet:
    """Return a test set of a full split, each token scored once, by position in the text.

    Neighbouring blocks are similar over whole scenes and plays, so runs of √n blocks form a group.
    With ∛n, which suits blocks that soon become independent, intervals are too narrow.
    """
    n = len(examples)
    together = round(n**0.5)
    return TestSet(
        name=name,
        axis="place in the text (tenths)",
        unit="tenths",
        kind="place",
        primary_metric=primary,
        examples=examples,
        x=[1 + 10 * i // n for i in range(n)],
        buckets=[(tenth, tenth) for tenth in range(1, 11)],
        is_generated=False,
        groups=[i // together for i in range(n)],
        grouped_by=f"runs of {together} neighbouring blocks",
    )


class Windowed(NamedTuple):
    """A text cut into windows."""

    train: ContextWindows
    valid: Sequence[Example]
    tests: list[TestSet]
    n_positions: int
    """Maximum length of source and target together, for GPT."""
    data: dict[str, int]
    """Their counts, for the record."""


def continuations(ready: Prepared[Any], context: int) -> Windowed:
    """Cut a text into targets of CONTINUATION tokens, each after a context."""
    before = max(context, CONTINUATION)  # never less than a full continuation
    starts = {}
    for split in SPLITS:
        check_size(ready, split, before + CONTINUATION, "--context")
        end = ready.data[f"n_tokens_{split}"] - CONTINUATION + 1
        starts[split] = range(before, end, CONTINUATION)
    train = ContextWindows(ready.train, starts["train"], CONTINUATION, context, seed=1)
    valid = ContextWindows(ready.valid, starts["valid"][:MAX_EVAL], CONTINUATION, context, seed=2)
    test_examples = [
        Example(ready.test.slice(i - context, i), ready.test.slice(i, i + CONTINUATION))
        for i in starts["test"][:: -(-len(starts["test"]) // MAX_EVAL)]
    ]
    left_out = {
        "valid": len(starts["valid"]) - len(valid),
        "test": len(starts["test"]) - len(test_examples),
    }
    data = {f"n_{split}": len(places) for split, places in starts.items()}
    data |= {f"n_left_out_{split}": k for split, k in left_out.items() if k}
    tests = [context_test(test_examples, context, train)]
    return Windowed(train, valid, tests, before + CONTINUATION + 1, data)


def blocks(ready: Prepared[Any], block: int, n_valid: int, primary: str) -> Windowed:
    """Cut a text into blocks without a context; at the end, all of test and valid is scored.

    The curve uses the first `n_valid` tokens of valid: validation is not to outlast training.
    """
    check_size(ready, "train", block, "--block")
    every = min(block, -(-len(ready.train) // MAX_BLOCKS))
    train = ContextWindows(ready.train, range(0, len(ready.train) - block + 1, every), block)
    valid = Blocks(ready.valid, block, max(block, n_valid))
    whole = Blocks(ready.test, block)
    tests = [full_text_test("whole", whole, primary)]
    if "tested" not in ready.data:
        tests.append(full_text_test("valid", Blocks(ready.valid, block), primary))
    data = {"block": block, "stride": block, "n_train": len(train), "n_valid": len(valid)}
    if left_out := len(ready.valid) - valid.n:
        data["n_left_out_tokens_valid"] = left_out
    return Windowed(train, valid, tests, block + 1, {**data, "n_test": len(whole)})


def check_size(ready: Prepared[Any], split: str, n: int, flag: str) -> None:
    """Raise ValueError if a split is shorter than one window of n tokens."""
    if (n_tokens := ready.data[f"n_tokens_{split}"]) < n:
        raise ValueError(
            f"{ready.data['name']} is too short: {split} has {n_tokens:,} tokens, a window needs "
            f"{n}; give more text or a smaller {flag}"
        )
