"""The training loop: the same optimiser, data order and budget for every model.

Read `train` first, then what it calls for each batch: `training_step`, `backward`, `loss_of`.
examples/train_one.py is the same loop without what makes this one survive.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from seqmodels.data.batches import Example
from seqmodels.evaluation.evaluate import score_teacher_forced
from seqmodels.interface import PAD, Batch, SequenceModel
from seqmodels.training.checkpoint import Checkpoint
from seqmodels.training.config import Point, Progress, TrainConfig
from seqmodels.training.graphs import BackwardGraphs
from seqmodels.training.trainer import N_LOSSES, PreparedBatch, Trainer
from seqmodels.utils.terminal import SILENT, ProgressBar, defer_signals

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


def train(
    trainer: Trainer,
    examples: Sequence[Example],
    valid: Sequence[Example],
    checkpoint: Checkpoint | None = None,
    curves: SummaryWriter | None = None,
) -> list[Point]:
    """Train until the budget is spent; leave the model with its best weights, return the curve.

    A trainer restored from a checkpoint continues as if it had never stopped: the same batches, the
    same random numbers, the same bits. A checkpoint is saved when one is due, when a signal asks to
    stop, and at the end.
    """
    cfg, progress = trainer.cfg, trainer.progress
    if not progress.step:
        torch.manual_seed(cfg.seed)
    trainer.model.train()
    if trainer.device.type == "cuda" and cfg.micro_batches == 1:
        loss = partial(loss_of, trainer.model, cfg)
        trainer.graphs = BackwardGraphs(loss, trainer.model.parameters())

    def save() -> None:
        with defer_signals():  # the end of another process of a pool sends one more
            if checkpoint:
                checkpoint.save(trainer.tensors(), asdict(progress))

    torch.set_flush_denormal(True)  # numbers below 1e-38 make a CPU many times slower
    try:
        with closing(prefetch(trainer.batches(examples), trainer.device)) as its:
            while True:
                if is_validation_due(progress, cfg):
                    scores = validate(trainer.model, valid, trainer.bar)
                    with defer_signals():
                        trainer.add_point(scores)
                trainer.show(curves)
                if progress.tokens >= cfg.tokens:
                    break
                batch = next(its)
                with defer_signals():  # a step is taken completely or not at all
                    training_step(trainer, batch)
                if checkpoint and checkpoint.is_due():
                    save()
    except KeyboardInterrupt:
        save()
        raise
    finally:
        torch.set_flush_denormal(False)
    save()
    trainer.model.load_state_dict(trainer.best)
    return progress.curve


def training_step(trainer: Trainer, batch: PreparedBatch) -> None:
    """Take the next step of the schedule, and count it.

    Raises ValueError if the loss or the gradient is not finite.
    """
    started, progress = time.perf_counter(), trainer.progress
    loss_value = backward(trainer, batch)
    gradient = clip_grad_norm_(trainer.model.parameters(), trainer.cfg.max_grad_norm)
    loss, norm = torch.stack([loss_value, gradient.double()]).tolist()  # waits for a GPU
    if not math.isfinite(loss + norm):
        raise ValueError(
            f"training diverged at step {progress.step + 1:,}: no finite loss or "
            f"gradient; the last checkpoint is kept; use an lr below {trainer.cfg.lr}"
        )
    lr_factor = trainer.next_lr_factor()
    for optimizer in trainer.optimizers:
        for group in optimizer.param_groups:
            group["lr"] = lr_factor * group["peak_lr"]
        optimizer.step()
    progress.epoch, progress.batch = batch.next_place
    progress.step += 1
    progress.tokens += batch.n_targets
    progress.seconds += time.perf_counter() - started
    progress.nats_sum += loss
    progress.n_losses += 1
    progress.losses = [*progress.losses[1 - N_LOSSES :], loss]


def backward(trainer: Trainer, batch: PreparedBatch) -> Float[Tensor, ""]:
    """Compute the gradient of the mean loss, in one part or several; return the loss."""
    if trainer.graphs:
        try:
            return trainer.graphs(batch.rows).double()
        except RuntimeError as error:  # the model waits for the GPU, or memory is full
            trainer.graphs = None
            trainer.log_event("graphs", f"continues without CUDA graphs: {str(error)[:200]}")
    trainer.model.zero_grad()
    parts, losses = (t.tensor_split(trainer.cfg.micro_batches) for t in batch.rows), []
    for rows in zip(*parts, strict=True):
        if share := int((rows[3] != PAD).sum()) / batch.n_targets:
            losses.append(share * loss_of(trainer.model, trainer.cfg, Batch(*rows)))
            losses[-1].backward()
    return torch.stack(losses).detach().double().sum()


def loss_of(model: SequenceModel, cfg: TrainConfig, batch: Batch) -> Float[Tensor, ""]:
    """Return the loss per target token, cross-entropy in nats, in the precision of training.

    It is the target's and, for a model of texts, a share of the source's.
    """
    is_bfloat16, smoothing = cfg.precision == "bfloat16", cfg.label_smoothing
    with torch.autocast(batch.src.device.type, torch.bfloat16, enabled=is_bfloat16):
        if not cfg.source_loss:
            logits = model(batch.src, batch.src_mask, batch.tgt_in)
            if cfg.loss == "squared":
                return squared_error(logits, batch.tgt_out)
            return cross_entropy(logits, batch.tgt_out, label_smoothing=smoothing)
        logits = model.text_logits(batch.src, batch.src_mask, batch.tgt_in)
        of_source, of_target = logits.tensor_split([batch.src.shape[1]], 1)
        nats = cross_entropy(of_source[:, :-1], batch.src[:, 1:], reduction="sum")
        target = cross_entropy(of_target, batch.tgt_out, label_smoothing=smoothing)
        return target + cfg.source_loss * nats / (batch.tgt_out != PAD).sum()


def cross_entropy(
    logits: Float[Tensor, "B N V"], tokens: Int[Tensor, "B N"], **how: Any
) -> Float[Tensor, ""]:
    """Return the loss on all tokens but pads; in bfloat16, a sum over words is too coarse."""
    logits = logits.float() if logits.dtype == torch.bfloat16 else logits
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten(), ignore_index=PAD, **how)


def squared_error(logits: Float[Tensor, "B N V"], tokens: Int[Tensor, "B N"]) -> Float[Tensor, ""]:
    """Return the squared distance of probabilities to the true token's one, averaged over tokens.

    Pads do not count.
    """
    p = logits.float().softmax(2)
    p_true = p.gather(2, tokens.unsqueeze(2)).squeeze(2)
    return (p.square().sum(2) - 2 * p_true + 1)[tokens != PAD].mean()


# ---------------------------------------------------------------------------------- Validation


def validate(
    model: SequenceModel, examples: Sequence[Example], bar: ProgressBar = SILENT
) -> dict[str, float]:
    """Return teacher-forced nats per token and token accuracy (%) over all examples."""
    rows = score_teacher_forced(model, examples, "validation", bar)
    nats, n_correct, n = (sum(row[k] for row in rows) for k in ("nats", "n_correct", "n_tokens"))
    model.train()
    return {"valid_nats": nats / n, "valid_accuracy": 100 * n_correct / n}


def is_validation_due(progress: Progress, cfg: TrainConfig) -> bool:
    """Return whether the curve's next point is due; a step has one point at most."""
    if progress.curve and progress.curve[-1]["step"] >= progress.step:
        return False
    return progress.tokens >= cfg.tokens * (len(progress.curve) + 1) / cfg.n_validations


# ------------------------------------------------------------------------------ Speed and memory


def prefetch(items: Iterator[Any], device: torch.device) -> Generator[Any]:
    """Yield the items; for a GPU, a thread prepares the next one while one is in use.

    An error in the thread is raised to the consumer. The thread ends with the iterator.
    """
    if device.type != "cuda":
        yield from items
        return
    with ThreadPoolExecutor(1, "prefetch", torch.cuda.set_device, (device,)) as pool:
        following = pool.submit(next, items, None)
        while (item := following.result()) is not None:
            following = pool.submit(next, items, None)
            yield item
