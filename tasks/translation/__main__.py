"""Translate sentences: see how the score falls with length, and what attention gains.

Question
    How does the score fall with length in models that read the source into one vector, and in those
    that look back at it? Each is trained on sentences of 4 to 30 words, as many
    words of every length, and tested on up to 60.

    python -m tasks.translation                  English to German, from a built-in grammar
    python -m tasks.translation --size full      up to 40 words, 40 minutes a seed
    python -m tasks.translation --data …         your own parallel text, or a corpus by name

    7 minutes on two cores. README.md and docs/results.md have the scores to expect.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from seqmodels.data import TOKENIZERS, corpora
from seqmodels.models import FIVE
from seqmodels.utils.terminal import positive

from ..flags import TaskParser, run, tokenizer

DATA_HELP = (
    f"a corpus by name ({', '.join(corpora.PARALLEL)}); two text files, the first of which is the "
    "source unless --source or --target say otherwise; a folder of train|valid|test.{xx,yy}; a "
    ".tsv, .csv, .jsonl or .parquet file, or a folder of "
    "tables; OWNER/NAME or OWNER/NAME:CONFIG on the hub"
)


def check_flags(args: argparse.Namespace) -> None:
    """Raise ValueError if a budget of the built-in grammar is chosen for one's own data."""
    if args.data and args.size == "full":
        raise ValueError(
            "--size full is for the built-in grammar; with --data, give a budget with --tokens"
        )


def make_parser(module: str, doc: str | None, models: Sequence[str]) -> TaskParser:
    """Return a parser of this task's flags, for the task of a module that translates as well."""
    p = TaskParser(module, doc, models=models, check=check_flags)
    p.add_argument("--no-source-eos", action="store_true",
                   help="do not end each source with the end-of-sequence token")  # fmt: skip
    p.add_argument("--tokenizer", type=tokenizer, metavar="KIND",
                   help=f"{', '.join(TOKENIZERS)} (default: words; with --data, bpe), or a "
                        "run's tokenizer.json")  # fmt: skip
    p.add_argument("--vocab", type=positive, metavar="N", help="vocabulary size (default: 4,000)")
    p.add_argument("--data", nargs="+", metavar="WHAT", help=DATA_HELP)
    add = p.add_data_group("the built-in grammar is English to German", corpora.PARALLEL)
    add("--source", metavar="LANG",
        help="language to translate from: the ending of the source file; a label for the first "
             "file if the endings are not languages (a.txt b.txt); or a column, by name, or by "
             "number if the table has no header")  # fmt: skip
    add("--target", metavar="LANG", help="language or column to translate to, given like --source")
    add("--valid", nargs="+", metavar="FILE",
        help="validate on two text files, the source first unless their endings say otherwise, or "
             "one table with both sides; default: pairs drawn from train, if --data has no valid "
             "split")  # fmt: skip
    add("--test", nargs="+", metavar="SET",
        help="test on such files")  # fmt: skip
    add("--limit", type=positive, metavar="N",
        help="stream N pairs of a table or a hub dataset, instead of reading all")  # fmt: skip
    add("--lowercase", action="store_true", help="lower-case both sides")
    add("--max-tokens", type=positive, default=200, metavar="N",
        help="leave out pairs with more tokens on a side; in test, with more than twice as many "
             "(default: 200)")  # fmt: skip
    add("--parameters", type=positive, metavar="N", help="parameters per model (default: 2 M)")
    add("--optimizer", choices=["adamw", "muon"], default="adamw",
        help="of all models' hidden matrices (default: adamw)")  # fmt: skip
    add("--bleu-tokenize", metavar="NAME",
        help="sacreBLEU's tokenizer for BLEU (default: by the target language)")  # fmt: skip
    return p


PARSER = make_parser("tasks.translation", __doc__, FIVE)

if __name__ == "__main__":
    PARSER.parse_args()  # answer --help and mistakes before the slow imports below

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from seqmodels.data.batches import Example, TokenizedPairs, lengths
from seqmodels.data.batches import longest as longest_of
from seqmodels.data.prepare import PrepareConfig, Prepared, prepare, summarize
from seqmodels.data.scripts import count_words, unit_of
from seqmodels.data.splits import ParallelCorpus, add_split, open_parallel
from seqmodels.data.text import preview
from seqmodels.data.tokenizers import Tokenizer, Words, make, resolve_vocab_size
from seqmodels.evaluation.metrics import check_tokenizer, make_bleu, tokenizer_for
from seqmodels.experiments.task import AlignmentExample, Recipe, Task

