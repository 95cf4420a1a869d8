"""Divide scores by √d_k or not, before any training: saturation and gradients by width.

Question
    Without 1/√d_k, a large d_k would push "the softmax into regions where it has extremely small
    gradients": so suspect Vaswani et al. (2017, 3.2.1). Is it so where training starts? The same
    first weights, with and without the division, get one batch of the grammar's sentences.

    python -m tasks.smoothing.scale

    Half a minute on one core; nothing is trained. Without the division, the scores spread (in the
    Transformer as √d_k does), the softmax saturates, and in wide heads the median query has a
    smaller gradient at its input. But a few have a large one, and nothing divides it on its way to
    W_q and W_k: their gradient is larger than with 1/√d_k at every width, the more the wider.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import torch

from seqmodels.models import build, model_of

from ..analyses import batch_of
from ..exhibits import Exhibit, run_exhibit
from ..synthetic import grammar
from ..synthetic.pairs import SIZES, grammar_task
from .figure import STARTS, draw_scale
from .measure import measure_start

SETTINGS = {"seeds": [1, 2, 3], "d_model": [64, 128, 256, 512], "n_sentences": 50}


def measure(settings: Exhibit = SETTINGS) -> Exhibit:
    """Return what `measure_start` returns by model, width and seed."""
    task = grammar_task(grammar.draw_corpus(seed=1, **SIZES["smoke"]), 1, is_small=True)
    rows = []
    for name, d_model, seed in product(STARTS, settings["d_model"], settings["seeds"]):
        sizes: dict[str, Any] = {**task.recipes[model_of(name)].sizes, "d_model": d_model}
        torch.manual_seed(seed)
        model = build(name, task.tokenizer.vocab_size, **sizes)
        found = measure_start(model, batch_of(model, task.valid[: settings["n_sentences"]]))
        rows.append({"model": name, "d_k": d_model // sizes["n_heads"], "seed": seed, **found})
    return {"settings": settings, "rows": rows}


if __name__ == "__main__":
    run_exhibit("scale", __doc__, measure, draw_scale)
