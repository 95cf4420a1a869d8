"""Tables through `datasets`: hub layouts on a local disk take the very path of a hub id."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seqmodels.data import corpus, hub, prepare, presets, readers
from seqmodels.data.corpus import Pair, ParallelCorpus, read_parallel, read_text_corpus

DATA = Path(os.environ.get("SEQMODELS_DATA", Path(__file__).parents[1] / "../shared/data"))

PAIRS = [(f"Satz {i}", f"sentence {i}") for i in range(400)]
PARTS = {"train": PAIRS[:300], "validation": PAIRS[300:350], "test": PAIRS[350:]}


def flat(pairs: list[tuple[str, str]]) -> pa.Table:
    """Make a column for each language, as in bentrevett/multi30k."""
    return pa.table({"en": [tgt for _, tgt in pairs], "de": [src for src, _ in pairs]})


def nested(pairs: list[tuple[str, str]]) -> pa.Table:
    """Make one column of both, as in wmt/wmt14 and Helsinki-NLP/opus_books."""
    both = [{"de": src, "en": tgt} for src, tgt in pairs]
    return pa.table({"id": [str(i) for i in range(len(pairs))], "translation": both})


def layout(folder: Path, make, parts: dict[str, list[tuple[str, str]]] = PARTS) -> Path:
    """Write a folder as the hub has it: Parquet in data/, in pieces."""
    (folder / "data").mkdir(parents=True)
    for split, pairs in parts.items():
        half = len(pairs) // 2
        for i, piece in enumerate((pairs[:half], pairs[half:])):
            pq.write_table(make(piece), folder / "data" / f"{split}-0000{i}-of-00002.parquet")
    return folder


def texts(opened: ParallelCorpus, split: str) -> list[tuple[str, str]]:
    """Read a split."""
    return [pair[:2] for _, pair in opened.pairs(split)]


@pytest.mark.parametrize("make", [flat, nested])
def test_layouts(make, tmp_path: Path) -> None:
    """Keep out a reader that knows one of the hub's two layouts."""
    opened = read_parallel([layout(tmp_path / "tiny", make)], ("de", None))
    assert (opened.name, opened.src_lang, opened.tgt_lang, opened.size()) == (
        "tiny",
        "de",
        "en",
        300,
    )
    for split, known in zip(corpus.SPLITS, PARTS.values(), strict=True):
        assert texts(opened, split) == known
    back = read_parallel([tmp_path / "tiny"], ("en", "de"))
    assert texts(back, "test") == [(tgt, src) for src, tgt in PARTS["test"]]
    assert [pair.line for _, pair in opened.pairs("test")] == list(range(1, 51))


def test_configuration(tmp_path: Path) -> None:
    """Keep out a set whose README tells where its files are: opus_books has train alone."""
    folder = tmp_path / "books"
    (folder / "de-en").mkdir(parents=True)
    pq.write_table(nested(PAIRS), folder / "de-en" / "train-00000-of-00001.parquet")
    (folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: de-en\n  data_files:\n  - split: train\n"
        "    path: de-en/train-*\n---\n"
    )
    opened = read_parallel([folder])
    assert list(opened.splits) == ["train"]
    found = {split: texts(opened, split) for split in corpus.SPLITS}
    assert sorted(pair for part in found.values() for pair in part) == sorted(PAIRS)
    assert all(found.values())


