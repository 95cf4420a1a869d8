"""The optimisers: AdamW for all parameters, or Muon for the hidden matrices and AdamW for the rest.

Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/) replaces the momentum of a
matrix by the nearest matrix with orthonormal rows or columns. Its update is scaled so that it is as
large as AdamW's (Liu et al. 2025, arXiv:2502.16982, section 2.2).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seqmodels.interface import SequenceModel
from seqmodels.training.config import TrainConfig

MOMENTUM = 0.95
RMS_OF_ADAMW = 0.2
"""Root mean square of AdamW's updates, in learning rates (Liu et al. 2025)."""
QUINTIC = 3.4445, -4.7750, 2.0315
"""Coefficients of the Newton–Schulz iteration (Jordan et al. 2024)."""
N_ITERATIONS = 5


class Muon(torch.optim.Optimizer):
    """`torch.optim.Muon` with "match_rms_adamw", for many small matrices.

    Matrices of one shape are orthogonalised together, in the precision of the training's matrix
    products; torch takes them one by one, in bfloat16.
    """

    def __init__(
        self, params: Iterable[Tensor], lr: float, weight_decay: float, is_bfloat16: bool = False
    ):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})
        self.is_bfloat16 = is_bfloat16

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Take one step. Matrices without a gradient stay as they are."""
        for group in self.param_groups:
            by_shape = defaultdict(list)  # by their sides, the shorter one first
            for p in group["params"]:
                if p.grad is not None:
                    by_shape[tuple(sorted(p.shape))].append(p)
            for shape, matrices in by_shape.items():
                update = orthogonalize(torch.stack([self.momentum(p) for p in matrices]))
                lr = group["lr"] * RMS_OF_ADAMW * math.sqrt(max(shape))
                for p, u in zip(matrices, update, strict=True):
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(u.T if p.shape[0] > p.shape[1] else u, alpha=-lr)

    def momentum(self, p: Tensor) -> Tensor:
        """Add a gradient to its momentum; return Nesterov's, with no more rows than columns."""
        grad = p.grad
        assert grad is not None
        average = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
        average.lerp_(grad, 1 - MOMENTUM)
        update = grad.lerp(average, MOMENTUM)
        if self.is_bfloat16:
            update = update.bfloat16()
        return update.T if p.shape[0] > p.shape[1] else update


def orthogonalize(matrices: Float[Tensor, "n rows columns"]) -> Float[Tensor, "n rows columns"]:
    """Return matrices with nearly the same singular vectors, and singular values of 0.7 to 1.2.

    Newton–Schulz iteration; a matrix has no more rows than columns.
    """
    a, b, c = QUINTIC
    x = matrices / matrices.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(N_ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


def hidden_matrices(model: SequenceModel) -> list[nn.Parameter]:
    """Return the matrices between the embeddings and the output layer.

    The output layer is the last matrix with a row for each token: gates side by side can have as
    many rows. Embeddings are those of `nn.Embedding`; a matrix of one row or column is a vector.
    """
    tables = {id(p) for m in model.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}
    matrices = [
        p for p in model.parameters() if p.ndim == 2 and 1 not in p.shape and id(p) not in tables
    ]
    output = [p for p in matrices if p.shape[0] == model.config.vocab_size][-1:]
    return [p for p in matrices if all(p is not last for last in output)]


def make_optimizers(model: SequenceModel, cfg: TrainConfig) -> list[torch.optim.Optimizer]:
    """Return AdamW, and Muon if the settings ask for it; each group knows its peak rate.

    They have no parameter that is frozen.
    """
    matrices = hidden_matrices(model) if cfg.optimizer == "muon" else []
    matrices = [p for p in matrices if p.requires_grad]
    muons = {id(p) for p in matrices}
    others = [
        (name, p) for name, p in model.named_parameters() if p.requires_grad and id(p) not in muons
    ]
    decay = cfg.weight_decay
    groups: list[dict[str, Any]] = [
        {"params": [p for name, p in others if not name.endswith(model.undecayed)]},
        {"params": [p for name, p in others if name.endswith(model.undecayed)], "weight_decay": 0},
    ]
    groups = [group for group in groups if group["params"]]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(groups, cfg.lr, (0.9, cfg.beta_2), weight_decay=decay, fused=True)
    ]
    if matrices:
        optimizers.append(Muon(matrices, cfg.muon_lr, decay, cfg.precision == "bfloat16"))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak_lr"] = group["lr"]
    return optimizers
