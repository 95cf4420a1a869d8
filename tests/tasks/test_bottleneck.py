"""The bottleneck: optimised States, the sentences that they give, and what is kept of a source."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close
from toys import TOKENIZER, options, toy

from seqmodels.data.batches import Example, collate
from seqmodels.experiments.launch import compare
from seqmodels.inference import load
from seqmodels.interface import EOS, PAD, SequenceModel
from seqmodels.models import build
from seqmodels.search import unroll
from tasks.bottleneck import best_state, halves, kept, latent
from tasks.bottleneck.best_state import BestState
from tasks.synthetic.grammar import draw_corpus
from tasks.synthetic.trees import Sentence
from tasks.synthetic.words import english_words, german_words

N, V = 10, TOKENIZER.vocab_size
TASK = toy()


class State(NamedTuple):
    """A row of logits for each of N target tokens, and how many are generated."""

    table: Tensor
    n: Tensor


@dataclass(frozen=True)
class Config:
    vocab_size: int = V


class Copier(SequenceModel):
    """A decoder that generates what its State lists; the encoder lists random numbers."""

    config_type = Config
    is_deaf = False

    def __init__(self) -> None:
        super().__init__(Config())
        self.weight = nn.Parameter(torch.zeros(1))

    def source_floats(self, n: int) -> int:
        return N * V

    def encode(self, src: Tensor, src_mask: Tensor) -> State:
        rows = []
        for source in src:
            weighted = source * torch.arange(1, 1 + len(source))
            draw = torch.Generator().manual_seed(int(weighted.sum()))
            rows.append(2 * torch.rand(N, V, generator=draw) - 1)
        return State(torch.stack(rows), torch.zeros(len(src), dtype=torch.long))

    def step(self, y: Tensor, state: State) -> tuple[Tensor, State]:
        logits = state.table[torch.arange(len(y)), state.n.clamp(max=N - 1)]
        if self.is_deaf:
            logits = 0 * logits + torch.arange(V)
        return logits, state._replace(n=state.n + 1)

    def forward(self, src: Tensor, src_mask: Tensor, tgt_in: Tensor) -> Tensor:
        return unroll(self, self.encode(src, src_mask), tgt_in)[0]


class Deaf(Copier):
    """A decoder that does not read its State."""

    is_deaf = True


def best_of(steps: int) -> BestState:
    return BestState(TASK.tests[0], TOKENIZER, "13a", steps)


def bleu(rows: Sequence[Any], **columns: Any) -> list[float]:
    return [row["bleu"] for row in rows if row.items() >= columns.items()]


def test_a_decoder_that_copies_its_state_reaches_100_and_a_deaf_one_stays() -> None:
    rows = best_of(200).measure(Copier(), Copier())
    assert max(bleu(rows, steps=0, numbers=N * V)) < 50
    assert bleu(rows, steps=200, numbers=N * V) == pytest.approx([100, 100])
    assert min(bleu(rows, steps=200, bits=8)) > 99 > max(bleu(rows, steps=0, bits=8))
    assert len(bleu(rows, noise=0.4)) == 2 * 2  # steps, buckets
    rows = best_of(20).measure(Deaf(), Deaf())
    assert bleu(rows, steps=20, numbers=N * V) == bleu(rows, steps=0, numbers=N * V)


def test_the_adapted_model_translates_from_the_optimised_states() -> None:
    best, model = best_of(200), Copier()
    adapted = best.adapt(model)
    batch = collate(best.test.examples)
    logits = adapted(batch.src, batch.src_mask, batch.tgt_in)
    assert (logits.argmax(-1) == batch.tgt_out)[batch.tgt_out != PAD].all()
    rows = [3, 0, 7]  # States are looked up by the source, not by the row
    state = adapted.encode(batch.src[rows], batch.src_mask[rows])
    assert torch.equal(state.table, best.optimise(model)[1][200].table[rows])
    deaf = best.optimise(Deaf())[1]  # another model's, which do not move
    assert_close(deaf[200].table, deaf[0].table, rtol=0, atol=1e-2)
    grows = build("bahdanau", V, d_model=8, d_embed=8, d_maxout=8, d_align=8)
    assert best.adapt(grows) is grows
    assert best.measure(grows, grows) == best.measure_controls(grows, grows) == []


@pytest.mark.parametrize(
    ("name", "sizes", "free"),
    [
        ("rnn_encdec", {"d_embed": 8, "d_maxout": 8}, {"c"}),
        ("bahdanau_2", {"d_embed": 8, "d_maxout": 8, "d_align": 8}, {"h", "s"}),
        ("lstm_seq2seq", {"d_embed": 8, "n_layers": 2}, {"h", "c"}),
        ("linear_attention", {"n_heads": 2, "n_layers": 2}, {"s"}),
    ],
)
def test_free_numbers_stay_in_the_encoders_ranges(name: str, sizes: Any, free: set[str]) -> None:
    """Cho's s follows from c, a pooled key from its annotation; the cells of an LSTM are free."""
    torch.manual_seed(2)
    model, examples = build(name, V, d_model=12, **sizes).eval(), TASK.tests[0].examples[:5]
    start = latent.encode_all(model, examples)
    ranges = latent.measure_ranges(model, start)
    assert ranges.shapes.keys() == free
    moved = latent.optimise_latent(model, collate(examples), [30], start, ranges)[30]
    for field in free:
        own, other = getattr(start, field), getattr(moved, field)
        assert (other >= own.amin(0) - 1e-5).all()
        assert (other <= own.amax(0) + 1e-5).all()
    assert ranges.normalise(moved).sub(ranges.normalise(start)).abs().max() > 0.1
    for field, same in zip(start, latent.complete_state(model, start), strict=True):
        assert_close(field, same)


