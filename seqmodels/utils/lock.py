"""One process per folder: a lock that is released when its owner ends, however it ends."""

from __future__ import annotations

import errno
import os
import platform
import sys
import time
from collections.abc import Callable
from datetime import datetime
from multiprocessing import reduction
from pathlib import Path
from typing import Any

from filelock import lock_descriptor

LOCK = ".lock"
GRACE_S = 3.0
"""How long to wait for an owner that has just been killed: its processes take a moment to end."""
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class Lock:
    """A locked folder. The kernel releases the lock when the last process that holds it has ended.

    A worker process that receives it holds it as well, so that no one else writes while an orphan
    does; on Windows, where a lock cannot be shared, an orphan gets a moment to end.
    Raises ValueError if another process holds the lock, naming it, or if the folder cannot be
    written to.
    """

    def __init__(self, folder: Path, log: Callable[[str], None] = print):
        try:
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            self.handle = os.open(folder / LOCK, flags, 0o666)
        except OSError as error:
            raise ValueError(f"{folder} cannot be written to: {error.strerror}") from None
        deadline = time.monotonic() + GRACE_S
        try:
            while not lock_descriptor(self.handle, blocking=False):
                if time.monotonic() > deadline:
                    os.lseek(self.handle, 1, os.SEEK_SET)  # Windows locks, and hides, byte 0
                    owner = os.read(self.handle, 200).decode(errors="replace").strip()
                    os.close(self.handle)
                    raise ValueError(
                        f"{folder} is in use by {owner or 'another process'}; wait until it has "
                        "ended, or choose another --out"
                    )
                time.sleep(0.05)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            log(f"{folder} is on a file system without locks: use it from one process only")
        owner = f"process {os.getpid()} on {platform.node()} since {datetime.now():%Y-%m-%d %H:%M}"
        os.ftruncate(self.handle, 0)
        os.write(self.handle, f"\n{owner}\n".encode())

    def release(self) -> None:
        """Release the lock in this process."""
        os.close(self.handle)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pass the lock to a process that is being started."""
        if sys.platform == "win32":
            return int, ()
        return _keep_lock, (reduction.DupFd(self.handle),)


def _keep_lock(handle: Any) -> int:
    """Hold the lock until this process ends."""
    return handle.detach()
