"""The cache: complete folders, one process at a time, changed files."""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from seqmodels.data import cache
from seqmodels.utils import files

pytestmark = pytest.mark.usefixtures("cached")


def build(folder: Path) -> dict[str, Any]:
    (folder / "content").write_text("content")
    return {"n": 1}


def build_cached(key: str = "key", build: Callable[..., Any] = build, **more: Any) -> Path:
    return cache.cached([key], "building", build, **{"log": lambda line: None} | more)


def test_what_a_killed_process_left_is_built_anew() -> None:
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


def test_the_second_of_two_processes_waits() -> None:
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


def test_a_changed_file_of_the_same_size_and_time(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("a line\n")
    before, times = cache.fingerprint(path), path.stat()
    assert cache.fingerprint(path) == before
    time.sleep(0.02)
    path.write_text("b line\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert cache.fingerprint(path) != before


def test_the_cache_follows_the_environment(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.cache_dir() != tmp_path / "xdg" / "seqmodels"
    monkeypatch.delenv("SEQMODELS_CACHE")
    assert cache.cache_dir() == tmp_path / "xdg" / "seqmodels"
