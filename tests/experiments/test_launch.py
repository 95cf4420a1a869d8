"""Comparisons: what is trained, what is refused, and what remains of a stopped one."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import psutil
import pytest
import torch
from conftest import ROOT, check_one_line
from fake_records import as_records, fake_record
from safetensors.torch import load_file
from survival import command, results, survive
from toys import contents, load_records, options, same, toy

import seqmodels
from seqmodels import MODELS, SequenceModel
from seqmodels.data import tokenizers
from seqmodels.data.tokenizers import Words
from seqmodels.experiments import launch
from seqmodels.experiments import run as one_run
from seqmodels.experiments.launch import compare
from seqmodels.experiments.sweep import Run
from seqmodels.records import io as record
from seqmodels.training import loop
from seqmodels.training.trainer import Trainer
from seqmodels.utils import files

GPT, PAIR = ["gpt"], ["rnn_encdec", "gpt"]
pytestmark = pytest.mark.usefixtures("undrawn", "few_draws")


class Duck:
    """Has `submit` alone: carries out what is submitted at once, or loses it."""

    def __init__(self, is_lossy: bool = False):
        self.is_lossy = is_lossy

    def submit(self, task: Callable[..., Any], /, *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self.is_lossy:
            future.set_exception(ConnectionError("the node is gone"))
        else:
            future.set_result(task(*args))
        return future


def times(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*-seed*")}


# ----------------------------------------------------------------------------------- The folder
def test_only_missing_runs_are_trained(copied: Path, monkeypatch: Any, capsys: Any) -> None:
    before = times(copied)
    with monkeypatch.context() as patch:
        patch.setattr(launch, "train_and_record", lambda *_: pytest.fail("trained again"))
        compare(toy(), options(copied))
    assert times(copied) == before
    assert capsys.readouterr().out.count("recorded in") == len(MODELS)
    for path in copied.glob("gpt-seed1.json*"):
        path.unlink()
    compare(toy(), options(copied))
    after = times(copied)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {name for name in before if name.startswith("gpt-seed1.")}


def test_other_settings_need_another_folder(copied: Path) -> None:
    before = contents(copied)
    for changes, given, match in (
        ({"data": {**toy().data, "name": "b→a"}}, {}, "data.name was letters, is b→a"),
        ({"training": {**toy().training, "tokens": 199}}, {}, "tokens was 200, is 199"),
        ({}, {"tokens": 199}, "tokens was 200, is 199"),
        ({"beam": 5}, {}, "beam was 1, is 5"),
        ({"n_parameters": 500_000}, {}, "d_model was "),
        ({}, {"set": [("lr", 0.5)]}, r"lr was 0\.01, is 0\.5.*, name its model with --fresh"),
    ):
        with pytest.raises(ValueError, match=match):
            compare(toy(**changes), options(copied, models=GPT, **given))
    for path in copied.glob("rnn_encdec-seed1*"):
        path.unlink()
    before = contents(copied)
    task = toy(tokenizer=tokenizers.Words([*"gfedcba"]), data={"sha256": "1" * 64})
    with pytest.raises(ValueError, match=r"sha256 was 000"):  # of a run not asked for
        compare(task, options(copied, models=["rnn_encdec"]))
    with pytest.raises(ValueError, match=r"tokens was 200, is 199.*, name its model with --fresh"):
        compare(toy(), options(copied, models=["rnn_encdec"], tokens=199, fresh=True))
    assert contents(copied) == before


def test_changed_models_run_like_models(tmp_path: Path) -> None:
    rotary, vary = "transformer_rotary", [("rotary_base", ["30"]), ("warmup", ["0.2"])]
    task = toy(contrasts=[(rotary, "gpt"), ("gpt", "bahdanau")])
    compare(task, options(tmp_path, models=[rotary], vary=vary))
    names = [rotary, f"{rotary}-rotary_base-30.0", f"{rotary}-warmup-0.2"]
    records = {r.model: r for r in load_records(tmp_path)}
    assert list(records) == names
    assert records[names[0]].arm is None
    assert records[names[1]].settings["rotary_base"] == 30.0
    assert records[names[2]].train_config["warmup"] == 0.2
    assert records[rotary].contrasts == ["gpt"]
    assert records[names[2]].contrasts == [rotary, "gpt-warmup-0.2"]
    before = times(tmp_path)
    compare(toy(), options(tmp_path, models=[rotary]))  # beside others of other training
    assert times(tmp_path) == before
    loaded = seqmodels.load(tmp_path / f"{names[1]}-seed1")
    assert loaded.model.config.rotary_base == 30.0


def test_a_trained_run_is_taken(recorded_gpt: Path, tmp_path: Path, monkeypatch: Any) -> None:
    path = recorded_gpt / "gpt-seed1.json"
    monkeypatch.setattr(one_run, "train", lambda *_: pytest.fail("trained again"))
    tests = [*toy().tests, replace(toy().tests[0], name="short", examples=toy().valid[:5])]
    seen = list[bool]()

    def compare_weights(model: SequenceModel, untrained: SequenceModel) -> list[dict[str, Any]]:
        weights = load_file(path.with_suffix(".safetensors"))
        seen.extend(same(weights, each.state_dict()) for each in (model, untrained))
        return [{"n": 3.0}]

    task = toy(name="other", tests=tests, measure={"weights": compare_weights})
    compare(task, options(tmp_path / "a", models=GPT, trained=recorded_gpt))
    old, new = record.load(path), record.load(tmp_path / "a" / path.name)
    assert seen == [True, False]
    assert (new.task, new.curve, new.weights_sha256) == ("other", old.curve, old.weights_sha256)
    assert new.tests[0].overall == old.tests[0].overall
    assert new.speed.evaluate_sentences_per_s * new.evaluate_s == pytest.approx(13 + 5)
    assert new.events[-1].kind == "trained"
    with pytest.raises(ValueError, match=r"lr was 0\.01, is 0\.5"):
        compare(task, options(tmp_path / "b", models=GPT, trained=recorded_gpt, set=[("lr", 0.5)]))
    with pytest.raises(ValueError, match="no folder"):
        compare(task, options(tmp_path / "c", models=GPT, trained=tmp_path / "missing"))
    assert not (tmp_path / "c").exists()
    other = toy(tokenizer=Words([*"abdcefg"]))  # as many tokens, two of them exchanged
    with pytest.raises(ValueError, match=r"vocabulary\.json is another tokenizer"):
        compare(other, options(tmp_path / "d", models=GPT, trained=recorded_gpt))
    with pytest.raises(ValueError, match=r"vocabulary\.json is another tokenizer"):
        compare(other, options(tmp_path / "a", models=GPT, seeds=[2]))


def test_a_dry_run_writes_nothing(recorded_gpt: Path, capsys: Any, monkeypatch: Any) -> None:
    before, new = contents(recorded_gpt), recorded_gpt.with_name("new")
    monkeypatch.setattr(launch.torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(launch, "mean", lambda times: 90.0 * len(times))  # seconds a run
    compare(toy(), options(recorded_gpt, models=GPT, seeds=[1, 2, 3, 4], dry_run=True))
    assert "to train: 3 of 4 runs, 2 at once, in about 3.0 min" in capsys.readouterr().out
    compare(toy(), options(new, models=GPT, dry_run=True))
    assert capsys.readouterr().out == "to train: 1 of 1 runs\n"
    assert contents(recorded_gpt) == before
    assert not new.exists()


def test_a_folder_has_one_owner(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(files, "GRACE_S", 0.1)
    files.claim_folder(tmp_path, "comparison")
    with files.lock(tmp_path), pytest.raises(ValueError, match="is in use by another process"):
        compare(toy(), options(tmp_path, models=["rnn_encdec"]))


# ------------------------------------------------------------------------------------- All runs
def test_executors_record_what_this_process_does(compared: Path, tmp_path: Path) -> None:
    local = {k: v for k, v in results(compared).items() if k.split("-")[0] in PAIR}
    with ThreadPoolExecutor(1) as pool:
        for out, executor in (("pool", pool), ("duck", Duck())):
            compare(toy(), options(tmp_path / out, models=PAIR), executor)
            assert results(tmp_path / out) == local


def test_a_lost_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"gpt, seed 1: lost .*the node is gone"):
        compare(toy(), options(tmp_path, models=GPT), Duck(is_lossy=True))


def test_runs_start_in_the_order_given(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    names: list[str] = []
    (made,) = as_records([fake_record("gpt", 1) | {"evaluate_s": 37.0}])

    def execute(run: Run, threads: int) -> str:
        names.append(run.title)
        return "" if run.title.startswith("gpt") else "not trained"

    monkeypatch.setattr(launch, "execute", execute)
    monkeypatch.setattr(launch.record, "load", lambda path: made)
    given = options(tmp_path, models=["gpt", "bahdanau", "rnn_encdec"], seeds=[2, 1])
    with pytest.raises(launch.FailedRunsError):
        compare(toy(), given, Duck())
    assert names == [f"{model}, seed {seed}" for seed in (2, 1) for model in given.models]
    said = "gpt, seed 2: BLEU 82.7, trained in 142 s, evaluated in 37 s\n"
    assert said in capsys.readouterr().out


def test_a_failure_costs_no_other_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = loop.training_step

    def fail(trainer: Trainer, *given: Any) -> None:
        if type(trainer.model).__module__.endswith("gpt"):
            raise OSError("the loss is not finite")
        step(trainer, *given)

    monkeypatch.setattr(loop, "training_step", fail)
    with pytest.raises(ValueError, match=r"^gpt, seed 1: the loss is not finite$"):
        compare(toy(), options(tmp_path, models=[*PAIR[::-1]]), Duck())
    assert (tmp_path / "rnn_encdec-seed1.json").exists()


def test_the_device_is_a_gpu_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(choice: str) -> str:
        return launch.resolve_device(options(Path(), device=choice))

    for auto, there, missing in (("cuda", "cuda", "mps"), ("cpu", "mps", "cuda")):
        for name in ("cuda", "mps"):
            has = name == there
            monkeypatch.setattr(getattr(torch, name), "is_available", lambda has=has: has)
        assert [resolve(choice) for choice in ("auto", "cpu", there)] == [auto, "cpu", there]
        with pytest.raises(ValueError, match=f"--device {missing}"):
            resolve(missing)
    assert launch.n_parallel_runs(5, "cuda") == 1


# -------------------------------------------------------------------------------------- Clusters
def test_requests_to_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray, submitit = MagicMock(), MagicMock()
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "submitit", submitit)
    monkeypatch.setattr(launch, "N_REMOTE_THREADS", 3)
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    for device, n_gpus in (("cpu", 0), ("cuda", 1)):
        launch.Ray(device, tmp_path).submit(print, 5)
        assert ray.init.call_args.args == ("head:6379",)
        assert ray.remote.call_args_list[-1].kwargs["num_cpus"] == 3
        assert ray.remote.call_args_list[-1].kwargs["num_gpus"] == n_gpus
        launch.Slurm(device, tmp_path).submit(print, 5)
        assert submitit.AutoExecutor.call_args.args == (tmp_path / "jobs", "slurm")
        jobs = submitit.AutoExecutor.return_value
        request = jobs.update_parameters.call_args.kwargs
        assert (request["cpus_per_task"], request["gpus_per_node"]) == (3, n_gpus)
        assert jobs.submit.call_args.args == (print, 5)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "package"), [("ray", "ray"), ("slurm", "submitit")])
def test_a_launcher_records_runs(
    name: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(package)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "tests")]))
    monkeypatch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    init = launch.Slurm.__init__
    monkeypatch.setattr(launch.Slurm, "__init__", lambda *its: init(*its, cluster="local"))
    arrays = []
    if name == "slurm":
        submitit = pytest.importorskip("submitit")
        process = submitit.AutoExecutor._internal_process_submissions
        monkeypatch.setattr(
            submitit.AutoExecutor, "_internal_process_submissions",
            lambda own, given: arrays.append(len(given)) or process(own, given),
        )  # fmt: skip
    compare(toy(), options(tmp_path, models=PAIR, launcher=name))
    assert len([*tmp_path.glob("*-seed1.json")]) == 2
    assert arrays == [2] * (name == "slurm")


# --------------------------------------------------------------------------------------- Signals
@pytest.mark.slow
def test_kills_leave_no_trace(tmp_path: Path) -> None:
    survive(["lstm_seq2seq", "gpt"], 3_000, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "threads", "to", "code"), [
    (signal.SIGINT, 1, "command", 130), (signal.SIGINT, 2, "group", 130),
    (signal.SIGTERM, 2, "suspended command", 130), (signal.SIGKILL, 2, "command", -9),
    (signal.SIGKILL, 2, "worker", 2),
])  # fmt: skip
def test_a_signal_stops_all_processes(
    number: signal.Signals, threads: int, to: str, code: int, tmp_path: Path
) -> None:
    argv = command(tmp_path, ["gpt", "bahdanau"], 10_000_000, "tasks.translation")
    env = {**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": str(threads)}
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, cwd=ROOT, env=env, start_new_session=True, **pipes) as program:
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
            if to == "group":  # Ctrl-C in a terminal
                os.killpg(program.pid, number)
            else:
                os.kill(workers[0].pid if to == "worker" else program.pid, number)
            if to == "suspended command":
                program.send_signal(signal.SIGCONT)
            out, err = program.communicate(timeout=60)
        finally:
            program.kill()
    assert program.returncode == code
    if number != signal.SIGKILL:
        check_one_line((program.returncode, out, err), "translation: stopped", code=code)
        assert len([*tmp_path.glob("*.checkpoint.safetensors")]) == threads
        assert not list(tmp_path.glob(".*.part"))
    if to == "worker":
        check_one_line((program.returncode, out, err), "BrokenProcessPool", code=code)
    _, running = psutil.wait_procs(workers, timeout=5.0)
    assert all(process.status() == psutil.STATUS_ZOMBIE for process in running)  # not waited for
