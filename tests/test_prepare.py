"""From a corpus to examples: what is left out, counted, kept on disk and found again."""

import errno
import fcntl
import json
import multiprocessing
import os
import pickle
import random
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seqmodels.data import batches, prepare, presets
from seqmodels.data.batches import Example, TokenizedPairs
from seqmodels.data.corpus import SPLITS, Pair, ParallelCorpus, read_parallel
from seqmodels.data.prepare import PrepareConfig, summary
from seqmodels.interface import EOS
from seqmodels.utils import files

ROOT = Path(__file__).parents[1]

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

    return ParallelCorpus("tiny", "de", "en", {s: read(s) for s in made}, lambda: 10, key)


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
    assert n.pop("n_tokens_train") == sum(map(sum, batches.lengths(ready.train)))
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
        match=rf"^tiny: no pair of {split} is left: 1 have a blank side, 1 more than {n_most} ",
    ):
        prepared(empty)
    assert list((presets.cache_dir()).glob("*.part-*")) == []


@pytest.mark.parametrize("kind", ["bytes", "words"])
@pytest.mark.parametrize(
    ("pairs", "n_blank"),
    [
        ([("a", "b")], "0"), ([("a", "b"), ("c", "d")], "0"),
        ([("A ", "b"), ("a", "c")] * 40, "0"), ([("", " ")] * 9, "[09]"),
        ([(str(i), "") for i in range(99)], r"\d+"),
    ],
)  # fmt: skip
def test_too_little_to_split(kind: str, pairs: list[tuple[str, str]], n_blank: str) -> None:
    """Keep out a wrong cause for an empty split: too long, or a vocabulary to be changed."""
    made = corpus_of(train=pairs)
    alone = made._replace(splits={"train": made.splits["train"]}, size=lambda: len(pairs))
    fault = rf"^tiny: no pair of \w+ is left: {n_blank} have .* other sources \(a larger --limit"
    with pytest.raises(ValueError, match=fault):
        prepared(alone, PrepareConfig(tokenizer=kind))


def test_nothing_but_blanks() -> None:
    """Keep out blank files that are said to be too long, or to need more memory."""
    for split in ("train", "valid", "test"):
        with pytest.raises(ValueError, match=rf"no pair of {split} is left: 2 have a blank"):
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


def write(folder: Path, made: list[Example]) -> TokenizedPairs:
    """Write examples."""
    folder.mkdir(exist_ok=True)
    np.array([i for e in made for i in e.src], np.uint32).tofile(folder / "x.src")
    np.array([i for e in made for i in e.tgt], np.uint32).tofile(folder / "x.tgt")
    ends = batches.lengths(made).cumsum(0)
    np.concatenate([np.zeros((1, 2), np.int64), ends]).tofile(folder / "x.ends")
    np.array([e.line for e in made]).tofile(folder / "x.lines")
    facts = {"dtype": "uint32"}
    files.write(folder / presets.MADE, json.dumps(facts))
    return TokenizedPairs(folder, "x")


def test_tokens(tmp_path: Path) -> None:
    """Keep out examples that differ from those that were written, by one place or at the ends."""
    made = [Example([5, 6], [7, EOS], line=1), Example([8], [9, 10, EOS], line=4)]
    made += [Example([200_019], [EOS], line=2**40), Example([4], [5], line=3)]
    made += [Example([6, 7, 8, 9], [5, EOS], line=8)]
    found = write(tmp_path / "x", made)
    assert list(found) == made
    assert (found[-1], found[1:]) == (made[-1], made[1:])
    with pytest.raises(IndexError):
        found[5]
    for start in range(5):
        for end in range(start, 6):
            sizes = found.lengths_between(start, end).tolist()
            assert sizes == [[len(e.src), len(e.tgt)] for e in made[start:end]]
    assert batches.longest(found) == (4, 3)
    assert list(pickle.loads(pickle.dumps(found))) == made
    assert len(pickle.dumps(found)) < 500


def test_same_batches(tmp_path: Path) -> None:
    """Keep out another order of batches for what lies on disk."""
    draw = np.random.default_rng(1).integers
    made = [Example([4] * draw(1, 20), [5] * draw(1, 20), line=i) for i in range(500)]
    found = write(tmp_path / "x", made)
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
    other = context.Process(target=hold, args=(str(presets.cache_dir()), ready, go))
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
    (folder,) = (path.parent for path in presets.cache_dir().glob("*/made.json"))
    left = folder.with_name(f"{folder.name}.part-abc")
    left.mkdir()
    (left / "train.src").write_bytes(b"x")
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
    monkeypatch.setattr(prepare, "encode_pairs", full)
    with pytest.raises(
        files.WriteError, match=r"could not be written: No space left on device; set"
    ):
        prepared(corpus_of())
    assert list(presets.cache_dir().glob("*.part-*")) == []


# A walk


def write_pairs(folder: Path, n: int = 1_000) -> list[Path]:
    """Write a parallel corpus with all that is left out of it, and with lines of all kinds."""
    rng, lines = random.Random(1), []
    for i in range(n):
        src = " ".join(
            rng.choices(["eins", "zwei", "DREI", "größe", "x\u2028y"], k=rng.randint(1, 9))
        )
        lines.append((f"{src} {i % 300}", "" if i % 50 == 0 else f"{src[::-1]} {i % 300} " * 2))
        lines += lines[-9:-8] if i % 20 == 0 else []
        lines += [("lang " * 90, "long")] if i % 100 == 0 else []
    lines = lines[:n]
    for side, (name, end) in enumerate((("made.de", "\n"), ("made.en", "\r\n"))):
        text = end.join(line[side] for line in lines) + ("" if side else end)
        (folder / name).write_text(("\ufeff" if side else "") + text, "utf-8", newline="")
    return [folder / "made.de", folder / "made.en"]


