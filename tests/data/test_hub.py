"""Parquet and datasets of the hub, in its layouts on a disk."""

from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub.errors import RepositoryNotFoundError
from toys import read_pairs

from seqmodels.data import SPLITS, hub
from seqmodels.data.splits import Pair, open_parallel, read_parallel

pytestmark = pytest.mark.usefixtures("cached")


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


@pytest.mark.parametrize("make", [flat, nested])
def test_both_layouts_of_the_hub(make: Callable[..., pa.Table], tmp_path: Path) -> None:
    opened = read_parallel([write_dataset(tmp_path / "tiny", make)], ("de", None))
    assert (opened.name, opened.src_lang, opened.tgt_lang) == ("tiny", "de", "en")
    for split, pairs in zip(SPLITS, PARTS.values(), strict=True):
        assert read_pairs(opened, split) == pairs
    back = read_parallel([tmp_path / "tiny"], ("en", "de"))
    assert read_pairs(back, "test") == [(tgt, src) for src, tgt in PARTS["test"]]
    pq.write_table(make([("a", None), (None, "b")]), tmp_path / "x.parquet")
    pairs = read_pairs(read_parallel([tmp_path / "x.parquet"], ("de", "en")))
    assert pairs == [Pair("a", ""), Pair("", "b")]


def test_a_limit_draws_rows_of_train(tmp_path: Path) -> None:
    opened = read_parallel([write_dataset(tmp_path / "tiny", flat)], ("de", "en"), limit=40)
    train = read_pairs(opened, "train")
    assert len(train) == len(set(train)) == 40
    assert set(train) < set(PARTS["train"])
    assert set(train) != set(PARTS["train"][:40])
    assert read_pairs(opened, "test") == PARTS["test"]


def test_wrong_columns_and_broken_files(tmp_path: Path) -> None:
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


def test_without_a_network_there_is_no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", False)
    gone = RepositoryNotFoundError("no", response=Mock(status_code=404))
    monkeypatch.setattr(hub.HfApi, "dataset_info", Mock(side_effect=gone))
    with pytest.raises(ValueError, match=r"^a/b cannot be read: no; without a network"):
        read_parallel(["a/b"])
    assert not datasets.config.HF_HUB_OFFLINE
    monkeypatch.setattr(hub.HfApi, "dataset_info", refuse)
    assert hub.latest_revision("a/b") is None
    assert datasets.config.HF_HUB_OFFLINE
    for name, hint in (("a/b", "give text"), ("wmt/wmt14:de-en", "put it into a folder as wmt14")):
        with pytest.raises(
            ValueError, match=f"^{name} cannot be read: .* without a network, {hint}"
        ):
            read_parallel([name])


def test_a_hub_id_has_a_configuration_and_a_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, calls = write_dataset(tmp_path / "tiny", nested), []

    def load_dataset(path: str, name: str | None, revision: str) -> object:
        calls.append((path, name, revision))
        files = {split: [*map(str, folder.glob(f"data/{split}-*"))] for split in PARTS}
        return datasets.DatasetDict.from_parquet(files, cache_dir=str(tmp_path))

    monkeypatch.setattr(hub.datasets, "load_dataset", load_dataset)
    monkeypatch.setattr(hub, "latest_revision", lambda name: "abc")
    opened = open_parallel(["wmt14-de-en"], ("en", "de"))
    assert calls == [("wmt/wmt14", "de-en", "abc")]
    assert (opened.name, opened.src_lang) == ("wmt14-de-en", "en")
    assert sorted(read_pairs(opened, "test")) == sorted((t, s) for s, t in PARTS["test"])
