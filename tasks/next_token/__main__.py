"""Continue a text: see how far back a model can look for what it needs.

Question
    The text so far is the source, its continuation the target. Does more context make the same
    continuation likelier, and can a model repeat a word that occurred once, much earlier?

    python -m tasks.next_token                        short stories generated for this question
    python -m tasks.next_token --data FILE            any UTF-8 text, with BPE
    python -m tasks.next_token --data war-and-peace   a novel, with contexts of 0 to 512 tokens
    python -m tasks.next_token --data shakespeare     plain language modelling by characters

    12 minutes on two cores for the stories. Expect Bahdanau's model to find a word from 64 words
    before in every story, the Transformer and GPT in most, and models with one vector, in this
    budget, in few. docs/results.md has the scores.

    With --context 0, the source is BOS alone and the target a block of text: plain language
    modelling. Every token of test is then scored once, in blocks of --block tokens that do not see
    those before them. With --stride S, less than the block, each block scores its last S tokens.

    `shakespeare` follows nanoGPT's protocol for CPUs: characters, the first nine tenths as train,
    the last as valid; four layers, four heads, width 128, blocks of 64 characters, batches of 12,
    2,000 steps, no dropout, AdamW. The other models get as many parameters, batches and steps. As
    there is no third part, test is valid, which also selects the weights. Unlike in nanoGPT, all of
    it is scored instead of 20 random batches, the learning rate decays linearly, not along a
    cosine, and blocks start without context. nanoGPT reports 1.88 nats per character.
"""

from __future__ import annotations

import argparse

from seqmodels.data import SPLITS, TOKENIZERS, corpora
from seqmodels.utils.terminal import non_negative, positive

from ..flags import TaskParser, run, tokenizer

DATA_HELP = (
    f"a text by name ({', '.join(corpora.TEXT)}); a text file; a .csv, .tsv, .jsonl or .parquet "
    "file of documents; a folder with train, valid and test of these; a dataset of the hub, "
    "OWNER/NAME or OWNER/NAME:CONFIG"
)


def make_parser() -> TaskParser:
    """Return the parser of the command line."""
    p = TaskParser("tasks.next_token", __doc__, sizes=["smoke", "laptop"])
    p.add_argument("--context", type=non_negative, metavar="N",
                   help="longest context in tokens; 0: none (default: 128, or "
                        "the text's own)")  # fmt: skip
    p.add_argument("--data", nargs="+", metavar="WHAT", help=DATA_HELP)
    add = p.add_data_group("the built-in stories have fixed settings", corpora.TEXT)
    add("--column", metavar="NAME",
        help="column with the texts (default: text or sentence)")  # fmt: skip
    add("--limit", type=positive, metavar="N",
        help="stream N rows of a dataset of the hub, instead of reading all")  # fmt: skip
    add("--block", type=positive, metavar="N",
        help="target tokens per example at --context 0 (default: 64)")  # fmt: skip
    add("--stride", type=positive, metavar="S",
        help="score the last S tokens of each block (default: all)")  # fmt: skip
    add("--tokenizer", type=tokenizer, metavar="KIND",
        help=f"{', '.join(TOKENIZERS)} (default: bpe, or the text's own), or a "
             "run's tokenizer.json")  # fmt: skip
    add("--vocab", type=positive, metavar="N", help="vocabulary size (default: 2,000)")
    add("--parameters", type=positive, metavar="N",
        help="parameters per model (default: 1.5 M, or the text's own)")  # fmt: skip
    return p


PARSER = make_parser()

if __name__ == "__main__":
    PARSER.parse_args()  # answer --help and mistakes before the slow imports below

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from seqmodels.data.batches import ContextWindows, Example, SlidingWindow, context_lengths
from seqmodels.data.batches import longest as longest_of
from seqmodels.data.prepare import PrepareConfig, Prepared, prepare, summarize
from seqmodels.data.text import open_text
from seqmodels.data.tokenizers import Words, resolve_vocab_size
from seqmodels.experiments.task import Recipe, Task, TestSet
from seqmodels.interface import BOS

from .. import recipes
from ..synthetic import stories
from ..synthetic.pairs import describe_data

# ---------------------------------------------------------------------------------------- Data
#
#     Ruth hid a golden violin in the cottage. Everyone remembered that one rainy afternoon Bruno
#     polished a tiny violin in the shed. Ida only laughed. The one who kept the violin was | Ruth.

