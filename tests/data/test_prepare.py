"""From a corpus to tokens on disk: parallel text, and running text."""

import hashlib
import random
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from seqmodels import EOS, UNK
from seqmodels.data import SPLITS, cache, prepare, tokenizers
from seqmodels.data.batches import Example
from seqmodels.data.prepare import PrepareConfig, summarize
from seqmodels.data.running_text import TextCorpus, read_text_corpus
from seqmodels.data.splits import Pair, ParallelCorpus, uniform_hash
from seqmodels.experiments.inference import TrainedModel

pytestmark = pytest.mark.usefixtures("cached")


TRAIN = [
    ("Ein Hund.", "A dog."), (" ", "Nothing."), ("Eine Katze.", "A cat."), ("Ein Hund.", "A dog."),
    ("Ein Hund.", "One dog."), ("ein hund.", "a dog."), ("Ja.", "Yes " * 10), ("Nein.", "No " * 9),
    ("Oh.", "\t"), ("Alt.", "Old."), ("Alt.", "Elderly."), ("Neu.", "Newer."),
    ("lang " * 300, "long " * 300),
]  # fmt: skip
VALID = [("Neu.", "New."), ("Neu.", "New.")]
TEST = [("Alt.", "Aged."), ("Jung.", "Young."), ("", "")]


def corpus_of(key: str = "key", **splits: list[tuple[str, str]]) -> ParallelCorpus:
    pairs = {"train": TRAIN, "valid": VALID, "test": TEST} | splits

    def reader(split: str):
        return lambda: iter([Pair(*pair) for pair in pairs[split]])

    return ParallelCorpus("tiny", "de", "en", {s: reader(s) for s in pairs}, key)


BYTES = PrepareConfig(tokenizer="bytes")
WORDS = PrepareConfig(tokenizer="words")
CLEANED = replace(BYTES, is_cleaned=True)
LOWER = replace(BYTES, is_lowercase=True)


def prepare_quietly(opened: Any, config: PrepareConfig = BYTES) -> prepare.Prepared[Any]:
    return prepare.prepare(opened, config, lambda line: None)


def test_a_corpus_is_read_once() -> None:
    opened, n_read = corpus_of(), Counter[str]()

    def read(split: str):
        n_read[split] += 1
        return opened.splits[split]()

    prepare_quietly(opened._replace(splits={split: partial(read, split) for split in SPLITS}))
    assert n_read == dict.fromkeys(SPLITS, 1)


def test_text_is_brought_to_normal_form_c() -> None:
    splits = {"train": [("e\u0301t", "o"), ("ét", "o")], "valid": [("a", "b")]}
    opened = corpus_of("nfd", **splits, test=[("ét", "u\u0308")])
    ready = prepare_quietly(opened)
    assert ready.test_texts == [("ét", "ü")]
    assert ready.train[0].src == ready.train[1].src
    counts = {key: ready.data[f"n_{key}"] for key in ("not_nfc", "duplicate_train")}
    assert counts == {"not_nfc": 2, "duplicate_train": 1}
    summary = summarize(ready.data, False)
    assert "2 lines were not in Unicode" in summary
    assert "train: left out: 0 blank, 0 longer than 200 tokens on a side; kept: 1 rep" in summary
    assert ready.data["n_test_sources_in_train"] == 1
    assert uniform_hash("E\u0301t") == uniform_hash("ét")
    assert TrainedModel.normalize(Mock(data=ready.data), "E\u0301t") == "Ét"
    assert TrainedModel.normalize(Mock(data={}), "E\u0301t") == "E\u0301t"


def test_checksum_is_of_the_content() -> None:
    forth = prepare_quietly(corpus_of()).data["sha256"]
    splits = zip(SPLITS, (TRAIN, VALID, TEST), strict=True)
    back = corpus_of("back", **{split: [(b, a) for a, b in pairs] for split, pairs in splits})
    assert prepare_quietly(back._replace(src_lang="en", tgt_lang="de")).data["sha256"] == forth
    assert prepare_quietly(corpus_of(), replace(CLEANED, tokenizer="words")).data["sha256"] == forth
    assert prepare_quietly(corpus_of("other", test=TEST[:2])).data["sha256"] != forth


