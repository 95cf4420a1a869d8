"""A model in training: what one batch changes, and all that is needed to resume."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from seqmodels.interface import PAD, Batch, SequenceModel
from seqmodels.records.schema import check
from seqmodels.training.config import Progress, TrainConfig
from seqmodels.training.rng import (
    cuda_rng_states,
    rng_states,
    seed_shard,
    set_rng_states,
    set_torch_rng_states,
)
from seqmodels.utils.status import SILENT, StatusFile
from seqmodels.utils.world import world

ADAMW_STATE = ("step", "exp_avg", "exp_avg_sq")
"""AdamW's state for each parameter."""
N_LOSSES = 100
"""Recent losses with which a loss is compared to detect a spike."""
MAX_SKIPPED = 10
"""Batches without a finite loss that a run skips before it stops."""
MAX_EVENTS = 1_000
"""Events in a record, at most."""


class Piece(NamedTuple):
    """Rows of a batch that go through the model together, on its device."""

    shard: int
    part: Batch
    share: float
    """Their part of the batch's target tokens."""


class Trainer:
    """A model in training: all that one batch changes, and all that is needed to resume."""

    def __init__(self, model: SequenceModel, cfg: TrainConfig):
        self.model, self.cfg, self.progress = model, cfg, Progress()
        self.best: dict[str, Tensor] = {}
        self.device = next(model.parameters()).device
        self.is_ahead = self.device.type == "cuda"
        """Whether a thread makes the next batch."""
        self.made: tuple[Batch | None, int, list[Piece]] = None, 1, []
        """The pieces that it has made, and of what batch in how many."""
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            cfg.lr,
            (0.9, cfg.beta_2),
            weight_decay=cfg.weight_decay,
            fused=True,
        )

    def optimizer_step(self, batch: Batch, lr: float) -> float:
        """Take one step at this learning rate; return the loss before it.

        If the loss or the gradient is not finite, nothing is changed, and NaN is returned.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        found = self.backward(batch), self.clip().double()
        loss, norm = torch.stack(found).tolist()  # a GPU is read, and waited for, only here
        if not math.isfinite(loss + norm):
            return math.nan
        self.optimizer.step()
        return loss

    def clip(self) -> Tensor:
        """Clip the gradient; return its norm before that."""
        return torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.max_grad_norm)

    def backward(self, batch: Batch) -> Float[Tensor, ""]:
        """Compute the gradient of the mean loss; return the loss, or NaN without targets.

        Every process adds its shares' part, and then has the sums. If memory runs out in any of
        them, the shares are halved repeatedly in all: the same gradient, in pieces. Raises
        ValueError if a single row is too much.
        """
        while True:
            self.optimizer.zero_grad()
            loss, is_full = self.no_loss(batch), False
            try:
                for part in self.parts(batch):
                    loss += self.backward_part(*part)
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

    def no_loss(self, batch: Batch) -> Float[Tensor, ""]:
        """Return a sum of losses to begin with: zero, or NaN if there is nothing to score."""
        start = 0.0 if count_targets(batch) else math.nan
        return torch.tensor(start, dtype=torch.float64, device=self.device)

    def parts(self, batch: Batch) -> Iterator[tuple[Batch, float]]:
        """Yield this process's pieces with targets, each with its part of all target tokens.

        Where there are several shards, a piece is yielded with its shard's random numbers begun:
        they depend on seed, step and shard, and not on the process.
        """
        made, n_parts, pieces = self.made
        if made is not batch or n_parts != self.progress.n_parts:
            pieces = self.pieces(batch)
        begun = None
        for shard, part, share in pieces:
            if self.cfg.shards > 1 and shard != begun:
                seed_shard(self.cfg.seed, self.progress.step, shard)
            begun = shard
            yield part, share

    def pieces(self, batch: Batch) -> list[Piece]:
        """Return this process's pieces with targets; a thread may call this for a later batch."""
        n_all, shards, found = count_targets(batch), self.cfg.shards, []
        for i in world().mine(range(shards)):
            shard = take_rows(batch, i, shards) if shards > 1 else batch
            columns = (tensor.chunk(self.progress.n_parts) for tensor in shard)
            for part in map(Batch._make, zip(*columns, strict=True)):
                if n := count_targets(part):
                    found.append(Piece(i, self.placed(part), n / n_all))
        return found

    def placed(self, part: Batch) -> Batch:
        """Return a piece on the model's device; a GPU copies it when it comes to it."""
        if self.device.type == "cuda":
            part = Batch(*(tensor.contiguous().pin_memory() for tensor in part))
        return Batch(*(tensor.to(self.device, non_blocking=True) for tensor in part))

    def backward_part(self, part: Batch, share: float) -> Float[Tensor, ""]:
        """Add the gradient of one piece's share of the loss; return that share."""
        is_bfloat16 = self.cfg.precision == "bfloat16"
        with torch.autocast(part.src.device.type, torch.bfloat16, enabled=is_bfloat16):
            loss = loss_of(self.model, part, self.cfg.label_smoothing) * share
        loss.backward()
        return loss.detach()

    def training_step(self, batch: Batch, lines: Sequence[int]) -> None:
        """Take the next step of the schedule, and then update the progress.

        If the step itself raises, progress and random generators are as they were before it.
        Raises ValueError if too many batches had no finite loss or gradient.
        """
        at, cfg, since, lr = self.progress, self.cfg, time.perf_counter(), self.next_lr()
        n = count_targets(batch)
        rng_before = torch.get_rng_state(), cuda_rng_states()
        try:
            loss = self.optimizer_step(batch, lr)
        except BaseException:
            set_torch_rng_states(*rng_before)  # for dropout: the same batch will be repeated
            raise
        at.step, at.tokens = at.step + 1, at.tokens + n
        at.seconds += time.perf_counter() - since
        if math.isfinite(loss):
            at.nats_sum, at.n_losses = at.nats_sum + loss, at.n_losses + 1
            if is_spike(loss, at.losses):
                usual = statistics.fmean(at.losses)
                self.log_event(
                    "spike", f"loss {loss:.3g}, usually {usual:.3g}; {describe_lines(lines)}"
                )
            at.losses = [*at.losses[1 - N_LOSSES :], loss]
            return
        at.n_skipped += 1
        where = f"no finite loss or gradient; {describe_lines(lines)}"
        if at.n_skipped > MAX_SKIPPED:
            raise ValueError(
                f"training diverged at step {at.step:,}: {where}, after {MAX_SKIPPED} batches "
                f"skipped for this reason; the last checkpoint is kept; use an lr below {cfg.lr}"
            )
        self.log_event("skipped", f"batch skipped: {where}")

    def next_lr(self) -> float:
        """Return the learning rate of the next step."""
        at, cfg = self.progress, self.cfg
        done = (at.tokens + 1 - at.schedule_from) / (cfg.tokens - at.schedule_from)
        return cfg.lr * lr_factor(done, cfg.warmup)

    def log_event(self, kind: str, what: str) -> None:
        """Log an event, and keep it for the record."""
        self.log(f"step {self.progress.step:,}: {what}")
        if len(self.progress.events) < MAX_EVENTS:
            self.progress.events.append({"step": self.progress.step, "kind": kind, "what": what})

    log: Callable[[str], None] = staticmethod(print)
    """Shows a line to the user."""
    status: StatusFile = SILENT
    """Says how far the run is."""

    def add_point(self, scores: Mapping[str, float]) -> None:
        """Add a point to the curve; the weights are kept if it is the best.

        Raises ValueError if the validation loss is not finite.
        """
        at = self.progress
        point = {"step": at.step, "tokens": at.tokens, "seconds": round(at.seconds, 3)}
        point |= {"train_nats": at.nats_sum / at.n_losses if at.n_losses else math.nan, **scores}
        if not math.isfinite(point["valid_nats"]):
            raise ValueError(
                f"training diverged after {at.tokens:,} tokens; use an lr below {self.cfg.lr}"
            )
        at.curve.append(point)
        at.nats_sum, at.n_losses = 0.0, 0
        if point["valid_nats"] <= min(p["valid_nats"] for p in at.curve):
            self.best = {k: v.detach().clone() for k, v in self.model.state_dict().items()}

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors needed to resume: weights, the best ones, AdamW's moments."""
        found = {f"model/{name}": tensor for name, tensor in self.model.state_dict().items()}
        found |= {f"best/{name}": tensor for name, tensor in self.best.items()}
        for name, p in self.model.named_parameters():
            found |= {f"{key}/{name}": t for key, t in self.optimizer.state.get(p, {}).items()}
        return found

    def state(self) -> dict[str, Any]:
        """Return everything else needed to resume, in JSON types."""
        return {"progress": self.progress.model_dump(), "generators": rng_states()}

    def restore(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Resume from `tensors` and `state`.

        Raises ValueError that names what does not match.
        """
        progress = check(Progress, state.get("progress"))
        weights, best, *moments = (
            {k.partition("/")[2]: t for k, t in tensors.items() if k.startswith(f"{kind}/")}
            for kind in ("model", "best", *ADAMW_STATE)
        )
        parameters = dict(self.model.named_parameters())
        scalars = {name: torch.zeros(()) for name in parameters}
        check_shapes(weights, self.model.state_dict())
        check_shapes(best, self.model.state_dict() if best else {})
        for key, found in zip(ADAMW_STATE, moments, strict=True):
            expected = scalars if key == "step" else parameters
            check_shapes(found, expected if any(moments) else {})
        self.model.load_state_dict(weights)
        device = next(self.model.parameters()).device
        self.best = {name: tensor.to(device) for name, tensor in best.items()}
        for name, p in parameters.items() if any(moments) else ():
            self.optimizer.state[p] = {
                key: found[name].to(device) for key, found in zip(ADAMW_STATE, moments, strict=True)
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
    if len(losses) < N_LOSSES or loss <= 1 + statistics.fmean(losses):
        return False
    return bool(loss > np.mean(losses) + 6 * np.std(losses))


def describe_lines(lines: Sequence[int]) -> str:
    """Return the lines of a batch's examples, the first few of them."""
    more = ", …" if len(lines) > 8 else ""
    return f"lines {', '.join(map(str, sorted(lines)[:8]))}{more} of the training data"


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out, on a GPU or according to torch or oneDNN."""
    is_full = isinstance(error, (torch.OutOfMemoryError, MemoryError))
    return is_full or any(text in str(error) for text in OUT_OF_MEMORY_ERRORS)


OUT_OF_MEMORY_ERRORS = (
    "can't allocate memory",
    "could not create a primitive",
    "could not create a memory object",
)
"""Messages of torch and oneDNN when a CPU's memory is full."""


def check_shapes(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Raise ValueError that names a tensor which is missing, unknown, or of another shape."""
    for name in sorted({*found, *expected}):
        actual, wanted = (
            f"{t[name].dtype} {list(t[name].shape)}" if name in t else "missing"
            for t in (found, expected)
        )
        if actual != wanted:
            raise ValueError(f"{name} is {actual}, expected {wanted}")
