"""Tokenizers: text comes back from its ids, on this machine and on the next."""

import base64
import itertools
import json
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from seqmodels.data import TOKENIZERS, tokenizers
from seqmodels.data.tokenizers import BPE, N_SPECIALS, Bytes, Characters, Words
from seqmodels.interface import BOS, EOS, PAD, UNK

LINES = [
    "The dog, who sleeps, runs.",
    "The dog that the cat sees runs, and the cat doesn't.",
    "Der Hund, der schläft, läuft.",
    "« Où est-ce que l’homme dort ? »",
] * 3
draw_corpus = pytest.importorskip("tasks.synthetic.grammar").draw_corpus
TEXT = [side for pair in draw_corpus(1, 200, 0, per_bucket=1).train
        for side in (pair.en_text, pair.de_text)]  # fmt: skip
BPE_LINES = BPE.train(LINES, 320)

# Drawn characters, mixed with the ones on which splitters and byte maps trip.
ANY_TEXT = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from(" \n\r\t\x85\u2028'é👍🏽")
)
NAMES = ["<pad>", "<bos>", "<eos>", "⁇", "<unk>", "<s>", "<|endoftext|>", "<|endofprompt|>"]
some = settings(max_examples=60, deadline=None, derandomize=True)


LOSSLESS = [Bytes(), BPE_LINES]
ALL = [Words.train(LINES), Characters.train(LINES), *LOSSLESS]

each = pytest.mark.parametrize("tokenizer", ALL, ids=lambda t: type(t).__name__)
each_lossless = pytest.mark.parametrize("tokenizer", LOSSLESS, ids=lambda t: type(t).__name__)


@each_lossless
def test_half_a_character_is_decoded(tokenizer: tokenizers.Tokenizer) -> None:
    ids = tokenizer.encode("a漢")
    assert "�" in "".join(tokenizer.decode(ids[:n]) for n in range(len(ids)))


@each_lossless
@some
@given(parts=st.lists(st.sampled_from(NAMES) | ANY_TEXT))
def test_any_text_comes_back(tokenizer: tokenizers.Tokenizer, parts: list[str]) -> None:
    written = "".join(parts)
    ids = tokenizer.encode(written)
    assert tokenizer.decode(ids) == written
    assert tokenizer.n_bytes(ids) == len(written.encode())
    assert all(UNK < i < tokenizer.vocab_size for i in ids)


@each
def test_padding_leaves_no_trace_when_decoded(tokenizer: tokenizers.Tokenizer) -> None:
    ids = tokenizer.encode("The dog")
    assert tokenizer.decode([BOS, *ids, EOS, PAD, PAD]) == "The dog"
    assert tokenizer.decode([UNK]) == "⁇"
    assert tokenizer.tokens([PAD, BOS, EOS, UNK]) == ["<pad>", "<bos>", "<eos>", "⁇"]
    assert not {PAD, BOS, EOS} & {*tokenizer.encode(" ".join(NAMES))}


def test_a_long_run_of_one_character() -> None:
    for tokenizer in LOSSLESS:
        assert tokenizer.decode(tokenizer.encode("a" * 50_000)) == "a" * 50_000
    assert BPE_LINES.decode(BPE_LINES.encode(" " * 1_100_000)) == " " * 1_100_000
    bpe = BPE.train([" " * 100_000 + "a"], 300)
    assert max(map(len, bpe.labels)) <= tokenizers.MAX_PIECE_BYTES


@settings(max_examples=150, deadline=None, derandomize=True)
@given(written=st.text(" \n\r\t\u00a0\u2028a.1é\u0301—漢。,'/", max_size=30))
def test_blocks_end_where_the_pattern_splits(written: str) -> None:
    tokenizer = BPE_LINES
    for boundary in tokenizers.BOUNDARY.finditer(written):
        left, right = written[: boundary.start()], written[boundary.start() :]
        assert tokenizer.encode(left) + tokenizer.encode(right) == tokenizer.encode(written)


