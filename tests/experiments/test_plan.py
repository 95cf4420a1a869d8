"""Planning: the runs, the settings that they share, and the precision."""

import inspect
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from conftest import ROOT, Run
from toys import contents, options, toy

from seqmodels import MODELS, models
from seqmodels.experiments import compare, plan
from seqmodels.experiments import run as one_run
from seqmodels.experiments.plan import plan_runs
from seqmodels.experiments.run import check_same_settings
from seqmodels.utils import files

recall = pytest.importorskip("tasks.copy.__main__")

GPT = ["gpt"]


def test_seeds_and_options_reach_their_runs(tmp_path: Path) -> None:
    given = {"models": ["gpt", "bahdanau"], "seeds": [1, 4], "lr": 0.5, "precision": "bfloat16"}
    task = toy(training={**toy().training, "max_grad_norm": 0.7})
    given |= {"checkpoint_every": 7.0, "tensorboard": True}
    planned = plan_runs(tmp_path, "cpu", task, options(tmp_path, **given)).missing
    names = [("gpt", 1), ("bahdanau", 1), ("gpt", 4), ("bahdanau", 4)]
    assert [(run.name, run.cfg.seed) for run in planned] == names
    for run in planned:
        assert run.path.name == f"{run.name}-seed{run.cfg.seed}.json"
        assert (run.cfg.lr, run.cfg.precision, run.cfg.max_grad_norm) == (0.5, "bfloat16", 0.7)
        assert run.checkpoints().every_s == 7.0
        assert run.options.tensorboard


def test_grids_and_widths_are_planned(tmp_path: Path) -> None:
    vary = [("n_heads", ["1"]), ("n_layers", ["2"])]

    def widths(**changes: bool) -> dict[str, int]:
        given = options(tmp_path, models=GPT, vary=vary, **changes)
        planned = plan_runs(tmp_path, "cpu", toy(), given)
        return {run.name: run.sizes["d_model"] for run in planned.missing}

    fitted = widths()
    assert [*fitted] == ["gpt", "gpt-n_heads-1", "gpt-n_layers-2"]
    assert fitted["gpt-n_layers-2"] < fitted["gpt"]
    assert {*widths(same_width=True).values()} == {fitted["gpt"]}
    assert [*widths(same_width=True, grid=True)] == ["gpt", "gpt-n_heads-1-n_layers-2"]


def test_a_task_has_changes_of_its_own(tmp_path: Path) -> None:
    task = toy(vary={"gpt": [{"n_heads": 1}, {"dropout": 0.25, "beta_2": 0.5}]})
    given = options(tmp_path, models=["bahdanau", "gpt"])
    planned = plan_runs(tmp_path, "cpu", task, given).missing
    both = "gpt-dropout-0.25-beta_2-0.5"
    assert [run.name for run in planned] == ["bahdanau", "gpt", "gpt-n_heads-1", both]
    assert (planned[-1].settings()["dropout"], planned[-1].cfg.beta_2) == (0.25, 0.5)
    given = options(tmp_path, models=GPT, vary=[("n_heads", ["4"])])
    planned = plan_runs(tmp_path, "cpu", task, given).missing
    assert [run.name for run in planned] == ["gpt", "gpt-n_heads-4"]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"n_heads": 8}, "n_heads was None, is 8"),  # a size that the recipe has gained
        ({"data.sha256": "b", "data.n_train": 9}, "(data.sha256 was a, is b)"),
        ({"data.n_train": 9}, "(data.n_train was 7, is 9)"),
        ({"optimizer": "muon"}, "(optimizer was adamw, is muon)"),
        ({"data.n_lossy": 3}, ""),
    ],
)  # fmt: skip
def test_other_settings_are_named(changes: dict[str, Any], named: str, tmp_path: Path) -> None:
    was = {"data.sha256": "a", "data.n_train": 7, "lr": 0.1}
    with pytest.raises(ValueError, match=re.escape(named)) if named else nullcontext():
        check_same_settings(tmp_path, was, was | changes)


def test_a_stopped_run_of_another_corpus(tmp_path: Path, monkeypatch: Any) -> None:
    files.claim_folder(tmp_path, "comparison")
    for name in ("gpt-seed1.checkpoint-000001-0.safetensors", "tokenizer.json"):
        (tmp_path / name).write_text("before")
    settings = {"data.name": "syllables", "data.sha256": "1" * 64, "tokens": 9}
    of_gpt, none = Mock(), Mock(latest=lambda log: None)
    of_gpt.latest = lambda log: Mock(state={"settings": settings})
    monkeypatch.setattr(plan, "Checkpoints", lambda path: of_gpt if "gpt" in path.stem else none)
    with pytest.raises(ValueError, match=r"gpt-seed1\.json .*name was syllables, is letters;"):
        compare.compare(toy(), options(tmp_path, models=["bahdanau"]))
    assert (tmp_path / "tokenizer.json").read_text() == "before"
    task = toy(training={**toy().training, "optimizer": "muon", "precision": "float32"})
    settings.update(one_run.shared_settings(task))
    plan_runs(tmp_path, "cpu", task, options(tmp_path, models=["bahdanau"]))


def test_the_device_is_a_gpu_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for auto, there, missing in (("cuda", "cuda", "mps"), ("cpu", "mps", "cuda")):
        for name in ("cuda", "mps"):
            has = name == there
            monkeypatch.setattr(getattr(torch, name), "is_available", lambda has=has: has)
        chosen = [plan.resolve_device(choice) for choice in ("auto", "cpu", there)]
        assert chosen == [auto, "cpu", there]
        with pytest.raises(ValueError, match=f"--device {missing}"):
            plan.resolve_device(missing)


def test_a_plan_changes_nothing(recorded_gpt: Path) -> None:
    before, listed = contents(recorded_gpt), dict(models.VARIANTS)
    given = options(recorded_gpt, models=GPT, seeds=[1, 2], vary=[("n_heads", ["1"])])
    planned = plan_runs(recorded_gpt, "cpu", toy(), given)
    assert [run.path.stem for run in planned.recorded] == ["gpt-seed1"]
    missing = ["gpt-n_heads-1-seed1", "gpt-seed2", "gpt-n_heads-1-seed2"]
    assert [run.path.stem for run in planned.missing] == missing
    assert contents(recorded_gpt) == before
    assert listed == models.VARIANTS
    fresh = plan_runs(recorded_gpt, "cpu", toy(), options(recorded_gpt, models=GPT, fresh=True))
    assert [run.path.stem for run in fresh.missing] == ["gpt-seed1"]


def test_few_frames_from_the_command_to_a_model(run: Run, tmp_path: Path) -> None:
    ours, stacks = (str(ROOT / "seqmodels"), str(ROOT / "tasks")), list[list[str]]()
    forward = MODELS["gpt"].forward

    def count_frames(*given: Any) -> Any:
        frames = inspect.stack(0)
        stacks.append([frame.function for frame in frames if frame.filename.startswith(ours)])
        return forward(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MODELS["gpt"], "forward", count_frames)
        assert run(recall, "--models", "gpt", "--out", tmp_path) == 0
    first = stacks[0]
    assert (first[0], first[-1]) == ("loss_of", "run")
    assert 1 + len(first) <= 12, first
