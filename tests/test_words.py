"""Tokenizers by words and by characters: their vocabularies, by hand."""

import os
from pathlib import Path

import pytest

from seqmodels.data.tokenizers import (
    N_SPECIALS,
    Characters,
    Words,
    split_words,
)
from seqmodels.interface import UNK

DATA = Path(os.environ.get("SEQMODELS_DATA", Path(__file__).parents[1] / "../shared/data"))


def test_labels_of_odd_words() -> None:
    """Keep out a word that clears the terminal or breaks a figure; its text is kept."""
    words = Words(["\x1b", "\x00", "\u202e"])
    assert words.labels[4:] == [r"\x1b", r"\x00", r"\u202e"]
    assert words.decode(words.encode("\x1b \u202e")) == "\x1b \u202e"


def test_split_words() -> None:
    """Keep out punctuation that sticks to words, and words cut at an apostrophe or hyphen."""
    assert split_words("The dog, who runs.") == ["The", "dog", ",", "who", "runs", "."]
    assert split_words("«L’homme doesn't\u202f!»") == ["«", "L’homme", "doesn't", "!", "»"]
    assert split_words("est-ce que … 3,5") == ["est-ce", "que", "…", "3", ",", "5"]


@pytest.mark.parametrize(
    "sentence", ["The dog, who sleeps, runs.", "Der Hund, der schläft; läuft: wer? Er!", ""]
)
def test_words_come_back(sentence: str) -> None:
    """Keep out spaces before punctuation, which BLEU and chrF would count as errors."""
    words = Words.train(["The dog, who sleeps, runs.", "Der Hund, der schläft; läuft: wer? Er!"])
    assert words.decode(words.encode(sentence)) == sentence


def test_words_by_hand() -> None:
    """Keep out a vocabulary whose order hangs on the order of the lines or on hashing."""
    words = Words.train(["b a b", "c a b"])
    assert words.tokens(range(4, words.vocab_size)) == ["b", "a", "c"]
    assert words.encode("c a x") == [6, 5, UNK]
    assert words.decode([6, 5, UNK]) == "c a ⁇"
    assert words.name == "words (7)"
    assert Words.train(["c a b", "b a b"]).labels == words.labels
    assert Words.train(["b a b", "c a b"], min_count=2).vocab_size == 6
    assert Words.train(["b a b", "c a b"], vocab_size=5).labels[N_SPECIALS:] == ["b"]
    assert Words.train(["b", "a" * 401, "c"]).labels[N_SPECIALS:] == ["b", "c"]
    with pytest.raises(ValueError, match="is 4; give 5 to 1,048,580"):
        Words.train(["a"], vocab_size=4)
    with pytest.raises(ValueError, match="none of the words occurs 2 times"):
        Words.train(["a b"], min_count=2)


# --------------------------------------------------------------------------------- Characters


def test_characters_by_hand() -> None:
    """Keep out ids that hang on the order of the text, and an unknown character that vanishes."""
    characters = Characters.train(["bé", "ab\n"])
    assert characters.name == "characters (8)"
    assert characters.tokens(range(4, 8)) == [r"\n", "a", "b", "é"]
    assert characters.encode("éxa") == [7, UNK, 5]
    assert characters.decode([7, UNK, 5]) == "é⁇a"
    assert Characters.train(["bé", "ab"], min_count=2).tokens([4]) == ["b"]
    with pytest.raises(ValueError, match="none of the characters occurs 2 times"):
        Characters.train(["ab"], min_count=2)


def test_characters_of_shakespeare() -> None:
    """Keep out another count than that of all others who train on this text: 65."""
    path = DATA / "shakespeare" / "tinyshakespeare.txt"
    if not path.exists():
        pytest.skip(f"no {path}")
    assert Characters.train([path.read_text("utf-8")]).vocab_size == N_SPECIALS + 65
