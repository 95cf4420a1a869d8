"""A trained run in a program of one's own."""

import copy
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from conftest import ROOT, Call, check_one_line
from safetensors.torch import load_file, save_file

import seqmodels
from seqmodels import BOS, EOS
from seqmodels.cli import inference as commands
from seqmodels.cli import main
from seqmodels.inference import TrainedModel
from seqmodels.records.schema import Data
from seqmodels.training.checkpoint import load_model

FOLDER = ROOT / "results" / "translation-live"
SOURCES = ["The cat sees the dog.", "Although it rained, the man slept.", "They sing."]
REFERENCES = ["Die Katze sieht den Hund.", "Obwohl es regnete, schlief der Mann.", "Sie singen."]


@pytest.fixture(scope="module")
def run() -> TrainedModel:
    return seqmodels.load(FOLDER / "bahdanau-seed1")


def with_data(run: TrainedModel, **data: Any) -> TrainedModel:
    """Return the run as if it had been trained on data with other properties; None: without."""
    fields = {k: value for k, value in (run.record.data.model_dump() | data).items() if value}
    changed = run.record.model_copy(update={"data": Data.model_validate(fields)})
    return TrainedModel(run.model, run.tokenizer, changed)


def test_translations_are_the_commands(run: TrainedModel, call: Call, monkeypatch: Any) -> None:
    path = FOLDER / "bahdanau-seed1"
    printed = [call(main, "translate", path, text, "--beam", 4)[1][:-1] for text in SOURCES]
    assert run.translate(SOURCES, beam=4) == printed
    assert len(set(printed)) == 3
    assert run.translate([]) == []
    lines = [SOURCES[1], "", SOURCES[0]]
    monkeypatch.setattr(commands, "LINES_AT_ONCE", 2)
    given = "--beam", 4, "--length-penalty", 0
    code, out, _ = call(main, "translate", path, "\n".join(lines), *given)
    assert (code, out.splitlines()) == (0, run.translate(lines, beam=4, length_penalty=0))
    short, long = (run.translate(lines[0], beam=4, length_penalty=a) for a in (0, 10))
    assert len(short) < len(long)


def test_a_loaded_run_drops_nothing(run: TrainedModel) -> None:
    sizes = {**run.record.settings, "dropout": 0.5}
    changed = run.record.model_copy(update={"settings": sizes})
    model = load_model(changed, FOLDER / "bahdanau-seed1.safetensors")
    src = torch.tensor([run.encode(SOURCES[0])])
    first, second = (model(src, src > 0, src) for _ in range(2))
    assert torch.equal(first, second)


