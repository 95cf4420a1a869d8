"""Runs that an executor carries out; and signals."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest
from conftest import ROOT, Call, check_one_line
from survival import PHASES, command, results, survive
from toys import flags, stopped_after, toy

from seqmodels.cli.status import format_status
from seqmodels.experiments import compare, executors, launch
from seqmodels.records import io as record
from seqmodels.training import loop
from seqmodels.training.trainer import Trainer
from seqmodels.utils import files, progress
from tasks.recall import __main__ as recall

PAIR = ["rnn_encdec", "gpt"]

pytestmark = pytest.mark.usefixtures("undrawn", "few_draws")


class LossyExecutor(Executor):
    """Carries out tasks when they are submitted, except that the first ones are lost."""

    def __init__(self, n_lost: int = 0):
        self.n_lost, self.n = n_lost, 0

    def submit(self, task: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.n += 1
        if self.n <= self.n_lost:
            future.set_exception(launch.RunLostError("lost with its machine"))
        else:
            future.set_result(task(*args, **kwargs))
        return future


@pytest.fixture
def local(compared: Path) -> dict[str, Any]:
    """Return the files of two models that were trained on this machine."""
    return {k: v for k, v in results(compared).items() if k.split("-")[0] in PAIR}


@pytest.mark.slow
def test_a_lost_run_is_submitted_again(local: dict[str, Any], tmp_path: Path, capsys: Any) -> None:
    """Keeps out a comparison that ends with a machine, and runs that disturb each other."""
    with ThreadPoolExecutor(2) as pool:
        compare.compare(toy(), flags(tmp_path / "pool", models=PAIR), pool)
    assert results(tmp_path / "pool") == local
    assert [path.name for path in (tmp_path / "pool").glob(".*")] == [files.MARK]
    capsys.readouterr()
    executor, again = LossyExecutor(3), tmp_path / "again"
    compare.compare(toy(), flags(again, models=PAIR), executor)
    assert executor.n == 2 + 3
    assert results(again) == local
    assert capsys.readouterr().out.count("submitted again") == 3
    executor = LossyExecutor(100)
    with pytest.raises(ValueError, match="gpt, seed 2: lost with its machine, for the 6th time"):
        compare.compare(toy(), flags(again, models=["gpt"], seeds=[2]), executor)
    assert executor.n == 6


def test_the_longest_runs_start_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a slow run that starts last, for which other workers wait."""
    names: list[str] = []

    def execute(run: launch.Run, threads: int) -> tuple[None, str]:
        names.append(run.name)
        return None, "not trained"

    monkeypatch.setattr(launch, "carry_out_remotely", execute)
    models = ["rnn_encdec", "bahdanau", "lstm_seq2seq", "lstm_seq2seq_x2", "gpt"]
    args = flags(tmp_path, models=models)
    runs = [run for run, _ in compare.plan_runs(tmp_path, "cpu", toy(), args)]
    launch.run_all(runs, len(runs), 2, LossyExecutor())
    assert names == ["gpt", "lstm_seq2seq_x2", "bahdanau", "lstm_seq2seq", "rnn_encdec"]


def test_runs_in_parallel_are_as_many_as_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out processes that leave cores idle, or compete for cores or a GPU."""
    monkeypatch.setattr(launch.torch, "get_num_threads", lambda: 3)
    assert [launch.n_parallel_runs(n, "cpu") for n in (1, 2, 5)] == [1, 2, 3]
    assert launch.n_parallel_runs(5, "cuda") == 1


def test_a_failure_costs_no_other_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out an error that ends the comparison, or that nobody hears of."""
    step = loop.training_step

    def fail(trainer: Trainer, *given: Any) -> None:
        if type(trainer.model).__module__.endswith("gpt"):
            raise ValueError("the loss is not finite")
        step(trainer, *given)

    monkeypatch.setattr(loop, "training_step", fail)
    with pytest.raises(ValueError, match=r"^gpt, seed 1: the loss is not finite$"):
        compare.compare(toy(), flags(tmp_path, models=PAIR), LossyExecutor())
    assert (tmp_path / "rnn_encdec-seed1.json").exists()
    assert (status := progress.read_status(tmp_path / "gpt-seed1.json"))
    assert (status.state, status.note) == ("failed", "the loss is not finite")
    assert re.search("gpt, seed 1 +failed .* the loss is not finite", format_status(tmp_path))


def test_a_folder_and_a_run_have_one_owner(tmp_path: Path, monkeypatch: Any) -> None:
    """Keeps out two commands that write over each other; partial files of the other one stay."""
    monkeypatch.setattr(files, "GRACE_S", 0.1)
    files.claim_folder(tmp_path, "comparison")
    part = tmp_path / ".gpt-seed1.json.0123abcd.part"
    part.write_text("{")
    for name, match in ((files.LOCK, ""), (".gpt-seed1.lock", "gpt-seed1 ")):
        lock = files.Lock(tmp_path, name)
        with pytest.raises(ValueError, match=rf"{match}is in use by process {os.getpid()} on .*20"):
            compare.compare(toy(), flags(tmp_path, models=["rnn_encdec"]))
        lock.release()
    assert {*tmp_path.iterdir()} == {part, tmp_path / files.MARK}


