"""The LSTM of Sutskever et al. equals torch's, and reverses its source."""

import math

import pytest
import torch
from conftest import Pairs, Tiny
from naive import on_paper
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from seqmodels import EOS
from seqmodels.models import lstm_seq2seq


def test_the_deep_lstm_has_its_published_size() -> None:
    """Keeps out peepholes, a wrong depth and shared sides: 64 M recurrent weights of 384 M.

    The published 384 M include 160,000 embeddings that only the source has.
    """
    model = on_paper("lstm_seq2seq", lstm_seq2seq.PAPER)
    sides = [model.encoder, model.decoder]
    per_layer = [
        layer.W.weight.numel() + layer.U.weight.numel() for s in sides for layer in s.layers
    ]
    assert per_layer == [8_000_000] * 8
    weights = sum(p.numel() for p in model.parameters() if p.dim() == 2)
    assert weights + 160_000 * 1000 == 384_000_000


def test_the_lstm_starts_uniform(fresh: Tiny) -> None:
    """Keeps out torch's start for ±0.08 (section 3.4), and a forget bias on another gate."""
    for path, p in fresh("lstm_seq2seq", d_model=64).named_parameters():
        assert p.abs().max() <= 0.08, path
        if p.dim() == 2:
            assert p.std().item() == pytest.approx(0.08 / math.sqrt(3), rel=0.1), path
    model = fresh("lstm_seq2seq", init_range=0.0, forget_bias=3.0)
    for layer in (*model.encoder.layers, *model.decoder.layers):
        assert layer.W.bias.view(4, -1).unique(dim=1).flatten().tolist() == [0, 3, 0, 0]  # i f g o


def torch_lstm(deep: nn.Module, d_embed: int, d_model: int) -> nn.LSTM:
    """Copy a stack of layers into torch's own."""
    lstm = nn.LSTM(d_embed, d_model, len(deep.layers), batch_first=True).double()
    for k, layer in enumerate(deep.layers):
        getattr(lstm, f"weight_ih_l{k}").data = layer.W.weight.data
        getattr(lstm, f"weight_hh_l{k}").data = layer.U.weight.data
        getattr(lstm, f"bias_ih_l{k}").data = layer.W.bias.data
        getattr(lstm, f"bias_hh_l{k}").data.zero_()
    return lstm


@pytest.mark.parametrize("is_reversed", [True, False])
def test_lstm_equals_torchs(tiny: Tiny, pairs: Pairs, is_reversed: bool) -> None:
    """Keeps out swapped gates, layers fed with the wrong state, pads read, a lost hand-over."""
    model = tiny("lstm_seq2seq", n_layers=3, is_reversed=is_reversed)
    src, src_mask, tgt_in = pairs
    n_real = src_mask.sum(1)
    rows = [row[:n].flip(0) if is_reversed else row[:n] for row, n in zip(src, n_real, strict=True)]
    e = model.embed(nn.utils.rnn.pad_sequence(rows, batch_first=True))
    packed = pack_padded_sequence(e, n_real, batch_first=True, enforce_sorted=False)
    encoder, decoder = torch_lstm(model.encoder, 12, 16), torch_lstm(model.decoder, 12, 16)
    outputs, (h, c) = encoder(packed)
    state = model.encode(src, src_mask)
    assert_close(state.h, h.transpose(0, 1))
    assert_close(state.c, c.transpose(0, 1))
    empty = lstm_seq2seq.State(torch.zeros_like(state.h), torch.zeros_like(state.c))
    ours, _, _ = model.encoder(e, empty)
    padded, _ = pad_packed_sequence(outputs, batch_first=True)
    assert_close(ours[src_mask], padded[src_mask])
    outputs, _ = decoder(model.embed(tgt_in), (h, c))
    assert_close(model(src, src_mask, tgt_in), model.output(outputs))


def test_reversal_leaves_pads_at_the_end() -> None:
    """Keeps out a flip of the whole row, which moves the pads to the front, or an EOS."""
    src = torch.tensor([[5, 6, 7, 0], [8, 9, 0, 0], [4, 5, 6, 7], [9, 0, 0, 0], [5, 6, EOS, 0]])
    turned = lstm_seq2seq.reverse(src, src != 0).tolist()
    assert turned == [[7, 6, 5, 0], [9, 8, 0, 0], [7, 6, 5, 4], [9, 0, 0, 0], [6, 5, EOS, 0]]


def test_an_lstm_by_hand() -> None:
    """Keeps out swapped gates: one cell, no weights on h, in numbers that a person can check.

    i = sigmoid(0) = 1/2, f = sigmoid(log 3) = 3/4, o = sigmoid(-log 3) = 1/4, g = tanh(1).
    """
    layer = lstm_seq2seq.LSTMLayer(1, 1)
    nn.init.zeros_(layer.U.weight)
    x = torch.tensor([[0.0, math.log(3), 1.0, -math.log(3)]])
    h, c = layer.unit(x=x, h=torch.tensor([[9.0]]), c=torch.tensor([[2.0]]))
    assert c.item() == pytest.approx(3 / 4 * 2.0 + 1 / 2 * math.tanh(1))
    assert h.item() == pytest.approx(1 / 4 * math.tanh(c.item()))
