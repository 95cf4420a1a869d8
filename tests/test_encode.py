"""Preparing in pieces: the same bytes, however many processes there are, and none left behind."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest

from seqmodels.data import (
    cache,
    clean,
    corpus,
    encode,
    prepare,
    presets,
    readers,
    shards,
    text_corpus,
    tokenizers,
)
from seqmodels.data.clean import PrepareConfig, Seen
from seqmodels.data.corpus import LinePairs, Pair, cut
from seqmodels.data.store import TokenizedPairs
from seqmodels.utils import workers
from seqmodels.utils.workers import Workers, start

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.usefixtures("cached")


@pytest.fixture(scope="module")
def two() -> Iterator[Executor]:
    """Return two processes."""
    pool = start(2)
    yield pool
    pool.shutdown()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pieces and shards be small."""
    monkeypatch.setattr(corpus, "PIECE", 64)
    monkeypatch.setattr(shards, "SHARD_PAIRS", 150)
    monkeypatch.setattr(shards, "SHARD_TOKENS", 4_096)
    monkeypatch.setattr(readers, "CHUNK_BYTES", 999)


def write_pairs(folder: Path, n: int = 1_000) -> list[Path]:
    """Write a parallel corpus with all that is left out of it, and with lines of all kinds."""
    rng, lines = random.Random(1), []
    for i in range(n):
        src = " ".join(rng.choices(["eins", "zwei", "DREI", "größe", "x"], k=rng.randint(1, 9)))
        lines.append((f"{src} {i % 300}", "" if i % 50 == 0 else f"{src[::-1]} {i % 300} " * 2))
        lines += lines[-9:-8] if i % 20 == 0 else []
        lines += [("lang " * 90, "long")] if i % 100 == 0 else []
    lines = lines[:n]
    for side, (name, end) in enumerate((("made.de", "\n"), ("made.en", "\r\n"))):
        text = end.join(line[side] for line in lines) + ("" if side else end)
        (folder / name).write_text(("\ufeff" if side else "") + text, "utf-8", newline="")
    return [folder / "made.de", folder / "made.en"]


def contents(folder: Path) -> dict[str, str]:
    """Return a checksum of each file in the one prepared folder."""
    (made,) = (path.parent for path in folder.glob("*/made.json"))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in made.iterdir()}


# ------------------------------------------------------------------------------- The same bytes


@pytest.mark.parametrize("config", [
    PrepareConfig(tokenizer="words", max_tokens=60),
    PrepareConfig(tokenizer="bytes", is_lowercase=True, is_cleaned=True, max_tokens=150),
])  # fmt: skip
@pytest.mark.usefixtures("small")
def test_pairs_are_the_same_bytes(
    config: PrepareConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two: Executor
) -> None:
    """Keeps out pairs whose order, faults or lines depend on how many processes prepare them."""
    paths, found = write_pairs(tmp_path), []
    for name, executor, piece in (("one", None, 64), ("two", two, 64), ("whole", None, 10**6)):
        monkeypatch.setattr(corpus, "PIECE", piece)
        monkeypatch.setenv("SEQMODELS_CACHE", str(tmp_path / name))
        opened = presets.read_parallel(paths)
        ready = prepare.prepare(opened, config, lambda line: None, executor)
        found.append(contents(tmp_path / name))
    assert found[0] == found[1] == found[2]
    assert len([name for name in found[0] if name.startswith("train.0")]) > 9
    assert encode.HELD_OUT not in found[0]
    counts = {k: n for k, n in ready.data.items() if isinstance(n, int) and n}
    expected = {"n_blank_train", "n_duplicate_train", "n_unequal_train", "n_too_long_train"}
    assert expected - ({"n_too_long_train"} if config.is_cleaned else set()) <= counts.keys()
    for split in corpus.SPLITS:
        assert len(getattr(ready, split)) == counts[f"n_{split}"] > 0


