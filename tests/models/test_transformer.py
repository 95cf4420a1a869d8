"""The Transformer equals torch's layers, and GPT the published one; their variants."""

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from conftest import DECODER_ONLY, Pairs, Tiny, V
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close
from toys import toy

from seqmodels import MODELS, SequenceModel, models, unroll
from seqmodels.experiments.specs import make_spec, model_sizes
from seqmodels.experiments.task import Recipe
from seqmodels.interface import PAD
from seqmodels.models import PAPERS, VARIANTS, papers, transformer, vary
from seqmodels.models.variants import ablated as ablations
from seqmodels.models.variants import convolved, positions

PADS = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])[:, None, None]
CAUSAL = torch.ones(5, 5, dtype=torch.bool).tril()


@pytest.mark.parametrize("widths", [{}, {"d_k": 3, "d_v": 5}], ids=["same", "d_k≠d_v"])
@pytest.mark.parametrize("mask", [PADS, CAUSAL], ids=["pads", "causal"])
@pytest.mark.parametrize("is_fused", [True, False])
def test_attention_loops_over_heads(widths: dict[str, int], mask: Tensor, is_fused: bool) -> None:
    """Keeps out heads that see each other, a forgotten scale, a fast path other than (1)."""
    cfg = transformer.Config(vocab_size=V, dropout=0.0, d_model=16, n_heads=4, **widths)
    attention = transformer.MultiHeadAttention(cfg).double()
    attention.is_fused = is_fused
    x = torch.randn(2, 5, 16).double()
    q_k_v = attention.queries(x), *attention.keys_values(x)
    out, alpha = attention(*q_k_v, mask), attention.attention_weights(*q_k_v, mask)
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
    residuals = [ours.self_residual, ours.ff_residual]
    if is_decoder:
        copy_attention(ours.src_attention, theirs.multihead_attn)
        residuals.insert(1, ours.src_residual)
    for i, residual in enumerate(residuals, start=1):
        getattr(theirs, f"norm{i}").load_state_dict(residual.norm.state_dict())
    theirs.linear1.load_state_dict(ours.ff[0].state_dict())
    theirs.linear2.load_state_dict(ours.ff[2].state_dict())
    return theirs


def embedded(model: SequenceModel, tokens: Tensor) -> Tensor:
    """Return the embeddings of a text from its first position on."""
    return model.embed(tokens, torch.arange(tokens.shape[1]))


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
    of_last_layer = model.attention_weights(src, src_mask, tgt_in)[:, -1]
    assert_close(model.align(src, src_mask, tgt_in), of_last_layer.mean(1))
    has_last_norm = any(k.startswith(("norm_src", "norm_tgt")) for k in model.state_dict())
    assert has_last_norm is is_prenorm


def test_embeddings_by_hand(tiny: Tiny) -> None:
    """Keeps out sines before cosines, a wrong wavelength (3.5), no √d (3.4), a second table."""
    pe = transformer.sinusoids(torch.arange(3), 4)
    expected = [
        [0.0, 1.0, 0.0, 1.0],
        [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)],
        [math.sin(2), math.cos(2), math.sin(0.02), math.cos(0.02)],
    ]
    assert_close(pe, torch.tensor(expected))
    model, tokens = tiny("transformer"), torch.tensor([[4, 7, 9]])
    pe = transformer.sinusoids(torch.arange(3), 16).double()
    assert_close(embedded(model, tokens)[0], 4.0 * model.embedding.weight[tokens[0]] + pe)
    assert [k for k, p in model.named_parameters() if V in p.shape] == ["embedding.weight"]


# ---------------------------------------------------------------------------------------------- GPT
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what `transformers` says about itself is not our affair
    from transformers import GPT2Config, GPT2LMHeadModel


@pytest.mark.parametrize(("sizes", "std"), [({}, 0.02), ({"init_std": 0.1}, 0.1)])
def test_gpt_starts_with_small_residual_outputs(sizes: Any, std: float, fresh: Tiny) -> None:
    """Keeps out a stream that grows with depth: std, divided by √(2L) where a block adds."""
    for path, p in fresh("gpt", d_model=64, n_layers=8, **sizes).named_parameters():
        if p.dim() == 2:
            is_last = path.endswith(("W_o.weight", "ff.2.weight"))
            assert p.std().item() == pytest.approx(std / 4 if is_last else std, rel=0.1), path
        elif path.endswith("bias"):
            assert not p.any(), path


