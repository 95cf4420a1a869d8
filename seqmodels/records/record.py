"""One JSON file per run: settings, data and results; its hypotheses in a JSONL file next to it."""

from __future__ import annotations

import datetime
import json
import platform
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import torch

from seqmodels.records import sums
from seqmodels.records.schema import Record, check
from seqmodels.records.schema import load as load
from seqmodels.utils import files


def save(path: Path, record: dict[str, Any], rows: Sequence[dict[str, Any]]) -> None:
    """Write the rows as JSONL, their sums, then the record: a record that exists is complete.

    Raises ValueError if the record is invalid (see schema.Record), WriteError if it cannot be
    written.
    """
    text = json.dumps(record, ensure_ascii=False, indent=1) + "\n"
    check(Record, json.loads(text))
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    files.write(path.with_suffix(".jsonl"), "".join(lines))
    sums.save(path.with_suffix(sums.SUFFIX), record, rows)
    files.write(path, text)


@cache
def commit() -> str | None:
    """Return the commit of the running clone, with + if files differ; None outside a clone.

    The commit is read once: the clone can change later, but the loaded code does not. An installed
    copy inside another project's clone is outside, because git does not track this file.
    """
    git = ["git", "-C", str(Path(__file__).parent)]
    with suppress(OSError, subprocess.CalledProcessError):
        known = [*git, "ls-files", "--error-unmatch", Path(__file__).name]
        subprocess.run(known, capture_output=True, check=True)
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, check=True)
        code = ("--", ":/", ":(exclude,top)results")  # new records do not change the program
        status = [*git, "status", "--porcelain", "--untracked-files=no", *code]
        changed = subprocess.run(status, capture_output=True, check=True)
        return head.stdout.decode().strip() + ("+" if changed.stdout else "")
    return None


def processor() -> str:
    """Return the processor's name as reported by the system."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def provenance(device: str, n_processes: int = 1) -> dict[str, Any]:
    """Return the date, commit, versions and hardware of a run."""
    packages = ("torch", "numpy", "sacrebleu", "tiktoken", "tokenizers")
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "versions": {"python": platform.python_version(), **{p: version(p) for p in packages}},
        "system": f"{platform.system()} {platform.machine()}",
        "device": torch.cuda.get_device_name() if device == "cuda" else processor(),
        "threads": torch.get_num_threads(),
        **({"processes": n_processes} if n_processes > 1 else {}),
    }


def reset_peak_memory(device: str) -> None:
    """Reset the peak memory, where the system supports it."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory_bytes(device: str) -> int:
    """Return the peak memory since the last reset: of the GPU, or of this process."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    held = psutil.Process().memory_info()  # Windows: the peak; elsewhere: current use
    return getattr(held, "peak_wset", held.rss)
