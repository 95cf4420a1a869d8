"""The search: greedy, beam and sampling, written once for every model."""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import pytest
import torch
from conftest import TINY, Pairs, Tiny, V
from torch import Tensor
from torch.nn import functional as F

from seqmodels import BOS, EOS, PAD, UNK, SequenceModel, build, search
from seqmodels.data.batches import Example, collate


class Left(NamedTuple):
    """How many tokens are left to write, and of which kind."""

    n: Tensor
    kind: Tensor


class Chain(SequenceModel):
    """A model whose next token depends on the previous one alone, by a table of likelihoods."""

    def __init__(self, p: dict[int, dict[int, float]]):
        super().__init__(None)
        table = torch.full((8, 8), 1e-12)
        for before, row in p.items():
            for token, likelihood in row.items():
                table[before, token] = likelihood
        self.log_p = torch.nn.Parameter(table.log())

    def encode(self, src: Tensor, src_mask: Tensor) -> Left:
        return Left(src_mask.sum(1), src[:, 0])

    def step(self, y: Tensor, state: Left) -> tuple[Tensor, Left]:
        return self.log_p[y], state


ONE_SOURCE = torch.tensor([[4]]), torch.tensor([[True]])
SMALL = 6
"""Tokens in a vocabulary of which all texts can be tried."""


def texts(max_len: int) -> Iterator[list[int]]:
    """Yield every text that a search may write: ended by EOS, or cut at `max_len`."""
    words = [UNK, *range(4, SMALL)]
    for n in range(max_len):
        yield from ([*body, EOS] for body in itertools.product(words, repeat=n))
    yield from map(list, itertools.product(words, repeat=max_len))


def brute_force(model: SequenceModel, src: Tensor, src_mask: Tensor, max_len: int) -> list[int]:
    """Return the text with the best log p / length, of all there are."""
    tgt = list(texts(max_len))
    batch = collate([Example([4], y) for y in tgt])
    rows = src.expand(len(tgt), -1), src_mask.expand(len(tgt), -1)
    logits = model(*rows, batch.tgt_in)
    logits[..., [PAD, BOS]] = -torch.inf
    log_p = logits.log_softmax(-1).gather(2, batch.tgt_out.unsqueeze(2)).squeeze(2)
    total = log_p.masked_fill(batch.tgt_out == PAD, 0.0).sum(1) / (batch.tgt_out != PAD).sum(1)
    return search.trim_at_eos(tgt[total.argmax()])


@torch.no_grad()
def test_the_widest_beam_finds_the_best(name: str) -> None:
    """Keeps out a beam that loses beginnings, mixes up rows or divides by the wrong length."""
    lengths, n_texts = set(), len([*texts(4)])
    for _ in range(8):
        model = build(name, SMALL, **TINY[name]).double().eval()
        for p in model.parameters():
            torch.nn.init.normal_(p, std=0.6)
        src = torch.randint(4, SMALL, (3, 4)) * (torch.arange(4) < torch.tensor([[4], [1], [3]]))
        found = search.beam(model, src, src > 0, max_len=4, width=n_texts)
        rows = zip(src, src > 0, strict=True)
        assert found == [brute_force(model, *(t.unsqueeze(0) for t in row), 4) for row in rows]
        lengths |= set(map(len, found))
    assert len(lengths) > 1


