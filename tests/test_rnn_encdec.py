"""The RNN encoder–decoder computes what Cho et al. say: naive loops, numbers by hand."""

from __future__ import annotations

import math

import pytest
import torch
from conftest import Pairs, Tiny
from naive import Matrix, Naive, add, bias, gates, inputs_of, maxout, mul, sentences, unit_of
from torch import nn
from torch.testing import assert_close

from seqmodels import SequenceModel
from seqmodels.models import rnn_encdec


def naive_rnn_encdec(model: SequenceModel, src: list[int], tgt_in: list[int]) -> Matrix:
    """Return the logits of A.1.1 and A.1.2 of Cho et al., one sentence at a time."""
    e = model.embed.weight.tolist()
    h = [0.0] * 16
    for x_t in src:
        h = Naive(model.encoder.unit, True).step(inputs_of(model.encoder.W, e[x_t]), h)
    c = [math.tanh(a) for a in add(mul(model.V.weight.tolist(), h), bias(model.V))]
    start = model.V_start
    s = [math.tanh(a) for a in add(mul(start.weight.tolist(), c), bias(start))]
    out, logits = model.output, []
    for y in tgt_in:
        s = Naive(model.unit, True).step(inputs_of(model.W, e[y], (model.C, c)), s)
        t = add(mul(out.U_o.weight.tolist(), s), bias(out.U_o))
        t = add(t, mul(out.V_o.weight.tolist(), e[y]), mul(out.C_o.weight.tolist(), c))
        logits.append(add(mul(out.W_o.weight.tolist(), maxout(t)), bias(out.W_o)))
    return logits


def test_cho_is_its_equations(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a wrong gate, a c that the decoder or the output does not read, a wrong maxout."""
    model = tiny("rnn_encdec")
    logits = model(*pairs)
    for i, src, tgt_in in sentences(pairs):
        naive = torch.tensor(naive_rnn_encdec(model, src, tgt_in), dtype=torch.double)
        assert_close(logits[i], naive)


def test_cho_z_keeps_the_old_state() -> None:
    """Keeps out a flipped z: eq. (7) of Cho et al. prints z h + (1 - z) h~."""
    unit, h, x = unit_of(rnn_encdec, 3), torch.randn(2, 3).double(), torch.randn(2, 3).double()
    assert_close(unit(x=gates(1, 1, x), h=h), h)
    assert_close(unit(x=gates(0, 1, x), h=h), torch.tanh(x + unit.U(h)))


@pytest.mark.parametrize(("d_model", "is_equal"), [(1, True), (3, False)])
def test_cho_is_not_torchs_gru(d_model: int, is_equal: bool) -> None:
    """Keeps out a reset gate after the matrix product: with one unit both agree, with three not.

    r (U h) and U (r h) are the same number in one dimension only; torch's z keeps, as Cho's does.
    """
    unit, cell = unit_of(rnn_encdec, d_model), nn.GRUCell(3 * d_model, d_model).double()
    u_z, u_r = unit.U_zr.weight.chunk(2)
    cell.weight_hh.data = torch.cat([u_r, u_z, unit.U.weight])
    eye = torch.eye(3 * d_model).double()
    cell.weight_ih.data = torch.cat([eye[d_model : 2 * d_model], eye[:d_model], eye[2 * d_model :]])
    nn.init.zeros_(cell.bias_ih)
    nn.init.zeros_(cell.bias_hh)
    x, h = torch.randn(5, 3 * d_model).double(), torch.randn(5, d_model).double()
    assert torch.allclose(unit(x=x, h=h), cell(x, h)) is is_equal


def test_maxout_by_hand() -> None:
    """Keeps out maxout over halves: neighbours are compared, (1, 4) and (3, 2) give (4, 3)."""
    cfg = rnn_encdec.Config(vocab_size=2, d_model=4, d_embed=1, d_maxout=2)
    output = rnn_encdec.DeepOutput(cfg)
    for p in output.parameters():
        nn.init.zeros_(p)
    nn.init.eye_(output.U_o.weight)
    nn.init.eye_(output.W_o.weight)
    logits = output(torch.tensor([[1.0, 4.0, 3.0, 2.0]]), torch.zeros(1, 1), torch.zeros(1, 4))
    assert logits.tolist() == [[4.0, 3.0]]
