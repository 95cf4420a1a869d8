"""Naive loops that spell out an equation element by element, and what they are held against."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from conftest import Pairs
from torch import Tensor, nn

from seqmodels import MODELS, SequenceModel

Vector = list[float]
Matrix = list[Vector]


def on_paper(name: str, cfg: Any) -> SequenceModel:
    """Build a full-size model without memory for its numbers."""
    with torch.device("meta"):
        return MODELS[name](cfg)


def n_params(model: nn.Module) -> int:
    """Count parameters."""
    return sum(p.numel() for p in model.parameters())


def mul(w: Matrix, x: Vector) -> Vector:
    """Multiply a matrix by a vector."""
    return [sum(w_ij * x_j for w_ij, x_j in zip(row, x, strict=True)) for row in w]


def add(*vectors: Vector) -> Vector:
    """Add vectors."""
    return [sum(parts) for parts in zip(*vectors, strict=True)]


def sigmoid(x: float) -> float:
    """Return 1 / (1 + exp(-x))."""
    return 1 / (1 + math.exp(-x))


def thirds(linear: nn.Linear) -> tuple[Matrix, Matrix, Matrix]:
    """Cut the rows of a weight into those for z, r and the new state."""
    z, r, h = linear.weight.chunk(3)
    return z.tolist(), r.tolist(), h.tolist()


def bias(linear: nn.Linear) -> Vector:
    """Return a bias."""
    return linear.bias.tolist()


class Naive(NamedTuple):
    """A gated unit, element by element: inputs W e (+ C c) + b, recurrent weights U_zr and U."""

    unit: nn.Module
    is_z_kept: bool
    """True: eq. (7) of Cho et al.; False: A.1.1 of Bahdanau et al."""

    def step(self, inputs: tuple[Vector, Vector, Vector], h: Vector) -> Vector:
        """Return the next state."""
        x_z, x_r, x_h = inputs
        u_z, u_r = (u.tolist() for u in self.unit.U_zr.weight.chunk(2))
        u = self.unit.U.weight.tolist()
        out = []
        for j in range(len(h)):
            h_new_j = x_h[j]
            for k in range(len(h)):
                r_k = sigmoid(x_r[k] + sum(u_r[k][m] * h[m] for m in range(len(h))))
                h_new_j += u[j][k] * (r_k * h[k])
            z_j = sigmoid(x_z[j] + sum(u_z[j][m] * h[m] for m in range(len(h))))
            if self.is_z_kept:
                out.append(z_j * h[j] + (1 - z_j) * math.tanh(h_new_j))
            else:
                out.append((1 - z_j) * h[j] + z_j * math.tanh(h_new_j))
        return out


def inputs_of(w: nn.Linear, e: Vector, c: tuple[nn.Linear, Vector] | None = None) -> Any:
    """Return W e + b (+ C c) for z, r and the new state."""
    parts = [
        add(mul(w_part, e), b.tolist())
        for w_part, b in zip(thirds(w), w.bias.chunk(3), strict=True)
    ]
    if c is not None:
        parts = [add(p, mul(c_part, c[1])) for p, c_part in zip(parts, thirds(c[0]), strict=True)]
    return tuple(parts)


def maxout(t: Vector) -> Vector:
    """Return the larger one of each two neighbours."""
    return [max(t[2 * j], t[2 * j + 1]) for j in range(len(t) // 2)]


def sentences(pairs: Pairs) -> list[tuple[int, list[int], list[int]]]:
    """Return row number, source without pads, and decoder input of each sentence."""
    src, src_mask, tgt_in = pairs
    n_real = src_mask.sum(1).tolist()
    return [(i, src[i, :n].tolist(), tgt_in[i].tolist()) for i, n in enumerate(n_real)]


def unit_of(module: Any, d_model: int) -> nn.Module:
    """Draw a gated unit in float64."""
    unit = module.GatedUnit(d_model).double()
    for p in unit.parameters():
        nn.init.normal_(p)
    return unit


def gates(z: float, r: float, x: Tensor) -> Tensor:
    """Return inputs that hold both gates at z and r (each 0 or 1), whatever the state is."""
    big = torch.full_like(x, 1000.0)
    return torch.cat([(2 * z - 1) * big, (2 * r - 1) * big, x], 1)
