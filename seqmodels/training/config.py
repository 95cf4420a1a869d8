"""How a model is trained, and how far its training has come."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Literal

from seqmodels.models import Value
from seqmodels.utils.values import NonNegative, Positive, Seed, Share, Size, check_fields

Precision = Literal["float32", "bfloat16"]
Optimizer = Literal["adamw", "muon"]
Loss = Literal["cross_entropy", "squared"]
ABSENT: dict[str, Value] = {
    "optimizer": "adamw", "loss": "cross_entropy", "source_loss": 0.0, "micro_batches": 1,
}  # fmt: skip
"""Fields that a record leaves out where they have these values, as those before them had."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How to train; all models of one comparison differ only in `lr` and `muon_lr`."""

    tokens: Size
    """Budget: target tokens to train on."""
    lr: Positive
    """Peak learning rate of AdamW."""
    optimizer: Optimizer = "adamw"
    """muon: Muon trains the hidden matrices, AdamW the embeddings, output layer and vectors."""
    muon_lr: Positive = 8e-3
    """Peak learning rate of Muon."""
    batch_tokens: Size = 1500
    """Rows × longest source or target in a batch."""
    micro_batches: Size = 1
    """Parts of a batch whose gradients are added up one after the other, which saves memory."""
    warmup: Share = 0.1
    """Share of the budget over which the learning rate rises; then it falls linearly to zero."""
    beta_2: Share = 0.98
    """AdamW's decay of squared gradients (Vaswani et al. 2017, 5.3)."""
    weight_decay: Share = 0.01
    """Weight decay of AdamW and Muon."""
    max_grad_norm: Positive = 1.0
    """Norm to which larger gradients are clipped."""
    loss: Loss = "cross_entropy"
    """squared: the squared error of the probabilities of all tokens (Brier 1950)."""
    label_smoothing: Share = 0.0
    """Share of the target's probability spread over the vocabulary (Vaswani et al. 2017, 5.4)."""
    source_loss: NonNegative = 0.0
    """Weight of the source's loss beside the target's (Radford et al. 2018, 3.2: λ of L_3)."""
    n_validations: Size = 10
    """Points of the curve; the best one's weights are kept."""
    seed: Seed = 1
    """Seed of weights, dropout and data order."""
    precision: Precision = "float32"
    """Precision of matrix products; weights, sums and the optimiser are in float32."""

    def __post_init__(self) -> None:
        """Raise ValueError for a value that its field's type does not admit."""
        check_fields(self)
        if self.loss == "squared" and self.label_smoothing + self.source_loss:
            raise ValueError("loss=squared: set label_smoothing and source_loss to 0")

    def settings(self) -> dict[str, Value]:
        """Return the fields that a record holds: those of extensions only if used."""
        unused = {"muon_lr"} if self.optimizer == "adamw" else set()
        unused |= {name for name, value in ABSENT.items() if getattr(self, name) == value}
        return {name: value for name, value in asdict(self).items() if name not in unused}


Point = dict[str, int | float]
"""A point of the learning curve: step, tokens, seconds, losses and accuracy."""


@dataclass
class Progress:
    """How far training has come, in JSON types."""

    epoch: int = 0
    batch: int = 0
    """The epoch's next batch."""
    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)
    """Losses of the last batches."""
    nats_sum: float = 0.0
    """Sum of the losses since the curve's last point."""
    n_losses: int = 0
    curve: list[Point] = field(default_factory=list)
    events: list[dict[str, int | str]] = field(default_factory=list)
    """Events for the record: the step, the kind of event, and what happened."""
