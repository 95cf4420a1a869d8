"""The search, written once for every model: greedy, beam, sampling."""

import math
from typing import Any, NamedTuple

import pytest
import torch
from conftest import TINY, Tiny, V
from torch import Tensor
from torch.nn import functional as F

from seqmodels import BOS, EOS, PAD, UNK, SequenceModel, build, search


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


def naive_beam(
    model: SequenceModel, src: Tensor, width: int, max_len: int, penalty: float
) -> list[int]:
    """Search one source with lists of hypotheses; return the tokens of the best one."""
    kept = [(0.0, [])]
    for _ in range(max_len):
        extended = [one for one in kept if one[1][-1:] == [EOS]]
        if begun := [one for one in kept if one[1][-1:] != [EOS]]:
            rows = src.expand(len(begun), -1)
            logits = model(rows, rows > 0, torch.tensor([[BOS, *y] for _, y in begun]))[:, -1]
            logits[:, [PAD, BOS]] = -torch.inf
            for (log_p, y), row in zip(begun, logits.log_softmax(-1).tolist(), strict=True):
                extended += [(log_p + row[k], [*y, k]) for k in (EOS, UNK, *range(4, len(row)))]
        kept = sorted(extended, reverse=True)[:width]
    _, best = max(kept, key=lambda one: one[0] / len(one[1]) ** penalty)
    return search.trim_at_eos(best)


ALL_TEXTS = 1 + 3 + 9 + 27 + 81
"""Those of up to four tokens: UNK and two words, ended by EOS, or cut."""


@torch.no_grad()
def test_a_beam_finds_what_a_naive_one_finds(name: str) -> None:
    lengths, max_len = set(), torch.tensor([4, 2, 3])
    for n_tokens, widths, penalty in 2 * [(6, [ALL_TEXTS], 1), (6, [9], 0), (V, [2, 3], 0.6)]:
        model = build(name, n_tokens, **TINY[name]).double().eval()
        for p in model.parameters():
            torch.nn.init.normal_(p, std=0.6)
        src = torch.randint(4, n_tokens, (3, 4)) * (torch.arange(4) < torch.tensor([[4], [1], [3]]))
        for width in widths:
            given = width, *([penalty] if penalty != 1 else [])  # by default
            found = search.beam(model, src, src > 0, max_len, *given)
            assert found == [
                naive_beam(model, row[row > 0], width, n, penalty)
                for row, n in zip(src, max_len.tolist(), strict=True)
            ]
            lengths |= {len(y) for y in found}
    assert len(lengths) > 1