@pytest.mark.parametrize(("split", "most"), [("train", 200), ("valid", 200), ("test", 400)])
@pytest.mark.parametrize("config", [BYTES, WORDS])
def test_why_a_split_is_empty(split: str, most: int, config: PrepareConfig) -> None:
    empty = corpus_of(**{split: [("", "x"), (" ", " "), ("y " * 900, "y " * 900)]})
    with pytest.raises(ValueError, match=f"no pair of {split} is left: 2 .* 1 .* {most} tokens"):
        prepare_quietly(empty, config)
    assert [*cache.cache_dir().glob("*.part-*")] == []


@pytest.mark.parametrize("pairs", [[("a", "b")], [("A ", "b"), ("a", "c")] * 40, [("", " ")] * 9])
def test_too_little_to_split(pairs: list[tuple[str, str]]) -> None:
    whole = corpus_of(train=pairs)
    alone = whole._replace(splits={"train": whole.splits["train"]})
    with pytest.raises(ValueError, match=r"is left: [09] have .* with other sources"):
        prepare_quietly(alone, WORDS)


def test_another_corpus_or_config_is_prepared_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    first = prepare_quietly(corpus_of())
    monkeypatch.setattr(prepare, "build_pairs", lambda *_: pytest.fail("prepared again"))
    again = prepare_quietly(corpus_of())
    assert list(again.train) == list(first.train)
    assert (again.data, again.test_texts) == (first.data, first.test_texts)
    for opened, config in (
        (corpus_of("new"), BYTES), (corpus_of(), LOWER), (corpus_of(), CLEANED),
        (corpus_of(), replace(BYTES, max_tokens=9)), (corpus_of(), WORDS),
        (corpus_of(), replace(BYTES, vocab_size=9)),
        (corpus_of(), replace(BYTES, has_source_eos=False)),
        (corpus_of()._replace(src_lang="nl"), BYTES), (corpus_of()._replace(tgt_lang="nl"), BYTES),
    ):  # fmt: skip
        with pytest.raises(pytest.fail.Exception):
            prepare_quietly(opened, config)


def draw_pairs(n: int = 1_000) -> list[tuple[str, str]]:
    """Draw pairs with all that is left out of a corpus, and with lines of all kinds."""
    rng, pairs = random.Random(1), []
    for i in range(n):
        words = rng.choices(["eins", "zwei", "DREI", "größe", "x\u2028y"], k=rng.randint(1, 9))
        src = " ".join(words)
        pairs.append((f"{src} {i % 300}", "" if i % 50 == 0 else f"{src[::-1]} {i % 300} " * 2))
        pairs += [*pairs[-9:-8], (pairs[-9][0], "noch einer")] if i % 20 == 0 and i else []
        pairs += [("lang " * 90, "long")] if i % 100 == 0 else []
        pairs += [(f"{i}", "y " * 9), ("x " * 10, " "), ("x" * rng.randint(28, 62), "y")]
    return pairs


