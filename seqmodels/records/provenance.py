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

    def ask(*words: str) -> str:
        git = ["git", "-C", str(Path(__file__).parent), *words]
        return subprocess.run(git, capture_output=True, check=True, text=True).stdout.strip()

    with suppress(OSError, subprocess.CalledProcessError):
        ask("ls-files", "--error-unmatch", Path(__file__).name)
        code = ("--", ":/", ":(exclude,top)results")  # new records do not change the program
        is_changed = bool(ask("status", "--porcelain", "--untracked-files=no", *code))
        return ask("rev-parse", "HEAD") + "+" * is_changed
    return None


def collect(device: str) -> dict[str, Any]:
    """Return the date, commit, versions and hardware of a run."""
    import torch

    processor = platform.processor() or platform.machine()
    with suppress(OSError):
        cpus = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next(
            (cpu.split(": ")[1] for cpu in cpus if cpu.startswith("model name")), processor
        )
    packages = ("torch", "numpy", "sacrebleu", "tiktoken", "tokenizers")
    return {
        "date": datetime.date.today().isoformat(),
        "commit": read_commit(),
        "versions": {"python": platform.python_version(), **{p: version(p) for p in packages}},
        "system": f"{platform.system()} {platform.machine()}",
        "device": torch.cuda.get_device_name() if device == "cuda" else processor,
        "threads": torch.get_num_threads(),
    }
