"""Comparisons: runs, settings, arms, forecasts; the tasks in every size, the driver, the tools."""

import argparse
import csv
import json
import re
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from conftest import Call, Run, check_folder, check_one_line, rows_of
from safetensors.torch import load_file
from toys import contents, flags, same, toy

import seqmodels
from seqmodels import MODELS, models
from seqmodels.cli import compare as cli_compare
from seqmodels.cli.compare import compare_and_report
from seqmodels.data import tokenizers
from seqmodels.experiments import compare, forecast, launch, runs, specs
from seqmodels.experiments.forecast import Forecast
from seqmodels.experiments.runs import check_same_settings
from seqmodels.experiments.specs import count_parameters, model_sizes
from seqmodels.experiments.task import Task
from seqmodels.interface import SequenceModel
from seqmodels.models import VARIANTS
from seqmodels.records import io as record
from seqmodels.report import load_records, render_folder
from seqmodels.training import checkpoint
from seqmodels.training.config import TrainConfig
from seqmodels.utils import files
from tasks import __main__ as everything
from tasks.next_token import __main__ as next_token
from tasks.recall import __main__ as recall
from tasks.recipes import GRAMMAR_MUON
from tasks.translation import __main__ as translation
from tools import live, trials

GPT = ["gpt"]


def test_seeds_and_flags_reach_their_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a second seed that trains the first again, and a rate or precision unused."""
    planned: list[runs.Run] = []
    monkeypatch.setattr(compare, "run_all", lambda todo, *_: planned.extend(todo) or [])
    given = {"models": ["gpt", "bahdanau"], "seeds": [1, 4], "lr": 0.5, "precision": "bfloat16"}
    task = toy(training={**toy().training, "max_grad_norm": 0.7})
    compare.compare(task, flags(tmp_path, checkpoint_every=7.0, tensorboard=True, **given))
    names = [("gpt", 1), ("bahdanau", 1), ("gpt", 4), ("bahdanau", 4)]
    assert [(run.name, run.cfg.seed) for run in planned] == names
    for run in planned:
        assert run.path.name == f"{run.name}-seed{run.cfg.seed}.json"
        assert (run.cfg.lr, run.cfg.precision, run.cfg.max_grad_norm) == (0.5, "bfloat16", 0.7)
        assert (run.checkpoint_every_s, run.tensorboard) == (7.0, True)


def times(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*-seed*")}


@pytest.mark.usefixtures("undrawn", "few_draws")
def test_only_missing_runs_are_trained(copied: Path, monkeypatch: Any, capsys: Any) -> None:
    """Keeps out hours of training for a figure: what is recorded is only drawn."""
    before = times(copied)
    with monkeypatch.context() as patch:
        patch.setattr(launch, "train_if_missing", lambda *_: pytest.fail("trained again"))
        compare_and_report(toy(), flags(copied))
    assert times(copied) == before
    assert capsys.readouterr().out.count("recorded in") == len(MODELS)
    for path in copied.glob("gpt-seed1.json*"):
        path.unlink()
    drawn = []
    with monkeypatch.context() as patch:  # a run that fails: the others are drawn, and it is said
        patch.setattr(cli_compare, "draw_and_print", lambda out, _: drawn.append(out))
        patch.setattr(compare, "run_all", lambda *_: ["gpt, seed 1: no memory"])
        with pytest.raises(ValueError, match="gpt, seed 1: no memory"):
            compare_and_report(toy(), flags(copied))
    assert drawn == [copied]
    compare.compare(toy(), flags(copied))
    after = times(copied)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {name for name in before if name.startswith("gpt-seed1.")}


def test_other_settings_need_another_folder(copied: Path) -> None:
    """Keeps out old results under new settings; all is checked before anything is trained."""
    before = contents(copied)
    for changes, given, match in (
        ({"data": {**toy().data, "name": "b→a"}}, {}, "data.name was letters, is b→a"),
        ({"training": {**toy().training, "tokens": 300}}, {}, "tokens was 200, is 300"),
        ({"beam": 5}, {}, "beam was 1, is 5"),
        ({"n_parameters": 500_000}, {}, "d_model was "),
        ({}, {"lr": 0.5}, r"gpt-seed1.*lr was 0\.01, is 0\.5.*choose another --out"),
    ):
        with pytest.raises(ValueError, match=match):
            compare.compare(toy(**changes), flags(copied, models=GPT, **given))
    assert contents(copied) == before
    for path in copied.glob("rnn_encdec-seed1*"):
        path.unlink()
    before = contents(copied)
    task = toy(tokenizer=tokenizers.Words([*"gfedcba"]), data={"sha256": "1" * 64})
    with pytest.raises(ValueError, match=r"sha256 was 000"):  # of a run not asked for
        compare.compare(task, flags(copied, models=["rnn_encdec"]))
    with pytest.raises(ValueError, match=r"gpt-seed1.* was made with other settings"):
        compare.compare(toy(), flags(copied, models=["rnn_encdec", "gpt"], lr=0.5))
    assert contents(copied) == before


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
    """Keeps out a setting that is new and therefore ignored, and counts that are named instead."""
    was = {"data.sha256": "a", "data.n_train": 7, "lr": 0.1}
    with pytest.raises(ValueError, match=re.escape(named)) if named else nullcontext():
        check_same_settings(tmp_path, was, was | changes)


def test_the_device_and_the_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a GPU not used, or used for the CPU, and two precisions in a folder."""
    monkeypatch.setattr(compare, "native_precision", lambda device: f"native on {device}")
    own = toy(training={**toy().training, "precision": "own"})

    def precision(task: Any, *given: Any) -> str:
        return compare.choose_precision(task, *given).training["precision"]

    assert precision(own, "given", "cpu", ["earlier"]) == "given"
    assert precision(own, "auto", "cpu", ["earlier", "later"]) == "earlier"
    assert precision(own, "auto", "cpu") == "own"
    assert precision(toy(), "auto", "cpu") == "native on cpu"
    assert precision(toy(), "auto", "cpu", [], False) == "float32"
    assert precision(toy(), "auto", "cuda", [], False) == "bfloat16"
    for auto, there, missing in (("cuda", "cuda", "mps"), ("cpu", "mps", "cuda")):
        for name in ("cuda", "mps"):
            has = name == there
            monkeypatch.setattr(getattr(torch, name), "is_available", lambda has=has: has)
        chosen = [compare.resolve_device(choice) for choice in ("auto", "cpu", there)]
        assert chosen == [auto, "cpu", there]
        with pytest.raises(ValueError, match=f"--device {missing}"):
            compare.resolve_device(missing)


