"""A model in training: its gradient, its optimiser, its progress, and all that resumes it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from seqmodels.interface import PAD, Batch, SequenceModel
from seqmodels.training.config import Progress, TrainConfig
from seqmodels.training.runtime import is_out_of_memory, rng_states, seed_shard, set_rng_states
from seqmodels.utils.status import SILENT, StatusFile
from seqmodels.utils.world import world

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


class Piece(NamedTuple):
    """Rows of a batch that go through the model together, on its device."""

    shard: int
    part: Batch
    share: float
    """Fraction of the batch's target tokens in this piece."""


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

    # ------------------------------------------------------------------------- Gradient

    def backward(self, batch: Batch, pieces: list[Piece] | None = None) -> Float[Tensor, ""]:
        """Compute the gradient of the mean loss; return the loss, or NaN without targets.

        Each process adds the gradients of its pieces of the batch; then all have the sum. Pieces
        that were split in advance are used unless memory has run out before. If it runs out in any
        of the processes, all halve their pieces: the same gradient, in more parts. Raises
        ValueError if a single row is too much.
        """
        while True:
            self.optimizer.zero_grad()
            start = 0.0 if count_targets(batch) else math.nan
            loss, is_full = torch.tensor(start, dtype=torch.float64, device=self.device), False
            try:
                if pieces is None or self.progress.n_parts > 1:
                    pieces = self.split(batch)
                for piece in self.seeded(pieces):
                    loss += self.backward_piece(piece)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                is_full = True
            if not any(world().sums(is_full)):
                world().sum_gradients(self.model.parameters())
                world().add_up(loss)
                return loss
            n_parts = 2 * self.progress.n_parts
            if n_parts >= 2 * -(-len(batch.src) // self.cfg.shards):
                raise ValueError("out of memory with one sentence at a time; choose smaller sizes")
            self.progress.n_parts = n_parts
            self.log_event("memory", f"out of memory; batches are in {n_parts} pieces from here on")

    def backward_piece(self, piece: Piece) -> Float[Tensor, ""]:
        """Add the gradient of one piece's share of the loss; return that share."""
        is_bfloat16 = self.cfg.precision == "bfloat16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=is_bfloat16):
            loss = loss_of(self.model, piece.part, self.cfg.label_smoothing) * piece.share
        loss.backward()
        return loss.detach()

    def split(self, batch: Batch) -> list[Piece]:
        """Return this process's pieces of a batch that have targets, on the model's device."""
        n_all, shards, pieces = count_targets(batch), self.cfg.shards, []
        for i in world().my_shard(range(shards)):
            shard = take_rows(batch, i, shards) if shards > 1 else batch
            columns = (tensor.chunk(self.progress.n_parts) for tensor in shard)
            for part in map(Batch._make, zip(*columns, strict=True)):
                if n := count_targets(part):
                    pieces.append(Piece(i, self.to_device(part), n / n_all))
        return pieces

    def seeded(self, pieces: Sequence[Piece]) -> Iterator[Piece]:
        """Yield pieces, each shard's with random numbers of its own if there are several shards.

        They depend on seed, step and shard, and not on the process.
        """
        previous = None
        for piece in pieces:
            if self.cfg.shards > 1 and piece.shard != previous:
                seed_shard(self.cfg.seed, self.progress.step, piece.shard)
            previous = piece.shard
            yield piece

    def to_device(self, part: Batch) -> Batch:
        """Return a piece on the model's device; a GPU copies it when it comes to it."""
        if self.device.type == "cuda":
            part = Batch(*(tensor.contiguous().pin_memory() for tensor in part))
        return Batch(*(tensor.to(self.device, non_blocking=True) for tensor in part))

    # ------------------------------------------------------------------------- Progress

    def next_lr(self) -> float:
        """Return the learning rate of the next step."""
        progress, cfg = self.progress, self.cfg
        done = (progress.tokens + 1 - progress.schedule_from) / (
            cfg.tokens - progress.schedule_from
        )
        return cfg.lr * lr_factor(done, cfg.warmup)

    def count_step(self, n_tokens: int, loss: float, seconds: float, lines: Sequence[int]) -> None:
        """Add one step to the progress; note a spike, or a batch without a finite loss.

        Raises ValueError if too many batches had no finite loss or gradient.
        """
        progress = self.progress
        progress.step, progress.tokens, progress.seconds = (
            progress.step + 1,
            progress.tokens + n_tokens,
            progress.seconds + seconds,
        )
        if math.isfinite(loss):
            progress.nats_sum, progress.n_losses = progress.nats_sum + loss, progress.n_losses + 1
            if is_spike(loss, progress.losses):
                usual = statistics.fmean(progress.losses)
                self.log_event(
                    "spike", f"loss {loss:.3g}, usually {usual:.3g}; {describe_lines(lines)}"
                )
            progress.losses = [*progress.losses[1 - N_LOSSES :], loss]
            return
        progress.n_skipped += 1
        where = f"no finite loss or gradient; {describe_lines(lines)}"
        if progress.n_skipped > MAX_SKIPPED:
            raise ValueError(
                f"training diverged at step {progress.step:,}: {where}, after {MAX_SKIPPED} "
                f"batches skipped for this reason; the last checkpoint is kept; use an lr below "
                f"{self.cfg.lr}"
            )
        self.log_event("skipped", f"batch skipped: {where}")

    def log_event(self, kind: str, what: str) -> None:
        """Log an event, and keep it for the record."""
        self.log(f"step {self.progress.step:,}: {what}")
        if len(self.progress.events) < MAX_EVENTS:
            self.progress.events.append({"step": self.progress.step, "kind": kind, "what": what})

    def add_point(self, scores: Mapping[str, float]) -> None:
        """Add a point to the curve; the weights are kept if it is the best.

        Raises ValueError if the validation loss is not finite.
        """
        progress = self.progress
        point = {
            "step": progress.step,
            "tokens": progress.tokens,
            "seconds": round(progress.seconds, 3),
        }
        point |= {
            "train_nats": progress.nats_sum / progress.n_losses if progress.n_losses else math.nan,
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


def loss_of(model: SequenceModel, batch: Batch, label_smoothing: float = 0.0) -> Float[Tensor, ""]:
    """Return the mean loss in nats per target token."""
    logits = model(batch.src, batch.src_mask, batch.tgt_in)
    if logits.dtype == torch.bfloat16:  # too coarse to sum over a vocabulary
        logits = logits.float()
    return F.cross_entropy(
        logits.flatten(0, 1),
        batch.tgt_out.flatten(),
        ignore_index=PAD,
        label_smoothing=label_smoothing,
    )


def count_targets(batch: Batch) -> int:
    """Return the number of target tokens that are scored."""
    return int((batch.tgt_out != PAD).sum())


def take_rows(batch: Batch, first: int, step: int) -> Batch:
    """Return every step-th row, without the columns that only other rows need."""
    src, src_mask, tgt_in, tgt_out = (tensor[first::step] for tensor in batch)
    n_src, n_tgt = (int(real.any(0).sum()) for real in (src_mask, tgt_in != PAD))
    return Batch(src[:, :n_src], src_mask[:, :n_src], tgt_in[:, :n_tgt], tgt_out[:, :n_tgt])


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