def test_a_beam_of_one_is_greedy(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out two searches that disagree on what the likeliest token is."""
    model, (src, src_mask, _) = tiny(name), pairs
    assert search.beam(model, src, src_mask, 9, 1) == search.greedy(model, src, src_mask, 9)


class Echo(SequenceModel):
    """A model that writes the first token of its source as often as the source has tokens."""

    shared_by_beams = ("kind",)

    def __init__(self) -> None:
        super().__init__(None)
        self.rows: list[int] = []

    def encode(self, src: Tensor, src_mask: Tensor) -> Left:
        return Left(src_mask.sum(1), src[:, 0])

    def step(self, y: Tensor, state: Left) -> tuple[Tensor, Left]:
        self.rows.append(len(y))
        token = state.kind.repeat_interleave(len(y) // len(state.kind)).where(state.n > 0, EOS)
        return 9.0 * F.one_hot(token, V), state._replace(n=state.n - 1)


def test_who_has_finished_leaves() -> None:
    """Keeps out texts that are mixed up when finished ones leave, and ones that do not leave."""
    lengths = [3, 9, 1, 5, 5, 2, 9, 4]
    src = torch.tensor([[4 + i % 7] * n + [PAD] * (9 - n) for i, n in enumerate(lengths)])
    expected = [row[:n] for row, n in zip(src.tolist(), lengths, strict=True)]
    for width in (1, 2, 3):
        model = Echo()
        assert search.beam(model, src, src > 0, 12, width) == expected
        assert model.rows[0] == 8 * width
        assert model.rows[-1] == 2 * width
    model = Echo()
    assert search.greedy(model, src, src > 0, 12) == expected
    assert model.rows == sorted(model.rows, reverse=True)
    assert (model.rows[0], model.rows[-1], len(model.rows)) == (8, 2, 10)


def every_search(model: SequenceModel, max_len: int) -> list[list[int]]:
    """Write with each search from one source."""
    draw = torch.Generator().manual_seed(1)
    return [
        *search.greedy(model, *ONE_SOURCE, max_len),
        *search.beam(model, *ONE_SOURCE, max_len, 3),
        *search.sample(model, *ONE_SOURCE, max_len, draw),
    ]


def test_pads_and_starts_are_never_written() -> None:
    """Keeps out specials in a text, where a badly trained model likes them best."""
    likes = {PAD: 0.6, BOS: 0.3, 4: 0.09, EOS: 0.01}
    for written in every_search(Chain({BOS: likes, 4: likes}), 20):
        assert written
        assert set(written) == {4}


def test_no_text_is_longer_than_allowed() -> None:
    """Keeps out a search without end, and one that stops a token early or late."""
    endless = Chain({BOS: {4: 1.0}, 4: {4: 1.0}})
    assert every_search(endless, 7) == [[4] * 7] * 3
    short = Chain({BOS: {4: 1.0}, 4: {5: 1.0}, 5: {EOS: 1.0}})
    assert every_search(short, 7) == [[4, 5]] * 3
    assert every_search(short, 1) == [[4]] * 3


def test_samples_follow_the_model() -> None:
    """Keeps out a sample from other likelihoods than the model's: 0.7² : 0.3² when squared."""
    model, n = Chain({BOS: {4: 0.7, 5: 0.3}, 4: {EOS: 1.0}, 5: {EOS: 1.0}}), 4000
    src = torch.full((n, 1), 4)
    for temperature, p in ((1.0, 0.7), (0.5, 0.49 / 0.58)):
        draw = torch.Generator().manual_seed(1)
        drawn = search.sample(model, src, src > 0, 3, draw, temperature)
        assert drawn.count([4]) / n == pytest.approx(p, abs=0.03)


@pytest.mark.parametrize("n_begun", [0, 1, 4])
def test_what_has_begun_goes_on(name: str, n_begun: int, tiny: Tiny) -> None:
    """Keeps out a beginning that is read as source, or that is said again, or forgotten."""
    model, begun = tiny(name), torch.randint(4, 11, (1, n_begun))
    (said,) = search.sample_from_prefix(model, begun, 9, torch.Generator().manual_seed(3), 0.7)
    generator, text, src = torch.Generator().manual_seed(3), begun, torch.tensor([[BOS]])
    while text.shape[1] < 9:  # naive: everything again for every token
        logits = model(src, src > 0, torch.cat([src, text], 1))[:, -1] / 0.7
        logits[:, [PAD, BOS]] = -torch.inf
        text = torch.cat([text, torch.multinomial(logits.softmax(-1), 1, generator=generator)], 1)
    naive = text[0].tolist()
    assert said[:n_begun] == naive[:n_begun] == begun[0].tolist()
    assert said == search.trim_at_eos(naive)


def test_each_text_ends_at_its_own_limit(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a token more than a text may have, where others in the batch go on."""
    limits, (src, src_mask, _) = torch.tensor([2, 7, 3, 1]), pairs
    texts = search.generate(
        tiny("gpt"), src, src_mask, limits, lambda row: row[:, 0].long() * 0 + 5
    )
    assert texts == [[5] * n for n in limits]
