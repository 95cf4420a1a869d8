"""Corpora by name: downloads, the Bible's split, the cache, and layouts of the hub on a disk."""

import hashlib
import io
import json
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.error import URLError

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub.errors import HfHubHTTPError

from seqmodels.data import corpus, hub, presets, readers
from seqmodels.data.corpus import SPLITS, Pair, ParallelCorpus, read_parallel, read_text_corpus
from seqmodels.utils import files

pytestmark = pytest.mark.usefixtures("cached")
Internet = Callable[..., None]


@pytest.fixture
def internet(monkeypatch: pytest.MonkeyPatch) -> Internet:
    """Return a function that sets what addresses answer, by their ends."""

    def answer(**contents: bytes) -> None:
        def urlopen(address: str, timeout: float) -> io.BytesIO:
            name = address.rpartition("/")[2].partition(".")[0].replace("-", "_")
            if name not in contents:
                raise URLError("no route")
            return io.BytesIO(contents[name])

        monkeypatch.setattr(presets, "urlopen", urlopen)

    return answer


def test_a_text_is_downloaded_once(internet: Internet, cached: Path, monkeypatch: Any) -> None:
    """Keeps out a download for every run, one that is not the text, and one without network."""
    names = b"emma\nolivia\nava\n" * 50
    preset = presets.TEXT["names"]._replace(sha256=hashlib.sha256(names).hexdigest())
    monkeypatch.setitem(presets.TEXT, "names", preset)
    internet()
    with pytest.raises(ValueError, match=r"^https://raw.*names\.txt .*no route.*SEQMODELS_DATA"):
        corpus.open_text(["names"])
    for content in (b"<html>Please log in.</html>", names[1:]):
        internet(names=content)
        with pytest.raises(ValueError, match=r"names\.txt returned something else; .*names"):
            corpus.open_text(["names"])
    internet(unknown=b"12345")
    monkeypatch.setattr(presets, "MAX_BYTES", 4)
    with pytest.raises(ValueError, match="something else; elsewhere"):  # not cut at the limit
        presets.download("https://x/unknown.txt", "unknown.txt", "elsewhere")
    monkeypatch.setattr(presets, "MAX_BYTES", 5)
    assert presets.download("https://x/unknown.txt", "u", "elsewhere").read_bytes() == b"12345"
    monkeypatch.setattr(presets, "MAX_BYTES", 2**26)
    internet(names=names)
    opened = corpus.open_text(["names"])
    assert opened.name == "names"
    assert "".join("".join(opened.splits[split]()) for split in SPLITS).encode() == names
    internet()
    assert corpus.open_text(["names"]).key == opened.key


