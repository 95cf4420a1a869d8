"""What chapters have in common: their papers' defaults and starts, copies that must not drift."""

import math
import re

import pytest
import torch
from conftest import Tiny
from naive import unit_of
from torch import nn
from torch.testing import assert_close

from seqmodels.models import bahdanau, lstm_seq2seq, rnn_encdec, transformer


def test_the_defaults_are_the_papers() -> None:
    """Keeps out defaults that drifted: sections 4.1 of Cho, A.2.3 of Bahdanau, 3.4, table 3."""
    cho, attending, deep = rnn_encdec.PAPER, bahdanau.PAPER, lstm_seq2seq.PAPER
    assert (cho.d_model, cho.d_embed, cho.d_maxout, cho.vocab_size) == (1000, 100, 500, 15_000)
    assert (attending.d_model, attending.d_embed, attending.d_maxout) == (1000, 620, 500)
    assert (attending.d_align, attending.vocab_size) == (1000, 30_000)
    assert (deep.d_model, deep.d_embed, deep.n_layers, deep.is_reversed) == (1000, 1000, 4, True)
    base, big = transformer.BASE, transformer.BIG
    assert (base.d_model, base.d_ff, base.n_heads, base.n_layers) == (512, 2048, 8, 6)
    assert (big.d_model, big.d_ff, big.n_heads, big.n_layers) == (1024, 4096, 16, 6)
    assert (base.dropout, big.dropout, base.is_prenorm, big.is_prenorm) == (0.1, 0.3, False, False)


def test_recurrent_matrices_start_orthogonal(fresh: Tiny) -> None:
    """Keeps out recurrent weights drawn like all others (B.1 of Bahdanau, section 4.1 of Cho)."""
    for name, n_square in [("rnn_encdec", 6), ("bahdanau", 9)]:
        units = [m for m in fresh(name).modules() if type(m).__name__ == "GatedUnit"]
        square = [b for m in units for w in (m.U_zr, m.U) for b in w.weight.split(16)]
        assert len(square) == n_square
        for block in square:
            assert_close(block @ block.T, torch.eye(16), rtol=0, atol=1e-5)


def test_other_weights_start_by_their_inputs(fresh: Tiny) -> None:
    """Keeps out a start that shrinks in narrow models: N(0, 1/fan-in), biases zero."""
    for name in ("rnn_encdec", "bahdanau"):
        model = fresh(name, d_model=60, d_embed=40, d_maxout=50)
        for path, p in model.named_parameters():
            if p.dim() == 1:
                assert not p.any(), path
            elif path.startswith("output") or not re.search(r"\.U|attention", path):
                expected = p.shape[1] ** -0.5
                assert p.std().item() == pytest.approx(expected, rel=0.15), path
    square = model.output.U_o.weight[:60]  # is not recurrent
    assert (square @ square.T - torch.eye(60)).abs().max() > 0.2


def test_a_configured_range_is_used(fresh: Tiny) -> None:
    """Keeps out a recipe whose wider start is ignored, in the LSTM and in GPT."""
    for path, p in fresh("lstm_seq2seq", init_range=0.3).named_parameters():
        assert 0.2 < p.abs().max() <= 0.3, path
    model = fresh("gpt", d_model=64, n_layers=2, init_std=0.1)
    assert model.embedding.weight.std().item() == pytest.approx(0.1, rel=0.1)
    assert model.decoder[0].ff[0].weight.std().item() == pytest.approx(0.1, rel=0.1)
    assert model.decoder[0].ff[2].weight.std().item() == pytest.approx(0.05, rel=0.1)


def test_a_gated_unit_by_hand() -> None:
    """Keeps out swapped thirds: z, r and the new state, in numbers that a person can check.

    Two units; all weights on h are zero but U = [[0, 1], [0, 0]], which lets unit 0 read unit 1.
    sigmoid(0) = 1/2, sigmoid(±log 3) = 3/4 and 1/4; the state is (1, -1).
    """
    log3 = math.log(3)
    x = torch.tensor([[log3, 0.0, 0.0, -log3, 0.5, 0.0]])
    h = torch.tensor([[1.0, -1.0]])
    h_new_0 = math.tanh(0.5 + 1 / 4 * -1.0)  # z = (3/4, 1/2), r = (1/2, 1/4)
    expected = {
        rnn_encdec: [3 / 4 * 1.0 + 1 / 4 * h_new_0, 1 / 2 * -1.0 + 1 / 2 * 0.0],
        bahdanau: [1 / 4 * 1.0 + 3 / 4 * h_new_0, 1 / 2 * -1.0 + 1 / 2 * 0.0],
    }
    for module, numbers in expected.items():
        unit = module.GatedUnit(2)
        nn.init.zeros_(unit.U_zr.weight)
        unit.U.weight.data = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
        assert_close(unit(x=x, h=h), torch.tensor([numbers]))


def test_the_two_gated_units_are_one_with_z_flipped() -> None:
    """Keeps out copies that drift apart: sigmoid(-a) = 1 - sigmoid(a), all else is the same."""
    cho, later = unit_of(rnn_encdec, 4), unit_of(bahdanau, 4)
    later.load_state_dict(cho.state_dict())
    later.U_zr.weight.data[:4] *= -1
    x, h = torch.randn(3, 12).double(), torch.randn(3, 4).double()
    flipped = torch.cat([-x[:, :4], x[:, 4:]], 1)
    assert_close(cho(x=x, h=h), later(x=flipped, h=h))


def test_the_two_deep_outputs_are_one(tiny: Tiny) -> None:
    """Keeps out copies that drift apart: the same weights give the same logits."""
    cho, later = tiny("rnn_encdec").output, tiny("bahdanau").output
    state = cho.state_dict()
    wider = torch.cat([cho.C_o.weight, torch.zeros_like(cho.C_o.weight)], 1)
    later.load_state_dict(state | {"C_o.weight": wider})
    s, e, c = (torch.randn(3, 5, d).double() for d in (16, 12, 16))
    assert_close(cho(s, e, c), later(s, e, torch.cat([c, torch.randn_like(c)], -1)))
