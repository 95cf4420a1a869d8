"""Worker of test_fsdp.py: torchrun starts it with a folder; it writes what it finds there."""

from __future__ import annotations

import itertools
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from toy_task import flags, toy
from toy_training import CFG, V, draw_examples

from seqmodels import MODELS, Batch, build
from seqmodels.comparison import compare
from seqmodels.comparison.task import Recipe
from seqmodels.data.batches import training_batches
from seqmodels.training import loop
from seqmodels.training.fsdp import ShardedTrainer, local
from seqmodels.training.trainer import Trainer
from seqmodels.utils.terminal import guard
from seqmodels.utils.world import ProcessLostError, world
from tools.sizes import sizes_of

SIZES = {"d_embed": 8, "d_maxout": 8, "d_align": 8, "d_ff": 24, "n_heads": 2, "n_layers": 2}
EXAMPLES = draw_examples(200, 20)
Found = dict[str, Any]
FED = "lstm_seq2seq_dot_fed"
"""A model whose decoder calls its stack for each token."""


def begun(kind: type[Trainer], name: str, **sizes: int) -> Trainer:
    """Return a tiny model in training, with dropout."""
    torch.manual_seed(1)
    sizes = SIZES | {"d_model": 16, "n_positions": 64} | sizes
    model = build(name, V, **sizes_of(name, dropout=0.3, **sizes))
    return kind(model.train(), replace(CFG, shards=2, tokens=20_000, max_grad_norm=0.2))


def twelve_steps() -> Found:
    """Return losses and norms of all models in twelve steps, with whole weights and without."""
    found: Found = {}
    for name in (*MODELS, FED):
        for kind in (Trainer, ShardedTrainer):
            trainer = begun(kind, name)
            norms = listened(trainer)
            for batch in islice(training_batches(EXAMPLES, 100, 1), 12):
                trainer.training_step(batch, [1])
            found[f"{kind.__name__}/{name}"] = trainer.progress.losses, norms
    return found


def listened(trainer: Trainer) -> list[float]:
    """Return a list to which each step adds the norm of its gradient."""
    norms, clip = [], trainer.clip

    def listening() -> torch.Tensor:
        norm = clip()
        norms.append(float(norm))
        return norm

    trainer.clip = listening  # type: ignore[method-assign]
    return norms


def validated() -> Found:
    """Return the scores of a validation with an odd number of batches, before any step."""
    found: Found = {}
    for kind in (Trainer, ShardedTrainer):
        trainer = begun(kind, "transformer")
        found[kind.__name__] = loop.validate(trainer.model, draw_examples(900, 20), "cpu")
        trainer.training_step(next(training_batches(EXAMPLES, 100, 1)), [1])
    return found


def held_bytes() -> Found:
    """Return the bytes of weights and AdamW's moments in this process after a step."""
    found: Found = {}
    for kind in (Trainer, ShardedTrainer):
        trainer = begun(kind, "gpt", d_model=64)
        trainer.training_step(next(training_batches(EXAMPLES, 100, 1)), [1])
        found[kind.__name__] = sum(local(tensor).nbytes for tensor in trainer.tensors().values())
    return found


def few_rows() -> Found:
    """Return the losses of batches of one row, which leave a process without any."""
    found: Found = {}
    for kind in (Trainer, ShardedTrainer):
        trainer = begun(kind, "gpt")
        for batch in islice(training_batches(EXAMPLES, 1, 1), 3):
            trainer.training_step(batch, [1])
        found[kind.__name__] = trainer.progress.losses
    return found


TRAINING = {"tokens": 600, "batch_tokens": 60, "n_validations": 3}
RECIPES = {
    name: Recipe({**recipe.sizes, **sizes_of(name, dropout=0.3)}, recipe.lr)
    for name, recipe in toy().recipes.items()
}


def compared(out: Path, tokens: int = 600, is_fsdp: bool = True) -> None:
    """Compare one model, with dropout, in a folder."""
    task = toy(recipes=RECIPES, training=TRAINING | {"tokens": tokens})
    compare.compare(task, flags(out, shards=2, fsdp=is_fsdp, models=["transformer"]))


def stopped(out: Path) -> Found:
    """Send a signal to the second process in the middle of a training; then resume it.

    The same training is not stopped in another folder.
    """
    compared(out / "whole")
    steps, backward = itertools.count(1), ShardedTrainer.backward

    def signalled(self: ShardedTrainer, batch: Batch) -> Any:
        if next(steps) == 8 and world().rank == 1:
            signal.raise_signal(signal.SIGTERM)
        return backward(self, batch)

    code: Any = None
    with mock.patch.object(ShardedTrainer, "backward", signalled):
        try:
            compared(out / "stopped")
        except (KeyboardInterrupt, SystemExit) as ended:
            code = ended.code  # type: ignore[union-attr]
    if world().is_first:
        shutil.copytree(out / "stopped", out / "copy")
        shutil.copytree(out / "whole", out / "further", dirs_exist_ok=True)
    compared(out / "stopped")
    compared(out / "further", 1_200)
    return {"code": code, "steps": next(steps) - 1}


def lost() -> Found:
    """Let memory run out in the second process, which ends; return what each says."""
    trainer, backward_part = begun(ShardedTrainer, "gpt"), ShardedTrainer.backward_part

    def short(self: ShardedTrainer, part: Batch, share: float) -> Any:
        if world().rank == 1:
            raise MemoryError
        return backward_part(self, part, share)

    with mock.patch.object(ShardedTrainer, "backward_part", short):
        try:
            trainer.training_step(next(training_batches(EXAMPLES, 100, 1)), [1])
        except ProcessLostError as error:
            return {"said": str(error)}
    return {"said": None}


TO_DO: tuple[Callable[[], Found], ...] = (twelve_steps, validated, held_bytes, few_rows)


def main(out: Path) -> None:
    """Do everything, and write what this process finds."""
    torch.set_num_threads(1)
    found = {do.__name__: do() for do in TO_DO} | {"stopped": stopped(out), "lost": lost()}
    torch.save(found, out / f"{world().rank}.pt")


if __name__ == "__main__":
    guard("fully_sharded", lambda: main(Path(sys.argv[1])))
