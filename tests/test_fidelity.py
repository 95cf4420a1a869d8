"""Fidelity: each model computes what its paper (or the published code) says.

Three kinds of witness: numbers that a person can check by hand, naive loops that spell out one
equation element by element, and torch or `transformers` where they compute the same function.
"""

from __future__ import annotations

import math
import re
import warnings
from typing import Any, NamedTuple

import pytest
import torch
from conftest import Pairs, Tiny, V
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from seqmodels import EOS, MODELS, SequenceModel, unroll
from seqmodels.models import bahdanau, gpt, lstm_seq2seq, rnn_encdec, transformer
from seqmodels.ops.kv_cache import KVCache

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what `transformers` says about itself is not our affair
    from transformers import GPT2Config, GPT2LMHeadModel

Vector = list[float]
Matrix = list[Vector]

# ------------------------------------------------------------------------------ published sizes


def on_paper(name: str, cfg: Any) -> SequenceModel:
    """Build a full-size model without memory for its numbers."""
    with torch.device("meta"):
        return MODELS[name](cfg)


def n_params(model: nn.Module) -> int:
    """Count parameters."""
    return sum(p.numel() for p in model.parameters())


def test_gpt2_small_has_its_published_size() -> None:
    """Keeps out an untied output, a missing final norm, a missing or extra bias."""
    assert n_params(on_paper("gpt", gpt.GPT2_SMALL)) == 124_439_808


@pytest.mark.parametrize(("cfg", "millions"), [(transformer.BASE, 65), (transformer.BIG, 213)])
def test_transformers_have_their_published_sizes(cfg: transformer.Config, millions: int) -> None:
    """Keeps out three embedding tables instead of one, and a wrong width of the inner layer."""
    assert n_params(on_paper("transformer", cfg)) == pytest.approx(millions * 1e6, rel=0.05)


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


# ------------------------------------------------------------------------------ published starts


def test_recurrent_matrices_start_orthogonal(fresh: Tiny) -> None:
    """Keeps out recurrent weights drawn like all others (B.1 of Bahdanau, section 4.1 of Cho)."""
    for name, n_square in [("rnn_encdec", 6), ("bahdanau", 9)]:
        units = [m for m in fresh(name).modules() if type(m).__name__ == "GatedUnit"]
        square = [b for m in units for w in (m.U_zr, m.U) for b in w.weight.split(16)]
        assert len(square) == n_square
        for block in square:
            assert_close(block @ block.T, torch.eye(16), rtol=0, atol=1e-5)


def test_other_weights_start_by_their_inputs(fresh: Tiny) -> None:
    """Keeps out a start that shrinks in narrow models: N(0, 1/fan-in), biases zero.

    The output's U_o is not recurrent, and does not start orthogonal.
    """
    for name in ("rnn_encdec", "bahdanau"):
        model = fresh(name, d_model=60, d_embed=40, d_maxout=50)
        for path, p in model.named_parameters():
            if p.dim() == 1:
                assert not p.any(), path
            elif path.startswith("output") or not re.search(r"\.U|attention", path):
                expected = p.shape[1] ** -0.5
                assert p.std().item() == pytest.approx(expected, rel=0.15), path
    square = model.output.U_o.weight[:60]
    assert (square @ square.T - torch.eye(60)).abs().max() > 0.2


def test_the_score_starts_small(fresh: Tiny) -> None:
    """Keeps out an alignment that starts opinionated: N(0, 0.001²), v_a and biases zero (B.1)."""
    model = fresh("bahdanau", d_model=100, d_align=100)
    for w in (model.attention.W_a.weight, model.attention.U_a.weight):
        assert w.std().item() == pytest.approx(0.001, rel=0.1)
    zero = {k for k, p in model.named_parameters() if not p.any()}
    assert zero == {"attention.v_a.weight"} | {
        k for k, p in model.named_parameters() if p.dim() == 1
    }


def test_the_lstm_starts_uniform(fresh: Tiny) -> None:
    """Keeps out torch's own start: every parameter uniform on ±0.08 (section 3.4)."""
    for path, p in fresh("lstm_seq2seq", d_model=64).named_parameters():
        assert p.abs().max() <= 0.08, path
        if p.dim() == 2:
            assert p.std().item() == pytest.approx(0.08 / math.sqrt(3), rel=0.1), path


