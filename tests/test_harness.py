"""The harness: batches, the loop, the search, the scores, what is kept of a run."""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pytest
import sacrebleu
import torch
from conftest import TINY, Pairs, Tiny, V
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

from seqmodels import BOS, EOS, MODELS, PAD, UNK, Batch, SequenceModel, build, search
from seqmodels.catalog import CATALOG
from seqmodels.comparison import compare, runs, task
from seqmodels.data import batches, tokenizers
from seqmodels.data.batches import Example, collate
from seqmodels.evaluation import evaluate, metrics
from seqmodels.records import record
from seqmodels.report import figures
from seqmodels.training import checkpoint, loop
from seqmodels.training.trainer import Precision, TrainConfig, Trainer, loss_of, schedule, seed_all
from tasks import next_token, recall, translation

ATTENDING = ["bahdanau", "transformer", "gpt"]
ONE_VECTOR = ["rnn_encdec", "lstm_seq2seq"]


class Seen(NamedTuple):
    """The State of a Chain."""

    n_source: Tensor


class Chain(SequenceModel):
    """A model whose next token depends on the previous one alone, by a table of likelihoods."""

    def __init__(self, p: dict[int, dict[int, float]]):
        super().__init__(None)
        table = torch.full((8, 8), 1e-12)
        for before, row in p.items():
            for token, likelihood in row.items():
                table[before, token] = likelihood
        self.log_p = torch.nn.Parameter(table.log())

    def encode(self, src: Tensor, src_mask: Tensor) -> Seen:
        return Seen(src_mask.sum(1))

    def step(self, y: Tensor, state: Seen) -> tuple[Tensor, Seen]:
        return self.log_p[y], state

    def forward(self, src: Tensor, src_mask: Tensor, tgt_in: Tensor) -> Tensor:
        return self.log_p[tgt_in]


ONE_SOURCE = torch.tensor([[4]]), torch.tensor([[True]])


def draw_examples(n: int, longest: int, seed: int = 1) -> list[Example]:
    """Draw sources of skewed lengths, and targets about as long."""
    rng = random.Random(seed)

    def one() -> Example:
        n_src = min(longest, max(1, round(rng.lognormvariate(2.7, 0.6))))
        n_tgt = min(longest, max(1, round(n_src * rng.uniform(0.8, 1.3))))
        src, tgt = ([rng.randrange(4, V) for _ in range(k)] for k in (n_src, n_tgt - 1))
        return Example(src, [*tgt, EOS])

    return [one() for _ in range(n)]


# ---------------------------------------------------------------------------------------- decode


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


def test_all_texts_are_counted() -> None:
    """Keeps out a brute force that misses texts, and so agrees with a search that does."""
    words = SMALL - 3  # all but PAD, BOS and EOS
    assert len(list(texts(3))) == 1 + words + words**2 + words**3


@torch.no_grad()
def test_the_widest_beam_finds_the_best(name: str) -> None:
    """Keeps out a beam that loses beginnings, mixes up states or divides by the wrong length."""
    lengths, n_texts = set(), len([*texts(4)])
    for _ in range(4):
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


