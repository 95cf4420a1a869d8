"""Atomic writes, safe reads, and locks.

A process can be killed, a disk fill up or a machine lose power between any two lines here: the path
then holds either its complete old content or its complete new content. Reads trust no file: a
folder of runs can come from a stranger.
"""

from __future__ import annotations

import errno
import io
import json
import os
import platform
import re
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any

PART = ".part"
"""Suffix of a file while it is being written; its name begins with a dot."""
MAX_JSON_BYTES = 16 * 2**20
"""Size limit of a JSON file."""
MAX_PIPE_BYTES = 2**30
"""Limit of what is read from a pipe, which is held in memory."""

# ---------------------------------------------------------------------------------------- Writing


class WriteError(OSError):
    """A file could not be written: the disk is full, or the folder is missing or read-only."""


def write(path: Path, content: bytes | str, is_durable: bool = True) -> Path:
    """Write the content to the path and flush it to disk; on failure, leave the path as it was.

    What is not durable can be lost if the machine loses power, and takes less time. Raises
    WriteError.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PART}")
    try:
        with open(part, "xb") as file:  # never through a link
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            if is_durable:
                os.fsync(file.fileno())
        os.replace(part, path)
        if is_durable:
            sync_folder(path.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise WriteError(f"{path} could not be written: {reason}; nothing else is lost") from error
    finally:
        with suppress(OSError):
            part.unlink()
    return path


OWN = {
    "README.md": rb"by `seqmodels plot`",
    "tables.md": rb"\]\(curves\.svg\)",
    ".html": "· seqmodels</title>".encode(),
    ".json": rb'"schema": "seqmodels\.',
    ".svg": rb"</title>\n <desc>",
    ".bin": rb"\A\x1f\x8b\x08\0\0\0\0\0",  # gzip, without a time or a name
    ".png": rb"Software\0seqmodels|\A.{37}pHYs\0\0\x18\x9b",  # before it was marked: 160 dpi alone
}
"""The pattern by which a generated file is recognised, by its name or ending."""


def check_own(*paths: Path) -> None:
    """Raise ValueError if one of the files is there, and was not written by this program."""
    for path in paths:
        mark = OWN.get(path.name) or OWN[path.suffix]
        if path.exists() and not re.search(mark, path.read_bytes(), re.DOTALL):
            raise ValueError(f"{path} was not written by seqmodels; move it, or use another folder")


def write_own(path: Path, content: str) -> Path:
    """Write a file under a name that the user did not give; raises as check_own and write do."""
    check_own(path)
    return write(path, content)


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk: without this, the name of a new file can be lost.

    Does nothing where the folder cannot be opened: on Windows, or without read permission.
    """
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_partial(folder: Path) -> None:
    """Remove partial files left behind by a killed process."""
    for part in folder.glob(f".*{PART}"):
        with suppress(OSError):
            part.unlink()


# ---------------------------------------------------------------------------------------- Reading


@contextmanager
def open_regular(path: Path) -> Iterator[IO[bytes]]:
    """Open a regular file for reading.

    Raises ValueError for a device and for a pipe, OSError as `open` does.
    """
    with open(path, "rb", opener=open_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{path} is not a regular file; it is not read")
        yield file


@contextmanager
def open_regular_or_pipe(path: Path) -> Iterator[IO[bytes]]:
    """Open a regular file or a pipe for reading; raises as `open_regular` and `read_pipe` do."""
    if not stat.S_ISFIFO(os.stat(path).st_mode):
        with open_regular(path) as file:
            yield file
        return
    with open(path, "rb") as pipe:
        yield read_pipe(pipe, path)


@contextmanager
def open_stdin(name: Path) -> Iterator[IO[bytes]]:
    """Return standard input, under this name in messages; raises as `read_pipe` does."""
    if sys.stdin is None:
        raise ValueError(f"{name} is closed")
    stdin = sys.stdin.buffer
    yield stdin if stdin.seekable() else read_pipe(stdin, name)


def read_pipe(pipe: IO[bytes], name: Path) -> io.BytesIO:
    """Return the content of a pipe as a file; raise ValueError for too many bytes."""
    content = pipe.read(MAX_PIPE_BYTES + 1)
    if len(content) > MAX_PIPE_BYTES:
        raise ValueError(f"{name} gives more than {MAX_PIPE_BYTES:,} bytes, a pipe's limit")
    return io.BytesIO(content)


def open_without_waiting(path: str, flags: int) -> int:
    """Open a file as `os.open` does, without waiting for the writer of a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read(path: Path, most_bytes: int = MAX_JSON_BYTES) -> bytes:
    """Return the content of a regular file.

    Raises ValueError as `open_regular` does and for a file that is too large, OSError as `open`.
    """
    with open_regular(path) as file:
        n_bytes = os.fstat(file.fileno()).st_size
        if n_bytes > most_bytes:
            raise ValueError(f"{path} has {n_bytes:,} bytes; at most {most_bytes:,} are read")
        return file.read(most_bytes)


def read_json(path: Path) -> Any:
    """Return the content of a JSON file.

    Raises ValueError that names the file, including where `read` does; OSError as `open` does.
    """
    content = read(path)
    try:
        return json.loads(content.decode())
    except RecursionError:
        raise ValueError(f"{path} is not JSON: nested too deeply") from None
    except ValueError as error:  # including UnicodeDecodeError
        raise ValueError(f"{path} is not JSON: {error}") from None


# ------------------------------------------------------------------------------------------ Locks

LOCK = ".lock"
"""Name of a folder's lock; a run's is .RUN.lock."""
GRACE_S = 3.0
"""How long to wait for an owner that has just been killed: its processes take a moment to end."""
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Errors of file systems without locks."""


def owner() -> str:
    """Return a name for this process in messages to others."""
    return f"process {os.getpid()} on {platform.node()}"


class Lock:
    """A locked file in a folder, which names its owner and is deleted at the end.

    `patience_s` limits how long to wait for another owner, GRACE_S unless it is given. Raises
    ValueError if another process keeps the lock, or if the folder cannot be written to.
    """

    def __init__(
        self,
        folder: Path,
        name: str = LOCK,
        patience_s: float | None = None,
        log: Callable[[str], None] = print,
    ):
        from filelock import FileLock, Timeout  # takes longer to import than to print help

        self.path = folder / name
        patience_s = GRACE_S if patience_s is None else patience_s
        self.lock = FileLock(self.path, min(patience_s, 1e9), fallback_to_soft=False)
        try:
            self.lock.acquire()
        except Timeout:
            target, text = folder if name == LOCK else folder / name[1 : -len(LOCK)], ""
            with suppress(OSError):
                text = self.path.read_bytes()[:200].decode(errors="replace").strip()
            raise ValueError(
                f"{target} is in use by {text or 'another process'}; wait until it has ended, or "
                "choose another --out"
            ) from None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise ValueError(f"{folder} cannot be written to: {error.strerror}") from None
            log(f"{folder} is on a file system without locks: use it from one process only")
        with suppress(OSError):  # Windows lets nobody write to a locked file
            self.path.write_text(f"{owner()} since {datetime.now():%Y-%m-%d %H:%M}\n")

    def release(self) -> None:
        """Delete the file, and release the lock."""
        with suppress(OSError):  # Windows deletes no open file
            self.path.unlink()
        self.lock.release()


def is_held(folder: Path, name: str) -> bool:
    """Return whether a process holds a lock, without waiting for it or writing anything."""
    from filelock import lock_descriptor

    try:
        with open(folder / name, "r+b") as file:
            return not lock_descriptor(file.fileno(), blocking=False)
    except OSError:
        return False
