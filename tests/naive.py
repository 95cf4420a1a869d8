"""Naive loops that spell out an equation element by element, and what they are held against."""

import math
from typing import Any, NamedTuple

import torch
from conftest import Pairs
from torch import nn

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
        r = [sigmoid(a) for a in add(x_r, mul(u_r, h))]
        reset = [r_j * h_j for r_j, h_j in zip(r, h, strict=True)]
        h_new = [math.tanh(a) for a in add(x_h, mul(self.unit.U.weight.tolist(), reset))]
        z = [sigmoid(a) for a in add(x_z, mul(u_z, h))]
        if not self.is_z_kept:
            h, h_new = h_new, h
        return [z[j] * h[j] + (1 - z[j]) * h_new[j] for j in range(len(h))]


def inputs_of(w: nn.Linear, e: Vector, c: tuple[nn.Linear, Vector] | None = None) -> Any:
    """Return W e + b (+ C c) for z, r and the new state."""
    parts = zip(w.weight.chunk(3), w.bias.chunk(3), strict=True)
    found = [add(mul(weight.tolist(), e), b.tolist()) for weight, b in parts]
    if c is not None:
        linear, context = c
        parts = zip(found, linear.weight.chunk(3), strict=True)
        found = [add(x, mul(weight.tolist(), context)) for x, weight in parts]
    return tuple(found)


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
