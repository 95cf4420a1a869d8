"""Mamba-2: a chunk equals the recurrence, and the block is the published one."""

import pytest
import torch
from torch.testing import assert_close

from seqmodels import build
from seqmodels.models.gated_deltanet import read_chunks as read_deltas
from seqmodels.models.mamba2 import CHUNK, read_chunks

N = 2 * CHUNK + 11


def test_chunks_equal_the_recurrence() -> None:
    q, k = (torch.randn(3, 1, N, 5).double() for _ in range(2))
    v, log_a = torch.randn(3, 2, N, 4).double(), -torch.rand(3, 2, N, 1).double()
    zero = torch.zeros(3, 2, 5, 4).double()
    heads, memory = read_chunks(q, k, v, log_a, zero)
    s, steps = zero, []
    for t in range(N):
        s = log_a[:, :, t, :, None].exp() * s + k[:, :, t, :, None] * v[:, :, t, None]
        steps.append((q[:, :, t, None] @ s).squeeze(2))
    assert (heads - torch.stack(steps, 2)).abs().max() < 1e-11
    assert (memory - s).abs().max() < 1e-11


@pytest.mark.parametrize("is_mamba", [True, False])
def test_a_memory_that_fades_at_once_has_finite_gradients(is_mamba: bool) -> None:
    q, k, v, beta = torch.randn(4, 2, 1, CHUNK, 4)
    log_a = torch.full((2, 1, CHUNK, 1), -30.0, requires_grad=True)  # e^(30 × 63) is infinite
    gates, s = torch.stack([log_a, beta[..., :1]]), torch.zeros(2, 1, 4, 4)
    heads, _ = read_chunks(q, k, v, log_a, s) if is_mamba else read_deltas(q, k, v, gates, s, False)
    heads.sum().backward()
    assert log_a.grad is not None
    assert log_a.grad.isfinite().all()


@pytest.mark.filterwarnings("ignore")  # what `transformers` says about itself is not our affair
def test_the_block_equals_the_published_one() -> None:
    """Theirs has one projection for the gate, x, B, C and Δ; weights are as small as the tasks'."""
    from transformers import Mamba2Config
    from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer

    ours = build("mamba2", 9, d_model=12, n_heads=3, d_state=5, n_layers=1, init_std=0.08)
    mixer = ours.decoder[0].self_attention
    cfg = Mamba2Config(
        hidden_size=12, num_heads=3, head_dim=8, state_size=5, n_groups=1, conv_kernel=4,
        expand=2, use_conv_bias=False, use_bias=False, chunk_size=8, num_hidden_layers=1,
    )  # fmt: skip
    theirs = Mamba2Mixer(cfg, layer_idx=0)
    weights = mixer.W_z.weight, mixer.W_qkv.weight, mixer.W_dt.weight
    theirs.in_proj.weight.data = torch.cat(weights)
    theirs.conv1d.weight.data = mixer.filter.permute(2, 1, 0).contiguous()
    theirs.dt_bias.data, theirs.A_log.data = mixer.W_dt.bias.data, mixer.log_A.data
    mixer.skip.data = torch.randn(3, 1, 1)
    theirs.D.data, theirs.out_proj.weight.data = mixer.skip.data.flatten(), mixer.W_o.weight.data
    mixer.norm.weight.data.uniform_(0.5, 2)
    theirs.norm.weight.data = mixer.norm.weight.data
    x = torch.randn(3, N, 12)
    heads, *_ = mixer(x, torch.ones(3, N))
    assert heads.std() > 0.05
    assert_close(heads, theirs(x), rtol=0, atol=1e-5)
