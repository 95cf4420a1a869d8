"""Ray and SLURM."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from conftest import ROOT, Call, check_one_line
from toys import options

from seqmodels.experiments import executors

recall = pytest.importorskip("tasks.copy.__main__")


def test_a_missing_extra_is_named(call: Call, tmp_path: Path, monkeypatch: Any) -> None:
    for launcher, package in (("ray", "ray"), ("slurm", "submitit")):
        monkeypatch.setitem(sys.modules, package, None)
        result = call(recall, "--size", "smoke", "--launcher", launcher, "--out", tmp_path)
        check_one_line(result, f"{package} is not installed", f"seqmodels[{launcher}]")


def test_requests_to_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray, submitit = mock.MagicMock(), mock.MagicMock()
    ray.is_initialized.return_value = False
    ray.exceptions = mock.Mock(RayError=ConnectionError, RayTaskError=ConnectionAbortedError)
    ray.cluster_resources.return_value = {"CPU": 8, "GPU": 2}
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "submitit", submitit)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    monkeypatch.setenv("SEQMODELS_CACHE", str(tmp_path))
    for choice, n_on_slurm in (("auto", 0), ("cuda", 1)):
        args = options(tmp_path, device=choice, launcher="ray")
        with executors.connect_launcher(args) as launcher:
            launcher.submit(print)
        assert (launcher.device, ray.init.call_args.args) == ("cuda", ("head:6379",))
        request = ray.remote.return_value.options.call_args.kwargs
        assert request == {"max_retries": 0, "num_cpus": 3, "num_gpus": 1}
        executors.SlurmLauncher(choice).shutdown()
        assert submitit.AutoExecutor.call_args.args == (tmp_path / "jobs", "slurm")
        request = submitit.AutoExecutor.return_value.update_parameters.call_args.kwargs
        assert (request["cpus_per_task"], request["gpus_per_node"]) == (3, n_on_slurm)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "package"), [("ray", "ray"), ("slurm", "submitit")])
def test_ctrl_c_ends_remote_runs(kind: str, package: str, tmp_path: Path, monkeypatch: Any) -> None:
    pytest.importorskip(package)
    out = tmp_path / "out"
    monkeypatch.setenv("SEQMODELS_CACHE", str(tmp_path / "cache"))
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    env = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    env |= {"RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    argv = [sys.executable, ROOT / "tests" / "worker.py", out, kind]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, cwd=ROOT, env=env, **pipes) as program:
        try:
            for _ in range(2):
                assert "training on 10,000,000 tokens" in program.stdout.readline()
            time.sleep(2.0)
            program.send_signal(signal.SIGINT)
            _, err = program.communicate(timeout=60)
        finally:
            program.kill()
    assert program.returncode == 130
    assert err.splitlines()[-1].startswith("worker: stopped")
    checkpoints = {path.name.partition("-")[0] for path in out.glob("*.checkpoint-*")}
    assert checkpoints == {"bahdanau", "gpt"}
    assert not list(out.glob(".*.lock"))  # nothing trains on
    assert not list((tmp_path / "cache").rglob("*.pkl"))
