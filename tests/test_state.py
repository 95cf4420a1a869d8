"""The State of every model: its rows, its beams, and how it grows."""

from typing import get_type_hints

import jaxtyping
import pytest
import torch
from conftest import (
    ATTENDING,
    DECODER_ONLY,
    GROWING,
    MODELS_AND_VARIANTS,
    Pairs,
    Tiny,
    V,
    n_positions,
)
from torch.testing import assert_close

from seqmodels import MODELS, reorder, unroll
from seqmodels.models.ops import tensors_of


@pytest.fixture(params=MODELS_AND_VARIANTS)
def name(request: pytest.FixtureRequest) -> str:
    """Name each model and each variant in turn."""
    return request.param


@pytest.mark.parametrize("n_steps", [0, 2])
def test_rows_reorder(name: str, tiny: Tiny, pairs: Pairs, n_steps: int) -> None:
    """Keeps out a State with the batch on another axis: a beam would go on as its neighbour."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    _, state = unroll(model, model.encode(src, src_mask), tgt_in[:, : n_steps + 1])
    rows, y = torch.tensor([2, 0, 0, 3, 1, 2]), tgt_in[:, n_steps + 1]
    logits, after = model.step(y, state)
    logits_rows, after_rows = model.step(y[rows], reorder(state, rows, rows))
    assert_close(logits_rows, logits[rows])
    assert type(after_rows) is type(after)
    reordered = tensors_of(reorder(after, rows, rows))
    for tensor_rows, tensor in zip(tensors_of(after_rows), reordered, strict=True):
        assert_close(tensor_rows, tensor)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [*((name, {}) for name in MODELS), ("transformer", {"d_k": 3, "d_v": 5})],
    ids=[*MODELS, "transformer with d_k≠d_v"],
)
def test_states_are_what_they_say(
    name: str, sizes: dict[str, int], tiny: Tiny, pairs: Pairs
) -> None:
    """Keeps out a State with other shapes than it says: nothing else checks a NamedTuple."""
    model, (src, src_mask, tgt_in) = tiny(name, **sizes), pairs
    before = model.encode(src, src_mask)
    for state in (before, unroll(model, before, tgt_in)[1]):
        with jaxtyping.jaxtyped("context"):
            for field, shape in get_type_hints(type(state)).items():
                tensor = getattr(state, field)
                assert isinstance(tensor, shape), f"{field}: {tuple(tensor.shape)}, not {shape}"


@pytest.mark.parametrize("width", [1, 3])
def test_beams_share_their_source(name: str, width: int, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a beam that looks at its neighbour's source, and one that needs a copy of its own.

    The beams of source i stand in rows width × i and after; their texts differ from each other.
    """
    model, (src, src_mask, _) = tiny(name), pairs
    tgt_in = torch.randint(4, V, (4 * width, 6))
    rows = torch.arange(4).repeat_interleave(width)
    with torch.inference_mode():
        state = reorder(model.encode(src, src_mask), rows, shared=model.shared_by_beams)
        for field in model.shared_by_beams:
            assert {len(tensor) for tensor in tensors_of([getattr(state, field)])} == {4}
        logits, _ = unroll(model, state, tgt_in)
        expected, _ = unroll(model, model.encode(src[rows], src_mask[rows]), tgt_in)
    assert_close(logits, expected)


def test_sources_can_leave_with_their_beams(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a search that goes on with the sources of those that have finished."""
    model, (src, src_mask, _) = tiny(name), pairs
    with torch.inference_mode():
        shared, rows = model.shared_by_beams, torch.arange(4).repeat_interleave(2)
        state = reorder(model.encode(src, src_mask), rows, shared=shared)
        _, state = model.step(torch.tensor([4, 5, 6, 7, 8, 9, 4, 5]), state)
        expected, _ = model.step(torch.tensor([4, 5, 6, 7, 8, 9, 4, 5]), state)
        beams, sources = torch.tensor([7, 6, 2, 2]), torch.tensor([3, 1])
        state = reorder(state, beams, sources, shared)
        logits, _ = model.step(torch.tensor([5, 4, 6, 6]), state)
    assert_close(logits, expected[beams])


@pytest.mark.parametrize("name", ATTENDING)
def test_a_state_without_gradients_is_not_changed_either(
    name: str, tiny: Tiny, pairs: Pairs
) -> None:
    """Keeps out keys written over those of another text that goes on from the same State."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    with torch.inference_mode():
        _, state = unroll(model, model.encode(src, src_mask), tgt_in[:, :2])
        before = [t.clone() for t in tensors_of(state)]
        first, one = model.step(tgt_in[:, 2], state)
        _, other_text = model.step(tgt_in[:, 3], state)
        assert all(torch.equal(a, b) for a, b in zip(before, tensors_of(state), strict=True))
        after_first, _ = model.step(tgt_in[:, 4], one)
        model.step(tgt_in[:, 5], other_text)
        again, two = model.step(tgt_in[:, 2], state)
        assert torch.equal(first, again)
        assert torch.equal(after_first, model.step(tgt_in[:, 4], two)[0])


def test_gradients_flow_through_steps(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a cache written in place where a gradient needs what was there."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    unroll(model, model.encode(src, src_mask), tgt_in)[0].square().sum().backward()
    stepped = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(src, src_mask, tgt_in).square().sum().backward()
    for grad, p in zip(stepped, model.parameters(), strict=True):
        assert_close(grad, p.grad)


@pytest.mark.parametrize("name", ["transformer", "transformer_rotary", *DECODER_ONLY])
def test_a_text_outgrows_its_room(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a cache that loses what was written when it moves to a larger place."""
    model, (src, src_mask, _) = tiny(name, **n_positions(name, 200)), pairs
    tgt_in = torch.randint(4, V, (4, 150))
    with torch.inference_mode():
        logits, _ = unroll(model, model.encode(src, src_mask), tgt_in)
        assert_close(logits, model(src, src_mask, tgt_in))


@pytest.mark.parametrize("name", MODELS)
def test_a_memory_grows_with_the_source_or_is_fixed(name: str, tiny: Tiny) -> None:
    """Keeps out a bottleneck that is none, an attention to a summary, and faster growth."""
    model, n_bytes = tiny(name), []
    for n in (5, 10, 20):
        src = torch.randint(4, V, (2, n))
        state = model.encode(src, torch.ones_like(src, dtype=torch.bool))
        n_bytes.append(sum(t.nbytes for t in tensors_of(state)))
    five, ten, twenty = n_bytes
    assert 2 * (ten - five) == twenty - ten
    assert (ten > five) == (name in GROWING)
