"""Linear attention: kernel smoothing, and the same numbers as a recurrence."""

import math
from typing import Any

import pytest
import torch
from conftest import Pairs, Tiny
from torch import Tensor, nn
from torch.testing import assert_close

from seqmodels import build, unroll
from seqmodels.models.linear_attention import Config, MultiHeadAttention

FAVOR = {"feature_map": "favor", "n_draws": 3}
BOTH = pytest.mark.parametrize("sizes", [{}, FAVOR], ids=["elu", "favor"])


def attention_of(width: int, **sizes: Any) -> MultiHeadAttention:
    """Return an attention of one head, which is its output, in float64."""
    attention = MultiHeadAttention(Config(d_model=width, n_heads=1, vocab_size=5, **sizes)).double()
    attention.W_o = nn.Identity()
    return attention


def draw_favor(width: int, n_draws: int = 1) -> Tensor:
    """Return freshly drawn directions, (n_draws × width, width)."""
    sizes = {"d_model": width, "n_heads": 1, "n_layers": 1, "n_positions": 1, "n_draws": n_draws}
    model = build("linear_attention", 4, feature_map="favor", **sizes)
    return model.decoder[0].self_attention.omega


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
    for is_query in (True, False):
        assert_close(attention_of(2).phi(x, is_query)[0, 0], expected)


@BOTH
def test_training_in_parallel_equals_the_recurrence(sizes: dict[str, Any]) -> None:
    """The difference is below 1e-5 in float32 after 300 tokens."""
    own = {"d_model": 64, "n_heads": 4, "n_layers": 2, "n_positions": 300, "init_std": 0.1}
    model = build("linear_attention", 50, **own, **sizes).eval()
    src, tgt_in = torch.randint(4, 50, (3, 150)), torch.randint(4, 50, (3, 150))
    mask = torch.arange(150) < torch.tensor([[150], [149], [20]])
    with torch.inference_mode():
        parallel = model(src * mask, mask, tgt_in)
        recurrent, _ = unroll(model, model.encode(src * mask, mask), tgt_in)
    assert parallel.std() > 0.1
    assert (parallel - recurrent).abs().max() < 1e-5


def test_the_rest_is_gpt(tiny: Tiny, pairs: Pairs) -> None:
    """Without attention, equal weights give equal logits."""
    gpt, model = tiny("gpt"), tiny("linear_attention")
    for layer in gpt.decoder:
        layer.self_attention.W_o.weight.data.zero_()
    model.load_state_dict(gpt.state_dict())
    assert_close(model(*pairs), gpt(*pairs))


@BOTH
def test_linear_attention_is_kernel_smoothing(sizes: dict[str, Any], tiny: Tiny) -> None:
    attention = tiny("linear_attention", **sizes).decoder[0].self_attention
    attention.W_o = nn.Identity()
    q, k, v = attention.qkv(torch.randn(1, 7, 16).double())
    heads = [smooth(*(t[0, h] for t in (q, k, v))) for h in range(2)]
    assert_close(attention(q, k, v)[0], torch.cat(heads, 1))
    assert_close(attention.attention_weights(q, k, v) @ v, torch.stack(heads)[None])


def test_directions_are_orthogonal_and_as_long_as_gaussian_ones() -> None:
    omega = draw_favor(8, n_draws=200)
    blocks = omega.view(200, 8, 8)
    cosines = nn.functional.normalize(blocks, dim=2)
    assert_close(cosines @ cosines.mT, torch.eye(8).expand(200, 8, 8), rtol=0, atol=1e-5)
    squares = omega.square().sum(1)  # χ² with 8 degrees of freedom: mean 8, variance 16
    assert squares.mean().item() == pytest.approx(8, rel=0.05)
    assert squares.var().item() == pytest.approx(16, rel=0.2)
    assert not torch.equal(blocks[0], blocks[1])


def test_many_random_features_are_softmax_attention(tiny: Tiny, pairs: Pairs) -> None:
    """GPT's own weights give nearly GPT's own logits."""
    gpt, errors = tiny("gpt"), []
    for n_draws in (2, 2_000):
        model = tiny("linear_attention", feature_map="favor", n_draws=n_draws)
        model.load_state_dict(gpt.state_dict(), strict=False)
        errors.append((model(*pairs) - gpt(*pairs)).abs().mean().item())
    assert errors[1] < 0.3 * errors[0]
    assert errors[1] < 0.02 * gpt(*pairs).std().item()


def test_large_queries_and_keys_are_finite() -> None:
    attention = attention_of(16, feature_map="favor", n_draws=2).float()
    attention.omega = draw_favor(16, 2)
    for scale in (1e-3, 1.0, 30.0, 1e3):
        q, k = scale * torch.randn(2, 1, 1, 40, 16)
        weights = attention.attention_weights(attention.phi(q, True), attention.phi(k, False), q)
        assert weights.isfinite().all()
        assert_close(weights.sum(-1), torch.ones(1, 1, 40))


def test_random_features_stay_with_the_weights(fresh: Tiny, pairs: Pairs) -> None:
    one, other = fresh("linear_attention", **FAVOR), fresh("linear_attention", **FAVOR)
    assert not torch.equal(one(*pairs), other(*pairs))
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(*pairs), other(*pairs))
    assert not {name for name, _ in one.named_parameters() if "omega" in name}


@pytest.mark.parametrize(("feature_map", "n_draws"), [("relu", 1), ("elu", 2)])
def test_unknown_features_are_refused(feature_map: str, n_draws: int) -> None:
    with pytest.raises(ValueError, match=f"feature_map '{feature_map}', n_draws {n_draws};"):
        build("linear_attention", 9, feature_map=feature_map, n_draws=n_draws)