def test_each_line_is_a_sentence(
    run: TrainedModel, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = run.translate(SOURCES)
    lines = [SOURCES[0], "", SOURCES[1], " \t", SOURCES[2]]
    wanted = [first, "", second, "", third]
    several = run.translate(["\n".join(lines[:3]), "", SOURCES[2]])
    assert several == ["\n".join(wanted[:3]), "", third]
    (tmp_path / "lines").write_text("\ufeff" + "".join(f"{line}\r\n" for line in lines))
    encode = Mock(side_effect=type(run.tokenizer).encode)
    monkeypatch.setattr(type(run.tokenizer), "encode", lambda self, text: encode(self, text))
    monkeypatch.setattr(commands, "LINES_AT_ONCE", 2)
    with (tmp_path / "lines").open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        code, out, err = call(main, "translate", FOLDER / "bahdanau-seed1", "--beam", 1)
    assert encode.call_count == 3
    assert (code, out.split("\n")) == (0, [*wanted, ""])
    assert err.startswith("2 of 17 words ")  # of all lines
    (tmp_path / "lines").write_bytes("eins\nzwei".encode("utf-16"))
    with (tmp_path / "lines").open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        result = call(main, "translate", FOLDER / "bahdanau-seed1")
    check_one_line(result, "standard input, line 1: ", "iconv")


def test_the_source_is_read_as_in_training(run: TrainedModel, few_draws: None) -> None:
    words = run.tokenizer.encode(SOURCES[0])
    for end, expected in (("EOS", [*words, EOS]), ("none", words), (None, words)):
        assert with_data(run, source_end=end).encode_source(SOURCES[0]) == expected
    assert with_data(run, source_end="none").encode_source("") == [BOS]
    assert len(run.encode_source("cat " * 1_999)) == 2_000  # with EOS, as many as are read
    with pytest.raises(ValueError, match="has 2001 tokens, more than"):
        run.encode_source("cat " * 2_000)

    gpt = seqmodels.load("gpt")  # it has 280 positions, for source and target
    assert gpt.model.max_target(len(gpt.encode_source("cat " * 278))) == 1
    with pytest.raises(ValueError, match="has 280 tokens, more than"):
        gpt.encode_source("cat " * 279)
    assert gpt.generate("cat " * 270).startswith("cat cat")
    assert gpt.align("cat", [5] * 278).weights.shape == (278, 2)
    with pytest.raises(ValueError, match="has 279 tokens; it can have 1 to 278"):
        gpt.align("cat", [5] * 279)
    assert run.generate("") == run.generate("", length=100, temperature=0.8)

    lower, (source, *_), (reference, *_) = with_data(run, case="lower"), SOURCES, REFERENCES
    assert run.encode_source(source) != run.encode_source(source.lower())
    assert lower.encode_source(source) == run.encode_source(source.lower())
    assert lower.align(source, reference).tgt == run.align(source, reference.lower()).tgt


def test_an_alignment_is_that_of_the_model(run: TrainedModel) -> None:
    model = copy.deepcopy(run.model)
    for parameter in model.parameters():  # so that no two weights are equal
        parameter.data += 0.1 * torch.randn(parameter.shape)
    run = TrainedModel(model, run.tokenizer, run.record)
    src, tgt, weights = run.align(SOURCES[1], REFERENCES[0])
    assert src == [*run.tokenizer.tokens(run.tokenizer.encode(SOURCES[1])), "<eos>"]
    target = run.tokenizer.encode(REFERENCES[0])
    assert tgt == run.tokenizer.tokens(target)
    assert weights.shape == (len(tgt), len(src))
    assert len(tgt) != len(src)
    assert np.allclose(weights.sum(1), 1, atol=1e-5)
    ids, tgt_in = torch.tensor([run.encode_source(SOURCES[1])]), torch.tensor([[BOS, *target[:-1]]])
    with torch.inference_mode():
        expected = run.model.align(ids, ids > 0, tgt_in)[0]
    assert np.allclose(weights, expected.numpy(), atol=1e-6)
    greedy = run.search([run.encode_source(SOURCES[0])])[0]
    assert run.align(SOURCES[0]).tgt == run.tokenizer.tokens(greedy)


FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_lines_of_readmes_run(monkeypatch: Any, capsys: Any, few_draws: None) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = FENCE.findall(text)
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    exec(block, names)
    assert capsys.readouterr().out.startswith("['Mein freundliches Pferd")
    assert len(names["weights"]) == len(names["target_tokens"])
    (block,) = FENCE.findall((ROOT / "results" / "README.md").read_text(encoding="utf-8"))
    exec(block, {})
    assert "\ngpt 3 [100.0, 99.8," in capsys.readouterr().out


def test_records_and_weights_that_cannot_be_are_refused(trained: Path, tmp_path: Path) -> None:
    record = json.loads((trained / "gpt-seed1.json").read_text(encoding="utf-8"))
    weights = load_file(trained / "gpt-seed1.safetensors")
    shutil.copy(trained / "vocabulary.json", tmp_path)
    run = tmp_path / "gpt-seed1.json"
    for config, message in (({"n_layers": 10}, r"decoder\.4"), ({"n_lairs": 2}, "n_lairs")):
        save_file(weights, run.with_suffix(".safetensors"))
        changed = record | {"model_config": record["model_config"] | config, "weights_sha256": None}
        run.write_text(json.dumps(changed), encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            seqmodels.load(run)
