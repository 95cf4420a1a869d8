"""GPT with the parts of 2023, and without parts of its own."""

from typing import Any

import pytest
import torch
from conftest import Pairs, Tiny, V
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from seqmodels.models.cache import KVCache, tensors_of
from seqmodels.models.variants import gpt_to_2023


def test_with_all_switches_off_it_is_gpt_to_the_bit(tiny: Tiny, pairs: Pairs) -> None:
    gpt, switched = tiny("gpt"), tiny("gpt_rms", norm="layer")
    switched.load_state_dict(gpt.state_dict())
    assert torch.equal(switched(*pairs), gpt(*pairs))
    assert torch.equal(switched.text_logits(*pairs), gpt.text_logits(*pairs))


@pytest.mark.filterwarnings("ignore")  # what `transformers` says about itself is not our affair
def test_it_equals_llama(tiny: Tiny, pairs: Pairs) -> None:
    """Theirs rotates the pairs (i, i + K/2) of a head, ours (2i, 2i + 1)."""
    from transformers import LlamaConfig, LlamaForCausalLM

    ours, (src, src_mask, tgt_in) = tiny("gpt_2023", rotary_base=30.0), pairs
    cfg = LlamaConfig(
        vocab_size=V, hidden_size=16, intermediate_size=42, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-5, attention_bias=True,
        tie_word_embeddings=True, attn_implementation="eager", pad_token_id=0,
        rope_parameters={"rope_type": "default", "rope_theta": 30.0},
    )  # fmt: skip
    theirs = LlamaForCausalLM(cfg).double().eval()
    theirs.model.embed_tokens.weight.data = ours.embedding.weight.data
    theirs.model.norm.load_state_dict(ours.norm.state_dict())
    order = torch.tensor([0, 2, 1, 3])
    for layer, other in zip(ours.decoder, theirs.model.layers, strict=True):
        other.input_layernorm.load_state_dict(layer.norm_1.state_dict())
        other.post_attention_layernorm.load_state_dict(layer.norm_2.state_dict())
        attention = other.self_attn
        attention.o_proj.load_state_dict(layer.self_attention.W_o.state_dict())
        W_qkv, to = layer.self_attention.W_qkv, (attention.q_proj, attention.k_proj)
        for kind in ("weight", "bias"):
            q, k, v = getattr(W_qkv, kind).data.split((16, 8, 8))
            getattr(attention.v_proj, kind).data = v
            for rows, linear in zip((q, k), to, strict=True):
                getattr(linear, kind).data = rows.unflatten(0, (-1, 4))[:, order].flatten(0, 1)
        gate, value = layer.ff[0].weight.data.split(42)
        other.mlp.gate_proj.weight.data, other.mlp.up_proj.weight.data = gate, value
        other.mlp.down_proj.weight.data = layer.ff[2].weight.data
    real = torch.cat([src_mask, torch.ones_like(tgt_in, dtype=torch.bool)], 1)
    published = theirs(
        torch.cat([src, tgt_in], 1), attention_mask=real.long(), output_attentions=True,
        position_ids=(real.cumsum(1) - 1).clamp(min=0),
    )  # fmt: skip
    assert_close(ours(src, src_mask, tgt_in), published.logits[:, 5:], rtol=0, atol=1e-5)
    expected = torch.stack(published.attentions, 1)[:, :, :, 5:, :5]
    assert_close(ours.attention_weights(*pairs), expected, rtol=0, atol=1e-5)


