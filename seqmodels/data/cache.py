"""The cache of prepared corpora: ~/.cache/seqmodels, or the folder that SEQMODELS_CACHE names.

It can be removed at any time.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from seqmodels.utils import files

FACTS_FILE = "made.json"
"""File that is written last, with what `build` returns: a folder that has it is complete."""


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


def fingerprint(path: Path) -> str:
    """Return what changes whenever a file does: its path, size, times and inode.

    Raises ValueError if the file cannot be read.
    """
    try:
        with files.open_regular(path) as file:
            stat = os.fstat(file.fileno())
    except FileNotFoundError as fault:
        raise ValueError(f"{path} does not exist; give the path of a UTF-8 text file") from fault
    except OSError as fault:
        raise ValueError(f"{path} cannot be read: {fault.strerror}") from fault
    return f"{path.resolve()} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}"


def cached(
    key: Sequence[Any],
    message: str,
    build: Callable[[Path], dict[str, Any]],
    log: Callable[[str], None] = print,
) -> Path:
    """Return the folder for what depends only on `key`; `build` fills it if it is missing.

    One of several processes builds it, and the others wait. It is moved into place when it is
    complete. Raises WriteError.
    """
    from filelock import FileLock, Timeout  # takes longer to import than to print help

    folder = ensure_dir(cache_dir()) / hashlib.sha256(json.dumps(key).encode()).hexdigest()[:24]
    lock = FileLock(folder.with_suffix(".lock"))
    try:
        try:
            lock.acquire(blocking=False)
        except Timeout:
            log(f"another process is preparing {folder}; waiting for it")
            lock.acquire()
        except OSError as fault:  # on a file system without locks, each process prepares it
            if fault.errno not in files.NO_LOCKS:
                raise
        if not (folder / FACTS_FILE).exists():
            log(f"{message}; cached in {folder}")
            build_folder(folder, build)
    except OSError as fault:
        raise files.WriteError(
            f"{folder} could not be written: {fault.strerror or fault}; set SEQMODELS_CACHE "
            "to another folder"
        ) from fault
    finally:
        lock.release()
    return folder


def build_folder(folder: Path, build: Callable[[Path], dict[str, Any]]) -> None:
    """Fill a folder beside this one, and move it into place when it is complete."""
    for left in folder.parent.glob(f"{folder.name}.part-*"):  # by a killed process
        shutil.rmtree(left, ignore_errors=True)
    part = Path(mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
    try:
        files.write(part / FACTS_FILE, json.dumps(build(part)))
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
