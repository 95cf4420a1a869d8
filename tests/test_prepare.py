"""From a corpus to examples on disk: what is left out, counted, and read back."""

import pickle
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seqmodels.data import batches, prepare, presets
from seqmodels.data.batches import Example, TokenizedPairs
from seqmodels.data.corpus import SPLITS, Pair, ParallelCorpus, read_parallel
from seqmodels.data.prepare import PrepareConfig, summarize
from seqmodels.interface import EOS
from seqmodels.utils import files

TRAIN = [
    ("Ein Hund.", "A dog."), (" ", "Nothing."), ("Eine Katze.", "A cat."), ("Ein Hund.", "A dog."),
    ("Ein Hund.", "One dog."), ("ein hund.", "a dog."), ("Ja.", "Yes " * 10), ("Nein.", "No " * 9),
    ("Oh.", "\t"), ("Alt.", "Old."), ("Alt.", "Elderly."), ("Neu.", "Newer."),
    ("lang " * 300, "long " * 300),
]  # fmt: skip
VALID = [("Neu.", "New."), ("Neu.", "New.")]
TEST = [("Alt.", "Aged."), ("Jung.", "Young."), ("", "")]

pytestmark = pytest.mark.usefixtures("cached")


def corpus_of(key: str = "key", **splits: list[tuple[str, str]]) -> ParallelCorpus:
    """Return a corpus in memory."""
    pairs = {"train": TRAIN, "valid": VALID, "test": TEST} | splits

    def reader(split: str):
        return lambda: iter([Pair(*pair, i) for i, pair in enumerate(pairs[split], 1)])

    return ParallelCorpus("tiny", "de", "en", {s: reader(s) for s in pairs}, lambda: 10, key)


BYTES = PrepareConfig(tokenizer="bytes")
WORDS = PrepareConfig(tokenizer="words")
CLEANED = replace(BYTES, is_cleaned=True)
LOWER = replace(BYTES, is_lowercase=True)


def prepare_quietly(corpus: ParallelCorpus, config: PrepareConfig = BYTES) -> prepare.Prepared:
    """Prepare without a message."""
    return prepare.prepare(corpus, config, lambda line: None)


# ---------------------------------------------------------------------------------------- Cleaning


def test_counts() -> None:
    """Keeps out a pair that goes, or a fault that stays, without being counted."""
    ready = prepare_quietly(corpus_of())
    assert [example.line for example in ready.train] == [1, 3, 4, 5, 6, 7, 8, 10, 11, 12]
    n = {key: value for key, value in ready.data.items() if key.startswith("n_") and value}
    assert n.pop("n_tokens_train") == sum(map(sum, batches.lengths(ready.train)))
    assert (n.pop("n_tokens_valid"), n.pop("n_tokens_test")) == (2 * (5 + 5), 5 + 6 + 6 + 7)
    assert n == {
        "n_train": 10, "n_valid": 2, "n_test": 2, "n_blank_train": 2, "n_blank_test": 1,
        "n_duplicate_train": 1, "n_duplicate_valid": 1, "n_unequal_train": 1,
        "n_too_long_train": 1, "n_held_out_train": 3, "n_test_sources_in_train": 1,
    }  # fmt: skip
    assert {f"n_{kind}_{split}" for kind in ("blank", "too_long") for split in SPLITS} < {
        *ready.data
    }


def test_unknown_words() -> None:
    """Keeps out words that no model can know and that are not reported."""
    lines = summarize(prepare_quietly(corpus_of(), WORDS).data, False).split("\n")
    shares = [("train", "13 ", "15.29%"), ("valid", "4 ", "33.33%"), ("test", "3 ", "25.00%")]
    for line, (split, n, share) in zip(lines[-3:], shares, strict=True):
        assert line.strip().startswith(n)
        assert split in line
        assert share in line


def test_lower_case() -> None:
    """Keeps out references in another case than the targets, and duplicates by case alone."""
    ready = prepare_quietly(corpus_of(), LOWER)
    assert ready.data["name"] == "tiny de→en, lower-cased"
    assert (ready.data["case"], ready.data["n_duplicate_train"]) == ("lower", 2)
    assert ready.test_texts == [("alt.", "aged."), ("jung.", "young.")]
    assert ready.tokenizer.decode(ready.test[0].tgt) == "aged."


def test_checksum_is_of_the_content() -> None:
    """Keeps out a checksum that changes with direction, tokenizer or cleaning, or with nothing."""
    forth = prepare_quietly(corpus_of()).data["sha256"]
    splits = zip(SPLITS, (TRAIN, VALID, TEST), strict=True)
    back = corpus_of("back", **{split: [(b, a) for a, b in pairs] for split, pairs in splits})
    assert prepare_quietly(back._replace(src_lang="en", tgt_lang="de")).data["sha256"] == forth
    assert prepare_quietly(corpus_of(), replace(CLEANED, tokenizer="words")).data["sha256"] == forth
    assert prepare_quietly(corpus_of("other", test=TEST[:2])).data["sha256"] != forth


