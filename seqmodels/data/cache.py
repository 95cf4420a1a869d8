"""The cache of prepared corpora: ~/.cache/seqmodels, or the folder that SEQMODELS_CACHE names.

It can be removed at any time.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

from seqmodels.data.text import open_readable
from seqmodels.utils import files

FACTS_FILE = "made.json"
"""File that is written last, with what `build` returns: a folder that has it is complete."""
END_BYTES = 2**16
"""Bytes at the beginning and at the end of a file whose checksum is part of its fingerprint."""


def cache_dir() -> Path:
    """Return the folder of the cache."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "seqmodels"
    try:
        return Path(os.environ.get("SEQMODELS_CACHE") or default).expanduser()
    except RuntimeError as fault:
        raise ValueError("there is no home folder; set SEQMODELS_CACHE to a folder") from fault


def ensure_dir(folder: Path) -> Path:
    """Return a folder to write to, created if need be; raises WriteError if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError as fault:
        raise files.WriteError(
            f"{folder} cannot be written to: {fault.strerror}; set SEQMODELS_CACHE to another "
            "folder"
        ) from fault
    return folder


def fingerprint(path: Path) -> str:
    """Return what changes whenever a file does: path, size, times, inode, checksum of both ends.

    Raises ValueError as `open_readable` does.
    """
    with open_readable(path) as file:
        stat = path.stat()
        ends = file.read(END_BYTES)
        file.seek(max(0, stat.st_size - END_BYTES))
        ends += file.read(END_BYTES)
    times = f"{stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}"
    return f"{path.resolve()} {stat.st_size} {times} {hashlib.sha256(ends).hexdigest()}"


def cached(
    key: Sequence[object],
    message: str,
    build: Callable[[Path], Mapping[str, object]],
    log: Callable[[str], None] = print,
) -> Path:
    """Return the folder for what depends only on `key`; `build` fills it if it is missing.

    One of several processes builds it, and the others wait. It is moved into place when it is
    complete. Raises WriteError.
    """
    folder = ensure_dir(cache_dir()) / hashlib.sha256(json.dumps(key).encode()).hexdigest()[:24]
    lock = f"{folder.name}.lock"
    if files.is_held(folder.parent, lock):
        log(f"another process is preparing {folder}; waiting for it")
    with files.Lock(folder.parent, lock, math.inf):
        if not (folder / FACTS_FILE).exists():
            log(f"{message}; cached in {folder}")
            build_folder(folder, build)
    return folder


def build_folder(folder: Path, build: Callable[[Path], Mapping[str, object]]) -> None:
    """Fill a folder beside this one, and move it into place when it is complete."""
    prefix = f"{folder.name}.part-"
    for left in folder.parent.glob(f"{prefix}*"):  # by a killed process
        shutil.rmtree(left, ignore_errors=True)
    try:
        with TemporaryDirectory(prefix=prefix, dir=folder.parent) as part:
            files.write(Path(part, FACTS_FILE), json.dumps(build(Path(part))))
            shutil.rmtree(folder, ignore_errors=True)
            Path(part).rename(folder)
    except OSError as fault:
        raise files.WriteError(
            f"{folder} could not be written: {fault.strerror or fault}; set SEQMODELS_CACHE "
            "to another folder"
        ) from fault
