"""The recurrent chapters as naive loops, and the LSTM as torch's."""

from typing import NamedTuple

import pytest
import torch
from conftest import Pairs, Tiny, V
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.testing import assert_close

from seqmodels import SequenceModel, build
from seqmodels.models.cache import fuse, read_fused


def affine(linear: nn.Linear, x: Tensor) -> Tensor:
    return linear.weight @ x + linear.bias


class Naive(NamedTuple):
    """A gated unit, one vector at a time: inputs W e (+ C c) + b, recurrent weights U_zr and U."""

    unit: nn.Module
    is_z_kept: bool
    """True: eq. (7) of Cho et al.; False: A.1.1 of Bahdanau et al."""

    def step(self, inputs: Tensor, h: Tensor) -> Tensor:
        x_z, x_r, x_h = inputs.chunk(3)
        u_z, u_r = self.unit.U_zr.weight.chunk(2)
        z, r = torch.sigmoid(x_z + u_z @ h), torch.sigmoid(x_r + u_r @ h)
        h_new = torch.tanh(x_h + self.unit.U.weight @ (r * h))
        return z * h + (1 - z) * h_new if self.is_z_kept else (1 - z) * h + z * h_new


def naive_output(out: nn.Module, s: Tensor, e: Tensor, c: Tensor) -> Tensor:
    """Return the logits of a deep output: the larger one of each two neighbours is kept."""
    t = affine(out.U_o, s) + out.V_o.weight @ e + out.C_o.weight @ c
    return affine(out.W_o, torch.stack([max(pair) for pair in t.split(2)]))


def sentences(pairs: Pairs) -> list[tuple[int, Tensor, Tensor]]:
    """Return row number, source without pads, and decoder input of each sentence."""
    src, src_mask, tgt_in = pairs
    return [(i, src[i, :n], tgt_in[i]) for i, n in enumerate(src_mask.sum(1).tolist())]


def test_cho_is_its_equations(tiny: Tiny, pairs: Pairs) -> None:
    model = tiny("rnn_encdec")
    e, logits = model.embed.weight, model(*pairs)
    read, write = (Naive(part.unit, True) for part in (model.encoder, model))
    for i, src, tgt_in in sentences(pairs):  # A.1.1 and A.1.2 of Cho et al.
        h = torch.zeros(16).double()
        for x_t in src:
            h = read.step(affine(model.encoder.W, e[x_t]), h)
        c = torch.tanh(affine(model.V, h))
        s = torch.tanh(affine(model.V_start, c))
        for t, y in enumerate(tgt_in):
            s = write.step(affine(model.W, e[y]) + model.C.weight @ c, s)
            assert_close(logits[i, t], naive_output(model.output, s, e[y], c))


def naive_annotations(model: SequenceModel, src: Tensor) -> Tensor:
    """Return h_j of A.2.1 of Bahdanau et al.: a forward and a backward state for each word."""
    e, enc = model.embed.weight, model.encoder
    ahead, back = [torch.zeros(16).double()], [torch.zeros(16).double()]
    for x_t in src:
        ahead.append(Naive(enc.unit, False).step(affine(enc.W, e[x_t]), ahead[-1]))
    for x_t in reversed(src):
        back.append(Naive(enc.unit_back, False).step(affine(enc.W_back, e[x_t]), back[-1]))
    return torch.stack([torch.cat(two) for two in zip(ahead[1:], back[:0:-1], strict=True)])


def naive_alpha(model: SequenceModel, s: Tensor, h: Tensor) -> Tensor:
    """Return eq. (6) with the score of A.1.2: v_a · tanh(W_a s_{i-1} + U_a h_j)."""
    att = model.attention
    hidden = [torch.tanh(att.W_a.weight @ s + att.U_a.weight @ h_j) for h_j in h]
    scores = torch.stack([att.v_a.weight[0] @ each for each in hidden])
    return scores.exp() / scores.exp().sum()


