"""Check the stories of `tasks.made.stories` word by word."""

import hashlib
import random
from collections import Counter

import pytest

from tasks.made.stories import CUES, DECOYED, FACTS, KINDS, SLOTS, Story, corpus, story

FACT_VERBS = {"hid", "hidden", "kept"}
DISTANCES = [*range(8, 41), 64, 127, 128, 192, 256]


def words(text: str) -> list[str]:
    """Split a text into words without their commas and full stops."""
    return [word.strip(",.") for word in text.split()]


def drawn(n: int, distances: list[int]) -> list[Story]:
    """Draw n stories of each distance."""
    rng = random.Random(5)
    return [story(rng, distance) for distance in distances for _ in range(n)]


def trained_on() -> list[Story]:
    """Draw training stories, many of which need two words."""
    return corpus(seed=2, n_train=600, n_valid=0, per_distance=0).train


@pytest.mark.parametrize("stories", [drawn(40, DISTANCES), trained_on()], ids=["story", "train"])
def test_the_distance_is_exact(stories: list[Story]) -> None:
    """Keeps out fillers of a wrong length, and a needed word that is mentioned on the way."""
    assert {s.kind for s in stories} == set(KINDS)
    for s in stories:
        said = words(s.text)
        assert said[-1] == s.needed
        assert s.needed in SLOTS[s.kind]
        assert said[:-1].count(s.needed) == 1
        assert len(said) - 1 - said.index(s.needed) == s.distance


def test_half_of_the_long_training_stories_need_two_words() -> None:
    """Keeps out a second need that is never drawn, or that gives the last one away."""
    stories = [s for s in trained_on() if s.distance >= 40]
    n_twice = 0
    for s in stories:
        told = [words(part) for part in s.text.split(". ")][:-1]
        (fact,) = [sentence for sentence in told if s.needed in sentence]
        clues = {w for w in fact if w != s.needed and any(w in SLOTS[kind] for kind in KINDS)}
        n_twice += sum(clues <= set(sentence) for sentence in told) == 2
    assert 0.4 < n_twice / len(stories) < 0.6


def test_the_offset_points_at_the_needed_word() -> None:
    """Keeps out an offset that scores the cue or the full stop in place of the needed word."""
    for s in drawn(10, DISTANCES):
        assert s.text[s.start :] == s.needed + "."
        assert s.text[s.start - 1] == " "


def test_a_candidate_of_the_same_kind_stands_between() -> None:
    """Keeps out stories that are solved by recency, the needed word being the last of its kind."""
    for s in drawn(40, [d for d in DISTANCES if d >= DECOYED]):
        between = words(s.text)[-s.distance : -1]
        assert set(between) & set(SLOTS[s.kind])


def test_exactly_one_sentence_answers_the_cue() -> None:
    """Keeps out a second fact about the cue's key, and decoys that are not decoys."""
    n_decoyed = 0
    for s in drawn(40, DISTANCES):
        *told, cue = [words(part) for part in s.text.rstrip(".").split(". ")]
        (key,) = {w for w in cue[:-1] for kind in KINDS if w in SLOTS[kind]}
        about_key = [sentence for sentence in told if key in sentence]
        facts = [sentence for sentence in about_key if FACT_VERBS & set(sentence)]
        assert len(facts) == 1
        assert [w for w in facts[0] if w in SLOTS[s.kind]] == [s.needed]
        n_decoyed += len(about_key) > 1
        assert len(about_key) > 1 or s.distance < DECOYED
    assert n_decoyed


def test_rivals_stand_behind_the_fact() -> None:
    """Keeps out a rival before it, which models of minutes did not learn to tell from the fact."""
    n_rivalled = 0
    stories = drawn(200, [64])
    for s in stories:
        told = [words(part) for part in s.text.split(". ")][:-1]
        first, *others = [sentence for sentence in told if FACT_VERBS & set(sentence)]
        assert s.needed in first
        n_rivalled += bool(others)
    assert n_rivalled / len(stories) > 0.3


def test_same_seed_same_stories() -> None:
    """Keeps out set order, float powers and `rng` methods that change with the version."""
    splits = corpus(seed=1, n_train=300, n_valid=50, per_distance=6)
    digest = hashlib.sha256(repr(splits).encode()).hexdigest()
    assert digest == "77435aa6addfd40bc179427ac81591215f404ae7bfd91fed0b60443554b873ea"


def test_splits_share_no_story() -> None:
    """Keeps out training on the test, which is likeliest where the stories are shortest."""
    splits = corpus(seed=3, n_train=3000, n_valid=300, max_train=8, max_test=8)
    texts = [s.text for split in splits for s in split]
    assert len(texts) == len(set(texts)) == 3400


def test_kinds_and_distances_are_balanced() -> None:
    """Keeps out a kind or a distance whose accuracy rests on fewer stories than the others'."""
    splits = corpus(seed=4, n_train=3000, n_valid=300, max_test=256, per_distance=30)
    assert Counter((s.distance, s.kind) for s in splits.test) == {
        (distance, kind): 10 for distance in (8, 16, 32, 64, 128, 256) for kind in KINDS
    }
    assert set(Counter(s.kind for s in splits.train).values()) == {1000}
    octaves = Counter(s.distance.bit_length() for s in splits.train if s.distance < 128)
    assert sorted(octaves) == [4, 5, 6, 7]
    assert min(octaves.values()) > 600  # log-uniform: a quarter of 3000 each
    assert max(s.distance for s in splits.train + splits.valid) <= 128


def test_the_vocabulary_is_small_and_the_candidates_many() -> None:
    """Keeps out a guess that is right by chance, and one word that is of two kinds."""
    said = {word for s in drawn(200, [64, 256]) for word in words(s.text)}
    assert 300 <= len(said) <= 450
    assert all(len(set(SLOTS[kind])) >= 24 for kind in KINDS)
    slots = [word for candidates in SLOTS.values() for word in candidates]
    assert len(slots) == len(set(slots))


def test_every_fact_can_be_asked_at_the_nearest_distance() -> None:
    """Keeps out a kind that no fact ends with, or a cue too long for the shortest story."""
    facts = [fact.strip() for fact in FACTS.split(".")]
    assert all(any(fact.endswith(f"{{{kind}}}") for fact in facts) for kind in KINDS)
    assert set(CUES) == {(kind, key) for kind in KINDS for key in KINDS if kind != key}
    assert all(len(cue.split()) < 8 for cues in CUES.values() for cue in cues.split("."))


def test_short_distances_are_refused() -> None:
    """Keeps out an index error, or an empty test, where a distance has no story."""
    with pytest.raises(ValueError, match="at least 8"):
        story(random.Random(0), 7)
    with pytest.raises(ValueError, match="at least 8"):
        corpus(0, 1, 1, max_train=7)
    with pytest.raises(ValueError, match="at least 8"):
        corpus(0, 1, 1, max_test=4)
