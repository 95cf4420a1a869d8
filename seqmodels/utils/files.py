"""Files that survive: written whole or not at all, and read only where nothing can go wrong.

A process may be killed, a disk fill up or a machine lose power between any two lines here: at the
path stands, whole, what stood there before or what comes now. Reading trusts no one: a folder of
runs may come from a stranger.
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
"""Ending of a file that is being written; its name begins with a dot."""

MOST_BYTES = 16 * 2**20
"""Largest JSON that is read."""

MOST_PIPED = 2**30
"""Most bytes that are read from a pipe: they are held in memory."""
BINARY = getattr(os, "O_BINARY", 0)
"""Windows would change line ends."""
PICKLES = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))
ZIP = b"PK\x03\x04"


class WriteError(OSError):
    """A file could not be written: the disk is full, the folder gone or not to be written to."""


def write(path: Path, content: bytes | str) -> Path:
    """Put the content at the path, whole and on the disk, or leave the path as it was.

    Raises WriteError.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PART}")
    try:
        try:
            # never through a link: O_EXCL makes a file or fails
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o666)
            with open(handle, "wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(handle)
            os.replace(part, path)
            sync(path.parent)
        except BaseException:
            with suppress(OSError):
                part.unlink()
            raise
    except OSError as error:
        why = error.strerror or str(error)
        raise WriteError(f"{path} could not be written: {why}; nothing else is lost") from error
    return path


def sync(folder: Path) -> None:
    """Have the disk hold what the folder lists: without this a new name may be lost.

    Nothing is done where a folder cannot be opened: on Windows, and without the right to read it.
    """
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sweep(folder: Path) -> None:
    """Remove what a killed process was writing."""
    for part in folder.glob(f".*{PART}"):
        with suppress(OSError):
            part.unlink()


@contextmanager
def opened(path: Path, takes_pipe: bool = False) -> Iterator[IO[bytes]]:
    """Open a plain file to be read, or a pipe that a person has named.

    Raises ValueError for another pipe or a device, for a zip archive, and for a pickle, which
    nothing here ever reads: reading one runs what it says. Raises OSError as `open` does.
    """
    if takes_pipe and stat.S_ISFIFO(os.stat(path).st_mode):
        with open(path, "rb") as pipe:
            content = pipe.read(MOST_PIPED + 1)
        if len(content) > MOST_PIPED:
            raise ValueError(f"{path} gives more than the {MOST_PIPED:,} bytes that are read")
        refuse_code(path, content)
        yield io.BytesIO(content)
        return
    no_wait = getattr(os, "O_NONBLOCK", 0)  # for a pipe's writer
    handle = os.open(path, os.O_RDONLY | no_wait | BINARY)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise ValueError(f"{path} is no plain file; it is not read")
        refuse_code(path, os.read(handle, 4))
        os.lseek(handle, 0, os.SEEK_SET)
        with open(handle, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(handle)


def refuse_code(path: Path, start: bytes) -> None:
    """Raise ValueError for a file that begins as a pickle does, or a zip archive."""
    if start.startswith(PICKLES):
        raise ValueError(f"{path} is a pickle, which can run code; it is not read")
    if start.startswith(ZIP):
        raise ValueError(f"{path} is a zip archive, which may hold a pickle; it is not read")


def read(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the content of a plain file.

    Raises ValueError where `opened` does, and for more bytes than allowed; OSError as `open` does.
    """
    with opened(path) as file:
        n_bytes = os.fstat(file.fileno()).st_size
        if n_bytes > most_bytes:
            raise ValueError(
                f"{path} has {n_bytes:,} bytes, more than the {most_bytes:,} that are read"
            )
        return file.read(most_bytes)


def read_json(path: Path) -> Any:
    """Return what a JSON file says.

    Raises ValueError that names the file, also where `read` does; OSError as `open` does.
    """
    content = read(path)
    try:
        return json.loads(content.decode())
    except RecursionError:
        raise ValueError(f"{path} is not JSON: nested too deep") from None
    except ValueError as error:  # no UTF-8, too: UnicodeDecodeError is one
        raise ValueError(f"{path} is not JSON: {error}") from None