@pytest.mark.usefixtures("small")
def test_text_is_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two: Executor
) -> None:
    """Keeps out tokens, lines or a checksum that depend on how many processes there are."""
    path, found = tmp_path / "a.txt", []
    path.write_text("".join(f"{i} said,\nand {i % 7} went.\n\n" for i in range(3_000)))
    for name, executor in (("one", None), ("two", two)):
        monkeypatch.setenv("SEQMODELS_CACHE", str(tmp_path / name))
        opened = presets.read_text_corpus([path])
        ready = prepare.prepare_text(opened, "bpe", 300, lambda line: None, executor)
        found.append(contents(tmp_path / name))
    assert found[0] == found[1]
    assert ready.data["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    whole = "".join(opened.splits["train"]())
    assert ready.tokenizer.decode(ready.train.slice(0, len(ready.train))) == whole
    for i in range(0, len(ready.train), 32 * 31):
        before = ready.tokenizer.decode(ready.train.slice(0, i))
        assert ready.train.line(i) == 1 + before.count("\n")


@pytest.mark.usefixtures("small")
def test_pairs_are_what_a_walk_finds(tmp_path: Path) -> None:
    """Keeps out two kinds of cleaning, one for the vocabulary and one for the tokens."""
    config = PrepareConfig(tokenizer="bytes", is_cleaned=True, max_tokens=10**6)
    opened = presets.read_parallel(write_pairs(tmp_path))
    ready = prepare.prepare(opened, config, lambda line: None)
    cleaner = clean.Cleaner(opened, config, clean.held_out_sources(opened, config))
    for split in corpus.SPLITS:
        made = [pair for _, pair in cleaner.pairs(split)]
        read = [(e.src[:-1], e.tgt[:-1], e.line) for e in getattr(ready, split)]
        encoded = ready.tokenizer.encode
        assert read == [(encoded(pair.src), encoded(pair.tgt), pair.line) for pair in made]
    counts = {key: n for key, n in cleaner.counts.items() if n}
    assert counts == {key: ready.data[key] for key in counts} != {}
    train = [pair for _, pair in cleaner.pairs("train")]
    assert ready.train.most_words == max(len(pair.src.split()) for pair in train)
    assert ready.train.longest == tuple(ready.train.lengths.max(0))


# --------------------------------------------------------------------------------------- Pieces


@pytest.mark.parametrize("piece", [1, 3, 7, 8, 10**6])
@pytest.mark.parametrize("ends", [("\n", "\r\n"), ("", "\n"), ("\r", "")])
def test_pieces_are_the_whole(
    piece: int, ends: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a line that is lost, doubled or shifted where files are cut, and another sum."""
    for name, end in zip("ab", ends, strict=True):
        text = "\n".join(f"{name} {i}\r" if i % 3 else "ü" * i for i in range(8)) + end
        (tmp_path / name).write_text("\ufeff" + text, "utf-8", newline="")
    whole = LinePairs(tmp_path / "a", tmp_path / "b")
    monkeypatch.setattr(corpus, "PIECE", piece)
    assert [pair for read in cut(whole) for pair in read()] == [*whole()]
    assert [pair.line for pair in whole()] == [*range(1, 9)]
    digests = hashlib.sha256(), hashlib.sha256()
    whole.update(digests)
    for side, digest in enumerate(digests):
        assert digest.hexdigest() == readers.sha256(pair[side] for pair in whole())


def test_a_long_book_is_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a book that is held in memory, and other tokens than those of the whole book."""
    monkeypatch.setattr(readers, "CHUNK_BYTES", 200)
    lines = [
        f"{i} said,{'  ' * (i % 3)}\n{chr(10) * (i % 4)}{'/' * (i % 5 == 0)}" for i in range(900)
    ]
    said = "".join(lines)
    start, end = "*** START OF THIS BOOK ***\n", "*** END OF THIS BOOK ***\n"
    (tmp_path / "a.txt").write_text(f"before\n{start}{said}{end}between\n{start}{said}")
    pieces = [*text_corpus.without_boilerplate(tmp_path / "a.txt")]
    assert "".join(pieces) == said * 2
    assert max(map(len, pieces)) < 600
    bpe = tokenizers.BPE.train([said], 400)
    ids = [i for piece in pieces for i in bpe.encode(piece)]
    assert ids == bpe.encode(said) * 2


def test_a_carriage_return_between_two_reads(tmp_path: Path) -> None:
    """Keeps out a checksum that depends on where a file is cut."""
    path, digest = tmp_path / "a", hashlib.sha256()
    path.write_bytes(b"x" * (2**20 - 1) + b"\r\ny\r")
    readers.update_by_lines(digest, path)
    assert digest.hexdigest() == readers.sha256(readers.lines(path))
    assert [*readers.line_starts(path, 1)] == [0, 2**20 + 1]


def test_a_fault_has_its_line(tmp_path: Path, two: Executor) -> None:
    """Keeps out a line that is counted from the beginning of a piece, and half a cache."""
    lines = [b"line %d" % i for i in range(60_000)]
    (tmp_path / "a.de").write_bytes(b"\n".join(lines))
    lines[50_000] = b"\xff"
    (tmp_path / "a.en").write_bytes(b"\n".join([b"the " + line for line in lines]))
    opened = presets.read_parallel([tmp_path / "a.de", tmp_path / "a.en"])
    for executor in (None, two):
        with pytest.raises(ValueError, match=r"a\.en, line 50001: not UTF-8 \(byte 0xff\)$"):
            prepare.prepare(opened, PrepareConfig(tokenizer="bytes"), lambda _: None, executor)
    assert not [*cache.cache_dir().glob("*.part-*")]


def test_marks_that_were_seen() -> None:
    """Keeps out a repeated pair that is missed, by any distance, or a first one that is not."""
    rng, seen, known = np.random.default_rng(1), Seen(), set[int]()
    for size in (5, 0, 40, 3, 3, 200, 1):
        marks = rng.integers(0, 300, size).astype(np.uint64)
        expected = []
        for value in marks.tolist():
            expected.append(value in known)
            known.add(value)
        assert seen.add(marks).tolist() == expected
    assert clean.mark(Pair("a", "bc")) != clean.mark(Pair("ab", "c"))
    assert clean.mark(Pair("ä", "b")) == 12118272474878158993


def test_few_shards_are_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a corpus of a thousand shards that runs out of files, or of memory."""
    monkeypatch.setattr(shards, "SHARD_PAIRS", 2)
    with shards.PairWriter(tmp_path / "x", np.uint8) as writer:
        writer.add(np.ones((300, 2), int), np.arange(600) % 200, np.arange(300), np.ones(300, int))
    before, made = len(psutil.Process().open_files()), TokenizedPairs(tmp_path / "x")
    assert [e.src[0] for e in made] == [2 * i % 200 for i in range(300)]
    assert len(psutil.Process().open_files()) - before < 100


# ------------------------------------------------------------------------------------ Processes


def test_few_pieces_are_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out seconds of starting processes for a corpus that is prepared in one."""
    monkeypatch.setattr(workers, "n_cores", lambda: 8)
    monkeypatch.setattr(workers, "start", lambda n: pytest.fail("started"))
    with Workers() as made:
        assert [*made.map(abs, range(-workers.FEW + 1, 0))] == [*range(workers.FEW - 1, 0, -1)]
        with pytest.raises(pytest.fail.Exception):
            next(made.map(abs, range(workers.FEW)))


def test_pieces_are_not_all_read_at_once() -> None:
    """Keeps out a whole corpus that waits in memory, and an executor of others that is closed."""
    read: list[int] = []

    def items() -> Iterator[int]:
        for i in range(10_000):
            read.append(i)
            yield i

    with ThreadPoolExecutor(2) as pool:
        with Workers(pool) as made:
            for i, found in enumerate(made.map(abs, items())):
                assert found == i
                assert len(read) <= i + workers.AHEAD
                if i > 200:
                    break
        assert pool.submit(abs, -1).result() == 1


PROGRAM = """
import os, sys, torch
from pathlib import Path
from seqmodels.data import corpus, encode, prepare, presets, readers
from seqmodels.utils import workers
from seqmodels.utils.terminal import guard
workers.n_cores = lambda: 2
if sys.argv[3:] == ["break"]:
    submit = workers.ProcessPoolExecutor.submit
    workers.ProcessPoolExecutor.submit = lambda self, work, *given: submit(self, os._exit, 3)
def run():
    opened = presets.read_parallel([Path(path) for path in sys.argv[1:3]])
    prepare.prepare(opened, prepare.PrepareConfig(tokenizer="bytes"))
guard("prepare", run)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left(number: signal.Signals, tmp_path: Path, cached: Path) -> None:
    """Keeps out processes that outlive the command, a half file, and workers that load torch."""
    for name in ("a.de", "a.en"):
        text = "".join(f"{name} {i} und noch etwas mehr als sonst\n" for i in range(1_200_000))
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-c", PROGRAM, *map(str, sorted(tmp_path.glob("a.*")))]
    process = subprocess.Popen(command, cwd=ROOT, env=os.environ, stderr=subprocess.PIPE)
    own, children = psutil.Process(process.pid), []
    while len(children) < 2 or not [*cached.glob("*/train.00000.ids")]:
        assert process.poll() is None
        children = [child for child in own.children() if "spawn_main" in " ".join(child.cmdline())]
        time.sleep(0.05)
    time.sleep(0.5)
    for child in children:
        assert not [m for m in child.memory_maps() if "libtorch" in m.path]
    process.send_signal(number)
    expected = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[number]
    assert process.wait(20) == expected
    psutil.wait_procs(children, 5)
    assert not [child for child in children if child.is_running()]
    if number != signal.SIGKILL:
        assert not [*cached.glob("*.part-*")]
        assert process.stderr.read().decode().count("\n") <= 1
    process.stderr.close()


@pytest.mark.slow
@pytest.mark.usefixtures("cached")
def test_a_process_that_ends_is_reported(tmp_path: Path) -> None:
    """Keeps out a traceback, or a wait without end, where the system ends a process."""
    for name in ("a.de", "a.en"):
        (tmp_path / name).write_text("".join(f"{name} {i}\n" for i in range(400_000)))
    command = [sys.executable, "-c", PROGRAM, *map(str, sorted(tmp_path.glob("a.*"))), "break"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("prepare: ")
    assert "memory" in done.stderr
    assert done.stderr.count("\n") == 1
