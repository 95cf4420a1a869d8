"""The search, written once for every model, and evaluation: rows, the source's use, cache sizes."""

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from conftest import GROWING, TINY, Tiny, V, n_positions
from sacrebleu.metrics import BLEU
from torch import Tensor
from torch.nn import functional as F
from toys import draw_examples, toy

from seqmodels import BOS, EOS, PAD, UNK, SequenceModel, build, search
from seqmodels.data.batches import Example, collate
from seqmodels.data.tokenizers import Words
from seqmodels.evaluation import evaluate
from seqmodels.experiments import evaluate_run, task
from seqmodels.experiments.evaluate_run import score_test_set


@torch.no_grad()
def test_teacher_forced_is_a_sum_over_tokens(name: str, tiny: Tiny) -> None:
    """Keeps out rows in the order of the batches, pads that are scored, and a lost EOS."""
    model, examples = tiny(name), draw_examples(12, 12)
    for row, example in zip(evaluate.score_teacher_forced(model, examples), examples, strict=True):
        src = torch.tensor([list(example.src)])
        state = model.encode(src, torch.ones_like(src).bool())
        nats, n_right = 0.0, 0
        for before, token in itertools.pairwise([BOS, *example.tgt]):
            logits, state = model.step(torch.tensor([before]), state)
            nats -= logits.log_softmax(-1)[0, token].item()
            n_right += logits.argmax().item() == token
        assert row["nats"] == pytest.approx(nats)
        assert (row["n_tokens"], row["n_correct"]) == (len(example.tgt), n_right)


def test_texts_are_written_without_dropout(name: str, fresh: Tiny) -> None:
    """Keeps out a search in the mode in which the training left the model."""
    model, examples = fresh(name, dropout=0.5), draw_examples(6, 9)
    expected = evaluate.generate_targets(model, examples, 1)
    assert evaluate.generate_targets(model.train(), examples, 1) == expected
    assert not model.training


def test_a_target_does_not_depend_on_its_batch(name: str, tiny: Tiny) -> None:
    """Keeps out hypotheses beside the wrong sources, and a limit that is the batch's."""
    model = tiny(name, **n_positions(name, 20))
    rng = random.Random(3)
    sources = [[rng.randrange(4, V) for _ in range(1 + rng.randrange(7))] for _ in range(8)]
    examples = [Example(src, [EOS]) for src in sources]
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.15)  # EOS is unlikely: targets come to their limits
    for width in (1, 4):
        targets = evaluate.generate_targets(model, examples, width)
        for example, target in zip(examples, targets, strict=True):
            src, src_mask, *_ = collate([example])
            max_len = min(2 * len(example.src) + 10, model.max_target(len(example.src)))
            assert search.beam(model, src, src_mask, max_len, width) == [target]


def test_places_are_compared() -> None:
    """Keeps out full marks for a text that is too long or too short."""
    for hyp, n_same, n_places, is_exact in (
        ([4, 5, 6], 3, 3, True),
        ([4, 5, 6, 7], 3, 4, False),
        ([4], 1, 3, False),
    ):
        row = {"n_same": n_same, "n_places": n_places, "exact_match": is_exact}
        assert evaluate.compare_tokens(hyp, [4, 5, 6, EOS]) == row


def test_the_state_grows_as_the_papers_say(name: str, fresh: Tiny) -> None:
    """Keeps out a size of State that is not the one handed over: flat, or linear in S."""
    sizes = evaluate.measure_cache_bytes(fresh(name, **n_positions(name, 300)))
    S, n_bytes = map(np.array, zip(*sizes, strict=True))
    assert S.tolist() == [8, 16, 32, 64, 128, 256]
    slopes = np.diff(n_bytes) / np.diff(S)
    assert np.ptp(slopes) == 0.0
    assert (slopes > 0).all() if name in GROWING else (slopes == 0).all()


def test_the_cache_is_measured_in_bytes_up_to_the_last_position(fresh: Tiny) -> None:
    """Keeps out a size in numbers (two vectors of 16, 4 bytes each), and unreadable sources."""
    assert evaluate.measure_cache_bytes(fresh("rnn_encdec"))[0] == (8, 2 * 16 * 4)
    keys_and_values, mask = 3 * 2 * 16 * 4, 1  # of a token: the mask has a byte
    sizes = evaluate.measure_cache_bytes(fresh("transformer", n_layers=3))
    assert sizes[0] == (8, 8 * (keys_and_values + mask))
    for limit, lengths in ((32, [8, 16]), (9, [8])):
        sizes = evaluate.measure_cache_bytes(fresh("gpt", n_positions=limit))
        assert [n for n, _ in sizes] == lengths


