"""The cache: its four rules, and attention over it."""

from itertools import pairwise

import pytest
import torch
from conftest import Pairs, Tiny
from torch.testing import assert_close

from seqmodels.interface import reorder
from seqmodels.models.cache import KVCache, attend_fused, fuse
from seqmodels.models.transformer import Config, MultiHeadAttention


def write(cache: KVCache, *tokens: float) -> KVCache:
    """Return the cache after one more token of each row; its value is minus its key."""
    grown = cache.grow()
    k = torch.tensor(tokens, dtype=torch.float).view(cache.n_sources, 1, -1, 1).expand(-1, 2, -1, 3)
    for layer in (0, 1):
        grown.update(layer, k + 100 * layer, -k[..., :1])
    return grown


def keys(cache: KVCache) -> list[list[float]]:
    """Return the keys that each row sees, in the order of their slots."""
    width = len(cache.visible) // cache.n_sources
    k = cache[0][0][:, 1, :, 0].repeat_interleave(width, 0)
    return [row[seen].tolist() for row, seen in zip(k, cache.visible, strict=True)]


def start(n_tokens: int, width: int = 1) -> KVCache:
    """Return a cache of two sources that have tokens 1, 2, … and 11, 12, … and room for more."""
    cache = KVCache(torch.ones(2, 0, dtype=torch.bool))
    for t in range(1, n_tokens + 1):
        cache = write(cache, t, 10 + t)
    return cache.reorder(torch.arange(2).repeat_interleave(width))


def is_shared(one: KVCache, other: KVCache) -> bool:
    """Return whether two caches are views of the same memory."""
    places = ({layer[0].data_ptr() for layer in cache.layers} for cache in (one, other))
    return next(places) == next(places)


@torch.inference_mode()
def test_growth_copies_only_where_there_is_no_room() -> None:
    caches = [start(1)]
    for t in range(2, 60):
        caches.append(write(caches[-1], t, 10 + t))
        assert keys(caches[-1]) == [[*range(1, t + 1)], [*range(11, t + 11)]]
    assert sum(not is_shared(*two) for two in pairwise(caches)) == 3  # at 1, 17 and 34 slots
    assert keys(caches[3]) == [[1, 2, 3, 4], [11, 12, 13, 14]]
    v = caches[-1].layers[1][1]
    assert v.shape == (2, 2, 59, 1)
    assert v[1, 0, :, 0].tolist() == [*range(-11, -70, -1)]


@torch.inference_mode()
def test_views_share_a_buffer_and_see_their_own_slots() -> None:
    cache = start(3, width=2)
    swapped = cache.reorder(torch.tensor([1, 0, 3, 3]))
    grown = write(swapped, 4, 5, 14, 15)
    assert is_shared(cache, swapped)
    assert is_shared(cache, grown)
    assert keys(grown) == [[1, 2, 3, 4], [1, 2, 3, 5], [11, 12, 13, 14], [11, 12, 13, 15]]
    assert keys(cache) == keys(swapped) == 2 * [[1, 2, 3]] + 2 * [[11, 12, 13]]


@torch.inference_mode()
def test_a_second_growth_from_the_same_view_copies() -> None:
    cache, rows = start(3), torch.tensor([1, 0])
    first, second = write(cache, 4, 14), write(cache, 5, 15)
    third = write(cache.reorder(rows, rows), 6, 16)
    assert is_shared(cache, first)
    assert not is_shared(cache, second)
    assert keys(first) == [[1, 2, 3, 4], [11, 12, 13, 14]]
    assert keys(second) == [[1, 2, 3, 5], [11, 12, 13, 15]]
    assert keys(third) == [[11, 12, 13, 6], [1, 2, 3, 16]]
    assert keys(cache) == [[1, 2, 3], [11, 12, 13]]


@torch.inference_mode()
def test_reordering_copies_only_where_sources_are_picked() -> None:
    cache = write(start(2, width=3), *range(3, 6), *range(13, 16))
    beams = torch.tensor([2, 0, 0, 5, 4, 5])
    assert is_shared(cache, cache.reorder(beams))
    left = cache.reorder(beams[3:], torch.tensor([1]))
    assert not is_shared(cache, left)
    assert (left.n_sources, left.lengths.tolist()) == (1, [3, 3, 3])
    assert keys(left) == [[11, 12, 15], [11, 12, 14], [11, 12, 15]]
    assert keys(write(left, 7, 8, 9)) == [[11, 12, 15, 7], [11, 12, 14, 8], [11, 12, 15, 9]]
    copied = write(cache.reorder(beams).reorder(torch.arange(6), torch.arange(2)), *range(20, 26))
    assert keys(copied)[:2] == [[1, 2, 5, 20], [1, 2, 3, 21]]


@pytest.mark.parametrize("width", [1, 3])
def test_a_cache_in_a_search_is_a_concatenation(width: int, tiny: Tiny, pairs: Pairs) -> None:
    """Beams are reordered at random; copies leave out the slots that no beam sees any more."""
    model, (src, src_mask, _) = tiny("gpt", n_positions=64), pairs
    sources, draw = torch.arange(len(src)), torch.Generator().manual_seed(1)
    first = sources.unsqueeze(1) * width
    picks = [first + torch.randint(width, (len(src), width), generator=draw) for _ in range(40)]
    logits, n_slots = [], []
    for has_gradients in (True, False):
        with torch.set_grad_enabled(has_gradients):
            state = reorder(model.encode(src, src_mask), sources.repeat_interleave(width))
            for t, rows in enumerate(picks):
                found, state = model.step(4 + (rows.flatten() + t) % 7, state)
                logits.append(found.detach())
                state = reorder(state, rows.flatten())
            n_slots.append(state.cache.visible.shape[1])
    assert_close(torch.stack(logits[40:]), torch.stack(logits[:40]))
    assert n_slots[0] == src.shape[1] + 40 * width
    assert n_slots[1] == n_slots[0] if width == 1 else n_slots[1] < n_slots[0]


@pytest.mark.parametrize(
    "name", ["gpt", "transformer", "transformer_cosine", "transformer_wrong_axis"]
)
def test_fused_attention_is_the_equation(name: str, tiny: Tiny, pairs: Pairs) -> None:
    model = tiny(name, dropout=0.3)
    by_equation = model(*pairs)
    fuse(model, attend_fused)
    assert_close(model(*pairs), by_equation)
    assert torch.equal(model(*pairs), by_equation) == (name not in ("gpt", "transformer"))


@pytest.mark.parametrize("is_fused", [True, False])
def test_both_attentions_drop_the_same_share(is_fused: bool) -> None:
    cfg = Config(vocab_size=9, d_model=8, d_k=6, d_v=25, dropout=0.37)
    attention = MultiHeadAttention(cfg)
    attention.W_o = torch.nn.Identity()
    if is_fused:
        fuse(attention, attend_fused)
    q, k = torch.randn(2, 8, 8, 25, 6)
    unit_vectors, seen = torch.eye(25).expand(8, 8, -1, -1), torch.ones(25, dtype=torch.bool)
    weights = attention(q, k, unit_vectors, seen).unflatten(-1, (8, 25))
    assert (weights == 0).float().mean().item() == pytest.approx(0.37, abs=0.03)
    assert weights.sum(-1).mean().item() == pytest.approx(1.0, abs=0.03)
