"""Gated DeltaNet: a chunk equals the recurrence, and what a memory that is corrected can do."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

from seqmodels import build, unroll
from seqmodels.models import gated_deltanet, mamba2
from seqmodels.models.gated_deltanet import CHUNK, read_chunks

N = 2 * CHUNK + 11


def draw(n: int = N, heads: int = 2, width: int = 6) -> tuple[list[Tensor], Tensor, Tensor, Tensor]:
    """Draw queries, keys of length 1 and values, log α, β in 0 … 1, and a memory, in float64."""
    q, k, v = (torch.randn(3, heads, n, width).double() for _ in range(3))
    log_a, beta = -3 * torch.rand(3, heads, n, 1).double(), torch.rand(3, heads, n, 1).double()
    return [q, F.normalize(k, dim=-1), v], log_a, beta, torch.randn(3, heads, width, width)


def recur(
    qkv: list[Tensor], log_a: Tensor, beta: Tensor, s: Tensor, is_delta: bool
) -> tuple[Tensor, Tensor]:
    """Write and read token by token, as in the paper's eq. (10): its S has a row for each value."""
    s, heads, eye = s.mT, [], torch.eye(s.shape[-1]).double()
    for t in range(qkv[0].shape[2]):
        q, k, v = (x[:, :, t, :, None] for x in qkv)
        alpha, b = log_a[:, :, t, :, None].exp(), beta[:, :, t, :, None]
        s = alpha * s @ (eye - is_delta * b * k @ k.mT) + b * v @ k.mT
        heads.append((s @ q).squeeze(-1))
    return torch.stack(heads, 2), s.mT


@pytest.mark.parametrize(
    ("is_gated", "is_delta", "beta_max"), [*product((True, False), (True, False), (1, 2))]
)
def test_chunks_equal_the_recurrence(is_gated: bool, is_delta: bool, beta_max: int) -> None:
    qkv, log_a, beta, s = draw()
    gates, s = torch.stack([is_gated * log_a, beta_max * beta]), s.double()
    expected, memory = recur(qkv, *gates, s, is_delta)
    heads, after = read_chunks(*qkv, gates, s, is_delta)
    assert (heads - expected).abs().max() < 1e-11
    assert (after - memory).abs().max() < 1e-11


@pytest.mark.parametrize("module", [gated_deltanet, mamba2])
def test_chunks_are_read_in_float32_in_bfloat16_trainings(module: Any) -> None:
    qkv, log_a, beta, s = draw()
    gates = torch.stack([log_a, beta]) if module is gated_deltanet else log_a
    given = [x.bfloat16() for x in (*qkv, gates, s)]
    switch = (True,) if module is gated_deltanet else ()
    with torch.autocast("cpu", torch.bfloat16):
        found = module.read_chunks(*given, *switch)
    assert_close(found, module.read_chunks(*(x.float() for x in given), *switch), rtol=0, atol=0)


def apply_published(layer: Any, x: Tensor) -> Tensor:
    """Return what the authors' layer makes of texts, re-typed from their code, token by token."""
    (_, n, D), H = x.shape, len(layer.log_A)
    taps = layer.filter.permute(2, 1, 0)
    qkv = F.silu(F.conv1d(layer.W_qkv(x).mT, taps, padding=len(layer.filter) - 1, groups=3 * D))
    q, k, v = (part.unflatten(-1, (H, -1)) for part in qkv.mT[:, :n].chunk(3, -1))
    q, k = (part * torch.rsqrt((part * part).sum(-1, keepdim=True) + 1e-6) for part in (q, k))
    g, beta = -layer.log_A.exp() * F.softplus(layer.W_alpha(x)), layer.W_beta(x).sigmoid()
    s, heads = x.new_zeros(len(x), H, D // H, D // H), []
    for t in range(n):
        s = s * g[:, t, :, None, None].exp()
        found = torch.einsum("bhf,bhfk->bhk", k[:, t], s)
        s = s + torch.einsum("bhf,bhk->bhfk", k[:, t], beta[:, t, :, None] * (v[:, t] - found))
        heads.append(torch.einsum("bhf,bhfk->bhk", q[:, t] * (D // H) ** -0.5, s))
    o = torch.stack(heads, 1)
    o = o * torch.rsqrt(o.square().mean(-1, keepdim=True) + 1e-5) * layer.norm.weight
    return layer.W_o((o * F.silu(layer.W_g(x)).unflatten(-1, (H, -1))).flatten(2))


def test_the_layer_equals_the_published_one() -> None:
    """Its weights are as small as the tasks' ones, so that both ε and the scale of q matter."""
    model = build("gated_deltanet", 9, d_model=24, n_heads=3, n_layers=1, init_std=0.08).double()
    layer, x = model.decoder[0].self_attention, torch.randn(3, N, 24).double()
    layer.norm.weight.data.uniform_(0.5, 2)
    expected = apply_published(layer, x)
    assert expected.std() > 0.02
    assert (layer(x, torch.ones(3, N))[0] - expected).abs().max() < 1e-10


@pytest.mark.parametrize(
    "name", ["linear_attention", "gated_deltanet", "gated_deltanet_2", "mamba2"]
)
@pytest.mark.parametrize(("dtype", "most"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_long_texts_are_written_as_they_are_trained(
    name: str, dtype: torch.dtype, most: float
) -> None:
    sizes = {"d_model": 32, "n_heads": 4, "n_layers": 2, "init_std": 0.3}
    model = build(name, 50, **sizes).to(dtype).eval()
    src, tgt_in = torch.randint(4, 50, (3, 130)), torch.randint(4, 50, (3, 126))
    mask = torch.arange(130) < torch.tensor([[130], [7], [65]])
    with torch.inference_mode():
        parallel = model(src * mask, mask, tgt_in)
        recurrent, _ = unroll(model, model.encode(src * mask, mask), tgt_in)
        exact, _ = unroll(model.double(), model.encode(src * mask, mask), tgt_in)
    assert parallel.std() > 0.1
    assert max((logits - exact).abs().max() for logits in (parallel, recurrent)) < most
