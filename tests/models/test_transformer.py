"""The Transformer equals torch's layers."""

import math

import pytest
import torch
from conftest import Pairs, Tiny, V
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from seqmodels import SequenceModel
from seqmodels.models import transformer
from seqmodels.models.cache import attend_fused, fuse

PADS = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])[:, None, None]
CAUSAL = torch.ones(5, 5, dtype=torch.bool).tril()


@pytest.mark.parametrize("widths", [{}, {"d_k": 3, "d_v": 5}], ids=["same", "d_k≠d_v"])
@pytest.mark.parametrize("mask", [PADS, CAUSAL], ids=["pads", "causal"])
def test_attention_loops_over_heads(widths: dict[str, int], mask: Tensor) -> None:
    cfg = transformer.Config(vocab_size=V, dropout=0.0, d_model=16, n_heads=4, **widths)
    attention = transformer.MultiHeadAttention(cfg).double()
    x = torch.randn(2, 5, 16).double()
    q_k_v = attention.split_heads(attention.W_q(x)), *attention.keys_values(x)
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
    fuse(attention, attend_fused)
    assert_close(attention(*q_k_v, mask), total)


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


def test_embeddings_by_hand(tiny: Tiny) -> None:
    """Sinusoids (3.5) are added to embeddings × √d (3.4), whose matrix is also the output's."""
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
