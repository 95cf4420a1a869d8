"""Best States: what a decoder could be handed over, and the sentences that it is written for."""

import copy
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from conftest import fields_of
from fake_records import as_arm, as_records, metric, scored
from matplotlib.figure import Figure
from torch import Tensor
from toys import CFG, TOKENIZER, options, toy

from seqmodels.data.batches import Example, collate
from seqmodels.evaluation.intervals import student_quantile
from seqmodels.experiments.compare import compare
from seqmodels.experiments.inference import load as load_model
from seqmodels.interface import EOS, PAD, SequenceModel
from seqmodels.models import build
from seqmodels.report import load
from seqmodels.training.optimizers import groups_of
from seqmodels.training.trainer import Trainer
from tasks.synthetic.grammar import Sampler, draw_corpus
from tasks.synthetic.surprisal import CountingSampler, count_bits
from tasks.synthetic.trees import Sentence
from tasks.translation import best_state, best_state_figure, places
from tasks.translation.best_state import BestState, Ranges, complete_state, free_fields
from tasks.translation.frozen import decoder_parameters, with_frozen_decoder

N, V = 10, TOKENIZER.vocab_size
TASK = toy()


class State(NamedTuple):
    """A row of logits for each of N target tokens, and how many are written."""

    table: Tensor
    n: Tensor


@dataclass(frozen=True)
class Config:
    vocab_size: int = V

    def source_floats(self, n: int) -> int:
        return N * V


class Copier(SequenceModel):
    """A decoder that writes what its State lists; the encoder lists what the source's sum draws."""

    config_type = Config
    is_deaf = False

    def __init__(self) -> None:
        super().__init__(Config())
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def encode(self, src: Tensor, src_mask: Tensor) -> State:
        rows = []
        for source in src:
            draw = torch.Generator().manual_seed(
                int((source * torch.arange(1, 1 + len(source))).sum())
            )
            rows.append(2 * torch.rand(N, V, generator=draw) - 1)
        return State(torch.stack(rows), torch.zeros(len(src), dtype=torch.long))

    def step(self, y: Tensor, state: State) -> tuple[Tensor, State]:
        rows = torch.arange(len(y))
        logits = state.table[rows, state.n.clamp(max=N - 1)]
        if self.is_deaf:
            logits = 0 * logits + torch.arange(V)
        return logits, state._replace(n=state.n + 1)

    def forward(self, src: Tensor, src_mask: Tensor, tgt_in: Tensor) -> Tensor:
        return best_state.unroll(self, self.encode(src, src_mask), tgt_in)[0]


class Deaf(Copier):
    """A decoder that does not read its State."""

    is_deaf = True


def best_of(n_steps: int, surprisal: Sequence[float] | None = None) -> BestState:
    (test,) = TASK.tests
    return BestState(test, TOKENIZER, "13a", n_steps, surprisal)


def bleu(rows: Sequence[Any], **columns: Any) -> list[float]:
    return [row["bleu"] for row in rows if row.items() >= columns.items()]


def test_a_decoder_that_copies_its_state_reaches_100_and_a_deaf_one_stays() -> None:
    best, deaf = best_of(200), best_of(20)
    rows = best.measure(Copier(), Copier())
    assert max(bleu(rows, steps=0, numbers=N * V)) < 50
    assert bleu(rows, steps=200, numbers=N * V) == pytest.approx([100, 100])
    assert min(bleu(rows, steps=200, bits=8)) > 99 > max(bleu(rows, steps=0, bits=8))
    rows = deaf.measure(Deaf(), Deaf())
    assert bleu(rows, steps=20, numbers=N * V) == bleu(rows, steps=0, numbers=N * V)


def test_the_adapted_model_translates_from_the_best_states() -> None:
    best, model = best_of(200), Copier()
    adapted = best.adapt(model)
    batch = collate(best.test.examples)
    logits = adapted(batch.src, batch.src_mask, batch.tgt_in)
    assert (logits.argmax(-1) == batch.tgt_out)[batch.tgt_out != PAD].all()
    rows = [3, 0, 7]  # States are looked up by the source, not by the row
    state = adapted.encode(batch.src[rows], batch.src_mask[rows])
    assert torch.equal(state.table, best.write(model)[1][200].table[rows])
    grows = build("bahdanau", V, d_model=8, d_embed=8, d_maxout=8, d_align=8)
    assert best.adapt(grows) is grows
    assert best.measure(grows, grows) == best.measure_controls(grows, grows) == []


