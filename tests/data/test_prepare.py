"""From a corpus to tokens on disk: parallel text, and running text."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from toys import read

from seqmodels.data import SPLITS, corpora, prepare, tokenizers
from seqmodels.data.prepare import PrepareConfig, summarize
from seqmodels.data.text import Corpus, Pair, open_pairs, open_text
from seqmodels.inference import TrainedModel

pytestmark = pytest.mark.usefixtures("cached")


TRAIN = [
    ("Ein Hund.", "A dog."), ("\u200b", "No."), ("Eine Katze.", "A cat."), ("Ein Hund.", "A dog."),
    ("Ein Hund.", "One dog."), ("ein hund.", "a dog."), ("Ja.", "Yes " * 10), ("Nein.", "N" * 199),
    ("Oh.", "\t"), ("Alt.", "Old."), ("Alt.", "Elderly."), ("Neu.", "Newer."),
    ("lang", "long " * 300),
]  # fmt: skip
VALID = [("Neu.", "New."), ("Neu.", "New.")]
TEST = [("Alt.", "Aged."), ("Jung.", "Young."), ("", "")]


def corpus_of(key: str = "key", **splits: list[tuple[str, str]]) -> Corpus:
    pairs = {"train": TRAIN, "valid": VALID, "test": TEST} | splits
    readers = {split: partial(map, Pair._make, some) for split, some in pairs.items()}
    return Corpus("tiny", readers, key, [], ("de", "en"))


BYTES = PrepareConfig(tokenizer="bytes")
WORDS = PrepareConfig(tokenizer="words")
LOWER = replace(BYTES, is_lowercase=True)
UNENDED = {"is_lowercase": True, "has_source_eos": False}


def prepare_quietly(opened: Any, config: PrepareConfig = BYTES, **changes: Any):
    return prepare.prepare(opened, replace(config, **changes))


def test_text_is_brought_to_normal_form_c() -> None:
    splits = {"train": [("e\u0301t", "o"), ("ét", "o")], "valid": [("a", "b")]}
    opened = corpus_of("nfd", **splits, test=[("ét", "u\u0308")])
    ready = prepare_quietly(opened)
    assert ready.test_texts == [("ét", "ü")]
    assert ready.train[0].src == ready.train[1].src
    assert ready.data["n_test_sources_in_train"] == 1
    run = Mock(tokenizer=ready.tokenizer, record=Mock(data=ready.data))
    composed, apart = ready.tokenizer.encode("Ét"), ready.tokenizer.encode("E\u0301t")
    assert TrainedModel.encode(run, "E\u0301t") == composed != apart


def test_pairs_are_counted() -> None:
    """A source whose pair is too long for train, but not for test, has been in train."""
    long, test = "j" * 200, [*TEST, ("Oh.", "Oh!")]  # a blank target: it was not in train
    opened = corpus_of("counted", train=[*TRAIN, *2 * [(long, "x")]], test=[*test, (long, "y")])
    data = (ready := prepare_quietly(opened)).data
    counts = {k: n for k, n in data.items() if n and k[:2] == "n_" and "tokens" not in k}
    assert counts == {
        "n_train": 10, "n_blank_train": 2, "n_too_long_train": 3, "n_valid": 2, "n_test": 4,
        "n_blank_test": 1, "n_test_sources_in_train": 2,
    }  # fmt: skip
    assert data["n_tokens_valid"] == 2 * (5 + 5)  # an EOS on each side
    assert (data["max_tokens"], data["max_tokens_test"], ready.most_words) == (200, 400, 2)
    assert summarize(data).split("\n") == [
        "tiny de→en: 10 train, 2 valid, 4 test pairs; bytes",
        "  train: left out: 2 blank, 3 longer than 200 tokens on a side",
        "  valid: left out: 0 blank, 0 longer than 200 tokens on a side",
        "  test: left out: 1 blank, 0 longer than 400 tokens on a side",
        "  2 test sources are also in train",
    ]


def test_both_sides_are_lower_cased_and_make_the_vocabulary() -> None:
    lower, words = prepare_quietly(corpus_of(), LOWER), prepare_quietly(corpus_of(), WORDS)
    assert lower.test_texts == [("alt.", "aged."), ("jung.", "young.")]
    assert (lower.data["name"], lower.data["case"]) == ("tiny de→en, lower-cased", "lower")
    assert tokenizers.UNK not in words.tokenizer.encode("Ein Hund. A dog.")
    assert words.data["n_unknown_test"] == 3  # but for "Alt", all words come once at most


def test_checksum_is_of_the_content() -> None:
    forth = prepare_quietly(corpus_of()).data["sha256"]
    splits = zip(SPLITS, (TRAIN, VALID, TEST), strict=True)
    back = corpus_of("back", **{split: [(b, a) for a, b in pairs] for split, pairs in splits})
    assert prepare_quietly(back._replace(languages=("en", "de"))).data["sha256"] == forth
    assert prepare_quietly(corpus_of(), WORDS).data["sha256"] == forth
    assert prepare_quietly(corpus_of("other", test=TEST[:2])).data["sha256"] != forth


@pytest.mark.parametrize(("split", "most"), [("train", 200), ("valid", 200), ("test", 400)])
@pytest.mark.parametrize("config", [BYTES, WORDS])
def test_why_a_split_is_empty(split: str, most: int, config: PrepareConfig) -> None:
    empty = corpus_of(**{split: [("", "x"), (" ", " "), ("y " * 900, "y " * 900)]})
    with pytest.raises(ValueError, match=f"no pair of {split} is left: 2 .* 1 .* {most} tokens"):
        prepare_quietly(empty, config)
    assert [*corpora.cache_dir().glob("*.part-*")] == []


@pytest.mark.parametrize("pairs", [[("a", "b")], [("A ", "b"), ("a", "c")] * 40, [("", " ")] * 9])
def test_too_little_to_split(pairs: list[tuple[str, str]]) -> None:
    whole = corpus_of(train=pairs)
    alone = whole._replace(splits={"train": whole.splits["train"]})
    with pytest.raises(ValueError, match=r"is left: [09] have .* with other sources"):
        prepare_quietly(alone)
    assert [*corpora.cache_dir().glob("*.part-*")] == []


def test_another_corpus_or_config_is_prepared_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    first = prepare_quietly(corpus_of())
    monkeypatch.setattr(prepare, "build_pairs", lambda *_: pytest.fail("prepared again"))
    again = prepare_quietly(corpus_of())
    assert list(again.train) == list(first.train)
    assert (again.data, again.test_texts) == (first.data, first.test_texts)
    for opened, config in (
        (corpus_of("new"), BYTES), (corpus_of(), LOWER),
        (corpus_of(), WORDS),
        (corpus_of(), replace(BYTES, vocab_size=9)),
        (corpus_of(), replace(BYTES, has_source_eos=False)),
        (corpus_of()._replace(languages=("nl", "en")), BYTES),
    ):  # fmt: skip
        with pytest.raises(pytest.fail.Exception):
            prepare_quietly(opened, config)


@pytest.mark.parametrize("kind", ["bytes", "words"])
@pytest.mark.parametrize("text", ["\n \n" * 500, "x", "abc"])
def test_an_empty_split(kind: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(text)
    with pytest.raises(ValueError, match=r"^x\.txt has no text in (train|valid)"):
        prepare_quietly(open_text([str(tmp_path / "x.txt")]), tokenizer=kind)


def test_tokens_are_the_whole_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{i} spoke, and went.\n" for i in range(400)))
    opened = open_text([str(path)])
    ready = prepare_quietly(opened, tokenizer="bpe", vocab_size=600)
    for split in SPLITS:
        ids = getattr(ready, split)
        assert ready.tokenizer.decode(ids.slice(0, len(ids))) == read(opened, split)
        assert len(ids) == ready.data[f"n_tokens_{split}"]
    one, two = (prepare_quietly(opened, tokenizer=k).train.ids for k in ("characters", "bpe"))
    assert (one.dtype.itemsize, two.dtype.itemsize) == (1, 2)
    assert ready.data["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_unknown_tokens_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{'common' if i % 4 else f'word{i}'} " for i in range(4_000)))
    ready = prepare_quietly(open_text([str(path)]), WORDS)
    assert ready.data["n_unknown_test"] == 50
    assert ready.test.slice(0, 9_999).count(tokenizers.UNK) == 50
    assert "test: 50 tokens are unknown, 25.13%" in summarize(ready.data)
    path.write_text("ab" * 950 + "cd" * 50)
    ready = prepare_quietly(open_text([str(path)]), tokenizer="characters")
    assert ready.tokenizer.vocab_size == 4 + 2
    assert ready.data["n_unknown_test"] == ready.data["n_tokens_test"]


def test_another_tokenizer_in_the_same_file_is_prepared_anew(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    for characters in ("ab ", "ac "):  # files of one size
        own = tokenizers.Characters(characters)
        own.save(path)
        ready = prepare_quietly(corpus_of(), tokenizer=str(path))
        assert ready.tokenizer.labels == own.labels


def test_what_a_killed_process_left_is_made_anew() -> None:
    (folder,) = {prepare_quietly(corpus_of()).train.folder for _ in range(2)}
    (folder / "made.json").unlink()
    (folder / "train.src").write_bytes(b"half")
    again = prepare_quietly(corpus_of()).train
    assert (again.folder, len(again)) == (folder, 10)


@pytest.mark.parametrize(("name", "source", "config", "n_tokens"), [
    pytest.param("bible", "de", {}, (2_032_772, 48_138, 56_930), marks=pytest.mark.slow),
    pytest.param("multi30k", "de", UNENDED, (941_079, 33_505, 31_666), marks=pytest.mark.slow),
    ("multi30k", "en", UNENDED | {"vocab_size": 10_000}, (837_895, 30_004, 28_455)),
    ("shakespeare", None, {"tokenizer": "characters"}, (1_003_854, 111_540, 111_540)),
    ("war-and-peace", None, {"vocab_size": 2_000}, (896_125, 49_294, 51_000)),
])  # fmt: skip
def test_tokens_are_those_of_the_records(
    name: str, source: str, config: dict[str, Any], n_tokens: Sequence[int], data: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("SEQMODELS_DATA", str(data))
    opened = open_pairs([name], (source, None)) if source else open_text([name])
    ready = prepare_quietly(opened, PrepareConfig(**config))
    assert corpora.checksum_warning(name, ready.data["sha256"]) == ""
    assert [ready.data[f"n_tokens_{split}"] for split in SPLITS] == [*n_tokens]
