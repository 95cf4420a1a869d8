"""Generated stories: distances, kinds and splits."""

from tasks.synthetic.stories import KINDS, SLOTS, draw_corpus


def test_the_distance_is_exact() -> None:
    train, _, test = draw_corpus(seed=2, n_train=1_200, n_valid=0, per_distance=60)
    assert {s.kind for s in train} == set(KINDS)
    for s in (*test, *train):  # many of these need two words
        text = [word.strip(",.") for word in s.text.split()]
        assert text[-1] == s.needed
        assert s.needed in SLOTS[s.kind]
        assert text[:-1].count(s.needed) == 1
        assert len(text) - 1 - text.index(s.needed) == s.distance
        assert s.text[s.start - 1 :] == f" {s.needed}."
        assert s.cut()[1].endswith(f" {s.needed}")
        assert s.cut()[0].endswith(". ")
        assert "".join(s.cut()) + "." == s.text
