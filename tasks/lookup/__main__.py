"""Look up values by their keys: which models find one of many pairs, and at what width.

Question
    A source lists pairs of a key and a value, and the target asks for values by their keys
    (multi-query associative recall: Arora et al. 2023, Zoology, arXiv:2312.04927). Which model
    knows which value belongs to which key, of how many pairs, and at what width?

    python -m tasks.lookup                 equal parameters
    python -m tasks.lookup --width 64      equal widths: accuracy against bytes of memory
    python -m tasks.lookup --pairs 32      up to 32 pairs in training and 64 in test
    python -m tasks.lookup --again         keys are given again: their last values are asked for
    python -m tasks.lookup --two-hops      the value of a key is a key, whose value is asked for

    9 minutes on two cores. A model that knows the values of a source, but not which key each
    belongs to, is right once in n times with n pairs: so are Cho's model, linear attention and the
    Transformer with sinusoids. With 8 pairs, the most that are trained, expect 100 % from Bahdanau,
    GPT and the Transformer with rotary positions. docs/results.md has the scores.

    With --again, a memory that only adds up keeps all values of a key, and one that forgets or
    corrects can keep the last: python -m tasks.lookup.memory shows it without training. A minute or
    two of one core a model.
"""

from __future__ import annotations

import argparse

from seqmodels.models import PAPERS, Value
from seqmodels.utils.terminal import positive

from ..flags import Choice, TaskParser, run


def choose_folder(args: argparse.Namespace) -> Choice | None:
    """Return the beginning of the folder of keys given again, or of two hops."""
    if args.again and args.two_hops:
        raise ValueError("give --again or --two-hops, not both")
    kind = "again" if args.again else "hops"
    return (f"lookup-{kind}", None) if args.again or args.two_hops else None


PARSER = TaskParser(
    "tasks.lookup", __doc__, [*PAPERS, "transformer_rotary"], ["smoke", "laptop"],
    choose=choose_folder,
)  # fmt: skip
PARSER.add_argument(
    "--width", type=positive, metavar="D",
    help="d_model of all models (default: chosen for equal parameters)",
)  # fmt: skip
PARSER.add_argument(
    "--pairs", type=positive, default=8, metavar="N",
    help="most pairs in training, a multiple of 4; test has up to twice as many (default: 8)",
)  # fmt: skip
PARSER.add_argument(
    "--again", action="store_true",
    help="draw the keys of n pairs from n / 2, with replacement: the last value of a key counts; "
    "in runs/lookup-again-SIZE",
)  # fmt: skip
PARSER.add_argument(
    "--two-hops", action="store_true",
    help="make keys the values of half of the pairs, and ask for the values of those values: two "
    "look-ups, one after the other; in runs/lookup-hops-SIZE",
)  # fmt: skip

if __name__ == "__main__":
    PARSER.parse_args()  # answer --help and mistakes before the slow imports below

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from seqmodels.data.batches import Example
from seqmodels.data.splits import Pair
from seqmodels.data.tokenizers import Tokenizer, Words
from seqmodels.experiments.task import AlignmentExample, Recipe, Task, TestSet
from seqmodels.interface import EOS

from ..recipes import COPYING, HISTORY, MEMORIES, NARROW, with_positions
from ..synthetic.pairs import describe_data
from .figure import FIGURES

# ---------------------------------------------------------------------------------------- Data
#
#     c 7 a 12 f 3        ->  f f 3 c c 7     (key, key, value; the values alone are scored)
#     c 7 a 12 c 3 a 5    ->  c c 3 a a 5     (--again: the last value of each key)
#     f 12 c a a 7 b f    ->  c c 7 b b 12    (--two-hops: the value of the key's value)
#
# The target gives each key twice because Bahdanau et al. attend with the state before the latest
# token: a state that has read the key has to come before the one that writes the value. In the
# source, a key would be at an advantage: the first token that a reversed source begins with.

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SIZES = {
    "smoke": {"n_train": 500, "n_valid": 20, "per_number": 10},
    "laptop": {"n_train": 280_000, "n_valid": 300, "per_number": 500},
}
TOKENS = {"smoke": 2_000, "laptop": 650_000}
TOKENS_AGAIN = TOKENS | {"laptop": 100_000}
"""Budgets of --again: the steps of 160,000 without it, because fewer keys can be asked for."""


Source = Sequence[tuple[str, str]]
"""Pairs of a key and a value."""


class Symbols(NamedTuple):
    """The keys and the values that a source is drawn from."""

    keys: list[str]
    values: list[str]
    is_again: bool = False
    """Whether keys are drawn with replacement, from half as many as there are pairs."""
    has_two_hops: bool = False
    """Whether half of the keys have a key of the other half for their value."""


