"""Corpora by name: where they are found, and downloads."""

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from seqmodels.data import SPLITS, corpora, hub
from seqmodels.data.running_text import open_text
from seqmodels.data.splits import open_parallel

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

        monkeypatch.setattr(corpora, "urlopen", urlopen)

    return answer


def test_a_text_is_downloaded_once(internet: Internet, cached: Path, monkeypatch: Any) -> None:
    names = b"emma\nolivia\nava\n" * 50
    preset = corpora.TEXT["names"]._replace(sha256=hashlib.sha256(names).hexdigest())
    monkeypatch.setitem(corpora.TEXT, "names", preset)
    internet()
    with pytest.raises(ValueError, match=r"^https://raw.*names\.txt .*no route.*SEQMODELS_DATA"):
        open_text(["names"])
    for content in (b"<html>Please log in.</html>", names[1:]):
        internet(names=content)
        with pytest.raises(ValueError, match=r"names\.txt returned something else; .*names"):
            open_text(["names"])
    internet(unknown=b"12345")
    monkeypatch.setattr(corpora, "MAX_BYTES", 4)
    with pytest.raises(ValueError, match="something else; elsewhere"):  # not cut at the limit
        corpora.download("https://x/unknown.txt", "unknown.txt", "elsewhere")
    monkeypatch.setattr(corpora, "MAX_BYTES", 5)
    assert corpora.download("https://x/unknown.txt", "u", "elsewhere").read_bytes() == b"12345"
    monkeypatch.setattr(corpora, "MAX_BYTES", 2**26)
    internet(names=names)
    opened = open_text(["names"])
    assert opened.name == "names"
    assert "".join("".join(opened.splits[split]()) for split in SPLITS).encode() == names
    internet()
    assert open_text(["names"]).key == opened.key


def test_without_a_network_each_name_says_where_to_put_it(monkeypatch: Any) -> None:
    monkeypatch.setattr(hub, "latest_revision", lambda name: None)
    for name, preset in corpora.PARALLEL.items():
        with pytest.raises(ValueError, match=f"{preset.local}, and set SEQMODELS_DATA"):
            open_parallel([name])
    with pytest.raises(ValueError, match="TinyStories, and set SEQMODELS_DATA"):
        open_text(["tinystories"])


def test_a_known_text_has_a_source_a_licence_and_a_checksum() -> None:
    for name, preset in (corpora.PARALLEL | corpora.TEXT).items():
        assert preset.source in corpora.describe(name)
        assert preset.licence in corpora.describe(name)
        assert corpora.checksum_warning(name, preset.sha256 or "0") == ""
        assert bool(corpora.checksum_warning(name, "0")) == (preset.sha256 is not None)
    assert corpora.describe("my/own") == corpora.checksum_warning("my/own", "0") == ""
