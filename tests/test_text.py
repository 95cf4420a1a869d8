"""Tokenizers: what goes in comes out, on this machine and on the next."""

import base64
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqmodels import text
from seqmodels.interface import BOS, EOS, PAD, UNK
from seqmodels.text import (
    BLOCK,
    BOUNDARY,
    BPE,
    LONGEST_PIECE,
    SPLIT,
    Bytes,
    Tokenizer,
    Words,
    blocks,
    load,
    split_words,
    train_merges,
)

DATA = Path(os.environ.get("SEQMODELS_DATA", Path(__file__).parents[1] / "../shared/data"))
LINES = [
    "The dog, who sleeps, runs.",
    "The dog that the cat sees runs, and the cat doesn't.",
    "Der Hund, der schläft, läuft.",
    "« Où est-ce que l’homme dort ? »",
] * 3
BPE_LINES = BPE.train(LINES, 320)

# Drawn characters, mixed with the ones on which splitters and byte maps trip.
ANY_TEXT = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from(" \n\r\t\x85\u2028'é👍🏽")
)


@pytest.fixture(scope="module")
def bible() -> list[str]:
    """Return real verses in German and English."""
    if not DATA.is_dir():
        pytest.skip(f"no real text at {DATA}")
    verses = [(DATA / "bible" / f"valid.{code}").read_text("utf-8") for code in ("de", "en")]
    return "".join(verses).split("\n")


def all_kinds() -> list[Tokenizer]:
    """Return one tokenizer of each kind."""
    return [Words.train(LINES), Bytes(), BPE_LINES]


@pytest.mark.parametrize("tokenizer", [Bytes(), BPE_LINES], ids=lambda t: t.name)
@settings(max_examples=200, deadline=None)
@given(written=ANY_TEXT)
def test_any_text_comes_back(tokenizer: Tokenizer, written: str) -> None:
    """Keep out a split pattern that loses characters and a byte map with a hole."""
    ids = tokenizer.encode(written)
    assert tokenizer.decode(ids) == written
    assert all(UNK < i < tokenizer.vocab_size for i in ids)


@pytest.mark.parametrize("tokenizer", [Bytes(), BPE_LINES], ids=lambda t: t.name)
def test_long_runs_of_one_character(tokenizer: Tokenizer) -> None:
    """Keep out a splitter that overflows its stack or takes quadratic time on a long run."""
    for char in " \na!1\u00a0":
        assert tokenizer.decode(tokenizer.encode(char * 50_000)) == char * 50_000
    assert tokenizer.decode(tokenizer.encode(" " * 1_100_000)) == " " * 1_100_000


@settings(max_examples=300, deadline=None)
@given(written=st.text(" \n\r\t\u00a0\u2028a.1é\u0301—漢。,'", max_size=30))
def test_a_block_ends_where_the_pattern_cuts(written: str) -> None:
    """Keep out text whose tokens change where it is cut beforehand."""
    for found in BOUNDARY.finditer(written):
        left, right = written[: found.start()], written[found.start() :]
        assert BPE_LINES.encode(left) + BPE_LINES.encode(right) == BPE_LINES.encode(written)


def test_blocks() -> None:
    """Keep out blocks that lose text, have no end, or end in the middle of a word for no reason."""
    for written in ("", "a" * BLOCK, "word " * BLOCK, " " * 5 * BLOCK, "漢。" * 3 * BLOCK):
        cut = list(blocks(written))
        assert "".join(cut) == written
        assert max(map(len, cut)) <= 2 * BLOCK
        assert len(cut) <= 1 + len(written) // BLOCK
    assert {block[:4] + block[-2:] for block in blocks("word\n" * BLOCK)} == {"wordd\n"}


def test_one_long_line_is_trained_on() -> None:
    """Keep out training that takes minutes, or panics, where a text is one line or one word."""
    for written in ("a" * 300_000, " " * 300_000 + "a", "ab" * 200_000, " ".join(LINES * 3_000)):
        bpe = BPE.train([written], 300)
        assert max(map(len, bpe.labels)) <= LONGEST_PIECE
        assert bpe.decode(bpe.encode(written)) == written


@pytest.mark.parametrize("tokenizer", [Bytes(), BPE_LINES], ids=lambda t: t.name)
def test_half_a_surrogate_pair_is_an_error(tokenizer: Tokenizer) -> None:
    """Keep out text that is replaced without a word."""
    with pytest.raises(ValueError, match="surrogates not allowed"):
        tokenizer.encode("\ud800")


@pytest.mark.parametrize("tokenizer", all_kinds(), ids=lambda t: t.name)
def test_text_cannot_write_a_special(tokenizer: Tokenizer) -> None:
    """Keep out sentences that end early because they contain the name of a special."""
    written = "<pad> <bos> <eos> <unk> <|endoftext|> <s>"
    ids = tokenizer.encode(written)
    assert not {PAD, BOS, EOS} & set(ids)
    if not isinstance(tokenizer, Words):
        assert tokenizer.decode(ids) == written


@pytest.mark.parametrize("tokenizer", all_kinds(), ids=lambda t: t.name)
def test_specials_when_decoded(tokenizer: Tokenizer) -> None:
    """Keep out padding in translations that are scored, and an unknown word that vanishes."""
    ids = tokenizer.encode("The dog")
    assert tokenizer.decode([BOS, *ids, EOS, PAD, PAD]) == "The dog"
    assert tokenizer.decode([UNK]) == "⁇"
    assert tokenizer.tokens([PAD, BOS, EOS, UNK]) == ["<pad>", "<bos>", "<eos>", "⁇"]


