"""The cache: folders of prepared corpora, and the checksums of large files.

Each combination of corpus, tokenizer and cleaning has a folder in ~/.cache/seqmodels, or in the
folder SEQMODELS_CACHE. It can be removed at any time.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from filelock import lock_descriptor

from seqmodels.utils import files
from seqmodels.utils.lock import NO_LOCKS

# --------------------------------------------------------------------------------- The folders


def cached(
    key: Sequence[Any],
    message: str,
    build: Callable[[Path], dict[str, Any]],
    log: Callable[[str], None] = print,
) -> Path:
    """Return the folder for what depends only on `key`; `build` fills it if it is missing."""
    folder = ensure_dir(cache_dir()) / hashlib.sha256(json.dumps(key).encode()).hexdigest()[:24]
    try:
        with exclusive(folder, log):
            if not is_complete(folder):
                log(f"{message}; cached in {folder}")
                build_atomically(folder, build)
    except OSError as fault:
        raise files.WriteError(
            f"{folder} could not be written: {fault.strerror or fault}; set SEQMODELS_CACHE "
            "to another folder"
        ) from fault
    return folder


def cache_dir() -> Path:
    """Return the folder of the cache."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "seqmodels"
    try:
        return Path(os.environ.get("SEQMODELS_CACHE") or default).expanduser()
    except RuntimeError as fault:
        raise ValueError("there is no home folder; set SEQMODELS_CACHE to a folder") from fault


def ensure_dir(folder: Path) -> Path:
    """Return a folder, created if it does not exist; raises WriteError if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise files.WriteError(
            f"{folder} cannot be created: {fault.strerror}; set SEQMODELS_CACHE to another folder"
        ) from fault
    return folder


@contextmanager
def exclusive(folder: Path, log: Callable[[str], None]) -> Iterator[None]:
    """Wait until no other process prepares the same, if the file system has locks."""
    with open(folder.with_suffix(".lock"), "w") as lock:
        try:
            if not lock_descriptor(lock.fileno(), blocking=False):
                log(f"another process is preparing {folder}; waiting for it")
                lock_descriptor(lock.fileno())
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
        yield


def is_complete(folder: Path) -> bool:
    """Return whether a folder is complete and unchanged."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        sums = files.read_json(folder / "made.json")["sha256"]
        return all(file_sha256(folder / name) == known for name, known in sums.items())
    return False


def build_atomically(folder: Path, build: Callable[[Path], dict[str, Any]]) -> None:
    """Let `build` fill a folder, add its checksums, and move it into place when complete."""
    for left in folder.parent.glob(f"{folder.name}.part-*"):  # from a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    part = Path(mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
    try:
        data = build(part)
        sums = {file.name: file_sha256(file) for file in sorted(part.iterdir())}
        files.write(part / "made.json", json.dumps({"data": data, "sha256": sums}))
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
        for name, sha256 in sums.items():
            remember(folder / name, stamp(folder / name), {"sha256": sha256})
    finally:
        shutil.rmtree(part, ignore_errors=True)


# ---------------------------------------------------------------------------------- Checksums

LARGE_BYTES = 2**24
"""Size from which the checksum of a file is kept: reading a terabyte takes minutes."""
SETTLED_S = 2.0
"""How old the last change must be: another one within a tick of the clock would not be noticed."""


def stamp(path: Path) -> list[int]:
    """Return what changes with a file: its size, times and inode; empty if it is not large.

    Raises OSError if it does not exist.
    """
    now = os.stat(path)
    is_large = stat.S_ISREG(now.st_mode) and now.st_size >= LARGE_BYTES
    return [now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino] if is_large else []


def of_file(path: Path, name: str, find: Callable[[], Any]) -> Any:
    """Return what `find` finds out about a file, a JSON value; of a large one it is kept by name.

    It is found out anew if the stamp differs. Raises what `find` raises.
    """
    known, before = dict[str, Any](), list[Any]()
    with suppress(OSError, ValueError, KeyError, TypeError):
        before = stamp(path)
        kept = files.read_json(_place(path)) if before else {}
        known = dict(kept["known"]) if kept and kept["stamp"] == before else {}
    if name not in known:
        known[name] = find()
        if before and time.time() - before[1] / 1e9 > SETTLED_S:
            remember(path, before, known)
    return known[name]


def remember(path: Path, before: Sequence[int], known: Mapping[str, Any]) -> None:
    """Keep what is known of a large file, unless it has changed since the stamp was taken.

    What cannot be kept is found out again.
    """
    with suppress(OSError, ValueError):
        if before and before == stamp(path):
            content = {"path": str(path), "stamp": before, "known": known}
            ensure_dir(_place(path).parent)
            files.write(_place(path), json.dumps(content))


def _place(path: Path) -> Path:
    """Return where what is known of a file is kept."""
    name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:24]
    return cache_dir() / "files" / f"{name}.json"


def file_sha256(path: Path) -> str:
    """Return a file's checksum."""

    def find() -> str:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    return str(of_file(path, "sha256", find))