@pytest.mark.parametrize(("device", "has", "precision"), [
    ("cpu", {"avx512_bf16": True}, "bfloat16"), ("cpu", {"amx_bf16": True}, "bfloat16"),
    ("cpu", {"avx512_f": True, "avx512_bf16": False}, "float32"), ("cpu", None, "float32"),
    ("mps", {"avx512_bf16": True}, "float32"), ("cuda", {}, "bfloat16"),
])  # fmt: skip
def test_instructions_choose_the_precision(
    device: str, has: Any, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a precision that depends on what else the machine does."""
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: has, raising=False)
    if has is None:  # torch 2.10
        monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert compare.native_precision(device) == precision


def test_an_arm_changes_one_field() -> None:
    """Keeps out a grid, the base trained twice, and a recipe or task that wins over the arm."""
    vary = [("n_heads", ["1", "2", "4"]), ("lr", ["0.01", "0.02"]), ("width", ["3"])]
    planned = specs.expand_specs(GPT, vary)
    for one in planned:
        one.register()
    planned = specs.without_repeats(planned, toy(), None)
    names = ["gpt", "gpt-n_heads-1", "gpt-n_heads-4", "gpt-lr-0.02", "gpt-width-3"]
    assert [one.name for one in planned] == names
    assert [one.training for one in planned] == [{}, {}, {}, {"lr": 0.02}, {}]
    sizes = [model_sizes(name, toy()) for name in names]
    assert [size["n_heads"] for size in sizes] == [2, 1, 4, 2, 2]
    assert sizes[4]["d_model"] == 3 * sizes[0]["d_model"]
    with torch.device("meta"):
        n = [count_parameters(seqmodels.build(m, **s)) for m, s in zip(names, sizes, strict=True)]
    assert all(abs(x / toy().n_parameters - 1) <= 0.05 for x in n[:4])
    assert n[4] > 2 * n[0]
    kept = specs.fix_widths(toy(), ["rnn_encdec_x2", "gpt"])
    sizes = [model_sizes(name, kept) for name in (*names, "rnn_encdec_x2")]
    assert [size["d_model"] // sizes[0]["d_model"] for size in sizes[:5]] == [1, 1, 1, 1, 3]
    assert sizes[5] == model_sizes("rnn_encdec_x2", toy())
    # over the task's own setting, and the command's rate
    task = toy(training={"tokens": 200, "batch_tokens": 100, "label_smoothing": 0.1})
    planned = specs.expand_specs(["transformer"], [("label_smoothing", ["0.3"]), ("lr", ["0.5"])])
    for one in planned:
        one.register()
    found = [one.train_config(task, 0.02, 7) for one in planned]
    settings = [(cfg.label_smoothing, cfg.lr, cfg.seed) for cfg in found]
    assert settings == [(0.1, 0.02, 7), (0.3, 0.02, 7), (0.1, 0.5, 7)]
    texts, pairs = (
        specs.expand_specs([m], [("source_loss", ["0.5"])])[1] for m in ("gpt", "bahdanau")
    )
    texts.register(), pairs.register()
    assert texts.train_config(task, None, 7).settings()["source_loss"] == 0.5
    with pytest.raises(ValueError, match="continues its source"):
        pairs.train_config(task, None, 7)


def test_a_grid_has_each_combination() -> None:
    """Keeps out arms of one field in a grid, a combination without its base, and base twice."""
    vary = [("n_heads", ["1", "4"]), ("width", ["1", "3"]), ("lr", ["0.5"])]
    base, *planned = specs.expand_specs(GPT, vary, is_grid=True)
    assert (base.name, base.is_changed) == ("gpt", False)
    assert [one.name for one in planned] == [
        "gpt-n_heads-1-lr-0.5", "gpt-n_heads-1-width-3-lr-0.5",
        "gpt-n_heads-4-lr-0.5", "gpt-n_heads-4-width-3-lr-0.5",
    ]  # fmt: skip
    last = planned[-1]
    assert (last.sizes, last.width, last.training) == ({"n_heads": 4}, 3, {"lr": 0.5})
    assert last.varies == "gpt"
    assert last.papers[last.name].label == "GPT, n_heads 4, 3 × width, lr 0.5"


def test_grids_and_widths_are_planned(tmp_path: Path) -> None:
    """Keeps out flags that are read and not passed on: other arms, or arms of other widths."""
    given = flags(tmp_path, models=GPT, vary=[("n_heads", ["1"]), ("n_layers", ["2"])])

    def widths(**changes: bool) -> dict[str, int]:
        given.__dict__.update(changes)
        planned = compare.plan_runs(tmp_path, "cpu", toy(), given)
        return {
            run.spec.name: model_sizes(run.spec.name, run.task)["d_model"] for run, _ in planned
        }

    fitted = widths()
    assert [*fitted] == ["gpt", "gpt-n_heads-1", "gpt-n_layers-2"]
    assert fitted["gpt-n_layers-2"] < fitted["gpt"]
    assert {*widths(same_width=True).values()} == {fitted["gpt"]}
    assert [*widths(grid=True)] == ["gpt", "gpt-n_heads-1-n_layers-2"]


def test_values_have_the_type_of_their_field() -> None:
    """Keeps out the text "False", which is true, and an optional size that cannot be None."""
    fields = {"is_prenorm": "false", "d_k": "None", "dropout": "0", "n_layers": "1"}
    values = [specs.parse_value("transformer", field, text) for field, text in fields.items()]
    assert values == [False, None, 0.0, 1]
    assert [type(value) for value in values] == [bool, type(None), float, int]
    training = {*TrainConfig.__dataclass_fields__, specs.WIDTH}
    for name in models.papers():  # no field has two meanings
        assert not training & set(MODELS[name].config_type.__dataclass_fields__), name


@pytest.mark.usefixtures("undrawn", "few_draws")
def test_arms_run_like_models(tmp_path: Path) -> None:
    """Keeps out an arm without record or contrasts, or unknown where it was not trained."""
    rotary, vary = "transformer_rotary", [("rotary_base", ["30"]), ("warmup", ["0.2"])]
    planned = toy(contrasts=[(rotary, "gpt"), ("gpt", "bahdanau")])
    compare.compare(planned, flags(tmp_path, models=[rotary], vary=vary))
    names = [rotary, f"{rotary}-rotary_base-30.0", f"{rotary}-warmup-0.2"]
    records = {r["model"]: r for r in load_records.load_records(tmp_path)}
    assert list(records) == names
    assert records[names[0]].get("arm") is None
    assert records[names[1]]["model_config"]["rotary_base"] == 30.0
    assert records[names[2]]["train_config"]["warmup"] == 0.2
    assert records[names[2]]["arm"]["training"] == {"warmup": 0.2}
    assert records[rotary]["contrasts"] == ["gpt"]
    assert records[names[2]]["contrasts"] == [rotary, "gpt-warmup-0.2"]
    assert (planned.contrasts_of("bahdanau"), planned.contrasts_of("lstm_seq2seq")) == ([], None)
    before = times(tmp_path)
    compare.compare(toy(), flags(tmp_path, models=[rotary]))  # beside arms of other training
    assert times(tmp_path) == before
    for name in names[1:]:
        models.VARIANTS.pop(name, None)  # as in another process
    loaded = seqmodels.load(tmp_path / f"{names[1]}-seed1")
    assert loaded.model.config.rotary_base == 30.0


def test_a_task_has_changes_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out changes given to another model, and changes that --vary should have replaced."""
    planned: list[runs.Run] = []
    monkeypatch.setattr(compare, "run_all", lambda todo, *_: planned.extend(todo) or [])
    task = toy(vary={"gpt": [{"n_heads": 1}, {"dropout": 0.25, "beta_2": 0.5}]})
    compare.compare(task, flags(tmp_path / "a", models=["bahdanau", "gpt"]))
    both = "gpt-dropout-0.25-beta_2-0.5"
    assert [run.name for run in planned] == ["bahdanau", "gpt", "gpt-n_heads-1", both]
    assert (planned[-1].settings()["dropout"], planned[-1].cfg.beta_2) == (0.25, 0.5)
    planned.clear()
    compare.compare(task, flags(tmp_path / "b", models=GPT, vary=[("n_heads", ["4"])]))
    assert [run.name for run in planned] == ["gpt", "gpt-n_heads-4"]


def test_own_changes_are_of_the_default_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out arms that train where one model alone was asked for, and a task without them."""
    tasks: list[Task] = []
    monkeypatch.setattr(cli_compare, "compare_and_report", lambda task, _: tasks.append(task))
    for given in ([], ["--models", "transformer"]):
        import_module("tasks.choices.__main__").main(["--size", "smoke", *given])
    assert [sum(map(len, task.vary.values())) for task in tasks] == [3, 0]


@pytest.mark.usefixtures("few_draws")
def test_a_trained_run_is_taken(recorded_gpt: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """Keeps out runs trained twice, and weights that were trained with other settings."""
    path = recorded_gpt / "gpt-seed1.json"
    monkeypatch.setattr(runs, "train", lambda *_: pytest.fail("trained again"))
    tests = [*toy().tests, replace(toy().tests[0], name="short", examples=toy().valid[:5])]
    seen = list[bool]()

    def compare_weights(model: SequenceModel, untrained: SequenceModel) -> list[dict[str, Any]]:
        weights = load_file(path.with_suffix(".safetensors"))
        seen.extend(same(weights, each.state_dict()) for each in (model, untrained))
        return [{"n": 3.0}]

    task = toy(name="other", tests=tests, measure={"weights": compare_weights})
    compare.compare(task, flags(tmp_path / "a", models=GPT, trained=recorded_gpt))
    old, new = record.load(path), record.load(tmp_path / "a" / path.name)
    assert seen == [True, False]
    assert (new["task"], new["curve"]) == ("other", old["curve"])
    assert new["weights_sha256"] == old["weights_sha256"]
    assert new["tests"][0]["overall"] == old["tests"][0]["overall"]
    assert new["events"][-1]["kind"] == "trained"
    with pytest.raises(ValueError, match=r"lr was 0\.01, is 0\.5"):
        compare.compare(task, flags(tmp_path / "b", models=GPT, trained=recorded_gpt, lr=0.5))
    with pytest.raises(ValueError, match="no folder"):
        compare.compare(task, flags(tmp_path / "c", models=GPT, trained=tmp_path / "missing"))
    assert not (tmp_path / "c").exists()


def test_a_forecast_is_of_the_runs_most_like_it(recorded_gpt: Path) -> None:
    """Keeps out the time of another machine, setting or task, and a mean."""
    own = record.load(recorded_gpt / "gpt-seed1.json")
    plan = compare.plan_runs(recorded_gpt, "cpu", toy(), flags(recorded_gpt, models=GPT))
    ((run, _),), threads = plan, own["provenance"]["threads"]
    one = run.cfg.tokens * own["train_s"] / own["curve"][-1]["tokens"]

    def slower(n: int, **changes: Any) -> dict[str, Any]:
        return own | {"train_s": n * own["train_s"]} | changes

    def forecast_from(*records: dict[str, Any]) -> Forecast:
        return forecast.forecast_run(run, threads, records)

    local = forecast_from(slower(1), slower(3), slower(11), slower(90, task="another"))
    assert local.seconds == pytest.approx(3 * one)
    assert local.is_here
    for other in (
        slower(9, provenance=own["provenance"] | {"device": "another"}),
        slower(9, provenance=own["provenance"] | {"threads": threads + 1}),
        slower(9, train_config=own["train_config"] | {"precision": "bfloat16"}),
    ):
        assert forecast_from(slower(2), other).seconds == pytest.approx(2 * one)
        elsewhere = forecast_from(other)
        assert not elsewhere.is_here
        assert elsewhere.seconds == pytest.approx(9 * one)
    assert forecast_from(slower(5, model="bahdanau")).seconds is None
    assert forecast_from(slower(7, task="another")).seconds == pytest.approx(7 * one)
    near = forecast.find_records(recorded_gpt.with_name("new"))
    assert own in near
    # runs in parallel take as long as the longest; those of another machine are marked
    times = {"a": 7200.0, "b": 600.0, "c": 600.0}
    few = [Forecast(title, 1, s, title > "a") for title, s in times.items()]
    text = forecast.format_forecasts(few, 0, 2)
    assert "3 runs, 2 at once, about 2 h" in text
    rows = [("a", "2 h 0 min*"), ("b", "10 min"), ("c", "10 min")]
    assert re.findall(r"^([abc]) .* about (.*)$", text, re.M) == rows
    assert "3 runs, 1 at once, about 2 h 20 min" in forecast.format_forecasts(few, 0, 1)


def test_a_stopped_run_of_another_corpus(tmp_path: Path, monkeypatch: Any) -> None:
    """Keeps out a tokenizer that replaces the one of a run that has only a checkpoint."""
    for name in ("gpt-seed1.checkpoint-000001-0.safetensors", "tokenizer.json"):
        (tmp_path / name).write_text("before")
    settings = {"data.name": "syllables", "data.sha256": "1" * 64, "tokens": 9}
    of_gpt, none = Mock(latest=lambda log: Mock(settings=settings)), Mock(latest=lambda log: None)
    monkeypatch.setattr(compare, "Checkpoints", lambda path: of_gpt if "gpt" in path.stem else none)
    with pytest.raises(ValueError, match=r"gpt-seed1\.json .*name was syllables, is letters;"):
        compare.compare_in_folder(
            tmp_path, "cpu", toy(), flags(tmp_path, models=["bahdanau"]), None
        )
    assert (tmp_path / "tokenizer.json").read_text() == "before"
    task = toy(training={**toy().training, "optimizer": "muon"})
    settings.update(runs.shared_settings(task))
    compare.plan_runs(tmp_path, "cpu", task, flags(tmp_path, models=["bahdanau"]))


def test_a_dry_run_writes_nothing(recorded_gpt: Path, capsys: Any, monkeypatch: Any) -> None:
    """Keeps out a forecast that leaves a folder, changes one, or forgets what is recorded."""
    monkeypatch.chdir(recorded_gpt.parents[1])  # no other records are near

    def dry_run(out: Path, **changes: Any) -> str:
        compare.compare(toy(), flags(out, models=GPT, dry_run=True, **changes))
        return capsys.readouterr().out

    before, new = contents(recorded_gpt), recorded_gpt.with_name("new")
    assert "all 1 runs are recorded" in dry_run(recorded_gpt)
    text = dry_run(recorded_gpt, seeds=[1, 2, 3])
    assert re.search(r"gpt, seed 3 +200 +about 5 s", text)
    assert "To train: 2 runs, 1 at once" in text
    assert "Recorded: 1." in text
    assert re.search("2 runs, one after the other, ", dry_run(new, seeds=[2, 3], launcher="ray"))
    with pytest.raises(ValueError, match="made with other settings"):
        dry_run(recorded_gpt, lr=0.5)
    assert contents(recorded_gpt) == before
    assert not new.exists()


# -------------------------------------------------------------------------- Tasks, driver and tools
LENGTHS = [4, 8, 12, 16, 20, 24]
HEADS = ["heads", "scores", "distances", "muting", "article", "maps"]
SMOOTHING = ["lengths", "kernel", "bandwidth", "favor"]
DISTANCE = ["gradients", "depth", "probe"]
KINDS = [f"transformer_{kind}" for kind in ("sinusoids", "learned", "rotary", "none")]
TRANSFORMER = ["transformer"]
VECTOR, DRAWN = ["prefixes", "probe", "garden"], "prefixes probe crossings score-crossings"
slow = pytest.mark.slow
RUNS = [
    ("bottleneck", ["rnn_encdec_32", "bahdanau_2"], [1, 2, 3, 4], [], "bits reach"),
    ("distance", ["rnn_encdec", "transformer"], LENGTHS, DISTANCE, "distance depth"),
    pytest.param("heads", TRANSFORMER, [1, 11], HEADS, "muted-transformer", marks=slow),
    pytest.param("smoothing", TRANSFORMER, [1, 11], SMOOTHING, "smoothing-transformer", marks=slow),
    pytest.param("positions", KINDS, [1, 6, 11, 16], [], "score-length", marks=slow),
    pytest.param("vector", ["lstm_seq2seq", "transformer"], [1, 11], VECTOR, DRAWN, marks=slow),
    pytest.param("recall", [*MODELS], [4, 8, 16], [], "score-copy score-reverse", marks=slow),
]
"""Tasks, models, where buckets of the first test set begin, analyses, and figures."""


@pytest.mark.parametrize(("name", "models", "lows", "analyses", "drawn"), RUNS)
def test_tasks_run(name, models, lows, analyses, drawn, run: Run, tmp_path: Path) -> None:
    """Keeps out a model that the harness cannot train, search, score, measure or draw."""
    assert run(import_module(f"tasks.{name}.__main__"), "--models", *models, "--out", tmp_path) == 0
    for made in check_folder(tmp_path, models):
        assert [bucket["low"] for bucket in made["tests"][0]["buckets"]] == lows
        assert [*made.get("analyses", {})] == analyses
    assert {f"{name}.svg" for name in drawn.split()} <= {path.name for path in tmp_path.iterdir()}


def write_short_files(folder: Any, **_: object) -> list[Path]:
    path = Path(getattr(folder, "path", folder))
    return [files.write(path / name, "](curves.svg)") for name in ("score-length.svg", "tables.md")]


def test_the_driver_runs_choices(run: Run, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    """Keeps out a comparison that is left out or made twice, and figures after a failure."""
    monkeypatch.setattr(render_folder, "plot_folder", write_short_files)
    parts = {"BUILTIN": ("keys", "recall", ""), "FULL": ("more", "recall", "--seeds 4")}
    for part, comparison in (parts | {"CORPORA": ("text", "nothing", "")}).items():
        monkeypatch.setattr(everything, part, [comparison])
    given = everything, "--models", "lstm_seq2seq", "--out", tmp_path / "results"
    assert run(*given) == 0
    assert sorted(path.name for path in tmp_path.glob("results/*/")) == ["keys"]
    assert run(*given, "--full") == 0
    found = sorted(path.relative_to(tmp_path) for path in tmp_path.glob("results/*/*-seed*.json"))
    assert [str(path) for path in found] == [
        "results/keys/lstm_seq2seq-seed1.json", "results/more/lstm_seq2seq-seed4.json",
    ]  # fmt: skip
    assert capsys.readouterr().out.count("recorded in") == 1
    page = tmp_path / "results" / "README.md"
    assert re.findall("## (.*)", page.read_text()) == ["keys", "more"]
    page.unlink()
    assert run(*given, "--layers", 3) == 2
    assert not page.exists()


@pytest.mark.parametrize("task", [recall, translation, next_token], ids=lambda task: task.__name__)
def test_every_size_can_be_built(task: ModuleType) -> None:
    """Keeps out a size whose test has no example, whose GPT has too few positions, or no width."""
    for size, numbers in task.SIZES.items():
        few = {k: min(n, 40) if k in ("n_train", "n_valid") else n for k, n in numbers.items()}
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(task.SIZES, size, few)
            given = {"size": size, "tokens": None, "context": 128, "no_source_eos": False}
            given["best_state"] = None
            make_task = getattr(task, "builtin_task", task.make_task)
            built = make_task(argparse.Namespace(**given))
            if size == "smoke":  # no chance in the data
                assert make_task(argparse.Namespace(**given)).data == built.data
        longest = 0
        for examples in (built.train, built.valid, *(test.examples for test in built.tests)):
            assert examples
            longest = max(longest, *(len(e.src) + len(e.tgt) for e in examples))
        assert longest <= built.recipes["gpt"].sizes["n_positions"]
        assert built.recipes.keys() - VARIANTS.keys() == MODELS.keys()
        assert [model_sizes(name, built)["vocab_size"] for name in MODELS]  # a width for each
        for test in built.tests:
            assert len(test.x) == len(test.examples)
            assert all(any(low <= x <= high for low, high in test.buckets) for x in test.x)


def test_each_trial_is_made_once(call: Call, tmp_path: Path, monkeypatch: Any) -> None:
    """Keeps out one rate for all, a score on test, a trial that is repeated, and a wrong table."""
    out, table = tmp_path / "trials", tmp_path / "tasks" / "translation" / trials.TABLE
    table.parent.mkdir(parents=True)
    monkeypatch.setattr(trials, "ROOT", tmp_path)

    def try_out(*given: object) -> list[str]:
        argv = ["--out", out, "translation", *given, "--size", "smoke"]
        code, printed, err = call(trials, *argv, "--precision", "float32")
        assert code == 0, err
        return [line for line in printed.splitlines() if "training on" not in line]

    monkeypatch.setattr(runs, "evaluate", lambda *_: pytest.fail("test is scored"))
    specs = ["gpt,lr=2e-3", "gpt,batch_tokens=300,lr=4e-3,n_layers=2", "rnn_encdec"]
    first = try_out(*specs, "--tokens", 500)
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["model"] for row in rows] == ["gpt", "gpt", "rnn_encdec"]
    assert [float(row["lr"]) for row in rows] == [2e-3, 4e-3, GRAMMAR_MUON["rnn_encdec"].lr]
    assert [row["batch_tokens"] for row in rows] == ["1600", "300", "1600"]
    assert [row["changes"] for row in rows] == ["", "n_layers=2", ""]
    for line, row in zip(first, rows, strict=True):
        losses = [float(loss) for loss in line.split(": ")[1].split()]
        assert float(row["valid_nats"]) == pytest.approx(min(losses), abs=6e-4)
    with monkeypatch.context() as patch:
        patch.setattr(trials, "fit", lambda *_: pytest.fail("trained again"))
        assert try_out(specs[1], "--tokens", 500) == first[1:2]
    assert try_out(specs[1], "--tokens", 600) != first[1:2]
    assert [file.name for file in out.iterdir()] == [trials.FILE]
    for wrong in (["gpt,"], ["gpt,lr=x"], ["gpt,d_x=1"], ["no"], ["gpt", "--lr", 1]):
        check_one_line(call(trials, "--out", out, "translation", *wrong))


def test_scores_are_those_of_the_rounded_weights(compared: Path, tmp_path: Path) -> None:
    """Keeps out scores, hypotheses and checksums of the weights before they were rounded."""
    before, task = seqmodels.load(compared / "gpt-seed1"), toy()
    path = live.round_run(compared / "gpt-seed1.json", tmp_path, task)
    (tmp_path / "tokenizer.json").write_bytes((compared / "tokenizer.json").read_bytes())
    after = seqmodels.load(path)
    assert after.record["rounded_from_sha256"] == before.record["weights_sha256"]
    content = path.with_suffix(".safetensors").read_bytes()
    assert after.record["weights_sha256"] == checkpoint.sha256(content)
    for name, weight in after.model.state_dict().items():
        assert torch.equal(weight, before.model.state_dict()[name].half().float())
    rows, entry = runs.evaluate(after.model, task, task.tests[0], "cpu")
    assert after.record["tests"] == json.loads(json.dumps([entry]))
    assert entry["overall"] != before.record["tests"][0]["overall"]
    assert rows_of(path) == json.loads(json.dumps(live.first_rows(rows, [entry])))
    assert after.record["train_config"] == before.record["train_config"]
    other = {"name": "numbers", "sha256": "1" * 64, "n_train": 48, "n_test": 12}
    with pytest.raises(ValueError, match="other data than numbers"):
        live.round_run(compared / "gpt-seed1.json", tmp_path, toy(data=other))
