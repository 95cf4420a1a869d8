"""Rounded runs: the weights that are kept, and what their records say of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from toy_task import toy

import seqmodels
from seqmodels import MODELS
from seqmodels.comparison import runs
from seqmodels.training import checkpoint
from tools import rounded

KEPT = Path(__file__).parents[1] / "results" / "translation-live"


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the lines beside a record."""
    return [json.loads(line) for line in path.with_suffix(".jsonl").read_text().splitlines()]


def test_scores_are_those_of_the_rounded_weights(compared: Path, tmp_path: Path) -> None:
    """Keeps out scores, hypotheses and checksums of the weights before they were rounded."""
    before = seqmodels.load(compared / "gpt-seed1")
    task = toy()
    path = rounded.rounded(compared / "gpt-seed1.json", tmp_path, task)
    (tmp_path / "tokenizer.json").write_bytes((compared / "tokenizer.json").read_bytes())
    after = seqmodels.load(path)
    assert after.record["rounded_from_sha256"] == before.record["weights_sha256"]
    assert after.record["weights_sha256"] == checkpoint.sha256(
        path.with_suffix(".safetensors").read_bytes()
    )
    for name, weight in after.model.state_dict().items():
        was = before.model.state_dict()[name]
        assert weight.dtype == torch.float32
        assert torch.equal(weight, was.half().float())
    rows, entry = runs.evaluate(after.model, task, task.tests[0], "cpu")
    assert after.record["tests"] == json.loads(json.dumps([entry]))
    assert entry["overall"] != before.record["tests"][0]["overall"]
    assert rows_of(path) == json.loads(json.dumps(rounded.sample(rows, [entry])))
    assert after.record["train_config"] == before.record["train_config"]


def test_sample() -> None:
    """Keeps out other rows than the first of each bucket, and rows of other test sets."""
    rows = [{"set": "length", "x": x, "i": i} for i, x in enumerate([9, 1, 5, 2, 3, 3, 1, 4, 8])]
    tests = [
        {"name": "length", "buckets": [{"low": 1, "high": 4}, {"low": 5, "high": 8}]},
        {"name": "other", "buckets": [{"low": 1, "high": 9}]},
    ]
    other = {"set": "other", "x": 1, "i": 9}
    assert [row["i"] for row in rounded.sample([*rows, other], tests)] == [1, 3, 4, 5, 6, 2, 8, 9]


def test_other_data(compared: Path, tmp_path: Path) -> None:
    """Keeps out scores on other examples than the run's."""
    data = {"name": "numbers", "sha256": "1" * 64, "n_train": 48, "n_test": 12}
    with pytest.raises(ValueError, match="other data than numbers"):
        rounded.rounded(compared / "gpt-seed1.json", tmp_path, toy(data=data))


@pytest.mark.parametrize("name", MODELS)
def test_what_is_kept(name: str) -> None:
    """Keeps out weights, a sample or a record that do not belong together."""
    run = seqmodels.load(KEPT / f"{name}-seed1")
    stored = safetensors.torch.load_file(KEPT / f"{name}-seed1.safetensors")
    assert {weight.dtype for weight in stored.values()} == {torch.float16}
    assert run.record["rounded_from_sha256"] != run.record["weights_sha256"]
    assert [test["name"] for test in run.record["tests"]] == ["length"]
    rows, (test,) = rows_of(KEPT / f"{name}-seed1"), run.record["tests"]
    for bucket in test["buckets"]:
        inside = [row for row in rows if bucket["low"] <= row["x"] <= bucket["high"]]
        assert len(inside) == rounded.KEPT < bucket["n"]
    short = rows[:: rounded.KEPT][:4]
    assert run.translate([row["src"] for row in short]) == [row["hyp"] for row in short]