WORDS = Words([f"w{i}" for i in range(36)])
N_WORDS = WORDS.vocab_size


class Copier(SequenceModel):
    """A model that predicts the source's token at the same position, or all tokens alike."""

    def __init__(self, is_looking: bool) -> None:
        super().__init__(None)
        self.is_looking = is_looking

    def forward(self, src: Tensor, src_mask: Tensor, tgt_in: Tensor) -> Tensor:
        if not self.is_looking:
            return torch.zeros(*tgt_in.shape, N_WORDS)
        return F.one_hot(src, N_WORDS)[:, : tgt_in.shape[1]] * 5.0


def copies(n: int) -> list[Example]:
    rng = random.Random(1)
    texts = [[rng.randrange(4, N_WORDS) for _ in range(6 + i % 3)] for i in range(n)]
    return [Example([*text, EOS], [*text, EOS]) for text in texts]


def make_set(asked: Sequence[Example], **fields: Any) -> task.TestSet:
    about = {"examples": asked, "x": [1] * len(asked), "buckets": [(1, 1)], "is_generated": False}
    return replace(toy().tests[0], **about | {"primary_metric": "nats"} | fields)


def test_the_source_gain_is_that_over_another_source() -> None:
    """Keeps out a gain without a look at the source, none with it, and BOS alone as a source."""
    for is_looking in (True, False):
        model: Any = Copier(is_looking)
        rows, entry = score_test_set(model, toy(tokenizer=WORDS), make_set(copies(31)), "cpu")
        gain = entry["overall"]["source_gain"]
        if is_looking:
            assert 2 < gain["low"] < gain["value"] < gain["high"]
            assert entry["buckets"][0]["source_gain"] == gain
        else:
            assert gain == pytest.approx({"value": 0, "low": 0, "high": 0}, abs=1e-6)
        saved = sum(row["nats_shuffled"] - row["nats"] for row in rows)
        assert gain["value"] == pytest.approx(saved / sum(row["n_tokens"] for row in rows))
    asked = [e._replace(src=[BOS]) if i < 20 else e for i, e in enumerate(copies(40))]
    rows, _ = score_test_set(model, toy(tokenizer=WORDS), make_set(asked), "cpu")
    assert ["nats_shuffled" in row for row in rows] == [i >= 20 for i in range(40)]
    _, entry = score_test_set(model, toy(tokenizer=WORDS), make_set(asked[:20]), "cpu")
    assert "source_gain" not in entry["overall"]


def test_the_settings_of_a_test_set_reach_its_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out groups, a baseline or a tokenizer that no score sees."""
    model: Any = Copier(True)
    asked = copies(40)
    some = make_set(asked, groups=[i // 5 for i in range(40)], grouped_by="fives")
    _, entry = score_test_set(model, toy(tokenizer=WORDS), some, "cpu")
    for key in ("nats", "source_gain"):
        assert entry["overall"][key]["low"] is None  # of eight groups
    assert entry["grouped_by"] == "fives"
    some = make_set(asked, baseline=[0.25, 0.75] * 20, baseline_name="guesses")
    _, entry = score_test_set(model, toy(tokenizer=WORDS), some, "cpu")
    assert entry["buckets"][0]["baseline"] == {"value": 50.0, "low": None, "high": None}
    assert entry["baseline"] == "guesses"
    by_characters = toy(tokenizer=WORDS, bleu_tokenize="char")
    monkeypatch.setattr(evaluate_run, "generate_targets", lambda *_: [e.tgt[:5] for e in asked])
    written = make_set(asked, primary_metric="bleu", is_generated=True)
    rows, entry = score_test_set(model, by_characters, written, "cpu")
    theirs = BLEU(tokenize="char").corpus_score(
        [row["hyp"] for row in rows], [[row["ref"] for row in rows]]
    )
    for part in (entry["overall"], entry["buckets"][0]):
        assert part["bleu"]["value"] == pytest.approx(theirs.score)
        assert part["chance_bleu"]["value"] < part["bleu"]["value"]


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
) -> list[tuple[list[int], float]]:
    """Search one source with lists of hypotheses; return tokens and log p, the best first."""
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
    ranked = sorted(kept, key=lambda one: one[0] / len(one[1]) ** penalty, reverse=True)
    return [(search.trim_at_eos(y), log_p) for log_p, y in ranked]


ALL_TEXTS = 1 + 3 + 9 + 27 + 81
"""Those of up to four tokens: UNK and two words, ended by EOS, or cut."""


@torch.no_grad()
def test_a_beam_is_a_naive_one(name: str) -> None:
    """Keeps out a beam that loses beginnings, mixes up rows or divides by the wrong length."""
    lengths, max_len = set(), torch.tensor([4, 2, 3])
    for n_tokens, widths, penalty in 4 * [(6, [ALL_TEXTS], 1), (6, [9], 0), (V, [2, 3], 0.6)]:
        model = build(name, n_tokens, **TINY[name]).double().eval()
        for p in model.parameters():
            torch.nn.init.normal_(p, std=0.6)
        src = torch.randint(4, n_tokens, (3, 4)) * (torch.arange(4) < torch.tensor([[4], [1], [3]]))
        for width in widths:
            found = search.search_beams(model, src, src > 0, max_len, width, penalty)
            for row, n, ranked in zip(src, max_len.tolist(), found, strict=True):
                naive = naive_beam(model, row[row > 0], width, n, penalty)
                assert [y for y, _ in ranked] == [y for y, _ in naive]
                assert [p for _, p in ranked] == pytest.approx([p for _, p in naive])
            lengths |= {len(ranked[0].tokens) for ranked in found}
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


def test_who_has_finished_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out texts that are mixed up when finished ones leave, and ones that do not leave."""
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
    """Write with each search from one source."""
    draw = torch.Generator().manual_seed(1)
    return [
        *search.greedy(model, *ONE_SOURCE, max_len),
        *search.beam(model, *ONE_SOURCE, max_len, 3),
        *search.generate(model, *ONE_SOURCE, max_len, search.sampler(draw)),
    ]


