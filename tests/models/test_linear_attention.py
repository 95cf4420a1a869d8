"""Linear attention: kernel smoothing, and the same numbers as a recurrence."""

import math
from typing import Any

import pytest
import torch
from conftest import Pairs, Tiny
from torch import Tensor, nn
from torch.testing import assert_close

from seqmodels import build, unroll
from seqmodels.models import linear_attention
from seqmodels.models.linear_attention import Config, MultiHeadAttention
from seqmodels.models.variants.favor import RandomFeatures

FAVOR = ("linear_attention_favor", {"n_draws": 3})
KINDS = pytest.mark.parametrize(
    ("name", "sizes"), [("linear_attention", {}), FAVOR, ("linear_attention_conv", {})]
)


def draw_favor(width: int, n_draws: int = 1) -> RandomFeatures:
    """Return an attention of one head with freshly drawn directions, (n_draws × width, width)."""
    sizes = {"d_model": width, "n_heads": 1, "n_layers": 1, "n_positions": 1, "n_draws": n_draws}
    return build("linear_attention_favor", 4, **sizes).decoder[0].self_attention


def weigh(attention: MultiHeadAttention, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weights over a text without pads, and the values of all heads."""
    real = torch.ones(x.shape[:2])
    _, _, v, _ = attention.qkv(x, real)
    return attention.attention_weights(x, real), v


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
    assert_close(attention.phi(x, True)[0, 0], expected)
    assert_close(attention.phi(x, False)[0, 0], expected)


@KINDS
def test_training_in_parallel_equals_the_recurrence(name: str, sizes: dict[str, Any]) -> None:
    """The difference is below 1e-5 in float32 after 300 tokens."""
    own = {"d_model": 64, "n_heads": 4, "n_layers": 2, "n_positions": 300, "init_std": 0.1}
    model = build(name, 50, **own, **sizes).eval()
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


@KINDS
def test_linear_attention_is_kernel_smoothing(
    name: str, sizes: dict[str, Any], tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In chunks as well, of which the last one is shorter than the others."""
    monkeypatch.setattr(linear_attention, "CHUNK", 3)
    attention = tiny(name, **sizes).decoder[0].self_attention
    attention.W_o = nn.Identity()
    x, real = torch.randn(1, 7, 16).double(), torch.ones(1, 7)
    q, k, v, _ = attention.qkv(x, real)
    heads = [smooth(*(t[0, h] for t in (q, k, v))) for h in range(2)]
    read, s, z, _ = attention(x, real)
    assert_close(read[0], torch.cat(heads, 1))
    assert_close((s, z), (k.mT @ v, k.sum(2)))
    assert_close(weigh(attention, x)[0] @ v, torch.stack(heads)[None])


def test_weights_are_over_the_source_in_its_own_order(tiny: Tiny, pairs: Pairs) -> None:
    """A source's weights do not depend on the pads after it."""
    model, (src, src_mask, tgt_in) = tiny("linear_attention_conv"), pairs
    weights = model.attention_weights(*pairs)
    for row, n in enumerate(src_mask.sum(1).tolist()):
        one = slice(row, row + 1)
        alone = model.attention_weights(src[one, :n], src_mask[one, :n], tgt_in[one])
        assert_close(weights[one, ..., :n], alone)
        assert not weights[one, ..., n:].any()


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


def test_directions_are_orthogonal_and_as_long_as_gaussian_ones() -> None:
    omega = draw_favor(8, n_draws=200).omega
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
        model = tiny("linear_attention_favor", n_draws=n_draws)
        model.load_state_dict(gpt.state_dict(), strict=False)
        errors.append((model(*pairs) - gpt(*pairs)).abs().mean().item())
    assert errors[1] < 0.3 * errors[0]
    assert errors[1] < 0.02 * gpt(*pairs).std().item()


def test_large_queries_and_keys_are_finite() -> None:
    attention = draw_favor(16, 2)
    for scale in (1e-3, 1.0, 30.0, 1e3):
        q, k = scale * torch.randn(2, 1, 1, 40, 16)
        score = (attention.phi(q, True) @ attention.phi(k, False).mT).tril()
        weights = score / score.sum(-1, keepdim=True)
        assert weights.isfinite().all()
        assert_close(weights.sum(-1), torch.ones(1, 1, 40))


def test_random_features_stay_with_the_weights(fresh: Tiny, pairs: Pairs) -> None:
    one, other = fresh(FAVOR[0], **FAVOR[1]), fresh(FAVOR[0], **FAVOR[1])
    assert not torch.equal(one(*pairs), other(*pairs))
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(*pairs), other(*pairs))
    assert not {name for name, _ in one.named_parameters() if "omega" in name}