def test_pairs_are_what_a_walk_finds(tmp_path: Path) -> None:
    """Keep out faults that are counted by other rules than a loop over the pairs follows."""
    paths = write_pairs(tmp_path)
    config = PrepareConfig(tokenizer="bytes", is_cleaned=True, is_lowercase=True, max_tokens=10**6)
    opened = read_parallel(paths)
    ready, seen, n = prepared(opened, config), set(), {}
    dealt = [(split, pair._replace(src=pair.src.lower(), tgt=pair.tgt.lower()))
             for split, pair in opened.pairs(*SPLITS)]  # fmt: skip
    held_out = {pair.src for split, pair in dealt if split != "train" and pair.tgt.strip()}
    expected: dict[str, list[tuple]] = {split: [] for split in SPLITS}
    for split, pair in dealt:
        if not (pair.src.strip() and pair.tgt.strip()):
            n[f"n_blank_{split}"] = n.get(f"n_blank_{split}", 0) + 1
            continue
        sizes = sorted((len(pair.src.split()), len(pair.tgt.split())))
        faults = [
            name
            for name, is_so in (
                ("duplicate", (split, pair[:2]) in seen),
                ("unequal", sizes[1] > 9 * sizes[0]),
                ("held_out", split == "train" and pair.src in held_out),
            )
            if is_so
        ]
        seen.add((split, pair[:2]))
        for fault in faults:
            n[f"n_{fault}_{split}"] = n.get(f"n_{fault}_{split}", 0) + 1
        if split != "train" or not faults:
            expected[split].append(pair)
    encode = ready.tokenizer.encode
    for split in SPLITS:
        read = [(e.src[:-1], e.tgt[:-1], e.line) for e in getattr(ready, split)]
        assert read == [(encode(p.src), encode(p.tgt), p.line) for p in expected[split]]
    assert n == {key: ready.data[key] for key in n} != {}
    assert sum(ready.data[f"n_{fault}_train"] for fault in prepare.FAULTS) == sum(
        n.get(f"n_{fault}_train", 0) for fault in prepare.FAULTS
    )
    assert ready.most_words == max(len(pair.src.split()) for pair in expected["train"])


def test_a_fault_has_its_line(tmp_path: Path) -> None:
    """Keep out a fault without its line, and half a cache."""
    lines = [b"line %d" % i for i in range(60_000)]
    (tmp_path / "a.de").write_bytes(b"\n".join(lines))
    lines[50_000] = b"\xff"
    (tmp_path / "a.en").write_bytes(b"\n".join([b"the " + line for line in lines]))
    opened = read_parallel([tmp_path / "a.de", tmp_path / "a.en"])
    with pytest.raises(ValueError, match=r"a\.en, line 50001: not UTF-8 \(byte 0xff\)$"):
        prepared(opened)
    assert not [*presets.cache_dir().glob("*.part-*")]


def test_a_table_is_mapped_at_once(tmp_path: Path) -> None:
    """Keep out a start, or a resumption, that reads a table of 10^7 examples to its end."""
    n, k = 10**7, 2**14
    sizes = np.random.default_rng(1).integers(1, 20, k)
    write(tmp_path / "x", [Example([4], [5])])
    ends = np.tile(sizes, n // k + 1)[:n].cumsum()
    np.stack([np.append(0, ends)] * 2, 1).tofile(tmp_path / "x" / "x.ends")
    for kind, n_bytes in (("src", 4 * ends[-1]), ("tgt", 4 * ends[-1]), ("lines", 8 * n)):
        os.truncate(tmp_path / "x" / f"x.{kind}", n_bytes)
    since = time.perf_counter()
    train = TokenizedPairs(tmp_path / "x", "x")
    for first in (0, 20_000):
        drawn = next(batches.batch_indices(train, 4_096, 7, 0, first))
        assert [len(train[i].src) for i in drawn.rows] == sizes[np.array(drawn.rows) % k].tolist()
    assert time.perf_counter() - since < 10


def test_another_file_is_another_key(tmp_path: Path) -> None:
    """Keep out a changed corpus that is taken for the old one: even of the same size and time."""
    path = tmp_path / "a"
    path.write_text("a line\n")
    before, times = presets.fingerprint(path), path.stat()
    assert presets.fingerprint(path) == before
    time.sleep(0.02)
    path.write_text("b line\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert presets.fingerprint(path) != before


# Real files


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real text at {DATA}")
def test_multi30k() -> None:
    """Keep out a corpus that is not the one whose scores are published, or not whole."""
    corpus = read_parallel([DATA / "multi30k"], ("de", "en"))
    data = prepared(corpus, PrepareConfig(tokenizer="bytes", is_lowercase=True)).data
    n = {k: v for k, v in data.items() if k.startswith("n_") and "tokens" not in k and v}
    assert n == {
        "n_train": 28_982, "n_valid": 1_014, "n_test": 1_000, "n_duplicate_train": 3,
        "n_held_out_train": 1, "n_too_long_train": 18,  # more than 200 bytes
    }  # fmt: skip
