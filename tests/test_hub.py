"""Tables through `datasets`: layouts of the hub on a local disk take the very path of a hub id."""

import json
from collections.abc import Callable
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seqmodels.data import corpus, hub
from seqmodels.data.corpus import SPLITS, Pair, ParallelCorpus, read_parallel, read_text_corpus

PAIRS = [(f"Satz {i}", f"sentence {i}") for i in range(400)]
PARTS = {"train": PAIRS[:300], "validation": PAIRS[300:350], "test": PAIRS[350:]}

pytestmark = pytest.mark.usefixtures("cached")


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
    """Read a split."""
    return [pair[:2] for _, pair in opened.pairs(split)]


@pytest.mark.parametrize("make", [flat, nested])
def test_layouts(make: Callable[..., pa.Table], tmp_path: Path) -> None:
    """Keeps out a reader that knows one of the hub's two layouts, or shuffles its files."""
    opened = read_parallel([write_dataset(tmp_path / "tiny", make)], ("de", None))
    assert (opened.name, opened.src_lang, opened.tgt_lang) == ("tiny", "de", "en")
    assert opened.size() == 300
    for split, pairs in zip(SPLITS, PARTS.values(), strict=True):
        assert read_split(opened, split) == pairs
    back = read_parallel([tmp_path / "tiny"], ("en", "de"))
    assert read_split(back, "test") == [(tgt, src) for src, tgt in PARTS["test"]]
    assert [pair.line for _, pair in opened.pairs("test")] == list(range(1, 51))


@pytest.mark.parametrize("ending", ["jsonl", "tsv"])
def test_folders_of_text_tables(ending: str, tmp_path: Path) -> None:
    """Keeps out pandas' notion that NA and null are missing and 12 is a number."""
    rows = [("NA", "null"), ("12", "1e3"), ("None", "nan"), *PAIRS[:5]]
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
    path.write_text("One day.\nAnother.\n" * 9)
    with pytest.raises(ValueError, match=r"One day\.; .* --column 1$"):
        read_text_corpus([path])
    everything = dict.fromkeys(SPLITS, (0.0, 1.0))
    opened = read_text_corpus([path], "1", shares=everything)
    assert "".join(opened.splits["train"]()) == path.read_text()
    path.write_text("text\nOne day.\n")
    opened = read_text_corpus([path], shares=everything)
    assert "".join(opened.splits["train"]()) == "One day.\n"


def test_missing_cells_are_blank(tmp_path: Path) -> None:
    """Keeps out None as a sentence."""
    pq.write_table(pa.table({"de": ["a", None], "en": [None, "b"]}), tmp_path / "x.parquet")
    pairs = [pair for _, pair in read_parallel([tmp_path / "x.parquet"]).pairs(*SPLITS)]
    assert pairs == [Pair("a", "", 1), Pair("", "b", 2)]


def test_streams(tmp_path: Path) -> None:
    """Keeps out a corpus that is fetched for its first rows, and rows that are not shuffled."""
    opened = read_parallel([write_dataset(tmp_path / "tiny", flat)], ("de", "en"), limit=40)
    train = read_split(opened, "train")
    assert len(train) == len(set(train)) == opened.size() == 40
    assert set(train) < set(PARTS["train"])
    assert train != sorted(train, key=PAIRS.index)
    assert read_split(opened, "test") == PARTS["test"]


def test_wrong_columns(tmp_path: Path) -> None:
    """Keeps out a direction or a column by chance."""
    path = tmp_path / "three.parquet"
    pq.write_table(flat(PAIRS[:9]).append_column("note", [["x"] * 9]), path)
    with pytest.raises(ValueError, match=r"'de' and 'en' and 'note'; .*--source and --target$"):
        read_parallel([path])
    with pytest.raises(ValueError, match=r"'fr'; .*three\.parquet has 'de' and 'en'"):
        read_parallel([path], ("de", "fr"))


def test_broken_files(tmp_path: Path) -> None:
    """Keeps out a traceback from a parser inside `datasets`, and the wrong file's name."""
    (tmp_path / "x.parquet").write_text("hello")
    with pytest.raises(ValueError, match=r"x\.parquet cannot be read: [^\n]*$"):
        read_parallel([tmp_path / "x.parquet"])
    other = write_dataset(tmp_path / "other", flat, {"test": PAIRS, "validation": PAIRS})
    with pytest.raises(ValueError, match=r"no rows to train on, but validation, test$"):
        read_parallel([other])
    (tmp_path / "rows" / "data").mkdir(parents=True)
    good, path = '{"de": "a", "en": "b"}\n', tmp_path / "rows" / "data" / "train-2.jsonl"
    (path.parent / "train-1.jsonl").write_text(good)
    for line in ('{"de": "c \\ud800", "en": "d"}', '{"de": "c", "en": ', '["c", "d"]'):
        path.write_text(f"{good}\n{line}\n{good}")
        for read in (lambda: read_parallel([tmp_path / "rows"]), lambda: read_text_corpus([path])):
            with pytest.raises(ValueError, match=r"train-2\.jsonl, line 3: [^\n]*$"):
                read()


def test_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out half a minute of waiting, and an error that does not say what else there is."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", False)
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
