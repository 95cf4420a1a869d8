"""Worker of test_world.py: torchrun starts it with a folder and the names of what to compute.

No file of fixtures is imported: each process would take seconds for it.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from toy_task import flags, toy
from toy_training import V, draw_examples

from seqmodels import MODELS, Batch, SequenceModel, build
from seqmodels.comparison import compare
from seqmodels.comparison.task import Recipe
from seqmodels.data.batches import collate
from seqmodels.training import loop
from seqmodels.training.config import TrainConfig
from seqmodels.training.trainer import Trainer
from seqmodels.utils.terminal import run_cli
from seqmodels.utils.world import world
from tools.sizes import sizes_of

CFG = TrainConfig(tokens=3_000, lr=1e-2, batch_tokens=100, n_validations=2)
SIZES = {"d_embed": 8, "d_maxout": 8, "d_align": 8, "d_ff": 24, "n_heads": 2, "n_layers": 2}
Found = dict[str, torch.Tensor]


def trainer_of(name: str, shards: int) -> Trainer:
    """Return a tiny model in training, in float64 and without dropout."""
    torch.manual_seed(1)
    sizes = sizes_of(name, d_model=16, n_positions=64, dropout=0.0, **SIZES)
    return Trainer(build(name, V, **sizes).double(), replace(CFG, shards=shards))


def trained(shards: int = 4) -> Found:
    """Return weights, losses and points of the curve of all models after more than 30 steps."""
    found: Found = {}
    examples = draw_examples(200, 20)
    for name in MODELS:
        trainer = trainer_of(name, shards)
        curve = loop.train(trainer, examples[40:], examples[:40])
        assert trainer.progress.step >= 30
        found |= {f"{name}/{key}": t for key, t in trainer.tensors().items()}
        losses = [*trainer.progress.losses, *(point["valid_nats"] for point in curve)]
        found[f"{name}/losses"] = torch.tensor(losses, dtype=torch.float64)
    return found


def short_of_memory(shards: int = 2) -> Found:
    """Return weights and pieces after a step that the last process had no memory for at first."""
    trainer, loss_of = trainer_of("gpt", shards), loop.loss_of

    def short(model: SequenceModel, piece: Batch, *rest: Any) -> torch.Tensor:
        if world().rank == world().size - 1 and len(piece.src) > 3:
            raise MemoryError
        return loss_of(model, piece, *rest)

    with mock.patch.object(loop, "loss_of", short):
        loop.training_step(trainer, trainer.prepare(collate(draw_examples(12, 9))))
    return {**trainer.tensors(), "n_parts": torch.tensor(trainer.progress.n_parts)}


def compared(out: Path, shards: int = 2) -> None:
    """Compare all models, with dropout in those that have it."""
    recipes = {
        name: Recipe({**recipe.sizes, **sizes_of(name, dropout=0.3)}, recipe.lr)
        for name, recipe in toy().recipes.items()
    }
    compare.compare(toy(recipes=recipes), flags(out, shards=shards))


def main(out: Path, *names: str) -> None:
    """Do what is named, and write what it finds."""
    torch.set_num_threads(1)
    found: dict[str, Any] = {"trained": trained, "short_of_memory": short_of_memory}
    found["unsharded"] = partial(trained, 1)
    for name in names:
        if name == "compared":
            compared(out)
        else:
            torch.save(found[name](), out / f"{name}-{world().rank}.pt")


if __name__ == "__main__":
    run_cli("sharded", lambda: main(Path(sys.argv[1]), *sys.argv[2:]))
