"""Ray and SLURM: the same files as on this machine, whatever is killed on the way."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from toy_task import results

ROOT = Path(__file__).parents[1]
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="the extra [ray] is not installed")
needs_submitit = pytest.mark.skipif(
    find_spec("submitit") is None, reason="the extra [slurm] is not installed"
)
pytestmark = pytest.mark.slow


def command(*given: object) -> dict[str, Any]:
    """Return how the program of grid.py is started."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    env = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    env |= {"RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    args = [sys.executable, str(ROOT / "tests" / "grid.py"), *map(str, given)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return {"args": args, "cwd": ROOT, "env": env, **pipes}


def done(*given: object) -> str:
    """Run the program and return what it prints."""
    made = subprocess.run(**command(*given), timeout=500, check=False)
    assert made.returncode == 0, made.stderr
    return made.stdout


def drawn(folder: Path) -> dict[str, bytes]:
    """Return all files that are not a run's, but for those that show times or name checksums."""
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if "-seed" not in path.name and path.stem not in ("tables", "curves", "significance")
    }


def resumptions(folder: Path) -> list[str]:
    """Return what the records say of runs that went on from a checkpoint."""
    events = [json.loads(path.read_text())["events"] for path in folder.glob("*-seed*.json")]
    return [event["what"] for run in events for event in run if event["kind"] == "resumed"]


@needs_ray
def test_two_nodes_of_which_five_are_killed(tmp_path: Path) -> None:
    """Keeps out a run that is lost with its node, or trained twice, or resumed with other bits."""
    tokens = 200_000
    done("local", tmp_path / "local", tokens)
    out = done("ray", tmp_path / "ray", tokens, 5)
    assert "5 nodes were killed" in out
    assert len(re.findall(r"lost with its process \(\w+\); it is submitted again", out)) >= 3
    assert len(resumptions(tmp_path / "ray")) >= 2
    assert results(tmp_path / "ray") == results(tmp_path / "local")
    assert drawn(tmp_path / "ray") == drawn(tmp_path / "local")


@needs_submitit
def test_jobs_of_submitit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out other results than those of this machine, and pickles among them."""
    monkeypatch.setenv("SEQMODELS_CACHE", str(tmp_path / "cache"))
    done("local", tmp_path / "local", 1_000)
    done("slurm", tmp_path / "slurm", 1_000)
    assert results(tmp_path / "slurm") == results(tmp_path / "local")
    assert drawn(tmp_path / "slurm") == drawn(tmp_path / "local")
    assert len([*(tmp_path / "cache" / "jobs").iterdir()]) == 4  # two logs a job, no pickle


@pytest.mark.parametrize(
    "kind",
    [pytest.param("ray", marks=needs_ray), pytest.param("slurm", marks=needs_submitit)],
)
def test_ctrl_c_cancels_what_was_launched(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out runs that train on for nobody, and a stop without a checkpoint."""
    out = tmp_path / "out"
    monkeypatch.setenv("SEQMODELS_CACHE", str(tmp_path / "cache"))
    with subprocess.Popen(**command(kind, out, 10_000_000)) as program:
        try:
            begun = [program.stdout.readline() for _ in range(2)]
            assert all("training on 10,000,000 tokens" in line for line in begun)
            time.sleep(2.0)
            program.send_signal(signal.SIGINT)
            _, err = program.communicate(timeout=60)
        finally:
            program.kill()
    assert program.returncode == 130
    assert err.splitlines()[-1] == "grid: stopped; the same command resumes it"
    assert {path.name.partition("-")[0] for path in out.glob("*.checkpoint-*")} == {
        "rnn_encdec", "gpt",
    }  # fmt: skip
    assert not list(out.glob(".*"))  # no lock: nothing trains on
