"""Change one thing in the Transformer or GPT: which of their design choices change the score.

Question
    The paper of 2017 introduced several ideas at once. Which of them does a small Transformer need
    to translate the sentences of tasks.translation, and for which is no difference shown? Each
    change is made alone, at the same number of parameters, unless the model without the part is
    smaller by it.

    python -m tasks.choices                                 ten changes, one seed
    python -m tasks.choices --seeds 1 2 3 4 5               the same, five seeds
    python -m tasks.choices --of gpt --seeds 1 2 3 4 5      GPT: its parts, and those of 2023

    All are trained with the learning rates of the unchanged model, which are not those of its best
    trials: that a change is worse does not show that it would be at a rate of its own.
    --models transformer_unnormalised trains without the normaliser of attention. GPT has the size
    that it has in the default comparison, and less of its budget.
"""

from __future__ import annotations

import argparse

from ..flags import TaskParser, run

PARTS = ("unscaled", "cosine", "no_residual", "no_feed_forward", "no_norm", "none", "untied")
GPT_PARTS = ("unscaled", "no_residual", "no_feed_forward", "no_norm", "postnorm")
OF_2023 = ("rms", "rotary", "swiglu", "grouped", "2023")
MODELS = {
    "transformer": ["transformer", *(f"transformer_{part}" for part in PARTS)],
    "gpt": ["gpt", *(f"gpt_{part}" for part in (*GPT_PARTS, *OF_2023))],
}
"""A model, and those that differ from it in one thing."""


PARSER = TaskParser(
    "tasks.choices", __doc__, models=MODELS["transformer"], sizes=["smoke", "laptop"],
    choose=lambda args: ("choices-gpt", MODELS["gpt"]) if args.of == "gpt" else None,
)  # fmt: skip
PARSER.add_argument("--of", choices=[*MODELS], default="transformer",
                    help="the model that is changed (default: transformer); gpt: by "
                         f"{', '.join(MODELS['gpt'][1:])}, one head and one layer, in "
                         "runs/choices-gpt-SIZE")  # fmt: skip

if __name__ == "__main__":
    PARSER.parse_args()  # answer --help and mistakes before the slow imports below

from dataclasses import replace

from seqmodels.experiments.task import Fields, Task

from ..synthetic import grammar
from ..synthetic.pairs import SIZES, short_task

# ---------------------------------------------------------------------------------------- Data
#
# The sentences of tasks.translation, tested on lengths that occur in training.

# ------------------------------------------------------------------------------------- Recipes
#
# The Transformer's of tasks.translation: 4 heads, 2 layers, and at this number of parameters width
# 120, d_k and d_v 30. GPT's of the default comparison: 4 heads, 3 layers, width 104.

CHANGES: dict[str, list[Fields]] = {
    "transformer": [{"n_heads": 1}, {"n_layers": 1}, {"is_prenorm": True}],
    "gpt": [{"n_heads": 1}, {"n_layers": 1}],
}

# ----------------------------------------------------------------------------------------- Run


def make_task(args: argparse.Namespace) -> Task:
    """Return the task: translation by the Transformer or GPT, with its changes."""
    task = short_task(grammar.draw_corpus(seed=1, **SIZES[args.size]), args)
    (test,) = task.tests
    trained = [i for i, n_words in enumerate(test.x) if n_words <= (test.max_train_length or 0)]
    examples, x = [test.examples[i] for i in trained], [test.x[i] for i in trained]
    return replace(
        task,
        name="choices",
        tests=[replace(test, examples=examples, x=x)],
        vary=CHANGES,
        contrasts=[(model, args.of) for model in MODELS[args.of][1:]],
    )


if __name__ == "__main__":
    run(PARSER, make_task)
