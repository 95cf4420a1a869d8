"""Tokenizers: what goes in comes out, on this machine and on the next."""

import base64
import hashlib
import itertools
import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st
from tiktoken import registry
from tiktoken.load import load_tiktoken_bpe
from tiktoken_ext import openai_public

from seqmodels.data import tokenizers
from seqmodels.data.tokenizers import (
    BLOCK,
    BOUNDARY,
    BPE,
    MAX_PIECE_BYTES,
    N_SPECIALS,
    SPLIT,
    TIKTOKEN_ENCODINGS,
    TOKENIZERS,
    Bytes,
    Characters,
    Published,
    Spaces,
    Tokenizer,
    Words,
    blocks,
    load,
    make,
    train_merges,
)
from seqmodels.interface import BOS, EOS, PAD, UNK

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
NAMES = ["<pad>", "<bos>", "<eos>", "⁇", "<unk>", "<s>", "<|endoftext|>", "<|endofprompt|>"]

PIECES = [bytes([value]) for value in range(256)]
PIECES += map(
    bytes, itertools.product(" \n\r\t.,!'/1aehst<|é\u0301—漢。\u2028\u00a0".encode(), repeat=2)
)
RANKS = {piece: rank for rank, piece in enumerate(dict.fromkeys(PIECES))}