def test_a_configured_range_is_used(fresh: Tiny) -> None:
    """Keeps out a recipe whose wider start is ignored, in the LSTM and in GPT."""
    for path, p in fresh("lstm_seq2seq", init_range=0.3).named_parameters():
        assert 0.2 < p.abs().max() <= 0.3, path
    model = fresh("gpt", d_model=64, n_layers=2, init_std=0.1)
    assert model.embedding.weight.std().item() == pytest.approx(0.1, rel=0.1)
    assert model.decoder[0].ff[0].weight.std().item() == pytest.approx(0.1, rel=0.1)
    assert model.decoder[0].ff[2].weight.std().item() == pytest.approx(0.05, rel=0.1)


def test_the_transformer_starts_as_glorot_has_it(fresh: Tiny) -> None:
    """Keeps out torch's N(0, 1) for embeddings, which are multiplied by √d, and GPT's start."""
    for path, p in fresh("transformer", d_model=64, d_ff=96).named_parameters():
        if path == "embedding.weight":
            assert p.std().item() == pytest.approx(64**-0.5, rel=0.1)
        elif p.dim() == 2:
            assert p.abs().max().item() == pytest.approx(math.sqrt(6 / sum(p.shape)), rel=0.02)
            assert p.std().item() == pytest.approx(math.sqrt(2 / sum(p.shape)), rel=0.1), path
        elif path.endswith("bias"):
            assert not p.any(), path


def test_gpt_starts_with_small_residual_outputs(fresh: Tiny) -> None:
    """Keeps out a stream that grows with depth: 0.02, divided by √(2L) where a block adds."""
    for path, p in fresh("gpt", d_model=64, n_layers=8).named_parameters():
        if p.dim() == 2:
            is_last = path.endswith(("W_o.weight", "ff.2.weight"))
            assert p.std().item() == pytest.approx(0.005 if is_last else 0.02, rel=0.1), path
        elif path.endswith("bias"):
            assert not p.any(), path


# ------------------------------------------- one naive loop per equation, numbers as in the paper


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


def naive_bahdanau(
    model: SequenceModel, src: list[int], tgt_in: list[int]
) -> tuple[Matrix, Matrix]:
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
    return logits, alphas


def sentences(pairs: Pairs) -> list[tuple[int, list[int], list[int]]]:
    """Return row number, source without pads, and decoder input of each sentence."""
    src, src_mask, tgt_in = pairs
    n_real = src_mask.sum(1).tolist()
    return [(i, src[i, :n].tolist(), tgt_in[i].tolist()) for i, n in enumerate(n_real)]