def naive_bahdanau(model: SequenceModel, src: Tensor, tgt_in: Tensor) -> tuple[Tensor, Tensor]:
    """Return logits and weights of A.2.2 of Bahdanau et al., one sentence at a time."""
    e, h = model.embed.weight, naive_annotations(model, src)
    s, logits, alphas = torch.tanh(affine(model.W_s, h[0, 16:])), [], []
    for y in tgt_in:
        alpha = naive_alpha(model, s, h)
        c = sum(a * h_j for a, h_j in zip(alpha, h, strict=True))
        s = Naive(model.unit, False).step(affine(model.W, e[y]) + model.C.weight @ c, s)
        logits.append(naive_output(model.output, s, e[y], c))
        alphas.append(alpha)
    return torch.stack(logits), torch.stack(alphas)


def test_a_vector_read_once_is_not_read_by_steps(tiny: Tiny, pairs: Pairs) -> None:
    whole, once = tiny("rnn_encdec"), tiny("rnn_encdec_start")
    whole.load_state_dict(once.state_dict(), strict=False)
    assert not torch.allclose(once(*pairs), whole(*pairs))
    for layer in (whole.C, whole.output.C_o):
        nn.init.zeros_(layer.weight)
    assert_close(once(*pairs), whole(*pairs))


def test_bahdanau_is_its_equations(tiny: Tiny, pairs: Pairs) -> None:
    model = tiny("bahdanau")
    logits, alphas = model(*pairs), model.align(*pairs)
    for i, src, tgt_in in sentences(pairs):
        naive, alpha = naive_bahdanau(model, src, tgt_in)
        assert_close(logits[i], naive)
        assert_close(alphas[i, :, : len(src)], alpha)


def torch_lstm(deep: nn.Module, d_embed: int, d_model: int) -> nn.LSTM:
    lstm = nn.LSTM(d_embed, d_model, len(deep.layers), batch_first=True).double()
    for k, layer in enumerate(deep.layers):
        getattr(lstm, f"weight_ih_l{k}").data = layer.W.weight.data
        getattr(lstm, f"weight_hh_l{k}").data = layer.U.weight.data
        getattr(lstm, f"bias_ih_l{k}").data = layer.W.bias.data
        getattr(lstm, f"bias_hh_l{k}").data.zero_()
    return lstm


@pytest.mark.parametrize("is_reversed", [True, False])
def test_lstm_equals_torchs(tiny: Tiny, pairs: Pairs, is_reversed: bool) -> None:
    model = tiny("lstm_seq2seq", n_layers=3, is_reversed=is_reversed)
    src, src_mask, tgt_in = pairs
    n_real = src_mask.sum(1)
    rows = [row[:n].flip(0) if is_reversed else row[:n] for row, n in zip(src, n_real, strict=True)]
    e = model.embed(nn.utils.rnn.pad_sequence(rows, batch_first=True))
    packed = pack_padded_sequence(e, n_real, batch_first=True, enforce_sorted=False)
    encoder, decoder = torch_lstm(model.encoder, 12, 16), torch_lstm(model.decoder, 12, 16)
    _, (h, c) = encoder(packed)
    state = model.encode(src, src_mask)
    assert_close(state.h, h.transpose(0, 1))
    assert_close(state.c, c.transpose(0, 1))
    outputs, _ = decoder(model.embed(tgt_in), (h, c))
    assert_close(model(src, src_mask, tgt_in), model.output(outputs))


@pytest.mark.parametrize("lengths", [(7, 1, 4), (7, 7, 7)], ids=["pads", "no pads"])
def test_torchs_kernel_has_the_same_values_and_gradients(lengths: tuple[int, ...]) -> None:
    sizes = {"d_model": 6, "d_embed": 5, "n_layers": 2, "init_range": 0.5, "forget_bias": 1.0}
    model = build("lstm_seq2seq", V, **sizes)  # in float32: in float64 the kernel is another one
    src, tgt_in = torch.randint(4, V, (3, 7)), torch.randint(4, V, (3, 5))
    src_mask = torch.arange(7) < torch.tensor(lengths).unsqueeze(1)

    def compute() -> list[Tensor]:
        logits = model(src * src_mask, src_mask, tgt_in)
        return [logits, *torch.autograd.grad(logits.logsumexp(-1).sum(), [*model.parameters()])]

    by_equation = compute()
    fuse(model, read_fused)
    by_kernel = compute()
    assert_close(by_kernel, by_equation, rtol=1e-4, atol=1e-6)
    assert not torch.equal(by_kernel[1], by_equation[1])
