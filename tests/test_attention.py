"""Attention as every model shows it: weights of the source, for each target token."""

import pytest
import torch
from checks import other
from conftest import ATTENDING, DECODER_ONLY, ONE_VECTOR, Pairs, Tiny
from torch.testing import assert_close


@pytest.mark.parametrize("name", ATTENDING)
def test_attention_is_a_distribution(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out weight on pads, and weights that do not sum to one with those of the target."""
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


@pytest.mark.parametrize("name", ATTENDING)
def test_attention_does_not_see_pads(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out weights that change with the batch a sentence is shown in."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    together = model.align(src, src_mask, tgt_in)
    for i, n in enumerate(src_mask.sum(1).tolist()):
        one = src[i : i + 1, :n], src_mask[i : i + 1, :n], tgt_in[i : i + 1]
        assert_close(together[i : i + 1, :, :n], model.align(*one))


@pytest.mark.parametrize("name", ATTENDING)
def test_attention_is_what_the_output_is_made_of(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out weights of another target word: word t's depend on the words up to it alone."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    weights = model.attention_weights(src, src_mask, tgt_in)
    for t in range(1, tgt_in.shape[1]):
        changed = tgt_in.clone()
        changed[:, t] = other(tgt_in[:, t])
        moved = (model.attention_weights(src, src_mask, changed) - weights).abs().amax(
            (1, 2, 4)
        ) > 1e-9
        first = t + 1 if name == "bahdanau" else t  # it attends before it reads the word
        assert not moved[:, :first].any()
        assert moved[src_mask.sum(1) > 1, first:].all()


@pytest.mark.parametrize("name", ONE_VECTOR)
def test_one_vector_has_no_attention_to_show(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out an attention map made up for a model that has none."""
    with pytest.raises(ValueError, match="the whole source is in one vector"):
        tiny(name).align(*pairs)