@pytest.mark.parametrize(("split", "most"), [("train", 200), ("valid", 200), ("test", 400)])
@pytest.mark.parametrize("config", [BYTES, WORDS])
def test_nothing_left(split: str, most: int, config: PrepareConfig) -> None:
    """Keeps out a run that fails at its first batch, or at its end, for lack of sentences."""
    empty = corpus_of(**{split: [("", "x"), (" ", " "), ("y " * 900, "y " * 900)]})
    with pytest.raises(ValueError, match=f"no pair of {split} is left: 2 .* 1 .* {most} tokens"):
        prepare_quietly(empty, config)
    assert [*presets.cache_dir().glob("*.part-*")] == []


@pytest.mark.parametrize("pairs", [[("a", "b")], [("A ", "b"), ("a", "c")] * 40, [("", " ")] * 9])
def test_too_little_to_split(pairs: list[tuple[str, str]]) -> None:
    """Keeps out a wrong cause for an empty split: too long, or a vocabulary to be changed."""
    whole = corpus_of(train=pairs)
    alone = whole._replace(splits={"train": whole.splits["train"]}, size=lambda: len(pairs))
    with pytest.raises(ValueError, match=r"is left: [09] have .* with other sources"):
        prepare_quietly(alone, WORDS)


def test_a_source_ends_with_eos() -> None:
    """Keeps out a source without the EOS that its record claims, or one that is asked for none."""
    for config, end in ((BYTES, [EOS]), (replace(BYTES, has_source_eos=False), [])):
        ready = prepare_quietly(corpus_of(), config)
        assert ready.data["source_end"] == ("EOS" if end else "none")
        for split, pairs in (("train", TRAIN), ("valid", VALID), ("test", TEST)):
            for example in getattr(ready, split):
                src, tgt = map(ready.tokenizer.encode, pairs[example.line - 1])
                assert (example.src, example.tgt) == ([*src, *end], [*tgt, EOS])


def test_max_tokens() -> None:
    """Keeps out a limit on length that is hidden, fixed, off by one, or of one side only."""
    side = "x" * 9  # ten tokens with EOS
    pairs = [(side, side), (f"{side}x", side), (side, f"{side}x")]
    test = [(side * 2 + "x", side), (side * 2 + "xx", side)]
    splits = {"train": pairs, "valid": pairs, "test": test}
    ready = prepare_quietly(corpus_of(**splits), replace(BYTES, max_tokens=10))
    assert [len(ready.train), len(ready.valid), len(ready.test)] == [1, 1, 1]
    assert (ready.data["max_tokens"], ready.data["max_tokens_test"]) == (10, 20)
    assert [ready.data[f"n_too_long_{split}"] for split in SPLITS] == [2, 2, 1]


def write_pairs(folder: Path, n: int = 1_000) -> list[Path]:
    """Write a parallel corpus with all that is left out of it, and with lines of all kinds."""
    rng, lines = random.Random(1), []
    for i in range(n):
        words = rng.choices(["eins", "zwei", "DREI", "größe", "x\u2028y"], k=rng.randint(1, 9))
        src = " ".join(words)
        lines.append((f"{src} {i % 300}", "" if i % 50 == 0 else f"{src[::-1]} {i % 300} " * 2))
        lines += lines[-9:-8] if i % 20 == 0 else []
        lines += [("lang " * 90, "long")] if i % 100 == 0 else []
    lines = lines[:n]
    for side, (name, end) in enumerate((("pairs.de", "\n"), ("pairs.en", "\r\n"))):
        text = end.join(line[side] for line in lines) + ("" if side else end)
        (folder / name).write_text(("\ufeff" if side else "") + text, "utf-8", newline="")
    return [folder / "pairs.de", folder / "pairs.en"]


