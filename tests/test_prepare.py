"""From a corpus to examples: what is left out, counted, kept on disk and found again."""

import errno
import fcntl
import multiprocessing
import os
import pickle
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seqmodels.data import batches, cache, prepare
from seqmodels.data.batches import Example
from seqmodels.data.clean import Cleaner, PrepareConfig, held_out_sources
from seqmodels.data.corpus import Pair, ParallelCorpus
from seqmodels.data.prepare import summary
from seqmodels.data.presets import read_parallel
from seqmodels.data.shards import PairWriter
from seqmodels.data.store import TokenizedPairs
from seqmodels.interface import EOS
from seqmodels.utils import files

DATA = Path(os.environ.get("SEQMODELS_DATA", Path(__file__).parents[1] / "../shared/data"))

TRAIN = [
    ("Ein Hund.", "A dog."), (" ", "Nothing."), ("Eine Katze.", "A cat."), ("Ein Hund.", "A dog."),
    ("Ein Hund.", "One dog."), ("ein hund.", "a dog."), ("Ja.", "Yes " * 10), ("Oh.", "\t"),
    ("Alt.", "Old."), ("lang " * 300, "long " * 300),
]  # fmt: skip
VALID = [("Neu.", "New."), ("Neu.", "New.")]
TEST = [("Alt.", "Aged."), ("Jung.", "Young."), ("", "")]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQMODELS_CACHE", str(tmp_path / "cache"))


def corpus_of(key: str = "key", **parts: list[tuple[str, str]]) -> ParallelCorpus:
    """Make a corpus in memory."""
    made = {"train": TRAIN, "valid": VALID, "test": TEST} | parts

    def read(split: str):
        return lambda: iter([Pair(*pair, i) for i, pair in enumerate(made[split], 1)])

    return ParallelCorpus("tiny", "de", "en", {split: read(split) for split in made}, 10, key)


BYTES = PrepareConfig(tokenizer="bytes")


def prepared(corpus: ParallelCorpus, how: PrepareConfig = BYTES) -> prepare.Prepared:
    """Prepare without a word."""
    return prepare.prepare(corpus, how, lambda line: None)


# Cleaning


def test_counts() -> None:
    """Keep out a pair that goes, or a fault that stays, without being counted."""
    ready = prepared(corpus_of())
    kept = [1, 3, 4, 5, 6, 7, 9]
    assert [example.line for example in ready.train] == kept
    n = {key: value for key, value in ready.data.items() if key.startswith("n_") and value}
    assert n.pop("n_tokens_train") == sum(map(sum, ready.train.lengths))
    assert (n.pop("n_tokens_valid"), n.pop("n_tokens_test")) == (2 * (5 + 5), 5 + 6 + 6 + 7)
    assert n == {
        "n_train": 7, "n_valid": 2, "n_test": 2, "n_blank_train": 2, "n_blank_test": 1,
        "n_duplicate_train": 1, "n_duplicate_valid": 1, "n_unequal_train": 1,
        "n_too_long_train": 1, "n_held_out_train": 1, "n_test_sources_in_train": 1,
    }  # fmt: skip
    assert {f"n_blank_{split}" for split in ("train", "valid", "test")} < set(ready.data)
    assert summary(ready.data, False).split("\n") == [
        "tiny de→en: 7 train, 2 valid, 2 test pairs",
        "  train: left out: 2 blank, 1 longer than 200 tokens on a side; kept: 1 repeated, "
        "1 with one side 9 times as long as the other, 1 with a source that is in valid or test",
        "  valid: left out: 0 blank, 0 longer than 200 tokens on a side; kept: 1 repeated",
        "  test: left out: 1 blank, 0 longer than 400 tokens on a side",
        "  1 test sources are also in train",
    ]


def test_cleaned() -> None:
    """Keep out a flag that also cleans valid and test, or does not clean at all."""
    ready = prepared(corpus_of(), PrepareConfig(tokenizer="bytes", is_cleaned=True))
    assert [example.line for example in ready.train] == [1, 3, 5, 6]
    assert ready.data["name"] == "tiny de→en, cleaned"
    assert (len(ready.valid), len(ready.test)) == (2, 2)
    assert "also left out: 1 repeated" in summary(ready.data, True)


