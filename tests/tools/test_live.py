"""Weights rounded to float16."""

import hashlib
import json
from pathlib import Path

import pytest
import torch
from conftest import fields_of, rows_of
from toys import toy

import seqmodels
from seqmodels.experiments.run import score_test_set
from tools import live


def test_scores_are_those_of_the_rounded_weights(compared: Path, tmp_path: Path) -> None:
    before, task = seqmodels.load(compared / "gpt-seed1"), toy()
    path = live.round_run(compared / "gpt-seed1.json", tmp_path, task)
    (tmp_path / "vocabulary.json").write_bytes((compared / "vocabulary.json").read_bytes())
    after = seqmodels.load(path)
    assert after.record.rounded_from_sha256 == before.record.weights_sha256
    content = path.with_suffix(".safetensors").read_bytes()
    assert after.record.weights_sha256 == hashlib.sha256(content).hexdigest()
    for name, weight in after.model.state_dict().items():
        assert torch.equal(weight, before.model.state_dict()[name].half().float())
    rows, entry = score_test_set(after.model, task, task.tests[0])
    assert fields_of(path)["tests"] == json.loads(json.dumps([entry]))
    assert after.record.tests[0].overall != before.record.tests[0].overall
    assert rows_of(path) == json.loads(json.dumps(live.first_rows(rows, [entry])))
    assert after.record.train_config == before.record.train_config
    other = {"name": "numbers", "sha256": "1" * 64, "n_train": 48, "n_test": 12}
    with pytest.raises(ValueError, match="other data than numbers"):
        live.round_run(compared / "gpt-seed1.json", tmp_path, toy(data=other))