def test_pairs_are_those_of_a_naive_loop(tmp_path: Path) -> None:
    """Keeps out faults that are counted by other rules than a loop over the pairs follows."""
    config = PrepareConfig(tokenizer="bytes", is_cleaned=True, is_lowercase=True, max_tokens=10**6)
    opened = read_parallel(write_pairs(tmp_path))
    ready, seen, n = prepare_quietly(opened, config), set(), {}
    pairs = [(split, pair._replace(src=pair.src.lower(), tgt=pair.tgt.lower()))
             for split, pair in opened.pairs(*SPLITS)]  # fmt: skip
    held_out = {pair.src for split, pair in pairs if split != "train" and pair.tgt.strip()}
    expected: dict[str, list[Pair]] = {split: [] for split in SPLITS}
    for split, pair in pairs:
        fewer, more = sorted((len(pair.src.split()), len(pair.tgt.split())))
        is_faulty = {
            "blank": fewer == 0,
            "duplicate": fewer > 0 and (split, pair[:2]) in seen,
            "unequal": fewer > 0 and more > 9 * fewer,
            "held_out": fewer > 0 and split == "train" and pair.src in held_out,
        }
        seen.add((split, pair[:2]))
        for fault in filter(is_faulty.__getitem__, is_faulty):
            n[f"n_{fault}_{split}"] = n.get(f"n_{fault}_{split}", 0) + 1
        if not (any(is_faulty.values()) if split == "train" else is_faulty["blank"]):
            expected[split].append(pair)
    encode = ready.tokenizer.encode
    for split in SPLITS:
        examples = [(e.src[:-1], e.tgt[:-1], e.line) for e in getattr(ready, split)]
        assert examples == [(encode(p.src), encode(p.tgt), p.line) for p in expected[split]]
    counted = {key: m for key, m in ready.data.items() if key.rpartition("_")[0] in {
        f"n_{fault}" for fault in ("blank", *prepare.FAULTS)} and m}  # fmt: skip
    assert n == counted
    assert {"n_blank_train", "n_duplicate_train", "n_unequal_train"} < n.keys()
    assert ready.most_words == max(len(pair.src.split()) for pair in expected["train"])


def test_another_corpus_or_config_is_prepared_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out work that is done again, what was prepared in another way or of another text."""
    first = prepare_quietly(corpus_of())
    monkeypatch.setattr(prepare, "build", lambda *_: pytest.fail("prepared again"))
    again = prepare_quietly(corpus_of())
    assert list(again.train) == list(first.train)
    assert (again.data, again.test_texts) == (first.data, first.test_texts)
    for corpus, config in (
        (corpus_of("new"), BYTES), (corpus_of(), LOWER), (corpus_of(), CLEANED),
        (corpus_of(), replace(BYTES, max_tokens=9)), (corpus_of(), WORDS),
        (corpus_of()._replace(src_lang="nl"), BYTES), (corpus_of()._replace(tgt_lang="nl"), BYTES),
    ):  # fmt: skip
        with pytest.raises(pytest.fail.Exception):
            prepare_quietly(corpus, config)


# -------------------------------------------------------------------------------- Examples on disk


def write_examples(folder: Path, examples: list[Example]) -> TokenizedPairs:
    """Write examples."""
    folder.mkdir(exist_ok=True)
    np.array([i for e in examples for i in e.src], np.uint32).tofile(folder / "x.src")
    np.array([i for e in examples for i in e.tgt], np.uint32).tofile(folder / "x.tgt")
    ends = batches.lengths(examples).cumsum(0)
    np.concatenate([np.zeros((1, 2), np.int64), ends]).tofile(folder / "x.ends")
    np.array([e.line for e in examples]).tofile(folder / "x.lines")
    files.write(folder / "made.json", '{"dtype": "uint32"}')
    return TokenizedPairs(folder, "x")


def test_examples_on_disk(tmp_path: Path) -> None:
    """Keeps out examples that differ from those that were written, by one place or at the ends."""
    examples = [Example([5, 6], [7, EOS], line=1), Example([8], [9, 10, EOS], line=4)]
    examples += [Example([200_019], [EOS], line=2**40), Example([4], [5], line=3)]
    examples += [Example([6, 7, 8, 9], [5, EOS], line=8)]
    mapped = write_examples(tmp_path / "x", examples)
    assert list(mapped) == examples
    assert (mapped[-1], mapped[1:]) == (examples[-1], examples[1:])
    with pytest.raises(IndexError):
        mapped[5]
    for start in range(5):
        for end in range(start, 6):
            sizes = mapped.lengths_between(start, end).tolist()
            assert sizes == [[len(e.src), len(e.tgt)] for e in examples[start:end]]
    assert batches.longest(mapped) == batches.longest(examples) == (4, 3)
    assert list(pickle.loads(pickle.dumps(mapped))) == examples
    assert len(pickle.dumps(mapped)) < 500
    draw = np.random.default_rng(1).integers
    many = [Example([4] * draw(1, 20), [5] * draw(1, 20), line=i) for i in range(500)]
    order = list(batches.shuffled_batches(many, 100, 1, 2))
    assert list(batches.shuffled_batches(write_examples(tmp_path / "y", many), 100, 1, 2)) == order