def test_only_the_shared_keys_and_values_are_cached(tiny: Tiny, pairs: Pairs) -> None:
    def cached(model: Any) -> list[int]:
        return [t.numel() for t in tensors_of(model.encode(*pairs[:2])) if t.dim() == 4]

    whole = cached(tiny("gpt", n_heads=4))
    assert cached(tiny("gpt_grouped")) == [n // 2 for n in whole]
    assert cached(tiny("gpt_2023", n_kv_heads=1)) == [n // 4 for n in whole]


def test_what_an_ablation_of_gpt_leaves_out(tiny: Tiny, pairs: Pairs) -> None:
    """Attention gives b whatever it reads, and the feed-forward layer what it gets."""
    x, b = torch.randn(2, 3, 16), torch.randn(16)

    def norm(y: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(y, [16])

    after = norm(x + b)
    for without, expected in {
        None: x + b + norm(x + b), "norm": 2 * (x + b), "feed_forward": x + b,
        "residual": norm(b.expand_as(x)), "prenorm": norm(after + after),
    }.items():  # fmt: skip
        cfg: Any = {"vocab_size": 9, "d_model": 16, "n_heads": 2, "dropout": 0.0}
        layer = gpt_to_2023.Layer2023(gpt_to_2023.Config(**cfg, without=without), 0)
        layer.self_attention.W_o.weight.data.zero_()
        layer.self_attention.W_o.bias.data = b
        if without != "feed_forward":
            layer.add_module("ff", nn.Identity())
        mask = torch.ones(2, 1, 3, 3, dtype=torch.bool).tril()
        cache = KVCache(torch.ones(2, 3, dtype=torch.bool))
        found = layer.feed_forward(layer.attend(x, mask, cache))
        assert_close(found, expected, msg=without)
    gpt, unscaled = tiny("gpt"), tiny("gpt_unscaled")
    unscaled.load_state_dict(gpt.state_dict())
    for layer in unscaled.decoder:
        for p in layer.self_attention.W_qkv.parameters():
            p.data[:16] *= 8**-0.5
    assert_close(unscaled(*pairs), gpt(*pairs))
    for name in ("gpt_no_norm", "gpt_postnorm"):
        assert isinstance(tiny(name).norm, nn.Identity)


def test_a_prefix_is_read_in_both_directions(tiny: Tiny, pairs: Pairs) -> None:
    """What the first token of a source becomes depends on the last; no token sees the target."""
    for name in ("gpt", "gpt_prefix"):
        model, seen = tiny(name), []
        model.decoder[1].norm_1.register_forward_hook(lambda _, x, __, to=seen: to.append(x[0][0]))
        for src, tgt in (([5, 7, 4, 6], [1, 5]), ([5, 7, 4, 8], [1, 5]), ([5, 7, 4, 6], [1, 9])):
            source = torch.tensor([src])
            model(source, source > 0, torch.tensor([tgt]))
        moved = (seen[1] - seen[0]).abs().amax(-1) > 1e-6
        assert moved.tolist() == [name == "gpt_prefix"] * 3 + [True] * 3
        assert_close(seen[2][:5], seen[0][:5])
    with pytest.raises(ValueError, match="not predicted"):
        tiny("gpt_prefix").text_logits(*pairs)
    for name, wrong, message in (
        ("gpt_rotary", {"is_prefix": True}, "'rotary' count the tokens"),
        ("gpt_rotary", {"d_model": 6}, "an even width of a head's queries, not 3"),
        ("transformer_rotary", {"d_k": 5}, "an even width of a head's queries, not 5"),
        ("gpt_parts", {"n_heads": 8, "n_kv_heads": 16}, "16 does not divide n_heads 8"),
        ("bahdanau_heads", {"n_heads": 7}, "14 and annotations of width 32 .* into 7 equal"),
    ):
        with pytest.raises(ValueError, match=message):
            tiny(name, **wrong)


def test_biases_fall_with_the_distance_alone(tiny: Tiny, pairs: Pairs) -> None:
    """Of two heads, by 2^-4 and 2^-8 a token; pads do not count."""
    n = int(pairs[1][2].sum())
    distance = torch.arange(n, 0, -1).double()
    fall = torch.tensor([[2.0**-4], [2.0**-8]]).double()
    expected = (-fall * distance).exp() / (1 + (-fall * distance).exp().sum(-1, keepdim=True))
    for n_kv_heads in (None, 1):
        model = tiny("gpt_alibi", n_layers=1, n_kv_heads=n_kv_heads)
        model.decoder[0].self_attention.W_qkv.weight.data.zero_()
        assert_close(model.attention_weights(*pairs)[2, 0, :, 0, :n], expected)  # of BOS


def test_without_positions_it_is_gpt_whose_positions_are_zeros(tiny: Tiny, pairs: Pairs) -> None:
    gpt, none = tiny("gpt"), tiny("gpt_none")
    gpt.positions.weight.data.zero_()
    none.load_state_dict({k: v for k, v in gpt.state_dict().items() if "positions" not in k})
    assert_close(none(*pairs), gpt(*pairs))
    for model in (none, tiny("gpt_rotary"), tiny("transformer"), tiny("lstm_seq2seq")):
        assert model.max_target(10**6) > 10**6