def test_quantised_numbers_by_hand() -> None:
    """The range 1 to 5 has the values 1, 7/3, 11/3, 5 at 2 bits; a number without a range stays."""
    centre, half_range = torch.tensor([[3.0, 7.0], [2.0, 0.0]])
    ranges = latent.Ranges({"table": torch.Size([2])}, centre, half_range)
    state = State(torch.tensor([[4.6, 7.0], [2.0, 7.0]]), torch.zeros(2))
    x = ranges.normalise(state)
    two, one = (ranges.put(state, best_state.quantise(x, bits)).table for bits in (2, 1))
    assert_close(two, torch.tensor([[5.0, 7.0], [7 / 3, 7.0]]))
    assert_close(one, torch.tensor([[5.0, 7.0], [1.0, 7.0]]))


def test_controls_start_elsewhere_and_have_other_targets() -> None:
    rows = best_of(200).measure_controls(Copier(), Copier())
    names = [*dict.fromkeys(row["control"] for row in rows if "steps" in row)]
    ends, starts = ([bleu(rows, control=name, steps=k)[0] for name in names] for k in (200, 0))
    assert ends == pytest.approx([100] * 5)  # a copier generates words in any order
    assert max(starts) < 60
    way = [row for row in rows if row["control"] == "descent"]
    assert [row["steps"] for row in way] == [0, 10, 25, 100, 200]
    assert [row["own_nearest"] for row in way] == [100] * 5  # it moves less than States differ
    distances = [row["distance"] for row in way]
    assert distances == sorted(distances)
    assert distances[0] == pytest.approx(0, abs=1e-3)
    assert 0 < bleu(rows, control="line", share=0.25)[0] < 100
    assert bleu(rows, control="mean of two") == pytest.approx([100])


