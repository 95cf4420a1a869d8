"""Comparisons: what is trained again, and what is refused."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from toys import contents, options, same, toy

import seqmodels
from seqmodels import MODELS, SequenceModel, models
from seqmodels.data import tokenizers
from seqmodels.experiments import compare, launch
from seqmodels.experiments import run as one_run
from seqmodels.records import io as record
from seqmodels.report import load

GPT = ["gpt"]


def times(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*-seed*")}


@pytest.mark.usefixtures("undrawn", "few_draws")
def test_only_missing_runs_are_trained(copied: Path, monkeypatch: Any, capsys: Any) -> None:
    before = times(copied)
    with monkeypatch.context() as patch:
        patch.setattr(launch, "train_and_record", lambda *_: pytest.fail("trained again"))
        compare.compare(toy(), options(copied))
    assert times(copied) == before
    assert capsys.readouterr().out.count("recorded in") == len(MODELS)
    for path in copied.glob("gpt-seed1.json*"):
        path.unlink()
    compare.compare(toy(), options(copied))
    after = times(copied)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {name for name in before if name.startswith("gpt-seed1.")}


def test_other_settings_need_another_folder(copied: Path) -> None:
    before = contents(copied)
    for changes, given, match in (
        ({"data": {**toy().data, "name": "b→a"}}, {}, "data.name was letters, is b→a"),
        ({"training": {**toy().training, "tokens": 199}}, {}, "tokens was 200, is 199"),
        ({"training": {**toy().training, "tokens": 400}}, {}, "tokens was 200, is 400"),
        ({"beam": 5}, {}, "beam was 1, is 5"),
        ({"n_parameters": 500_000}, {}, "d_model was "),
        ({}, {"lr": 0.5}, r"lr was 0\.01, is 0\.5.*another --out, or start again with --fresh"),
    ):
        with pytest.raises(ValueError, match=match):
            compare.compare(toy(**changes), options(copied, models=GPT, **given))
    assert contents(copied) == before
    for path in copied.glob("rnn_encdec-seed1*"):
        path.unlink()
    before = contents(copied)
    task = toy(tokenizer=tokenizers.Words([*"gfedcba"]), data={"sha256": "1" * 64})
    with pytest.raises(ValueError, match=r"sha256 was 000"):  # of a run not asked for
        compare.compare(task, options(copied, models=["rnn_encdec"]))
    with pytest.raises(ValueError, match=r"gpt-seed1.* was made with other settings"):
        compare.compare(toy(), options(copied, models=["rnn_encdec", "gpt"], lr=0.5))
    assert contents(copied) == before


@pytest.mark.usefixtures("undrawn", "few_draws")
def test_arms_run_like_models(tmp_path: Path) -> None:
    rotary, vary = "transformer_rotary", [("rotary_base", ["30"]), ("warmup", ["0.2"])]
    planned = toy(contrasts=[(rotary, "gpt"), ("gpt", "bahdanau")])
    compare.compare(planned, options(tmp_path, models=[rotary], vary=vary))
    names = [rotary, f"{rotary}-rotary_base-30.0", f"{rotary}-warmup-0.2"]
    records = {r.model: r for r in load.load_records(tmp_path)}
    assert list(records) == names
    assert records[names[0]].arm is None
    assert records[names[1]].settings["rotary_base"] == 30.0
    assert records[names[2]].train_config["warmup"] == 0.2
    assert records[names[2]].arm.training == {"warmup": 0.2}
    assert records[rotary].contrasts == ["gpt"]
    assert records[names[2]].contrasts == [rotary, "gpt-warmup-0.2"]
    assert (planned.contrasts_of("bahdanau"), planned.contrasts_of("lstm_seq2seq")) == ([], None)
    before = times(tmp_path)
    compare.compare(toy(), options(tmp_path, models=[rotary]))  # beside arms of other training
    assert times(tmp_path) == before
    assert not {*names[1:]} & models.VARIANTS.keys()  # as in another process
    loaded = seqmodels.load(tmp_path / f"{names[1]}-seed1")
    assert loaded.model.config.rotary_base == 30.0


@pytest.mark.usefixtures("few_draws")
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
    compare.compare(task, options(tmp_path / "a", models=GPT, trained=recorded_gpt))
    old, new = record.load(path), record.load(tmp_path / "a" / path.name)
    assert seen == [True, False]
    assert (new.task, new.curve) == ("other", old.curve)
    assert new.weights_sha256 == old.weights_sha256
    assert new.tests[0].overall == old.tests[0].overall
    assert new.events[-1].kind == "trained"
    with pytest.raises(ValueError, match=r"lr was 0\.01, is 0\.5"):
        compare.compare(task, options(tmp_path / "b", models=GPT, trained=recorded_gpt, lr=0.5))
    with pytest.raises(ValueError, match="no folder"):
        compare.compare(task, options(tmp_path / "c", models=GPT, trained=tmp_path / "missing"))
    assert not (tmp_path / "c").exists()


def test_a_dry_run_writes_nothing(recorded_gpt: Path, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(recorded_gpt.parents[1])  # no other records are near

    def dry_run(out: Path, **changes: Any) -> str:
        compare.compare(toy(), options(out, models=GPT, dry_run=True, **changes))
        return capsys.readouterr().out

    before, new = contents(recorded_gpt), recorded_gpt.with_name("new")
    assert "all 1 runs are recorded" in dry_run(recorded_gpt)
    assert "To train: 2 runs, 1 at once" in dry_run(recorded_gpt, seeds=[1, 2, 3])
    assert re.search("2 runs, one after the other, ", dry_run(new, seeds=[2, 3], launcher="ray"))
    with pytest.raises(ValueError, match="made with other settings"):
        dry_run(recorded_gpt, lr=0.5)
    assert contents(recorded_gpt) == before
    assert not new.exists()