@pytest.mark.parametrize("ending", ["jsonl", "csv", "tsv"])
def test_folders_of_text_tables(ending: str, tmp_path: Path) -> None:
    """Keep out pandas' notion that NA and null are missing and 12 is a number."""
    odd = [("NA", "null"), ("12", "1e3"), ("None", "nan")]
    for split in ("train", "val", "test"):
        rows = [*odd, *PAIRS[:5]]
        if ending == "jsonl":
            text = "".join(json.dumps({"de": src, "en": tgt}) + "\n" for src, tgt in rows)
        else:
            sep = {"csv": ",", "tsv": "\t"}[ending]
            text = "".join(f"{src}{sep}{tgt}\n" for src, tgt in [("de", "en"), *rows])
        (tmp_path / f"{split}.{ending}").write_text(text)
    opened = read_parallel([tmp_path], ("de", "en"))
    for split in corpus.SPLITS:
        assert texts(opened, split) == [*odd, *PAIRS[:5]]


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_folders_without_header(ending: str, tmp_path: Path) -> None:
    """Keep out the first pair of each split as names of columns."""
    for split, pair in (("train", ("a", "b")), ("val", ("c", "d")), ("test", ("e", "f"))):
        (tmp_path / f"{split}.{ending}").write_text({"csv": ",", "tsv": "\t"}[ending].join(pair))
    with pytest.raises(ValueError, match=rf"{ending} begins with . \| .; .*--source 1 --target 2$"):
        read_parallel([tmp_path])
    opened = read_parallel([tmp_path], ("2", "1"))
    assert [texts(opened, split) for split in corpus.SPLITS] == [
        [("b", "a")], [("d", "c")], [("f", "e")],
    ]  # fmt: skip
    assert opened.first_lines().split("\n") == [
        f"source: {tmp_path}, column 2, first line: b",
        f"target: {tmp_path}, column 1, first line: a",
    ]


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_texts_without_header(ending: str, tmp_path: Path) -> None:
    """Keep out a first document that is taken for the name of the only column, and lost."""
    path = tmp_path / f"x.{ending}"
    path.write_text("One day.\nAnother.\n" * 9)
    with pytest.raises(
        ValueError, match=r"begins with One day\.; .* not, give column numbers: --column 1$"
    ):
        corpus.read_text_corpus([path])
    everything = dict.fromkeys(corpus.SPLITS, (0.0, 1.0))
    read = corpus.read_text_corpus([path], "1", shares=everything).splits["train"]
    assert "".join(read()) == "One day.\nAnother.\n" * 9
    path.write_text("text\nOne day.\n")
    assert (
        "".join(corpus.read_text_corpus([path], shares=everything).splits["train"]())
        == "One day.\n"
    )


def test_empty_folder(tmp_path: Path) -> None:
    """Keep out the repr of a resolver, of a library within a library, for an empty folder."""
    with pytest.raises(ValueError, match=r"neither a table nor a folder with files: .*\.tsv, "):
        corpus.read_text_corpus([tmp_path])
    with pytest.raises(ValueError, match=r" has no train\.xx; needed: two, e\.g\. train\.de and"):
        read_parallel([tmp_path])


def test_nulls_are_blank(tmp_path: Path) -> None:
    """Keep out None as a sentence."""
    pq.write_table(pa.table({"de": ["a", None], "en": [None, "b"]}), tmp_path / "x.parquet")
    pairs = [pair for _, pair in read_parallel([tmp_path / "x.parquet"]).pairs(*corpus.SPLITS)]
    assert pairs == [Pair("a", "", 1), Pair("", "b", 2)]


def test_streams(tmp_path: Path) -> None:
    """Keep out a corpus that is fetched for its first rows, and rows that are not shuffled."""
    opened = read_parallel([layout(tmp_path / "tiny", flat)], ("de", "en"), limit=40)
    train = texts(opened, "train")
    assert len(train) == len(set(train)) == opened.size() == 40
    assert set(train) < set(PARTS["train"])
    assert train != sorted(train, key=PAIRS.index)
    assert texts(opened, "test") == PARTS["test"]
    assert texts(read_parallel([tmp_path / "tiny"], ("de", "en"), limit=40), "train") == train


@pytest.mark.parametrize(
    ("make", "languages", "fault"),
    [
        (flat, ("de", "fr"), r"target is 'fr'; .*tiny has 'de' and 'en'$"),
        (nested, ("fr", None), r"source is 'fr'; .*tiny has 'de' and 'en'$"),
        (
            lambda pairs: flat(pairs).append_column("note", [["x"] * len(pairs)]),
            (None, None),
            r"tiny has 'de' and 'en' and 'note'; name the two with --source and --target$",
        ),
        (
            lambda pairs: pa.table({"a": list(range(len(pairs))), "b": ["x"] * len(pairs)}),
            (None, None),
            r"tiny has fewer than two text columns: b$",
        ),
    ],
)
def test_wrong_columns(make, languages, fault: str, tmp_path: Path) -> None:
    """Keep out a direction or a column by chance."""
    with pytest.raises(ValueError, match=fault):
        read_parallel([layout(tmp_path / "tiny", make)], languages)