def test_where_corpora_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a name that is not found, is not to be had offline, or is of another text."""
    monkeypatch.setattr(hub, "latest_revision", lambda name: None)
    assert presets.describe("my/own") == ""
    for name, preset in presets.PARALLEL.items():
        assert preset.source in presets.describe(name)
        assert preset.licence in presets.describe(name)
        with pytest.raises(ValueError, match=f"{preset.local}, and set SEQMODELS_DATA"):
            corpus.open_parallel([name])
    with pytest.raises(ValueError, match="TinyStories, and set SEQMODELS_DATA"):
        corpus.open_text(["tinystories"])
    monkeypatch.setenv("SEQMODELS_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="anki-en-fr is not downloaded"):
        corpus.open_parallel(["anki-en-fr"])
    (tmp_path / "anki").mkdir()
    (tmp_path / presets.PARALLEL["anki-en-fr"].local).write_text("Go.\tVa !\nHi.\tSalut !\n")
    opened = corpus.open_parallel(["anki-en-fr"], ("fr", None))
    assert (opened.name, opened.src_lang, opened.tgt_lang) == ("anki-en-fr", "fr", "en")
    pairs = [pair[:2] for _, pair in opened.pairs(*SPLITS)]
    assert sorted(pairs) == [("Salut !", "Hi."), ("Va !", "Go.")]
    (tmp_path / "bible").mkdir()  # which is split already
    for n, name in enumerate(f"{split}.{code}" for split in SPLITS for code in ("de", "en")):
        (tmp_path / "bible" / name).write_text(f"verse {n}\n")
    assert read_split(corpus.open_parallel(["bible"], ("en", "de")), "valid") == [
        ("verse 3", "verse 2")
    ]
    monkeypatch.delenv("SEQMODELS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert presets.cache_dir() == tmp_path / "xdg" / "seqmodels"
    for name, preset in (presets.PARALLEL | presets.TEXT).items():
        assert presets.checksum_warning(name, preset.sha256 or "0") == ""
        assert bool(presets.checksum_warning(name, "0")) == (preset.sha256 is not None)
    assert presets.checksum_warning("my/own", "0") == ""


TEST_VERSES = readers.read_lines(presets.BIBLE_TEST)
VERSES = {
    "train": [(f"GEN 90:{i}", f"Vers {i} ", f"verse {i}") for i in range(30)],
    "valid": [(f"{book} 1:2", f"{book} deutsch", book) for book in ("EST", "HOS", "GAL", "JAS")],
    "test": [(ref, f"{ref} deutsch", f"{ref} english") for ref in TEST_VERSES],
    "test_books": [
        (f"{book} 4:3", f"{book} deutsch", book) for book in ("RUT", "JON", "MRK", "PHP")
    ],
}


def write_ebible(splits: dict[str, list[tuple[str, str, str]]]) -> dict[str, bytes]:
    """Write verses as eBible has them: three files, with blank lines and ranges between verses."""
    lines = []
    for i, verse in enumerate(verse for split in splits.values() for verse in split):
        lines.append(verse)
        if i % 50 == 7:
            lines += [("GEN 99:1", "", "only one has it"), ("GEN 99:2", "nur einer", " ")]
        if i % 50 == 9:
            lines += [("GEN 99:3", "zwei", "two"), ("GEN 99:4", "<range>", "more")]
            lines += [("GEN 99:5", "", ""), ("GEN 99:6", "drei", "three")]
            lines += [("GEN 99:7", "mehr", "<range>")]
    names = [Path(path).name for path in presets.EBIBLE_FILES]
    sides = zip(names, zip(*lines, strict=True), strict=True)
    return {name: "".join(f"{line}\n" for line in side).encode() for name, side in sides}


@pytest.mark.parametrize("is_local", [False, True])
def test_the_bible_is_split(
    is_local: bool, internet: Internet, cached: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    """Keeps out a split that an outsider cannot make: from an address, or from three files."""
    contents = write_ebible(VERSES)
    if is_local:
        (tmp_path / "data" / "bible").mkdir(parents=True)
        for name, content in contents.items():
            (tmp_path / "data" / "bible" / name).write_bytes(content)
        monkeypatch.setenv("SEQMODELS_DATA", str(tmp_path / "data"))
        internet()
    else:
        internet(**{name[:-4].replace("-", "_"): content for name, content in contents.items()})
    opened = corpus.open_parallel(["bible"], ("de", None))
    for split in SPLITS:
        verses = [(de.strip(), en) for _, de, en in VERSES[split]]
        assert [pair[:2] for _, pair in opened.pairs(split)] == verses
    (books,) = cached.glob("*/test_books.en")
    assert books.read_text() == "RUT\nJON\nMRK\nPHP\n"


def test_another_bible(tmp_path: Path) -> None:
    """Keeps out another edition's split by the same name, and verses that are shifted."""
    paths = []
    for name, content in write_ebible(VERSES | {"test": VERSES["test"][1:]}).items():
        (tmp_path / name).write_bytes(content)
        paths.append(tmp_path / name)
    with pytest.raises(ValueError, match=f"^1 test verses, such as {TEST_VERSES[0]}"):
        corpus.split_bible(paths, tmp_path)
    paths[0].write_text("GEN 1:1\n")
    with pytest.raises(ValueError, match=r"vref\.txt, .* have 1, 738, 738 lines"):
        corpus.split_bible(paths, tmp_path)


def build(folder: Path) -> dict[str, Any]:
    (folder / "content").write_text("content")
    return {"n": 1}


def build_cached(key: str = "key", build: Callable[..., Any] = build, **more: Any) -> Path:
    return presets.cached([key], "building", build, **{"log": lambda line: None} | more)


def test_leftovers_of_a_killed_process() -> None:
    """Keeps out half a folder, and a disk that fills up with what killed processes had begun."""
    folder = build_cached()
    left = folder.with_name(f"{folder.name}.part-abc")
    left.mkdir()
    (left / "content").write_text("half")
    (folder / "made.json").unlink()
    (folder / "content").write_text("half")
    assert (build_cached() / "content").read_text() == "content"
    assert not left.exists()

    def full(_: Path) -> dict[str, Any]:
        raise OSError(28, "No space left on device")

    with pytest.raises(files.WriteError, match="No space left on device; set SEQMODELS_CACHE"):
        build_cached("other", full)
    assert [*folder.parent.glob("*.part-*")] == []


def test_two_at_once() -> None:
    """Keeps out two processes that write the same files; the second waits, and says so."""
    ready, go, messages = threading.Event(), threading.Event(), list[str]()

    def slow(folder: Path) -> dict[str, Any]:
        ready.set()
        go.wait(60)
        return build(folder)

    def log(line: str) -> None:
        messages.append(line)
        go.set()

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(build_cached, build=slow)
        assert ready.wait(60)
        assert (build_cached(build=pytest.fail, log=log) / "content").exists()
        other.result()
    assert ["waiting" in line for line in messages] == [True]


