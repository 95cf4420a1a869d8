"""Atomic writes and safe reads.

A process can be killed, a disk fill up or a machine lose power between any two lines here: the path
then holds either its complete old content or its complete new content. Reads trust no file: a
folder of runs can come from a stranger.
"""

from __future__ import annotations

import errno
import io
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

PART = ".part"
"""Suffix of a file while it is being written; its name begins with a dot."""

MAX_BYTES = 16 * 2**20
"""Size limit of a JSON file."""

MAX_PIPE_BYTES = 2**30
"""Limit of what is read from a pipe, which is held in memory."""
BINARY = getattr(os, "O_BINARY", 0)
"""Without it, Windows translates line endings."""
PICKLES = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))
ZIP = b"PK\x03\x04"


class WriteError(OSError):
    """A file could not be written: the disk is full, or the folder is missing or read-only."""


def write(path: Path, content: bytes | str, is_durable: bool = True) -> Path:
    """Write the content to the path and flush it to disk; on failure, leave the path as it was.

    What is not durable can be lost if the machine loses power, and takes less time. Raises
    WriteError.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PART}")
    try:
        try:
            # O_EXCL: create a file or fail, but never write through a link
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o666)
            with open(handle, "wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                if is_durable:
                    os.fsync(handle)
            os.replace(part, path)
            if is_durable:
                sync_folder(path.parent)
        except BaseException:
            with suppress(OSError):
                part.unlink()
            raise
    except OSError as error:
        why = error.strerror or str(error)
        raise WriteError(f"{path} could not be written: {why}; nothing else is lost") from error
    return path


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


@contextmanager
def opened(path: Path, takes_pipe: bool = False) -> Iterator[IO[bytes]]:
    """Open a regular file for reading or, where `takes_pipe`, a pipe.

    Raises ValueError for any other pipe, a device, a zip archive and a pickle, which is never read
    because unpickling can run code. Raises OSError as `open` does.
    """
    if takes_pipe and stat.S_ISFIFO(os.stat(path).st_mode):
        with open(path, "rb") as pipe:
            content = pipe.read(MAX_PIPE_BYTES + 1)
        if len(content) > MAX_PIPE_BYTES:
            raise ValueError(
                f"{path} gives more than {MAX_PIPE_BYTES:,} bytes, the limit of a pipe"
            )
        refuse_pickle(path, content)
        yield io.BytesIO(content)
        return
    no_wait = getattr(os, "O_NONBLOCK", 0)  # do not wait for the writer of a pipe
    handle = os.open(path, os.O_RDONLY | no_wait | BINARY)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise ValueError(f"{path} is not a regular file; it is not read")
        refuse_pickle(path, os.read(handle, 4))
        os.lseek(handle, 0, os.SEEK_SET)
        with open(handle, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(handle)


def refuse_pickle(path: Path, start: bytes) -> None:
    """Raise ValueError for a file that begins like a pickle or a zip archive."""
    if start.startswith(PICKLES):
        raise ValueError(f"{path} is a pickle, which can run code; it is not read")
    if start.startswith(ZIP):
        raise ValueError(f"{path} is a zip archive, which can hold a pickle; it is not read")


def read(path: Path, most_bytes: int = MAX_BYTES) -> bytes:
    """Return the content of a regular file.

    Raises ValueError as `opened` does and for a file that is too large, OSError as `open` does.
    """
    with opened(path) as file:
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