def test_states_are_changed_as_their_rows_say(monkeypatch: pytest.MonkeyPatch) -> None:
    best, model, given, targets = best_of(2), Copier(), list[Any](), list[Any]()

    def note(_: Any, __: Any, state: State, examples: Any, x: Any) -> list[dict[str, int]]:
        given.append(state)
        targets.append([example.tgt for example in examples])
        return [{"i": len(given) - 1}]

    monkeypatch.setattr(BestState, "score", note)
    ranges, states = best.optimise(model)
    for row in best.measure(model, model):
        x, own = ranges.normalise(given[row["i"]]), ranges.normalise(states[row["steps"]])
        if "bits" in row:
            assert 2 ** row["bits"] / 2 < len(x.mul(1e4).round().unique()) <= 2 ** row["bits"]
        else:
            assert (x - own).std().item() == pytest.approx(row.get("noise", 0), rel=0.1, abs=1e-5)
    rows = {row["control"]: row["i"] for row in best.measure_controls(model, model)
            if row.get("steps") == 0}  # fmt: skip
    own, other, middle, *same = (given[i] for i in rows.values())
    assert torch.equal(own.table.roll(-1, 0), other.table)
    assert_close(ranges.normalise(middle), torch.zeros(len(middle.n), N * V))
    assert all(torch.equal(own.table, each.table) for each in same)
    first, *unmoved, moved, shuffled = (targets[i] for i in rows.values())
    assert (unmoved, shuffled == first) == ([first, first], False)
    assert moved == first[1:] + first[:1]
    assert [*map(sorted, shuffled)] == [*map(sorted, first)] != [*map(sorted, moved)]


def test_the_longest_trained_bucket_is_that_which_training_reaches_the_end_of() -> None:
    test = replace(TASK.tests[0], x=[9, 3, 5, 7, 4], buckets=[(1, 4), (5, 7), (8, 9), (10, 12)])
    for longest, rows in ((3, [0]), (4, [1, 4]), (6, [1, 4]), (7, [2, 3]), (None, [0])):
        found = best_state.find_longest_trained(replace(test, max_train_length=longest))
        assert found == rows, longest


def test_distances_by_hand_and_shuffled_targets() -> None:
    """Two States 5 apart; the first moves by 4 towards the other, the second by 1."""
    ranges = latent.Ranges({"table": torch.Size([2])}, torch.zeros(2), torch.ones(2))
    own, moved = (
        State(torch.tensor(x), torch.zeros(2)) for x in ([[0.0, 0], [3, 4]], [[2.4, 3.2], [3, 5]])
    )
    found = best_state.measure_distance(own, moved, ranges)
    assert found == pytest.approx({"distance": 2.5 / 5, "own_nearest": 50})
    example = Example([4], [4, 5, 6, 7, 8, EOS])
    shuffled = best_state.shuffle_target(example, random.Random(1))
    assert (shuffled.src, shuffled.tgt[-1]) == ([4], EOS)
    assert shuffled.tgt != example.tgt
    assert sorted(shuffled.tgt) == sorted(example.tgt)


