"""Translate sentences: see how the score falls with length, and what attention gains.

Question
    How does the score fall with length in models that read the source into one vector, and in those
    that look back at it? Each is trained on sentences of 4 to 30 words, as many
    words of every length, and tested on up to 60.

    python -m tasks.translation                  English to German, from a built-in grammar
    python -m tasks.translation --size full      up to 40 words, 40 minutes a seed
    python -m tasks.translation --preset ladder  other models: presets.py says what each compares
    python -m tasks.translation --data …         your own parallel text, or a corpus by name

    7 minutes on two cores. README.md and docs/results.md have the scores to expect.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from seqmodels.data import corpora
from seqmodels.models import FIVE
from seqmodels.utils.terminal import positive

from ..flags import TOKENIZER_HELP, Preset, TaskParser, run, tokenizer
from ..synthetic.pairs import DEFAULT_SIZES as SIZES
from ..synthetic.pairs import DEFAULT_TOKENS as TOKENS
from ..synthetic.pairs import grammar_task
from . import presets

if TYPE_CHECKING:
    from seqmodels.data.tokenizers import Tokenizer
    from seqmodels.experiments.task import Task

    from ..synthetic.grammar import Splits


def check_flags(args: argparse.Namespace) -> Preset | None:
    """Return the preset; raise ValueError if one, or a budget, of the grammar has other data."""
    preset = getattr(args, "preset", None)
    if args.data and len(args.data) == 1:
        corpora.check_name(args.data[0], corpora.PARALLEL)
    if args.data and args.size == "full":
        raise ValueError(
            "--size full is for the built-in grammar; with --data, give a budget with --tokens"
        )
    if args.data and preset:
        raise ValueError("--preset is for the built-in grammar, without --data")
    return (f"translation-{preset}", presets.MODELS[preset]) if preset else None


def make_parser(module: str, doc: str | None, models: Sequence[str]) -> TaskParser:
    """Return a parser of this task's flags, for the task of a module that translates as well."""
    p = TaskParser(module, doc, models=models, check=check_flags)
    p.add_argument("--tokenizer", type=tokenizer, metavar="KIND[:N]", help=TOKENIZER_HELP)
    p.add_argument("--data", nargs="+", metavar="WHAT",
                   help=f"a corpus by name ({', '.join(corpora.PARALLEL)}); two text files, source "
                        "and target; a folder of train|valid|test.{xx,yy}; a .tsv, .csv, .jsonl or "
                        ".parquet file; OWNER/NAME or OWNER/NAME:CONFIG on the hub")  # fmt: skip
    add = p.add_argument_group("with --data").add_argument
    p.needs_data = [
        add("--source", metavar="LANG",
            help="language to translate from: the ending of a file, or a column of a table"),
        add("--target", metavar="LANG", help="language or column to translate to"),
        add("--limit", type=positive, metavar="N",
            help="draw N pairs of a dataset of the hub, instead of reading all"),
    ]  # fmt: skip
    return p


PARSER = make_parser("tasks.translation", __doc__, (*FIVE[:2], *FIVE[:1:-1]))  # GPT takes longest
PARSER.add_argument("--preset", choices=presets.MODELS,
                    help="compare the steps from one vector to attention (ladder), and from there "
                         "to the Transformer; the parts of the Transformer or of GPT; positions"
                    )  # fmt: skip

# ---------------------------------------------------------------------------------------- Data
#
#     Although the cat watched them, the hat had disappeared.
#     Obwohl die Katze sie beobachtete, war der Hut verschwunden.
#
# tasks/synthetic/grammar.py draws them; corpus.py reads those of --data.

# ------------------------------------------------------------------------------------- Recipes
#
# GRAMMAR_MUON of tasks/recipes.py; by default, SMALL: half the parameters, batches of half the
# size. presets.py and corpus.py have their own.

# ----------------------------------------------------------------------------------------- Run


def draw_corpus(args: argparse.Namespace) -> Splits:
    """Draw the sentences of a size."""
    from ..synthetic import grammar

    return grammar.draw_corpus(seed=1, **SIZES[args.size])


def builtin_task(args: argparse.Namespace, corpus: Splits) -> Task:
    """Return the task on sentences from the English–German grammar."""
    from seqmodels.data.tokenizers import Words, make, resolve_vocab_size

    train: Callable[[Iterable[str]], Tokenizer] = Words.train
    if args.tokenizer:
        kind, vocab = args.tokenizer
        train = partial(make, kind, vocab_size=resolve_vocab_size(kind, vocab, 4_000))
    return grammar_task(
        corpus,
        args.tokens or TOKENS[args.size],
        optimizer=dict(args.set).get("optimizer", "muon"),
        is_small=args.size == "laptop",
        train_tokenizer=train,
    )


def make_task(args: argparse.Namespace) -> Task:
    """Return the task on built-in data, that of a preset, or on the data that --data names."""
    if args.data:
        from . import corpus

        return corpus.make_task(args)
    return presets.make_task(args) if args.preset else builtin_task(args, draw_corpus(args))


if __name__ == "__main__":
    run(PARSER, make_task)
