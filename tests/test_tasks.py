"""The tasks at toy size and in every size, the driver of all results, and the tools for recipes."""

import argparse
import csv
import json
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from checks import check_one_line
from conftest import DATA, Call, Run
from safetensors.torch import load_file
from toy_task import toy

import seqmodels
from seqmodels import MODELS
from seqmodels.cli import compare
from seqmodels.comparison import runs
from seqmodels.comparison.arm import model_sizes
from seqmodels.comparison.runs import check_same_settings, recorded_settings, shared_settings
from seqmodels.comparison.task import Task
from seqmodels.models import VARIANTS
from seqmodels.records import record
from seqmodels.report import figures
from seqmodels.training import checkpoint
from seqmodels.utils import files
from tasks import __main__ as everything
from tasks.next_token import __main__ as next_token
from tasks.recall import __main__ as recall
from tasks.recipes import GRAMMAR
from tasks.translation import __main__ as translation
from tools import rounded, trials

RESULTS = Path(__file__).parents[1] / "results"


def write_empty_files(folder: Any, **_: object) -> list[Path]:
    """Write empty files in place of a folder's figures and tables."""
    path = Path(getattr(folder, "path", folder))
    return [files.write(path / name, "") for name in ("score-length.svg", "tables.md")]


def test_the_driver_runs_what_is_chosen(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out a comparison that is left out or made twice, and figures after a failure."""
    monkeypatch.setattr(figures, "plot_folder", write_empty_files)
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


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real text at {DATA}")
@pytest.mark.parametrize(("name", "module", "flags"), everything.CORPORA, ids=lambda x: x[:30])
def test_committed_records_are_accepted(
    name: str, module: str, flags: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out real text that is prepared in another way than for the committed records."""
    monkeypatch.setenv("SEQMODELS_DATA", str(DATA))
    tasks: list[Task] = []
    task = import_module(f"tasks.{module}.__main__")
    monkeypatch.setattr(compare, "compare_and_report", lambda task, args: tasks.append(task))
    with pytest.raises(SystemExit):
        task.main(flags.split())
    for path in (RESULTS / name).glob("*-seed*.json"):
        check_same_settings(path, recorded_settings(record.load(path)), shared_settings(tasks[0]))


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
    arms = ["gpt,lr=2e-3", "gpt,batch_tokens=300,lr=4e-3,n_layers=2", "rnn_encdec"]
    first = try_out(*arms, "--tokens", 500)
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["model"] for row in rows] == ["gpt", "gpt", "rnn_encdec"]
    assert [float(row["lr"]) for row in rows] == [2e-3, 4e-3, GRAMMAR["rnn_encdec"].lr]
    assert [row["batch_tokens"] for row in rows] == ["1600", "300", "1600"]
    assert [row["changes"] for row in rows] == ["", "n_layers=2", ""]
    for line, row in zip(first, rows, strict=True):
        losses = [float(loss) for loss in line.split(": ")[1].split()]
        assert float(row["valid_nats"]) == pytest.approx(min(losses), abs=6e-4)
    with monkeypatch.context() as patch:
        patch.setattr(trials, "train_run", lambda *_: pytest.fail("trained again"))
        assert try_out(arms[1], "--tokens", 500) == first[1:2]
    assert try_out(arms[1], "--tokens", 600) != first[1:2]
    assert [file.name for file in out.iterdir()] == [trials.FILE]
    for wrong in (["gpt,"], ["gpt,lr=x"], ["gpt,d_x=1"], ["no"], ["gpt", "--lr", 1]):
        check_one_line(call(trials, "--out", out, "translation", *wrong))


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the lines beside a record."""
    return [json.loads(line) for line in path.with_suffix(".jsonl").read_text().splitlines()]


def test_scores_are_those_of_the_rounded_weights(compared: Path, tmp_path: Path) -> None:
    """Keeps out scores, hypotheses and checksums of the weights before they were rounded."""
    before, task = seqmodels.load(compared / "gpt-seed1"), toy()
    path = rounded.rounded(compared / "gpt-seed1.json", tmp_path, task)
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
    assert rows_of(path) == json.loads(json.dumps(rounded.sample(rows, [entry])))
    assert after.record["train_config"] == before.record["train_config"]
    other = {"name": "numbers", "sha256": "1" * 64, "n_train": 48, "n_test": 12}
    with pytest.raises(ValueError, match="other data than numbers"):
        rounded.rounded(compared / "gpt-seed1.json", tmp_path, toy(data=other))


def test_the_committed_runs_are_rounded(name: str) -> None:
    """Keeps out weights, a sample or a record that do not belong together."""
    path = RESULTS / "translation-live" / f"{name}-seed1.json"
    run, weights = seqmodels.load(path), load_file(path.with_suffix(".safetensors"))
    assert {weight.dtype for weight in weights.values()} == {torch.float16}
    assert run.record["rounded_from_sha256"] != run.record["weights_sha256"]
    rows, (test,) = rows_of(path), run.record["tests"]
    for bucket in test["buckets"]:
        inside = [row for row in rows if bucket["low"] <= row["x"] <= bucket["high"]]
        assert len(inside) == rounded.KEPT < bucket["n"]
    short = rows[:: rounded.KEPT][:4]
    assert run.translate([row["src"] for row in short]) == [row["hyp"] for row in short]
