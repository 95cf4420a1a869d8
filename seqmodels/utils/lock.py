"""One process per folder and per run: locks that are released when their owner ends, in any way."""

from __future__ import annotations

import errno
import os
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from filelock import lock_descriptor

LOCK = ".lock"
"""Name of a folder's lock; a run's is .RUN.lock."""
GRACE_S = 3.0
"""How long to wait for an owner that has just been killed: its processes take a moment to end."""
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def owner() -> str:
    """Return a name for this process in messages to others."""
    return f"process {os.getpid()} on {platform.node()}"


class Lock:
    """A locked file in a folder, which is removed at the end.

    The kernel releases the lock when the process has ended, in whatever way. `patience_s` limits
    how long to wait for another owner, GRACE_S unless it is given.
    Raises ValueError if another process keeps the lock, naming it, or if the folder cannot be
    written to.
    """

    def __init__(
        self,
        folder: Path,
        name: str = LOCK,
        patience_s: float | None = None,
        log: Callable[[str], None] = print,
    ):
        self.path = folder / name
        self.what = folder if name == LOCK else folder / name[1 : -len(LOCK)]
        self.deadline = time.monotonic() + (GRACE_S if patience_s is None else patience_s)
        try:
            while not self.acquired():
                pass
        except OSError as error:
            if error.errno not in NO_LOCKS:
                os.close(self.handle)
                raise
            log(f"{folder} is on a file system without locks: use it from one process only")
        os.ftruncate(self.handle, 0)
        os.write(self.handle, f"\n{owner()} since {datetime.now():%Y-%m-%d %H:%M}\n".encode())

    def acquired(self) -> bool:
        """Return whether the file is locked and still there: an earlier owner removes it."""
        try:
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            self.handle = os.open(self.path, flags, 0o666)
        except OSError as error:
            raise ValueError(f"{self.path.parent} cannot be written to: {error.strerror}") from None
        while not lock_descriptor(self.handle, blocking=False):
            if time.monotonic() > self.deadline:
                os.lseek(self.handle, 1, os.SEEK_SET)  # Windows locks, and hides, byte 0
                who = os.read(self.handle, 200).decode(errors="replace").strip()
                os.close(self.handle)
                raise ValueError(
                    f"{self.what} is in use by {who or 'another process'}; wait until it has "
                    "ended, or choose another --out"
                )
            time.sleep(0.05)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(self.handle), os.stat(self.path)):
                return True
        os.close(self.handle)
        return False

    def release(self) -> None:
        """Remove the file, and release the lock."""
        with suppress(OSError):  # Windows removes no open file
            self.path.unlink()
        os.close(self.handle)


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