def test_two_runs_write_the_same_bytes() -> None:
    torch.manual_seed(1)
    model = build("rnn_encdec", V, d_model=12, d_embed=8, d_maxout=8)
    once, again = (best_of(5).write(model)[1][5].c for _ in range(2))
    assert once.numpy().tobytes() == again.numpy().tobytes()
    draws = [best_of(4).measure(model, model), best_of(4).measure_controls(model, model)]
    assert draws == [best_of(4).measure(model, model), best_of(4).measure_controls(model, model)]


def test_free_are_the_fields_that_follow_from_no_other() -> None:
    """Cho's s follows from c, a pooled key from its annotation; the cells of an LSTM are free."""
    batch = collate(TASK.tests[0].examples[:2])
    sizes = {"d_model": 12, "d_embed": 8}
    for name, more, free in (
        ("rnn_encdec", {"d_maxout": 8}, {"c"}),
        ("bahdanau_2", {"d_maxout": 8, "d_align": 8}, {"h", "s"}),
        ("lstm_seq2seq", {"n_layers": 2}, {"h", "c"}),
        ("linear_attention", {"n_heads": 2, "n_layers": 2}, {"s", "z"}),
    ):
        size = {"d_model": 12} if name == "linear_attention" else sizes
        model = build(name, V, **size, **more).eval()
        state = best_state.read_states(model, TASK.tests[0].examples[:2])
        assert free_fields(model, state).keys() == free
        best_state.descend(model, batch, state, best_state.measure_ranges(model, state), 1)
        again = complete_state(model, state)
        for field, same in zip(state, again, strict=True):
            torch.testing.assert_close(field, same)
    model = build("rnn_encdec", V, **sizes, d_maxout=8)
    state = model.encode(batch.src, batch.src_mask)
    moved = complete_state(model, state._replace(c=state.c / 2))
    torch.testing.assert_close(moved.s, torch.tanh(model.V_start(state.c / 2)))


def test_written_numbers_stay_in_the_encoders_ranges() -> None:
    torch.manual_seed(2)
    model = build("lstm_seq2seq", V, d_model=12, d_embed=8, n_layers=1)
    ranges, states = best_of(30).write(model)
    for name, half in ranges.half.items():
        encoded, moved = (getattr(states[steps], name) for steps in (0, 30))
        assert (moved >= encoded.amin(0) - 1e-6).all()
        assert (moved <= encoded.amax(0) + 1e-6).all()
        assert (moved - encoded).abs().max() > 0.1 * half.max()


def test_quantised_numbers_by_hand() -> None:
    """The range 1 to 5 has the values 1, 7/3, 11/3, 5 at 2 bits; a number without a range stays."""
    middle, half = torch.tensor([3.0, 7.0]), torch.tensor([2.0, 0.0])
    ranges = Ranges({"table": middle}, {"table": half})
    state = State(torch.tensor([[4.6, 7.0], [2.0, 7.0]]), torch.zeros(2))
    two, one = (ranges.quantise(state, bits).table for bits in (2, 1))
    torch.testing.assert_close(two, torch.tensor([[5.0, 7.0], [7 / 3, 7.0]]))
    torch.testing.assert_close(one, torch.tensor([[5.0, 7.0], [1.0, 7.0]]))


def test_controls_start_elsewhere_and_shuffle_targets() -> None:
    rows = best_of(200).measure_controls(Copier(), Copier())
    names = [*dict.fromkeys(row["control"] for row in rows)]
    ends = {name: bleu(rows, control=name, steps=200)[0] for name in names}
    starts = {name: bleu(rows, control=name, steps=0)[0] for name in names}
    assert [*ends.values()] == pytest.approx([100] * 3)  # a copier says words in any order
    assert max(starts.values()) < 60
    example, rng = Example([4], [4, 5, 6, 7, 8, EOS]), random.Random(1)
    shuffled = best_state.shuffle_target(example, rng)
    assert shuffled.src == [4]
    assert shuffled.tgt[-1] == EOS
    assert shuffled.tgt != example.tgt
    assert sorted(shuffled.tgt) == sorted(example.tgt)