def fake(patch: pytest.MonkeyPatch, ranks: dict[bytes, int] = RANKS) -> None:
    """Have tiktoken make its published encodings from other ranks, and fetch nothing."""

    def remade(construct: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
        return lambda: construct() | {"explicit_n_vocab": None}

    theirs = openai_public.ENCODING_CONSTRUCTORS
    others = {name: remade(construct) for name, construct in theirs.items()}
    patch.setattr(registry, "ENCODING_CONSTRUCTORS", others)
    patch.setattr(registry, "ENCODINGS", {})
    for fetch in ("load_tiktoken_bpe", "data_gym_to_mergeable_bpe_ranks"):
        patch.setattr(openai_public, fetch, lambda *_, **__: ranks)


with pytest.MonkeyPatch.context() as _patch:
    fake(_patch)
    FAKES = [Published(name) for name in TIKTOKEN_ENCODINGS]
MERGED = [BPE_LINES, *FAKES]
EXACT = [Bytes(), *MERGED]
"""Every text comes back from them."""


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have published encodings at hand."""
    fake(monkeypatch)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Have no network, whatever this machine has; return the folder that tiktoken looks in."""
    monkeypatch.setattr(registry, "ENCODINGS", {})
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def bible() -> list[str]:
    """Return real verses in German and English."""
    if not DATA.is_dir():
        pytest.skip(f"no real text at {DATA}")
    verses = [(DATA / "bible" / f"valid.{code}").read_text("utf-8") for code in ("de", "en")]
    return "".join(verses).split("\n")


def all_kinds() -> list[Tokenizer]:
    """Return one tokenizer of each kind."""
    return [Words.train(LINES), Characters.train(LINES), *EXACT]


each_kind = pytest.mark.parametrize("tokenizer", all_kinds(), ids=lambda t: t.name)
each_exact = pytest.mark.parametrize("tokenizer", EXACT, ids=lambda t: t.name)


@each_exact
@settings(max_examples=200, deadline=None)
@given(written=ANY_TEXT)
def test_any_text_comes_back(tokenizer: Tokenizer, written: str) -> None:
    """Keep out a split pattern that loses characters and a byte map with a hole."""
    ids = tokenizer.encode(written)
    assert tokenizer.decode(ids) == written
    assert tokenizer.n_bytes(ids) == len(written.encode())
    assert all(UNK < i < tokenizer.vocab_size for i in ids)


@settings(max_examples=200, deadline=None)
@given(written=ANY_TEXT.filter(bool))
def test_known_characters_come_back(written: str) -> None:
    """Keep out a vocabulary that leaves out a character, or counts it as one byte."""
    characters = Characters.train([written])
    ids = characters.encode(written)
    assert characters.decode(ids) == written
    assert characters.n_bytes(ids) == len(written.encode())
    assert all(UNK < i < characters.vocab_size for i in ids)
    assert characters.vocab_size == N_SPECIALS + len(set(written))


@each_exact
def test_long_runs_of_one_character(tokenizer: Tokenizer) -> None:
    """Keep out a splitter that overflows its stack or takes quadratic time on a long run."""
    for char in " \na!1\u00a0":
        assert tokenizer.decode(tokenizer.encode(char * 50_000)) == char * 50_000
    assert tokenizer.decode(tokenizer.encode(" " * 1_100_000)) == " " * 1_100_000


@pytest.mark.parametrize("tokenizer", MERGED, ids=lambda t: t.name)
@settings(max_examples=300, deadline=None)
@given(written=st.text(" \n\r\t\u00a0\u2028a.1é\u0301—漢。,'/", max_size=30))
def test_a_block_ends_where_the_pattern_cuts(tokenizer: Tokenizer, written: str) -> None:
    """Keep out text whose tokens change where it is cut beforehand."""
    for found in BOUNDARY.finditer(written):
        left, right = written[: found.start()], written[found.start() :]
        assert tokenizer.encode(left) + tokenizer.encode(right) == tokenizer.encode(written)


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
        assert max(map(len, bpe.labels)) <= MAX_PIECE_BYTES
        assert bpe.decode(bpe.encode(written)) == written


@each_exact
def test_half_a_surrogate_pair_is_an_error(tokenizer: Tokenizer) -> None:
    """Keep out text that is replaced without a word."""
    with pytest.raises(ValueError, match="surrogates not allowed"):
        tokenizer.encode("\ud800")
    for train in (Words.train, Characters.train, lambda lines: BPE.train(lines, 300)):
        with pytest.raises(ValueError, match="surrogates not allowed"):
            train(["\ud800"])


@each_kind
@settings(max_examples=100, deadline=None)
@given(parts=st.lists(st.sampled_from(NAMES) | ANY_TEXT))
def test_text_cannot_write_a_special(tokenizer: Tokenizer, parts: list[str]) -> None:
    """Keep out sentences that end early because they contain the name of a special."""
    written = "".join(parts)
    ids = tokenizer.encode(written)
    assert not {PAD, BOS, EOS} & set(ids)
    if tokenizer in EXACT:
        assert UNK not in ids
        assert tokenizer.decode(ids) == written


@each_kind
def test_specials_when_decoded(tokenizer: Tokenizer) -> None:
    """Keep out padding in translations that are scored, and an unknown word that vanishes."""
    ids = tokenizer.encode("The dog")
    assert tokenizer.decode([BOS, *ids, EOS, PAD, PAD]) == "The dog"
    assert tokenizer.decode([UNK]) == "⁇"
    assert tokenizer.tokens([PAD, BOS, EOS, UNK]) == ["<pad>", "<bos>", "<eos>", "⁇"]


@each_kind
@pytest.mark.usefixtures("published")
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


def published_file(name: object) -> str:
    """Return a file that names an encoding, with a checksum that none has."""
    return json.dumps({"kind": "published", "name": name, "sha256": "0" * 64})


BYTES = [base64.b64encode(bytes([value])).decode() for value in range(256)]


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ("{", "Expecting property name"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "unknown kind"),
        ('{"kind": ["bpe"]}', "unknown kind"),
        ('{"kind": "sentencepiece"}', "unknown kind"),
        ('{"kind": "words"}', "unknown kind, or wrong fields"),
        ('{"kind": "words", "words": "ab"}', "unknown kind, or wrong fields"),
        ('{"kind": "words", "words": ["a", 1]}', "unknown kind, or wrong fields"),
        ('{"kind": "words", "words": ["a", "a"]}', "contain words, each once"),
        ('{"kind": "words", "words": ["a b"]}', "contain words, each once"),
        ('{"kind": "words", "words": [""]}', "contain words, each once"),
        ('{"kind": "words", "words": ["\\ud800"]}', "surrogates not allowed"),
        (json.dumps({"kind": "words", "words": ["a" * 401]}), "1 to 400 bytes"),
        ('{"kind": "characters"}', "unknown kind, or wrong fields"),
        ('{"kind": "characters", "characters": ["a"]}', "unknown kind, or wrong fields"),
        ('{"kind": "characters", "characters": "aa"}', "characters, each once"),
        ('{"kind": "characters", "characters": "ba"}', "must be sorted"),
        ('{"kind": "characters", "characters": "a\\ud800"}', "surrogates not allowed"),
        ('{"kind": "published", "name": "gpt2"}', "unknown kind, or wrong fields"),
        (published_file(["gpt2"]), "unknown kind, or wrong fields"),
        (published_file("gpt2"), "sha256 is not that of the ranks of gpt2"),
        (published_file("cl100k_base"), "'cl100k_base' is not a published encoding"),
        (published_file("../gpt2"), "'../gpt2' is not a published encoding"),
        (
            published_file("https://a.b/c"),
            "a published encoding; choose from gpt2, o200k_base",
        ),
        (bpe_file("YQ"), "padding"),
        (bpe_file("é"), "ASCII"),
        (bpe_file(1), "bytes-like"),
        (bpe_file("YQ=="), "all 256 bytes"),
        (bpe_file("YQ==", "YQ=="), "every piece once"),
        (bpe_file(*BYTES, ""), "1 to 400 bytes"),
        (bpe_file(*BYTES, "QUFB" * 134), "1 to 400 bytes"),
        (bpe_file(*BYTES, split=r"(\w+)*x"), "not the pattern of this version"),
        (" " * (2**24 + 1), "16,777,217 bytes; at most 16,777,216 are read"),
    ],
    ids=lambda value: value[:40],
)
@pytest.mark.usefixtures("published")
def test_malformed_file(written: str, fault: str, tmp_path: Path) -> None:
    """Keep out a traceback, a hang or a full memory, whoever made the file and whatever for."""
    path = tmp_path / "tokenizer.json"
    path.write_text(written)
    with pytest.raises(ValueError, match=rf"tokenizer\.json is not a tokenizer: .*{fault}"):
        load(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Keep out an OSError or a decoding error without the file's name."""
    with pytest.raises(ValueError, match=r"none\.json cannot be read: No such file"):
        load(tmp_path / "none.json")
    (tmp_path / "latin1.json").write_bytes(b'{"kind": "\xff"}')
    with pytest.raises(ValueError, match=r"latin1\.json is not a tokenizer: .*0xff"):
        load(tmp_path / "latin1.json")


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
    for vocab_size in (259, 2**62):
        with pytest.raises(ValueError, match=rf"is {vocab_size}; give 260 to 1,048,580"):
            BPE.train(LINES, vocab_size)


def test_training_is_deterministic(bible: list[str]) -> None:
    """Keep out a trainer whose ties are broken by hashing or by the number of threads."""
    once, again = BPE.train(bible, 1000), BPE.train(iter(bible), 1000)
    assert once.labels == again.labels
    assert once.name == "BPE (1,000)"


def test_tiktoken_merges_as_trained(bible: list[str]) -> None:
    """Keep out ranks, or a reading of the pattern, in which the two libraries differ."""
    bpe, trained = BPE.train(bible, 2000), train_merges(bible, 1996)
    for line in [*bible[:400], *bible[-400:], *LINES, "\u00a0!\u202f? \x85\u2028 1234 \r\n\n  x  "]:
        expected = [N_SPECIALS + i for i in trained.encode(line).ids]
        assert bpe.encode(line) == expected
        assert bpe.decode(expected) == line


# ---------------------------------------------------------------------------------- Published


@pytest.mark.parametrize("name", TIKTOKEN_ENCODINGS)
@pytest.mark.usefixtures("published")
def test_ids_are_those_of_tiktoken(name: str, bible: list[str]) -> None:
    """Keep out ids that are shifted by another number, and cuts that tiktoken does not make."""
    published, theirs = Published(name), tiktoken.get_encoding(name)
    assert published.vocab_size == N_SPECIALS + len(RANKS)
    assert published.name == f"{name} ({published.vocab_size:,})"
    for written in ("\n".join(bible), "\n\n".join(LINES * 50), "a!\n//b\n" * 2_000, *NAMES):
        expected = [N_SPECIALS + i for i in theirs.encode_ordinary(written)]
        assert published.encode(written) == expected


@pytest.mark.usefixtures("published")
def test_a_saved_name_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep out other ranks under the same name, and a copy of the published ones."""
    path = tmp_path / "tokenizer.json"
    Published("gpt2").save(path)
    assert path.stat().st_size < 200
    assert load(path).labels == FAKES[0].labels
    moved = dict(zip(RANKS, [*range(1, len(RANKS)), 0], strict=True))
    fake(monkeypatch, moved)
    with pytest.raises(ValueError, match=r"tokenizer\.json .*: its sha256 is not that .* of gpt2"):
        load(path)


def test_nothing_else_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep out a file that has this machine ask for whatever it names."""
    monkeypatch.setattr(tiktoken, "get_encoding", lambda _: pytest.fail("asked"))
    path = tmp_path / "tokenizer.json"
    for name in ("cl100k_base", "GPT2", "gpt2 ", "", "https://a.b/c", "../../etc/passwd"):
        path.write_text(published_file(name))
        with pytest.raises(
            ValueError, match=r"tokenizer\.json is not a tokenizer: .* choose from gpt2"
        ):
            load(path)


O200K = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"


def test_encodings_come_from_a_folder(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep out an encoding that needs the network where its file lies at hand."""
    monkeypatch.setattr("tiktoken.load.check_hash", lambda *_: True)  # that of other ranks
    lines = (f"{base64.b64encode(piece).decode()} {rank}\n" for piece, rank in RANKS.items())
    (offline / hashlib.sha1(O200K.encode()).hexdigest()).write_text("".join(lines))
    assert make("o200k_base", [], 0).labels == FAKES[1].labels


@pytest.mark.parametrize("state", ["nothing", "damaged", "folder"])
@pytest.mark.parametrize("name", TIKTOKEN_ENCODINGS)
def test_an_encoding_cannot_be_had(name: str, state: str, offline: Path) -> None:
    """Keep out a traceback, or a wait, and an error that does not say what to do offline."""
    urls = (O200K, "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/vocab.bpe")
    for url in urls:
        path = offline / hashlib.sha1(url.encode()).hexdigest()
        if state == "damaged":
            path.write_text("YQ== 0\n")
        elif state == "folder":
            path.mkdir()
    why = "Is a directory" if state == "folder" else "ProxyError"
    fault = rf"{name} is not available \({why}\); .*TIKTOKEN_CACHE_DIR.* or use --tokenizer bpe"
    with pytest.raises(ValueError, match=rf"^the encoding {fault}"):
        make(name, [], 0)
    saved = offline.parent / "tokenizer.json"
    saved.write_text(published_file(name))
    with pytest.raises(ValueError, match=rf"tokenizer\.json is not a tokenizer: .*{fault}"):
        load(saved)


def test_what_comes_is_something_else(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep out the page of a hotel's network, taken for an encoding."""

    class Page:
        content = b"<html>"

        def raise_for_status(self) -> None:
            pass

    monkeypatch.setattr("requests.get", lambda _: Page())
    for name in TIKTOKEN_ENCODINGS:
        with pytest.raises(ValueError, match=rf"{name} is not available \(Hash mismatch"):
            Published(name)


# --------------------------------------------------------------------------- Made and written


@pytest.mark.usefixtures("published")
def test_every_kind_is_made() -> None:
    """Keep out a name on the command line that makes another one, and lines that are read twice."""
    made = {kind: make(kind, iter(LINES), 300) for kind in TOKENIZERS}
    for kind, tokenizer in made.items():
        known = tokenizer.encode(" ".join(LINES))
        assert all(i > UNK for i in known), kind
        assert tokenizer.vocab_size <= 300 or kind in TIKTOKEN_ENCODINGS
    assert [*map(type, made.values())] == [
        BPE, Words, Spaces, Characters, Bytes, Published, Published,
    ]  # fmt: skip
    assert make("words", ["b a b c a"], 5).encode("a b c") == [4, UNK, UNK]
    assert make("words", ["b a b c a"], 300).encode("a b c") == [4, 5, UNK]
    with pytest.raises(ValueError, match=r"'word' is not a tokenizer; .* bpe, words, .*gpt2"):
        make("word", LINES, 300)


def test_characters_are_those_of_all_of_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a limit for characters: one that comes late would be unknown."""
    monkeypatch.setattr(tokenizers, "MAX_TRAINING_BYTES", 10)
    lines = ["abcabc", "ab", "cacacaz"]
    assert tokenizers.Characters.train(lines).labels[N_SPECIALS:] == ["a", "b", "c", "z"]
    assert "cacacaz" not in tokenizers.Words.train(lines).labels


@pytest.mark.parametrize("kind", ["bpe", "words"])
def test_a_stream_without_end(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep out training that holds a whole stream in memory, or drops its first lines."""
    monkeypatch.setattr(tokenizers, "MAX_TRAINING_BYTES", 10_000)
    first = [" ab"] * 2_000
    made = make(kind, itertools.chain(first, itertools.repeat(" xy")), 300)
    assert made.decode(made.encode("ab")) == "ab"
    assert "▁xy" in made.labels or "xy" in made.labels
    of_one_text = make(kind, ["".join(first) + " xy" * 100_000], 300)
    assert of_one_text.labels == made.labels
    monkeypatch.setattr(tokenizers, "MAX_TRAINING_BYTES", 6_000)
    assert not {"xy", "▁xy"} & {*make(kind, [*first, " xy", " xy"], 300).labels}


def test_tiktoken_reads_a_bpe(
    bible: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep out a file from which others get other ids."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    bpe = BPE.train(bible, 1_000)
    bpe.save(tmp_path / "tokenizer.json")
    ranks = load_tiktoken_bpe(str(tmp_path / "tokenizer.tiktoken"))
    own = tiktoken.Encoding("own", pat_str=SPLIT, mergeable_ranks=ranks, special_tokens={})
    assert own.n_vocab == bpe.vocab_size - N_SPECIALS
    for written in ["\n".join(bible), *LINES, *NAMES]:
        assert bpe.encode(written) == [N_SPECIALS + rank for rank in own.encode_ordinary(written)]


def test_ranks_of_another_tokenizer_are_removed(tmp_path: Path) -> None:
    """Keep out ranks that do not belong to the tokenizer beside them."""
    BPE_LINES.save(tmp_path / "tokenizer.json")
    assert {path.name for path in tmp_path.iterdir()} == {"tokenizer.json", "tokenizer.tiktoken"}
    Bytes().save(tmp_path / "tokenizer.json")
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer.json"]


def test_encoding_keeps_pace() -> None:
    """Keep out an encoder that takes minutes for a book: measured 10 MB/s and more, asked 0.5."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnopqrst", k=rng.randint(2, 9))) for _ in range(999)]
    lines = [" ".join(rng.choices(words, k=20)) for _ in range(2_000)]
    bpe = BPE.train(lines[:500], 1_000)
    since = time.process_time()
    n_bytes = sum(bpe.n_bytes(bpe.encode(line)) for line in lines)
    assert n_bytes / 1e6 / (time.process_time() - since) > 0.5
