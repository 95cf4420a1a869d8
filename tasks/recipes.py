"""Recipes of several tasks: sizes and learning rates of models that translate or continue text.

The trials behind them are in tasks/translation/README.md.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from seqmodels.experiments.task import Recipe

FILE = Path(__file__).with_name("comparisons.toml")
RECURRENT = {"d_embed": 128, "d_maxout": 128}
RECIPES = {
    "rnn_encdec": Recipe(RECURRENT, lr=8e-3),
    "bahdanau": Recipe(RECURRENT | {"d_align": 64}, lr=8e-3),
    "lstm_seq2seq": Recipe(
        {"d_embed": 128, "n_layers": 1, "init_range": 0.3, "forget_bias": 2.0}, lr=8e-3
    ),
    "transformer": Recipe({"d_ff": 512, "n_heads": 4, "n_layers": 2}, lr=2e-3),
    "gpt": Recipe({"n_heads": 4, "n_layers": 3, "init_std": 0.08}, lr=2e-3),
    "linear_attention": Recipe({"n_heads": 4, "n_layers": 3, "init_std": 0.08}, lr=2e-3),
    "mamba2": Recipe({"n_heads": 4, "n_layers": 6, "d_state": 32, "init_std": 0.08}, lr=2e-3),
    "gated_deltanet": Recipe({"n_heads": 4, "n_layers": 3, "init_std": 0.08}, lr=2e-3),
}

GRAMMAR = RECIPES | {
    "bahdanau": Recipe(RECIPES["bahdanau"].sizes, lr=4e-3),
    "lstm_seq2seq": Recipe(RECIPES["lstm_seq2seq"].sizes, lr=1.5e-2),
    "transformer": Recipe(RECIPES["transformer"].sizes, lr=3e-3),
    "gpt": Recipe({"n_heads": 8, "n_layers": 4, "init_std": 0.08}, lr=2e-3),
    "linear_attention": Recipe({"n_heads": 8, "n_layers": 4, "init_std": 0.08}, lr=2e-3),
    "mamba2": Recipe({"n_heads": 8, "n_layers": 8, "d_state": 32, "init_std": 0.08}, lr=2e-3),
    "gated_deltanet": Recipe({"n_heads": 8, "n_layers": 4, "init_std": 0.08}, lr=2e-3),
}
GRAMMAR_MUON = GRAMMAR | {
    name: GRAMMAR[name]._replace(lr=lr, muon_lr=muon_lr)
    for name, lr, muon_lr in (
        ("rnn_encdec", 4e-3, 1.5e-2), ("bahdanau", 4e-3, 8e-3), ("lstm_seq2seq", 8e-3, 1.5e-2),
        ("transformer", 3e-3, 8e-3), ("gpt", 2e-3, 6e-3), ("linear_attention", 2e-3, 9e-3),
        ("mamba2", 2e-3, 9e-3), ("gated_deltanet", 2e-3, 9e-3),
    )
}  # fmt: skip
SMALL = GRAMMAR_MUON | {
    "rnn_encdec": GRAMMAR["rnn_encdec"]._replace(lr=1.2e-2, muon_lr=1.25e-2),
    "bahdanau": GRAMMAR["bahdanau"]._replace(lr=8e-3, muon_lr=8e-3),
    "lstm_seq2seq": GRAMMAR["lstm_seq2seq"]._replace(lr=3.2e-2, muon_lr=1.5e-2),
    "transformer": GRAMMAR["transformer"]._replace(lr=6e-3, muon_lr=8e-3),
    "gpt": RECIPES["gpt"]._replace(lr=8e-3, muon_lr=6e-3),
    "linear_attention": RECIPES["linear_attention"]._replace(lr=8e-3, muon_lr=9e-3),
    "mamba2": RECIPES["mamba2"]._replace(lr=1.6e-2, muon_lr=9e-3),
    "gated_deltanet": RECIPES["gated_deltanet"]._replace(lr=3.2e-2, muon_lr=9e-3),
}
"""Recipes of the default comparison, in which models have half the parameters."""
CONTRASTS = {
    name: [(model, base) for model, base in (pair.split() for pair in text.split(","))]
    for name, text in tomllib.loads(FILE.read_text(encoding="utf-8"))["contrasts"].items()
}
HISTORY, MEMORIES = CONTRASTS["history"], CONTRASTS["memories"]
POSITIONED = ("gpt", "linear_attention")
"""Models whose learned positions have to suffice for source and target together."""


class CorpusRecipe(NamedTuple):
    """How to train on the user's own data, or on a corpus that is known by name."""

    recipes: Mapping[str, Recipe]
    tokens: Mapping[str, int]
    batch_tokens: int
    n_parameters: int
    vocab_size: int
    tokenizer: str = "bpe"
    has_source_eos: bool = True
    is_lowercase: bool = False
    context: int = 0
    """Most tokens of a text before its continuation."""


def with_dropout(chosen: Mapping[str, Recipe], dropout: float) -> dict[str, Recipe]:
    """Return the recipes with this dropout, unless a recipe has its own."""
    return {
        name: recipe._replace(sizes={"dropout": dropout, **recipe.sizes})
        for name, recipe in chosen.items()
    }


def with_positions(chosen: Mapping[str, Recipe], n_positions: int) -> dict[str, Recipe]:
    """Return the recipes with so many positions for the models that learn them."""
    changed = dict(chosen)
    for name in chosen.keys() & {*POSITIONED}:
        sizes = {**chosen[name].sizes, "n_positions": n_positions}
        changed[name] = chosen[name]._replace(sizes=sizes)
    return changed


def positions_for(longest: int) -> int:
    """Return how many positions a source of this length needs, with a target twice as long."""
    return 3 * longest + 10


PROSE = with_dropout(
    {
        **RECIPES,
        "rnn_encdec": Recipe(RECURRENT, lr=4e-3),
        "bahdanau": Recipe(RECIPES["bahdanau"].sizes, lr=5e-3, muon_lr=4e-3),
        "transformer": Recipe(
            {**RECIPES["transformer"].sizes, "is_prenorm": True}, lr=3e-3, muon_lr=4e-3
        ),
        "gpt": RECIPES["gpt"]._replace(muon_lr=2e-3),
    },
    0.1,
)
"""Recipes for a few million tokens of prose."""

# Random symbols of up to 128 in the source.

NARROW = {"d_embed": 64, "d_maxout": 64}
COPYING = {
    "rnn_encdec": Recipe(NARROW, lr=8e-3),
    "bahdanau": Recipe(NARROW | {"d_align": 64}, lr=8e-3),
    "lstm_seq2seq": Recipe(
        {"d_embed": 64, "n_layers": 1, "init_range": 0.3, "forget_bias": 2.0}, lr=8e-3
    ),
    "transformer": Recipe({"d_ff": 256, "n_heads": 4, "n_layers": 2, "dropout": 0.0}, lr=2e-3),
    **with_positions(with_dropout({name: RECIPES[name] for name in POSITIONED}, 0.0), 512),
    **{name: RECIPES[name] for name in ("mamba2", "gated_deltanet")},
}
