"""Say what follows a text: see how far back a model can look for what it needs.

Question
    A text so far is the source, what follows is the target. Does more context make the same
    continuation likelier, and can a word that was said once be said again much later?

    python -m tasks.next_token                 short stories, made for this question
    python -m tasks.next_token --data FILE     any UTF-8 text, by BPE
    python -m tasks.next_token --context 0     plain language modelling: the source is BOS alone

    9 minutes on two cores. Expect that a word said 64 words before is found by Bahdanau's model
    always, by the Transformer and GPT four times in five, by models with one vector hardly ever.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from seqmodels.batches import Example
from seqmodels.command import guard, printable
from seqmodels.compare import compare, parser
from seqmodels.corpus import read_text, sha256
from seqmodels.interface import BOS
from seqmodels.runs import Recipe, Task, TestSet
from seqmodels.text import BPE, Tokenizer, Words
from tasks import stories
from tasks.translation import RECIPES

# ---------------------------------------------------------------------------------------- Data
#
#     Ruth hid a golden violin in the cottage. Everyone remembered that one rainy afternoon Bruno
#     polished a tiny violin in the shed. Ida only laughed. The one who kept the violin was | Ruth.

CONTINUATION = 32
"""Tokens of a target; what stands before them is its context."""
SIZES = {
    "smoke": {"n_train": 500, "n_valid": 20, "tested_to": 128, "per_distance": 6},
    "laptop": {"n_train": 60_000, "n_valid": 300, "tested_to": 256, "per_distance": 99},
}
TOKENS = {"smoke": 15_000, "laptop": 600_000}
DISTANCE = 64
"""Longest distance of a needed word in training, in words."""
LONGEST = 2_048
"""Tokens of context, at most, in a text of your own: attention takes the square of it."""
MOST = 300
"""Windows of a text of your own, at most, on which it is validated, and tested in every context."""
MOST_HELD = 500_000_000
"""Tokens in all windows of a text of your own, at most: eight bytes of memory for each."""


def window(tokens: Sequence[int], context: int, n_target: int = CONTINUATION) -> Example:
    """Cut the end of a text into context (its last `context` tokens; none: BOS) and target."""
    n = min(n_target, len(tokens) // 2)
    return Example(list(tokens[:-n][-context:] if context else []) or [BOS], list(tokens[-n:]))


def windows(
    texts: Iterable[Sequence[int]], context: int, seed: int, shortest: int = 1
) -> list[Example]:
    """Cut each text once, so that `shortest` to CONTINUATION tokens follow: any word may be first.

    Half of the texts keep all the context, the others less, at random.
    """
    rng = random.Random(seed)
    return [
        window(
            text,
            context if rng.random() < 0.5 else int((context + 1) * rng.random()),
            shortest + int((CONTINUATION + 1 - shortest) * rng.random()),
        )
        for text in texts
    ]


def at(lines: Iterable[int], examples: Iterable[Example]) -> list[Example]:
    """Name the line of each example."""
    return [e._replace(line=line) for e, line in zip(examples, lines, strict=False)]


def begins(tokens: Sequence[int], tokenizer: Tokenizer, line: int) -> Iterator[int]:
    """Yield the line of every CONTINUATIONth token; the first stands in `line`."""
    for start in range(0, len(tokens), CONTINUATION):
        yield line
        line += tokenizer.decode(tokens[start : start + CONTINUATION]).count("\n")


def contexts(longest: int) -> list[int]:
    """Return 0, 8, 16, 32, … and the longest context."""
    doubled = [8 * 2**i for i in range(20) if 8 * 2**i < longest]
    return [0, *doubled, longest] if longest else [0]


def asking(story: stories.Story, tokenizer: Tokenizer) -> Example:
    """Cut a story before its last sentence, the one that needs the word; the word ends it."""
    begins = story.text.rfind(". ", 0, story.start) + 2
    src, tgt = story.text[:begins], story.text[begins : story.start + len(story.needed)]
    return Example(tokenizer.encode(src), tokenizer.encode(tgt))


def context_test(examples: Sequence[Example], longest: int, train: Sequence[Example]) -> TestSet:
    """Return the same continuations after contexts of growing length."""
    points = contexts(longest)
    return TestSet(
        name="context",
        axis="context (tokens)",
        headline="bits_per_byte",
        examples=[Example(e.src[-k:] if k else [BOS], e.tgt) for k in points for e in examples],
        x=[k for k in points for _ in examples],
        bins=[(k, k) for k in points],
        trained_to=max(len(e.src) for e in train),
        is_generated=False,
    )


def distance_test(
    examples: Sequence[Example], distances: Sequence[int], trained_to: int
) -> TestSet:
    """Return the needed words, each after the whole story and its own sentence so far."""
    return TestSet(
        name="distance",
        axis="distance of the needed word (words)",
        headline="exact",
        examples=[e._replace(given=frozenset(range(len(e.tgt) - 1))) for e in examples],
        x=distances,
        bins=[(d, d) for d in sorted(set(distances))],
        trained_to=trained_to,
        is_generated=False,
    )


# ------------------------------------------------------------------------------------- Recipes


def recipes(n_positions: int) -> dict[str, Recipe]:
    """Return the recipes of translation, their rates too, with positions enough for GPT."""
    more: dict[str, dict[str, Any]] = {
        "transformer": {"dropout": 0.0}, "gpt": {"dropout": 0.0, "n_positions": n_positions},
    }  # fmt: skip
    return {
        name: Recipe({**recipe.sizes, **more.get(name, {})}, recipe.rate)
        for name, recipe in RECIPES.items()
    }


# ----------------------------------------------------------------------------------------- Run


def embedded(args: argparse.Namespace) -> Task:
    """Return the task on made stories."""
    corpus = stories.corpus(seed=1, trained_to=DISTANCE, **SIZES[args.size])
    texts = [story.text for split in corpus for story in split]
    tokenizer = Words.train(texts)  # the maker's own words: none is unknown in a test
    train, valid, test = ([tokenizer.encode(s.text) for s in split] for split in corpus)
    asked = [asking(story, tokenizer) for story in corpus.test]
    if args.context > (longest := max(len(example.src) for example in asked)):
        raise ValueError(f"--context {args.context}: the longest test story allows {longest}")
    train_windows = at(count(1), windows(train, args.context, seed=1))
    return Task(
        name="next_token",
        data={
            "name": "stories",
            "sha256": sha256(texts),
            "context": args.context,
            "n_train": len(train),
            "n_valid": len(valid),
            "n_test": len(test),
            "tokenizer": tokenizer.name,
        },
        tokenizer=tokenizer,
        train=train_windows,
        valid=at(count(1), windows(valid, args.context, seed=2)),
        tests=[
            context_test(asked, args.context, train_windows),
            distance_test(asked, [story.distance for story in corpus.test], DISTANCE),
        ],
        recipes=recipes(max(map(len, [*train, *test])) + CONTINUATION),
        training={"tokens": args.tokens or TOKENS[args.size], "batch_tokens": 1_000},
        n_parameters=1_000_000,
    )


def from_file(args: argparse.Namespace) -> Task:
    """Return the task on a text of your own: its last twentieth is the test."""
    if args.context > LONGEST:
        raise ValueError(f"--context {args.context}: at most {LONGEST:,} with a text of your own")
    (path,) = args.data
    text = read_text(path)
    ends = [int(0.9 * len(text)), int(0.95 * len(text)), len(text)]
    parts = [text[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    tokenizer = BPE.train([parts[0]], 2_000)
    n = max(args.context, CONTINUATION) + CONTINUATION  # half a window is no continuation
    train, valid, test = map(tokenizer.encode, parts)
    # where the windows begin
    in_train, in_valid, in_test = (
        range(0, len(part) - n + 1, CONTINUATION) for part in (train, valid, test)
    )
    if not (in_train and in_valid and in_test):
        raise ValueError(
            f"{path} is too short: a twentieth of it must hold {n} tokens; "
            "give more text or less --context"
        )
    if (n_held := n * len(in_train)) > MOST_HELD:
        raise ValueError(
            f"{path} makes windows of {n_held:,} tokens in all, more than the {MOST_HELD:,} "
            "that are held; give less text or less --context"
        )
    train_windows = at(
        begins(train, tokenizer, 1),
        windows((train[i : i + n] for i in in_train), args.context, 1, CONTINUATION),
    )
    valid_windows = at(
        begins(valid, tokenizer, 1 + parts[0].count("\n")),
        windows((valid[i : i + n] for i in in_valid[:MOST]), args.context, 2, CONTINUATION),
    )
    every = -(-len(in_test) // MOST)
    shown = [window(test[i : i + n], args.context) for i in in_test[::every]]
    left_out = {"valid": len(in_valid) - len(valid_windows), "test": len(in_test) - len(shown)}
    return Task(
        name="next_token",
        data={
            "name": printable(path.name)[:200],
            "sha256": sha256([text]),
            "context": args.context,
            "n_train": len(in_train),
            "n_valid": len(in_valid),
            "n_test": len(in_test),
            **{f"n_left_out_{split}": k for split, k in left_out.items() if k},
            "tokenizer": tokenizer.name,
        },
        tokenizer=tokenizer,
        train=train_windows,
        valid=valid_windows,
        tests=[context_test(shown, args.context, train_windows)],
        recipes=recipes(n + 1),
        training={"tokens": args.tokens or TOKENS[args.size], "batch_tokens": 3_000},
        n_parameters=1_500_000,
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Run the comparison."""
    p = parser("next_token", __doc__)
    p.add_argument("--data", type=Path, nargs=1, metavar="FILE", help="any UTF-8 text")
    p.add_argument("--context", type=int, default=128, metavar="N", help="tokens (default: 128)")
    args = p.parse_args(argv)
    if args.context < 0:
        p.error(f"--context {args.context} is below zero")
    guard("next_token", lambda: compare(from_file(args) if args.data else embedded(args), args))


if __name__ == "__main__":
    main()
