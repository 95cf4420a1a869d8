"""Atomic writes, whose a file or a folder is, checked reads, and locks.

A process can be killed, a disk fill up or a machine lose power between any two lines here: the path
then holds either its complete old content or its complete new content.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import secrets
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any

PART = ".part"
"""Suffix of a file while it is being written; its name begins with a dot."""
MAX_JSON_BYTES = 16 * 2**20
"""Size limit of a JSON file."""


def check_path(text: str) -> Path:
    """Return a text as a path; raise ValueError for one that is empty or cannot be a path."""
    if not text:
        raise ValueError("'' is an empty path; name the current folder as .")
    try:
        os.stat(text)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or error
        raise ValueError(f"{text[:60]!r} cannot be a path: {cause}") from None
    return Path(text)


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
        with open(part, "xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            if is_durable:
                os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise WriteError(f"{path} could not be written: {reason}; nothing else is lost") from error
    finally:
        with suppress(OSError):
            part.unlink()
    return path


def remove_partial(folder: Path) -> None:
    """Remove partial files left behind by a killed process."""
    for part in folder.glob(f".*{PART}"):
        with suppress(OSError):
            part.unlink()


# -------------------------------------------------------------------------------- Whose it is

MARK = ".seqmodels"
"""The file by which a folder says what it is for, such as a comparison."""
FILE_MARKS = {
    ".html": "· seqmodels</title>".encode(),
    ".md": b"# Results\n\nMade from the records in these folders by `seqmodels plot`",
    ".png": b"Software\0seqmodels",
    ".svg": b"</title>\n <desc>",
}
"""What a file that we wrote contains, by its suffix."""


def read_beginning(path: Path) -> bytes:
    """Return the first bytes of a file, which have its mark."""
    with open(path, "rb") as file:
        return file.read(2**16)


def check_folder(folder: Path, kind: str) -> bool:
    """Return whether a folder is empty or absent; raise ValueError if it is not ours.

    It is ours if MARK says so, or if it has records of a comparison, as those in results/.
    """
    try:
        others = [p for p in folder.iterdir() if not p.name.startswith(f".{MARK}.")]  # half a MARK
    except FileNotFoundError:
        return True
    except OSError as error:
        raise ValueError(f"--out {folder} is not a folder: {error.strerror}") from None
    if not others:
        return True
    try:
        if (mark := folder / MARK).is_file() and read_beginning(mark).strip() == kind.encode():
            return False
        jsons = [path for path in folder.glob("*.json") if path.is_file()]
        if kind == "comparison" and any(b'"seqmodels.record/' in read_beginning(p) for p in jsons):
            return False
    except OSError as error:
        raise ValueError(f"--out {folder} cannot be read: {error}") from None
    raise ValueError(
        f"{folder} has files, but none says that they are those of a seqmodels {kind}; nothing is "
        "written there: name a new or an empty folder"
    )


def claim_folder(folder: Path, kind: str) -> Path:
    """Return a folder to write to, which is created and marked as ours if it is new.

    Raises ValueError as `check_folder` does, and if the folder cannot be created.
    """
    if check_folder(folder, kind):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"--out {folder} is not a folder: {error.strerror}") from None
        write(folder / MARK, f"{kind}\n")
    return folder


def claim_file(path: Path) -> Path:
    """Return a path to write to; raise ValueError if it has a file that we did not write."""
    if path.exists():
        mark = FILE_MARKS.get(path.suffix.lower())
        if mark is None or mark not in read_beginning(path):
            raise ValueError(f"{path} was not written by seqmodels; move it, or name another file")
    return path


# ---------------------------------------------------------------------------------------- Reading


@contextmanager
def open_regular(path: Path) -> Iterator[IO[bytes]]:
    """Open a regular file for reading.

    Raises ValueError for a device and for a pipe, which could be waited for without end, OSError
    as `open` does.
    """
    if path.exists() and not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
        raise ValueError(f"{path} is not a regular file; it is not read")
    with open(path, "rb") as file:
        yield file


def read(path: Path, most_bytes: int = MAX_JSON_BYTES) -> bytes:
    """Return the content of a regular file.

    Raises ValueError as `open_regular` does and for a file that is too large, OSError as `open`.
    """
    with open_regular(path) as file:
        n_bytes = os.fstat(file.fileno()).st_size
        if n_bytes > most_bytes:
            raise ValueError(f"{path} has {n_bytes:,} bytes; at most {most_bytes:,} are read")
        return file.read()


def read_json(path: Path) -> Any:
    """Return the content of a JSON file.

    Raises ValueError that names the file, including where `read` does; OSError as `open` does.
    """
    content = read(path)
    try:
        return json.loads(content.decode())
    except (ValueError, RecursionError) as error:  # including UnicodeDecodeError
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


class Lock(AbstractContextManager["Lock"]):
    """A locked file in a folder, which names its owner and is deleted at the end of the context.

    `patience_s` limits how long to wait for another owner, GRACE_S unless it is given. Raises
    ValueError if another process keeps the lock, or if the folder cannot be written to.
    """

    def __init__(self, folder: Path, name: str = LOCK, patience_s: float | None = None):
        from filelock import FileLock, Timeout  # takes longer to import than to print help

        self.path = folder / name
        patience_s = GRACE_S if patience_s is None else patience_s
        self.lock = FileLock(self.path, min(patience_s, 1e9), fallback_to_soft=False)
        try:
            self.lock.acquire()
        except Timeout:
            target, text = folder if name == LOCK else folder / name[1 : -len(LOCK)], ""
            with suppress(OSError):
                text = self.path.read_text("utf-8", errors="replace").strip()
            raise ValueError(
                f"{target} is in use by {text or 'another process'}; wait until it has ended, or "
                "choose another --out"
            ) from None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise ValueError(f"{folder} cannot be written to: {error.strerror}") from None
            print(f"{folder} is on a file system without locks: use it from one process only")
        with suppress(OSError):  # Windows lets nobody write to a locked file
            self.path.write_text(f"{owner()} since {datetime.now():%Y-%m-%d %H:%M}\n")

    def __exit__(self, *_: object) -> None:
        self.release()

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