def test_broken_files(tmp_path: Path) -> None:
    """Keep out a traceback, or a page of them, from a parser inside `datasets`."""
    for name, text in (("x.parquet", "hello"), ("y.parquet", "")):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=rf"{name} cannot be read: [^\n]*$"):
            read_parallel([tmp_path / name])
    layout(tmp_path / "other", flat, {"test": PAIRS, "validation": PAIRS})
    with pytest.raises(ValueError, match=r"other has no rows to train on, but validation, test$"):
        read_parallel([tmp_path / "other"])


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"de": "c \\ud800", "en": "d"}', "not JSON: .*surrogates"),
        ('{"de": "c", "en": ', "not JSON"),
        ('["c", "d"]', "not an object"),
    ],
)
def test_a_broken_line(line: str, fault: str, tmp_path: Path) -> None:
    """Keep out a place that `datasets` counts from who knows where, and the wrong file's name."""
    (tmp_path / "data").mkdir()
    good = '{"de": "a", "en": "b"}\n'
    (tmp_path / "data" / "train-1.jsonl").write_text(good)
    (tmp_path / "data" / "train-2.jsonl").write_text(f"{good}\n{line}\n{good}")
    with pytest.raises(ValueError, match=rf"data/train-2\.jsonl, line 3: {fault}[^\n]*$"):
        read_parallel([tmp_path])
    with pytest.raises(ValueError, match=rf"train-2\.jsonl, line 3: {fault}[^\n]*$"):
        read_text_corpus([tmp_path / "data" / "train-2.jsonl"], "de")


# The hub, without network