class Echo(SequenceModel):
    """A model that writes the first token of its source as often as the source has tokens."""

    beam_shared_fields = ("kind",)

    def __init__(self) -> None:
        super().__init__(None)
        self.rows: list[int] = []

    def encode(self, src: Tensor, src_mask: Tensor) -> Left:
        return Left(src_mask.sum(1), src[:, 0])

    def step(self, y: Tensor, state: Left) -> tuple[Tensor, Left]:
        self.rows.append(len(y))
        token = state.kind.repeat_interleave(len(y) // len(state.kind)).where(state.n > 0, EOS)
        return 9.0 * F.one_hot(token, V), state._replace(n=state.n - 1)


def test_finished_rows_leave_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    for device, due in (("cpu", [*range(1, 34)]), ("cuda", [16, 32])):
        assert [t for t in range(1, 34) if search.is_check_due(t, torch.device(device))] == due
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
    assert model.rows == [8, 8, 8, 6, 6, 4, 2, 2, 2, 2]  # few who have finished stay
    monkeypatch.setattr(search, "is_check_due", lambda t, device: t == 8)
    model, limits = Echo(), torch.tensor([12, 2, *6 * [12]])
    expected[1] = expected[1][:2]
    assert search.greedy(model, src, src > 0, limits) == expected
    assert model.rows == [8, 8, *6 * [6], *4 * [1]]


def every_search(model: SequenceModel, max_len: int) -> list[list[int]]:
    draw = torch.Generator().manual_seed(1)
    return [
        *search.greedy(model, *ONE_SOURCE, max_len),
        *search.beam(model, *ONE_SOURCE, max_len, 3),
        *search.generate(model, *ONE_SOURCE, max_len, search.sampler(draw)),
    ]


def test_texts_end_with_eos_or_at_the_limit() -> None:
    likes = {PAD: 0.6, BOS: 0.3, 4: 0.09, EOS: 0.01}
    for written in every_search(Chain({BOS: likes, 4: likes}), 20):
        assert written
        assert set(written) == {4}
    endless = Chain({BOS: {4: 1.0}, 4: {4: 1.0}})
    assert every_search(endless, 7) == [[4] * 7] * 3
    four = {5: 0.26, 6: 0.25, 7: 0.25, UNK: 0.24}  # log 0.13 / 3 > log 0.5, but not / 3 ** 0.95
    long = Chain({BOS: {EOS: 0.5, 4: 0.5}, 4: four, **{y: {EOS: 1.0} for y in four}})
    assert search.beam(long, *ONE_SOURCE, 5, 3) == [[4, 5]]
    short = Chain({BOS: {4: 1.0}, 4: {5: 1.0}, 5: {EOS: 1.0}})
    assert every_search(short, 7) == [[4, 5]] * 3
    assert every_search(short, 1) == [[4]] * 3
    assert search.continue_text(short, [4], 9, 8, search.allowed_argmax) == [5]


@pytest.mark.parametrize(("settings", "p"), [
    ((1.0,), [0.5, 0.3, 0.2]), ((0.5,), [25 / 38, 9 / 38, 4 / 38]), ((0.0,), [1, 0, 0]),
    ((1.0, 2), [5 / 8, 3 / 8, 0]), ((1.0, None, 0.79), [5 / 8, 3 / 8, 0]),
    ((1.0, 2, 0.62), [1, 0, 0]),  # 5 / 8 of two, but 0.5 of all
])  # fmt: skip
def test_samples_follow_the_model(settings: Any, p: list[float]) -> None:
    likes = {PAD: 3.0, 6: 0.2, 4: 0.5, 5: 0.3}
    model, n = Chain({BOS: likes, **{y: {EOS: 1.0} for y in (4, 5, 6)}}), 4000
    src = torch.full((n, 1), 4)
    choose = search.sampler(torch.Generator().manual_seed(1), *settings)
    drawn = search.generate(model, src, src > 0, 3, choose)
    shares = [drawn.count([y]) / n for y in (4, 5, 6)]
    assert shares == pytest.approx(p, abs=0.03)
    assert [share == 0 for share in shares] == [share == 0 for share in p]


def test_a_sampler_up_to_its_limits() -> None:
    """The nucleus ends with the token that reaches top-p exactly."""
    generator = torch.Generator()
    for settings in ((1e-3,), (1e3,), (1.0, 1), (1.0, None, 1.0)):
        search.sampler(generator, *settings)
    faults = {(t,): f"temperature {t}" for t in (-1.0, 1e-4, 1025.0, math.inf, math.nan)}
    faults |= {(1.0, 0): "top-k 0", (1.0, None, 0.0): "top-p 0.0", (1.0, None, 1.25): "top-p 1.25"}
    for settings, fault in faults.items():
        with pytest.raises(ValueError, match=f"{fault}: choose"):
            search.sampler(generator, *settings)
    for n, top_p, n_kept in ((2, 0.5, 1), (4, 0.5, 2), (4, 0.75, 3), (4, 1.0, 4)):
        kept = search.keep_likeliest(torch.zeros(1, n), None, top_p)
        assert int(kept.isfinite().sum()) == n_kept


@pytest.mark.parametrize("n_begun", [0, 1, 4])
def test_a_prefix_is_continued(name: str, n_begun: int, tiny: Tiny) -> None:
    model, begun = tiny(name), torch.randint(4, 11, (1, n_begun))
    choose = search.sampler(torch.Generator().manual_seed(3), 0.7)
    bos = torch.tensor([[BOS]])
    (said,) = search.generate(model, bos, bos > 0, 9, choose, begun)
    generator, text, src = torch.Generator().manual_seed(3), begun, torch.tensor([[BOS]])
    while text.shape[1] < 9:  # naive: everything again for every token
        logits = model(src, src > 0, torch.cat([src, text], 1))[:, -1] / 0.7
        logits[:, [PAD, BOS]] = -torch.inf
        text = torch.cat([text, torch.multinomial(logits.softmax(-1), 1, generator=generator)], 1)
    naive = text[0].tolist()
    assert said[:n_begun] == naive[:n_begun] == begun[0].tolist()
    assert said == search.trim_at_eos(naive)


def test_a_text_goes_on_in_blocks(tiny: Tiny) -> None:
    """After BOS; half of a full block begins the next one, and EOS is the end."""
    chosen, seen, model = iter([6, 7, 8, 9, EOS]), list[Tensor](), tiny("gpt")

    def choose(logits: Tensor) -> Tensor:
        seen.append(logits)
        return torch.tensor([next(chosen)])

    assert search.continue_text(model, [4, 5], 9, 4, choose) == [6, 7, 8, 9]
    for logits, text in zip(seen, ([4, 5], [4, 5, 6], [6, 7], [6, 7, 8], [8, 9]), strict=True):
        bos, tgt_in = torch.tensor([[BOS]]), torch.tensor([[BOS, *text]])
        torch.testing.assert_close(logits, model(bos, bos > 0, tgt_in)[:, -1])