@pytest.mark.parametrize("config", [
    PrepareConfig(tokenizer="bytes", max_tokens=60),
    PrepareConfig(
        tokenizer="bytes", is_cleaned=True, is_lowercase=True, has_source_eos=False, max_tokens=80
    ),
    PrepareConfig(tokenizer="characters", is_cleaned=True, max_tokens=61),
])  # fmt: skip
def test_pairs_are_those_of_a_naive_loop(config: PrepareConfig) -> None:
    pairs = draw_pairs()
    opened = corpus_of(train=pairs[400:], valid=pairs[200:400], test=pairs[:200])
    ready, seen, n = prepare_quietly(opened, config), set(), Counter()
    encode, end = ready.tokenizer.encode, [EOS] * config.has_source_eos
    pairs = [*opened.pairs()]
    if config.is_lowercase:
        pairs = [(split, Pair(p.src.lower(), p.tgt.lower())) for split, p in pairs]
    held_out = {pair.src for split, pair in pairs if split != "train" and pair.tgt.strip()}
    left: dict[str, list[Pair]] = {split: [] for split in SPLITS}
    for split, pair in pairs:
        fewer, more = sorted((len(pair.src.split()), len(pair.tgt.split())))
        is_faulty = {
            "blank": fewer == 0,
            "duplicate": fewer > 0 and (split, pair) in seen,
            "unequal": fewer > 0 and more > 9 * fewer,
            "held_out": fewer > 0 and split == "train" and pair.src in held_out,
        }
        seen.add((split, pair))
        n.update(f"n_{fault}_{split}" for fault in is_faulty if is_faulty[fault])
        is_cleaned = config.is_cleaned and split == "train"
        if any(is_faulty.values()) if is_cleaned else is_faulty["blank"]:
            continue
        limit = config.max_tokens * (2 if split == "test" else 1)
        if max(len(encode(pair.src)) + len(end), len(encode(pair.tgt)) + 1) > limit:
            n[f"n_too_long_{split}"] += 1
        else:
            left[split].append(pair)
    for split in SPLITS:
        expected = [Example([*encode(p.src), *end], [*encode(p.tgt), EOS]) for p in left[split]]
        assert [*getattr(ready, split)] == expected
        n[f"n_{split}"] = len(expected)
        n[f"n_unknown_{split}"] = sum([*e.src, *e.tgt].count(UNK) for e in expected)
        n[f"n_tokens_{split}"] = sum(len(e.src) + len(e.tgt) for e in expected)
    sources = {pair.src for split, pair in pairs if split == "train" and pair.tgt.strip()}
    n["n_test_sources_in_train"] = sum(pair.src in sources for pair in left["test"])
    assert +n == +Counter({key: m for key, m in ready.data.items() if key.startswith("n_")})
    faults = ("blank", "duplicate", "unequal", "held_out", "too_long")
    assert {f"n_{fault}_train" for fault in faults} < (+n).keys()
    assert min(n["n_too_long_valid"], n["n_too_long_test"], n["n_test_sources_in_train"]) > 0
    assert ready.test_texts == left["test"]
    assert ready.most_words == max(len(pair.src.split()) for pair in left["train"])
    limits = ready.data["max_tokens"], ready.data["max_tokens_test"]
    assert limits == (config.max_tokens, 2 * config.max_tokens)
    assert ready.data["source_end"] == ("EOS" if end else "none")
    assert (ready.data.get("case") == "lower") == config.is_lowercase


def read(opened: TextCorpus, *splits: str) -> str:
    return "".join(part for split in splits or SPLITS for part in opened.splits[split]())


def prepare_text_quietly(opened: TextCorpus, kind: str = "bytes", size: int = 300):
    return prepare_quietly(opened, PrepareConfig(tokenizer=kind, vocab_size=size))


@pytest.mark.parametrize("kind", ["bytes", "words"])
@pytest.mark.parametrize("text", ["\n \n" * 500, "x", "abc"])
def test_an_empty_split(kind: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(text)
    with pytest.raises(ValueError, match=r"^x\.txt has no text in (train|valid)"):
        prepare_text_quietly(read_text_corpus([tmp_path / "x.txt"]), kind)


def test_tokens_are_the_whole_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{i} spoke, and went.\n" for i in range(400)))
    opened = read_text_corpus([path])
    ready = prepare_text_quietly(opened, "bpe", 600)
    for split in SPLITS:
        ids = getattr(ready, split)
        assert ready.tokenizer.decode(ids.slice(0, len(ids))) == read(opened, split)
        assert len(ids) == ready.data[f"n_tokens_{split}"]
    assert prepare_text_quietly(opened, "bpe", 260).train.ids.dtype.itemsize == 2
    assert prepare_text_quietly(opened, "characters").train.ids.dtype.itemsize == 1
    assert ready.data["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_unknown_tokens_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{'common' if i % 4 else f'word{i}'} " for i in range(4_000)))
    ready = prepare_text_quietly(read_text_corpus([path]), "words")
    assert ready.data["n_unknown_test"] == 50
    assert ready.test.slice(0, 9_999).count(tokenizers.UNK) == 50
    assert "50 tokens of test are unknown: 25.13%" in summarize(ready.data)
    path.write_text("ab" * 950 + "cd" * 50)
    ready = prepare_text_quietly(read_text_corpus([path]), "characters")
    assert ready.tokenizer.vocab_size == 4 + 2
    assert ready.data["n_unknown_test"] == ready.data["n_tokens_test"]


def test_another_tokenizer_in_the_same_file_is_prepared_anew(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    for characters in ("ab ", "ac "):  # files of one size
        own = tokenizers.Characters(characters)
        own.save(path)
        ready = prepare_quietly(corpus_of(), replace(BYTES, tokenizer=str(path)))
        assert ready.tokenizer.labels == own.labels
