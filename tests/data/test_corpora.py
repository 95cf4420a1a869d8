"""Corpora by name, and the network, which `datasets` reads."""

from pathlib import Path
from typing import Any

import datasets
import pytest
from toys import read_pairs

from seqmodels.data import corpora
from seqmodels.data.text import open_pairs, open_text

pytestmark = pytest.mark.usefixtures("cached")


def refuse(*_: object, **__: object) -> None:
    try:
        raise OSError("no route to host")
    except OSError as error:
        raise RuntimeError("try again") from error


def test_a_text_is_downloaded(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "abc").write_text("To be\n" * 100)
    monkeypatch.setenv("SEQMODELS_DATA", str(tmp_path))  # which lacks it
    monkeypatch.setattr(datasets.DownloadManager, "download", lambda *_: tmp_path / "abc")
    opened = open_text(["shakespeare"])
    assert opened.name == "shakespeare"
    assert opened.splits["test"] is opened.splits["valid"]  # nanoGPT's protocol
    monkeypatch.setattr(datasets.DownloadManager, "download", refuse)
    with pytest.raises(ValueError, match=r"no route to host; without a network, .*SEQMODELS_DATA"):
        open_text(["shakespeare"])


def test_a_dataset_of_the_hub(monkeypatch: Any) -> None:
    calls = []

    def load_dataset(path: str, name: str | None, streaming: bool) -> datasets.DatasetDict:
        calls.append((path, name, streaming))
        rows = [{"translation": {"en": f"one {i}", "de": f"eins {i}"}} for i in range(50)]
        return datasets.DatasetDict(train=datasets.Dataset.from_list(rows))

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    opened = open_pairs(["wmt/wmt14:de-en"], ("de", None))
    assert open_pairs(["a/b"], ("en", None)).languages == ("en", "de")
    assert calls == [("wmt/wmt14", "de-en", False), ("a/b", None, False)]
    assert (opened.name, read_pairs(opened)[7]) == ("wmt14", ("eins 7", "one 7"))
    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(ValueError, match=r"^a/b cannot be read: no route to host; .*give files"):
        open_pairs(["a/b"])


def test_a_name_that_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"'bibel' .* \(did you mean 'bible'\?\) or OWNER/NAME"):
        corpora.check_name("bibel", corpora.PARALLEL)
    corpora.check_name("bible", corpora.PARALLEL)
    monkeypatch.chdir(Path(__file__).parent)
    corpora.check_name("test_corpora.py", corpora.PARALLEL)


def test_a_known_text_has_a_source_a_licence_and_a_checksum() -> None:
    for name, preset in (corpora.PARALLEL | corpora.TEXT).items():
        assert all(part in corpora.describe(name) for part in preset[:3])
        assert corpora.checksum_warning(name, preset.sha256) == ""
        assert "scores will differ" in corpora.checksum_warning(name, "0")
    assert corpora.describe("my/own") == corpora.checksum_warning("my/own", "0") == ""


def test_the_cache_follows_the_environment(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "~/xdg")
    assert corpora.cache_dir() != tmp_path / "xdg" / "seqmodels"
    monkeypatch.delenv("SEQMODELS_CACHE")
    assert corpora.cache_dir() == tmp_path / "xdg" / "seqmodels"