CONTINUATION, BLOCK = 32, 64
"""Tokens in a target after a context, and without one."""
SIZES = {
    "smoke": {"n_train": 500, "n_valid": 20, "max_test": 128, "per_distance": 6},
    "laptop": {"n_train": 60_000, "n_valid": 300, "max_test": 256, "per_distance": 99},
}
TOKENS = {"smoke": 15_000, "laptop": 600_000}
DISTANCE = 64
"""Longest distance of a needed word in training, in words."""
CONTEXT = 128
"""Longest context by default."""
MAX_WINDOW = 2_048
"""Maximum tokens in a context or a block of the user's own text: attention is quadratic."""
MAX_EVAL = 300
"""Maximum windows of the user's own text in valid, and in test for every context."""
MAX_BLOCKS = 2**20
"""Training blocks start at every token, or up to a block apart if they would be more than this."""
PRIMARY_METRICS = {"characters": "nats", "words": "perplexity"}
"""Metric of a full text by its tokenizer; bits per byte for the others."""


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


def context_test(examples: Sequence[Example], longest: int, train: Sequence[Example]) -> TestSet:
    """Return a test set of the same continuations after growing contexts."""
    points = context_lengths(longest)
    return TestSet(
        name="context",
        axis="context (tokens)",
        unit="tokens",
        kind="context",
        primary_metric="bits_per_byte",
        examples=[Example(e.src[-k:] if k else [BOS], e.tgt) for k in points for e in examples],
        x=[k for k in points for _ in examples],
        buckets=[(k, k) for k in points],
        max_train_length=longest_of(train)[0],
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


def full_text_test(name: str, examples: SlidingWindow, primary: str) -> TestSet:
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


# ------------------------------------------------------------------------------------- Recipes


def fit_recipes(chosen: Mapping[str, Recipe], n_positions: int) -> dict[str, Recipe]:
    """Return recipes with enough positions, and no dropout in Transformers that do not set it."""
    attending = {name: chosen[name] for name in ("transformer", *recipes.POSITIONED)}
    return recipes.with_positions({**chosen, **recipes.with_dropout(attending, 0.0)}, n_positions)


PRENORM = {**recipes.RECIPES["transformer"].sizes, "is_prenorm": True}

PLAYS = {
    **{name: recipe._replace(lr=8e-3) for name, recipe in recipes.RECIPES.items()},
    "transformer": Recipe(PRENORM, lr=4e-3),
    "gpt": Recipe({"n_heads": 4, "n_layers": 4}, lr=8e-3),
    "linear_attention": Recipe({"n_heads": 4, "n_layers": 4}, lr=8e-3),
}

OWN_TEXT = {**recipes.RECIPES, "transformer": Recipe(PRENORM, lr=2e-3)}

DEFAULT = recipes.CorpusRecipe(OWN_TEXT, TOKENS, 3_000, 1_500_000, 2_000, context=CONTEXT)
CORPUS_RECIPES = {
    "shakespeare": recipes.CorpusRecipe(
        PLAYS, {"smoke": 15_000, "laptop": 2_000 * 12 * 64}, batch_tokens=12 * 64,
        n_parameters=810_000, vocab_size=2_000, tokenizer="characters",
    ),
    "war-and-peace": recipes.CorpusRecipe(
        recipes.PROSE, TOKENS | {"laptop": 3_000_000}, 1_000, 1_500_000, 2_000, context=512
    ),
}  # fmt: skip


# ----------------------------------------------------------------------------------------- Run


def builtin_task(args: argparse.Namespace) -> Task:
    """Return the task on generated stories."""
    corpus = stories.draw_corpus(seed=1, max_train=DISTANCE, **SIZES[args.size])
    texts = [story.text for split in corpus for story in split]
    tokenizer = Words.train(texts)  # all words of the generator: none is unknown in test
    encode = tokenizer.encode
    train, valid, test = ([encode(story.text) for story in split] for split in corpus)
    tested = corpus[-1]
    asked = [Example(encode(src), encode(tgt)) for src, tgt in (s.cut() for s in tested)]
    context = CONTEXT if args.context is None else args.context
    if context > (longest := max(len(example.src) for example in asked)):
        raise ValueError(f"--context {context}: the longest test story allows {longest}")
    train_windows = windows(train, context, seed=1)
    return Task(
        name="next_token",
        data=describe_data("stories", corpus, tokenizer, texts, context=context),
        tokenizer=tokenizer,
        train=train_windows,
        valid=windows(valid, context, seed=2),
        tests=[
            context_test(asked, context, train_windows),
            distance_test(asked, [story.distance for story in tested], DISTANCE),
        ],
        contrasts=recipes.HISTORY,
        recipes=fit_recipes(recipes.RECIPES, max(map(len, [*train, *test])) + CONTINUATION),
        training={"tokens": args.tokens or TOKENS[args.size], "batch_tokens": 1_000},
        n_parameters=1_000_000,
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


def blocks(ready: Prepared[Any], block: int, stride: int, n_valid: int, primary: str) -> Windowed:
    """Cut a text into blocks without a context; at the end, all of test and valid is scored.

    The curve uses the first `n_valid` tokens of valid: validation is not to outlast training.
    """
    check_size(ready, "train", block, "--block")
    every = min(block, -(-len(ready.train) // MAX_BLOCKS))
    train = ContextWindows(ready.train, range(0, len(ready.train) - block + 1, every), block)
    valid = SlidingWindow(ready.valid, block, block, max(block, n_valid))
    whole = SlidingWindow(ready.test, block, stride)
    tests = [full_text_test("whole", whole, primary)]
    if "tested" not in ready.data:
        tests.append(full_text_test("valid", SlidingWindow(ready.valid, block, stride), primary))
    data = {"block": block, "stride": stride, "n_train": len(train), "n_valid": len(valid)}
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


def window_sizes(args: argparse.Namespace, recipe: recipes.CorpusRecipe) -> tuple[int, int, int]:
    """Return context, block and stride in tokens; raise ValueError if they are inconsistent."""
    context = recipe.context if args.context is None else args.context
    block = args.block or (CONTINUATION if context else BLOCK)
    stride = args.stride or block
    if max(context, block) > MAX_WINDOW:
        flag = "--context" if context > MAX_WINDOW else "--block"
        raise ValueError(f"{flag} {max(context, block)}: at most {MAX_WINDOW:,} with --data")
    if context and (args.block or args.stride):
        raise ValueError(f"--block and --stride need --context 0; the context is {context}")
    if stride > block:
        raise ValueError(f"--stride {stride} exceeds the block of {block} and would skip text")
    return context, block, stride


def corpus_task(args: argparse.Namespace) -> Task:
    """Return the task on the user's own text, or on one known by name."""
    recipe = CORPUS_RECIPES.get(args.data[0], DEFAULT)
    context, block, stride = window_sizes(args, recipe)
    corpus = open_text(args.data, args.column, args.limit)
    print(corpora.describe(args.data[0]) + corpus.first_lines())
    kind = args.tokenizer or recipe.tokenizer
    size = resolve_vocab_size(kind, args.vocab, recipe.vocab_size)
    ready = prepare(corpus, PrepareConfig(tokenizer=kind, vocab_size=size))
    print(summarize(ready.data))
    if PRIMARY_METRICS.get(kind) == "perplexity" and not context:
        per_token = f"perplexity is per token of {ready.data['tokenizer']}: comparable only with"
        print(f"{per_token} the same tokens; bits per byte are always comparable")
    if note := corpora.checksum_warning(args.data[0], ready.data["sha256"]):
        print(note)
    tokens = args.tokens or recipe.tokens[args.size]
    if context:
        cut = continuations(ready, context)
    else:
        cut = blocks(ready, block, stride, tokens // 10, PRIMARY_METRICS.get(kind, "bits_per_byte"))
    return Task(
        name="next_token",
        data={**ready.data, "context": context, **cut.data},
        tokenizer=ready.tokenizer,
        train=cut.train,
        valid=cut.valid,
        tests=cut.tests,
        contrasts=recipes.HISTORY,
        recipes=fit_recipes(recipe.recipes, cut.n_positions),
        training={"tokens": tokens, "batch_tokens": recipe.batch_tokens},
        n_parameters=args.parameters or recipe.n_parameters,
    )


def make_task(args: argparse.Namespace) -> Task:
    """Return the task on the data that --data names, or on built-in data."""
    return corpus_task(args) if args.data else builtin_task(args)


if __name__ == "__main__":
    run(PARSER, make_task)
