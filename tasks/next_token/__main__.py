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

    With --context 0, the source is BOS alone and the target a block of --block tokens: plain
    language modelling. Every token of test is then scored once, in blocks that do not see those
    before them.

    `shakespeare` follows nanoGPT's protocol for CPUs: characters, the first nine tenths as train,
    the last as valid; four layers, four heads, width 128, blocks of 64 characters, batches of 12,
    2,000 steps, no dropout, AdamW. The other models get as many parameters, batches and steps. As
    there is no third part, test is valid, which also selects the weights. Unlike in nanoGPT, all of
    it is scored instead of 20 random batches, the learning rate decays linearly, not along a
    cosine, and blocks start without context. nanoGPT reports 1.88 nats per character.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from seqmodels.data import corpora
from seqmodels.experiments.task import Recipe, Task
from seqmodels.utils.terminal import non_negative, positive

from .. import recipes
from ..flags import TOKENIZER_HELP, TaskParser, run, tokenizer
from ..synthetic.pairs import describe_data

DATA_HELP = (
    f"a text by name ({', '.join(corpora.TEXT)}); a text file; a .csv, .tsv, .jsonl or .parquet "
    "file of documents; a folder with train, valid and test of these; a dataset of the hub, "
    "OWNER/NAME or OWNER/NAME:CONFIG"
)


def check_flags(args: argparse.Namespace) -> None:
    """Raise ValueError for a text that does not exist."""
    if args.data and len(args.data) == 1:
        corpora.check_name(args.data[0], corpora.TEXT)


PARSER = TaskParser("tasks.next_token", __doc__, sizes=["smoke", "laptop"], check=check_flags)
PARSER.add_argument("--context", type=non_negative, metavar="N",
                    help="longest context in tokens; 0: none (default: 128, or "
                         "the text's own)")  # fmt: skip
PARSER.add_argument("--data", nargs="+", metavar="WHAT", help=DATA_HELP)
add = PARSER.add_argument_group("with --data").add_argument
PARSER.needs_data = [
    add("--column", metavar="NAME", help="column with the texts (default: text or sentence)"),
    add("--limit", type=positive, metavar="N",
        help="draw N rows of a dataset of the hub, instead of reading all"),
    add("--block", type=positive, metavar="N",
        help="target tokens per example at --context 0 (default: 64)"),
    add("--tokenizer", type=tokenizer, metavar="KIND[:N]", help=TOKENIZER_HELP),
]  # fmt: skip

# ---------------------------------------------------------------------------------------- Data
#
#     Ruth hid a golden violin in the cottage. Everyone remembered that one rainy afternoon Bruno
#     polished a tiny violin in the shed. Ida only laughed. The one who kept the violin was | Ruth.

SIZES = {
    "smoke": {"n_train": 500, "n_valid": 20, "max_test": 128, "per_distance": 6},
    "laptop": {"n_train": 60_000, "n_valid": 300, "max_test": 256, "per_distance": 99},
}
TOKENS = {"smoke": 15_000, "laptop": 600_000}
DISTANCE = 64
"""Longest distance of a needed word in training, in words."""
CONTEXT, BLOCK = 128, 64
"""Longest context by default, and tokens in a target without one."""
MAX_WINDOW = 2_048
"""Maximum tokens in a context or a block of the user's own text: attention is quadratic."""
PRIMARY_METRICS = {"characters": "nats", "words": "perplexity"}
"""Metric of a full text by its tokenizer; bits per byte for the others."""


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
    from seqmodels.data.batches import Example
    from seqmodels.data.tokenizers import Words

    from ..synthetic import stories
    from . import windows

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
    train_windows = windows.windows(train, context, seed=1)
    n_positions = max(map(len, [*train, *test])) + windows.CONTINUATION
    return Task(
        name="next_token",
        data=describe_data("stories", corpus, tokenizer, texts, context=context),
        tokenizer=tokenizer,
        train=train_windows,
        valid=windows.windows(valid, context, seed=2),
        tests=[
            windows.context_test(asked, context, train_windows),
            windows.distance_test(asked, [story.distance for story in tested], DISTANCE),
        ],
        contrasts=recipes.HISTORY,
        recipes=fit_recipes(recipes.RECIPES, n_positions),
        training={"tokens": args.tokens or TOKENS[args.size], "batch_tokens": 1_000},
        n_parameters=1_000_000,
    )


def corpus_task(args: argparse.Namespace) -> Task:
    """Return the task on the user's own text, or on one known by name."""
    from seqmodels.data.prepare import PrepareConfig, prepare, summarize
    from seqmodels.data.text import open_text
    from seqmodels.data.tokenizers import resolve_vocab_size

    from . import windows

    recipe = CORPUS_RECIPES.get(args.data[0], DEFAULT)
    context = recipe.context if args.context is None else args.context
    block = args.block or BLOCK
    if context and args.block:
        raise ValueError(f"--block needs --context 0; the context is {context}")
    if max(context, block) > MAX_WINDOW:
        flag = "--context" if context > MAX_WINDOW else "--block"
        raise ValueError(f"{flag} {max(context, block)}: at most {MAX_WINDOW:,} with --data")
    corpus = open_text(args.data, args.column, args.limit)
    print(corpora.describe(args.data[0]) + corpus.first_lines())
    kind, vocab = args.tokenizer or (recipe.tokenizer, None)
    size = resolve_vocab_size(kind, vocab, recipe.vocab_size)
    ready = prepare(corpus, PrepareConfig(tokenizer=kind, vocab_size=size))
    print(summarize(ready.data))
    if note := corpora.checksum_warning(args.data[0], ready.data["sha256"]):
        print(note)
    tokens = args.tokens or recipe.tokens[args.size]
    metric = PRIMARY_METRICS.get(kind, "bits_per_byte")
    if metric == "perplexity" and not context:
        print("perplexity is comparable only with the same tokens, bits per byte always")
    if context:
        cut = windows.continuations(ready, context)
    else:
        cut = windows.blocks(ready, block, tokens // 10, metric)
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
        n_parameters=recipe.n_parameters,
    )


def make_task(args: argparse.Namespace) -> Task:
    """Return the task on the data that --data names, or on built-in data."""
    return corpus_task(args) if args.data else builtin_task(args)


if __name__ == "__main__":
    run(PARSER, make_task)
