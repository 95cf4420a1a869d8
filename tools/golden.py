"""The golden run: the losses of twenty fixed steps of every model with each optimiser.

They are kept in tests/golden.json.

    python -m tools.golden      write them again, after an intended change of numbers

Synthetic data, tiny sizes, one CPU thread. No dropout, because its masks differ between builds of
torch. In float64, because Muon turns the rounding of a gradient that lacks full rank into a step of
full size: in float32 two kinds of CPU disagree from the second step on.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch

from seqmodels import MODELS, build
from seqmodels.data import batches
from seqmodels.data.batches import Example
from seqmodels.interface import EOS
from seqmodels.training import loop
from seqmodels.training.config import Optimizer, TrainConfig
from seqmodels.training.trainer import Trainer
from tools.sizes import sizes_of

PATH = Path(__file__).parents[1] / "tests" / "golden.json"
V = 24
OPTIMIZERS: tuple[Optimizer, ...] = "adamw", "muon"
CFG = TrainConfig(
    tokens=3_000, lr=1e-2, muon_lr=2e-2, batch_tokens=120, label_smoothing=0.1, seed=5
)
SIZES = {
    "d_model": 24, "d_embed": 16, "d_maxout": 12, "d_align": 16, "d_ff": 48, "n_heads": 2,
    "n_layers": 2, "n_positions": 32, "forget_bias": 1.0, "dropout": 0.0,
}  # fmt: skip


def trainer_of(name: str, optimizer: Optimizer) -> Trainer:
    """Return a trainer for an untrained model."""
    torch.manual_seed(CFG.seed)
    model = build(name, V, **sizes_of(name, **SIZES)).double().train()
    return Trainer(model, replace(CFG, optimizer=optimizer))


def losses(trainer: Trainer) -> list[float]:
    """Take twenty steps; return the loss before each."""
    rng = random.Random(5)
    texts = [[rng.randrange(4, V) for _ in range(rng.randint(1, 9))] for _ in range(64)]
    examples = [Example([*text, EOS], [*text[::-1], EOS]) for text in texts]
    for _, _, rows in islice(batches.batch_indices(examples, CFG.batch_tokens, CFG.seed), 20):
        batch = batches.collate([examples[i] for i in rows])
        loop.training_step(trainer, trainer.prepare(batch))
    return trainer.progress.losses


if __name__ == "__main__":
    torch.set_num_threads(1)
    runs = {o: {name: losses(trainer_of(name, o)) for name in MODELS} for o in OPTIMIZERS}
    PATH.write_text(json.dumps({"torch": torch.__version__, **runs}, indent=1) + "\n")
