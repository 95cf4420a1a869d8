"""Memories with one layer of attention."""

import pytest
import torch
from conftest import Pairs, Tiny
from torch.testing import assert_close

from seqmodels import unroll


@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize("name", ["gated_deltanet_hybrid", "mamba2_hybrid"])
def test_with_silent_memories_it_is_gpt(tiny: Tiny, pairs: Pairs, name: str, place: str) -> None:
    """GPT of one layer without positions: alone the memories would tell the order."""
    model, gpt = tiny(name, attention=place, n_layers=3), tiny("gpt_none", n_layers=1)
    attending = model.decoder[0 if place == "first" else 2]
    attending.load_state_dict(gpt.decoder[0].state_dict())
    for part in ("embedding", "norm"):
        model.get_submodule(part).load_state_dict(gpt.get_submodule(part).state_dict())
    for layer in model.decoder:
        if layer is not attending:
            layer.self_attention.W_o.weight.data.zero_()
            if layer.norm_2 is not None:
                torch.nn.init.zeros_(layer.ff[2].weight)
                torch.nn.init.zeros_(layer.ff[2].bias)
    src, src_mask, tgt_in = pairs
    assert_close(model(*pairs), gpt(*pairs))
    assert_close(unroll(model, model.encode(src, src_mask), tgt_in)[0], gpt(*pairs))
    assert_close(model.attention_weights(*pairs), gpt.attention_weights(*pairs))


def test_only_one_layer_keeps_all_tokens(tiny: Tiny, pairs: Pairs) -> None:
    src, src_mask, _ = pairs
    state = tiny("gated_deltanet_last", n_layers=3).encode(src, src_mask)
    assert state.s.shape[1] == state.window.shape[1] == 2
    assert [k.shape[2] for k, _ in state.cache.layers] == [src.shape[1]]
    with pytest.raises(ValueError, match="leaves no memory"):
        tiny("mamba2_last", n_layers=1)
