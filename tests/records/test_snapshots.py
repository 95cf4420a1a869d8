"""Snapshots: training that does not notice them, the same after a stop, a true last one."""

import json
from dataclasses import replace
from itertools import chain, cycle, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import rows_of
from toys import TOKENIZER, options, stopped_after, toy

from seqmodels.experiments import compare, snapshots
from seqmodels.experiments.snapshots import Snapshots
from seqmodels.records.snapshots import load
from seqmodels.report import load_records, render_folder

pytestmark = pytest.mark.usefixtures("few_draws")


def train(out: Path, n: int, tokens: int = 900, name: str = "gpt", **given: Any) -> Path:
    """Train a model with dropout, test it teacher-forced and by a beam; return the snapshots."""
    recipe = (base := toy().recipes[name])._replace(sizes={**base.sizes, "dropout": 0.3})
    searched = replace(toy().tests[0], beam=3)
    forced = replace(searched, beam=1, name="all", is_generated=False, primary_metric="perplexity")
    training = {"tokens": tokens, "batch_tokens": 100, "n_validations": 3}
    task = toy(recipes={name: recipe}, tests=[forced, searched], training=training)
    compare.compare(task, options(out, models=[name], snapshots=n, **given))
    return out / f"{name}-seed1.snapshots.json"


def test_snapshots_do_not_change_training(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    points = cycle({"valid_nats": n, "valid_accuracy": 0.0} for n in (1.0, 2.0, 3.0))
    generate, targets = snapshots.generate_targets, []

    def draw_and_generate(*given: Any) -> Any:
        targets[:], _ = generate(*given), torch.rand(1)
        return [*targets]

    monkeypatch.setattr(snapshots, "generate_targets", draw_and_generate)
    monkeypatch.setattr("seqmodels.training.loop.validate", lambda *_: next(points))
    runs = [train(tmp_path / str(n), n, 300, name).parent / f"{name}-seed1.json" for n in (0, 4)]
    for suffix in (".safetensors", ".jsonl"):
        assert len({path.with_suffix(suffix).read_bytes() for path in runs}) == 1
    records = [json.loads(path.read_text()) for path in runs]
    assert len({str([p | {"seconds": 0} for p in made["curve"]]) for made in records}) == 1
    taken = load(runs[1].with_suffix(".snapshots.json"))
    hyps = {row["src"]: row["hyp"] for row in rows_of(runs[1]) if row["set"] == "length"}
    assert taken.snapshots[-1].hyps == [hyps[s.src] for s in taken.sentences]
    assert taken.snapshots[-1].hyps == [TOKENIZER.decode(target) for target in targets]
    assert [len(s.src.split()) for s in taken.sentences] == [2, 3, 5, 6, 7]
    if alignment := records[1]["alignment"]:
        np.testing.assert_allclose(taken.snapshots[-1].alpha, alignment["alpha"], atol=0.006)


def test_a_stopped_run_has_the_same_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, take, kill = train(tmp_path / "whole", 4), Snapshots.take, chain([1, 0], repeat(1))
    other = tmp_path / "stopped"
    tokens = [snapshot.tokens for snapshot in load(whole).snapshots]
    assert (tokens[0], load(whole).snapshots[1].step) == (0, 1)
    assert whole.stat().st_size < 100_000
    for moment, n in zip(np.geomspace(tokens[1], 900, 3), tokens[1:], strict=True):
        assert moment <= n + 1e-6 < moment + 100
    with stopped_after(1):
        train(other, 4)
    monkeypatch.setattr(Snapshots, "take", lambda *of: 1 // next(kill) and take(*of))
    with pytest.raises(ZeroDivisionError):
        train(other, 4, checkpoint_every=1e-6)
    assert train(other, 4).read_bytes() == whole.read_bytes()
    assert not train(other, 0, 1_000, fresh=True).exists()
    with stopped_after(1):
        train(whole.parent, 4, fresh=True)
    assert not whole.exists()


def test_a_file_of_snapshots_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = render_folder.snapshots.find_right_words("die Der Hund", "Der alte Hund")
    assert found == [False, True, True]
    path, draw = train(tmp_path, 2, 100), render_folder.snapshots.draw_all_snapshots
    render_folder.plot_folder(tmp_path, own=[])
    assert load(path).sentences[-1].ref in (tmp_path / "snapshots-gpt-seed1.svg").read_text()
    first, last = (whole := json.loads(path.read_text()))["snapshots"]
    for key, part in (("hyps", last["hyps"][1:]), ("alpha", [[0.5]])):
        path.write_text(json.dumps(whole | {"snapshots": [first, last | {key: part}]}))
        assert not draw(load_records.load_folder(tmp_path))
        assert f"not drawn: {path} is not a file of snapshots: " in capsys.readouterr().err