def test_fingerprint(tmp_path: Path) -> None:
    """Keeps out a changed file that is taken for the old one: even of the same size and time."""
    path = tmp_path / "a"
    path.write_text("a line\n")
    before, times = presets.fingerprint(path), path.stat()
    assert presets.fingerprint(path) == before
    time.sleep(0.02)
    path.write_text("b line\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert presets.fingerprint(path) != before


# ------------------------------------------------------------------------ Tables through `datasets`
PAIRS = [(f"Satz {i}", f"sentence {i}") for i in range(400)]
PARTS = {"train": PAIRS[:300], "validation": PAIRS[300:350], "test": PAIRS[350:]}


def flat(pairs: list[tuple[str, str]]) -> pa.Table:
    """Make a column for each language, as in bentrevett/multi30k."""
    return pa.table({"en": [tgt for _, tgt in pairs], "de": [src for src, _ in pairs]})


def nested(pairs: list[tuple[str, str]]) -> pa.Table:
    """Make one column of both, as in wmt/wmt14 and Helsinki-NLP/opus_books."""
    both = [{"de": src, "en": tgt} for src, tgt in pairs]
    return pa.table({"id": [str(i) for i in range(len(pairs))], "translation": both})


def write_dataset(folder: Path, make: Callable[..., pa.Table], parts: dict = PARTS) -> Path:
    """Write a folder as the hub has it: Parquet in data/, two files for each split."""
    (folder / "data").mkdir(parents=True)
    for split, pairs in parts.items():
        half = len(pairs) // 3
        for i, rows in enumerate((pairs[:half], pairs[half:])):
            pq.write_table(make(rows), folder / "data" / f"{split}-0000{i}-of-00002.parquet")
    return folder


def read_split(opened: ParallelCorpus, split: str) -> list[tuple[str, str]]:
    return [pair[:2] for _, pair in opened.pairs(split)]


@pytest.mark.parametrize("make", [flat, nested])
def test_layouts(make: Callable[..., pa.Table], tmp_path: Path) -> None:
    """Keeps out one of the hub's two layouts, files that are shuffled, and None as a sentence."""
    opened = read_parallel([write_dataset(tmp_path / "tiny", make)], ("de", None))
    assert (opened.name, opened.src_lang, opened.tgt_lang) == ("tiny", "de", "en")
    assert opened.size() == 300
    for split, pairs in zip(SPLITS, PARTS.values(), strict=True):
        assert read_split(opened, split) == pairs
    back = read_parallel([tmp_path / "tiny"], ("en", "de"))
    assert read_split(back, "test") == [(tgt, src) for src, tgt in PARTS["test"]]
    assert [pair.line for _, pair in opened.pairs("test")] == list(range(1, 51))
    pq.write_table(make([("a", None), (None, "b")]), tmp_path / "x.parquet")
    pairs = [
        pair for _, pair in read_parallel([tmp_path / "x.parquet"], ("de", "en")).pairs(*SPLITS)
    ]
    assert pairs == [Pair("a", "", 1), Pair("", "b", 2)]


@pytest.mark.parametrize("ending", ["jsonl", "tsv"])
def test_folders_of_text_tables(ending: str, tmp_path: Path) -> None:
    """Keeps out pandas' notion that NA and null are missing and 12 is a number."""
    rows = [("NA", "null"), ("12", "1e3"), ("None", "nan"), *PAIRS[:5]]
    if ending == "tsv":  # has no quotes: one does not join lines
        rows += [('"Hello', "Hallo"), ("World", 'Welt"')]
    for split in ("train", "val", "test"):
        if ending == "jsonl":
            text = "".join(json.dumps({"de": src, "en": tgt}) + "\n" for src, tgt in rows)
        else:
            text = "".join(f"{src}\t{tgt}\n" for src, tgt in [("de", "en"), *rows])
        (tmp_path / f"{split}.{ending}").write_text(text)
    opened = read_parallel([tmp_path], ("de", "en"))
    assert [read_split(opened, split) for split in SPLITS] == [rows] * 3


def test_tables_without_header(tmp_path: Path) -> None:
    """Keeps out the first row of each split as names of columns."""
    for split, pair in (("train", "a,b"), ("val", "c,d"), ("test", "e,f")):
        (tmp_path / f"{split}.csv").write_text(pair)
    with pytest.raises(ValueError, match=r" \| .; .* --source 1 --target 2$"):
        read_parallel([tmp_path])
    opened = read_parallel([tmp_path], ("2", "1"))
    assert [read_split(opened, split) for split in SPLITS] == [
        [("b", "a")], [("d", "c")], [("f", "e")],
    ]  # fmt: skip
    path = tmp_path / "x.tsv"
    path.write_text("Hi.\t嗨。\n" + "What?\t什么？\n" * 399)  # no names end like sentences
    opened = read_parallel([path])
    assert (opened.src_lang, opened.tgt_lang, opened.size()) == ("1", "2", 400)
    path.write_text("One day.\nAnother.\n" * 9)
    with pytest.raises(ValueError, match=r"One day\.; .* --column 1$"):
        read_text_corpus([path])
    everything = dict.fromkeys(SPLITS, (0.0, 1.0))
    opened = read_text_corpus([path], "1", shares=everything)
    assert "".join(opened.splits["train"]()) == path.read_text()
    path.write_text("text\nOne day.\n")
    opened = read_text_corpus([path], shares=everything)
    assert "".join(opened.splits["train"]()) == "One day.\n"


def test_streams(tmp_path: Path) -> None:
    """Keeps out a corpus that is fetched for its first rows, and rows that are not shuffled."""
    opened = read_parallel([write_dataset(tmp_path / "tiny", flat)], ("de", "en"), limit=40)
    train = read_split(opened, "train")
    assert len(train) == len(set(train)) == opened.size() == 40
    assert set(train) < set(PARTS["train"])
    assert set(train) != set(PARTS["train"][:40])
    assert read_split(opened, "test") == PARTS["test"]


def test_wrong_columns_and_broken_files(tmp_path: Path) -> None:
    """Keeps out a column by chance, a parser's traceback, and the wrong file's name."""
    path = tmp_path / "three.parquet"
    pq.write_table(flat(PAIRS[:9]).append_column("note", [["x"] * 9]), path)
    with pytest.raises(ValueError, match=r"'de' and 'en' and 'note'; .*--source and --target$"):
        read_parallel([path])
    with pytest.raises(ValueError, match=r"'fr'; .*three\.parquet has 'de' and 'en'"):
        read_parallel([path], ("de", "fr"))
    (tmp_path / "x.parquet").write_text("hello")
    with pytest.raises(ValueError, match=r"x\.parquet cannot be read: [^\n]*$"):
        read_parallel([tmp_path / "x.parquet"])
    other = write_dataset(tmp_path / "other", flat, {"test": PAIRS, "validation": PAIRS})
    with pytest.raises(ValueError, match=r"no rows to train on, but valid and test$"):
        read_parallel([other])
    (tmp_path / "rows" / "data").mkdir(parents=True)
    good, path = '{"de": "a", "en": "b"}\n', tmp_path / "rows" / "data" / "train-2.jsonl"
    (path.parent / "train-1.jsonl").write_text(good)
    for line in ('{"de": "c \\ud800", "en": "d"}', '{"de": "c", "en": ', '["c", "d"]'):
        path.write_text(f"{good}\n{line}\n{good}")
        for read in (
            lambda: read_split(read_parallel([tmp_path / "rows"]), "train"),
            lambda: [*read_text_corpus([path], "de").whole()],
        ):
            with pytest.raises(ValueError, match=r"train-2\.jsonl, line 3: [^\n]*$"):
                read()


def test_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out half a minute of waiting, and an error that does not say what else there is."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", False)
    down, gone = (HfHubHTTPError("no", response=Mock(status_code=n)) for n in (503, 404))
    monkeypatch.setattr(hub.HfApi, "dataset_info", Mock(side_effect=[down, gone]))
    assert hub.latest_revision("a/b") is None
    with pytest.raises(ValueError, match=r"^a/b is not a dataset on the hub: no"):
        hub.latest_revision("a/b")
    monkeypatch.setattr(hub.HfApi, "dataset_info", refuse)
    assert hub.latest_revision("a/b") is None
    assert datasets.config.HF_HUB_OFFLINE
    for name in ("bentrevett/multi30k", "wmt/wmt14:de-en"):
        with pytest.raises(ValueError, match=f"^{name} cannot be read: the hub cannot be reached"):
            read_parallel([name])


def test_a_hub_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a lost configuration or revision, and rows that are read another way."""
    folder, calls = write_dataset(tmp_path / "tiny", nested), []

    def load_dataset(path: str, name: str | None, revision: str) -> object:
        calls.append((path, name, revision))
        files = {split: [*map(str, folder.glob(f"data/{split}-*"))] for split in PARTS}
        return datasets.DatasetDict.from_parquet(files, cache_dir=str(tmp_path))

    monkeypatch.setattr(hub.datasets, "load_dataset", load_dataset)
    monkeypatch.setattr(hub, "latest_revision", lambda name: "abc")
    opened = corpus.open_parallel(["wmt14-de-en"], ("en", "de"))
    assert calls == [("wmt/wmt14", "de-en", "abc")]
    assert (opened.name, opened.src_lang) == ("wmt14-de-en", "en")
    assert sorted(read_split(opened, "test")) == sorted((t, s) for s, t in PARTS["test"])
