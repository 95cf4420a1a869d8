"""Operations: a fast way computes what the slow one does, a cache what `torch.cat` does."""

import pytest
import torch
from checks import snapshot
from conftest import ATTENDING, Pairs, Tiny
from torch import nn
from torch.testing import assert_close

from seqmodels import unroll
from seqmodels.models.ops import KVCache, PackedLinear, attend, can_pack, head_width, prepack, tanh


def test_tanh_is_tanh() -> None:
    """Keeps out a quick function that is another one far out, or that learns otherwise."""
    x = torch.cat([torch.linspace(-12, 12, 1001), torch.tensor([-1e4, 1e4])]).requires_grad_()
    [quick], [true] = (torch.autograd.grad(f(x).sum(), x) for f in (tanh, torch.tanh))
    assert_close(tanh(x), torch.tanh(x), rtol=0, atol=2e-7)
    assert_close(quick, true, rtol=0, atol=4e-7)
    half = x.detach().bfloat16()  # its sigmoid would round what tanh does not
    assert torch.equal(tanh(half), torch.tanh(half))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_packed_twin_steps_alike(name: str, dtype: torch.dtype, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a search by other weights than the model's, and a model that its search changes."""
    model, (src, src_mask, tgt_in) = tiny(name).to(dtype), pairs
    before = snapshot(model)
    with torch.inference_mode():
        state = model.encode(src, src_mask)
        twin = prepack(model, len(src))
        assert_close(unroll(twin, state, tgt_in)[0], unroll(model, state, tgt_in)[0])
    assert before.attributes == snapshot(model).attributes
    assert all(torch.equal(t, model.state_dict()[k]) for k, t in before.tensors.items())
    if dtype == torch.float32:  # all matrices are packed, not the outermost alone
        n_packed = sum(isinstance(part, PackedLinear) for part in twin.modules())
        assert n_packed == sum(isinstance(part, nn.Linear) for part in model.modules())
        unpacked = [path for path, part in twin.named_modules() if isinstance(part, nn.Linear)]
        assert unpacked == [] or not can_pack(torch.ones(2, 2))


@pytest.mark.parametrize("n_heads", [4, 0, -5])
def test_heads_fill_the_model(n_heads: int) -> None:
    """Keeps out a bare ZeroDivisionError, and heads whose widths do not add up."""
    assert head_width(12, 4) == 3
    with pytest.raises(ValueError, match=f"d_model 10 .* n_heads {n_heads}"):
        head_width(10, n_heads)


@pytest.mark.parametrize("kind", ["all", "causal", "biased"])
def test_attend_is_the_equation(kind: str) -> None:
    """Keeps out ways to attend that drift apart: torch's fused one, in bfloat16, in a search."""
    q, k, v = torch.randn(3, 2, 4, 5, 6).bfloat16()
    mask = torch.ones(5, 5, dtype=torch.bool)
    mask = mask if kind == "all" else mask.tril()
    score = q.float() @ k.float().transpose(-2, -1) / 6**0.5
    if kind == "biased":  # numbers, another one for each head and pair of tokens
        mask = torch.where(mask, torch.randn(4, 5, 5), -torch.inf).bfloat16()
        exact = (score + mask.float()).softmax(-1) @ v.float()
    else:
        exact = score.masked_fill(~mask, -torch.inf).softmax(-1) @ v.float()
    in_float = mask if mask.dtype == torch.bool else mask.float()
    for has_gradients in (True, False):
        with torch.set_grad_enabled(has_gradients):
            assert_close(attend(q, k, v, mask).float(), exact, rtol=0.02, atol=0.02)
            assert_close(attend(q.float(), k.float(), v.float(), in_float), exact)


def test_a_cache_is_a_concatenation() -> None:
    """Keeps out a cache that gives back other keys than it got, with and without gradients."""
    visible = torch.tensor([[1, 1, 1], [1, 1, 0]]).bool()  # two sources, two beams each
    k, v = torch.randn(2, 1, 3, 4), torch.randn(2, 1, 3, 5)
    for has_gradients in (True, False):
        with torch.set_grad_enabled(has_gradients):
            cache = KVCache(visible)
            assert all(map(torch.equal, cache.update(0, k, v), (k, v)))
            cache = cache.reorder(torch.tensor([0, 0, 1, 1]))
            assert cache.mask.shape == (2, 1, 2, 3)
            keys, values = [k], [v]
            for _ in range(40):
                cache = cache.grow()
                keys.append(torch.randn(2, 1, 2, 4))
                values.append(torch.randn(2, 1, 2, 5))
                found = cache.update(0, keys[-1], values[-1])
                assert torch.equal(found[0], torch.cat(keys, 2))
                assert torch.equal(found[1], torch.cat(values, 2))
            assert cache.lengths.tolist() == [43, 43, 42, 42]
            own = cache.visible[:, 3:].unflatten(1, (40, 2))
            assert own[::2].any(1).tolist() == [[True, False]] * 2
            assert own[1::2].any(1).tolist() == [[False, True]] * 2


def test_caches_of_one_origin_do_not_share_a_token() -> None:
    """Keeps out a token of one text written over that of another with the same beginning."""
    with torch.inference_mode():
        cache = KVCache(torch.ones(2, 0, dtype=torch.bool))
        for _ in range(3):  # by then there is room behind it
            cache = cache.grow()
            cache.update(0, torch.zeros(2, 1, 1, 4), torch.zeros(2, 1, 1, 4))
        rows = torch.tensor([1, 0])
        others = [cache.grow(), cache.grow()]
        others += [cache.reorder(rows).grow(), cache.reorder(rows, rows).grow()]
        for i, other in enumerate(others, start=1):
            other.update(0, torch.full((2, 1, 1, 4), 1.0 * i), torch.full((2, 1, 1, 4), -1.0 * i))
        for i, other in enumerate(others, start=1):
            assert other.layers is not cache.layers
            k, v = other[0]
            assert k[0, 0, :, 0].tolist() == [0, 0, 0, i]
            assert v[0, 0, :, 0].tolist() == [0, 0, 0, -i]
        assert cache[0][0].shape == (2, 1, 3, 4)


def test_sources_that_stay_keep_their_keys() -> None:
    """Keeps out keys of a source that has left, for one that goes on."""
    k = torch.arange(3.0).view(3, 1, 1, 1).expand(3, 1, 2, 4)
    cache = KVCache(torch.ones(3, 2, dtype=torch.bool))
    cache.update(0, k, -k)
    kept = cache.reorder(torch.tensor([2, 2, 0, 0]), torch.tensor([2, 0]))
    assert kept.n_sources == 2
    assert kept[0][0][:, 0, 0, 0].tolist() == [2, 0]
    assert kept[0][1][:, 0, 0, 0].tolist() == [-2, 0]
    assert kept.mask.shape == (2, 1, 2, 2)


@pytest.mark.parametrize("name", ATTENDING)
def test_a_look_leaves_nothing_behind(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out hooks that slow down all later passes, also after an error."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    model.attention_weights(src, src_mask, tgt_in)
    with pytest.raises(IndexError):
        model.attention_weights(src, src_mask, tgt_in + 10_000)
    assert not any(module._forward_hooks for module in model.modules())
