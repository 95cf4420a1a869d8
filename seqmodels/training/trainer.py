"""A model in training: its optimiser, its progress, and all that resumes it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seqmodels.interface import Batch, SequenceModel
from seqmodels.training.batches import PreparedBatch, prepare
from seqmodels.training.config import Progress, TrainConfig
from seqmodels.training.runtime import rng_states, set_rng_states
from seqmodels.utils.progress import SILENT, StatusFile

ADAMW_STATE = ("step", "exp_avg", "exp_avg_sq")
"""AdamW's state for each parameter."""
N_LOSSES = 100
"""Recent losses with which a loss is compared to detect a spike."""
SPIKE_NATS, SPIKE_DEVIATIONS = 1.0, 6.0
"""A loss is a spike if it exceeds the recent mean by both."""
MAX_SKIPPED = 10
"""Batches without a finite loss that a run skips before it stops."""
MAX_EVENTS = 1_000
"""Events in a record, at most."""


class Trainer:
    """A model in training: all that one batch changes, and all that is needed to resume."""

    def __init__(self, model: SequenceModel, cfg: TrainConfig, status: StatusFile = SILENT):
        self.model, self.cfg, self.progress = model, cfg, Progress()
        self.status, self.log = status, status.line
        self.best: dict[str, Tensor] = {}
        """The weights with the lowest validation loss so far."""
        self.device = next(model.parameters()).device
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            cfg.lr,
            (0.9, cfg.beta_2),
            weight_decay=cfg.weight_decay,
            fused=True,
        )

    def prepare(self, batch: Batch) -> PreparedBatch:
        """Return a batch on the CPU as `loop.training_step` takes it."""
        return prepare(batch, self.cfg.shards, self.device)

    # ------------------------------------------------------------------------- Progress

    def next_lr(self) -> float:
        """Return the learning rate of the next step."""
        since = self.progress.schedule_from
        done = (self.progress.tokens + 1 - since) / (self.cfg.tokens - since)
        return self.cfg.lr * lr_factor(done, self.cfg.warmup)

    def count_step(self, batch: PreparedBatch, loss: float, seconds: float) -> None:
        """Add one step to the progress; note a spike, or a batch without a finite loss.

        Raises ValueError if too many batches had no finite loss or gradient.
        """
        progress = self.progress
        progress.epoch, progress.batch = batch.next_place
        progress.step += 1
        progress.tokens += batch.n_targets
        progress.seconds += seconds
        if math.isfinite(loss):
            progress.nats_sum += loss
            progress.n_losses += 1
            if is_spike(loss, progress.losses):
                usual = statistics.fmean(progress.losses)
                lines = describe_lines(batch.lines)
                self.log_event("spike", f"loss {loss:.3g}, usually {usual:.3g}; {lines}")
            progress.losses = [*progress.losses[1 - N_LOSSES :], loss]
            return
        progress.n_skipped += 1
        where = f"no finite loss or gradient; {describe_lines(batch.lines)}"
        if progress.n_skipped > MAX_SKIPPED:
            raise ValueError(
                f"training diverged at step {progress.step:,}: {where}, after {MAX_SKIPPED} "
                f"batches skipped for this reason; the last checkpoint is kept; use an lr below "
                f"{self.cfg.lr}"
            )
        self.log_event("skipped", f"batch skipped: {where}")

    def halve_pieces(self, batch: PreparedBatch) -> None:
        """Split batches into twice as many pieces from here on.

        Raises ValueError if a piece is a single row already.
        """
        n_parts = 2 * self.progress.n_parts
        if n_parts >= 2 * -(-batch.n_rows // self.cfg.shards):
            raise ValueError("out of memory with one sentence at a time; choose smaller sizes")
        self.progress.n_parts = n_parts
        self.log_event("memory", f"out of memory; batches are in {n_parts} pieces from here on")

    def log_event(self, kind: str, what: str) -> None:
        """Log an event, and keep it for the record."""
        self.log(f"step {self.progress.step:,}: {what}")
        if len(self.progress.events) < MAX_EVENTS:
            self.progress.events.append({"step": self.progress.step, "kind": kind, "what": what})

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
        """Return all tensors needed to resume: weights, the best ones, AdamW's moments."""
        tensors = {f"model/{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= {f"best/{name}": tensor for name, tensor in self.best.items()}
        for name, p in self.model.named_parameters():
            tensors |= {f"{key}/{name}": t for key, t in self.optimizer.state.get(p, {}).items()}
        return tensors

    def state(self) -> dict[str, Any]:
        """Return everything else needed to resume, in JSON types."""
        return {"progress": self.progress.model_dump(), "generators": rng_states()}

    def restore(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Resume from `tensors` and `state`.

        Raises ValueError that names what does not match.
        """
        progress = Progress.restore(state.get("progress"))
        weights, best, *moments = (
            {k.partition("/")[2]: t for k, t in tensors.items() if k.startswith(f"{kind}/")}
            for kind in ("model", "best", *ADAMW_STATE)
        )
        parameters = dict(self.model.named_parameters())
        scalars = {name: torch.zeros(()) for name in parameters}
        check_shapes(weights, self.model.state_dict())
        check_shapes(best, self.model.state_dict() if best else {})
        for key, moment in zip(ADAMW_STATE, moments, strict=True):
            expected = scalars if key == "step" else parameters
            check_shapes(moment, expected if any(moments) else {})
        self.model.load_state_dict(weights)
        self.best = {name: tensor.to(self.device) for name, tensor in best.items()}
        for name, p in parameters.items() if any(moments) else ():
            self.optimizer.state[p] = {
                key: moment[name].to(self.device)
                for key, moment in zip(ADAMW_STATE, moments, strict=True)
            }
        self.progress = progress
        set_rng_states(state.get("generators"))


def lr_factor(done: float, warmup: float) -> float:
    """Return the learning rate, as a share of its peak, after the share `done` of the budget."""
    return min(done / warmup if warmup else 1.0, (1 - done) / (1 - warmup), 1.0)


def is_spike(loss: float, losses: Sequence[float]) -> bool:
    """Return whether a loss exceeds the last ones' mean by a nat and six standard deviations."""
    if len(losses) < N_LOSSES or loss <= SPIKE_NATS + statistics.fmean(losses):
        return False
    return bool(loss > np.mean(losses) + SPIKE_DEVIATIONS * np.std(losses))


def describe_lines(lines: Sequence[int]) -> str:
    """Return the lines of a batch's examples, the first few of them."""
    more = ", …" if len(lines) > 8 else ""
    return f"lines {', '.join(map(str, sorted(lines)[:8]))}{more} of the training data"


def check_shapes(tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Raise ValueError that names a tensor which is missing, unknown, or of another shape."""
    for name in sorted({*tensors, *expected}):
        actual, wanted = (
            f"{t[name].dtype} {list(t[name].shape)}" if name in t else "missing"
            for t in (tensors, expected)
        )
        if actual != wanted:
            raise ValueError(f"{name} is {actual}, expected {wanted}")
