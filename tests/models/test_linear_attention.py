"""Linear attention: kernel smoothing, and the same numbers as a recurrence."""

import math

import pytest
import torch
from conftest import Pairs, Tiny
from torch import Tensor, nn
from torch.testing import assert_close

from seqmodels.models import linear_attention
from seqmodels.models.linear_attention import Config, MultiHeadAttention


def smooth(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return Nadaraya and Watson's estimate at each query, from the keys and values up to it."""
    rows = []
    for i, query in enumerate(q):
        weights = [sum(query * key) for key in k[: i + 1]]
        values = zip(weights, v, strict=False)
        rows.append(sum(w / sum(weights) * row for w, row in values))
    return torch.stack(rows)


def test_features_by_hand() -> None:
    """They are elu(x) + 1: x + 1 above 0, e^x below."""
    x = torch.tensor([[[[0.0, -math.log(2)], [1.0, 0.0]]]]).double()
    expected = torch.tensor([[1.0, 0.5], [2.0, 1.0]]).double()
    attention = MultiHeadAttention(Config(d_model=2, n_heads=1, vocab_size=5))
    assert_close(attention.phi(x)[0, 0], expected)


def test_the_rest_is_gpt(tiny: Tiny, pairs: Pairs) -> None:
    """Without attention, equal weights give equal logits."""
    gpt, model = tiny("gpt"), tiny("linear_attention")
    for layer in gpt.decoder:
        layer.self_attention.W_o.weight.data.zero_()
    model.load_state_dict(gpt.state_dict())
    assert_close(model(*pairs), gpt(*pairs))


@pytest.mark.parametrize("name", ["linear_attention", "linear_attention_conv"])
def test_linear_attention_is_kernel_smoothing(
    name: str, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In chunks as well, of which the last one is shorter than the others."""
    monkeypatch.setattr(linear_attention, "CHUNK", 3)
    attention = tiny(name).decoder[0].self_attention
    attention.W_o = nn.Identity()
    x, real = torch.randn(1, 7, 16).double(), torch.ones(1, 7)
    q, k, v = (t[..., :8] for t in attention.qkv(x, real)[:3])
    heads = [smooth(*(t[0, h] for t in (q, k, v))) for h in range(2)]
    assert_close(attention(x, real)[0][0], torch.cat(heads, 1))
    assert_close(attention.attention_weights(x, real) @ v, torch.stack(heads)[None])


def test_a_window_is_the_token_and_those_before_it(tiny: Tiny) -> None:
    """By hand: weights 1, 10 and 100 for the oldest to the latest of three tokens."""
    attention = tiny("linear_attention_conv").decoder[0].self_attention
    x, real = torch.arange(1.0, 6).double().view(1, 5, 1).expand(1, 5, 16), torch.ones(1, 5)
    attention.W_qkv = nn.Linear(16, 48).double()
    attention.W_qkv.weight.data.copy_(torch.eye(16).repeat(3, 1))
    attention.W_qkv.bias.data.zero_()
    attention.filter.data.copy_(torch.tensor([1.0, 10, 100]).view(3, 1, 1).expand(3, 1, 48))
    *_, v, window = attention.qkv(x, real)
    assert v[0, 0, :, 0].tolist() == [100, 210, 321, 432, 543]
    assert window[0, :, 0].tolist() == [4, 5]
