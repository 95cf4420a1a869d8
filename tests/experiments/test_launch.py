"""Comparisons: what is trained, what is refused, and what remains of a stopped one."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import psutil
import pytest
import torch
from conftest import ROOT, check_one_line, fields_of
from fake_records import as_records, fake_record
from safetensors.torch import load_file
from survival import command, miss_a_signal, results, survive
from toys import contents, load_records, options, same, toy

import seqmodels
from seqmodels import MODELS, SequenceModel
from seqmodels.data import tokenizers
from seqmodels.data.tokenizers import Words
from seqmodels.experiments import launch
from seqmodels.experiments import run as one_run
from seqmodels.experiments.launch import compare
from seqmodels.experiments.sweep import Run, list_runs
from seqmodels.records import io as record
from seqmodels.utils import files

GPT, PAIR = ["gpt"], ["rnn_encdec", "gpt"]
pytestmark = pytest.mark.usefixtures("undrawn", "few_draws")


class Duck:
    """Has `submit` alone: carries out what is submitted at once."""

    def submit(self, task: Callable[..., Any], /, *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
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
    rotary, change = "transformer_rotary", "-rotary_base-30.0-warmup-0.2-width-2"
    vary = [("rotary_base", ["30"]), ("warmup", ["0.2"]), ("width", ["2"])]
    task = toy(contrasts=[(rotary, "gpt"), ("gpt", "bahdanau")])
    compare(task, options(tmp_path, models=[rotary], vary=vary, grid=True))
    records = {r.model: r for r in load_records(tmp_path)}
    base, changed = records.values()
    assert [*records] == [rotary, f"{rotary}{change}"]
    assert (base.arm, base.events, changed.events) == (None, [], [])
    varied = changed.settings["rotary_base"], changed.train_config["warmup"], changed.arm.width
    assert varied == (30.0, 0.2, 2)
    assert (base.contrasts, changed.contrasts) == (["gpt"], [rotary, f"gpt{change}"])
    own = options(tmp_path, models=["bahdanau", "lstm_seq2seq"])
    others = [one_run.list_contrasts(run) for run in list_runs(task, own, tmp_path, "cpu")]
    assert others == [[], None]  # named by the others' contrasts, or by none
    before = times(tmp_path)
    compare(toy(), options(tmp_path, models=[rotary]))  # beside others of other training
    assert times(tmp_path) == before
    loaded = seqmodels.load(tmp_path / f"{changed.model}-seed1")
    assert loaded.model.config.rotary_base == 30.0


def test_a_trained_run_is_taken(recorded_gpt: Path, tmp_path: Path, monkeypatch: Any) -> None:
    path = recorded_gpt / "gpt-seed1.json"
    event = {"step": 1, "kind": "resumed", "what": "resumed after 9 of 200 tokens"}
    path.write_text(json.dumps(fields_of(path) | {"events": [event]}))
    monkeypatch.setattr(one_run, "train", lambda *_: pytest.fail("trained again"))
    about = {"is_generated": False, "primary_metric": "nats", "examples": toy().valid[:5]}
    tests = [replace(toy().tests[0], name="short", **about), *toy().tests]
    seen = list[bool]()

    def compare_weights(model: SequenceModel, untrained: SequenceModel) -> list[dict[str, Any]]:
        weights = load_file(path.with_suffix(".safetensors"))
        seen.extend(same(weights, each.state_dict()) for each in (model, untrained))
        return [{"n": 3.0}]

    measure = {"weights": compare_weights}
    task = toy(name="other", tests=tests, measure=measure, bleu_tokenize="char")
    for _ in range(2):  # the second is recorded
        compare(task, options(tmp_path / "a", models=GPT, trained=recorded_gpt, metric="bleu"))
    old, new = record.load(path), record.load(tmp_path / "a" / path.name)
    assert seen == [True, False]
    assert (new.task, new.curve, new.weights_sha256) == ("other", old.curve, old.weights_sha256)
    assert [test.primary_metric for test in new.tests] == ["nats", "bleu"]
    assert new.tests[1].overall == old.tests[0].overall
    assert "tok:char" in new.signatures["bleu"]
    assert new.speed.evaluate_sentences_per_s * new.evaluate_s == pytest.approx(13 + 5)
    assert new.events[:-1] == old.events
    assert [*new.events[-1]][1:] == [("kind", "trained"), ("what", "trained by the task again")]
    assert new.events[-1].step == old.curve[-1].step > old.curve[0].step
    with pytest.raises(ValueError, match=r"lr was 0\.01, is 0\.5"):
        compare(task, options(tmp_path / "b", models=GPT, trained=recorded_gpt, set=[("lr", 0.5)]))
    with pytest.raises(ValueError, match="no folder"):
        compare(task, options(tmp_path / "c", models=GPT, trained=tmp_path / "missing"))
    assert not (tmp_path / "c").exists()
    other = toy(tokenizer=Words([*"abdcefg"]))  # as many tokens, two of them exchanged
    for fresh in (False, True):
        with pytest.raises(ValueError, match=r"vocabulary\.json is another tokenizer"):
            compare(other, options(tmp_path / "d", models=GPT, trained=recorded_gpt, fresh=fresh))
    with pytest.raises(ValueError, match=r"vocabulary\.json is another tokenizer"):
        compare(other, options(tmp_path / "a", models=GPT, seeds=[2]))


def test_a_dry_run_writes_nothing(recorded_gpt: Path, capsys: Any, monkeypatch: Any) -> None:
    path, new = recorded_gpt / "gpt-seed1.json", recorded_gpt.with_name("new")
    path.write_text(json.dumps(fields_of(path) | {"train_s": 100.0, "evaluate_s": 20.0}))
    before = contents(recorded_gpt)
    monkeypatch.setattr(launch.torch, "get_num_threads", lambda: 4)
    compare(toy(), options(recorded_gpt, models=GPT, seeds=[1, 2, 3, 4], dry_run=True))
    assert "to train: 3 of 4 runs, 4 at once, in about 2.0 min" in capsys.readouterr().out
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
    lost = Mock(**{"result.side_effect": ConnectionError("the node is gone")})
    with pytest.raises(ValueError, match=r"gpt, seed 1: lost .*the node is gone"):
        compare(toy(), options(tmp_path, models=GPT), Mock(spec=["submit"], submit=lambda *_: lost))


@pytest.mark.parametrize("how", ["ray", "executor", "pool"])
def test_runs_start_in_their_order(how: str, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    names: list[str] = []
    (made,) = as_records([fake_record("gpt", 1, "next_token") | {"evaluate_s": 37.0}])

    def execute(run: Run, threads: int) -> str:
        names.append(run.title)
        assert (threads, run.path.is_absolute()) == ((2, False) if how == "pool" else (3, True))
        assert run.path.parent.absolute() == tmp_path / "runs" / "again"
        return "" if run.title.startswith("gpt") else "not trained"

    monkeypatch.setattr(launch, "execute", execute)
    monkeypatch.setattr(launch.record, "load", lambda path: made)
    monkeypatch.setattr(launch, "Ray", lambda *_: Duck())
    monkeypatch.setattr(launch, "process_pool", lambda n: nullcontext(Duck()))
    monkeypatch.setattr(launch, "N_REMOTE_THREADS", 3)
    monkeypatch.setattr(launch.torch, "get_num_threads", lambda: 13)  # of six runs
    monkeypatch.chdir(tmp_path)
    about = {"seeds": [2, 1], "launcher": "ray" if how == "ray" else None}
    given = options(None, models=["gpt", "bahdanau", "rnn_encdec"], **about)
    with pytest.raises(launch.FailedRunsError, match=r"^bahdanau, seed 2: not trained; rnn_enc"):
        compare(toy(), given, Duck() if how == "executor" else None)
    assert names == [f"{model}, seed {seed}" for seed in (2, 1) for model in given.models]
    loss = f"loss {made.tests[0].overall['bits_per_byte'].value:.3f} bits per byte"
    said = f"gpt, seed 2: {loss}, trained in 142 s, evaluated in 37 s\n"
    assert said in capsys.readouterr().out


def test_a_fault_is_raised_but_memory_can_be_full(tmp_path: Path, monkeypatch: Any) -> None:
    (run,) = list_runs(toy(), options(tmp_path, models=GPT), tmp_path, "cpu")
    errors = [OSError("no disk"), MemoryError, torch.OutOfMemoryError, ValueError]
    fit, threads = Mock(side_effect=errors), Mock()
    monkeypatch.setattr(launch, "train_and_record", fit)
    monkeypatch.setattr(launch.torch, "set_num_threads", threads)
    assert launch.execute(run, 3) == "no disk"
    assert all("out of memory" in launch.execute(run, 3) for _ in range(2))
    with pytest.raises(ValueError, match=r"^$"):
        launch.execute(run, 3)
    threads.assert_called_with(3)


def test_the_device_is_a_gpu_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(choice: str, **more: str) -> str:
        return launch.resolve_device(options(Path(), device=choice, **more))

    for auto, there, missing in (("cuda", "cuda", "mps"), ("cpu", "mps", "cuda")):
        for name in ("cuda", "mps"):
            has = name == there
            monkeypatch.setattr(getattr(torch, name), "is_available", lambda has=has: has)
        assert [resolve(choice) for choice in ("auto", "cpu", there)] == [auto, "cpu", there]
        with pytest.raises(ValueError, match=f"--device {missing}"):
            resolve(missing)
        assert [resolve(x, launcher="ray") for x in ("auto", missing)] == ["cpu", missing]
    assert launch.n_parallel_runs(5, "cuda") == 1


# -------------------------------------------------------------------------------------- Clusters
def test_requests_to_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray, submitit = MagicMock(), MagicMock()
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "submitit", submitit)
    monkeypatch.setattr(launch, "N_REMOTE_THREADS", 3)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    runs = list_runs(toy(), options(tmp_path, models=GPT), tmp_path, "cpu")
    for device, n_gpus, address in (("cpu", 0, "local"), ("cuda", 1, "head:6379")):
        launch.Ray(device, tmp_path).submit(print, 5)
        assert ray.init.call_args.args == (address,)
        requested = {"num_cpus": 3, "num_gpus": n_gpus, "max_retries": 0}
        assert ray.remote.call_args_list[-1].kwargs == requested
        assert len([*launch.submit_all(runs, launch.Slurm(device, tmp_path), 3)]) == 1
        assert submitit.AutoExecutor.call_args.args == (tmp_path / "jobs", "slurm")
        jobs = submitit.AutoExecutor.return_value
        requested = {"timeout_min": 24 * 60, "cpus_per_task": 3, "gpus_per_node": n_gpus}
        assert jobs.update_parameters.call_args.kwargs == requested
        assert jobs.submit.call_args.args == (launch.execute, *runs, 3)
        its = [name for name, *_ in jobs.mock_calls]
        begun, sent, ended = map(its.index, ("batch().__enter__", "submit", "batch().__exit__"))
        assert begun < sent < ended  # as one array
        monkeypatch.setenv("RAY_ADDRESS", "head:6379")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "package"), [("ray", "ray"), ("slurm", "submitit")])
def test_a_launcher_records_runs(name: str, package: str, tmp_path: Path, monkeypatch: Any) -> None:
    pytest.importorskip(package)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "tests")]))
    monkeypatch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    init = launch.Slurm.__init__
    monkeypatch.setattr(launch.Slurm, "__init__", lambda *its: init(*its, cluster="local"))
    compare(toy(), options(tmp_path, models=PAIR, launcher=name))
    assert len([*tmp_path.glob("*-seed1.json")]) == 2


# --------------------------------------------------------------------------------------- Signals
def test_a_process_that_missed_a_signal_is_sent_another(tmp_path: Path) -> None:
    own = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(99,))
    own.start()
    with suppress(KeyboardInterrupt), launch.process_pool(1) as pool:
        future = pool.submit(miss_a_signal, tmp_path / "started")
        while not (tmp_path / "started").exists():
            assert not future.done()
            time.sleep(0.1)
        raise KeyboardInterrupt
    assert multiprocessing.active_children() == [own]
    own.kill()


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