def test_cho_is_its_equations(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a wrong gate, a c that the decoder or the output does not read, a wrong maxout."""
    model = tiny("rnn_encdec")
    logits = model(*pairs)
    for i, src, tgt_in in sentences(pairs):
        naive = torch.tensor(naive_rnn_encdec(model, src, tgt_in), dtype=torch.double)
        assert_close(logits[i], naive)


def test_bahdanau_is_its_equations(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a score with s_i, annotations in the wrong order, Luong's wiring."""
    model = tiny("bahdanau")
    logits, alphas = model(*pairs), model.align(*pairs)
    for i, src, tgt_in in sentences(pairs):
        naive, alpha = naive_bahdanau(model, src, tgt_in)
        assert_close(logits[i], torch.tensor(naive, dtype=torch.double))
        assert_close(alphas[i, :, : len(src)], torch.tensor(alpha, dtype=torch.double))


def test_annotations_read_both_ways(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a backward direction that starts in the pads or is not turned round again."""
    model = tiny("bahdanau")
    state = model.encode(*pairs[:2])
    for i, src, _ in sentences(pairs):
        naive = torch.tensor(naive_annotations(model, src), dtype=torch.double)
        assert_close(state.h[i, : len(src)], naive)


def test_the_start_state_is_the_backward_state_of_word_1(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a start from the last word, or from the forward direction (A.2.2)."""
    model = tiny("bahdanau")
    state = model.encode(*pairs[:2])
    backward_1 = state.h[:, 0, 16:]
    assert_close(state.s, torch.tanh(model.W_s(backward_1)))


def test_keys_are_computed_once(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out U_a h_j inside the loop: every step uses the keys that `encode` made."""
    model = tiny("bahdanau")
    state = model.encode(*pairs[:2])
    assert_close(state.keys, model.attention.U_a(state.h))
    calls: list[int] = []
    model.attention.U_a.register_forward_hook(lambda *_: calls.append(1))
    unroll(model, state, pairs[2])
    assert not calls


def test_attention_looks_with_the_previous_state(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out the score with s_i: a word moves the weights of the next step, not its own."""
    model, (src, src_mask, _) = tiny("bahdanau"), pairs
    state = model.encode(src, src_mask)
    four, five = torch.full((4,), 4), torch.full((4,), 5)
    _, after_four = model.step(four, state)
    _, after_five = model.step(five, state)
    before, *after = (model.attention.weights(s.s, s) for s in (state, after_four, after_five))
    targets = (torch.stack([y, y], 1) for y in (four, five))
    aligned_four, aligned_five = (model.align(src, src_mask, tgt_in) for tgt_in in targets)
    assert_close(aligned_four[:, 0], before[:, 0])
    assert torch.equal(aligned_four[:, 0], aligned_five[:, 0])
    assert_close(torch.stack([aligned_four[:, 1], aligned_five[:, 1]], 1), torch.cat(after, 1))
    has_choice = src_mask.sum(1) > 1
    assert ((after[0] - after[1]).abs().amax((1, 2)) > 1e-6)[has_choice].all()


# ------------------------------------------------------------------------------- the gated units


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


def test_cho_z_keeps_the_old_state() -> None:
    """Keeps out a flipped z: eq. (7) of Cho et al. prints z h + (1 - z) h~."""
    unit, h, x = unit_of(rnn_encdec, 3), torch.randn(2, 3).double(), torch.randn(2, 3).double()
    assert_close(unit(x=gates(1, 1, x), h=h), h)
    assert_close(unit(x=gates(0, 1, x), h=h), torch.tanh(x + unit.U(h)))


def test_bahdanau_z_takes_the_new_state() -> None:
    """Keeps out a flipped z: A.1.1 of Bahdanau et al. prints (1 - z) s + z s~."""
    unit, h, x = unit_of(bahdanau, 3), torch.randn(2, 3).double(), torch.randn(2, 3).double()
    assert_close(unit(x=gates(0, 1, x), h=h), h)
    assert_close(unit(x=gates(1, 1, x), h=h), torch.tanh(x + unit.U(h)))


@pytest.mark.parametrize(("module", "z_new"), [(rnn_encdec, 0), (bahdanau, 1)])
def test_a_closed_reset_gate_forgets(module: Any, z_new: int) -> None:
    """Keeps out a reset gate that leaves a trace of the old state."""
    unit, x = unit_of(module, 3), torch.randn(2, 3).double()
    for h in (torch.zeros(2, 3).double(), torch.randn(2, 3).double()):
        assert_close(unit(x=gates(z_new, 0, x), h=h), torch.tanh(x))


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


# ---------------------------------------------------------------------------------- the deep LSTM


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
    model, (src, src_mask, tgt_in) = (
        tiny("lstm_seq2seq", n_layers=3, is_reversed=is_reversed),
        pairs,
    )
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


def test_the_switch_turns_the_source_round(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a switch without effect: backwards is forwards over the turned source."""
    backwards, (src, src_mask, tgt_in) = tiny("lstm_seq2seq"), pairs
    forwards = tiny("lstm_seq2seq", is_reversed=False)
    forwards.load_state_dict(backwards.state_dict())
    turned = lstm_seq2seq.reverse(src, src_mask)
    assert_close(forwards(turned, src_mask, tgt_in), backwards(src, src_mask, tgt_in))
    assert not torch.allclose(
        forwards(src, src_mask, tgt_in)[0], backwards(src, src_mask, tgt_in)[0]
    )


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


# -------------------------------------------------------------------------------- the Transformer


def attention_of(**sizes: int) -> transformer.MultiHeadAttention:
    """Draw an attention in float64."""
    cfg = transformer.Config(vocab_size=V, dropout=0.0, **sizes)
    return transformer.MultiHeadAttention(cfg).double()


def masks() -> tuple[Tensor, Tensor]:
    """Return a mask over pads (2,1,1,5) and a causal one (5,5)."""
    real = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    return real[:, None, None], torch.ones(5, 5, dtype=torch.bool).tril()


@pytest.mark.parametrize("widths", [{}, {"d_k": 3, "d_v": 5}], ids=["same", "d_k≠d_v"])
@pytest.mark.parametrize("mask", masks(), ids=["pads", "causal"])
def test_attention_equals_torchs(widths: dict[str, int], mask: Tensor) -> None:
    """Keeps out a wrong scale (√d_model, not √d_k), a wrong mask, and mixed heads."""
    attention = attention_of(d_model=16, n_heads=4, **widths)
    x = torch.randn(2, 5, 16).double()
    q, k, v = (
        w(x).unflatten(-1, (4, -1)).transpose(1, 2)
        for w in (attention.W_q, attention.W_k, attention.W_v)
    )
    heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    expected = attention.W_o(heads.transpose(1, 2).flatten(2))
    assert_close(attention(attention.queries(x), *attention.keys_values(x), mask), expected)


@pytest.mark.parametrize("widths", [{}, {"d_k": 3, "d_v": 5}], ids=["same", "d_k≠d_v"])
@pytest.mark.parametrize("mask", masks(), ids=["pads", "causal"])
def test_attention_is_a_loop_over_heads(widths: dict[str, int], mask: Tensor) -> None:
    """Keeps out heads that see each other: in 3.2.2 each has its own share of the weights."""
    attention = attention_of(d_model=16, n_heads=4, **widths)
    x = torch.randn(2, 5, 16).double()
    q_k_v = attention.queries(x), *attention.keys_values(x)
    out, alpha = attention(*q_k_v, mask), attention.weights(*q_k_v, mask)
    total = torch.zeros_like(x)
    d_k, d_v = widths.get("d_k", 4), widths.get("d_v", 4)
    allowed = mask[:, 0] if mask.dim() == 4 else mask
    for head in range(4):
        ks, vs = slice(head * d_k, (head + 1) * d_k), slice(head * d_v, (head + 1) * d_v)
        q, k = x @ attention.W_q.weight[ks].T, x @ attention.W_k.weight[ks].T
        score = torch.einsum("bnk,bmk->bnm", q, k) / math.sqrt(d_k)
        weights = torch.where(allowed, score.exp(), 0.0)
        weights = weights / weights.sum(-1, keepdim=True)
        total += weights @ (x @ attention.W_v.weight[vs].T) @ attention.W_o.weight[:, vs].T
        assert_close(alpha[:, head], weights)
    assert_close(out, total)


def test_the_two_attentions_are_one() -> None:
    """Keeps out copies that drift apart: given q, k and v, GPT attends as the Transformer does."""
    first = attention_of(d_model=16, n_heads=4)
    cfg = gpt.Config(vocab_size=V, d_model=16, n_heads=4, dropout=0.0)
    later = gpt.MultiHeadAttention(cfg).double()
    later.W_o.weight.data, later.W_o.bias.data = first.W_o.weight.data, torch.zeros(16).double()
    q, k, v = torch.randn(3, 2, 4, 5, 4).double()
    for mask in masks():
        assert_close(later.weights(q, k, v, mask), first.weights(q, k, v, mask))
        assert_close(later(q, k, v, mask), first(q, k, v, mask))


def test_attention_by_hand() -> None:
    """Keeps out a forgotten scale: one head of width 4, scores 2 log 3 / √4 and 0 give 3/4, 1/4."""
    attention = attention_of(d_model=4, n_heads=1)
    for w in (attention.W_q, attention.W_k, attention.W_v, attention.W_o):
        nn.init.eye_(w.weight)
    x = torch.tensor([[[1.0, 0.0, 0.0, 0.0]]]).double()
    keys = torch.tensor([[[[2 * math.log(3), 0.0, 0.0, 0.0], [0.0] * 4]]]).double()
    values = torch.tensor([[[[4.0, 0.0, 0.0, 0.0], [0.0, 8.0, 0.0, 0.0]]]]).double()
    seen = torch.ones(1, 2, dtype=torch.bool)
    q_k_v = attention.queries(x), keys, values
    out, alpha = attention(*q_k_v, seen), attention.weights(*q_k_v, seen)
    assert_close(alpha.flatten(), torch.tensor([3 / 4, 1 / 4]).double())
    assert_close(out.flatten(), torch.tensor([3.0, 2.0, 0.0, 0.0]).double())


def copy_attention(ours: nn.Module, theirs: nn.MultiheadAttention) -> None:
    """Copy weights; torch's attention has biases, the paper's has none."""
    theirs.in_proj_weight.data = torch.cat([w.weight for w in (ours.W_q, ours.W_k, ours.W_v)])
    theirs.out_proj.weight.data = ours.W_o.weight.data
    nn.init.zeros_(theirs.in_proj_bias)
    nn.init.zeros_(theirs.out_proj.bias)


def torch_layer(ours: nn.Module, is_prenorm: bool) -> nn.Module:
    """Copy a layer of ours into torch's own, in training mode: its fast path is not the oracle."""
    is_decoder = hasattr(ours, "src_attention")
    kind = nn.TransformerDecoderLayer if is_decoder else nn.TransformerEncoderLayer
    theirs = kind(16, 2, 24, dropout=0.0, batch_first=True, norm_first=is_prenorm).double().train()
    copy_attention(ours.self_attention, theirs.self_attn)
    norms = [ours.self_residual.norm]
    if is_decoder:
        copy_attention(ours.src_attention, theirs.multihead_attn)
        norms.append(ours.src_residual.norm)
    norms.append(ours.ff_residual.norm)
    for i, norm in enumerate(norms, start=1):
        getattr(theirs, f"norm{i}").load_state_dict(norm.state_dict())
    theirs.linear1.load_state_dict(ours.ff[0].state_dict())
    theirs.linear2.load_state_dict(ours.ff[2].state_dict())
    return theirs


def embedded(model: SequenceModel, tokens: Tensor) -> Tensor:
    """Return the embeddings of a text from its first position on."""
    return model.embed(tokens, torch.arange(tokens.shape[1]))


@pytest.mark.parametrize("is_prenorm", [False, True])
def test_encoder_layer_equals_torchs(tiny: Tiny, pairs: Pairs, is_prenorm: bool) -> None:
    """Keeps out pre-norm where the paper has post-norm (most "annotated" code), and the reverse."""
    layer = tiny("transformer", is_prenorm=is_prenorm).encoder[0]
    x, src_mask = torch.randn(4, 5, 16).double(), pairs[1]
    theirs = torch_layer(layer, is_prenorm)(x, src_key_padding_mask=~src_mask)
    cache = KVCache(src_mask)
    assert_close(layer(x, cache.mask, cache)[src_mask], theirs[src_mask])


@pytest.mark.parametrize("is_prenorm", [False, True])
def test_decoder_layer_equals_torchs(tiny: Tiny, pairs: Pairs, is_prenorm: bool) -> None:
    """Keeps out wrong norms, a missing causal mask, and a source read before what is written."""
    model, (src, src_mask, tgt_in) = tiny("transformer", is_prenorm=is_prenorm, n_layers=1), pairs
    cache = KVCache(src_mask)
    memory = model.norm_src(model.encoder[0](embedded(model, src), cache.mask, cache))
    theirs = torch_layer(model.decoder[0], is_prenorm)(
        embedded(model, tgt_in),
        memory,
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(6, dtype=torch.double),
        tgt_is_causal=True,
        memory_key_padding_mask=~src_mask,
    )
    logits = model.norm_tgt(theirs) @ model.embedding.weight.T
    assert_close(model(src, src_mask, tgt_in), logits)


@pytest.mark.parametrize("is_prenorm", [False, True])
def test_both_stacks_equal_torchs(tiny: Tiny, pairs: Pairs, is_prenorm: bool) -> None:
    """Keeps out a decoder that reads the wrong layer, and a last norm where none is due."""
    model, (src, src_mask, tgt_in) = tiny("transformer", is_prenorm=is_prenorm, n_layers=3), pairs
    memory, x = embedded(model, src), embedded(model, tgt_in)
    causal = nn.Transformer.generate_square_subsequent_mask(6, dtype=torch.double)
    for layer in model.encoder:
        memory = torch_layer(layer, is_prenorm)(memory, src_key_padding_mask=~src_mask)
    if is_prenorm:
        memory = F.layer_norm(memory, (16,), model.norm_src.weight, model.norm_src.bias)
    for layer in model.decoder:
        theirs = torch_layer(layer, is_prenorm)
        x = theirs(x, memory, tgt_mask=causal, memory_key_padding_mask=~src_mask)
    if is_prenorm:
        x = F.layer_norm(x, (16,), model.norm_tgt.weight, model.norm_tgt.bias)
    assert_close(model(src, src_mask, tgt_in), x @ model.embedding.weight.T)
    has_last_norm = any(k.startswith(("norm_src", "norm_tgt")) for k in model.state_dict())
    assert has_last_norm is is_prenorm


def test_sinusoids_by_hand() -> None:
    """Keeps out sines and cosines in halves instead of in turn, and a wrong wavelength (3.5)."""
    pe = transformer.sinusoids(torch.arange(3), 4)
    expected = [
        [0.0, 1.0, 0.0, 1.0],
        [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)],
        [math.sin(2), math.cos(2), math.sin(0.02), math.cos(0.02)],
    ]
    assert_close(pe, torch.tensor(expected))
    assert_close(pe[1], torch.tensor([0.841471, 0.540302, 0.010000, 0.999950]), rtol=0, atol=1e-6)


def test_sinusoids_are_those_of_their_positions() -> None:
    """Keeps out a forgotten offset: positions 3 and 4 are the same alone and after 0, 1, 2."""
    later, whole = transformer.sinusoids(torch.arange(3, 5), 8), torch.arange(5)
    assert_close(later, transformer.sinusoids(whole, 8)[3:])
    assert_close(transformer.sinusoids(whole.view(5, 1), 8)[3:, 0], later)


def test_embeddings_are_scaled_and_shared(tiny: Tiny) -> None:
    """Keeps out a missing √d (3.4), and a second table of size V."""
    model, tokens = tiny("transformer"), torch.tensor([[4, 7, 9]])
    pe = transformer.sinusoids(torch.arange(3), 16).double()
    assert_close(embedded(model, tokens)[0], 4.0 * model.embedding.weight[tokens[0]] + pe)
    assert [k for k, p in model.named_parameters() if V in p.shape] == ["embedding.weight"]


def test_an_alignment_is_the_last_layers_mean_of_heads(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out the weights of another layer, of one head, or of the target's own attention."""
    model, (src, src_mask, tgt_in) = tiny("transformer"), pairs
    seen: list[Tensor] = []
    attention = model.decoder[-1].src_attention
    attention.register_forward_hook(lambda _, args, out: seen.append(attention.weights(*args)))
    weights = model.attention_weights(src, src_mask, tgt_in)
    assert_close(weights[:, -1], seen[0])
    assert_close(model.align(src, src_mask, tgt_in), seen[0].mean(1))
    assert not torch.allclose(weights[:, 0], weights[:, 1])


# -------------------------------------------------------------------------------------------- GPT


@pytest.fixture
def published(tiny: Tiny) -> tuple[SequenceModel, nn.Module]:
    """Build a GPT and the GPT-2 of `transformers` with the same random weights."""
    ours = tiny("gpt")
    cfg = GPT2Config(
        vocab_size=V,
        n_positions=32,
        n_embd=16,
        n_layer=2,
        n_head=2,
        bos_token_id=1,
        eos_token_id=2,
        attn_implementation="eager",
    )
    theirs = GPT2LMHeadModel(cfg).double().eval()
    body = theirs.transformer
    body.wte.weight.data = ours.embedding.weight.data
    body.wpe.weight.data = ours.positions.weight.data
    body.ln_f.load_state_dict(ours.norm.state_dict())
    for layer, h in zip(ours.decoder, body.h, strict=True):
        h.ln_1.load_state_dict(layer.norm_1.state_dict())
        h.ln_2.load_state_dict(layer.norm_2.state_dict())
        own = layer.self_attention
        linears = [own.W_qkv, own.W_o, layer.ff[0], layer.ff[2]]
        convs = [h.attn.c_attn, h.attn.c_proj, h.mlp.c_fc, h.mlp.c_proj]
        for linear, conv in zip(linears, convs, strict=True):  # theirs are (in, out)
            conv.weight.data, conv.bias.data = linear.weight.data.T, linear.bias.data
    theirs.tie_weights()
    return ours, theirs


def test_gpt_equals_the_published_one(published: tuple[SequenceModel, nn.Module]) -> None:
    """Keeps out post-norm, another GELU, a missing final norm, an untied output."""
    ours, theirs = published
    text = torch.randint(4, V, (3, 9))
    logits = ours(text[:, :4], torch.ones(3, 4, dtype=torch.bool), text[:, 4:])
    assert_close(logits, theirs(text).logits[:, 4:])


def test_gpt_equals_the_published_one_with_pads_in_between(
    published: tuple[SequenceModel, nn.Module], pairs: Pairs
) -> None:
    """Keeps out pads that are counted as positions or looked at."""
    (ours, theirs), (src, src_mask, tgt_in) = published, pairs
    real = torch.cat([src_mask, torch.ones_like(tgt_in, dtype=torch.bool)], 1)
    logits = theirs(
        torch.cat([src, tgt_in], 1),
        attention_mask=real.long(),
        position_ids=(real.cumsum(1) - 1).clamp(min=0),
    ).logits
    assert_close(ours(src, src_mask, tgt_in), logits[:, 5:])


def test_gpt_weights_equal_the_published_ones(
    published: tuple[SequenceModel, nn.Module], pairs: Pairs
) -> None:
    """Keeps out weights of another layer, head or word, and of the target for the source's."""
    (ours, theirs), (src, src_mask, tgt_in) = published, pairs
    real = torch.cat([src_mask, torch.ones_like(tgt_in, dtype=torch.bool)], 1)
    weights = theirs(
        torch.cat([src, tgt_in], 1),
        attention_mask=real.long(),
        position_ids=(real.cumsum(1) - 1).clamp(min=0),
        output_attentions=True,
    ).attentions
    expected = torch.stack(weights, 1)[:, :, :, 5:, :5]
    assert_close(ours.attention_weights(src, src_mask, tgt_in), expected)
    assert_close(ours.align(src, src_mask, tgt_in), expected.mean((1, 2)))


def test_gpt_says_what_to_do_when_positions_run_out(tiny: Tiny) -> None:
    """Keeps out a silent cut and a bare IndexError; the last position itself is used."""
    model, src = tiny("gpt", n_positions=10), torch.randint(4, V, (2, 6))
    mask, tgt_in = torch.ones_like(src, dtype=torch.bool), torch.randint(4, V, (2, 5))
    n = model.max_target(6)
    assert n == 4
    assert model(src, mask, tgt_in[:, :n]).isfinite().all()
    told = "need 11 positions, this GPT has 10; shorten the text or build it with more n_positions"
    with pytest.raises(ValueError, match=told):
        model(src, mask, tgt_in)
    _, state = unroll(model, model.encode(src, mask), tgt_in[:, :n])
    with pytest.raises(ValueError, match=told):
        model.step(tgt_in[:, n], state)


def test_gpt_does_not_count_pads_against_its_limit(tiny: Tiny) -> None:
    """Keeps out a short sentence refused because a longer one stands beside it."""
    model = tiny("gpt", n_positions=10)
    src, tgt_in = torch.randint(4, V, (2, 8)), torch.randint(4, V, (2, 5))
    mask = torch.arange(8).expand(2, -1) < 5
    assert model(src, mask, tgt_in).isfinite().all()