def make_symbols(n: int, is_again: bool = False, has_two_hops: bool = False) -> Symbols:
    """Return n keys, a b c … z aa bb …, and n values, 1 to n."""
    letters = [LETTERS[i % 26] * (1 + i // 26) for i in range(n)]
    return Symbols(letters, [str(i) for i in range(1, 1 + n)], is_again, has_two_hops)


def tested_pairs(most: int) -> list[int]:
    """Return the numbers of pairs in test, if training has at most a multiple of 4."""
    return [most * quarters // 4 for quarters in (1, 2, 3, 4, 6, 8)]


def draw_source(rng: random.Random, n: int, symbols: Symbols) -> Source:
    """Draw n pairs; no value occurs twice, so that counting values does not help."""
    keys = rng.sample(symbols.keys, n)
    if symbols.is_again:
        keys = rng.choices(keys[: n // 2], k=n)
    source = [*zip(keys, rng.sample(symbols.values, n), strict=True)]
    if symbols.has_two_hops:
        source[: n // 2] = zip(keys, keys[n // 2 :], strict=False)
        rng.shuffle(source)
    return source


def answers_of(source: Source) -> dict[str, str]:
    """Return the answer for each key that is not a value: its last value, or that value's value."""
    last = dict(source)
    return {key: last.get(v, v) for key, v in last.items() if key not in last.values()}


def make_pair(source: Source, asked: Iterable[str]) -> Pair:
    """Return the texts of a source and of the target that asks for the answers of keys."""
    src, answers = " ".join(symbol for pair in source for symbol in pair), answers_of(source)
    return Pair(src, " ".join(f"{key} {key} {answers[key]}" for key in asked))


def draw_pair(rng: random.Random, n: int, symbols: Symbols) -> Pair:
    """Draw an example that asks for all keys or for half of them, each once.

    A model that has seen all but one of the values can guess the last; one that is asked only a
    few times learns too slowly.
    """
    source = draw_source(rng, n, symbols)
    keys = [*answers_of(source)]
    n_asked = len(keys) if rng.random() < 0.5 else max(1, len(keys) // 2)
    return make_pair(source, rng.sample(keys, n_asked))


def draw_query(rng: random.Random, n: int, symbols: Symbols) -> Pair:
    """Draw an example that asks for one key."""
    source = draw_source(rng, n, symbols)
    return make_pair(source, rng.sample([*answers_of(source)], 1))


def draw_pairs(rng: random.Random, n: int, most: int, symbols: Symbols) -> list[Pair]:
    """Draw n examples of 2 to `most` pairs: a number of pairs is in 1 / number of the batches."""
    numbers = range(2, most + 1, 1 + symbols.has_two_hops)
    sizes = rng.choices(numbers, [k**-2 for k in numbers], k=n)
    return [draw_pair(rng, k, symbols) for k in sizes]


def encode_pair(pair: Pair, tokenizer: Tokenizer) -> Example:
    """Encode a pair; the keys in its target are not scored."""
    src, tgt = [*tokenizer.encode(pair.src), EOS], tokenizer.encode(pair.tgt)
    return Example(src, tgt, frozenset(i for i in range(len(tgt)) if i % 3 < 2))


def n_pairs(pair: Pair) -> int:
    """Return the number of pairs in the source."""
    return len(pair.src.split()) // 2


def guess_last(pair: Pair) -> float:
    """Return the chance of the last value to be the answer: no value is likelier without its key.

    It belongs to one of the keys, and each of them is as likely to be asked for.
    """
    symbols = pair.src.split()
    return 1 / len({*symbols[::2]} - {*symbols[1::2]})


def query_test(pairs: Sequence[Pair], tokenizer: Tokenizer, most: int) -> TestSet:
    """Return the test set: the share of values that are right against the number of pairs."""
    x = [n_pairs(pair) for pair in pairs]
    return TestSet(
        name="query",
        axis="key-value pairs in the source",
        unit="pairs",
        kind="count",
        primary_metric="exact_match",
        examples=[encode_pair(pair, tokenizer) for pair in pairs],
        x=x,
        buckets=[(n, n) for n in tested_pairs(most)],
        max_train_length=most,
        noun="queries",
        is_generated=False,
        baseline=[*map(guess_last, pairs)],
        baseline_name="the best guess from the values alone",
    )


# ------------------------------------------------------------------------------------- Recipes

# README.md lists the trials that decided a setting: Bahdanau did not learn from the published
# starting weights of the score, and of two bases of rotary positions the small one learned with
# every seed.

TWO_LAYERS = {"n_layers": 2, "n_heads": 2, "dropout": 0.0}
PRENORM = TWO_LAYERS | {"d_ff": 256, "is_prenorm": True}
RECIPES = {
    "rnn_encdec": COPYING["rnn_encdec"]._replace(lr=4e-3),
    "bahdanau": Recipe(NARROW | {"d_align": 64, "std_align": 0.3, "v_align": 0.125}, lr=4e-3),
    "lstm_seq2seq": COPYING["lstm_seq2seq"]._replace(lr=1.6e-2),
    "transformer": Recipe(PRENORM, lr=3e-3),
    "transformer_rotary": Recipe(PRENORM | {"rotary_base": 30.0}, lr=3e-3),
    "gpt": Recipe(TWO_LAYERS | {"init_std": 0.08}, lr=3e-3),
    "linear_attention": Recipe(TWO_LAYERS | {"init_std": 0.08}, lr=3e-3),
    "mamba2": Recipe({"n_layers": 4, "n_heads": 4, "d_state": 32, "init_std": 0.08}, lr=3e-3),
    "gated_deltanet": Recipe(TWO_LAYERS | {"init_std": 0.08}, lr=3e-3),
    "gated_deltanet_sum": Recipe(TWO_LAYERS | {"init_std": 0.08}, lr=8e-3),
}

CONVOLUTION = (
    ("transformer_conv", "transformer"), ("gpt_conv", "gpt"),
    ("linear_attention_conv", "linear_attention"), ("linear_attention_conv", "gpt_conv"),
)  # fmt: skip
"""The contrasts of what a short convolution gains."""
WIDEST = 128
"""Width up to which the recipes suit.

Beyond it, `init_std` falls in proportion, and so do all learning rates but the LSTM's.
"""


def recipes_for(width: int | None, most: int) -> dict[str, Recipe]:
    """Return the recipes with positions for sources of twice the most pairs in training.

    A width is that of all models; None: as they fit the number of parameters.
    """
    scale, changed = WIDEST / max(WIDEST, width or 0), {}
    for name, (sizes, lr, _) in RECIPES.items():
        new: dict[str, Value] = {} if width is None else {"d_model": width}
        if isinstance(std := sizes.get("init_std"), float):
            new |= {"init_std": scale * std}
        changed[name] = Recipe({**sizes, **new}, lr if name == "lstm_seq2seq" else scale * lr)
    return with_positions(changed, 12 * most)


# ----------------------------------------------------------------------------------------- Run


def make_task(args: argparse.Namespace) -> Task:
    """Return the task."""
    if args.pairs % 4:
        raise ValueError(f"--pairs {args.pairs}: give a multiple of 4")
    rng, size, most = random.Random(1), SIZES[args.size], args.pairs
    symbols = make_symbols(2 * most, args.again, args.two_hops)
    train = draw_pairs(rng, size["n_train"], most, symbols)
    valid = [draw_query(rng, most, symbols) for _ in range(size["n_valid"])]
    test = [
        draw_query(rng, n, symbols) for n in tested_pairs(most) for _ in range(size["per_number"])
    ]
    shown = draw_source(rng, 6, symbols)
    places = {value: 2 * i + 1 for i, (_, value) in enumerate(shown)}
    answers = dict(sorted(answers_of(shown).items()))
    links = [(places[answer], 3 * i + 2) for i, answer in enumerate(answers.values())]
    tokenizer = Words([*symbols.keys, *symbols.values])
    about = {"n_tokens_source": 2 * most + 1, "source_end": "EOS"}
    name, tokens = ("keys given again", TOKENS_AGAIN) if args.again else ("keys and values", TOKENS)
    name = "keys of keys" if args.two_hops else name
    return Task(
        name="lookup",
        data=describe_data(name, (train, valid, test), tokenizer, **about),
        tokenizer=tokenizer,
        train=[encode_pair(pair, tokenizer) for pair in train],
        valid=[encode_pair(pair, tokenizer) for pair in valid],
        tests=[query_test(test, tokenizer, most)],
        contrasts=[*HISTORY, *MEMORIES, ("transformer_rotary", "transformer"), *CONVOLUTION],
        recipes=recipes_for(args.width, most),
        training={
            "tokens": args.tokens or tokens[args.size], "batch_tokens": 400, "n_validations": 30,
        },
        n_parameters=240_000,
        alignment_example=AlignmentExample(
            encode_pair(make_pair(shown, answers), tokenizer), links
        ),
        figures=FIGURES,
    )  # fmt: skip


if __name__ == "__main__":
    run(PARSER, make_task)
