"""GPT equals the published GPT-2 of `transformers` with the same weights."""

from __future__ import annotations

import warnings

import pytest
import torch
from conftest import Pairs, Tiny, V
from naive import n_params, on_paper
from torch import nn
from torch.testing import assert_close

from seqmodels import SequenceModel, unroll
from seqmodels.models import gpt

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what `transformers` says about itself is not our affair
    from transformers import GPT2Config, GPT2LMHeadModel


def test_gpt2_small_has_its_published_size() -> None:
    """Keeps out an untied output, a missing final norm, a missing or extra bias."""
    assert n_params(on_paper("gpt", gpt.GPT2_SMALL)) == 124_439_808


def test_gpt_starts_with_small_residual_outputs(fresh: Tiny) -> None:
    """Keeps out a stream that grows with depth: 0.02, divided by √(2L) where a block adds."""
    for path, p in fresh("gpt", d_model=64, n_layers=8).named_parameters():
        if p.dim() == 2:
            is_last = path.endswith(("W_o.weight", "ff.2.weight"))
            assert p.std().item() == pytest.approx(0.005 if is_last else 0.02, rel=0.1), path
        elif path.endswith("bias"):
            assert not p.any(), path


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
