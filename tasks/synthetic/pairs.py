"""Pairs of texts that a program draws: their encoding, and the task of translating the grammar."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from seqmodels.data.text import Pair, count_words
from seqmodels.data.tokenizers import Tokenizer, Words
from seqmodels.experiments.task import AlignmentExample, Task, TestSet
from seqmodels.models import model_of

from .. import recipes

if TYPE_CHECKING:
    from seqmodels.data.batches import Example
    from seqmodels.training.config import Optimizer

    from .grammar import Splits
    from .trees import Sentence

SIZES = {
    "smoke": {"n_train": 1_000, "n_valid": 50, "max_train": 20, "max_test": 40, "per_bucket": 5},
    "laptop": {"n_train": 120_000, "n_valid": 500},
    "full": {"n_train": 400_000, "n_valid": 1_000},
}  # fmt: skip
TOKENS = {"smoke": 15_000, "laptop": 1_600_000, "full": 5_000_000}
SHORT = TOKENS | {"laptop": 800_000}
"""Budgets of tasks that train many models on the corpus of tasks.translation."""
DEFAULT_SIZES = SIZES | {
    "laptop": {"n_train": 80_000, "n_valid": 500, "max_train": 30, "max_test": 60}
}
DEFAULT_TOKENS = TOKENS | {"laptop": 1_200_000}
"""Sizes and budgets of the default comparison."""
BUCKETS = [(low, low + 9) for low in range(1, 400, 10)]


def encode_pairs(
    pairs: Iterable[Pair], tokenizer: Tokenizer, has_target_eos: bool = True
) -> list[Example]:
    """Encode pairs; sources end with EOS, and by default targets."""
    from seqmodels.data.batches import Example  # imports torch
    from seqmodels.interface import EOS

    end = [EOS] * has_target_eos
    return [
        Example([*tokenizer.encode(pair.src), EOS], [*tokenizer.encode(pair.tgt), *end])
        for pair in pairs
    ]


def encode_sentences(sentences: Iterable[Sentence], tokenizer: Tokenizer) -> list[Example]:
    """Encode sentences with their translations."""
    return encode_pairs((Pair(s.en_text, s.de_text) for s in sentences), tokenizer)


def describe_data(
    name: str,
    splits: Sequence[Sequence[Any]],
    tokenizer: Tokenizer,
    texts: Iterable[str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return what a record says of the data: train, valid and test, and `more`.

    The checksum is that of the texts; by default, of both sides of all pairs.
    """
    train, valid, test = splits
    texts = texts or (text for split in splits for pair in split for text in pair[:2])
    return {
        "name": name,
        "sha256": hashlib.sha256("".join(f"{text}\n" for text in texts).encode()).hexdigest(),
        "n_train": len(train),
        "n_valid": len(valid),
        "n_test": len(test),
        **more,
        "tokenizer": tokenizer.name,
    }


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


def short_task(corpus: Splits, args: argparse.Namespace) -> Task:
    """Return the task of translating it with the budget of SHORT.

    Below size full, GPT and its variants alone have half the parameters, as in the default
    comparison, and less of its budget.
    """
    is_small = args.size != "full" and {model_of(name) for name in args.models} == {"gpt"}
    tokens = args.tokens or (450_000 if is_small and args.size == "laptop" else SHORT[args.size])
    return grammar_task(corpus, tokens, optimizer="muon", is_small=is_small)


def grammar_task(
    corpus: Splits,
    tokens: int,
    optimizer: Optimizer = "adamw",
    is_small: bool = False,
    train_tokenizer: Callable[[Iterable[str]], Tokenizer] = Words.train,
) -> Task:
    """Return the task of translating a corpus that the grammar has drawn.

    Small models have half the parameters, and are trained with Muon in batches of half the size.
    """
    splits = [[Pair(s.en_text, s.de_text) for s in split] for split in corpus]
    # All words of the grammar: none is unknown in test.
    tokenizer = train_tokenizer([text for split in splits for pair in split for text in pair[:2]])
    train, valid, test = (encode_pairs(split, tokenizer) for split in splits)
    n_words = [[count_words(pair.src) for pair in split] for split in splits]
    shown = max(corpus.test, key=lambda s: (11 <= s.n_words <= 16, n_crossings(s.links)))
    (example,) = encode_pairs([Pair(shown.en_text, shown.de_text)], tokenizer)
    by_optimizer = {"adamw": recipes.GRAMMAR, "muon": recipes.GRAMMAR_MUON}
    chosen = recipes.with_dropout(recipes.SMALL if is_small else by_optimizer[optimizer], 0.0)
    longest = max(len(e.src) for split in (train, valid, test) for e in split)
    return Task(
        name="translation",
        data=describe_data("English–German grammar", splits, tokenizer, source_end="EOS"),
        tokenizer=tokenizer,
        train=train,
        valid=valid,
        tests=[length_test(test, n_words[2], max(n_words[0]))],
        contrasts=recipes.HISTORY,
        recipes=recipes.with_positions(chosen, recipes.positions_for(longest)),
        training={
            "tokens": tokens,
            "batch_tokens": 800 if is_small else 1_600,
            "optimizer": "muon" if is_small else optimizer,
        },
        n_parameters=500_000 if is_small else 1_000_000,
        alignment_example=AlignmentExample(
            example, shown.links if type(tokenizer) is Words else None
        ),
    )
