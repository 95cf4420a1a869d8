"""The cache: a folder for each combination of corpus, tokenizer and cleaning.

It is ~/.cache/seqmodels, or the folder SEQMODELS_CACHE, and can be removed at any time.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from filelock import lock_descriptor

from seqmodels.utils import files

MADE = "made.json"
"""File that is written last, with what `build` returns: a folder that has it is complete."""


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
            if not (folder / MADE).exists():
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
            if error.errno not in files.NO_LOCKS:
                raise
        yield


def build_atomically(folder: Path, build: Callable[[Path], dict[str, Any]]) -> None:
    """Let `build` fill a folder, and move it into place when it is complete."""
    for left in folder.parent.glob(f"{folder.name}.part-*"):  # from a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    part = Path(mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
    try:
        files.write(part / MADE, json.dumps(build(part)))
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def fingerprint(path: Path) -> str:
    """Return a key that changes whenever a file does, without reading it: where it is, and when.

    Raises ValueError if the file does not exist.
    """
    try:
        now = path.stat()
    except FileNotFoundError as fault:
        raise ValueError(f"{path} does not exist; give the path of a UTF-8 text file") from fault
    except OSError as fault:
        raise ValueError(f"{path} cannot be read: {fault.strerror}") from fault
    return f"{path.resolve()} {now.st_size} {now.st_mtime_ns} {now.st_ctime_ns} {now.st_ino}"
