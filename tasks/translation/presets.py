"""Presets of translation: other models, recipes or lengths, on sentences of the same grammar.

ladder: from the LSTM of Sutskever et al. 2014 to attention. The decoder starts from the encoder's
    last state; it is given that vector at every step; it weighs all outputs of the encoder by one
    of three scores (Luong et al. 2015, arXiv:1508.04025, section 3.1); it reads again what it has
    attended to (input feeding, 3.3). And the source is read from its first word or from its last.
to-transformer: from Bahdanau's model to the Transformer, a few changes at a time
    (seqmodels/models/variants/bahdanau_to_transformer.py).
parts: the Transformer without one of its parts, or with one of another size. All have the rates of
    the unchanged model: that a change is worse does not show that it would be at its own.
gpt-parts: GPT, likewise, with the four parts that most models of 2023 have, and with a source that
    it reads in both directions.
constants: the Transformer and GPT with other constants: √d in scores and embeddings, warm-up,
    where positions stand, which matrices and numbers a head has, and how GPT's outputs start.
positions: a Transformer with sinusoids, learned, rotary or no positions, on sentences up to three
    times as long as in training.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from seqmodels.experiments.task import Measurement, Recipe, Rows, Task
from seqmodels.models import Fields

if TYPE_CHECKING:
    from seqmodels.interface import SequenceModel

# -------------------------------------------------------------------------------------- Models

SCORES = ("last", "dot", "general", "additive")
LADDER = [
    "lstm_seq2seq_forward", "lstm_seq2seq",
    *(f"lstm_seq2seq_{score}{feeding}" for score in SCORES for feeding in ("", "_fed")),
]  # fmt: skip
TO_TRANSFORMER = [
    "bahdanau", "bahdanau_dot", "bahdanau_heads", "bahdanau_tied", "transformer_recurrent_1",
    "transformer_recurrent", "transformer_recurrent_decoder", "transformer",
]  # fmt: skip
"""Each differs from the one before in a few changes."""
CHANGED = ("unscaled", "cosine", "no_residual", "no_feed_forward", "no_norm", "none", "untied")
PARTS = ["transformer", *(f"transformer_{part}" for part in CHANGED)]
GPT_CHANGED = ("unscaled", "no_residual", "no_feed_forward", "no_norm", "postnorm")
OF_2023 = ("rms", "rotary", "swiglu", "grouped", "2023")
GPT_PARTS = ["gpt", *(f"gpt_{part}" for part in (*GPT_CHANGED, *OF_2023, "prefix"))]
CONSTANTS = (
    "unscaled", "over_d", "small", "untied", "small_untied", "concatenated", "one_matrix", "sliced",
)  # fmt: skip
WARMUPS = (0.0, 0.02, 0.3)
"""Shares of the steps, in place of 0.1."""
POSITIONS = [f"transformer_{kind}" for kind in ("sinusoids", "learned", "rotary", "none")]

MODELS = {
    "ladder": LADDER, "to-transformer": TO_TRANSFORMER, "parts": PARTS, "gpt-parts": GPT_PARTS,
    "positions": POSITIONS,
    "constants": ["transformer", *(f"transformer_{x}" for x in CONSTANTS), "gpt", "gpt_large"],
}  # fmt: skip

# ---------------------------------------------------------------------------------------- Data
#
# The ladder and positions are trained on sentences of 4 to 20 words, the others on those of the
# comparison with the budget of SHORT; parts are tested on lengths that occur in training.

SIZES = {
    "smoke": {"n_train": 1_000, "n_valid": 50, "max_train": 20},
    "laptop": {"n_train": 80_000, "n_valid": 500, "max_train": 20},
    "full": {"n_train": 120_000, "n_valid": 500, "max_train": 20},
}
TESTED = {
    "ladder": {"smoke": (30, 10), "laptop": (40, 200), "full": (40, 400)},
    "positions": {"smoke": (40, 10), "laptop": (60, 100), "full": (60, 300)},
}
"""The longest test sentence in words, and sentences in each ten of words."""
TOKENS = {
    "ladder": {"smoke": 15_000, "laptop": 600_000, "full": 1_400_000},
    "positions": {"smoke": 15_000, "laptop": 900_000, "full": 1_400_000},
}
BUCKETS = [(low, low + 4) for low in range(1, 60, 5)]
"""Half as wide as those of the comparison: the fall is steep."""

# ------------------------------------------------------------------------------------- Recipes
#
# One recipe for all models of the ladder, and of positions; README.md lists the trials. The others
# have those of the comparison, and models between two of them that of the end by which they are
# named: AdamW's rate falls from 4e-3 to 3e-3 where the layers become the Transformer's.

RUNG = {"d_embed": 96, "n_layers": 1, "init_range": 0.3, "forget_bias": 2.0, "dropout": 0.0}
PLACED = {
    "d_ff": 512, "n_heads": 4, "n_layers": 2, "dropout": 0.0, "is_prenorm": True,
    "n_positions": 160,
}  # fmt: skip
RECIPES = {
    "ladder": {name: Recipe(RUNG, lr=1.6e-2) for name in LADDER},
    "positions": {name: Recipe(PLACED, lr=3e-3) for name in [*POSITIONS, "transformer_alibi"]},
}
CHANGES: dict[str, dict[str, list[Fields]]] = {
    "parts": {"transformer": [{"n_heads": 1}, {"n_layers": 1}, {"is_prenorm": True}]},
    "gpt-parts": {"gpt": [{"n_heads": 1}, {"n_layers": 1}]},
    "constants": {"transformer": [
        {"is_prenorm": True},
        *({**norm, "warmup": share} for norm in ({}, {"is_prenorm": True}) for share in WARMUPS),
    ]},
}  # fmt: skip
"""Sizes of the unchanged model that are changed as well."""
CONTRASTS = {
    "ladder": [
        ("lstm_seq2seq", "lstm_seq2seq_forward"), ("lstm_seq2seq_last", "lstm_seq2seq"),
        *((f"lstm_seq2seq_{score}", "lstm_seq2seq_last") for score in SCORES[1:]),
        *((f"lstm_seq2seq_{score}_fed", f"lstm_seq2seq_{score}") for score in SCORES),
    ],
    "to-transformer": [(rung, before) for before, rung in pairwise(TO_TRANSFORMER)],
    "parts": [(part, "transformer") for part in PARTS[1:]],
    "gpt-parts": [(part, "gpt") for part in GPT_PARTS[1:]],
    "constants": [
        *((f"transformer_{name}", "transformer") for name in CONSTANTS), ("gpt_large", "gpt"),
    ],
    "positions": [
        ("transformer_rotary", "transformer_sinusoids"),
        ("transformer_rotary", "transformer_learned"),
        ("transformer_learned", "transformer_sinusoids"),
        ("transformer_none", "transformer_sinusoids"),
        *((f"gpt_{kind}", "gpt") for kind in ("rotary", "alibi", "none")),
    ],
}  # fmt: skip

# ----------------------------------------------------------------------------------------- Run


def make_task(args: argparse.Namespace) -> Task:
    """Return the task of a preset."""
    task = short_sentences(args) if args.preset in TESTED else comparison(args)
    return replace(task, contrasts=CONTRASTS[args.preset])


def short_sentences(args: argparse.Namespace) -> Task:
    """Return the task of translating after a training on short sentences."""
    from ..synthetic import grammar
    from ..synthetic.pairs import grammar_task

    max_test, per_bucket = TESTED[args.preset][args.size]
    corpus = grammar.draw_corpus(1, **SIZES[args.size], max_test=max_test, per_bucket=per_bucket)
    task = grammar_task(corpus, args.tokens or TOKENS[args.preset][args.size])
    return replace(
        task,
        tests=[replace(test, buckets=BUCKETS) for test in task.tests],
        recipes={**task.recipes, **RECIPES[args.preset]},
        training={**task.training, "batch_tokens": 800},
        n_parameters=600_000 if args.preset == "ladder" else task.n_parameters,
    )


def comparison(args: argparse.Namespace) -> Task:
    """Return the task of the comparison, with half of its budget."""
    from ..synthetic import grammar, pairs

    task = pairs.short_task(grammar.draw_corpus(seed=1, **pairs.SIZES[args.size]), args)
    (test,) = task.tests
    trained = [i for i, n_words in enumerate(test.x) if n_words <= (test.max_train_length or 0)]
    examples, x = [test.examples[i] for i in trained], [test.x[i] for i in trained]
    if args.preset == "to-transformer":
        longest = max(examples, key=lambda example: len(example.src))
        n_source, n_target = len(longest.src), len(longest.tgt)
        steps = partial(count_sequential_steps, n_source=n_source, n_target=n_target)
        return replace(task, measure={"sequential_steps": steps})
    measure: dict[str, Measurement] = {}
    if args.preset == "constants":
        from .constants import measure_overlap, measure_scores

        measure["scores"] = partial(measure_scores, examples=examples[::8])
        measure["overlap"] = partial(measure_overlap, n=max(map(len, (e.src for e in examples))))
    test = replace(test, examples=examples, x=x)
    return replace(task, tests=[test], vary=CHANGES[args.preset], measure=measure)


def count_sequential_steps(
    model: SequenceModel, _: SequenceModel, n_source: int, n_target: int
) -> Rows:
    """Return a row with how many layers, or steps of a recurrence, follow one another in training.

    Layers are computed one after the other; a recurrent one takes a step per token of the longest
    source in training, or of its target. A model of another kind than Bahdanau's or the Transformer
    has no row.
    """
    from seqmodels.models.bahdanau import Bahdanau
    from seqmodels.models.transformer import Transformer
    from seqmodels.models.variants import bahdanau_to_transformer as between

    if not isinstance(model, (Bahdanau, Transformer)):
        return []
    encoder = n_source if isinstance(model, (Bahdanau, between.RecurrentTransformer)) else 1
    decoder = n_target if isinstance(model, (Bahdanau, between.RecurrentDecoder)) else 1
    steps = getattr(model.config, "n_layers", 1) * (encoder + decoder)
    return [{"n_source": float(n_source), "n_target": float(n_target), "steps": float(steps)}]