def test_texts_end_as_they_should() -> None:
    """Keeps out specials in a text, and a search without end, or one token too early or late."""
    likes = {PAD: 0.6, BOS: 0.3, 4: 0.09, EOS: 0.01}
    for written in every_search(Chain({BOS: likes, 4: likes}), 20):
        assert written
        assert set(written) == {4}
    endless = Chain({BOS: {4: 1.0}, 4: {4: 1.0}})
    assert every_search(endless, 7) == [[4] * 7] * 3
    short = Chain({BOS: {4: 1.0}, 4: {5: 1.0}, 5: {EOS: 1.0}})
    assert every_search(short, 7) == [[4, 5]] * 3
    assert every_search(short, 1) == [[4]] * 3


@pytest.mark.parametrize(("settings", "p"), [
    ((1.0,), [0.5, 0.3, 0.2]), ((0.5,), [25 / 38, 9 / 38, 4 / 38]), ((0.0,), [1, 0, 0]),
    ((1.0, 2), [5 / 8, 3 / 8, 0]), ((1.0, None, 0.79), [5 / 8, 3 / 8, 0]),
    ((1.0, 2, 0.62), [1, 0, 0]),  # 5 / 8 of two, but 0.5 of all
])  # fmt: skip
def test_samples_follow_the_model(settings: Any, p: list[float]) -> None:
    """Keeps out a sample from other likelihoods than the model's, or of a token ruled out."""
    likes = {PAD: 3.0, 6: 0.2, 4: 0.5, 5: 0.3}
    model, n = Chain({BOS: likes, **{y: {EOS: 1.0} for y in (4, 5, 6)}}), 4000
    src = torch.full((n, 1), 4)
    choose = search.sampler(torch.Generator().manual_seed(1), *settings)
    drawn = search.generate(model, src, src > 0, 3, choose)
    shares = [drawn.count([y]) / n for y in (4, 5, 6)]
    assert shares == pytest.approx(p, abs=0.03)
    assert [share == 0 for share in shares] == [share == 0 for share in p]
    for temperature in (-1.0, 1e-4, math.inf, math.nan):
        with pytest.raises(ValueError, match=f"temperature {temperature}: choose"):
            search.sampler(torch.Generator(), temperature)


@pytest.mark.parametrize("n_begun", [0, 1, 4])
def test_what_has_begun_goes_on(name: str, n_begun: int, tiny: Tiny) -> None:
    """Keeps out a beginning that is read as source, or that is said again, or forgotten."""
    model, begun = tiny(name), torch.randint(4, 11, (1, n_begun))
    choose = search.sampler(torch.Generator().manual_seed(3), 0.7)
    (said,) = search.continue_prefix(model, begun, 9, choose)
    generator, text, src = torch.Generator().manual_seed(3), begun, torch.tensor([[BOS]])
    while text.shape[1] < 9:  # naive: everything again for every token
        logits = model(src, src > 0, torch.cat([src, text], 1))[:, -1] / 0.7
        logits[:, [PAD, BOS]] = -torch.inf
        text = torch.cat([text, torch.multinomial(logits.softmax(-1), 1, generator=generator)], 1)
    naive = text[0].tolist()
    assert said[:n_begun] == naive[:n_begun] == begun[0].tolist()
    assert said == search.trim_at_eos(naive)
