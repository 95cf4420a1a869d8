"""From a corpus to examples on disk: what is left out, counted, and read back."""

import pickle
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seqmodels.data import batches, prepare, presets
from seqmodels.data.batches import Example, TokenizedPairs
from seqmodels.data.corpus import SPLITS, Pair, ParallelCorpus
from seqmodels.data.prepare import PrepareConfig, summarize
from seqmodels.interface import EOS, UNK
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


def test_unknown_words() -> None:
    """Keeps out words that no model can know and that are not reported."""
    lines = summarize(prepare_quietly(corpus_of(), WORDS).data, False).split("\n")
    shares = [("train", "13 ", "15.29%"), ("valid", "4 ", "33.33%"), ("test", "3 ", "25.00%")]
    for line, (split, n, share) in zip(lines[-3:], shares, strict=True):
        assert line.strip().startswith(n)
        assert split in line
        assert share in line


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


def draw_pairs(n: int = 1_000) -> list[tuple[str, str]]:
    """Draw pairs with all that is left out of a corpus, and with lines of all kinds."""
    rng, pairs = random.Random(1), []
    for i in range(n):
        words = rng.choices(["eins", "zwei", "DREI", "größe", "x\u2028y"], k=rng.randint(1, 9))
        src = " ".join(words)
        pairs.append((f"{src} {i % 300}", "" if i % 50 == 0 else f"{src[::-1]} {i % 300} " * 2))
        pairs += pairs[-9:-8] if i % 20 == 0 else []
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
    """Keeps out pairs that are kept, left out or counted by other rules than a loop follows."""
    pairs = draw_pairs()
    opened = corpus_of(train=pairs[400:], valid=pairs[200:400], test=pairs[:200])
    ready, seen, n = prepare_quietly(opened, config), set(), Counter()
    encode, end = ready.tokenizer.encode, [EOS] * config.has_source_eos
    pairs = [*opened.pairs(*SPLITS)]
    if config.is_lowercase:
        pairs = [(split, Pair(p.src.lower(), p.tgt.lower(), p.line)) for split, p in pairs]
    held_out = {pair.src for split, pair in pairs if split != "train" and pair.tgt.strip()}
    left: dict[str, list[Pair]] = {split: [] for split in SPLITS}
    for split, pair in pairs:
        fewer, more = sorted((len(pair.src.split()), len(pair.tgt.split())))
        is_faulty = {
            "blank": fewer == 0,
            "duplicate": fewer > 0 and (split, pair[:2]) in seen,
            "unequal": fewer > 0 and more > 9 * fewer,
            "held_out": fewer > 0 and split == "train" and pair.src in held_out,
        }
        seen.add((split, pair[:2]))
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
        expected = [
            Example([*encode(p.src), *end], [*encode(p.tgt), EOS], line=p.line) for p in left[split]
        ]
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
    assert ready.test_texts == [pair[:2] for pair in left["test"]]
    assert ready.most_words == max(len(pair.src.split()) for pair in left["train"])
    limits = ready.data["max_tokens"], ready.data["max_tokens_test"]
    assert limits == (config.max_tokens, 2 * config.max_tokens)
    assert ready.data["source_end"] == ("EOS" if end else "none")
    assert (ready.data.get("case") == "lower") == config.is_lowercase


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
