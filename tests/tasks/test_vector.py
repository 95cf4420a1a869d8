"""The vector: content words, roles and clause ends; prefixes, and the probe of a state."""

import argparse
import random
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Pairs, Tiny
from fake_records import as_records, fake_record
from matplotlib.figure import Figure
from torch.testing import assert_close

from seqmodels import EOS, UNK
from seqmodels.data.tokenizers import Words
from seqmodels.interface import Batch
from seqmodels.search import unroll
from tasks.analyses import decoder_states
from tasks.figures import mark_trained
from tasks.synthetic import words
from tasks.synthetic.grammar import draw_unseen
from tasks.synthetic.trees import Parse, Sentence, parse
from tasks.translation import __main__ as translation
from tasks.vector import __main__ as vector
from tasks.vector import figure, measure, roles


def draw(seed: int, n_words: int, n: int) -> tuple[list[Parse], Words]:
    """Draw sentences with their trees, and a tokenizer that knows their words."""
    parsed = [draw_unseen(random.Random(1000 * seed + i), n_words, set()) for i in range(n)]
    sentences = [p.sentence for p in parsed]
    return parsed, Words.train([text for s in sentences for text in (s.en_text, s.de_text)])


READ = {
    "Den Hund sieht die Katze .": "cat–dog see",
    "Hinter dem König hat Anna die Frau laufen sehen .": "Anna–woman see",
    "Der Mann , dem die Frau hilft , jagt den Wolf .": "man–wolf chase, woman–man help",
    "Obwohl sie müde ist , ruft der Arzt , der lacht , den König an , und weil Anna ihn kennt "
    "und weil der Junge singt , tanzt das Kind .":
    "doctor–king call, doctor laugh, Anna know, boy sing, child dance",
    "Max und Paul lieben den Brief .": "Max–letter love, Paul love",
}  # fmt: skip


def test_roles_of_texts_and_trees() -> None:
    """The roles that are read from German are nearly all those of the tree."""
    for text, expected in READ.items():
        assert roles.german_roles(text.split()) == {
            (noun, role, verb)
            for nouns, verb in map(str.split, expected.split(", "))
            for noun, role in zip(nouns.split("–"), ("subject", "object"), strict=False)
        }
    assert roles.german_roles([]) == set()
    found, added, total = 0, 0, 0
    for sentence, _, _, clauses, _ in (*draw(1, 12, 150)[0], *draw(2, 45, 40)[0]):
        reader = roles.TreeReader(clauses)
        assert [word for _, word in words.english_words(sentence.en)] == reader.words
        gold, read = reader.roles_within(len(reader.words)), roles.german_roles(sentence.de)
        found, added = found + len(gold & read), added + len(read - gold)
        total += len(gold)
    assert found / total > 0.99 > 0.2 > added / total  # relative clauses can have two readings


def test_prefixes_and_what_is_kept_of_them() -> None:
    clauses = [vector.garden(), vector.garden()]
    parsed = parse(clauses, ["and"])
    tokenizer = Words.train([parsed.sentence.en_text])
    assert roles.clause_ends(clauses) == [16, 33]
    whole, part, verb = (measure.cut_prefix(parsed, n, tokenizer) for n in (16, 2, 9))
    assert (tokenizer.decode(part.src[:-1]), part.src[-1]) == ("The dog.", EOS)
    see = ("dog", "subject", "see")
    assert (part.roles, verb.roles) == (set(), {see})
    assert whole.roles == {see, ("cat", "object", "see"), ("dog", "subject", "run")}
    for text, *n in (["Katze lief , die der Hund sieht", 4, 2], ["Katze sieht den Hund", 3, 0]):
        kept = measure.count_kept(whole, text.split())
        assert kept == {"content words": (n[0], 6), "roles": (n[1], 3)}


def test_shares_are_of_their_prefixes(monkeypatch: pytest.MonkeyPatch, tiny: Tiny) -> None:
    parsed, tokenizer = draw(4, 60, 12)

    def write(_: Any, examples: Any, *__: Any) -> list[list[int]]:
        texts = [tokenizer.decode(e.src[:-2]) for e in examples]
        sentences = [p.sentence for p in parsed]
        found = [next(s for s in sentences if s.en_text.startswith(text)) for text in texts]
        return [tokenizer.encode(s.de_text) for s in found]

    monkeypatch.setattr(measure, "generate_targets", write)
    rows = measure.measure_prefixes(tiny("gpt"), tiny("gpt"), parsed, tokenizer)
    assert {row["n"] for row in rows if row["cut"] == "anywhere"} == {12}
    for row in rows:
        if row["low"] > 10 and row["n"] > 4:  # a shorter one can begin several sentences
            assert row["chance"] < 50 < 97 < row["share_value"]


def test_roles_are_predicted_from_the_words_kept() -> None:
    words, chance = np.array([100.0, 60, 20, 10]), np.array([0.0, 20, 20, 20])
    assert figure.predict_roles(words, chance) == pytest.approx([100, 25, 0, 0])


