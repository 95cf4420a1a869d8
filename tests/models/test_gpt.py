"""GPT equals the published one."""

import pytest
import torch
from conftest import Pairs, Tiny, V
from torch.testing import assert_close


@pytest.mark.filterwarnings("ignore")  # what `transformers` says about itself is not our affair
def test_gpt_equals_the_published_one(tiny: Tiny, pairs: Pairs) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

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
    assert_close(ours(src, src_mask, tgt_in), published.logits[:, 5:])
    expected = torch.stack(published.attentions, 1)[:, :, :, 5:, :5]
    assert_close(ours.attention_weights(src, src_mask, tgt_in), expected)
    assert_close(ours.align(src, src_mask, tgt_in), expected.mean((1, 2)))