def test_gpt_equals_the_published_one(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out post-norm, another GELU, pads that are read, weights of another layer or head."""
    ours, (src, src_mask, tgt_in) = tiny("gpt"), pairs
    sizes = {"n_positions": 32, "n_embd": 16, "n_layer": 2, "n_head": 2}
    cfg = GPT2Config(
        vocab_size=V, **sizes, bos_token_id=1, eos_token_id=2, attn_implementation="eager"
    )
    theirs = GPT2LMHeadModel(cfg).double().eval()
    body = theirs.transformer
    body.wte.weight.data = ours.embedding.weight.data
    body.wpe.weight.data = ours.positions.weight.data
    body.ln_f.load_state_dict(ours.norm.state_dict())
    for layer, h in zip(ours.decoder, body.h, strict=True):
        h.ln_1.load_state_dict(layer.norm_1.state_dict())
        h.ln_2.load_state_dict(layer.norm_2.state_dict())
        linears = [layer.self_attention.W_qkv, layer.self_attention.W_o, layer.ff[0], layer.ff[2]]
        convs = [h.attn.c_attn, h.attn.c_proj, h.mlp.c_fc, h.mlp.c_proj]
        for linear, conv in zip(linears, convs, strict=True):  # theirs are (in, out)
            conv.weight.data, conv.bias.data = linear.weight.data.T, linear.bias.data
    theirs.tie_weights()
    real = torch.cat([src_mask, torch.ones_like(tgt_in, dtype=torch.bool)], 1)
    published = theirs(
        torch.cat([src, tgt_in], 1),
        attention_mask=real.long(),
        position_ids=(real.cumsum(1) - 1).clamp(min=0),
        output_attentions=True,
    )
    for is_fused in (True, False):
        for layer in ours.decoder:
            layer.self_attention.is_fused = is_fused
        assert_close(ours(src, src_mask, tgt_in), published.logits[:, 5:])
    expected = torch.stack(published.attentions, 1)[:, :, :, 5:, :5]
    assert_close(ours.attention_weights(src, src_mask, tgt_in), expected)
    assert_close(ours.align(src, src_mask, tgt_in), expected.mean((1, 2)))


def test_a_short_convolution_is_torchs() -> None:
    """Keeps out a filter turned round, a neighbour from the right, and a window that wraps."""
    plain, text = nn.Embedding(V, 5), torch.randint(4, V, (2, 7))
    embedding = convolved.ConvolvedEmbedding(plain)
    left = F.pad(plain(text).mT, (2, 0))
    wanted = F.conv1d(left, embedding.filter.flip(0).T.unsqueeze(1), groups=5).mT
    assert_close(embedding(convolved.pack(text, V)), wanted)


# ----------------------------------------------------------------------------------------- Variants
def test_a_variant_follows_its_model() -> None:
    """Keeps out a variant among the models, in another place, or with the look of another."""
    names = list(papers())
    assert list(MODELS) == list(PAPERS) == [name for name in names if name not in VARIANTS]
    for name, entry in VARIANTS.items():
        model = entry.variant_of
        between = names[names.index(model) + 1 : names.index(name)]
        assert {VARIANTS[other].variant_of for other in between} <= {model}
        assert names.index(model) < names.index(name)
        assert issubclass(MODELS[name], MODELS[model])


def test_a_variant_of_a_variant_has_the_sizes_of_both() -> None:
    """Keeps out what the first variant changed, lost with a further change or in a record."""
    assert vary("bahdanau_4", "more", {"dropout": 0.1}).sizes == {"n_queries": 4, "dropout": 0.1}
    spec = {"varies": "rnn_encdec_x2", "sizes": {"d_embed": 9}, "width": 6, "label": "mine"}
    for name in ("own", "gpt"):  # a name that is taken is not given again
        models.register_recorded(name, spec)
    models.register_recorded("lost", spec | {"varies": "unknown"})
    own, twice = VARIANTS["own"], vary("rnn_encdec_x2", "twice")
    assert (own.label, own.sizes, own.width) == ("mine", {"d_embed": 9}, 6)
    assert (twice.label, twice.width) == ("RNN, 2 × width, twice", 2)
    assert not {"gpt", "lost"} & VARIANTS.keys()
    fitted, *wide = (model_sizes(make_spec(f"rnn_encdec{x}"), toy()) for x in ("", "_x2", "_x4"))
    assert wide == [fitted | {"d_model": times * fitted["d_model"]} for times in (2, 4)]


def test_a_variant_has_its_models_recipe() -> None:
    """Keeps out default sizes for a variant whose model has a recipe, or a recipe overlooked."""
    task = toy()
    assert task.recipe("lstm_seq2seq_x2") == task.recipes["lstm_seq2seq"]
    own = Recipe({"n_layers": 2}, 1e-3)
    recipes = {**task.recipes, "lstm_seq2seq_x2": own}
    assert toy(recipes=recipes).recipe("lstm_seq2seq_x2") == own
    assert toy(recipes={}).recipe("lstm_seq2seq_x2") == Recipe({}, 8e-3)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_a_layer_scores_by_distance(side: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out queries rotated without keys, another place, other pairs or angles, a turned sign.

    A pair of numbers is a complex one: Re(q k* e^(i(n-m)θ)) for places n and m (eq. 12).
    """
    model = tiny("transformer_rotary", rotary_base=30.0)
    attention, seen, projected = model.get_submodule(f"{side}.1.self_attention"), [], []
    attention.register_forward_pre_hook(lambda _, given: seen.extend(given[:2]))
    for w in (attention.W_q, attention.W_k):
        w.register_forward_hook(lambda _, x, out: projected.append(attention.to_heads(out)))
    model(*pairs)
    k, q = projected
    theta = 30.0 ** (-torch.arange(0, 8, 2) / 8)
    for n in range(q.shape[1]):
        for m in range(k.shape[1]):
            a, b = (torch.view_as_complex(x.unflatten(-1, (4, 2))) for x in (q[:, n], k[:, m]))
            score = (a * b.conj() * torch.exp(1j * (n - m) * theta)).real.sum(-1)
            assert_close((seen[0][:, :, n] * seen[1][:, :, m]).sum(-1), score, rtol=0, atol=1e-5)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_a_score_falls_with_the_distance(side: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out slopes of another head, distances of one sign, and a fused call without them.

    With two heads, scores fall by 1/16 and 1/256 a token (Press et al. 2022, section 3).
    """
    model, seen = tiny("transformer_alibi", n_heads=2), []
    attention = model.get_submodule(f"{side}.1.self_attention")
    attention.register_forward_hook(lambda _, given, out: seen.extend([*given, out]))
    model(*pairs)
    q, k, v, bias, out = (t.detach() for t in seen)
    is_text = pairs[1] if side == "encoder" else pairs[2] != PAD
    heads = torch.zeros_like(q)
    for row, head, i in np.ndindex(*q.shape[:3]):
        js = [j for j in range(k.shape[2]) if (is_text[row, j] if side == "encoder" else j <= i)]
        slope = (1 / 16, 1 / 256)[head]
        query = q[row, head, i]
        score = [float(query @ k[row, head, j]) / 8**0.5 - slope * abs(i - j) for j in js]
        alpha = torch.tensor(score, dtype=torch.double).softmax(0)
        assert_close(attention.attention_weights(q, k, v, bias)[row, head, i, js], alpha)
        heads[row, head, i] = alpha @ v[row, head, js]
    assert_close(attention.W_o(heads.transpose(1, 2).flatten(2)), out)


def test_sinusoids_are_the_published_model(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a switch that changes more, and learned positions that are scaled or shifted."""
    published, learned = tiny("transformer"), tiny("transformer_learned")
    switched = tiny("transformer_none", positions="sinusoids")
    switched.load_state_dict(published.state_dict())
    assert torch.equal(switched(*pairs), published(*pairs))
    table = transformer.sinusoids(torch.arange(32), 16).double()
    learned.load_state_dict(published.state_dict() | {"positions.weight": table})
    assert_close(learned(*pairs), published(*pairs))


@pytest.mark.parametrize("is_prenorm", [False, True])
def test_rotation_alone_differs(
    is_prenorm: bool, tiny: Tiny, pairs: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a copied layer that drifts: not rotated, it has no positions."""
    rotary, none = (tiny(f"transformer_{k}", is_prenorm=is_prenorm) for k in ("rotary", "none"))
    none.load_state_dict(rotary.state_dict())
    assert not torch.allclose(rotary(*pairs), none(*pairs))
    monkeypatch.setattr(positions, "rotate", lambda x, position, base: x)
    assert torch.equal(rotary(*pairs), none(*pairs))


@pytest.mark.parametrize("name", [*DECODER_ONLY, "transformer_learned"])
def test_positions_run_out(name: str, fresh: Tiny) -> None:
    """Keeps out a silent cut and a bare IndexError; the last position itself is used."""
    n_src, n_tgt, room = (9, 10, 10) if name == "transformer_learned" else (6, 4, 10)
    model, src = fresh(name, n_positions=room), torch.randint(4, V, (2, n_src))
    mask, tgt_in = torch.ones_like(src, dtype=torch.bool), torch.randint(4, V, (2, n_tgt + 1))
    assert model.max_target(n_src) == n_tgt
    assert model(src, mask, tgt_in[:, :n_tgt]).isfinite().all()
    message = r"(a text of|need) 11 (tokens|positions).* (has|learned) 10"
    with pytest.raises(ValueError, match=message):
        model(src, mask, tgt_in)
    _, state = unroll(model, model.encode(src, mask), tgt_in[:, :n_tgt])
    with pytest.raises(ValueError, match=message):
        model.step(tgt_in[:, n_tgt], state)
    assert model.max_target(11) <= 0


def test_learned_positions_start_as_large_as_sinusoids(fresh: Tiny) -> None:
    """Keeps out positions that words drown from the start."""
    weight = fresh("transformer_learned", n_positions=200, d_model=64).positions.weight
    assert weight.square().mean().item() == pytest.approx(0.5, rel=0.05)


def test_an_odd_width_cannot_be_rotated(fresh: Tiny) -> None:
    """Keeps out an error about shapes from inside the rotation."""
    with pytest.raises(ValueError, match="a head has queries of width 5; choose an even d_k"):
        fresh("transformer_rotary", d_k=5)


def test_what_an_ablation_leaves_out(fresh: Tiny, pairs: Pairs) -> None:
    """Keeps out a part that is left out together with another, or in the encoder alone."""
    sizes = {"d_k": 4, "n_layers": 2, "dropout": 0.0}
    whole = fresh("transformer", **sizes).double()

    def ablated(name: str, **factors: float) -> Tensor:
        model = fresh(f"transformer_{name}", **sizes).double()
        model.load_state_dict(whole.state_dict(), strict=False)
        for path, p in model.named_parameters():
            p.data *= factors.get(path.split(".")[-2], 1)
            if path == "output.weight":
                p.data.copy_(whole.embedding.weight)
        return model(*pairs)

    logits = whole(*pairs)
    assert_close(ablated("unscaled", W_q=0.5), logits)  # 1/√4
    assert_close(ablated("untied"), logits)
    assert_close(ablated("cosine", W_q=3.0, W_k=0.2), ablated("cosine"))
    assert (ablated("cosine") - logits).abs().amax() > 1e-3
    # of equal scores, weights are 1 each, whose sum is the number of keys
    attention = ablated_attention("normaliser")
    q, mask = torch.zeros(1, 2, 3, 4), torch.ones(3, 5, dtype=torch.bool).tril()
    weights = attention.attention_weights(q, torch.randn(1, 2, 5, 4), q, mask)
    assert torch.equal(weights, mask.expand(1, 2, 3, 5).float())
    for name, least in (("no_residual", 1e-2), ("no_norm", 1e-2), ("no_feed_forward", 1e-2)):
        assert (ablated(name) - logits).abs().amax() > least
    for name, kind in (
        ("no_norm", ablations.WithoutNorm),
        ("no_residual", ablations.WithoutResidual),
    ):
        around = [m for m in fresh(f"transformer_{name}").modules() if isinstance(m, kind)]
        assert len(around) == 2 * 2 + 2 * 3  # each sublayer, of the decoder's three as well
    assert torch.equal(ablated_attention("lengths").g, torch.full((2, 1, 1), 2.0))  # √4
    x = torch.randn(2, 3, 16)
    cfg = ablations.Config(vocab_size=9, d_model=16, dropout=0.0)
    assert_close(ablations.WithoutNorm(cfg)(x, lambda x: 2 * x), 3 * x)
    assert_close(ablations.WithoutResidual(cfg)(x, lambda x: -x), -F.layer_norm(x, [16]))


def ablated_attention(without: Any) -> Any:
    """Return attention of two heads without a part."""
    cfg = ablations.Config(vocab_size=9, d_model=16, n_heads=2, d_k=4, without=without)
    return ablations.AblatedAttention(cfg)
