"""Sweeps: what a comparison's options stand for, and how wide its models are."""

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from toys import options, toy

from seqmodels import MODELS, build, models
from seqmodels.experiments import run as run_module
from seqmodels.experiments import sweep
from seqmodels.experiments.sweep import Options, count_parameters, list_runs, make_spec, model_sizes
from seqmodels.training.config import TrainConfig

GPT = ["gpt"]


def test_every_option_reaches_its_runs(tmp_path: Path) -> None:
    task = toy(training={**toy().training, "max_grad_norm": 0.7})
    about: dict[str, Any] = {"precision": "bfloat16", "tokens": 123}
    given = options(tmp_path, models=["gpt", "bahdanau"], seeds=[1, 4], **about)
    runs = list_runs(task, given, tmp_path, "cpu")
    names = [("gpt", 1), ("bahdanau", 1), ("gpt", 4), ("bahdanau", 4)]
    assert [(run.spec.name, run.cfg.seed) for run in runs] == names
    for run in runs:
        assert run.path == tmp_path / f"{run.spec.name}-seed{run.cfg.seed}.json"
        assert (run.cfg.precision, run.cfg.max_grad_norm) == ("bfloat16", 0.7)
        assert run.settings()["tokens"] == 123
        assert run.options is given


def test_a_task_has_changes_of_its_own(tmp_path: Path) -> None:
    task = toy(vary={"gpt": [{"n_heads": 1}, {"dropout": 0.25, "beta_2": 0.5}]})
    given = options(tmp_path, models=["bahdanau", "gpt"])
    runs = list_runs(task, given, tmp_path, "cpu")
    both = "gpt-dropout-0.25-beta_2-0.5"
    assert [run.spec.name for run in runs] == ["bahdanau", "gpt", "gpt-n_heads-1", both]
    assert (runs[-1].settings()["dropout"], runs[-1].cfg.beta_2) == (0.25, 0.5)
    given = options(tmp_path, models=GPT, vary=[("n_heads", ["4"])])
    runs = list_runs(task, given, tmp_path, "cpu")
    assert [run.spec.name for run in runs] == ["gpt", "gpt-n_heads-4"]


def test_a_change_is_of_one_field(tmp_path: Path) -> None:
    vary = [("n_heads", ["1", "2", "4"]), ("lr", ["0.01", "0.02"]), ("width", ["3"])]
    runs = list_runs(toy(), options(tmp_path, models=GPT, vary=vary), tmp_path, "cpu")
    names = ["gpt", "gpt-n_heads-1", "gpt-n_heads-4", "gpt-lr-0.02", "gpt-width-3"]
    assert [run.spec.name for run in runs] == names  # without changes to the default
    assert [run.spec.training for run in runs] == [{}, {}, {}, {"lr": 0.02}, {}]
    assert [run.sizes["n_heads"] for run in runs] == [2, 1, 4, 2, 2]
    assert runs[4].sizes["d_model"] == 3 * runs[0].sizes["d_model"]
    with torch.device("meta"):
        n = [count_parameters(run.spec.build(run.sizes)) for run in runs]
    assert all(abs(x / toy().n_parameters - 1) <= 0.05 for x in n[:4])
    assert n[4] > 2 * n[0]


def test_set_fields_reach_the_models_that_have_them(tmp_path: Path) -> None:
    task = toy(training={**toy().training, "optimizer": "adamw"})
    given = [("d_k", "24"), ("dropout", "0.3"), ("lr", "0.5"), ("optimizer", "muon")]
    given += [("n_parameters", "300_000"), ("lr", 0.25), ("batch_tokens", "100")]
    about: dict[str, Any] = {"set": given, "vary": [("d_k", ["8"]), ("lr", ["0.5"])]}
    options_of = options(tmp_path, models=["gpt", "transformer"], **about)
    runs = {run.spec.name: run for run in list_runs(task, options_of, tmp_path, "cpu")}
    names = ["gpt", "gpt-lr-0.5", "transformer", "transformer-d_k-8", "transformer-lr-0.5"]
    assert [*runs] == names
    assert [run.cfg.lr for run in runs.values()] == [0.25, 0.5, 0.25, 0.25, 0.5]
    assert {(run.sizes["dropout"], run.cfg.optimizer) for run in runs.values()} == {(0.3, "muon")}
    assert [run.settings().get("d_k") for run in runs.values()] == [None, None, 24, 8, 24]
    assert not runs["gpt"].spec.is_changed  # its record is named and compared as without --set
    with torch.device("meta"):
        n = [count_parameters(run.spec.build(run.sizes)) for run in runs.values()]
    assert all(abs(x / 300_000 - 1) <= 0.05 for x in n)