def test_ranks_and_balanced_accuracy_by_hand() -> None:
    """Of a state's words, those said are compared with those to come alone; a tie is half."""
    row = np.array([7, 5, 7, 5, 7, 7, 9])
    said = np.array([True, False, False, True, True, False, True])
    scores = np.array([2.0, 1.0, 2.0, 0.0, 3.0, -1.0, 4.0])
    lower, total = measure.rank_pairs(row, said, scores)
    assert lower.tolist() == [1.5, 0, 0, 0, 2, 0, 0]
    assert total.tolist() == [2, 0, 0, 1, 2, 0, 0]
    sums = np.array([[3.0, 4.0, 10.0, 40.0], [1.0, 1.0, 0.0, 9.0]])
    assert measure.balanced_accuracy(sums).tolist() == [(75 + 25) / 2, 50]
    columns = np.array([4.0, 9.0, 1.0, 2.0]), np.array([5.0, 9.0, 3.0, 2.0])
    assert measure.sum_by(np.array([8, 3, 8, 3]), columns).tolist() == [[11, 11], [5, 8]]


def test_a_border_belongs_to_its_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sentence of six words has prefixes in 3 to 5 and in 6 to 9, and one of two in none."""
    monkeypatch.setattr(measure, "BINS", ((3, 5), (6, 9)))
    monkeypatch.setattr(measure, "N_PREFIXES", 2)
    ends = {2: [2], 5: [3, 5], 6: [6], 9: [9], 10: [10]}
    monkeypatch.setattr(measure, "clause_ends", lambda n: ends[n])
    parsed: Any = [Parse(Sentence(("a",) * n, (), ()), None, None, n, ()) for n in ends]
    cuts = measure.choose_cuts(parsed)
    assert [[i for i, _ in own] for own in cuts["clause ends"]] == [[1], [2, 3]]
    assert {n for _, n in cuts["clause ends"][0]} <= {3, 5}
    assert [[i for i, _ in own] for own in cuts["anywhere"]] == [[1, 2], [2, 3]]
    assert cuts["anywhere"][1][0] == (2, 6)


@pytest.mark.parametrize(("longest", "places"), [(40, [3.5]), (39, [2.5]), (None, [])])
def test_the_mark_is_behind_the_last_trained_bucket(longest: int | None, places: Any) -> None:
    (record,) = as_records([fake_record("gpt", 1)])
    ax = Figure().subplots()
    mark_trained(ax, record.tests[0].model_copy(update={"max_train_length": longest}))
    assert [line.get_xdata()[0] for line in ax.lines] == places


@pytest.mark.parametrize("knows", ["words", "time", "nothing"])
def test_a_probe_finds_what_is_left(knows: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds nothing in a state that lists nothing, or only how many words are written."""
    rng, words, sentences = random.Random(1), [w for _, w in measure.WORDS[::12]], []
    for n in rng.choices((4, 5, 6), k=200):
        order, en = rng.sample(range(n), n), tuple(rng.sample(words, n))
        sentences.append(Sentence(en, (*en, "."), tuple(enumerate(order))))
    labels = measure.label_states(sentences)
    states = torch.zeros(int(labels.row.max()) + 1, len(measure.WORDS))
    states[labels.row, labels.word] = torch.tensor(~labels.is_said).float()
    if knows == "time":
        places = torch.tensor([t for s in sentences for t in range(len(s.de) + 1)])
        states = torch.nn.functional.one_hot(places).float()
    elif knows == "nothing":
        states = states[torch.randperm(len(states))]
    monkeypatch.setattr(measure, "collect_states", lambda *_: states)
    rows = measure.probe_state(None, None, sentences, Words(words))  # type: ignore[arg-type]
    state, control, place = ((row["accuracy_value"], row["pairs_value"]) for row in rows[::4])
    assert max(control[1], place[1]) < 60 < 70 < place[0]
    if knows == "words":
        assert min(state) > 95
    else:
        assert state == pytest.approx(place if knows == "time" else (50, 50), abs=4)


def test_a_word_counts_as_translated_with_its_last_part() -> None:
    sentence = parse([vector.garden()]).sentence
    sentence = sentence._replace(links=(*sentence.links, (1, 4)))
    said = {measure.WORDS[word][1]: last for word, last in measure.last_links(sentence)}
    assert said == {"dog": 4, "see": 12, "cat": 5, "garden": 8}
    is_said, n = measure.label_states([sentence]).is_said, len(sentence.de) + 1
    assert [*is_said[n : 2 * n]] == [t > 12 for t in range(n)]


def test_states_are_those_that_the_output_reads(name: str, tiny: Tiny, pairs: Pairs) -> None:
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    states = decoder_states(model, Batch(src, src_mask, tgt_in, tgt_in))
    logits, last = unroll(model, model.encode(src, src_mask), tgt_in)
    if name in ("rnn_encdec", "bahdanau"):
        assert_close(states[:, -1], last.s)
    elif name == "lstm_seq2seq":
        assert_close(states[:, -1].view(len(src), 2, *last.c.shape[1:])[:, 1], last.c)
    else:
        assert_close(states @ model.embedding.weight.T, logits)


def test_data_and_recipes_are_those_of_the_translation() -> None:
    args = argparse.Namespace(size="smoke", tokens=None, data=None, no_source_eos=False)
    args.best_state = args.decoder = args.tokenizer = args.vocab = None
    task, other = vector.make_task(args), translation.make_task(args)
    for name in ("data", "train", "valid", "recipes", "training", "n_parameters"):
        assert getattr(task, name) == getattr(other, name)
    measured = {tuple(e.src) for e in task.tests[1].examples}
    assert not measured & {tuple(e.src) for e in (*task.train, *task.valid)}
    assert UNK not in task.tokenizer.encode(
        " ".join(map(" ".join, parse([vector.garden()]).sentence[:2]))
    )