from .. import recipes
from ..synthetic import grammar
from ..synthetic.pairs import DEFAULT_SIZES as SIZES
from ..synthetic.pairs import DEFAULT_TOKENS as TOKENS
from ..synthetic.pairs import grammar_task, length_test
from .bible import open_bible
from .figure import FIGURES

# ---------------------------------------------------------------------------------------- Data
#
#     Although the cat watched them, the hat had disappeared.
#     Obwohl die Katze sie beobachtete, war der Hut verschwunden.

# ------------------------------------------------------------------------------------- Recipes


DEFAULT = recipes.CorpusRecipe(
    recipes.with_dropout(recipes.RECIPES, 0.1), {"smoke": 45_000, "laptop": 4_800_000},
    batch_tokens=1_000, n_parameters=2_000_000, vocab_size=4_000,
)  # fmt: skip

# A small set: many epochs, more dropout, wider embeddings, pre-norm. README.md lists the trials.
WIDE = {"d_embed": 256, "d_maxout": 256}
MULTI30K = recipes.CorpusRecipe(
    recipes.with_dropout({
        "rnn_encdec": Recipe(WIDE, lr=8e-3),
        "bahdanau": Recipe(WIDE | {"d_align": 128, "dropout": 0.3}, lr=4e-3),
        "lstm_seq2seq": Recipe(
            {"d_embed": 256, "n_layers": 1, "init_range": 0.2, "forget_bias": 2.0}, lr=1e-2
        ),
        "transformer": Recipe(
            {"d_ff": 768, "n_heads": 4, "n_layers": 3, "is_prenorm": True}, lr=2.5e-3
        ),
        "gpt": Recipe({"n_heads": 4, "n_layers": 4, "init_std": 0.05, "dropout": 0.15}, lr=1.3e-3),
        "linear_attention": Recipe(
            {"n_heads": 4, "n_layers": 4, "init_std": 0.05, "dropout": 0.15}, lr=2e-3
        ),
    }, 0.2), {"smoke": 15_000, "laptop": 7_000_000}, 1_500, 4_000_000, 4_000, has_source_eos=False,
)  # fmt: skip

# From English to German, the Transformer has the sizes of "Transformer-Tiny" (Wu et al. 2021,
# arXiv:2105.14462): 4 layers, width 128, 2.6 M parameters.

TINY = {"d_ff": 256, "n_heads": 4, "n_layers": 4, "is_prenorm": True, "dropout": 0.15}
FROM_ENGLISH = MULTI30K._replace(
    recipes={**MULTI30K.recipes, "transformer": Recipe(TINY, lr=5e-3)},
    n_parameters=2_600_000, vocab_size=10_000, tokens={**MULTI30K.tokens, "laptop": 9_500_000},
)  # fmt: skip

BIBLE = DEFAULT._replace(
    recipes=recipes.PROSE, tokens={**DEFAULT.tokens, "laptop": 4_000_000}, batch_tokens=400
)

MAX_EPOCHS = 20
"""Most epochs of train in the default budget of a corpus without a recipe of its own."""

CORPUS_RECIPES = {
    ("multi30k", "de"): MULTI30K, ("multi30k", "en"): FROM_ENGLISH, ("bible", "de"): BIBLE,
}  # fmt: skip
"""By corpus and source language. The records of Multi30k were made without EOS after a source."""


# ----------------------------------------------------------------------------------------- Run

SEED = 1
"""The seed that draws the corpus from the grammar."""


def draw_corpus(args: argparse.Namespace) -> grammar.Splits:
    """Draw the sentences of the English–German grammar."""
    return grammar.draw_corpus(seed=SEED, **SIZES[args.size])


def builtin_task(args: argparse.Namespace, corpus: grammar.Splits) -> Task:
    """Return the task on sentences from the English–German grammar."""
    tokens, is_small = args.tokens or TOKENS[args.size], args.size == "laptop"
    train: Callable[[Iterable[str]], Tokenizer] = Words.train
    if args.tokenizer or args.vocab:
        kind = args.tokenizer or "words"
        n_ids = resolve_vocab_size(kind, args.vocab, DEFAULT.vocab_size)
        train = partial(make, kind, vocab_size=n_ids)
    task = grammar_task(corpus, tokens, not args.no_source_eos, "muon", is_small, train)
    return replace(task, figures=FIGURES)


def open_corpus(args: argparse.Namespace) -> ParallelCorpus:
    """Return the corpus that --data names, with the splits that --valid and --test name."""
    languages = args.source, args.target
    if args.data == ["bible"]:
        corpus = open_bible(languages, args.limit)
    else:
        corpus = open_parallel(args.data, languages, args.limit)
    for split in ("valid", "test"):
        if given := getattr(args, split):
            corpus = add_split(corpus, split, given)
    print(corpora.describe(args.data[0]) + corpus.first_lines())
    return corpus


