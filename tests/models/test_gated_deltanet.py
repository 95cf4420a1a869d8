"""Gated DeltaNet: a chunk equals the recurrence, and what a memory that is corrected can do."""

from itertools import product

import pytest
import torch
from conftest import Tiny
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

from seqmodels import build, unroll
from seqmodels.models import linear_attention, mamba2
from seqmodels.models.gated_deltanet import CHUNK, read_chunks

N = 2 * CHUNK + 11
FIXED = [
    "linear_attention", "linear_attention_conv", "gated_deltanet", "gated_deltanet_2", "mamba2",
]  # fmt: skip


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
    gates, s = (is_gated * log_a, beta_max * beta), s.double()
    heads, after = read_chunks((*qkv, *gates), s, is_delta)
    expected, memory = recur(qkv, *gates, s, is_delta)
    assert expected.std() > 0.5
    assert (heads - expected).abs().max() < 1e-11
    assert (after - memory).abs().max() < 1e-11


@pytest.mark.filterwarnings("ignore")  # what `transformers` says about itself is not our affair
def test_chunks_equal_those_of_qwen() -> None:
    """Theirs divide queries by the root of their width, and have heads after tokens."""
    from transformers.models.qwen3_next import modeling_qwen3_next as qwen

    qkv, log_a, beta, s = draw(width=8)
    q, k, v = (x.transpose(1, 2) for x in qkv)
    gates = (x.squeeze(-1).transpose(1, 2) for x in (log_a, beta))
    theirs, after = qwen.torch_chunk_gated_delta_rule(
        q, k, v, *gates, initial_state=s.float(), output_final_state=True
    )
    heads, memory = read_chunks((*qkv, log_a, beta), s.double(), True)
    assert_close(heads / 8**0.5, theirs.transpose(1, 2).double(), rtol=0, atol=2e-5)
    assert_close(memory, after.double(), rtol=0, atol=2e-5)


def test_a_sum_is_the_same_in_three_chapters() -> None:
    (q, k, v), log_a, beta, s = draw()
    q, k, s, ones, kept = q.abs(), k.abs(), s.double(), 0 * beta + 1, 0 * log_a
    heads, memory = read_chunks((q, k, v, kept, ones), s, False)
    assert_close(mamba2.read_chunks((q, k, v, kept), s), (heads, memory))
    zeros = k.new_zeros(*k.shape[:2], k.shape[3])
    means, sums, total = linear_attention.read_chunks((q, k, v), s, zeros)
    assert_close(sums, memory)
    assert_close(total, k.sum(2))
    assert_close(means * (q * k.cumsum(2)).sum(-1, keepdim=True), heads)


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


def test_half_lives_are_spread_over_the_heads(fresh: Tiny) -> None:
    attention = fresh("gated_deltanet", d_model=64, n_heads=4).decoder[1].self_attention
    log_a, beta = attention.gates(torch.zeros(1, 1, 64))
    assert_close(-log_a.flatten(), torch.tensor([1e-3, 0.0046416, 0.0215443, 1e-1]))
    assert_close(beta.flatten(), torch.full((4,), 0.5))


def test_switches_leave_out_their_parameters(fresh: Tiny) -> None:
    names = {name for name, _ in fresh("gated_deltanet").named_parameters()}
    fixed = {name for name, _ in fresh("gated_deltanet_delta").named_parameters()}
    parts = {name.rpartition("self_attention.")[2] for name in names - fixed}
    assert parts == {"W_alpha.weight", "W_alpha.bias", "log_A"}
    with pytest.raises(ValueError, match="d_model 18 is not a multiple of n_heads 4"):
        build("gated_deltanet", 9, d_model=18, n_heads=4)
