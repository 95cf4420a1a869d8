"""One loop, one screen: the same optimiser, data order and budget for every model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from seqmodels.batches import Example, stream
from seqmodels.evaluate import teacher_forced
from seqmodels.interface import PAD, Batch, SequenceModel

BAR: dict[str, Any] = {}
"""This process's progress bar: its title and the line where it stands."""


Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How to train; all models of one comparison differ in `rate` alone."""

    tokens: int
    """Budget: target tokens to train on."""
    rate: float
    """Peak learning rate of AdamW."""
    batch_tokens: int = 1500
    """Rows × longest source or target in a batch."""
    warmup: float = 0.1
    """Share of the budget in which the rate climbs; then it falls linearly to zero."""
    beta_2: float = 0.98
    """AdamW's memory of squared gradients (Vaswani et al. 2017, 5.3)."""
    weight_decay: float = 0.01
    """AdamW's decay."""
    clip: float = 1.0
    """Largest norm of the gradient."""
    label_smoothing: float = 0.0
    """Share of the target's probability spread over the vocabulary (Vaswani et al. 2017, 5.4)."""
    n_validations: int = 10
    """Points of the curve; the best one's weights are kept."""
    seed: int = 1
    """Seed of weights, dropout and data order."""
    precision: Precision = "float32"
    """In which matrices are multiplied; weights, their sums and the optimiser are float32."""


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


def fastest_precision(device: str) -> Precision:
    """Return bfloat16 where it multiplies matrices at least half as fast again as float32."""
    if device == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    seconds = {}
    for dtype in (torch.float32, torch.bfloat16):
        a, times = torch.ones(512, 512, dtype=dtype), []
        for _ in range(5):
            since = time.perf_counter()
            a @ a
            times.append(time.perf_counter() - since)
        seconds[dtype] = min(times)
    return "bfloat16" if 1.5 * seconds[torch.bfloat16] < seconds[torch.float32] else "float32"


class Learner:
    """A model with its optimiser: what one batch changes, apart from which batch comes when."""

    def __init__(self, model: SequenceModel, cfg: TrainConfig):
        self.model, self.cfg = model, cfg
        self.optimiser = torch.optim.AdamW(
            model.parameters(),
            cfg.rate,
            (0.9, cfg.beta_2),
            weight_decay=cfg.weight_decay,
            fused=True,
        )

    def update(self, batch: Batch, rate: float) -> Float[Tensor, ""]:
        """Take one step at this rate; return the loss before it."""
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        is_bfloat16 = self.cfg.precision == "bfloat16"
        with torch.autocast(batch.src.device.type, torch.bfloat16, enabled=is_bfloat16):
            loss = loss_of(self.model, batch, self.cfg.label_smoothing)
        self.optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.clip)
        self.optimiser.step()
        return loss.detach()


def schedule(done: float, warmup: float) -> float:
    """Return the rate as a share of its peak after a share `done` of the budget."""
    return min(done / warmup if warmup else 1.0, (1 - done) / (1 - warmup), 1.0)


def validate(model: SequenceModel, examples: Sequence[Example], device: str) -> dict[str, float]:
    """Return teacher-forced nats per token and token accuracy (%) over all examples."""
    rows = teacher_forced(model, examples, device)
    nats, n_right, n = (sum(row[key] for row in rows) for key in ("nats", "n_right", "n_tokens"))
    model.train()
    return {"valid_nats": nats / n, "valid_accuracy": 100 * n_right / n}


def train(
    model: SequenceModel,
    examples: Sequence[Example],
    valid: Sequence[Example],
    cfg: TrainConfig,
    device: str = "cpu",
    keep: Callable[[dict[str, Tensor]], None] = lambda weights: None,
) -> list[dict[str, Any]]:
    """Train for the budget, leave the model at its best weights, return the learning curve.

    `keep` is called with the weights whenever validation is better than before.
    """
    torch.manual_seed(cfg.seed)
    learner = Learner(model, cfg)
    curve: list[dict[str, Any]] = []
    best: dict[str, Tensor] = {}
    done, since, seconds, losses = 0, time.perf_counter(), 0.0, []
    bar = tqdm(total=cfg.tokens, unit=" tokens", unit_scale=True, leave=False, disable=None, **BAR)
    model.train()
    for step, batch in enumerate(stream(examples, cfg.batch_tokens, cfg.seed), start=1):
        n = int((batch.tgt_out != PAD).sum())
        rate = cfg.rate * schedule((done + 1) / cfg.tokens, cfg.warmup)
        losses.append(learner.update(Batch(*(tensor.to(device) for tensor in batch)), rate))
        done += n
        bar.update(n)
        if done >= cfg.tokens * (len(curve) + 1) / cfg.n_validations:
            seconds += time.perf_counter() - since
            point = {"step": step, "tokens": done, "seconds": round(seconds, 3)}
            point["train_nats"] = torch.stack(losses).mean().item()
            curve.append(point | validate(model, valid, device))
            if not math.isfinite(curve[-1]["valid_nats"]):
                raise ValueError(f"the loss is lost after {done:,} tokens; lower rate {cfg.rate}")
            if curve[-1]["valid_nats"] <= min(p["valid_nats"] for p in curve):
                best = {k: v.detach().clone() for k, v in model.state_dict().items()}
                keep(best)
            bar.set_postfix(
                loss=f"{curve[-1]['train_nats']:.3f}", valid=f"{curve[-1]['valid_nats']:.3f}"
            )
            losses, since = [], time.perf_counter()
        if done >= cfg.tokens:
            break
    bar.close()
    model.load_state_dict(best)
    return curve
