"""A model in training: its optimisers, its batches, its progress, and all that resumes it."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from seqmodels.data.batches import Example, batch_indices, collate
from seqmodels.interface import PAD, Batch, SequenceModel
from seqmodels.training.config import Progress, TrainConfig
from seqmodels.training.graphs import BackwardGraphs
from seqmodels.training.optimizers import make_optimizers
from seqmodels.utils.terminal import SILENT, ProgressBar

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

# oneDNN caches kernels for 1,024 shapes; the shapes of batches seldom recur.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")

N_LOSSES, EVERY = 20, 10
"""Recent losses whose mean a bar shows, and steps between two such points in TensorBoard."""


class PreparedBatch(NamedTuple):
    """A batch that is ready to be trained on, on the model's device."""

    rows: Batch
    n_targets: int
    """Its scored target tokens: counted on the CPU, so that a GPU is not waited for."""
    next_place: tuple[int, int]
    """Epoch and number of the batch after it."""


class Trainer:
    """A model in training: its optimisers and progress, and the state needed to resume."""

    def __init__(self, model: SequenceModel, cfg: TrainConfig, bar: ProgressBar = SILENT):
        self.model, self.cfg, self.progress = model, cfg, Progress()
        self.bar, self.log = bar, bar.log
        self.best: dict[str, Tensor] = {}
        """The weights with the lowest validation loss so far."""
        self.device = next(model.parameters()).device
        self.optimizers = make_optimizers(model, cfg)
        self.graphs: BackwardGraphs | None = None
        """The recorded graphs that compute gradients on a GPU."""

    # -------------------------------------------------------------------------- Batches

    def batches(self, examples: Sequence[Example]) -> Iterator[PreparedBatch]:
        """Yield the batches that come next, without end."""
        cfg, progress = self.cfg, self.progress
        for epoch, n, rows in batch_indices(
            examples, cfg.batch_tokens, cfg.seed, progress.epoch, progress.batch
        ):
            yield self.prepare(collate([examples[i] for i in rows]), (epoch, n + 1))

    def prepare(self, batch: Batch, next_place: tuple[int, int] = (0, 0)) -> PreparedBatch:
        """Move a batch to the model's device, a GPU asynchronously, and count its targets."""
        n_targets = int((batch.tgt_out != PAD).sum())
        if self.device.type == "cuda" and not batch.src.is_cuda:
            batch = Batch(*(tensor.contiguous().pin_memory() for tensor in batch))
        rows = Batch(*(tensor.to(self.device, non_blocking=True) for tensor in batch))
        return PreparedBatch(rows, n_targets, next_place)

    # ------------------------------------------------------------------------- Progress

    def show(self, curves: SummaryWriter | None) -> None:
        """Draw how far the training is, and its latest losses."""
        progress, n = self.progress, self.cfg.tokens
        if curves:
            for name, value in self.points().items():
                curves.add_scalar(name, value, progress.step)
        last = {
            "train": progress.losses,
            "valid": [p["valid_nats"] for p in progress.curve[-1:]],
        }
        note = ", ".join(f"{name} {fmean(values):.3f}" for name, values in last.items() if values)
        self.bar.update("training", min(progress.tokens, n), n, note)

    def points(self) -> dict[str, float]:
        """Return the points of the latest step for TensorBoard; those of training are means."""
        progress, points = self.progress, dict[str, float]()
        if progress.losses and progress.step % EVERY == 0:
            points["loss/train (nats per token)"] = fmean(progress.losses[-EVERY:])
            points["training/learning rate"] = self.cfg.lr * self.next_lr_factor()
            points["training/tokens per second"] = progress.tokens / progress.seconds
        if progress.curve and progress.curve[-1]["step"] == progress.step:
            points["loss/valid (nats per token)"] = progress.curve[-1]["valid_nats"]
            points["accuracy/valid (%)"] = progress.curve[-1]["valid_accuracy"]
        return points

    def next_lr_factor(self) -> float:
        """Return the learning rates of the next step, as a share of their peaks."""
        spent, warmup = (self.progress.tokens + 1) / self.cfg.tokens, self.cfg.warmup
        return min(spent / warmup if warmup else 1.0, max(0.0, 1 - spent) / (1 - warmup), 1.0)

    def log_event(self, kind: str, message: str) -> None:
        """Log an event, and keep it for the record."""
        self.log(f"step {self.progress.step:,}: {message}")
        self.progress.events.append({"step": self.progress.step, "kind": kind, "what": message})

    def add_point(self, scores: Mapping[str, float]) -> None:
        """Add a point to the curve; the weights are kept if it is the best.

        Raises ValueError if the validation loss is not finite.
        """
        progress, n = self.progress, self.progress.n_losses
        point = {
            "step": progress.step,
            "tokens": progress.tokens,
            "seconds": round(progress.seconds, 3),
            "train_nats": progress.nats_sum / n if n else math.nan,
            **scores,
        }
        if not math.isfinite(point["valid_nats"]):
            raise ValueError(
                f"training diverged after {progress.tokens:,} tokens; use an lr below {self.cfg.lr}"
            )
        progress.curve.append(point)
        progress.nats_sum, progress.n_losses = 0.0, 0
        if point["valid_nats"] <= min(p["valid_nats"] for p in progress.curve):
            self.best = {k: v.detach().clone() for k, v in self.model.state_dict().items()}

    # --------------------------------------------------------------------------- Resume

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors needed to resume: weights, the best ones, the optimisers' moments.

        The states of the random generators are among them.
        """
        tensors = {f"model/{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= {f"best/{name}": tensor for name, tensor in self.best.items()}
        names: dict[Tensor, str] = {p: name for name, p in self.model.named_parameters()}
        for optimizer in self.optimizers:
            for p, moments in optimizer.state.items():
                tensors |= {f"{key}/{names[p]}": t for key, t in moments.items()}
        tensors["generator/cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["generator/cuda"] = torch.cuda.get_rng_state(self.device)
        return tensors

    def restore(self, tensors: Mapping[str, Tensor], progress: Mapping[str, Any]) -> None:
        """Resume from `tensors` and `progress`.

        Raises RuntimeError that names what does not match.
        """
        kinds: dict[str, dict[str, Tensor]] = defaultdict(dict)
        for name, tensor in tensors.items():
            kind, _, parameter = name.partition("/")
            kinds[kind][parameter] = tensor
        self.model.load_state_dict(kinds.pop("model"))
        self.best = {k: tensor.to(self.device) for k, tensor in kinds.pop("best", {}).items()}
        generators = kinds.pop("generator")
        torch.set_rng_state(generators["cpu"])
        if self.device.type == "cuda" and "cuda" in generators:
            torch.cuda.set_rng_state(generators["cuda"], self.device)
        names = {p: name for name, p in self.model.named_parameters()}
        for optimizer in self.optimizers:
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            for key, p in product(kinds, parameters):
                if names[p] in kinds[key]:  # none before the first step
                    optimizer.state[p][key] = kinds[key][names[p]].to(self.device)
        self.progress = Progress(**progress)