def test_halves_by_surprisal() -> None:
    best, examples = best_of(200), TASK.tests[0].examples[:5]
    states = [best_state.take_rows(own, range(5)) for own in best.write(Copier())[1].values()]
    is_fewer = torch.tensor([False, True, True, False, True]).view(5, 1, 1)  # the odd one is here
    mixed = states[0]._replace(table=torch.where(is_fewer, states[1].table, states[0].table))
    (row,) = best.score(Copier(), mixed, examples, [5] * 5, [5.0, 1, 3, 4, 2])
    assert row["bleu_fewer_bits"] == pytest.approx(100)
    assert row["bleu_more_bits"] < 60
    surprisal = [float(len(e.src)) for e in TASK.tests[0].examples]
    rows = best_of(5, surprisal).measure(Copier(), Copier())
    first = next(row for row in rows if row["steps"] == 5)
    inside = [x for x in TASK.tests[0].x if first["low"] <= x <= first["high"]]
    assert first["surprisal"] == pytest.approx(np.mean(inside))


def test_bits_are_those_of_the_choices() -> None:
    """The sampler draws the same sentences; a choice of p has -log2 p bits, equal items one."""
    corpus = draw_corpus(seed=3, n_train=5, n_valid=5, max_test=20, per_bucket=9)
    bits = count_bits(corpus.test, 3)
    assert len(bits) == 18
    assert min(bits) > 15
    assert np.mean(bits[9:]) > 1.5 * np.mean(bits[:9])
    with pytest.raises(ValueError, match="seed 4 does not draw"):
        count_bits(corpus.test, 4)
    plain, counting = Sampler(random.Random(5)), CountingSampler(random.Random(5))
    items = ["the", "the", "the", "a"]
    for _ in range(20):
        before = counting.bits
        item = counting.pick(items)
        assert item == plain.pick(items)
        assert counting.bits - before == pytest.approx(math.log2(4 / 3 if item == "the" else 4))
        before = counting.bits
        was = plain.chance(0.9)
        assert counting.chance(0.9) == was
        assert counting.bits - before == pytest.approx(-math.log2(0.9 if was else 0.1))
        before = counting.bits
        kind = plain.subject_kind(2, "hatp")
        assert counting.subject_kind(2, "hatp") == kind
        share = {"h": 0.6, "a": 0.25, "t": 0.1, "p": 0.05}[kind]
        assert counting.bits - before == pytest.approx(-math.log2(share))


def test_words_kept_by_place() -> None:
    """A word that occurs twice has to be said twice; places are fifths of the source."""
    en = ("the", "dog", "saw", "the", "cat", "and", "the", "dog", "slept", ".")
    words, kept = places.find_kept(Sentence(en, (), ()), ["der", "Hund", "sah", "die"])
    assert words.tolist() == [1, 1, 1, 1, 1]
    assert kept.tolist() == [1, 1, 0, 0, 0]
    counts = np.array([[words, kept], [2 * words, 2 * words]])
    shares = places.sum_counts(counts, np.array([0, 1]))["shares"]
    assert shares == pytest.approx([100, 100, 200 / 3, 200 / 3, 200 / 3])
    assert places.sum_counts(np.zeros((1, 2, 5)), np.array([0]))["shares"] == [None] * 5


def test_only_the_encoder_learns_for_a_frozen_decoder(tmp_path: Path) -> None:
    """The run resumes from its checkpoint, and no weight that the decoder uses has changed."""
    first = compare(toy(), options(out=tmp_path / "first", models=["rnn_encdec"]))
    assert first is not None
    models = ["rnn_encdec", "rnn_encdec_pooled"]
    task = with_frozen_decoder(toy(), first, models, [1])
    out = compare(task, options(out=tmp_path / "second", models=models, seeds=[1]))
    assert out is not None
    before = load_model(first / "rnn_encdec-seed1").model
    d_model = before.config.d_model
    for name, learned in (("rnn_encdec", "encoder.unit.U.weight"), ("rnn_encdec_pooled", None)):
        after = load_model(out / f"{name}-seed1").model
        assert after.config.d_model == d_model
        used = decoder_parameters(after)
        assert {"embed.weight", "C.weight", "V_start.bias", "output.W_o.weight"} <= {*used}
        assert not any(part in key for key in used for part in ("encoder.", "reader", "V.weight"))
        for key in used:
            assert torch.equal(after.get_parameter(key), before.get_parameter(key)), key
        if learned:
            assert not torch.equal(after.get_parameter(learned), before.get_parameter(learned))
    with pytest.raises(ValueError, match="has no weights of rnn_encdec-seed2"):
        with_frozen_decoder(toy(), first, ["rnn_encdec"], [2])
    before.C.requires_grad_(False)
    trained = [p for g in groups_of(Trainer(before, CFG).optimizers) for p in g["params"]]
    assert len(trained) == sum(1 for _ in before.parameters()) - 1
    assert all(p is not before.C.weight for p in trained)