def test_words_keep_apostrophes_and_hyphens() -> None:
    split = Words.split
    assert split("The dog, who runs.") == ["The", "dog", ",", "who", "runs", "."]
    assert split("«L’homme doesn't\u202f!»") == ["«", "L’homme", "doesn't", "!", "»"]
    assert split("est-ce que … 3,5") == ["est-ce", "que", "…", "3", ",", "5"]
    assert split("l'e\u0301te\u0301 สวัสดี") == ["l'e\u0301te\u0301", "สวัสดี"]  # with their marks


def test_words_by_hand() -> None:
    words = Words.train(["b a b", "d a b c"])
    assert words.tokens(range(4, words.vocab_size)) == ["b", "a", "c", "d"]
    assert words.encode("c a x") == [6, 5, UNK]
    assert words.decode([6, 5, UNK]) == "c a ⁇"
    assert words.name == "words (8)"
    assert Words.train(["c a b d", "b a b"]).labels == words.labels
    assert Words.train(["b a b", "c a b"], min_count=2).vocab_size == 6
    assert Words.train(["b a b", "c a b"], vocab_size=5).labels[N_SPECIALS:] == ["b"]
    assert len(Words.train(["b", "a" * 401, "c" * 400]).labels) == N_SPECIALS + 2
    with pytest.raises(ValueError, match="is 4; give 5 or more"):
        Words.train(["a"], vocab_size=4)
    with pytest.raises(ValueError, match="no word occurs 2 times"):
        Words.train(["a b"], min_count=2)
    sentence = "Der Hund, der schläft; läuft: wer? Er! Ja."
    words = Words.train([sentence])
    assert words.decode(words.encode(sentence)) == sentence
    assert words.n_bytes(words.encode("schläft")) == 8  # not characters


def test_merges_by_hand() -> None:
    bpe = BPE.train(["ab", "ab", "ab", "abc", "abc", "cd"], 4 + 256 + 10)
    assert bpe.name == "BPE (262)"
    assert bpe.tokens([260, 261]) == ["ab", "abc"]
    assert bpe.tokens(bpe.encode("abcd abc")) == ["abc", "d", "▁", "abc"]
    assert BPE.train(LINES, 260).vocab_size == 260
    with pytest.raises(ValueError, match="is 259; give 260 or more"):
        BPE.train(LINES, 259)


def test_tiktoken_merges_as_trained_and_as_saved(tmp_path: Path) -> None:
    bpe, trained = BPE.train(TEXT, 600), tokenizers.train_merges(iter(TEXT), 596)
    for line in [*TEXT, *LINES, "\u00a0!\u202f? \x85\u2028 1234 \r\n\n  x  "]:
        assert bpe.encode(line) == [N_SPECIALS + i for i in trained.encode(line).ids]
    bpe.save(tmp_path / "vocabulary.json")
    saved = json.loads((tmp_path / "vocabulary.json").read_text())
    ranks = {base64.b64decode(piece): rank for rank, piece in enumerate(saved["ranks"])}
    own = tiktoken.Encoding("own", pat_str=saved["split"], mergeable_ranks=ranks, special_tokens={})
    assert own.n_vocab == bpe.vocab_size - N_SPECIALS
    for written in ["\n".join(TEXT), *LINES, *NAMES]:
        assert bpe.encode(written) == [N_SPECIALS + rank for rank in own.encode_ordinary(written)]


