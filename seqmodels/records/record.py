"""One JSON per run: what ran, on what, with which result; its hypotheses in a JSONL beside it."""

from __future__ import annotations

import datetime
import json
import platform
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import torch

from seqmodels.records.schema import Record, check
from seqmodels.records.schema import load as load
from seqmodels.utils import files


def save(path: Path, record: dict[str, Any], rows: Iterable[dict[str, Any]]) -> None:
    """Write the rows as PATH.jsonl, then the record: a record that is there is complete.

    Raises ValueError if the record is none (see schema.Record), WriteError.
    """
    text = json.dumps(record, ensure_ascii=False, indent=1) + "\n"
    check(Record, json.loads(text))
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    files.write(path.with_suffix(".jsonl"), "".join(lines))
    files.write(path, text)


@cache
def commit() -> str | None:
    """Return the commit of the clone that runs, with + if files differ; None outside a clone.

    Asked once: later the clone may move on, but not the code that this process has loaded.
    An installed copy inside another project's clone is outside: git does not know this file.
    """
    git = ["git", "-C", str(Path(__file__).parent)]
    with suppress(OSError, subprocess.CalledProcessError):
        known = [*git, "ls-files", "--error-unmatch", Path(__file__).name]
        subprocess.run(known, capture_output=True, check=True)
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, check=True)
        code = ("--", ":/", ":(exclude,top)results")  # new records make no other program
        status = [*git, "status", "--porcelain", "--untracked-files=no", *code]
        changed = subprocess.run(status, capture_output=True, check=True)
        return head.stdout.decode().strip() + ("+" if changed.stdout else "")
    return None


def processor() -> str:
    """Return the processor's name as the system gives it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def provenance(device: str) -> dict[str, Any]:
    """Return where and with what a run was made."""
    packages = ("torch", "numpy", "sacrebleu", "tiktoken", "tokenizers")
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "versions": {"python": platform.python_version(), **{p: version(p) for p in packages}},
        "system": f"{platform.system()} {platform.machine()}",
        "device": torch.cuda.get_device_name() if device == "cuda" else processor(),
        "threads": torch.get_num_threads(),
    }


def reset_peak_memory(device: str) -> None:
    """Begin to measure peak memory anew, where the system can."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory_bytes(device: str) -> int:
    """Return the most memory held since the reset: the GPU's, or this process's."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    held = psutil.Process().memory_info()  # Windows knows the most; elsewhere what is held now
    return getattr(held, "peak_wset", held.rss)
