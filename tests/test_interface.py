"""The interface: what a model shows of its attention, and a head that is muted."""

import pytest
import torch
from conftest import ATTENDING, DECODER_ONLY, Pairs, Tiny
from torch import nn
from torch.testing import assert_close

from seqmodels.interface import mute_heads


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
    layers = weights[:, -1:] if name == "transformer" else weights
    assert_close(model.align(src, src_mask, tgt_in), layers.mean((1, 2)))
    alone = model.attention_weights(src[2:3, :3], src_mask[2:3, :3], tgt_in[2:3])
    assert_close(weights[2:3, ..., :3], alone)
    with pytest.raises(IndexError):
        model.attention_weights(src, src_mask, tgt_in + 10_000)
    assert not any(module._forward_hooks for module in model.modules())


def test_a_head_is_multiplied_by_its_number_in_the_mask() -> None:
    one, two, x = nn.Linear(6, 4), nn.Linear(6, 5), torch.randn(2, 3, 6)
    before = one(x), two(x)
    with mute_heads([one, two], torch.tensor([[1, 0, 0.5], [0, 1, 1]])):
        muted = one(x), two(x)
    for layer, found, columns in (
        (one, muted[0], torch.tensor([1, 1, 0, 0, 0.5, 0.5])),
        (two, muted[1], torch.tensor([0, 0, 1, 1, 1, 1.0])),
    ):
        assert_close(found, x @ (layer.weight * columns).T + layer.bias)
    assert_close((one(x), two(x)), before)


@pytest.mark.parametrize("name", ["gpt", "linear_attention", "mamba2", "gated_deltanet"])
def test_logits_of_a_text_are_in_its_order(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Those of the source's tokens are where they are without the pads after them."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    logits = model.text_logits(*pairs)
    assert_close(logits[:, src.shape[1] :], model(*pairs))
    for row, n in enumerate(src_mask.sum(1).tolist()):
        one = slice(row, row + 1)
        alone = model.text_logits(src[one, :n], src_mask[one, :n], tgt_in[one])
        assert_close(logits[one, :n], alone[:, :n])
