"""Check the stories of `tasks.made.stories` word by word."""

import hashlib
import random
from collections import Counter

import pytest

from tasks.made.stories import DECOYED, KINDS, SLOTS, Story, draw_corpus, draw_story

FACT_VERBS = {"hid", "hidden", "kept"}
DISTANCES = [*range(8, 20), 40, 64, 127, 256]


def words(text: str) -> list[str]:
    """Split a text into words without their commas and full stops."""
    return [word.strip(",.") for word in text.split()]


def draw(n: int, distances: list[int]) -> list[Story]:
    """Draw n stories of each distance."""
    rng = random.Random(5)
    return [draw_story(rng, distance) for distance in distances for _ in range(n)]


def training_stories() -> list[Story]:
    """Draw training stories, many of which need two words."""
    return draw_corpus(seed=2, n_train=600, n_valid=0, per_distance=0).train


@pytest.mark.parametrize("stories", [draw(30, DISTANCES), training_stories()], ids=["one", "train"])
def test_the_distance_is_exact(stories: list[Story]) -> None:
    """Keeps out fillers of a wrong length, needed words mentioned on the way, wrong offsets."""
    assert {s.kind for s in stories} == set(KINDS)
    for s in stories:
        text = words(s.text)
        assert text[-1] == s.needed
        assert s.needed in SLOTS[s.kind]
        assert text[:-1].count(s.needed) == 1
        assert len(text) - 1 - text.index(s.needed) == s.distance
        assert s.text[s.start - 1 :] == f" {s.needed}."
        assert s.cut()[1].endswith(f" {s.needed}")
        assert s.cut()[0].endswith(". ")
        assert "".join(s.cut()) + "." == s.text


def test_half_of_the_long_training_stories_need_two_words() -> None:
    """Keeps out a second need that is never drawn, or that gives the last one away."""
    stories = [s for s in training_stories() if s.distance >= 40]
    n_twice = 0
    for s in stories:
        sentences = [words(part) for part in s.text.split(". ")][:-1]
        (fact,) = [sentence for sentence in sentences if s.needed in sentence]
        clues = {w for w in fact if w != s.needed and any(w in SLOTS[kind] for kind in KINDS)}
        n_twice += sum(clues <= set(sentence) for sentence in sentences) == 2
    assert 0.4 < n_twice / len(stories) < 0.6


def test_exactly_one_sentence_answers_the_cue() -> None:
    """Keeps out a second fact about the cue's key, recency, and decoys that are not decoys."""
    n_decoyed = 0
    for s in draw(30, DISTANCES):
        *sentences, cue = [words(part) for part in s.text.rstrip(".").split(". ")]
        (key,) = {w for w in cue[:-1] for kind in KINDS if w in SLOTS[kind]}
        about_key = [sentence for sentence in sentences if key in sentence]
        facts = [sentence for sentence in about_key if FACT_VERBS & set(sentence)]
        assert len(facts) == 1
        assert [w for w in facts[0] if w in SLOTS[s.kind]] == [s.needed]
        n_decoyed += len(about_key) > 1
        if s.distance >= DECOYED:
            assert len(about_key) > 1
            assert set(words(s.text)[-s.distance : -1]) & set(SLOTS[s.kind])
    assert n_decoyed


def test_rivals_come_after_the_fact() -> None:
    """Keeps out a rival before it, which models of minutes did not learn to tell from the fact."""
    n_rivalled = 0
    stories = draw(200, [64])
    for s in stories:
        sentences = [words(part) for part in s.text.split(". ")][:-1]
        first, *others = [sentence for sentence in sentences if FACT_VERBS & set(sentence)]
        assert s.needed in first
        n_rivalled += bool(others)
    assert n_rivalled / len(stories) > 0.3


def test_same_seed_same_stories() -> None:
    """Keeps out set order, float powers and `rng` methods that change with the version."""
    splits = draw_corpus(seed=1, n_train=300, n_valid=50, per_distance=6)
    digest = hashlib.sha256(repr(splits).encode()).hexdigest()
    assert digest == "77435aa6addfd40bc179427ac81591215f404ae7bfd91fed0b60443554b873ea"


def test_kinds_and_distances_are_balanced() -> None:
    """Keeps out a kind or a distance with fewer stories, and a story in two splits."""
    splits = draw_corpus(seed=4, n_train=1500, n_valid=300, max_test=256, per_distance=30)
    assert Counter((s.distance, s.kind) for s in splits.test) == {
        (distance, kind): 10 for distance in (8, 16, 32, 64, 128, 256) for kind in KINDS
    }
    assert set(Counter(s.kind for s in splits.train).values()) == {500}
    octaves = Counter(s.distance.bit_length() for s in splits.train if s.distance < 128)
    assert sorted(octaves) == [4, 5, 6, 7]
    assert min(octaves.values()) > 300  # log-uniform: a quarter each
    assert max(s.distance for s in splits.train + splits.valid) <= 128
    short = draw_corpus(seed=3, n_train=1500, n_valid=300, max_train=8, max_test=8)
    assert len({s.text for split in short for s in split}) == 1900
    slots = [word for candidates in SLOTS.values() for word in candidates]
    assert len(slots) == len(set(slots))
    assert all(len(set(SLOTS[kind])) >= 24 for kind in KINDS)


def test_short_distances_are_refused() -> None:
    """Keeps out an index error, or an empty test, where a distance has no story."""
    with pytest.raises(ValueError, match="at least 8"):
        draw_story(random.Random(0), 7)
    for too_short in ({"max_train": 7}, {"max_test": 4}):
        with pytest.raises(ValueError, match="at least 8"):
            draw_corpus(0, 1, 1, **too_short)