def test_unknown_words() -> None:
    """Keep out words that no model can know and that are not reported."""
    told = summary(prepared(corpus_of(), PrepareConfig(tokenizer="words")).data, False).split("\n")
    assert told[-3:] == [
        "  10 tokens of train are unknown: 16.67%, read as ⁇",
        "  4 tokens of valid are unknown: 33.33%, read as ⁇",
        "  4 tokens of test are unknown: 33.33%, read as ⁇",
    ]


def test_lower_case() -> None:
    """Keep out references in another case than the targets, and duplicates by case alone."""
    ready = prepared(corpus_of(), PrepareConfig(tokenizer="bytes", is_lowercase=True))
    assert ready.data["name"] == "tiny de→en, lower-cased"
    assert ready.data["case"] == "lower" != prepared(corpus_of(), BYTES).data.get("case")
    assert ready.data["n_duplicate_train"] == 2
    assert ready.test_texts == [("alt.", "aged."), ("jung.", "young.")]
    assert ready.tokenizer.decode(ready.test[0].tgt) == "aged."


def test_checksum_is_of_the_content(tmp_path: Path) -> None:
    """Keep out a checksum that changes with direction, tokenizer, cleaning or kind of file."""
    forth = prepared(corpus_of()).data["sha256"]
    swapped = {
        "train": [(b, a) for a, b in TRAIN], "valid": [(b, a) for a, b in VALID],
        "test": [(b, a) for a, b in TEST],
    }  # fmt: skip
    back = corpus_of("other", **swapped)._replace(src_lang="en", tgt_lang="de")
    assert prepared(back).data["sha256"] == forth
    assert (
        prepared(corpus_of(), PrepareConfig(tokenizer="bytes", is_cleaned=True)).data["sha256"]
        == forth
    )
    assert prepared(corpus_of("third", test=TEST[:2])).data["sha256"] != forth


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_nothing_left(split: str) -> None:
    """Keep out a run that fails at its first batch, or at its end, for lack of sentences."""
    empty = corpus_of(**{split: [("", "x"), ("y " * 900, "y")]})
    n_most = {"train": 200, "valid": 200, "test": 400}[split]
    with pytest.raises(
        ValueError,
        match=rf"^tiny: no pair of {split} is left: 1 have more than {n_most} tokens on a side "
        r"\(see --max-tokens\), and 1 have a blank side$",
    ):
        prepared(empty)
    assert list((cache.cache_dir()).glob("*.part-*")) == []


@pytest.mark.parametrize("kind", ["bytes", "words"])
@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        ([("a", "b")], r"1 pairs are too few to draw valid and test from: .*give more \(a larg"),
        ([("a", "b"), ("c", "d")], "2 pairs are too few to draw valid and test from: "),
        ([("A ", "b"), ("a", "c")] * 40, "all 80 pairs have the same source, and a source is ne"),
        ([("", " ")] * 9, "(9 of 9 pairs in train have a blank|all 9 pairs have the same source)"),
        ([(str(i), "") for i in range(99)], r"\d+ of \d+ pairs in (train|valid|test) have a blank"),
    ],
)  # fmt: skip
def test_too_little_to_split(kind: str, pairs: list[tuple[str, str]], why: str) -> None:
    """Keep out a wrong cause for an empty split: too long, or a vocabulary to be changed."""
    made = corpus_of(train=pairs)
    alone = made._replace(splits={"train": made.splits["train"]}, n=len(pairs))
    with pytest.raises(ValueError, match=rf"^tiny: {why}"):
        prepared(alone, PrepareConfig(tokenizer=kind))


def test_nothing_but_blanks() -> None:
    """Keep out blank files that are said to be too long, or to need more memory."""
    for split in ("train", "valid", "test"):
        with pytest.raises(ValueError, match=rf"^tiny: 2 of 2 pairs in {split} have a blank side$"):
            prepared(
                corpus_of(**{split: [("", "x"), (" ", " ")]}), PrepareConfig(tokenizer="words")
            )


def test_a_source_ends_with_eos() -> None:
    """Keep out a source without the EOS that its record claims, or one that is asked for none."""
    for how, end in ((BYTES, [EOS]), (replace(BYTES, has_source_eos=False), [])):
        ready = prepared(corpus_of(), how)
        assert ready.data["source_end"] == ("EOS" if end else "none")
        for split, pairs in (("train", TRAIN), ("valid", VALID), ("test", TEST)):
            for example in getattr(ready, split):
                encoded = ready.tokenizer.encode(pairs[example.line - 1][0])
                assert example.src == [*encoded, *end]


