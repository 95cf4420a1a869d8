"""The RNN encoder–decoder computes what Cho et al. say: naive loops, numbers by hand."""

import math

import pytest
import torch
from conftest import Pairs, Tiny
from naive import Matrix, Naive, add, bias, inputs_of, maxout, mul, sentences, unit_of
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