@pytest.mark.parametrize("tokenizer", all_kinds(), ids=lambda t: t.name)
def test_saved_and_loaded(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Keep out a saved vocabulary whose ids have moved, so that a trained model talks nonsense."""
    tokenizer.save(tmp_path / "tokenizer.json")
    again = load(tmp_path / "tokenizer.json")
    assert type(again) is type(tokenizer)
    assert again.name == tokenizer.name
    assert again.labels == tokenizer.labels
    for line in LINES:
        assert again.encode(line) == tokenizer.encode(line)
        assert again.decode(again.encode(line)) == tokenizer.decode(tokenizer.encode(line))


def bpe_file(*ranks: object, split: str = SPLIT) -> str:
    """Return a BPE file."""
    return json.dumps({"kind": "bpe", "split": split, "ranks": ranks})


BYTES = [base64.b64encode(bytes([value])).decode() for value in range(256)]


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ("{", "Expecting property name"),
        ("[" * 100_000, "nested too deep"),
        ("[]", "no kind words, bytes or bpe"),
        ('{"kind": ["bpe"]}', "no kind words, bytes or bpe"),
        ('{"kind": "sentencepiece"}', "no kind words, bytes or bpe"),
        ('{"kind": "words"}', "no kind words, bytes or bpe with its fields"),
        ('{"kind": "words", "words": "ab"}', "no kind words, bytes or bpe with its fields"),
        ('{"kind": "words", "words": ["a", 1]}', "no kind words, bytes or bpe with its fields"),
        ('{"kind": "words", "words": ["a", "a"]}', "every word once"),
        ('{"kind": "words", "words": ["a b"]}', "nothing but words"),
        ('{"kind": "words", "words": [""]}', "nothing but words"),
        ('{"kind": "words", "words": ["\\ud800"]}', "surrogates not allowed"),
        (json.dumps({"kind": "words", "words": ["a" * 401]}), "1 to 400 bytes"),
        (bpe_file("YQ"), "padding"),
        (bpe_file("é"), "ASCII"),
        (bpe_file(1), "bytes-like"),
        (bpe_file("YQ=="), "all 256 bytes"),
        (bpe_file("YQ==", "YQ=="), "every piece once"),
        (bpe_file(*BYTES, ""), "1 to 400 bytes"),
        (bpe_file(*BYTES, "QUFB" * 134), "1 to 400 bytes"),
        (bpe_file(*BYTES, split=r"(\w+)*x"), "not the pattern that is known"),
        (" " * (2**24 + 1), "16,777,217 bytes, more than the 16,777,216"),
    ],
    ids=lambda value: value[:40],
)
def test_malformed_file(written: str, fault: str, tmp_path: Path) -> None:
    """Keep out a traceback, a hang or a full memory, whoever made the file and whatever for."""
    path = tmp_path / "tokenizer.json"
    path.write_text(written)
    with pytest.raises(ValueError, match=rf"tokenizer\.json is not a tokenizer file: .*{fault}"):
        load(path)


def test_labels_of_odd_words() -> None:
    """Keep out a word that clears the terminal or breaks a figure; its text is kept."""
    words = Words(["\x1b", "\x00", "\u202e"])
    assert words.labels[4:] == [r"\x1b", r"\x00", r"\u202e"]
    assert words.decode(words.encode("\x1b \u202e")) == "\x1b \u202e"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Keep out an OSError or a decoding error without the file's name."""
    with pytest.raises(ValueError, match=r"none\.json cannot be read: No such file"):
        load(tmp_path / "none.json")
    (tmp_path / "latin1.json").write_bytes(b'{"kind": "\xff"}')
    with pytest.raises(ValueError, match=r"latin1\.json is not a tokenizer file: .*0xff"):
        load(tmp_path / "latin1.json")


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
    with pytest.raises(ValueError, match="no word occurs 2 times"):
        Words.train(["a b"], min_count=2)


def test_merges_by_hand() -> None:
    """Keep out merges in another order than they were learned: the most frequent pair is first."""
    bpe = BPE.train(["ab", "ab", "ab", "abc", "abc", "cd"], 4 + 256 + 10)
    assert bpe.name == "BPE (262)"
    assert bpe.tokens([260, 261]) == ["ab", "abc"]
    assert bpe.tokens(bpe.encode("abcd abc")) == ["abc", "d", "▁", "abc"]


def test_labels_can_be_drawn() -> None:
    """Keep out labels that are invisible, break the line of a plot, or are half a character."""
    assert BPE_LINES.tokens(BPE_LINES.encode("\n👍"))[0] == r"\n"
    assert Bytes().tokens(Bytes().encode(" é")) == ["▁", r"\xc3", r"\xa9"]
    for tokenizer in all_kinds():
        assert all(label and label.isprintable() for label in tokenizer.labels)


def test_vocabulary_too_small_for_bytes() -> None:
    """Keep out a BPE that cannot write every byte."""
    assert BPE.train(LINES, 260).vocab_size == 260
    with pytest.raises(ValueError, match=r"vocab_size is 259; .* need 260"):
        BPE.train(LINES, 259)


def test_training_is_deterministic(bible: list[str]) -> None:
    """Keep out a trainer whose ties are broken by hashing or by the number of threads."""
    once, again = BPE.train(bible, 1000), BPE.train(iter(bible), 1000)
    assert once.labels == again.labels
    assert once.name == "BPE (1,000)"


def test_tiktoken_merges_as_trained(bible: list[str]) -> None:
    """Keep out ranks, or a reading of the pattern, in which the two libraries differ."""
    bpe, trained = BPE.train(bible, 2000), train_merges(bible, 1996)
    for line in [*bible[:400], *bible[-400:], *LINES, "\u00a0!\u202f? \x85\u2028 1234 \r\n\n  x  "]:
        expected = [text.N_SPECIALS + i for i in trained.encode(line).ids]
        assert bpe.encode(line) == expected
        assert bpe.decode(expected) == line
