"""The program of test_end_to_end.py and test_launch.py; it imports no fixtures, to start fast."""

import sys
from dataclasses import replace
from functools import partialmethod
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from toys import V, draw_examples, flags, toy

from seqmodels import Batch, SequenceModel, build
from seqmodels.comparison import compare, launchers
from seqmodels.data.batches import collate
from seqmodels.training import loop
from seqmodels.training.config import TrainConfig
from seqmodels.training.trainer import Trainer
from seqmodels.utils.terminal import run_cli
from seqmodels.utils.world import world
from tools.sizes import sizes_of

CFG = TrainConfig(tokens=2_000, lr=1e-2, optimizer="muon", batch_tokens=100, n_validations=2)
SIZES = {"d_embed": 8, "d_maxout": 8, "d_align": 8, "d_ff": 24, "n_heads": 2, "n_layers": 2}
Tensors = dict[str, torch.Tensor]


def trainer_of(name: str, shards: int) -> Trainer:
    torch.manual_seed(1)
    sizes = sizes_of(name, d_model=16, n_positions=64, dropout=0.0, **SIZES)
    return Trainer(build(name, V, **sizes).double(), replace(CFG, shards=shards))


def train(shards: int = 4) -> Tensors:
    trainer, examples = trainer_of("gpt", shards), draw_examples(200, 20)
    curve = loop.train(trainer, examples[40:], examples[:40])
    assert trainer.progress.step >= 20
    losses = [*trainer.progress.losses, *(point["valid_nats"] for point in curve)]
    return trainer.tensors() | {"losses": torch.tensor(losses, dtype=torch.float64)}


def step_without_memory(shards: int = 2) -> Tensors:
    """Return weights and pieces after a step for which the last process first had no memory."""
    trainer, loss_of = trainer_of("gpt", shards), loop.loss_of

    def short(model: SequenceModel, piece: Batch, *rest: Any) -> torch.Tensor:
        if world().rank == world().size - 1 and len(piece.src) > 3:
            raise MemoryError
        return loss_of(model, piece, *rest)

    with mock.patch.object(loop, "loss_of", short):
        loop.training_step(trainer, trainer.prepare(collate(draw_examples(12, 9))))
    return {**trainer.tensors(), "n_parts": torch.tensor(trainer.progress.n_parts)}


def compare_remotely(out: Path, launcher: str) -> None:
    """Compare two models for a long time on Ray, or by submitit on this machine."""
    init = partialmethod(launchers.SlurmLauncher.__init__, cluster="local")
    launchers.SlurmLauncher.__init__ = init  # type: ignore[method-assign]
    task = toy(training=toy().training | {"tokens": 10_000_000, "n_validations": 4})
    given = {"checkpoint_every": 0.5, "device": "auto", "launcher": launcher}
    compare.compare(task, flags(out, models=["bahdanau", "gpt"], **given))


def main(out: Path, *names: str) -> None:
    torch.set_num_threads(1)
    for name in names:
        if name in ("ray", "slurm"):
            compare_remotely(out, name)
        else:
            tensors = train() if name == "train" else step_without_memory()
            torch.save(tensors, out / f"{name}-{world().rank}.pt")


if __name__ == "__main__":
    run_cli("worker", lambda: main(Path(sys.argv[1]), *sys.argv[2:]))