def test_the_longest_pair_is_chosen() -> None:
    """Keep out a limit on length that is hidden, fixed, or another one than is printed."""
    side = "x" * 9  # ten tokens with EOS
    pairs = [(side, side), (f"{side}x", side), (side, f"{side}x")]
    test = [(side * 2 + "x", side), (side * 2 + "xx", side)]
    ready = prepared(
        corpus_of(train=pairs, valid=pairs, test=test),
        PrepareConfig(tokenizer="bytes", max_tokens=10),
    )
    assert [len(ready.train), len(ready.valid), len(ready.test)] == [1, 1, 1]
    assert (ready.data["max_tokens"], ready.data["max_tokens_test"]) == (10, 20)
    told = summary(ready.data, False)
    assert "train: left out: 0 blank, 2 longer than 10 tokens on a side" in told
    assert "test: left out: 0 blank, 1 longer than 20 tokens on a side" in told


# Memory maps


def write(path: Path, made: list[Example]) -> None:
    """Write examples, in two pieces."""
    with PairWriter(path) as writer:
        for part in (made[:2], made[2:]):
            writer.add(
                np.array([(len(e.src), len(e.tgt)) for e in part]),
                np.array([i for e in part for i in [*e.src, *e.tgt]]),
                np.array([e.line for e in part]),
                np.array([len(e.src) for e in part]),
            )


def test_tokens(tmp_path: Path) -> None:
    """Keep out examples that differ from those that were written, by one place or at the ends."""
    made = [Example([5, 6], [7, EOS], line=1), Example([8], [9, 10, EOS], line=4)]
    made.append(Example([200_019], [EOS], line=2**40))
    write(tmp_path / "x", made)
    found = TokenizedPairs(tmp_path / "x")
    assert list(found) == made
    assert (found[-1], found[1:]) == (made[-1], made[1:])
    with pytest.raises(IndexError):
        found[3]
    assert found.lengths.tolist() == batches.lengths(made).tolist() == [[2, 2], [1, 3], [1, 1]]
    assert list(pickle.loads(pickle.dumps(found))) == made
    assert len(pickle.dumps(found)) < 500


def test_same_batches(tmp_path: Path) -> None:
    """Keep out another order of batches for what lies on disk."""
    draw = np.random.default_rng(1).integers
    made = [Example([4] * draw(1, 20), [5] * draw(1, 20), line=i) for i in range(500)]
    write(tmp_path / "x", made)
    found = TokenizedPairs(tmp_path / "x")
    assert list(batches.shuffled_batches(found, 100, 1, 2)) == list(
        batches.shuffled_batches(made, 100, 1, 2)
    )
    assert batches.batches_by_length(found, 100) == batches.batches_by_length(made, 100)


def test_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep out an example that a large corpus leaves out or draws twice in an epoch."""
    many = [Example([4] * (1 + i % 7), [5], line=i) for i in range(1_000)]
    monkeypatch.setattr(batches, "SHARD", 300)
    runs = list(batches.shuffled_batches(many, 40, 1, 0))
    assert sorted(i for run in runs for i in run) == list(range(1_000))
    assert runs == list(batches.shuffled_batches(many, 40, 1, 0))
    assert runs != list(batches.shuffled_batches(many, 40, 1, 1))
    first = {i for run in runs[: len(runs) // 4] for i in run}
    assert max(first) > 900  # shuffled over all, not within a shard
    assert min(first) < 100


# The folder


def test_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep out work that is done again, and what was prepared in another way or of another text."""
    first = prepared(corpus_of())
    monkeypatch.setattr(prepare, "build", lambda *_: pytest.fail("prepared again"))
    again = prepared(corpus_of())
    assert list(again.train) == list(first.train)
    assert (again.data, again.test_texts) == (first.data, first.test_texts)
    for corpus, how in (
        (corpus_of("new"), PrepareConfig(tokenizer="bytes")),
        (corpus_of(), PrepareConfig(tokenizer="bytes", is_lowercase=True)),
        (corpus_of()._replace(src_lang="nl"), PrepareConfig(tokenizer="bytes")),
    ):
        with pytest.raises(pytest.fail.Exception):
            prepared(corpus, how)


