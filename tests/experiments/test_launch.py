"""Runs that fail, are lost, or are stopped by signals."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
from conftest import ROOT, check_one_line
from survival import command, results, survive
from toys import options, toy

from seqmodels.experiments import compare, launch
from seqmodels.experiments import run as one_run
from seqmodels.experiments.plan import plan_runs
from seqmodels.training import loop
from seqmodels.training.trainer import Trainer
from seqmodels.utils import files, progress

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
    return {k: v for k, v in results(compared).items() if k.split("-")[0] in PAIR}


@pytest.mark.slow
def test_a_lost_run_is_submitted_again(local: dict[str, Any], tmp_path: Path, capsys: Any) -> None:
    with ThreadPoolExecutor(1) as pool:
        compare.compare(toy(), options(tmp_path / "pool", models=PAIR), pool)
    assert results(tmp_path / "pool") == local
    assert [path.name for path in (tmp_path / "pool").glob(".*")] == [files.MARK]
    capsys.readouterr()
    executor, again = LossyExecutor(3), tmp_path / "again"
    compare.compare(toy(), options(again, models=PAIR), executor)
    assert executor.n == 2 + 3
    assert results(again) == local
    assert capsys.readouterr().out.count("submitted again") == 3
    executor = LossyExecutor(100)
    with pytest.raises(ValueError, match="gpt, seed 2: lost with its machine, for the 6th time"):
        compare.compare(toy(), options(again, models=["gpt"], seeds=[2]), executor)
    assert executor.n == 6


def test_runs_start_in_the_order_given(tmp_path: Path, monkeypatch: Any) -> None:
    names: list[str] = []

    def execute(run: one_run.Run, threads: int) -> tuple[None, str]:
        names.append(run.title)
        return None, "not trained"

    monkeypatch.setattr(launch, "execute", execute)
    given = options(tmp_path, models=["gpt", "bahdanau", "rnn_encdec"], seeds=[2, 1])
    launch.run_all(plan_runs(tmp_path, "cpu", toy(), given), 2, LossyExecutor())
    assert names == [f"{model}, seed {seed}" for seed in (2, 1) for model in given.models]


def test_records_so_far_are_summarized(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(launch, "SUMMARIZE_EVERY_S", 0.0)

    def summarize(folder: Path) -> str:
        return f"so far {len([*folder.glob('*-seed1.json')])}"

    monkeypatch.setattr(launch.torch, "get_num_threads", lambda: 1)
    given = options(tmp_path, models=["rnn_encdec", "bahdanau", "lstm_seq2seq"])
    compare.compare(toy(), given, summarize=summarize)
    lines = [x for x in capsys.readouterr().out.splitlines() if x.startswith(("so", "ba", "rn"))]
    ends = [line.partition(":")[0] for line in lines if ": training on" not in line]
    assert ends == ["rnn_encdec, seed 1", "so far 1", "bahdanau, seed 1", "so far 2"]
    given, full = replace(given, fresh=True), Mock(side_effect=OSError("no space left"))
    compare.compare(toy(), given, summarize=full)
    assert capsys.readouterr().out.count("nothing is drawn yet: no space left") == 2
    monkeypatch.setattr(launch, "SUMMARIZE_EVERY_S", 1e9)
    compare.compare(toy(), given, summarize=summarize)
    assert "so far" not in capsys.readouterr().out


def test_runs_in_parallel_are_as_many_as_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch.torch, "get_num_threads", lambda: 3)
    assert [launch.n_parallel_runs(n, "cpu") for n in (1, 2, 5)] == [1, 2, 3]
    assert launch.n_parallel_runs(5, "cuda") == 1


def test_a_failure_costs_no_other_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = loop.training_step

    def fail(trainer: Trainer, *given: Any) -> None:
        if type(trainer.model).__module__.endswith("gpt"):
            raise ValueError("the loss is not finite")
        step(trainer, *given)

    monkeypatch.setattr(loop, "training_step", fail)
    with pytest.raises(ValueError, match=r"^gpt, seed 1: the loss is not finite$"):
        compare.compare(toy(), options(tmp_path, models=PAIR), LossyExecutor())
    assert (tmp_path / "rnn_encdec-seed1.json").exists()
    assert (status := progress.read_status(tmp_path / "gpt-seed1.json"))
    assert (status.state, status.note) == ("failed", "the loss is not finite")


def test_a_folder_and_a_run_have_one_owner(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(files, "GRACE_S", 0.1)
    files.claim_folder(tmp_path, "comparison")
    part = tmp_path / ".gpt-seed1.json.0123abcd.part"
    part.write_text("{")
    for name, match in ((files.LOCK, ""), (".gpt-seed1.lock", "gpt-seed1 ")):
        lock = files.Lock(tmp_path, name)
        with pytest.raises(ValueError, match=rf"{match}is in use by process {os.getpid()} on .*20"):
            compare.compare(toy(), options(tmp_path, models=["rnn_encdec"]))
        lock.release()
    assert {*tmp_path.iterdir()} == {part, tmp_path / files.MARK}


@pytest.mark.slow
def test_kills_leave_no_trace(tmp_path: Path) -> None:
    survive(["lstm_seq2seq", "gpt"], 3_000, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "threads", "to", "code"), [
    (signal.SIGINT, 1, "command", 130),
    (signal.SIGTERM, 2, "suspended command", 130), (signal.SIGKILL, 2, "command", -9),
    (signal.SIGKILL, 2, "worker", 2),
])  # fmt: skip
def test_a_signal_stops_all_processes(
    number: signal.Signals, threads: int, to: str, code: int, tmp_path: Path
) -> None:
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