@pytest.mark.parametrize("width", [1, 3])
def test_search_does_not_see_the_batch(name: str, width: int, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out beams that cross from one sentence into another, and pads that change a text."""
    model, (src, src_mask, _) = tiny(name), pairs
    together = search.beam(model, src, src_mask, 8, width)
    for row, mask, found in zip(src, src_mask, together, strict=True):
        alone = row[mask].unsqueeze(0)
        assert search.beam(model, alone, torch.ones_like(alone).bool(), 8, width) == [found]


class Left(NamedTuple):
    """How many tokens are left to write, and of which kind."""

    n: Tensor
    kind: Tensor


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


def test_a_beam_steps_back_where_greedy_cannot() -> None:
    """Keeps out a beam of greedy texts: log p / length is checked by hand.

    Greedy: 4 (0.6), then EOS at 0.1. Beam: 5 (0.4), then EOS for sure.
    """
    spread = {EOS: 0.1, 4: 0.3, 5: 0.3, 6: 0.3}
    model = Chain({BOS: {4: 0.6, 5: 0.4}, 4: spread, 5: {EOS: 1.0}, 6: spread})
    assert search.greedy(model, *ONE_SOURCE, 2)[0][0] == 4
    assert search.beam(model, *ONE_SOURCE, 2, 2) == [[5]]


def test_a_long_text_may_win() -> None:
    """Keeps out a best by log p alone, by which the shortest text wins nearly always.

    EOS at once: log 0.5 / 1. Three tokens and EOS: (log 0.5 + 0 + 0 + 0) / 4.
    """
    model = Chain({BOS: {EOS: 0.5, 4: 0.5}, 4: {5: 1.0}, 5: {6: 1.0}, 6: {EOS: 1.0}})
    assert search.beam(model, *ONE_SOURCE, 9, 2) == [[4, 5, 6]]


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


def test_gpt_writes_to_its_last_position(tiny: Tiny) -> None:
    """Keeps out `max_target` being off by one: a text cut early, or an error at the end."""
    model, src = tiny("gpt", n_positions=8), torch.tensor([[4, 5, 6]])
    mask = torch.ones_like(src).bool()
    n = model.max_target(3)
    model(src, mask, torch.full((1, n), 4))
    with pytest.raises(ValueError, match="9 positions, this GPT has 8"):
        model(src, mask, torch.full((1, n + 1), 4))
    assert len(search.beam(model, src, mask, n, 2)[0]) <= n


def test_a_seed_fixes_the_sample(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a draw from the global generator: same seed, same text, and only then."""
    model, (src, src_mask, _) = tiny(name), pairs

    def draw(seed: int) -> list[list[int]]:
        torch.rand(seed)
        return search.sample(model, src, src_mask, 8, torch.Generator().manual_seed(seed))

    assert draw(1) == draw(1)
    assert len({str(draw(seed)) for seed in range(5)}) > 1


def test_a_cold_sample_is_greedy(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out logits that are multiplied by the temperature."""
    model, (src, src_mask, _) = tiny(name), pairs
    cold = search.sample(model, src, src_mask, 8, torch.Generator(), 1e-4)
    assert cold == search.greedy(model, src, src_mask, 8)


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


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
def test_a_temperature_is_above_zero(temperature: float) -> None:
    """Keeps out a division by zero, and likelihoods that are no numbers."""
    with pytest.raises(ValueError, match="above zero"):
        search.sample(Chain({}), *ONE_SOURCE, 3, torch.Generator(), temperature)


@pytest.mark.parametrize("attending", ATTENDING)
def test_alignments_are_weights(attending: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out weights on pads, weights shifted by a token, and rows that do not sum to one.

    GPT's rows sum to less: it looks at the target, too.
    """
    model, (src, src_mask, tgt_in) = tiny(attending), pairs
    alpha = model.align(src, src_mask, tgt_in)
    assert alpha.shape == (4, 6, 5)
    assert (alpha.masked_select(~src_mask.unsqueeze(1)) == 0).all()
    total = alpha.sum(2)
    assert_close(total.clamp(min=1.0), torch.ones_like(total))
    assert (total > 0).all()
    if attending != "gpt":
        assert_close(total, torch.ones_like(total))
    first = model.align(src, src_mask, tgt_in[:, :1])
    assert_close(first, alpha[:, :1])


@pytest.mark.parametrize("one_vector", ONE_VECTOR)
def test_one_vector_has_no_alignment(one_vector: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out an alignment made up for a model that has none."""
    with pytest.raises(ValueError, match="whole source is in one vector"):
        tiny(one_vector).align(*pairs)


# --------------------------------------------------------------------------------------- batches


@pytest.fixture(scope="module")
def mixed() -> list[Example]:
    """Draw a realistic mix of lengths."""
    return draw_examples(4000, 80)


def size(example: Example) -> int:
    """Return the longer side."""
    return max(len(example.src), len(example.tgt))


@pytest.mark.parametrize("epoch", [0, 1])
def test_an_epoch_holds_every_example_once(mixed: list[Example], epoch: int) -> None:
    """Keeps out a last batch that is dropped, and an example that is drawn twice."""
    for drawn in (list(batches.shuffled(mixed, 1500, 1, epoch)), batches.by_length(mixed, 1500)):
        assert sorted(i for run in drawn for i in run) == list(range(len(mixed)))
        assert all(drawn)


def test_order_is_a_function_of_seed_and_epoch(mixed: list[Example]) -> None:
    """Keeps out an order that depends on what was drawn before, here or elsewhere."""
    third = list(batches.shuffled(mixed, 1500, 7, 3))
    random.seed(5)
    torch.manual_seed(5)
    earlier = [list(batches.shuffled(mixed, 1500, 7, epoch)) for epoch in range(3)]
    assert list(batches.shuffled(mixed, 1500, 7, 3)) == third
    stream = itertools.islice(batches.stream(mixed, 1500, 7), sum(map(len, earlier)), None)
    for run, batch in zip(third[:20], stream, strict=False):
        assert_close(batch, collate([mixed[i] for i in run]))


def test_no_two_epochs_are_alike(mixed: list[Example]) -> None:
    """Keeps out a seed or an epoch that is not used, and batches that only change places."""
    drawn = [list(batches.shuffled(mixed, 1500, *key)) for key in ((1, 0), (1, 1), (2, 0))]
    members = [{frozenset(run) for run in runs} for runs in drawn]
    for one, other in itertools.combinations(members, 2):
        assert len(one & other) < 0.05 * len(one)


def test_the_order_is_pinned() -> None:
    """Keeps out a change of order that nobody meant: stored records could not be made again."""
    examples = [Example([4] * n, [5] * n) for n in (3, 1, 4, 1, 5, 9, 2, 6, 5, 3)]
    assert list(batches.shuffled(examples, 12, 1, 0)) == [[7], [3, 1, 6, 9], [5], [0, 2], [8, 4]]
    assert batches.by_length(examples, 12) == [[1, 3, 6, 0], [9, 2], [4, 8], [7], [5]]


@pytest.mark.parametrize(("epoch", "batch"), [(0, 0), (0, 2), (1, 1)])
def test_draws_go_on_anywhere(epoch: int, batch: int) -> None:
    """Keeps out a resumed run that repeats batches, leaves some out, or counts them anew."""
    examples = draw_examples(30, 9)
    runs = [list(batches.shuffled(examples, 100, 7, i)) for i in range(4)]
    drawn = [(i, j, rows) for i, epoch in enumerate(runs) for j, rows in enumerate(epoch)]
    expected = [draw for draw in drawn if draw[:2] >= (epoch, batch)]
    assert len(expected) > 6
    found = batches.draws(examples, 100, 7, epoch, batch)
    assert [tuple(next(found)) for _ in expected] == expected


def test_batches_keep_to_their_budget(mixed: list[Example]) -> None:
    """Keeps out a batch that is larger than memory allows, unless one example alone is."""
    longest = Example([4] * 2000, [EOS])
    for drawn in (
        list(batches.shuffled([*mixed, longest], 1500, 1, 0)),
        batches.by_length([*mixed, longest], 1500),
    ):
        sizes = [len(run) * max(size([*mixed, longest][i]) for i in run) for run in drawn]
        assert sorted(sizes)[-2:] == [max(s for s in sizes if s <= 1500), 2000]
        assert [len(mixed)] in drawn


def test_batches_are_filled(mixed: list[Example]) -> None:
    """Keeps out padding that is paid for: at most 10 % pads, batches at least 3/4 full."""
    runs = list(batches.shuffled(mixed, 1500, 1, 0))
    n_pads = n_all = 0
    for run in runs:
        batch = collate([mixed[i] for i in run])
        for tensor in (batch.src, batch.tgt_out):
            n_pads += int((tensor == PAD).sum())
            n_all += tensor.numel()
    assert n_pads / n_all <= 0.10
    assert n_all / 2 / len(runs) >= 0.75 * 1500


def test_collate_shifts_by_one() -> None:
    """Keeps out a model that sees the token that it must say, and an EOS that is made up."""
    ended, cut = Example([4, 5, 6], [7, 8, EOS]), Example([9], [4, 5, 6, 7])
    batch = collate([ended, cut])
    assert batch.src.tolist() == [[4, 5, 6], [9, PAD, PAD]]
    assert batch.src_mask.tolist() == [[True] * 3, [True, False, False]]
    assert batch.tgt_in.tolist() == [[BOS, 7, 8, PAD], [BOS, 4, 5, 6]]
    assert batch.tgt_out.tolist() == [[7, 8, EOS, PAD], [4, 5, 6, 7]]


def test_what_is_given_is_not_scored(tiny: Tiny) -> None:
    """Keeps out keys of a question in the loss, or missing from what the model reads."""
    asked = Example([4, 5], [6, 7, 8], frozenset({0, 1}))
    batch = collate([asked, Example([4], [5, EOS])])
    assert batch.tgt_in.tolist() == [[BOS, 6, 7], [BOS, 5, PAD]]
    assert batch.tgt_out.tolist() == [[PAD, PAD, 8], [5, EOS, PAD]]
    model = tiny("gpt")
    (row,) = evaluate.teacher_forced(model, [asked])
    src = torch.tensor([[4, 5]])
    with torch.no_grad():
        logits = model(src, src > 0, torch.tensor([[BOS, 6, 7]]))
    assert (row["n_tokens"], asked.scored()) == (1, [8])
    assert row["nats"] == pytest.approx(-logits.log_softmax(-1)[0, 2, 8].item())


# ----------------------------------------------------------------------------------------- train

ROOT = Path(__file__).parents[1]
CFG = TrainConfig(tokens=300, rate=1e-2, batch_tokens=60, n_validations=3)


def weights_after(model: SequenceModel, cfg: TrainConfig) -> tuple[dict[str, Tensor], Any]:
    """Train on a few examples; return the weights, and the curve without its seconds."""
    examples = draw_examples(40, 8)
    curve = loop.train(Trainer(model, cfg), examples[8:], examples[:8])
    points = [{k: v for k, v in point.items() if k != "seconds"} for point in curve]
    return {k: v.clone() for k, v in model.state_dict().items()}, points


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Tell whether two models have the same bits."""
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def test_the_same_seed_gives_the_same_bits(name: str, fresh: Tiny) -> None:
    """Keeps out chance from elsewhere, dropout's above all; another seed must give other bits."""
    sizes = {"dropout": 0.1} if name in ("transformer", "gpt") else {}
    model = fresh(name, **sizes)
    start = {k: v.clone() for k, v in model.state_dict().items()}
    results = []
    for before, seed in ((3, 1), (4, 1), (3, 2)):
        torch.manual_seed(before)
        model.load_state_dict(start)
        results.append(weights_after(model, TrainConfig(**vars(CFG) | {"seed": seed})))
    (one, curve), (again, same_curve), (other, other_curve) = results
    assert same(one, again)
    assert curve == same_curve
    assert not same(one, other)
    assert curve != other_curve


LIVELY: dict[str, dict[str, Any]] = {
    "lstm_seq2seq": {"n_layers": 1, "init_range": 0.3, "forget_bias": 2.0},
    "gpt": {"init_std": 0.1},
}
"""Larger starts for narrow models."""


@pytest.mark.parametrize("precision", get_args(Precision))
def test_both_precisions_learn_the_same(name: str, precision: Precision, fresh: Tiny) -> None:
    """Keeps out a precision in which small steps are lost: both copy as well after 200 steps."""
    rng = random.Random(1)
    texts = [[rng.randrange(4, V) for _ in range(3)] for _ in range(300)]
    examples = [Example(text, [*text, EOS]) for text in texts]
    cfg = TrainConfig(tokens=24_000, rate=1e-2, batch_tokens=120, precision=precision)
    model = fresh(name, d_model=32, **LIVELY.get(name, {}))
    curve = loop.train(Trainer(model, cfg), examples[50:], examples[:50])
    assert all(p.dtype == torch.float32 for p in model.parameters())
    assert curve[-1]["valid_nats"] < 0.5


def test_bfloat16_is_used(fresh: Tiny, pairs: Pairs) -> None:
    """Keeps out a switch without effect."""
    src, src_mask, tgt_in = pairs
    batch = Batch(src, src_mask, tgt_in, tgt_in.roll(-1, 1))
    losses = set()
    for precision in get_args(Precision):
        torch.manual_seed(1)
        trainer = Trainer(fresh("gpt"), TrainConfig(**vars(CFG) | {"precision": precision}))
        losses.add(trainer.optimizer_step(batch, 1e-2))
    assert len(losses) == 2


def test_the_faster_precision_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out bfloat16 on processors that take longer for it."""
    assert loop.fastest_precision("cpu") in get_args(Precision)
    for seconds, choice in ((0.9, "float32"), (0.5, "bfloat16")):
        ticks = itertools.chain.from_iterable((0.0, duration) for duration in [1.0, seconds] * 10)
        monkeypatch.setattr(loop.time, "perf_counter", lambda ticks=ticks: next(ticks))
        assert loop.fastest_precision("cpu") == choice


def test_the_rate_climbs_and_falls() -> None:
    """Keeps out a schedule that starts at its peak, misses it, or does not end at zero."""
    rates = [schedule(done / 100, 0.1) for done in range(101)]
    assert rates[0] == rates[100] == 0.0
    assert rates[10] == max(rates) == 1.0
    assert rates[:11] == sorted(rates[:11])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert (rates[5], rates[55]) == pytest.approx((0.5, 0.5))
    assert schedule(0.0, 0.0) == 1.0


def test_the_budget_is_kept(fresh: Tiny) -> None:
    """Keeps out a model that trains longer than the others, and a curve without its end."""
    _, curve = weights_after(fresh("gpt"), CFG)
    assert CFG.tokens <= curve[-1]["tokens"] < CFG.tokens + CFG.batch_tokens
    assert len(curve) == CFG.n_validations
    assert curve[0]["valid_nats"] > curve[-1]["valid_nats"]


def test_the_best_weights_are_kept(fresh: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out the last weights in place of the best, and a copy that goes on changing."""
    model, snapshots = fresh("rnn_encdec"), []
    losses = iter([3.0, 1.0, 2.0])

    def validate(model: SequenceModel, *_: Any) -> dict[str, float]:
        snapshots.append({k: v.clone() for k, v in model.state_dict().items()})
        return {"valid_nats": next(losses), "valid_accuracy": 0.0}

    monkeypatch.setattr(loop, "validate", validate)
    examples = draw_examples(20, 8)
    loop.train(Trainer(model, CFG), examples, examples)
    assert len(snapshots) == 3
    assert same(model.state_dict(), snapshots[1])
    assert not same(snapshots[1], snapshots[2])


def test_a_point_of_the_curve_is_a_mean_since_the_last(
    fresh: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a training loss that is a sum, or one since the beginning; time is summed."""
    trainer, losses = Trainer(fresh("gpt"), CFG), iter([4.0, 2.0, 1.0])
    monkeypatch.setattr(trainer, "optimizer_step", lambda *_: next(losses))
    ticks = itertools.count()
    monkeypatch.setattr("time.perf_counter", lambda: float(next(ticks)))
    batch = collate(draw_examples(3, 4))
    scored = {"valid_nats": 1.0, "valid_accuracy": 0.0}
    for n in (2, 1):
        for _ in range(n):
            trainer.training_step(batch, [1])
        trainer.add_point(scored)
    assert [point["train_nats"] for point in trainer.progress.curve] == [3.0, 1.0]
    assert [point["seconds"] for point in trainer.progress.curve] == [2.0, 3.0]
    assert [point["step"] for point in trainer.progress.curve] == [2, 3]


def test_a_seed_starts_every_generator() -> None:
    """Keeps out seeds that share their dropout."""
    drawn = []
    for seed in (1, 2, 1):
        seed_all(seed)
        drawn.append((random.random(), np.random.random(), torch.rand(1).item()))
    assert drawn[0] == drawn[2]
    assert all(one != other for one, other in zip(*drawn[:2], strict=True))


def test_a_lost_loss_is_said(fresh: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a traceback for a rate that is too high: no weights were ever the best."""
    lost = {"valid_nats": math.nan, "valid_accuracy": 0.0}
    monkeypatch.setattr(loop, "validate", lambda *_: lost)
    with pytest.raises(ValueError, match=r"lower rate 0\.01"):
        weights_after(fresh("rnn_encdec"), CFG)


def test_validation_is_exact_and_leaves_no_trace(tiny: Tiny) -> None:
    """Keeps out dropout in validation, a mean of means, and a model left in the wrong mode."""
    model, examples = tiny("transformer", dropout=0.5).train(), draw_examples(30, 20)
    found = loop.validate(model, examples, "cpu")
    assert model.training
    rows = evaluate.teacher_forced(model, examples)
    n = sum(row["n_tokens"] for row in rows)
    assert found["valid_nats"] == pytest.approx(sum(row["nats"] for row in rows) / n)
    right = sum(row["n_right"] for row in rows)
    assert found["valid_accuracy"] == pytest.approx(100 * right / n)


def test_label_smoothing_spreads_the_target(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a switch that does nothing: (1 - ε) of the loss, ε of the mean over all tokens."""
    model, (src, src_mask, tgt_in) = tiny("gpt"), pairs
    batch = Batch(src, src_mask, tgt_in, torch.randint(4, V, tgt_in.shape))
    log_p = model(src, src_mask, tgt_in).log_softmax(-1)
    hard = -log_p.gather(2, batch.tgt_out.unsqueeze(2)).mean()
    assert_close(loss_of(model, batch), hard)
    assert_close(loss_of(model, batch, 0.1), 0.9 * hard - 0.1 * log_p.mean())


def test_a_loss_is_summed_in_float32(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a loss with three digits: bfloat16 is for the products alone."""
    model, (src, src_mask, tgt_in) = tiny("gpt").bfloat16(), pairs
    batch = Batch(src, src_mask, tgt_in, torch.randint(4, V, tgt_in.shape))
    assert model(src, src_mask, tgt_in).dtype == torch.bfloat16
    loss = loss_of(model, batch)
    assert loss.dtype == torch.float32
    log_p = model(src, src_mask, tgt_in).float().log_softmax(-1)
    assert_close(loss, -log_p.gather(2, batch.tgt_out.unsqueeze(2)).mean())


def test_pads_do_not_change_the_loss(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a loss that is smaller the more pads there are."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    tgt_out = torch.randint(4, V, tgt_in.shape)
    padded = Batch(*(F.pad(t, (0, 3)) for t in (src, src_mask, tgt_in, tgt_out)))
    for smoothing in (0.0, 0.1):
        loss = loss_of(model, Batch(src, src_mask, tgt_in, tgt_out), smoothing)
        assert_close(loss_of(model, padded, smoothing), loss)


# -------------------------------------------------------------------------------------- evaluate


@torch.no_grad()
def test_teacher_forced_is_a_sum_over_tokens(name: str, tiny: Tiny) -> None:
    """Keeps out rows in the order of the batches, pads that are scored, and a lost EOS."""
    model, examples = tiny(name), draw_examples(12, 12)
    for row, example in zip(evaluate.teacher_forced(model, examples), examples, strict=True):
        src = torch.tensor([list(example.src)])
        state = model.encode(src, torch.ones_like(src).bool())
        nats, n_right = 0.0, 0
        for before, token in itertools.pairwise([BOS, *example.tgt]):
            logits, state = model.step(torch.tensor([before]), state)
            nats -= logits.log_softmax(-1)[0, token].item()
            n_right += logits.argmax().item() == token
        assert row["nats"] == pytest.approx(nats)
        assert (row["n_tokens"], row["n_right"]) == (len(example.tgt), n_right)


def test_free_running_keeps_the_order(name: str, tiny: Tiny) -> None:
    """Keeps out hypotheses beside the wrong sources: batches are by length, rows are not."""
    model, examples = tiny(name), draw_examples(12, 9)
    for width in (1, 2):
        found = evaluate.free_running(model, examples, width)
        for example, written in zip(examples, found, strict=True):
            src, src_mask, *_ = collate([example])
            max_len = min(2 * len(example.src) + 10, model.max_target(len(example.src)))
            assert search.beam(model, src, src_mask, max_len, width) == [written]


def test_texts_are_written_without_dropout(name: str, fresh: Tiny) -> None:
    """Keeps out a search in the mode in which the training left the model."""
    model, examples = fresh(name, dropout=0.5), draw_examples(6, 9)
    expected = evaluate.free_running(model, examples, 1)
    assert evaluate.free_running(model.train(), examples, 1) == expected
    assert not model.training


@pytest.mark.parametrize("width", [1, 4])
def test_a_text_does_not_depend_on_its_neighbours(name: str, width: int, tiny: Tiny) -> None:
    """Keeps out a limit that is the batch's: a beam that may go on longer ends elsewhere.

    EOS is unlikely, so that texts come to their limits; GPT's end at its last position. The
    smaller the weights, the closer are the beams.
    """
    model = tiny(name, **{"n_positions": 20} if name == "gpt" else {})
    rng = random.Random(3)
    sources = [[rng.randrange(4, V) for _ in range(1 + rng.randrange(7))] for _ in range(16)]
    examples = [Example(src, [EOS]) for src in sources]
    for std in (0.15, 0.3):
        torch.manual_seed(20140603)
        for p in model.parameters():
            torch.nn.init.normal_(p, std=std)
        together = evaluate.free_running(model, examples, width)
        assert together == [evaluate.free_running(model, [one], width)[0] for one in examples]


@pytest.mark.parametrize(
    ("hyp", "tgt", "n_same", "n_places", "exact"),
    [
        ([4, 5, 6], [4, 5, 6, EOS], 3, 3, True),
        ([4, 6, 5], [4, 5, 6, EOS], 1, 3, False),
        ([4, 5, 6, 7], [4, 5, 6, EOS], 3, 4, False),
        ([4], [4, 5, 6, EOS], 1, 3, False),
        ([], [4, EOS], 0, 1, False),
    ],
)
def test_places_are_compared(
    hyp: list[int], tgt: list[int], n_same: int, n_places: int, exact: bool
) -> None:
    """Keeps out full marks for a text that is too long or too short."""
    row = {"n_same": n_same, "n_places": n_places, "exact": exact}
    assert evaluate.compare_tokens(hyp, tgt) == row


def test_a_ratio_is_one_of_sums() -> None:
    """Keeps out a mean of ratios: (1 + 9) / (1 + 3) = 2.5."""
    rows = [{"nats": 1.0, "n_tokens": 1}, {"nats": 9.0, "n_tokens": 3}]
    for scale in (1.0, 2.0):
        found = metrics.ratio(rows, lambda row: row["nats"], lambda row: row["n_tokens"], scale)
        assert found["value"] == 2.5 * scale


def scored_rows(n: int = 12, seed: int = 1) -> list[dict[str, Any]]:
    """Make rows as a comparison makes them; a third of the hypotheses is nonsense."""
    rng = random.Random(seed)
    rows = []
    for i in range(n):
        ref = [rng.choice(("alte", "Hund", "sieht", "den", "Baum")) for _ in range(4 + i % 5)]
        hyp = ["xyz"] if i % 3 == 0 else [w if rng.random() < 0.8 else "der" for w in ref]
        tgt = list(range(len(ref)))
        rows.append(
            {
                "set": "length", "x": len(ref), "nats": 2.0 * len(ref), "n_tokens": len(ref) + 1,
                "n_right": 2, "n_bytes": 1 + len(" ".join(ref)), "ref": " ".join(ref),
                "hyp": " ".join(hyp), **evaluate.compare_tokens(tgt[: len(hyp)], tgt),
            }
        )  # fmt: skip
    return rows


@pytest.mark.parametrize("score", ["bleu", "chrf"])
def test_scores_are_sacrebleus(score: str) -> None:
    """Keeps out a BLEU of our own, and an interval around another number."""
    rows = scored_rows()
    hyps, refs = [row["hyp"] for row in rows], [[row["ref"] for row in rows]]
    theirs = getattr(sacrebleu, f"corpus_{score}")(hyps, refs).score
    found = metrics.scores(rows)[score]
    assert found["value"] == pytest.approx(theirs, rel=1e-12)
    assert found["low"] < theirs < found["high"]


def test_nonsense_has_a_score() -> None:
    """Keeps out an error where some draws of the bootstrap score nothing at all."""
    rows = [row | {"hyp": "qqq" if i else row["ref"]} for i, row in enumerate(scored_rows())]
    found = metrics.scores(rows)["chrf"]
    assert found["low"] == 0.0 < found["value"] < found["high"]
    nothing = metrics.scores([row | {"hyp": ""} for row in rows])
    for score in ("bleu", "chrf"):
        assert nothing[score]["value"] == nothing[score]["low"] == 0.0


def test_bits_per_byte() -> None:
    """Keeps out nats for bits and tokens for bytes: 8 ln 2 nats over 4 bytes are 2 bits each."""
    row = {"nats": 8 * math.log(2), "n_tokens": 2, "n_bytes": 4, "n_right": 1, "exact": False}
    found = metrics.scores([row] * 10)
    assert found["bits_per_byte"] == pytest.approx({"value": 2.0, "low": 2.0, "high": 2.0})
    assert found["nats"]["value"] == pytest.approx(4 * math.log(2))
    assert found["token_accuracy"]["value"] == 50.0
    assert "bleu" not in found


def test_bins_hold_their_ends() -> None:
    """Keeps out a sentence between two bins or in both; empty bins are no bins of zero."""
    rows = scored_rows(30)
    bins = [(1, 3), (4, 5), (6, 8), (9, 99)]
    table = metrics.by_bin(rows, bins)
    assert [(b["low"], b["high"], b["n"]) for b in table] == [(4, 5, 12), (6, 8, 18)]
    own = [row for row in rows if row["x"] in (4, 5)]
    assert {k: table[0][k] for k in metrics.scores(own)} == metrics.scores(own)


def test_scores_can_be_written() -> None:
    """Keeps out numpy's numbers and nan, which are not JSON."""
    for n in (12, 30):  # too few for intervals, and enough
        table = metrics.by_bin(scored_rows(n), [(4, 5), (6, 9)])
        assert json.loads(json.dumps(table, allow_nan=False)) == table
        cells = [cell for part in table for cell in part.values() if isinstance(cell, dict)]
        assert {type(x) for cell in cells for x in cell.values()} == {float, type(None)}


def test_signatures_name_the_version() -> None:
    """Keeps out a BLEU that cannot be compared: tokenizer and version are part of the number."""
    found = metrics.signatures()
    assert all(sacrebleu.__version__ in signature for signature in found.values())
    assert "tok:13a" in found["bleu"]


def test_the_state_grows_where_a_model_attends(name: str, fresh: Tiny) -> None:
    """Keeps out a size of State that is not the one handed over: flat, or linear in S."""
    sizes = evaluate.state_bytes(fresh(name, **{"n_positions": 300} if name == "gpt" else {}))
    S, n_bytes = map(np.array, zip(*sizes, strict=True))
    assert S.tolist() == [8, 16, 32, 64, 128, 256]
    slopes = np.diff(n_bytes) / np.diff(S)
    assert np.ptp(slopes) == 0.0
    assert (slopes > 0).all() if name in ATTENDING else (slopes == 0).all()


def test_the_state_is_in_bytes(fresh: Tiny) -> None:
    """Keeps out a size in numbers: c and the decoder's state, 16 wide, 4 bytes each."""
    assert evaluate.state_bytes(fresh("rnn_encdec"))[0] == (8, 2 * 16 * 4)


def test_the_state_ends_with_the_positions(fresh: Tiny) -> None:
    """Keeps out an error for a GPT that cannot read 256 tokens."""
    assert [n for n, _ in evaluate.state_bytes(fresh("gpt", n_positions=32))] == [8, 16]


# ---------------------------------------------------------------------------- checkpoint, record


def entry(name: str) -> dict[str, Any]:
    """Return what a record says of the tiny model."""
    return {"model": name, "model_config": {"vocab_size": V, **TINY[name]}}


def test_weights_come_back(name: str, fresh: Tiny, pairs: Pairs, tmp_path: Path) -> None:
    """Keeps out a parameter that is not saved, and dropout in a model that was read."""
    model, path = fresh(name), tmp_path / "run.safetensors"
    checkpoint.save(path, model.state_dict())
    again = checkpoint.load(entry(name), path)
    assert not again.training
    assert torch.equal(model(*pairs), again(*pairs))
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_weights_must_be_there_and_fit(fresh: Tiny, tmp_path: Path) -> None:
    """Keeps out a traceback for results without weights, for others' weights, for a broken file."""
    path = tmp_path / "run.safetensors"
    with pytest.raises(ValueError, match="not here; train it again"):
        checkpoint.load(entry("gpt"), path)
    checkpoint.save(path, fresh("bahdanau").state_dict())
    with pytest.raises(ValueError, match="does not fit its record"):
        checkpoint.load(entry("gpt"), path)
    checkpoint.save(path, fresh("gpt").state_dict())
    with pytest.raises(ValueError, match="does not fit its record"):
        checkpoint.load({**entry("gpt"), "model_config": {"vocab_size": V, "n_wings": 2}}, path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="does not fit its record"):
        checkpoint.load(entry("gpt"), path)


def test_weights_have_the_checksum_of_their_record(fresh: Tiny, tmp_path: Path) -> None:
    """Keeps out one flipped bit that is translated with; a record without a checksum is taken."""
    path = tmp_path / "run.safetensors"
    signed = entry("gpt") | {"weights_sha256": checkpoint.save(path, fresh("gpt").state_dict())}
    checkpoint.load(signed, path)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"is damaged or belongs to another run: its SHA-256"):
        checkpoint.load(signed, path)
    checkpoint.load(entry("gpt") | {"weights_sha256": None}, path)


def test_a_record_comes_back(tmp_path: Path) -> None:
    """Keeps out a record before its hypotheses are there, and letters written as escapes."""
    path = tmp_path / "gpt-seed1.json"
    kept = record.load(ROOT / "results" / "translation-grammar" / path.name)

    def rows() -> Iterator[dict[str, str]]:
        assert not path.exists()
        yield {"hyp": "Bär"}
        yield {"hyp": "a\u2028b"}

    record.save(path, kept, rows())
    assert record.load(path) == kept
    lines = path.with_suffix(".jsonl").read_text(encoding="utf-8").split("\n")
    assert [json.loads(line)["hyp"] for line in lines[:-1]] == ["Bär", "a\u2028b"]
    assert "Bär" in lines[0]
    assert sorted(file.suffix for file in tmp_path.iterdir()) == [".json", ".jsonl"]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (None, "no such record; name a RUN"),
        (b"{", "is not JSON: "),
        (b"\xff\xfe", "is not JSON: "),
        ("{}".encode("utf-16"), "is not JSON: "),
        (b"[1]", "is not a record"),
        (b'{"schema": "seqmodels.record/0"}', "'seqmodels.record/0'; this version reads seqm"),
        (b'{"schema": "seqmodels.record/1"}', "is not a record: it lacks the field task"),
        (b'{"kind": "bytes"}', "is not a record"),
    ],
)
def test_what_is_no_record_is_said(content: bytes | None, fault: str, tmp_path: Path) -> None:
    """Keeps out a KeyError for a file of another kind or another version."""
    path = tmp_path / "run.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=fault):
        record.load(path)


VERSION_1 = sorted((ROOT / "results").glob("*/*-seed1.json"))


@pytest.mark.parametrize("path", VERSION_1[::5], ids=lambda path: path.parent.name)
def test_version_1_is_upgraded(path: Path) -> None:
    """Keeps out committed records that can no longer be read, or that claim what they never held.

    The one interval that was wrong goes: all contexts of a continuation as if independent.
    """
    old, new = json.loads(path.read_text(encoding="utf-8")), record.load(path)
    if old["schema"] != "seqmodels.record/1":
        pytest.skip("made by this version")
    assert new["schema"] == "seqmodels.record/2"
    assert new["weights_sha256"] is new["intervals"] is new["continued"] is None
    settings = runs.settings_of(new)
    assert settings["data.source_end"] == "none"
    assert settings["precision"] == old["train_config"].get("precision", "float32")
    for was, now in zip(old["tests"], new["tests"], strict=True):
        assert now["bins"] == was["bins"]
        for score, interval in was["overall"].items():
            gone = {"low": None, "high": None} if was["name"] == "context" else {}
            assert now["overall"][score] == interval | gone


@pytest.mark.usefixtures("undrawn")
def test_a_run_of_version_1_is_not_refused_for_what_it_lacks(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a folder that cannot be completed because its runs lack a field of today."""
    for path in copied.glob("*-seed1.json"):
        if path.name != "gpt-seed1.json":
            path.unlink()
    path = copied / "gpt-seed1.json"
    old = json.loads(path.read_text()) | {"schema": "seqmodels.record/1"}
    for field in ("weights_sha256", "intervals", "continued"):
        del old[field]
    path.write_text(json.dumps(old))
    monkeypatch.setattr(compare, "run_one", lambda *_: pytest.fail("trained again"))
    without = toy(data={**toy().data, "source_end": "none"})
    compare.compare(without, flags(copied, models=["gpt"]))
    ended = toy(data={**toy().data, "source_end": "EOS"})
    with pytest.raises(ValueError, match=r"data\.source_end was none, is EOS"):
        compare.compare(ended, flags(copied, models=["gpt"]))


def test_a_commit_is_the_clones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out another project's commit: a copy installed inside its clone is not its file."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    copy = tmp_path / "venv" / "record.py"
    copy.parent.mkdir()
    copy.write_text("")
    monkeypatch.setattr(record, "__file__", str(copy))
    commit = record.commit.__wrapped__  # as in a process that has not asked yet
    assert commit() is None
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    git += ["-c", "commit.gpgsign=false"]
    (tmp_path / "theirs.txt").write_text("")
    for command in (["init", "-q"], ["add", "theirs.txt"], ["commit", "-qm", "theirs"]):
        subprocess.run([*git, *command], check=True)
    assert commit() is None
    for command in (["add", "."], ["commit", "-qm", "ours"]):
        subprocess.run([*git, *command], check=True)
    clean = commit() or ""
    assert len(clean) == 40
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "gpt-seed1.json").write_text("{}")
    subprocess.run([*git, "add", "."], check=True)
    assert commit() == clean  # a comparison that writes its second record
    copy.write_text("changed")
    assert commit() == f"{clean}+"


def test_outside_git_there_is_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out an error where git is not installed."""
    monkeypatch.setenv("PATH", "/nowhere")
    assert record.commit.__wrapped__() is None


# --------------------------------------------------------------------------------------- compare

RECIPES = {
    "translation": translation.RECIPES,
    "grammar": translation.GRAMMAR,
    "recall": recall.RECIPES,
    "next_token": next_token.RECIPES,
    "plays": next_token.PLAYS,
}


@pytest.mark.parametrize(
    ("task", "vocab_size", "n_parameters"),
    [
        ("recall", 71, 500_000),
        ("grammar", 979, 1_000_000),
        ("translation", 900, 1_000_000),
        ("next_token", 350, 1_000_000),
        ("next_token", 2_000, 1_500_000),
        ("plays", 69, 810_000),
        ("translation", 4_000, 3_000_000),
    ],
)
def test_widths_make_models_equal(name: str, task: str, vocab_size: int, n_parameters: int) -> None:
    """Keeps out a comparison of a large model with a small one: every task's recipes, to 5 %."""
    sizes = runs.fit_width(name, vocab_size, n_parameters, **RECIPES[task][name].sizes)
    with torch.device("meta"):
        n = runs.count_parameters(build(name, vocab_size, **sizes))
    assert abs(n / n_parameters - 1) <= 0.05


def test_widths_are_found_at_once() -> None:
    """Keeps out 800 modules, and seconds, that torch imports to fill parameters nobody reads."""
    program = (
        "import sys\nfrom seqmodels.comparison.runs import fit_width\n"
        "from tasks.recall import RECIPES\n"
        "before = len(sys.modules)\n"
        "for name, recipe in RECIPES.items(): fit_width(name, 71, 500_000, **recipe.sizes)\n"
        "print(len(sys.modules) - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 100


def test_a_size_that_cannot_be_is_said(name: str) -> None:
    """Keeps out a model that is silently larger than the others: embeddings alone are too many."""
    sizes = RECIPES["translation"][name].sizes
    with pytest.raises(ValueError, match=f"{name} has no width within 5 % of 100,000"):
        runs.fit_width(name, 50_000, 100_000, **sizes)


def test_a_size_that_is_nearly_right_is_not_right() -> None:
    """Keeps out a tolerance that grows: 7 % more than the narrowest LSTM there is, and it is so."""
    with torch.device("meta"):
        narrowest = runs.count_parameters(build("lstm_seq2seq", 900, d_model=16, d_embed=128))
    with pytest.raises(ValueError, match="no width within 5 %"):
        runs.fit_width("lstm_seq2seq", 900, int(narrowest / 1.07), d_embed=128)
    found = runs.fit_width("lstm_seq2seq", 900, int(narrowest / 1.04), d_embed=128)
    assert found["d_model"] == 16


TOKENIZER = tokenizers.Words([*"abcdefg"])


def toy(**changes: Any) -> task.Task:
    """Return a task that takes no time: say the letters again."""
    rng = random.Random(1)

    def draw(n: int) -> Example:
        src = TOKENIZER.encode(" ".join(rng.choice("abcdefg") for _ in range(n)))
        return Example(src, [*src, EOS])

    examples = [draw(2 + i % 7) for i in range(60)]
    test = examples[:12]
    recurrent = {"d_embed": 8, "d_maxout": 8}
    sizes: dict[str, dict[str, Any]] = {
        "rnn_encdec": recurrent,
        "bahdanau": recurrent | {"d_align": 8},
        "lstm_seq2seq": {"d_embed": 8, "n_layers": 1},
        "transformer": {"d_ff": 32, "n_heads": 2, "n_layers": 1},
        "gpt": {"n_heads": 2, "n_layers": 2, "n_positions": 64},
    }
    scored = task.TestSet(
        name="length", axis="source length (letters)", headline="accuracy", examples=test,
        x=[len(e.src) for e in test], bins=[(1, 4), (5, 9)], trained_to=8,
    )  # fmt: skip
    fields = {
        "name": "again",
        "data": {"name": "letters", "sha256": "0" * 64, "n_train": 48, "n_test": 12},
        "tokenizer": TOKENIZER,
        "train": examples[12:],
        "valid": test,
        "tests": [scored],
        "recipes": {name: task.Recipe(sizes[name], 1e-2) for name in MODELS},
        "training": {"tokens": 200, "batch_tokens": 100, "n_validations": 2},
        "n_parameters": 400_000,
        "shown": task.Shown(test[3], [(0, 0)]),
    }
    return task.Task(**fields | changes)


def flags(out: Path, **changes: Any) -> argparse.Namespace:
    """Return the parsed flags of a task."""
    given = {"models": list(MODELS), "seeds": [1], "rate": None, "device": "cpu", "size": "smoke"}
    given |= {"precision": "float32", "fresh": False, "checkpoint_every": 30.0}
    return argparse.Namespace(out=out, data=None, **given | changes)


def contents(folder: Path) -> dict[str, bytes]:
    """Return what a folder holds, but for the note of who uses it."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def named_files(folder: Path) -> dict[str, int]:
    """Return when each record, its rows and its weights were last written."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*-seed*")}


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the toy comparison of all five models."""
    out = tmp_path_factory.mktemp("compared")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "N_BOOTSTRAP", 20)
        patch.setattr(figures, "plot_folder", lambda folder: [])
        compare.compare(toy(), flags(out))
    return out


@pytest.fixture
def copied(compared: Path, tmp_path: Path) -> Path:
    """Copy the comparison, times included, to be changed."""
    return Path(shutil.copytree(compared, tmp_path / "copied"))


def test_a_record_says_all(name: str, compared: Path) -> None:
    """Keeps out a result that nobody can check or draw: what ran, on what, with which result."""
    made = record.load(compared / f"{name}-seed1.json")
    assert (made["task"], made["model"], made["seed"], made["beam"]) == ("again", name, 1, 1)
    with torch.device("meta"):
        model = build(name, **made["model_config"])
    assert made["n_parameters"] == runs.count_parameters(model)
    assert abs(made["n_parameters"] / 400_000 - 1) <= 0.05
    assert TrainConfig(**made["train_config"]).tokens == 200
    assert made["data"] == toy().data
    where = made["provenance"]
    assert where.keys() >= {"date", "commit", "versions", "system", "device", "threads"}
    assert where["versions"]["torch"] == torch.__version__
    assert {"python", "numpy", "sacrebleu"} <= where["versions"].keys()
    assert where["device"]
    assert [p["tokens"] for p in made["curve"]] == sorted(p["tokens"] for p in made["curve"])
    assert {"step", "seconds", "train_nats", "valid_nats", "valid_accuracy"} < {*made["curve"][0]}
    assert min(made["speed"].values()) > 0
    assert made["peak_memory_bytes"] > 1e6
    assert made["train_s"] > 0 < made["evaluate_s"]
    assert made["signatures"].keys() == {"bleu", "chrf"}
    assert [n for n, _ in made["state_bytes"]][:3] == [8, 16, 32]
    weights = (compared / f"{name}-seed1.safetensors").read_bytes()
    assert made["weights_sha256"] == hashlib.sha256(weights).hexdigest()


def test_the_record_holds_what_was_measured(name: str, compared: Path) -> None:
    """Keeps out speeds upside down, the size that was asked for, and settings of another run."""
    made = record.load(compared / f"{name}-seed1.json")
    point = made["curve"][-1]
    speed = made["speed"]
    assert speed["evaluate_sentences_per_s"] == pytest.approx(12 / made["evaluate_s"])
    assert speed["train_tokens_per_s"] == pytest.approx(point["tokens"] / point["seconds"])
    assert made["train_s"] == point["seconds"]


def test_seeds_and_flags_reach_their_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a second seed that trains the first again, and a rate or precision unused."""
    asked: list[runs.Run] = []
    monkeypatch.setattr(compare, "run_all", lambda todo, *_: asked.extend(todo) or [])
    given = {"models": ["gpt", "bahdanau"], "seeds": [1, 4], "rate": 0.5, "precision": "bfloat16"}
    compare.compare(toy(training={**toy().training, "clip": 0.7}), flags(tmp_path, **given))
    assert [(run.name, run.cfg.seed) for run in asked] == [
        ("gpt", 1), ("bahdanau", 1), ("gpt", 4), ("bahdanau", 4),
    ]  # fmt: skip
    for run in asked:
        assert run.path.name == f"{run.name}-seed{run.cfg.seed}.json"
        assert (run.cfg.rate, run.cfg.precision, run.cfg.clip) == (0.5, "bfloat16", 0.7)


def test_a_seed_draws_the_first_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out seeds that start from the same weights, and weights that depend on what ran."""
    starts = []

    def stop(run: runs.Run, model: SequenceModel) -> None:
        starts.append({k: v.clone() for k, v in model.state_dict().items()})
        raise InterruptedError

    monkeypatch.setattr(runs, "train_run", stop)
    for seed in (3, 5, 3):
        cfg = TrainConfig(tokens=200, rate=0.1, seed=seed)
        run = runs.Run(
            "bahdanau", toy(), cfg, tmp_path / "run.json", "cpu", 30.0, CATALOG["bahdanau"]
        )
        with pytest.raises(InterruptedError):
            runs.run_one(run)
        torch.rand(9)
    assert same(starts[0], starts[2])
    assert not same(starts[0], starts[1])


def test_both_kinds_of_score_are_kept_by_length(name: str, compared: Path) -> None:
    """Keeps out a table by length without counts, or without one of the two kinds of score."""
    path = compared / f"{name}-seed1.json"
    (test,) = record.load(path)["tests"]
    kinds = {"nats", "bits_per_byte", "token_accuracy", "exact", "accuracy", "bleu", "chrf"}
    kinds |= {"length_ratio", "chance_bleu", "source_gain"}
    assert test["overall"].keys() == kinds
    assert [(b["low"], b["high"], b["n"]) for b in test["bins"]] == [(1, 4, 6), (5, 9, 6)]
    assert all(b.keys() > kinds for b in test["bins"])
    rows = [json.loads(line) for line in path.with_suffix(".jsonl").read_text().splitlines()]
    assert len(rows) == 12
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "N_BOOTSTRAP", 20)
        assert metrics.scores(rows) == test["overall"]  # the rows are enough to score again


def test_alignments_are_kept_where_there_are_any(name: str, compared: Path) -> None:
    """Keeps out a heat map of a model that does not attend, and one with EOS in it."""
    kept, example = record.load(compared / f"{name}-seed1.json")["alignment"], toy().shown.example
    assert (kept is not None) == (name in ATTENDING)
    if kept:
        assert kept["src"] == kept["tgt"] == TOKENIZER.tokens(example.src)
        assert np.shape(kept["alpha"]) == (len(kept["tgt"]), len(kept["src"]))
        assert kept["gold"] == [[0, 0]]


def test_a_run_can_be_used_again(name: str, compared: Path) -> None:
    """Keeps out weights or a tokenizer that are not those of the record."""
    path = compared / f"{name}-seed1.json"
    made = record.load(path)
    model = checkpoint.load(made, path.with_suffix(".safetensors"))
    found = loop.validate(model, toy().valid, "cpu")
    best = min(point["valid_nats"] for point in made["curve"])
    assert found["valid_nats"] == pytest.approx(best, rel=1e-6)
    assert tokenizers.load(compared / "tokenizer.json").labels == TOKENIZER.labels


def test_bytes_are_those_of_the_text() -> None:
    """Keeps out three bytes for each half of a letter: bits per byte would be too few."""
    tokenizer = tokenizers.Bytes()
    ids = tokenizer.encode("aä")
    examples = [Example(ids, [*ids, EOS]), Example(ids[:2], ids[:2]), Example(ids, ids[2:])]
    test = task.TestSet(
        name="cut", axis="", headline="nats", examples=examples, x=[1] * 3, bins=[(1, 1)],
        is_generated=False,
    )  # fmt: skip
    model = build("gpt", tokenizer.vocab_size, **TINY["gpt"])
    rows, _ = runs.evaluate(model, toy(tokenizer=tokenizer), test, "cpu")
    assert [row["n_bytes"] for row in rows] == [4, 2, 1]  # the end of a text counts as a byte
    assert TOKENIZER.n_bytes(TOKENIZER.encode("a b c")) == 5


SAID = [("Äh, ba", "für a"), ("ba", "b"), ("c", "a ä")]
"""Texts that the tokens do not give back."""


def evaluated(
    monkeypatch: pytest.MonkeyPatch, **changes: Any
) -> tuple[list[dict[str, Any]], dict[str, Any], list[int]]:
    """Score three known rows; return them, the record's entry, and the beams asked for."""
    examples = [
        Example([4, 5], [4, 5, EOS]), Example([6], [5, 6], frozenset({0})), Example([4], [4, EOS]),
    ]  # fmt: skip
    taught = [(6.0, 3, 1), (1.0, 1, 1), (2.0, 2, 2)]
    rows = [dict(zip(("nats", "n_tokens", "n_right"), row, strict=True)) for row in taught]
    beams: list[int] = []
    written = [[4, 5], [6], [5]]
    monkeypatch.setattr(runs, "teacher_forced", lambda *_: rows)
    monkeypatch.setattr(
        runs, "free_running", lambda model, examples, beam, *_: beams.append(beam) or written
    )
    fields: dict[str, Any] = {
        "name": "seen", "axis": "words", "headline": "nats", "examples": examples, "x": [2, 1, 1],
        "bins": [(1, 1), (2, 3)],
    }  # fmt: skip
    test = task.TestSet(**fields | changes)
    return *runs.evaluate(build("gpt", 11, **TINY["gpt"]), toy(beam=2), test, "cpu"), beams


def test_a_row_is_its_own_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out decoded texts for the originals, characters for bytes, a width that is not used."""
    rows, entry, beams = evaluated(monkeypatch, texts=SAID, beam=3)
    assert beams == [3] == [entry["beam"]]
    assert [(row["src"], row["ref"]) for row in rows] == SAID
    assert [row["hyp"] for row in rows] == ["a b", "c", "b"]
    assert [row["n_bytes"] for row in rows] == [6 + 1, 1, 4 + 1]  # an end counts as a byte
    assert [row["exact"] for row in rows] == [True, False, False]
    assert [(b["low"], b["n"]) for b in entry["bins"]] == [(1, 2), (2, 1)]
    assert entry["overall"]["nats"]["value"] == pytest.approx(9 / 6)


def test_a_row_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out given places in a reference, half a target called exact, a perplexity of bits."""
    rows, entry, beams = evaluated(
        monkeypatch, is_generated=False, headline="perplexity", groups=[7, 8, 7]
    )
    assert (beams, "beam" in entry) == ([], False)
    assert [row["ref"] for row in rows] == ["a b", "c", "a"]
    assert [row["n_bytes"] for row in rows] == [3 + 1, 1, 1 + 1]
    assert [row["exact"] for row in rows] == [False, True, True]
    assert [row["group"] for row in rows] == [7, 8, 7]
    for part in (entry["overall"], *entry["bins"]):
        assert part["perplexity"]["value"] == pytest.approx(math.exp(part["nats"]["value"]))


def test_what_is_recorded_is_not_trained_again(
    copied: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out hours of training for a figure: a second call only draws."""
    before = named_files(copied)
    monkeypatch.setattr(compare, "run_one", lambda *_: pytest.fail("trained again"))
    compare.compare(toy(), flags(copied))
    assert named_files(copied) == before
    assert (copied / "tables.md").exists()
    assert capsys.readouterr().out.count("recorded in") == 5


@pytest.mark.usefixtures("undrawn")
def test_only_what_is_missing_is_trained(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a comparison that starts anew after it was stopped."""
    monkeypatch.setattr(metrics, "N_BOOTSTRAP", 20)
    before = named_files(copied)
    for path in copied.glob("gpt-seed1.json*"):
        path.unlink()
    compare.compare(toy(), flags(copied))
    after = named_files(copied)
    assert {name for name in after if after[name] != before[name]} == {
        "gpt-seed1.json", "gpt-seed1.jsonl", "gpt-seed1.safetensors",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "given", "fault"),
    [
        ({"data": {**toy().data, "sha256": "1" * 64}}, {}, "data.sha256 was 000.*, is 111"),
        ({"data": {**toy().data, "name": "b→a"}}, {}, "data.name was letters, is b→a"),
        ({"training": {**toy().training, "tokens": 300}}, {}, "tokens was 200, is 300"),
        ({"beam": 5}, {}, "beam was 1, is 5"),
        ({"n_parameters": 500_000}, {}, "d_model was "),
        ({}, {"rate": 0.5}, "rate was 0.01, is 0.5"),
    ],
)
def test_other_settings_need_another_folder(
    changes: dict[str, Any], given: dict[str, Any], fault: str, copied: Path
) -> None:
    """Keeps out old results under new settings."""
    before = contents(copied)
    with pytest.raises(ValueError, match=f"{fault}.*choose another --out"):
        compare.compare(toy(**changes), flags(copied, models=["gpt"], **given))
    assert contents(copied) == before


def test_a_folder_holds_one_experiment(copied: Path) -> None:
    """Keeps out a tokenizer that is taken from under the weights of another run."""
    for path in copied.glob("rnn_encdec-seed1*"):
        path.unlink()
    before = contents(copied)
    other = toy(
        tokenizer=tokenizers.Words([*"gfedcba"]), data={"name": "letters", "sha256": "1" * 64}
    )
    with pytest.raises(ValueError, match=r"data\.sha256 was 000.*choose another --out"):
        compare.compare(other, flags(copied, models=["rnn_encdec"]))
    assert contents(copied) == before


def test_all_is_checked_before_anything_is_trained(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out an error after an hour of training that could be known before it."""
    monkeypatch.setattr(compare, "run_one", lambda *_: pytest.fail("trained"))
    for path in copied.glob("rnn_encdec-seed1*"):
        path.unlink()
    with pytest.raises(ValueError, match=r"gpt-seed1.* was made with other settings"):
        compare.compare(toy(), flags(copied, models=["rnn_encdec", "gpt"], rate=0.5))


def test_records_of_another_version_are_left_alone(copied: Path) -> None:
    """Keeps out an old record that is overwritten or read as if it were new."""
    path = copied / "gpt-seed1.json"
    old = json.dumps(json.loads(path.read_text()) | {"schema": "seqmodels.record/0"})
    path.write_text(old)
    with pytest.raises(ValueError, match=r"has the schema 'seqmodels\.record/0'"):
        compare.compare(toy(), flags(copied))
    assert path.read_text() == old


@pytest.mark.slow
def test_two_at_once_give_what_one_by_one_gives(compared: Path, tmp_path: Path) -> None:
    """Keeps out a result that depends on what else is trained beside it."""
    models = ["rnn_encdec", "gpt"]
    torch.set_num_threads(2)
    try:
        compare.compare(toy(), flags(tmp_path, models=models))
    finally:
        torch.set_num_threads(1)
    for name in models:
        for ending in ("jsonl", "safetensors"):
            file = f"{name}-seed1.{ending}"
            assert (tmp_path / file).read_bytes() == (compared / file).read_bytes()
        made = record.load(tmp_path / f"{name}-seed1.json")
        assert made["provenance"]["threads"] == 1


def test_a_run_that_diverges_costs_the_others_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out a comparison that stops at the first model whose rate is too high."""
    run_one = compare.run_one

    def diverge(one: runs.Run) -> dict[str, Any]:
        if one.name == "rnn_encdec":
            raise ValueError("the loss is lost")
        return run_one(one)

    monkeypatch.setattr(compare, "run_one", diverge)
    with pytest.raises(ValueError, match=r"^rnn_encdec, seed 1: the loss is lost$"):
        compare.compare(toy(), flags(tmp_path, models=["rnn_encdec", "gpt"]))
    assert (tmp_path / "gpt-seed1.json").exists()
    assert "score-length.svg" in capsys.readouterr().out
