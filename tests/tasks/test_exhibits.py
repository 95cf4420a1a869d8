"""Memories without training: the rule that writes, by hand and against the chapter."""

from itertools import product

import numpy as np
import pytest
import torch

from tasks.exhibits import normalise, write_pair

S, K, V = np.array([[2.0], [1.0]]), np.array([0.6, 0.8]), np.array([5.0])
BY_HAND = [
    ((1.0, 1.0, False), [5.0, 5.0]),  # 2 + 5 · 0.6, 1 + 5 · 0.8
    ((0.5, 0.5, False), [2.5, 2.5]),  # 1 + 2.5 · 0.6, 0.5 + 2.5 · 0.8
    ((1.0, 0.5, True), [2.9, 2.2]),  # reads 2, writes half of 3
    ((0.5, 0.5, True), [2.2, 2.1]),  # fades first: reads 1, writes half of 4
    ((1.0, 2.0, True), [5.6, 5.8]),  # reads 8 afterwards: as far beyond 5 as it was below
]


@pytest.mark.parametrize(("rule", "expected"), BY_HAND)
def test_a_pair_is_written_as_by_hand(
    rule: tuple[float, float, bool], expected: list[float]
) -> None:
    assert np.allclose(write_pair(S, K, V, *rule)[:, 0], expected, rtol=1e-15)


def test_orthonormal_keys_and_beta_1_make_a_dictionary() -> None:
    s, held = np.zeros((4, 3)), {}
    for place, value in [(2, 7), (0, 5), (2, -3), (3, 8), (2, 9), (0, 6)]:
        held[place] = np.array([value, 2 * value, 1 - value])
        s = write_pair(s, np.eye(4)[place], held[place])
        assert all((s[place] == value).all() for place, value in held.items())
    assert (s[1] == 0).all()


SWITCHES = [*product((0.0, -0.3), (False, True), (1.0, 2.0))]


@pytest.mark.parametrize(("log_alpha", "is_delta", "beta"), SWITCHES)
def test_the_chapter_computes_the_same(log_alpha: float, is_delta: bool, beta: float) -> None:
    """From a memory that is not empty, over more than one chunk."""
    chapter = pytest.importorskip(
        "seqmodels.models.gated_deltanet", reason="the chapter is not there"
    )
    rng, shape = np.random.default_rng(3), (2, 3, 150)
    q, k, v = (normalise(rng.normal(size=(*shape, 5))) for _ in range(3))
    a, b = log_alpha * rng.random((*shape, 1)), beta * rng.random((*shape, 1))
    s = start = rng.normal(size=(2, 3, 5, 5))
    heads = []
    for t in range(shape[2]):
        fade, step = np.exp(a[:, :, t, :, None]), b[:, :, t, :, None]
        s = write_pair(s, k[:, :, t], v[:, :, t], fade, step, is_delta)
        heads.append((q[:, :, t, None] @ s)[..., 0, :])
    *tokens, start = (torch.from_numpy(x) for x in (q, k, v, a, b, start))
    its_heads, its_s = chapter.read_chunks(tuple(tokens), start, is_delta)
    assert np.abs(its_heads.numpy() - np.stack(heads, 2)).max() < 1e-11
    assert np.abs(its_s.numpy() - s).max() < 1e-11