def test_a_grid_has_each_combination(tmp_path: Path) -> None:
    vary = [("n_heads", ["1", "4"]), ("width", ["1", "3"]), ("lr", ["0.5"])]
    given = options(tmp_path, models=GPT, vary=vary, grid=True)
    base, *specs = (run.spec for run in list_runs(toy(), given, tmp_path, "cpu"))
    assert (base.name, base.is_changed) == ("gpt", False)
    assert [one.name for one in specs] == [
        "gpt-n_heads-1-lr-0.5", "gpt-n_heads-1-width-3-lr-0.5",
        "gpt-n_heads-4-lr-0.5", "gpt-n_heads-4-width-3-lr-0.5",
    ]  # fmt: skip
    last = specs[-1]
    assert (last.sizes, last.width, last.training) == ({"n_heads": 4}, 3, {"lr": 0.5})
    assert (last.info.variant_of, last.info.label) == ("gpt", "GPT, n_heads 4, 3 × width, lr 0.5")


def test_a_width_is_within_five_percent() -> None:
    sizes = {"vocab_size": 900, "d_embed": 128}
    with torch.device("meta"):
        narrowest = count_parameters(build("lstm_seq2seq", **sizes, d_model=16))
    with pytest.raises(ValueError, match=r"no width within 5 %.* --set n_parameters"):
        sweep.fit_width(make_spec("lstm_seq2seq"), sizes, int(narrowest / 1.06))
    assert sweep.fit_width(make_spec("lstm_seq2seq"), sizes, int(narrowest / 1.04)) == 16
    assert model_sizes(make_spec("gpt"), toy())["n_heads"] == 2
    with pytest.raises(ValueError, match="d_model 7 is not a multiple of n_heads 2"):
        model_sizes(sweep.change_spec(make_spec("gpt"), {"d_model": 7}), toy())


def test_values_have_the_type_of_their_field() -> None:
    fields = {"is_prenorm": "false", "d_k": "None", "dropout": "0", "n_layers": "1"}
    values = [sweep.parse_value("transformer", field, text) for field, text in fields.items()]
    assert values == [False, None, 0.0, 1]
    assert [type(value) for value in values] == [bool, type(None), float, int]
    training = {*TrainConfig.__dataclass_fields__, sweep.WIDTH}
    for name in models.list_models():  # no field has two meanings
        assert not training & set(MODELS[name].config_type.__dataclass_fields__), name


@pytest.mark.parametrize(("changes", "named"), [
    ({"grid": True}, "--grid needs --vary"), ({"seeds": [2, 2]}, "2 is given twice"),
    ({"vary": [("layers", ["3"])]}, "--vary: .* no field 'layers'"),
    ({"models": GPT, "set": [("d_k", "3")]}, "--set: gpt: no field 'd_k'"),
    ({"models": GPT, "set": [("n_head", "3")]}, "did you mean 'n_heads'"),
    ({"models": ["bahdanau_4"], "set": [("n_queries", "3")]}, "the variant with 4"),
    ({"models": GPT, "set": [("tokens", "3")]}, "give --tokens"),
    ({"models": GPT, "set": [("precision", "bfloat16")]}, "give --precision"),
    ({"models": GPT, "set": [("vocab_size", "3")]}, "no field 'vocab_size'"),
    ({"models": GPT, "vary": [("vocab_size", ["3"])]}, "no field 'vocab_size'"),
    ({"models": GPT, "vary": [("n_heads", ["1" * 53])]}, "cannot be part of a file's name"),
])  # fmt: skip
def test_contradicting_options_are_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Options(**changes)


@pytest.mark.parametrize(("changes", "named"), [
    ({"n_heads": 8}, "n_heads was None, is 8"),  # a size that the recipe has gained
    ({"data.n_train": 9}, "(data.n_train was 7, is 9)"),
    ({"optimizer": "muon"}, "(optimizer was adamw, is muon)"),
    ({"data.n_lossy": 3}, ""), ({"data.tokenizer": "b"}, "data.tokenizer was None, is b"),
])  # fmt: skip
def test_other_settings_are_named(changes: dict[str, Any], named: str, tmp_path: Path) -> None:
    was = {"data.sha256": "a", "data.n_train": 7, "lr": 0.1}
    with pytest.raises(ValueError, match=re.escape(named)) if named else nullcontext():
        sweep.check_same_settings(tmp_path, was, was | changes)


@pytest.mark.parametrize(
    ("device", "is_fused", "precision"), [("cpu", {False}, "highest"), ("meta", {True}, "high")]
)
def test_attention_is_fused_and_products_are_rounded_where_it_is_not_on_a_cpu(
    device: str, is_fused: set[bool], precision: str, tmp_path: Path, request: Any
) -> None:
    request.addfinalizer(lambda: torch.set_float32_matmul_precision("highest"))
    (run,) = list_runs(toy(), options(tmp_path, models=["transformer"]), tmp_path, device)
    attentions = [m for m in run_module.build_model(run).modules() if hasattr(m, "W_o")]
    assert {"forward" in vars(m) for m in attentions} == is_fused
    assert torch.get_float32_matmul_precision() == precision
