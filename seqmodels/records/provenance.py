"""Where a run comes from: date, commit, versions and hardware.

torch is imported only where it is asked, so that records are read without it.
"""

from __future__ import annotations

import datetime
import platform
import subprocess
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any


@cache
def read_commit() -> str | None:
    """Return the commit of the running clone, with + if files differ; None outside a clone.

    The commit is read once: the clone can change later, but the loaded code does not. An installed
    copy inside another project's clone is outside, because git does not track this file.
    """
    git = ["git", "-C", str(Path(__file__).parent)]
    with suppress(OSError, subprocess.CalledProcessError):
        is_tracked = [*git, "ls-files", "--error-unmatch", Path(__file__).name]
        subprocess.run(is_tracked, capture_output=True, check=True)
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, check=True)
        code = ("--", ":/", ":(exclude,top)results")  # new records do not change the program
        status = [*git, "status", "--porcelain", "--untracked-files=no", *code]
        changed = subprocess.run(status, capture_output=True, check=True)
        return head.stdout.decode().strip() + ("+" if changed.stdout else "")
    return None


def read_processor_name() -> str:
    """Return the processor's name as reported by the system."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def collect(device: str) -> dict[str, Any]:
    """Return the date, commit, versions and hardware of a run."""
    import torch

    packages = ("torch", "numpy", "sacrebleu", "tiktoken", "tokenizers")
    return {
        "date": datetime.date.today().isoformat(),
        "commit": read_commit(),
        "versions": {"python": platform.python_version(), **{p: version(p) for p in packages}},
        "system": f"{platform.system()} {platform.machine()}",
        "device": torch.cuda.get_device_name() if device == "cuda" else read_processor_name(),
        "threads": torch.get_num_threads(),
    }