def test_words_kept_by_place_and_by_words_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word that occurs twice has to be generated twice; places are fifths of the source."""
    en = ("the", "dog", "saw", "the", "cat", "and", "the", "dog", "slept", ".")
    assert english_words(("Dogs", "woke")) == [(0, "dog"), (1, "wake")]
    german = ("altem", "Alte", "aufwachte")
    assert [german_words(form) for form in german] == [{"old"}, {"old"}, {"wake"}]
    counts = kept.count_kept(en, ["der", "Hund", "sah", "die"])
    assert counts.tolist() == [[1, 1], [1, 1], [0, 1], [0, 1], [0, 1]]
    assert kept.cut_prefix(Sentence(("Now", ",", "the", "dog", "slept", "."), (), ()), 3) == [
        "Now", ",", "the", "dog", "."
    ]  # fmt: skip
    corpus = draw_corpus(seed=3, n_train=5, n_valid=5, max_test=20, per_bucket=30)
    sentences = [s for s in corpus.test if s.n_words >= 11]
    monkeypatch.setattr(kept, "BINS", ((4, 9), (11, 11), (90, 99)))

    def translate(model: Any, *_: Any) -> list[Any]:
        longest = getattr(model, "state", 99)
        return [s.de if s.n_words <= longest else s.de[:6] for s in sentences]

    monkeypatch.setattr(kept, "generate_targets", translate)
    words: Any = SimpleNamespace(encode=lambda text: [], tokens=lambda output: output)
    rows = kept.measure_prefixes(Copier(), Copier(), sentences, words)
    assert [row["n"] for row in rows] == [len(sentences)] * 2
    assert 5 < rows[0]["words"] < 8 < rows[1]["words"] == 11
    assert all(row["share_value"] > 95 > 60 > row["chance"] for row in rows)
    x = [s.n_words for s in sentences]
    test = replace(TASK.tests[0], examples=[Example([n], [n]) for n in x], x=x)
    best: Any = SimpleNamespace(
        test=replace(test, buckets=[(11, 12), (13, 20)]), tokenizer=words,
        optimise=lambda _: (None, {0: 0, 9: 12}),
    )  # fmt: skip
    by_place = kept.measure_places(Copier(), Copier(), best, sentences)
    places = [(row["steps"], row["low"], row["place"]) for row in by_place]
    assert places == [*product((0, 9), (11, 13), range(1, 6))]
    last = [row["share"] > 95 for row in by_place if row["place"] == 5]
    assert last == [False, False, True, False]


@pytest.mark.usefixtures("undrawn")
def test_only_the_encoder_learns_for_a_frozen_decoder(compared: Path, tmp_path: Path) -> None:
    task = halves.with_frozen_half(toy(), compared, ["rnn_encdec"], [1])
    out = compare(task, options(out=tmp_path, models=["rnn_encdec"], seeds=[1]))
    assert out is not None
    before = load(compared / "rnn_encdec-seed1").model
    after = load(out / "rnn_encdec-seed1").model
    used = halves.list_decoder_parameters(after)
    assert {"embed.weight", "C.weight", "V_start.bias", "output.W_o.weight"} <= {*used}
    assert not any(part in key for key in used for part in ("encoder.", "V.weight"))
    for key in used:
        assert torch.equal(after.get_parameter(key), before.get_parameter(key)), key
    learned = "encoder.unit.U.weight"
    assert not torch.equal(after.get_parameter(learned), before.get_parameter(learned))
    assert after.config.d_model == before.config.d_model
    assert task.data["frozen"] == f"one half, from {compared.name}"
    with pytest.raises(ValueError, match="has no weights of rnn_encdec-seed2"):
        halves.with_frozen_half(toy(), compared, ["rnn_encdec_fresh"], [2])


@pytest.mark.usefixtures("undrawn")
def test_only_the_decoder_learns_for_a_frozen_encoder(copied: Path) -> None:
    """Its runs may be beside the encoder's; its width may differ, its embeddings are its own."""
    task = halves.with_frozen_half(toy(), copied, ["rnn_encdec_fresh"], [1])
    trained: Any = load(copied / "rnn_encdec-seed1").model
    width = trained.config.d_model
    varied = [("d_model", [width + 3]), ("is_fresh", [False])]
    out = compare(task, options(out=copied, seeds=[1], models=["rnn_encdec_fresh"], vary=varied))
    assert out is not None
    src = torch.tensor([[4, 6, 5, PAD], [7, 5, 4, 6]])
    vectors = trained.encode(src, src != PAD).c
    for changed in ("", f"-d_model-{width + 3}", "-is_fresh-False"):
        fresh: Any = load(out / f"rnn_encdec_fresh{changed}-seed1").model
        c = fresh.encode(src, src != PAD).c
        assert_close(c, fresh.W_c(vectors))
        assert c.shape[1] == fresh.config.d_model
        assert fresh.source_floats(9) == width
        assert torch.equal(c, vectors) == (fresh.config.d_model == width)
        assert not torch.equal(fresh.embed.weight, trained.embed.weight)
        assert not torch.equal(fresh.output.W_o.weight, trained.output.W_o.weight)
    for is_fresh in (False, True):
        begun = type(fresh)(replace(fresh.config, is_fresh=is_fresh))
        halves.freeze_half(begun, ["rnn_encdec_fresh", "rnn_encdec"], 1, copied)
        assert torch.equal(begun.V_start.weight, trained.V_start.weight) != is_fresh


def test_an_autoencoder_reads_what_it_writes() -> None:
    pair = [Example([4, 5, EOS], [6, 7, 7, EOS])]
    task = halves.to_autoencoder(replace(TASK, train=pair, valid=pair))
    assert task.train == task.valid == [Example([6, 7, 7, EOS], [6, 7, 7, EOS])]
    assert (task.alignment_example, task.measure) == (None, {})
    (before,), (after,) = TASK.tests, task.tests
    assert [e.src for e in after.examples] == [e.tgt for e in before.examples]
    assert after.x == before.x
