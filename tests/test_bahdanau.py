"""Bahdanau's model computes what its paper says: naive loops, numbers by hand."""

import math

import pytest
import torch
from conftest import Pairs, Tiny
from naive import Matrix, Naive, Vector, add, bias, inputs_of, maxout, mul, sentences
from torch.testing import assert_close

from seqmodels import SequenceModel, unroll


def test_the_score_starts_small(fresh: Tiny) -> None:
    """Keeps out an opinionated start: N(0, 0.001²), v_a and biases zero (B.1), or a recipe's."""
    for sizes in ({}, {"std_align": 0.3, "v_align": 0.125}):
        model = fresh("bahdanau", d_model=100, d_align=90, **sizes)
        for w in (model.attention.W_a.weight, model.attention.U_a.weight):
            assert w.std().item() == pytest.approx(sizes.get("std_align", 0.001), rel=0.1)
        assert (model.attention.v_a.weight == sizes.get("v_align", 0.0)).all()
        zero = {k for k, p in model.named_parameters() if not p.any()} - {"attention.v_a.weight"}
        assert zero == {k for k, p in model.named_parameters() if p.dim() == 1}


def naive_annotations(model: SequenceModel, src: list[int]) -> Matrix:
    """Return h_j of A.2.1 of Bahdanau et al.: a forward and a backward state for each word."""
    e, enc = model.embed.weight.tolist(), model.encoder
    ahead, back = [[0.0] * 16], [[0.0] * 16]
    for x_t in src:
        ahead.append(Naive(enc.unit, False).step(inputs_of(enc.W, e[x_t]), ahead[-1]))
    for x_t in reversed(src):
        back.append(Naive(enc.unit_back, False).step(inputs_of(enc.W_back, e[x_t]), back[-1]))
    return [f + b for f, b in zip(ahead[1:], reversed(back[1:]), strict=True)]


def naive_alpha(model: SequenceModel, s: Vector, h: Matrix) -> Vector:
    """Return eq. (6) with the score of A.1.2: v_a · tanh(W_a s_{i-1} + U_a h_j)."""
    att, scores = model.attention, []
    w_a, u_a = att.W_a.weight.tolist(), att.U_a.weight.tolist()
    (v_a,) = att.v_a.weight.tolist()
    for h_j in h:
        hidden = [math.tanh(a) for a in add(mul(w_a, s), mul(u_a, h_j))]
        scores.append(sum(v * a for v, a in zip(v_a, hidden, strict=True)))
    total = sum(math.exp(score) for score in scores)
    return [math.exp(score) / total for score in scores]


def naive_bahdanau(model: SequenceModel, src: list[int], tgt_in: list[int]) -> list[Matrix]:
    """Return logits and weights of A.2.2 of Bahdanau et al., one sentence at a time."""
    e, h = model.embed.weight.tolist(), naive_annotations(model, src)
    backward_1 = h[0][16:]
    s = [math.tanh(a) for a in add(mul(model.W_s.weight.tolist(), backward_1), bias(model.W_s))]
    out, logits, alphas = model.output, [], []
    for y in tgt_in:
        alpha = naive_alpha(model, s, h)
        c = [sum(a * h_j[k] for a, h_j in zip(alpha, h, strict=True)) for k in range(32)]
        s = Naive(model.unit, False).step(inputs_of(model.W, e[y], (model.C, c)), s)
        t = add(mul(out.U_o.weight.tolist(), s), bias(out.U_o))
        t = add(t, mul(out.V_o.weight.tolist(), e[y]), mul(out.C_o.weight.tolist(), c))
        logits.append(add(mul(out.W_o.weight.tolist(), maxout(t)), bias(out.W_o)))
        alphas.append(alpha)
    return [logits, alphas]


def test_bahdanau_is_its_equations(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a score with s_i, another start state, annotations turned round, Luong's wiring."""
    model = tiny("bahdanau")
    logits, alphas = model(*pairs), model.align(*pairs)
    for i, src, tgt_in in sentences(pairs):
        naive, alpha = naive_bahdanau(model, src, tgt_in)
        assert_close(logits[i], torch.tensor(naive, dtype=torch.double))
        assert_close(alphas[i, :, : len(src)], torch.tensor(alpha, dtype=torch.double))


def test_keys_are_computed_once(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out U_a h_j inside the loop: every step uses the keys that `encode` made."""
    model = tiny("bahdanau")
    state = model.encode(*pairs[:2])
    assert_close(state.keys, model.attention.U_a(state.h))
    calls: list[int] = []
    model.attention.U_a.register_forward_hook(lambda *_: calls.append(1))
    unroll(model, state, pairs[2])
    assert not calls
