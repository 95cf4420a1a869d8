"""Translate sentences of the English–German grammar: what several tasks share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from seqmodels.data.batches import Example
from seqmodels.data.scripts import count_words
from seqmodels.data.splits import Pair
from seqmodels.data.text import sha256
from seqmodels.data.tokenizers import Tokenizer, Words
from seqmodels.experiments.task import AlignmentExample, Task, TestSet
from seqmodels.interface import EOS
from seqmodels.training.config import Optimizer

from ..recipes import GRAMMAR, GRAMMAR_MUON, HISTORY, with_dropout, with_positions

if TYPE_CHECKING:
    from . import grammar

SIZES = {
    "smoke": {"n_train": 1_000, "n_valid": 50, "max_train": 20, "max_test": 40, "per_bucket": 5},
    "laptop": {"n_train": 120_000, "n_valid": 500},
    "full": {"n_train": 400_000, "n_valid": 1_000},
}  # fmt: skip
TOKENS = {"smoke": 15_000, "laptop": 1_600_000, "full": 5_000_000}
SHORT = TOKENS | {"laptop": 800_000}
"""Budgets of tasks that train many models on the corpus of tasks.translation."""
BUCKETS = [(low, low + 9) for low in range(1, 400, 10)]


def examples(
    pairs: Iterable[Pair], tokenizer: Tokenizer, has_source_eos: bool = True
) -> list[Example]:
    """Encode pairs; targets end with EOS, and so do sources by default."""
    end = [EOS] if has_source_eos else []
    return [
        Example([*tokenizer.encode(src), *end], [*tokenizer.encode(tgt), EOS], line=line)
        for src, tgt, line in pairs
    ]


def length_test(
    test: Sequence[Example],
    words: Sequence[int],
    max_train: int,
    texts: Sequence[tuple[str, str]] | None = None,
    unit: str = "words",
) -> TestSet:
    """Return a test set that plots the score against the number of source words or characters."""
    return TestSet(
        name="length",
        axis=f"source length ({unit})",
        unit=unit,
        primary_metric="bleu",
        examples=test,
        x=words,
        buckets=BUCKETS,
        max_train_length=max_train,
        noun="sentences",
        texts=texts,
    )


def n_crossings(links: Sequence[tuple[int, int]]) -> int:
    """Count the crossing pairs of links, a measure of reordering."""
    return sum(i < k and j > m for i, j in links for k, m in links)


def grammar_task(
    corpus: grammar.Splits, tokens: int, has_source_eos: bool = True, optimizer: Optimizer = "adamw"
) -> Task:
    """Return the task of translating a corpus that the grammar has drawn."""
    train, valid, test = (
        [Pair(s.en_text, s.de_text, line=i) for i, s in enumerate(split, 1)] for split in corpus
    )
    texts = [text for split in (train, valid, test) for pair in split for text in pair[:2]]
    tokenizer = Words.train(texts)  # all words of the grammar: none is unknown in test
    example = max(corpus.test, key=lambda s: (11 <= s.n_words <= 16, n_crossings(s.links)))
    pair = Pair(example.en_text, example.de_text)
    train_ids, valid_ids, test_ids, (shown,) = (
        examples(pairs, tokenizer, has_source_eos) for pairs in (train, valid, test, [pair])
    )
    words = [count_words(pair.src) for pair in test]
    recipes = {"adamw": GRAMMAR, "muon": GRAMMAR_MUON}[optimizer]
    return Task(
        name="translation",
        data={
            "name": "English–German grammar",
            "sha256": sha256(texts),
            "n_train": len(train),
            "n_valid": len(valid),
            "n_test": len(test),
            "source_end": "EOS" if has_source_eos else "none",
            "tokenizer": tokenizer.name,
        },
        tokenizer=tokenizer,
        train=train_ids,
        valid=valid_ids,
        tests=[length_test(test_ids, words, max(count_words(pair.src) for pair in train))],
        contrasts=HISTORY,
        recipes=with_positions(with_dropout(recipes, 0.0), max(len(e.src) for e in test_ids)),
        training={"tokens": tokens, "batch_tokens": 1_600, "optimizer": optimizer},
        n_parameters=1_000_000,
        alignment_example=AlignmentExample(shown, example.links),
    )
