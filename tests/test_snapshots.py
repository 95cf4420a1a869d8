"""Snapshots: training that does not notice them, the same after a stop, a true last one."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import rows_of
from toys import TOKENIZER, flags, stopped_after, toy

from seqmodels.comparison import compare, snapshots
from seqmodels.comparison.task import Recipe
from seqmodels.records.snapshots import load
from seqmodels.report.snapshots import match_words
from seqmodels.training import loop

pytestmark = pytest.mark.usefixtures("few_draws")


def train(out: Path, n: int, name: str = "bahdanau", tokens: int = 900, **changes: Any) -> Path:
    """Train a model with dropout; its tests are a teacher-forced one and a search by beams."""
    recipe = toy().recipes[name]
    recipe = Recipe({**recipe.sizes, "dropout": 0.3}, recipe.lr)
    forced, searched = (replace(toy().tests[0], name=kind) for kind in ("forced", "length"))
    forced, searched = (
        replace(forced, is_generated=False, primary_metric="perplexity"),
        replace(searched, beam=3),
    )
    training = {"tokens": tokens, "batch_tokens": 100, "n_validations": 3}
    task = toy(recipes={name: recipe}, tests=[forced, searched], training=training)
    compare.compare(task, flags(out, models=[name], snapshots=n, **changes))
    return out / f"{name}-seed1.json"


@pytest.fixture
def drawing(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Let each search draw from all random generators; list what it finds."""
    generate, written = snapshots.generate_targets, []

    def draw_and_generate(*given: Any) -> Any:
        _ = random.random(), np.random.rand(), torch.rand(1)
        targets = generate(*given)
        written.append([TOKENIZER.decode(target) for target in targets])
        return targets

    monkeypatch.setattr(snapshots, "generate_targets", draw_and_generate)
    return written


@pytest.mark.usefixtures("undrawn", "drawing")
def test_training_does_not_notice(name: str, tmp_path: Path) -> None:
    """Keeps out random numbers drawn twice, dropout turned off, and tensors of inference mode."""
    without, with_ = (train(tmp_path / str(n), n, name, 300) for n in (0, 4))
    for suffix in (".safetensors", ".jsonl"):
        assert without.with_suffix(suffix).read_bytes() == with_.with_suffix(suffix).read_bytes()
    curves = [json.loads(path.read_text())["curve"] for path in (without, with_)]
    assert [p | {"seconds": 0} for p in curves[0]] == [p | {"seconds": 0} for p in curves[1]]
    assert not without.with_suffix(".snapshots.json").exists()
    assert len(load(with_.with_suffix(".snapshots.json")).snapshots) == 4


@pytest.mark.usefixtures("undrawn")
def test_stopped_equals_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a snapshot lost or taken twice, moments off their place, and stale files."""
    whole = train(tmp_path / "whole", 6).with_suffix(".snapshots.json")
    tokens = [snapshot.tokens for snapshot in load(whole).snapshots]
    assert len(tokens) == 6
    assert (tokens[0], load(whole).snapshots[1].step) == (0, 1)
    for moment, n in zip(np.geomspace(tokens[1], 900, 5), tokens[1:], strict=True):
        assert moment <= n + 1e-6 < moment + 100
    assert whole.stat().st_size < 100_000
    with stopped_after(1):
        train(tmp_path, 6)
    take, times = snapshots.Snapshots.take, iter(range(9))

    def kill(*given: Any) -> Any:
        if next(times) == 2:
            raise OSError("killed")
        return take(*given)

    with monkeypatch.context() as patch:
        patch.setattr(snapshots.Snapshots, "take", kill)
        with pytest.raises(OSError, match="killed"):
            train(tmp_path, 6, checkpoint_every=1e-6)
    resumed = train(tmp_path, 6).with_suffix(".snapshots.json")
    assert resumed.read_bytes() == whole.read_bytes()
    train(tmp_path, 0, tokens=1_200)
    assert not resumed.exists()
    train(tmp_path / "whole", 0, fresh=True)
    assert not whole.exists()


def test_the_last_is_the_evaluated_model(
    tmp_path: Path, drawing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out the last weights for the best ones, another search, and other sentences."""
    scores = ({"valid_nats": float(n), "valid_accuracy": 0.0} for n in range(9))
    monkeypatch.setattr(loop, "validate", lambda *_: next(scores))
    path = train(tmp_path, 4, "transformer")
    taken, record = load(path.with_suffix(".snapshots.json")), json.loads(path.read_text())
    hyps = {row["src"]: row["hyp"] for row in rows_of(path) if row["set"] == "length"}
    last = taken.snapshots[-1]
    assert last.hyps == [hyps[sentence.src] for sentence in taken.sentences] == drawing[-1]
    assert [len(s.src.split()) for s in taken.sentences] == [2, 3, 5, 6, 7]
    alpha = [[round(a, 2) for a in row] for row in record["alignment"]["alpha"]]
    np.testing.assert_allclose(last.alpha, alpha, atol=0.011)
    assert last.alpha != taken.snapshots[-2].alpha
    assert f"snapshots-{path.stem}.svg" in {file.name for file in tmp_path.iterdir()}


def test_words_and_sizes_are_checked() -> None:
    """Keeps out a word called right out of order, and weights that fit no sentence."""
    assert match_words("die Der Hund Hund", "Der alte Hund") == [False, True, True, False]