def prepare_corpus(
    args: argparse.Namespace, corpus: ParallelCorpus, recipe: recipes.CorpusRecipe
) -> Prepared[TokenizedPairs]:
    """Tokenize the corpus, and print a summary of it."""
    kind = args.tokenizer or recipe.tokenizer
    config = PrepareConfig(
        tokenizer=kind,
        vocab_size=resolve_vocab_size(kind, args.vocab, recipe.vocab_size),
        is_lowercase=args.lowercase,
        max_tokens=args.max_tokens,
        has_source_eos=recipe.has_source_eos and not args.no_source_eos,
    )
    ready = prepare(corpus, config)
    print(summarize(ready.data))
    if note := corpora.checksum_warning(args.data[0], ready.data["sha256"]):
        print(note)
    return ready


def describe_round_trip(tokenizer: Tokenizer, targets: Sequence[str], tokenize: str) -> str:
    """Return a line with the BLEU of targets that are encoded and decoded, if it is not 100.

    It is the most that a model can reach: words lose their spaces, and rare ones become unknown.
    """
    decoded = [tokenizer.decode(tokenizer.encode(target)) for target in targets]
    bleu = make_bleu(tokenize).corpus_score(decoded, [targets]).score
    if bleu > 99.95:
        return ""
    changed = [both for both in zip(targets, decoded, strict=True) if both[0] != both[1]]
    shortest = min(changed, key=lambda both: len(both[0]))
    example = " → ".join(map(preview, shortest))
    return f"The tokenizer's round trip: no model can exceed BLEU {bleu:.1f}; {example}\n"


def choose_budget(tokens: int | None, recipe: recipes.CorpusRecipe, size: str, n_train: int) -> int:
    """Return the target tokens to train on, and print them; `n_train` of them are an epoch."""
    if tokens is None:
        tokens = recipe.tokens[size]
        tokens = min(tokens, MAX_EPOCHS * n_train) if recipe is DEFAULT else tokens
    print(f"Budget: {tokens:,} target tokens, {tokens / n_train:.1f} epochs of train (--tokens)")
    return tokens


def pick_example(test: Sequence[Example], words: Sequence[int]) -> Example:
    """Return the example whose alignment is drawn: of about 16 words, and at most 80 tokens."""
    n_tokens = lengths(test)
    i = min(range(len(words)), key=lambda i: (n_tokens[i].max() > 80, abs(words[i] - 16)))
    return test[i]


def corpus_task(args: argparse.Namespace) -> Task:
    """Return the task on the user's own corpus, or on one known by name."""
    if args.bleu_tokenize:
        check_tokenizer(args.bleu_tokenize)  # before training, not after it
    corpus = open_corpus(args)
    recipe = CORPUS_RECIPES.get((args.data[0], corpus.src_lang), DEFAULT)
    ready = prepare_corpus(args, corpus, recipe)
    sources, targets = zip(*ready.test_texts, strict=True)
    tokenize = args.bleu_tokenize or tokenizer_for(targets)
    print(f"BLEU uses sacreBLEU's tokenizer {tokenize} (--bleu-tokenize)")
    print(describe_round_trip(ready.tokenizer, targets, tokenize), end="")
    words, unit = [*map(count_words, sources)], unit_of(sources)
    by_length = length_test(ready.test, words, ready.most_words, ready.test_texts, unit)
    n_train = int(ready.train.ends[-1, 1])
    longest = [longest_of(split) for split in (ready.test, ready.train, ready.valid)]
    n_positions = recipes.positions_for(max(max(n_src, n_tgt // 2) for n_src, n_tgt in longest))
    return Task(
        name="translation",
        data={**ready.data, "bleu_tokenize": tokenize},
        tokenizer=ready.tokenizer,
        train=ready.train,
        valid=ready.valid,
        tests=[by_length, replace(by_length, name="greedy", beam=1)],
        contrasts=recipes.HISTORY,
        recipes=recipes.with_positions(recipe.recipes, n_positions),
        training={
            "tokens": choose_budget(args.tokens, recipe, args.size, n_train),
            "batch_tokens": recipe.batch_tokens,
            "label_smoothing": 0.1,
            "optimizer": args.optimizer,
        },
        n_parameters=args.parameters or recipe.n_parameters,
        beam=5,
        bleu_tokenize=tokenize,
        alignment_example=AlignmentExample(pick_example(ready.test, words), None),
        figures=FIGURES,
    )


def make_task(args: argparse.Namespace) -> Task:
    """Return the task on the data that --data names, or on built-in data."""
    return corpus_task(args) if args.data else builtin_task(args, draw_corpus(args))


if __name__ == "__main__":
    run(PARSER, make_task)