def test_status_while_runs_are_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a state that nobody would know a run by, or one of the run before."""
    monkeypatch.setattr(progress, "WRITE_EVERY_S", 0.0)
    tables, n_tokens, step = [], list[int](), loop.training_step

    def watch(trainer: Trainer, *given: Any) -> None:
        n_tokens.append(trainer.progress.tokens)  # as reported before the step
        step(trainer, *given)
        tables.append(format_status(tmp_path))

    monkeypatch.setattr(loop, "training_step", watch)
    compare.compare(toy(), flags(tmp_path, models=PAIR))
    _, first, second, *_ = tables[2].splitlines()
    assert first.split() == ["gpt,", "seed", "1", "waiting", "0", "of", "200"]
    assert re.match(f"rnn_encdec, seed 1 +training +{n_tokens[2]} of 200 ", second)
    _, first, *_ = format_status(tmp_path).splitlines()
    saved = record.load(tmp_path / "gpt-seed1.json")
    accuracy = saved["tests"][0]["overall"]["accuracy"]["value"]
    assert first.split()[3:5] == ["recorded", f"{saved['curve'][-1]['tokens']}"]
    assert first.endswith(f" {accuracy:.1f} %")


def test_status_of_stopped_runs(tmp_path: Path) -> None:
    """Keeps out a run that seems to be trained although its process has ended, and a traceback."""
    with pytest.raises(ValueError, match="has no runs"):
        format_status(tmp_path)
    with stopped_after(2):
        compare.compare(toy(), flags(tmp_path, models=["gpt"]))
    path = tmp_path / "gpt-seed1.json"
    assert progress.read_status(path) is None
    assert " of 200" in format_status(tmp_path)
    left = progress.StatusFile(path, "gpt, seed 1", 200)
    for state in ("running", "waiting"):  # as a kill leaves it
        left.write(state=state, phase="training")
        assert format_status(tmp_path).splitlines()[-1] == "1 stopped"
    for content in ("{", "[]", '{"run": 1}', '{"run": "x", "state": "flying"}'):
        progress.status_path(path).write_text(content)
        assert progress.read_status(path) is None
        assert format_status(tmp_path).splitlines()[-1] == "1 stopped"


def test_a_missing_extra_is_named(call: Call, tmp_path: Path, monkeypatch: Any) -> None:
    """Keeps out a traceback where the extra is not installed."""
    for launcher, package in (("ray", "ray"), ("slurm", "submitit")):
        monkeypatch.setitem(sys.modules, package, None)
        result = call(recall, "--size", "smoke", "--launcher", launcher, "--out", tmp_path)
        check_one_line(result, f"{package} is not installed", f"seqmodels[{launcher}]")


def test_requests_to_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out another cluster than the one named, and runs that share a core or a GPU."""
    ray, submitit = mock.MagicMock(), mock.MagicMock()
    ray.is_initialized.return_value = False
    ray.cluster_resources.return_value = {"CPU": 8, "GPU": 2}
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "submitit", submitit)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("SEQMODELS_CACHE", str(tmp_path))
    for choice, n_on_slurm in (("auto", 0), ("cuda", 1)):
        args = flags(tmp_path, device=choice, launcher="ray", address="head:6379")
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
    """Keeps out runs that train on for nobody, and a stop without a checkpoint."""
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
            for _ in PAIR:
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
    assert not list(out.glob(".*"))  # no lock: nothing trains on
    assert not list((tmp_path / "cache").rglob("*.pkl"))


# ------------------------------------------------------------------------------------------ Signals
@pytest.mark.slow
def test_kills_leave_no_trace(tmp_path: Path) -> None:
    n, kills = survive(len(PHASES), ["lstm_seq2seq", "gpt"], 3_000, 1, tmp_path)
    assert n >= 1
    assert kills == dict.fromkeys(PHASES, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "threads", "to", "code"), [
    (signal.SIGINT, 1, "command", 130), (signal.SIGHUP, 2, "command", 129),
    (signal.SIGTERM, 2, "suspended command", 143), (signal.SIGKILL, 2, "command", -9),
    (signal.SIGKILL, 2, "worker", 2),
])  # fmt: skip
def test_a_signal_stops_all_processes(
    number: signal.Signals, threads: int, to: str, code: int, tmp_path: Path
) -> None:
    """Keeps out a stop without a checkpoint or an end, a traceback, and processes that train on."""
    argv = command(tmp_path, ["gpt", "bahdanau"], 10_000_000)
    argv[argv.index("--checkpoint-every") + 1] = "1000"
    env = {**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": str(threads)}
    with subprocess.Popen(
        argv, cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        try:
            for _ in range(threads):  # one run at a time, or two
                assert "training on 10,000,000 tokens" in program.stdout.readline()
            children = psutil.Process(program.pid).children()
            workers = [child for child in children if "spawn_main" in str(child.cmdline())]
            assert len(workers) == 2 * (threads - 1)
            time.sleep(1.0)
            if to == "suspended command":
                program.send_signal(signal.SIGSTOP)
                time.sleep(2.0)
            os.kill(workers[0].pid if to == "worker" else program.pid, number)
            if to == "suspended command":
                program.send_signal(signal.SIGCONT)
            out, err = program.communicate(timeout=60)
        finally:
            program.kill()
    assert program.returncode == code
    if number != signal.SIGKILL:
        check_one_line((program.returncode, out, err), "translation: stopped", code=code)
        assert list(tmp_path.glob("*.checkpoint-000001-*"))
        assert not list(tmp_path.glob(".*.part"))
    if to == "worker":
        check_one_line((program.returncode, out, err), "process was killed", code=code)
    _, running = psutil.wait_procs(workers, timeout=5.0)
    assert all(process.status() == psutil.STATUS_ZOMBIE for process in running)  # not waited for
