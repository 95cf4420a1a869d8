"""Compare two heads of a layer before and after training, by their weights.

Question
    Do two heads of a layer look at the same words before any training, and after it? Distance: the
    total variation between their weights, mean of the queries with several keys; 0 if the weights
    are the same, 1 if no key has weight from both.

    python -m tasks.heads.two_heads

    Half a minute, on the Transformer and GPT that are shipped; nothing is trained.
"""

from __future__ import annotations

from typing import Any

import torch

from seqmodels.inference import load
from seqmodels.models import build

from ..analyses import draw_sample
from ..exhibits import Exhibit, run_exhibit
from .figure import draw_two_heads
from .measure import compare_heads

SETTINGS = {"models": ["transformer", "gpt"], "seeds": [1, 2, 3, 4, 5], "n_sentences": 100}
LENGTHS = range(6, 25)
"""Words in the sentences."""


def measure(settings: Exhibit = SETTINGS) -> Exhibit:
    """Return the rows of `compare_heads` of shipped models, and of their starts by seed."""
    rows = []
    for name in settings["models"]:
        run = load(name)
        assert run.record
        sizes: dict[str, Any] = dict(run.record.settings)
        sample = draw_sample(settings["n_sentences"], LENGTHS, run.tokenizer)
        for seed in settings["seeds"]:
            torch.manual_seed(seed)
            start = build(name, **sizes)
            rows += compare_heads(start, sample, {"model": name, "when": "before", "seed": seed})
        about = {"model": name, "when": "after", "seed": run.record.seed}
        rows += compare_heads(run.model, sample, about)
    words = [*sample.parses[0].sentence.en, "<eos>"]
    return {"settings": {**settings, "sentence": words}, "rows": rows}


if __name__ == "__main__":
    run_exhibit("two_heads", __doc__, measure, draw_two_heads)
