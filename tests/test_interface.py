"""The interface: what a model shows of its attention."""

import pytest
import torch
from conftest import ATTENDING, DECODER_ONLY, Pairs, Tiny
from torch.testing import assert_close


@pytest.mark.parametrize("name", ATTENDING)
def test_attention_is_a_distribution(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """A row has the same weights alone as in a batch, and no hook stays."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    weights = model.attention_weights(src, src_mask, tgt_in)
    n_layers, n_heads = (1, 1) if name == "bahdanau" else (2, 2)
    assert weights.shape == (len(src), n_layers, n_heads, tgt_in.shape[1], src.shape[1])
    real = src_mask[:, None, None, None].expand_as(weights)
    assert (weights[real] > 0).all()
    assert (weights[~real] == 0).all()
    for total in (weights.sum(-1), model.align(src, src_mask, tgt_in).sum(-1)):
        if name in DECODER_ONLY:
            assert (total < 1).all()
        else:
            assert_close(total, torch.ones_like(total))
    alone = model.attention_weights(src[2:3, :3], src_mask[2:3, :3], tgt_in[2:3])
    assert_close(weights[2:3, ..., :3], alone)
    with pytest.raises(IndexError):
        model.attention_weights(src, src_mask, tgt_in + 10_000)
    assert not any(module._forward_hooks for module in model.modules())
