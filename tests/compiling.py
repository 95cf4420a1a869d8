"""Worker of test_compiled.py: it compiles what the tests' own checks of shapes would break.

It is started with a backend, a file to write to and names of models.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from toy_training import CFG, V, draw_examples

from seqmodels import build
from seqmodels.data.batches import training_batches
from seqmodels.training.compiled import compiled
from seqmodels.training.trainer import Trainer
from tools.sizes import sizes_of

SIZES = {"d_model": 16, "d_ff": 24, "n_heads": 2, "n_layers": 1, "n_positions": 64}
SIZES |= {"d_embed": 8, "d_maxout": 8, "d_align": 8}


def steps(name: str, backend: str | None) -> list[Any]:
    """Return losses of twelve steps with dropout, the weights after them, and how many graphs."""
    torch.manual_seed(1)
    model = build(name, V, **sizes_of(name, dropout=0.3, **SIZES)).train()
    trainer = Trainer(model, replace(CFG, tokens=20_000))
    if backend:
        trainer.compiled = compiled(model, backend)
    for batch in islice(training_batches(draw_examples(200, 20), 100, 1), 12):
        trainer.training_step(batch, [1])
    n_graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    return [trainer.progress.losses, model.state_dict(), n_graphs]


def main(backend: str, out: Path, *names: str) -> None:
    """Train each model with the compiler and without; write why it is refused instead."""
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    for name in names:
        torch._dynamo.utils.counters.clear()
        try:
            found[name] = steps(name, None), steps(name, backend)
        except ValueError as error:
            found[name] = str(error)
    torch.save(found, out)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