@pytest.mark.parametrize(
    "name",
    ["train.00000.ids", "train.00000.ends.npy", "train.index.json", "tokenizer.json", "made.json"],
)
@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_damage(name: str, damage: str) -> None:
    """Keep out tokens that a bad disk, or a killed process, has changed: they are made again."""
    known = list(prepared(corpus_of()).train)
    (path,) = cache.cache_dir().glob(f"*/{name}")
    raw = path.read_bytes()
    middle = len(raw) // 2
    if damage == "gone":
        path.unlink()
    else:
        end = b"" if damage == "cut" else bytes([raw[middle] ^ 1]) + raw[middle + 1 :]
        path.write_bytes(raw[:middle] + end)
    assert list(prepared(corpus_of()).train) == known
    assert path.read_bytes() == raw


def hold(path: str, ready, go) -> None:
    """Prepare in another process, slowly."""
    os.environ["SEQMODELS_CACHE"] = path

    def slow(*args) -> dict:
        ready.set()
        go.wait(60)
        return build(*args)

    build, prepare.build = prepare.build, slow
    prepared(corpus_of())


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork")  # pytest-xdist has a thread
def test_two_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep out two processes that write the same files; the second waits, and says so."""
    context = multiprocessing.get_context("fork")
    ready, go = context.Event(), context.Event()
    other = context.Process(target=hold, args=(str(cache.cache_dir()), ready, go))
    other.start()
    assert ready.wait(60)
    said = []

    def say(line: str) -> None:
        said.append(line)
        go.set()

    monkeypatch.setattr(prepare, "build", lambda *_: pytest.fail("prepared again"))
    ready_made = prepare.prepare(corpus_of(), PrepareConfig(tokenizer="bytes"), say)
    other.join()
    assert len(ready_made.train) == 7
    assert [line.partition(" is")[0] for line in said] == ["another process"]


@pytest.mark.parametrize(("code", "is_tolerated"), [(errno.ENOLCK, True), (errno.EIO, False)])
def test_a_disk_without_locks(
    code: int, is_tolerated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep out a network disk being refused for what it cannot do, and faults that are hidden."""

    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", fail)
    refused = pytest.raises(files.WriteError, match="could not be written")
    with nullcontext() if is_tolerated else refused:
        assert len(prepared(corpus_of()).train) == 7


def test_leftovers_of_a_killed_process() -> None:
    """Keep out a disk that fills up with what killed processes had begun."""
    prepared(corpus_of())
    (folder,) = (path.parent for path in cache.cache_dir().glob("*/made.json"))
    left = folder.with_name(f"{folder.name}.part-abc")
    left.mkdir()
    (left / "train.ids").write_bytes(b"x")
    (folder / "made.json").unlink()
    prepared(corpus_of())
    assert not left.exists()


def no_home(path: Path) -> Path:
    """Fail as `Path.expanduser` does for a user without a home."""
    raise RuntimeError("Could not determine home directory.")


def test_no_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep out a traceback where the folder cannot be created or written to."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SEQMODELS_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(
        files.WriteError,
        match=r"cannot be created: Not a directory; set SEQMODELS_CACHE to",
    ):
        prepared(corpus_of())

    monkeypatch.delenv("SEQMODELS_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with monkeypatch.context() as homeless:
        homeless.setattr(Path, "expanduser", no_home)
        with pytest.raises(ValueError, match=r"^there is no home folder; set SEQMODELS_CACHE to"):
            prepared(corpus_of())

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("SEQMODELS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(PairWriter, "add", full)
    with pytest.raises(
        files.WriteError, match=r"could not be written: No space left on device; set"
    ):
        prepared(corpus_of())
    assert list(cache.cache_dir().glob("*.part-*")) == []


# Real files


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real text at {DATA}")
def test_multi30k() -> None:
    """Keep out a corpus that is not the one whose scores are published, or not whole."""
    names = {"valid": "val", "test": "test_2016_flickr"}
    corpus = read_parallel([DATA / "multi30k"], ("de", "en"), names=names)
    config = PrepareConfig(tokenizer="bytes", is_lowercase=True)
    cleaner = Cleaner(corpus, config, held_out_sources(corpus, config))
    sizes = {split: sum(1 for _ in cleaner.pairs(split)) for split in ("train", "valid", "test")}
    assert sizes == {"train": 29_000, "valid": 1_014, "test": 1_000}
    counts = {key: n for key, n in cleaner.counts.items() if n}
    assert counts == {"n_duplicate_train": 3, "n_held_out_train": 1}
