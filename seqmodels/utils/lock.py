"""Locks of folders and of runs: one process at a time, until it ends, in whatever way."""

from __future__ import annotations

import errno
import os
import platform
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout, lock_descriptor

LOCK = ".lock"
"""Name of a folder's lock; a run's is .RUN.lock."""
GRACE_S = 3.0
"""How long to wait for an owner that has just been killed: its processes take a moment to end."""
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


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
        self.path = folder / name
        patience_s = GRACE_S if patience_s is None else patience_s
        self.lock = FileLock(self.path, min(patience_s, 1e9), fallback_to_soft=False)
        try:
            self.lock.acquire()
        except Timeout:
            what, who = folder if name == LOCK else folder / name[1 : -len(LOCK)], ""
            with suppress(OSError):
                who = self.path.read_bytes()[:200].decode(errors="replace").strip()
            raise ValueError(
                f"{what} is in use by {who or 'another process'}; wait until it has ended, or "
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
    try:
        handle = os.open(folder / name, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        return not lock_descriptor(handle, blocking=False)
    except OSError:
        return False
    finally:
        os.close(handle)