@pytest.mark.parametrize("name", ["bentrevett/multi30k", "wmt/wmt14:de-en"])
def test_offline(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep out half a minute of waiting, and an error that does not say what else there is."""
    monkeypatch.setattr(hub, "latest_revision", lambda name: None)
    with pytest.raises(
        ValueError, match=rf"^{name} cannot be read: the hub cannot be reached, and"
    ):
        read_parallel([name])


def test_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep out a network library's error, and a second one that waits again."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub.HfApi, "dataset_info", refuse)
    assert hub.latest_revision("a/b") is None
    assert datasets.config.HF_HUB_OFFLINE


def test_unknown_on_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep out "no network" for a name with a typing error."""
    with pytest.raises(ValueError, match=r"^a b/c is not a dataset on the hub: "):
        hub.latest_revision("a b/c")
    for data in ("nothing", "./x/y", "a/b/c", "x/y.jsonl"):
        with pytest.raises(
            ValueError, match=r"does not exist; it is not a known corpus and not OWNER/NAME"
        ):
            read_parallel([data])


def test_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep out a bare "Not a directory" for a home that cannot be written to."""
    (tmp_path / "home").write_text("")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "home" / "datasets"))
    with pytest.raises(
        ValueError, match=r"the cache .*home.* cannot be written to: Not a directory; set HF"
    ):
        read_parallel([layout(tmp_path / "tiny", flat)])


# Presets


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """Serve a folder on this machine alone; return its address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    (tmp_path / "served").mkdir()
    handler = partial(Quiet, directory=str(tmp_path / "served"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def ebible(folder: Path, parts: dict[str, list[tuple[str, str, str]]]) -> list[Path]:
    """Write verses as eBible has them: three files, with blank lines and ranges between verses."""
    lines = []
    for i, verse in enumerate(verse for part in parts.values() for verse in part):
        lines.append(verse)
        if i % 50 == 7:
            lines += [("GEN 99:1", "", "only one has it"), ("GEN 99:2", "nur einer", " ")]
        if i % 50 == 9:
            lines += [("GEN 99:3", "zwei", "two"), ("GEN 99:4", "<range>", "more"), verse[:0]]
    lines = [line or ("GEN 99:5", "", "") for line in lines]
    for path, side in zip(presets.EBIBLE_FILES, zip(*lines, strict=True), strict=True):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("".join(f"{line}\n" for line in side), "utf-8", newline="\n")
    return [folder / path for path in presets.EBIBLE_FILES]


TESTED = readers.read_lines(presets.BIBLE_TEST)
VERSES = {
    "train": [(f"GEN 90:{i}", f"Vers {i} ", f"verse {i}") for i in range(30)],
    "valid": [("EST 1:1", "Ahasveros", "Ahasuerus"), ("JAS 1:2", "Freude", "joy")],
    "test": [(ref, f"{ref} deutsch", f"{ref} english") for ref in TESTED],
    "test_books": [("RUT 1:1", "Richter", "judges"), ("PHP 4:23", "Gnade", "grace")],
}


def test_the_bible_from_an_empty_cache(
    served: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep out a split that an outsider cannot make: from an address, or from three files."""
    known = presets.PARALLEL["bible"]._replace(source=served)
    monkeypatch.setitem(presets.PARALLEL, "bible", known)
    made = ebible(tmp_path / "served", VERSES)
    for cache, where in (("one", ""), ("two", tmp_path / "data")):
        monkeypatch.setenv("SEQMODELS_CACHE", str(tmp_path / cache))
        monkeypatch.setenv("SEQMODELS_DATA", str(where))
        if where:
            (where / "bible").mkdir(parents=True)
            for path in made:
                path.rename(where / "bible" / path.name)
        opened = corpus.open_parallel(["bible"], ("de", None))
        for split in corpus.SPLITS:
            verses = [(de.strip(), en) for _, de, en in VERSES[split]]
            assert texts(opened, split) == verses
        (books,) = (tmp_path / cache).glob("*/test_books.en")
        assert books.read_text() == "judges\ngrace\n"
        assert opened.origins[0].startswith(str(tmp_path / cache))


def test_another_bible(tmp_path: Path) -> None:
    """Keep out another edition's split by the same name, and verses that are shifted."""
    paths = ebible(tmp_path, VERSES | {"test": VERSES["test"][1:]})
    with pytest.raises(ValueError, match=r"^1 test verses, such as GEN 10:24, are not in bot"):
        corpus.split_bible(paths, tmp_path)
    paths[0].write_text("GEN 1:1\n")
    with pytest.raises(ValueError, match=r"vref\.txt, .* have 1, 708, 708 lines; each needs one "):
        corpus.split_bible(paths, tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real text at {DATA}")
def test_the_very_split_of_the_bible(tmp_path: Path) -> None:
    """Keep out another split than that of the results: order, ranges, bins, every byte."""
    named = {
        "train": [f"GEN 90:{i}" for i in range(28_944)], "valid": ["HOS 1:1"] * 621,
        "test": TESTED, "test_books": ["MRK 1:1"] * 915,
    }  # fmt: skip
    sides = {
        split: [readers.read_lines(DATA / "bible" / f"{split}.{code}") for code in ("de", "en")]
        for split in named
    }
    assert readers.read_lines(DATA / "bible" / "test.refs") == TESTED
    paths = ebible(tmp_path, {s: [*zip(named[s], *sides[s], strict=True)] for s in named})
    assert corpus.split_bible(paths, tmp_path) == {
        split: len(refs) for split, refs in named.items()
    }
    listed = dict(
        reversed(line.split("  ")) for line in readers.read_lines(DATA / "SHA256SUMS") if line
    )
    for split in named:
        for code in ("de", "en"):
            made = hashlib.sha256((tmp_path / f"{split}.{code}").read_bytes()).hexdigest()
            assert made == listed[f"bible/{split}.{code}"]
    n_words = [len(line.split()) for line in sides["test"][0]]
    bins = Counter(min(6, (n - 1) // 10) for n in n_words)
    assert bins == {**dict.fromkeys(range(6), 100), 6: 10}
    assert not {ref[:3] for ref in TESTED} & set(presets.BIBLE_BOOKS)


@pytest.mark.parametrize("name", [n for n, p in presets.PARALLEL.items() if p.is_on_hub])
def test_pairs_of_the_hub_from_an_empty_cache(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep out a corpus by name whose layout on the hub is not read, or not in this direction."""
    preset = presets.PARALLEL[name]
    other = "fr" if "fr" in name else "de"
    if name == "multi30k":
        (tmp_path / "set").mkdir()
        for split, pairs in zip(("train", "val", "test"), PARTS.values(), strict=True):
            rows = "".join(json.dumps({"en": en, "de": de}) + "\n" for de, en in pairs)
            (tmp_path / "set" / f"{split}.jsonl").write_text(rows)
    else:
        parts = {"train": PARTS["train"]} if "books" in name else PARTS
        (tmp_path / "set").mkdir()
        for split, pairs in parts.items():
            both = [{other: src, "en": tgt} for src, tgt in pairs]
            pq.write_table(pa.table({"translation": both}), tmp_path / "set" / f"{split}.parquet")
    monkeypatch.delenv("SEQMODELS_DATA", raising=False)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    source = str(tmp_path / "set")
    monkeypatch.setitem(presets.PARALLEL, name, preset._replace(source=source))
    opened = corpus.open_parallel([name], (other, "en"))
    assert (opened.name, opened.src_lang, opened.tgt_lang) == (name, other, "en")
    train = {pair[:2] for _, pair in opened.pairs("train")}
    assert train <= set(PAIRS)
    assert len(train) > 250
    assert f"source: {source}, column {other}, first line: Satz 0" in opened.first_lines()


def test_texts_from_an_empty_cache(
    served: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep out a text that is fetched each time, or taken whatever comes."""
    monkeypatch.delenv("SEQMODELS_DATA", raising=False)
    monkeypatch.setenv("SEQMODELS_CACHE", str(tmp_path / "cache"))
    book = "*** START OF THE BOOK ***\nOnce.\n*** END OF THE BOOK ***\n"
    for name, said in (("shakespeare", "Ay me!\n"), ("names", "emma\n"), ("war-and-peace", book)):
        path = tmp_path / "served" / name
        path.write_text(said)
        sha256 = hashlib.sha256(said.encode()).hexdigest()
        known = presets.TEXT[name]._replace(source=f"{served}{name}", sha256=sha256)
        monkeypatch.setitem(presets.TEXT, name, known)
        opened = corpus.open_text([name])
        path.unlink()
        assert corpus.open_text([name]).key == opened.key
        body = "Once.\n" if name == "war-and-peace" else said
        parts = {split: "".join(opened.splits[split]()) for split in ("train", "test")}
        assert "".join(parts.values()) == body
        (tmp_path / "cache" / f"{name}.txt").unlink()
        for other, why in (
            ("<html>", "returned something else"),
            (None, "cannot be fetched: .*404"),
        ):
            path.write_text(other) if other else path.unlink()
            with pytest.raises(
                ValueError, match=rf"{name} {why}.*; to use {name} without a network"
            ):
                corpus.open_text([name])


def test_presets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep out a name that is not found on disk, and one without a way to have it offline."""
    monkeypatch.setattr(hub, "latest_revision", lambda name: None)
    monkeypatch.delenv("SEQMODELS_DATA", raising=False)
    assert presets.describe("my/own") == ""
    for name, preset in presets.PARALLEL.items():
        assert f"Source: {preset.source}. Licence: {preset.licence}.\n" in presets.describe(name)
        with pytest.raises(
            ValueError, match=rf"put it into a folder as {preset.local}, and set SE"
        ):
            corpus.open_parallel([name])
    layout(tmp_path / "wmt14-de-en", nested)
    monkeypatch.setenv("SEQMODELS_DATA", str(tmp_path))
    opened = corpus.open_parallel(["wmt14-de-en"])
    assert (opened.name, opened.size()) == ("wmt14-de-en", 300)
    assert texts(opened, "test") == PARTS["test"]


def test_a_preset_of_another_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep out another text under a known name, without a word."""
    known = presets.PARALLEL["multi30k"].sha256 or ""
    assert (
        presets.checksum_warning("multi30k", known) == presets.checksum_warning("my/own", "0") == ""
    )
    assert presets.checksum_warning("wmt14-de-en", "0") == ""
    assert presets.checksum_warning("multi30k", "0").startswith(
        "multi30k is not the text known by th"
    )
    monkeypatch.setenv("SEQMODELS_DATA", str(tmp_path))
    (tmp_path / "anki").mkdir()
    (tmp_path / presets.PARALLEL["anki-en-fr"].local).write_text("Go.\tVa !\nHi.\tSalut !\n")
    opened = corpus.open_parallel(["anki-en-fr"], ("fr", None))
    assert (opened.name, opened.src_lang, opened.tgt_lang) == ("anki-en-fr", "fr", "en")
    found = [pair.src for _, pair in opened.pairs(*corpus.SPLITS)]
    assert sorted(found) == ["Salut !", "Va !"]


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real text at {DATA}")
def test_checksums_of_presets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep out a checksum that is not of the text whose scores are in the results."""
    monkeypatch.setenv("SEQMODELS_DATA", str(DATA))
    for name in ("multi30k", "bible"):
        for languages in (("de", "en"), ("en", "de")):
            opened = corpus.open_parallel([name], languages)
            sha256 = prepare.scan_pairs(opened, prepare.PrepareConfig(), Counter())[0]
            assert presets.checksum_warning(name, sha256) == ""