def test_each_name_makes_its_tokenizer() -> None:
    made_by_kind = {kind: tokenizers.make(kind, iter(LINES), 300) for kind in TOKENIZERS}
    types = [BPE, Words, Characters, Bytes]
    assert [*map(type, made_by_kind.values())] == types
    for kind, tokenizer in made_by_kind.items():
        assert all(i > UNK for i in tokenizer.encode(" ".join(LINES))), kind
        assert tokenizer.vocab_size <= 300
    assert tokenizers.make("words", ["b a b c a"], 5).encode("a b c") == [4, UNK, UNK]
    once = tokenizers.make("words", ["b a b c a"], 300)
    assert once.encode("a b c") == [4, 5, UNK]  # a word that comes once is unknown
    given = ("bpe", 300), ("words", None), ("bytes", None)
    assert [tokenizers.resolve_vocab_size(*each, 4_000) for each in given] == [300, 4_000, 4_000]
    with pytest.raises(ValueError, match=r"bytes:300: only .*bpe, words"):
        tokenizers.resolve_vocab_size("bytes", 300, 4_000)


@pytest.mark.parametrize("kind", ["bpe", "words"])
def test_training_reads_the_first_bytes_alone(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizers, "MAX_TRAINING_BYTES", 10_000)
    first = [" aé"] * 2_000
    trained = tokenizers.make(kind, itertools.chain(first, itertools.repeat(" xy")), 300)
    assert trained.decode(trained.encode("aé")) == "aé"
    assert {"▁xy", "xy"} & {*trained.labels}
    for n_bytes, is_read in ((8_000, False), (8_006, True)):  # 2,000 times four bytes
        monkeypatch.setattr(tokenizers, "MAX_TRAINING_BYTES", n_bytes)
        labels = tokenizers.make(kind, [*first, " xy", " xy"], 300).labels
        assert bool({"xy", "▁xy"} & {*labels}) == is_read


@each
def test_saved_and_loaded(tokenizer: tokenizers.Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "vocabulary.json")
    (tmp_path / "tokenizer.json").write_text("{}")  # of another library
    again = tokenizers.load(tmp_path / "vocabulary.json")
    (tmp_path / "vocabulary.json").rename(tmp_path / "tokenizer.json")  # as earlier versions did
    assert tokenizers.load(tmp_path / "vocabulary.json").fields == again.fields
    assert (type(again), again.name) == (type(tokenizer), tokenizer.name)
    assert again.labels == tokenizer.labels
    assert [*map(again.encode, LINES)] == [*map(tokenizer.encode, LINES)]


def bpe_file(*ranks: object, split: str = tokenizers.SPLIT) -> str:
    return json.dumps({"kind": "bpe", "split": split, "ranks": ranks})


BYTES = [base64.b64encode(bytes([value])).decode() for value in range(256)]


@pytest.mark.parametrize(("written", "fault"), [
    ("[" * 10**5, "recursion"), ("{", "Expecting"), ("[]", "kind"), ('{"kind": "unigram"}', "kind"),
    ('{"kind": "words", "words": "ab"}', "fields"),
    ('{"kind": "words", "words": ["a", "a"]}', "words, each once"),
    ('{"kind": "words", "words": ["\\ud800"]}', "surrogates"),
    (bpe_file("YQ"), "padding"),
    (bpe_file("YQ=="), "all 256 bytes"), (bpe_file(*BYTES, "YQ=="), "every piece once"),
    (bpe_file(*BYTES, split=r"(\w+)*x"), "pattern"),
], ids=lambda value: value[:40])  # fmt: skip
def test_a_malformed_file_is_refused(written: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.json"
    path.write_text(written)
    with pytest.raises(ValueError, match=rf"vocabulary\.json is not a tokenizer: .*{fault}"):
        tokenizers.load(path)


def test_characters_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    characters = Characters.train(["bé", "ab\n"])
    assert characters.name == "characters (8)"
    assert characters.tokens(range(4, 8)) == [r"\n", "a", "b", "é"]
    assert characters.encode("éxa") == [7, UNK, 5]
    assert characters.decode([7, UNK, 5]) == "é⁇a"
    monkeypatch.setattr(tokenizers, "MAX_TRAINING_BYTES", 10)
    lines = ["abcabc", "ab", "cacacaz"]
    assert Characters.train(lines).labels[N_SPECIALS:] == ["a", "b", "c", "z"]
