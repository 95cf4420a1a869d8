"""What no command may answer with a traceback: other systems, closed streams, hostile calls."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path

import psutil
import pytest

from seqmodels import record

ROOT = Path(__file__).parents[1]

WINDOWS = """
import os, signal, sys
import filelock, portalocker, psutil  # these know Windows
import multiprocessing.reduction
from tqdm import tqdm

sys.modules["fcntl"] = sys.modules["resource"] = None
absent = {os: ["pread", "pwrite", "killpg", "fork", "O_NOFOLLOW", "O_NONBLOCK", "set_blocking"]}
absent |= {signal: ["SIGHUP", "SIGKILL", "SIGPIPE"], multiprocessing.reduction: ["DupFd"]}
for module, names in absent.items():
    for name in names:
        delattr(module, name)
open_any = os.open

def open_file(path, *how, **more):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", path)
    return open_any(path, *how, **more)

os.open = open_file
"""
"""Take away what Windows lacks."""
IMPORTS = """
import importlib, pkgutil, benchmarks, seqmodels, tasks
for package in (seqmodels, tasks, benchmarks):
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
"""
SMOKE = """
from tasks import translation
flags = "--size smoke --models lstm_seq2seq --tokens 500 --device cpu --out".split()
translation.main([*flags, "OUT"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", [IMPORTS, SMOKE], ids=["imports", "smoke"])
def test_it_runs_without_what_windows_lacks(program: str, tmp_path: Path) -> None:
    """Keeps out modules, flags and signals that exist on POSIX alone: nothing could start."""
    text = WINDOWS + program.replace("OUT", str(tmp_path / "out"))
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert program is not SMOKE or (tmp_path / "out" / "lstm_seq2seq-seed1.json").exists()


def test_peak_memory_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a record without its memory where the system is not Linux: Windows knows a peak."""

    def absent(self: Path) -> str:
        raise FileNotFoundError(2, "No such file or directory", str(self))

    monkeypatch.setattr(Path, "read_text", absent)
    assert record.peak_memory_bytes("cpu") == pytest.approx(
        psutil.Process().memory_info().rss, rel=0.1
    )
    told = types.SimpleNamespace(rss=1, peak_wset=7)
    monkeypatch.setattr(psutil.Process, "memory_info", lambda self: told)
    assert record.peak_memory_bytes("cpu") == 7
