"""Models: the list of papers, what chapters share, and the recurrent ones as naive loops."""

import math
import re
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import torch
from conftest import RESULTS, Pairs, Tiny, V, on_paper
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from seqmodels import BOS, EOS, MODELS, PAD, UNK, SequenceModel, build, models, unroll
from seqmodels.data import tokenizers
from seqmodels.models import PAPERS, bahdanau, lstm_seq2seq, papers, rnn_encdec, transformer
from seqmodels.records.record import load as load_record


def test_the_papers_describe_the_classes(fresh: Tiny) -> None:
    """Keeps out an order that is not history's, and a module, memory or id unlike the classes'."""
    five = ["rnn_encdec", "bahdanau", "lstm_seq2seq", "transformer", "gpt"]
    assert [name for name, paper in PAPERS.items() if paper.group == "five"] == five
    years = [paper.year for paper in PAPERS.values()]
    assert years == sorted(years)
    own = tokenizers.PAD, tokenizers.BOS, tokenizers.EOS, tokenizers.UNK
    assert own == (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    assert list(PAPERS) == list(MODELS)
    for name, paper in papers().items():
        model_type = MODELS[name]
        assert paper.home == f"{model_type.__module__}:{model_type.__name__}"
        model = fresh(name)
        assert paper.attends == bool(model.src_attentions)
        grows = model.config.source_floats(9) > model.config.source_floats(8)
        assert (paper.memory == "grows") == grows
        assert (paper.memory == "vector") == (not grows and not paper.attends)


def test_a_model_is_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a second list of models, and a model that takes another one's name."""
    paper, n_models = replace(PAPERS["gpt"], label="GPT again"), len(MODELS)
    monkeypatch.setitem(PAPERS, "again", paper)
    models.register("again", paper)
    assert list(MODELS)[-1] == "again"
    assert len(MODELS) == len(PAPERS) == n_models + 1
    assert type(build("again", V, d_model=8, n_heads=2, n_layers=1)) is MODELS["gpt"]
    with pytest.raises(ValueError, match="gpt is the name of another model, seqmodels"):
        models.register("gpt", paper)
    with pytest.raises(ValueError, match="unknown model 'gru'; choose from rnn_encdec, bahdanau"):
        build("gru", V)


def test_the_committed_records_hold_what_is_handed_over() -> None:
    """Keeps out a formula that no longer gives the bytes of the records."""
    paths = sorted(RESULTS.glob("*/*-seed*.json"))
    assert len(paths) > 200
    for path in paths:
        record = load_record(path)
        config = MODELS[record["model"]].config_type(**record["model_config"])
        lengths = [n for n, _ in record["cache_bytes"]]
        assert record["source_bytes"] == [[n, 4 * config.source_floats(n)] for n in lengths], path


# --------------------------------------------------------------------- What chapters have in common
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


# -------------------------------------------------------------------------------------- Naive loops
Vector = list[float]
Matrix = list[Vector]


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
    for sizes, most in (({}, 0.08), ({"init_range": 0.3}, 0.3)):
        for path, p in fresh("lstm_seq2seq", d_model=64, **sizes).named_parameters():
            assert p.abs().max() <= most, path
            if p.dim() == 2:
                assert p.std().item() == pytest.approx(most / math.sqrt(3), rel=0.1), path
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