def values_of(drawn: Figure) -> list[float]:
    """Return the last BLEU of each line."""
    (ax, *_) = drawn.axes
    return [line.get_ydata()[-1] for line in ax.lines if line.get_transform() == ax.transData]


def test_three_curves_are_those_of_the_records(tmp_path: Path) -> None:
    """Each line is a mean of its own set and seeds; the interval has both sources of chance."""
    best = best_of(4)
    test = replace(TASK.tests[0], name="best_state", adapt=best.adapt)
    task = toy(
        tests=[*TASK.tests, test],
        measure={"best_state": best.measure, "controls": best.measure_controls},
    )
    out = compare(task, options(out=tmp_path, models=["rnn_encdec", "bahdanau"], seeds=[1, 2]))
    assert out is not None
    runs = [f"{model}-seed{seed}" for model in ("rnn_encdec", "bahdanau") for seed in (1, 2)]
    records, translated_greedily = [fields_of(out / f"{run}.json") for run in runs], []
    for r, shift in zip(records, (3.0, 9.0, 20.0, 30.0), strict=True):
        for t, more in zip(r["tests"], (0.0, 40.0), strict=True):
            for part in (t["overall"], *t["buckets"]):
                part["bleu"] = metric(shift + more, 1)
        greedy = copy.deepcopy(r["tests"][0]) | {"name": "greedy"}
        for part in (greedy["overall"], *greedy["buckets"]):
            part["bleu"] = metric(shift + 7, 1)
        translated_greedily.append(as_arm(r | {"tests": [*r["tests"], greedy]}, "slow", lr=0.5))
    changed = best_state_figure.draw(as_records(translated_greedily))
    assert values_of(changed["best-state"]) == [13, 46, 32]
    drawn = best_state_figure.draw(as_records(records))
    assert drawn.keys() == {"best-state"}  # symbols have no bits of choice
    assert values_of(drawn["best-state"]) == [6, 46, 25]  # encoder, best, Bahdanau


def test_an_interval_of_a_mean_has_both_sources_of_chance() -> None:
    group = [scored({"gpt": [x]}, counts=[20])[0] for x in (50.0, 56.0)]
    _, bucket = load.mean_scores(as_records(group), "length", "bleu")
    sentences, seeds = (1 / student_quantile(19)) ** 2, 18 / 2
    total = sentences + seeds
    quantile = (sentences * student_quantile(19) + seeds * student_quantile(1)) / total
    half = quantile * math.sqrt(total)
    assert bucket.tolist() == pytest.approx([53, 53 - half, 53 + half])
    group = [scored({"gpt": [x]}, counts=[20])[0] for x in (95.0, 99.0)]
    assert load.mean_scores(as_records(group), "length", "bleu")[1, 2] == 100


class Right(Copier):
    """An encoder that lists the letters to be said again, as the task asks."""

    def encode(self, src: Tensor, src_mask: Tensor) -> State:
        letters = torch.full((len(src), N), EOS)
        letters[:, : src.shape[1]] = torch.where(src_mask, src, EOS)
        table = torch.nn.functional.one_hot(letters, V).float()
        return State(table, torch.zeros(len(src), dtype=torch.long))


def test_the_longest_trained_bucket_may_end_where_training_does() -> None:
    best = best_of(1)
    best.test = replace(best.test, buckets=[(1, 4), (5, 8), (9, 12)], max_train_length=8)
    assert {best.test.x[i] for i in best.longest_trained()} == {x for x in best.test.x if x >= 5}


def test_fewer_bits_are_those_of_the_sentences_that_have_fewer() -> None:
    """Only the first sentences, which have fewer bits, are written right."""
    best, model = best_of(1), Right()
    examples, bits = best.test.examples, [float(i) for i in range(len(best.test.x))]
    state, wrong = (best_state.read_states(kind, examples) for kind in (model, Copier()))
    in_bucket = [i for i, x in enumerate(best.test.x) if x >= 5]
    table, half = state.table.clone(), in_bucket[(len(in_bucket) + 1) // 2 :]
    table[half] = wrong.table[half]
    rows = best.score(model, state._replace(table=table), examples, best.test.x, bits)
    (row,) = [row for row in rows if row["low"] == 5]
    assert row["bleu_fewer_bits"] == pytest.approx(100)
    assert float(row["bleu_more_bits"]) < 60


def test_another_sentences_state_is_another_ones() -> None:
    rows = best_of(2).measure_controls(Right(), Right())
    starts = {row["control"]: row["bleu"] for row in rows if row["steps"] == 0}
    assert float(starts["start: another sentence's State"]) < 60
