"""Translate one's own parallel text, or a corpus that is known by name."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from seqmodels.data import corpora
from seqmodels.data.batches import lengths, longest
from seqmodels.data.prepare import PrepareConfig, prepare, summarize
from seqmodels.data.text import count_words, open_pairs, preview, unspaced_script
from seqmodels.data.tokenizers import Tokenizer, resolve_vocab_size
from seqmodels.evaluation.metrics import count_bleu, make_bleu, tokenizer_for
from seqmodels.experiments.task import AlignmentExample, Recipe, Task

from .. import recipes
from ..synthetic.pairs import length_test
from .bible import open_bible

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
    is_lowercase=True,
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
CORPUS_RECIPES = {
    ("multi30k", "de"): MULTI30K, ("multi30k", "en"): FROM_ENGLISH, ("bible", "de"): BIBLE,
}  # fmt: skip
"""By corpus and source language. The records of Multi30k were made without EOS after a source."""
MAX_EPOCHS = 20
"""Most epochs of train in the default budget of a corpus without a recipe of its own."""

# ----------------------------------------------------------------------------------------- Run


def make_task(args: argparse.Namespace) -> Task:
    """Return the task on the corpus that --data names; print a summary of it."""
    languages = args.source, args.target
    if args.data == ["bible"]:
        corpus = open_bible(languages)
    else:
        corpus = open_pairs(args.data, languages, args.limit)
    print(corpora.describe(args.data[0]) + corpus.first_lines())
    recipe = CORPUS_RECIPES.get((args.data[0], corpus.languages[0]), DEFAULT)
    kind, vocab = args.tokenizer or (recipe.tokenizer, None)
    ready = prepare(corpus, PrepareConfig(
        tokenizer=kind,
        vocab_size=resolve_vocab_size(kind, vocab, recipe.vocab_size),
        is_lowercase=recipe.is_lowercase,
        has_source_eos=recipe.has_source_eos,
    ))  # fmt: skip
    print(summarize(ready.data))
    if note := corpora.checksum_warning(args.data[0], ready.data["sha256"]):
        print(note)
    sources, targets = zip(*ready.test_texts, strict=True)
    tokenize = tokenizer_for(targets)
    print(f"BLEU uses sacreBLEU's tokenizer {tokenize}")
    is_short = np.median(count_bleu(targets, targets, tokenize)[:, 1]) < 4  # BLEU counts 4-grams
    if is_short:
        print("BLEU says nothing of targets with fewer than four tokens: the score is exact match")
    else:
        print(describe_round_trip(ready.tokenizer, targets, tokenize), end="")
    words = [*map(count_words, sources)]
    unit = "characters" if unspaced_script(sources) else "words"
    test = length_test(ready.test, words, ready.most_words, ready.test_texts, unit)
    test = replace(test, primary_metric="exact_match" if is_short else "bleu")
    is_long = lengths(ready.test).max(1) > 80  # tokens; of 16 words, an alignment can be read
    shown = min(range(len(words)), key=lambda i: (is_long[i], abs(words[i] - 16)))
    longest_each = [longest(split) for split in (ready.test, ready.train, ready.valid)]
    n_source = max(max(n_src, n_tgt // 2) for n_src, n_tgt in longest_each)
    return Task(
        name="translation",
        data={**ready.data, "bleu_tokenize": tokenize},
        tokenizer=ready.tokenizer,
        train=ready.train,
        valid=ready.valid,
        tests=[test, replace(test, name="greedy", beam=1)],
        contrasts=recipes.HISTORY,
        recipes=recipes.with_positions(recipe.recipes, recipes.positions_for(n_source)),
        training={
            "tokens": choose_budget(args, recipe, n_train=int(ready.train.ends[-1, 1])),
            "batch_tokens": recipe.batch_tokens,
            "label_smoothing": 0.1,
        },
        n_parameters=recipe.n_parameters,
        beam=5,
        bleu_tokenize=tokenize,
        alignment_example=AlignmentExample(ready.test[shown], None),
    )


def describe_round_trip(tokenizer: Tokenizer, targets: Sequence[str], tokenize: str) -> str:
    """Return a line with the BLEU of targets that are encoded and decoded, if it is not 100.

    It is the most that a model can reach: words lose their spaces, and rare ones become unknown.
    """
    decoded = [tokenizer.decode(tokenizer.encode(target)) for target in targets]
    changed = [both for both in zip(targets, decoded, strict=True) if both[0] != both[1]]
    bleu = make_bleu(tokenize).corpus_score(decoded, [targets]).score
    if not changed or bleu > 99.95:
        return ""
    shortest = min(changed, key=lambda both: len(both[0]))
    example = " → ".join(map(preview, shortest))
    return f"The tokenizer's round trip: a model can hardly exceed BLEU {bleu:.1f}; {example}\n"


def choose_budget(args: argparse.Namespace, recipe: recipes.CorpusRecipe, n_train: int) -> int:
    """Return the target tokens to train on, and print them; `n_train` of them are an epoch."""
    tokens: int = args.tokens or recipe.tokens[args.size]
    if recipe is DEFAULT and not args.tokens:
        tokens = min(tokens, MAX_EPOCHS * n_train)
    print(f"Budget: {tokens:,} target tokens, {tokens / n_train:.1f} epochs of train (--tokens)")
    return tokens
