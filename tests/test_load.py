"""A trained run in a program of one's own: what it writes, attends to and scores."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import train_toys
from sacrebleu.metrics import BLEU, CHRF

import seqmodels
from seqmodels.cli import main
from seqmodels.comparison import trained
from seqmodels.data import tokenizers
from seqmodels.evaluation import intervals
from seqmodels.interface import BOS, EOS

ROOT = Path(__file__).parents[1]
SOURCES = ["The cat sees the dog.", "Although it rained, the man slept.", "They sing."]
REFERENCES = ["Die Katze sieht den Hund.", "Obwohl es regnete, schlief der Mann.", "Sie singen."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train two toy runs, one of which attends."""
    out = tmp_path_factory.mktemp("notebook") / "runs"
    return train_toys(out, 200, 30000, "bahdanau", "lstm_seq2seq")


@pytest.fixture(scope="module")
def run(folder: Path) -> trained.TrainedRun:
    """Load the run that attends, by its public name."""
    return seqmodels.load(folder / "bahdanau-seed1")


def by_command(run: Path, text: str, beam: int, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what `seqmodels translate` prints."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["seqmodels", "translate", str(run), text, "--beam", str(beam)])
        capsys.readouterr()
        with pytest.raises(SystemExit):
            main.main()
    return capsys.readouterr().out.removesuffix("\n")


@pytest.mark.parametrize("name", ["bahdanau", "lstm_seq2seq"])
@pytest.mark.parametrize("beam", [1, 4])
def test_texts_are_translated_as_by_the_command(
    name: str, beam: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out two ways to translate, texts in another order, and a beam that is not used."""
    run = folder / f"{name}-seed1"
    written = seqmodels.load(str(run)).translate(SOURCES, beam=beam)
    assert written == [by_command(run, text, beam, capsys) for text in SOURCES]
    assert len(set(written)) > 1


def test_the_source_is_read_as_it_was_in_training(run: trained.TrainedRun) -> None:
    """Keeps out a source without its EOS, or with one where training had none."""
    words = run.tokenizer.encode(SOURCES[0])
    assert run.record["data"]["source_end"] == "EOS"
    assert run.encode_source(SOURCES[0]) == [*words, EOS]
    without = trained.TrainedRun(run.model, run.tokenizer, run.record | {"data": {}})
    assert without.encode_source(SOURCES[0]) == words
    assert without.encode_source("") == [BOS]


def test_the_case_is_that_of_training(run: trained.TrainedRun) -> None:
    """Keeps out capitals that a run trained on lower-cased text never saw, in any of its uses."""
    lower = trained.TrainedRun(
        run.model, run.tokenizer, run.record | {"data": run.record["data"] | {"case": "lower"}}
    )
    source, reference = SOURCES[0], REFERENCES[0]
    assert run.encode_source(source) != run.encode_source(source.lower())
    assert lower.encode_source(source) == run.encode_source(source.lower())
    assert lower.align(source, reference).tgt == run.align(source, reference.lower()).tgt
    written = run.translate([source.lower()])[0].lower()
    for tested, expected in ((run, True), (lower, False)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tested, "translate", lambda *_: [written])
            score = tested.score([source], [written.upper()])["bleu"]["value"]
        assert (score < 50) is expected


def test_an_alignment_is_that_of_the_model(run: trained.TrainedRun) -> None:
    """Keeps out weights of another pass, transposed ones, and words beside the wrong edge."""
    model, draw = copy.deepcopy(run.model), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():  # a toy's attention is nearly uniform
            parameter += torch.randn(parameter.shape, generator=draw)
    run = trained.TrainedRun(model, run.tokenizer, run.record)
    src, tgt, weights = run.align(SOURCES[0], REFERENCES[0])
    assert src == [*run.tokenizer.tokens(run.tokenizer.encode(SOURCES[0])), "<eos>"]
    written = run.tokenizer.encode(REFERENCES[0])
    assert tgt == run.tokenizer.tokens(written)
    assert weights.shape == (len(tgt), len(src))
    assert np.allclose(weights.sum(1), 1, atol=1e-5)
    ids = torch.tensor([run.encode_source(SOURCES[0])])
    tgt_in = torch.tensor([[BOS, *written[:-1]]])
    with torch.inference_mode():
        expected = run.model.align(ids, torch.ones_like(ids, dtype=torch.bool), tgt_in)[0]
    assert np.allclose(weights, expected.numpy(), atol=1e-6)


def test_without_a_target_the_own_translation_is_aligned(run: trained.TrainedRun) -> None:
    """Keeps out an alignment of something else than `translate` returns."""
    found = run.align(SOURCES[0])
    (text,) = run.translate([SOURCES[0]])
    assert run.tokenizer.decode(run.search([SOURCES[0]])[0]) == text
    assert found.tgt == run.tokenizer.tokens(run.search([SOURCES[0]])[0])


@pytest.mark.parametrize("tokenize", ["13a", "char"])
def test_scores_are_those_of_sacrebleu(
    tokenize: str, run: trained.TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out scores of other texts, swapped sides, and another tokenizer than the run's."""
    monkeypatch.setattr(intervals, "N_BOOTSTRAP", 20)
    written = [run.tokenizer.encode(f"{text} {text}") for text in REFERENCES]
    monkeypatch.setattr(
        trained, "generate_targets", lambda model, texts, width: written[: 3 * (width == 2)]
    )
    data = run.record["data"] | {"bleu_tokenize": tokenize}
    run = trained.TrainedRun(run.model, run.tokenizer, run.record | {"data": data})
    hyps = run.translate(SOURCES, beam=2)
    found = run.score(SOURCES, REFERENCES, beam=2)
    bleu = BLEU(tokenize=tokenize, force=True).corpus_score(hyps, [REFERENCES]).score
    assert found["bleu"]["value"] == pytest.approx(bleu) != 0
    assert found["chrf"]["value"] == pytest.approx(CHRF().corpus_score(hyps, [REFERENCES]).score)
    assert found["n"] == 3
    assert f"tok:{tokenize}" in found["signatures"]["bleu"]


def test_mistakes_are_said_plainly(run: trained.TrainedRun, folder: Path) -> None:
    """Keeps out a text that is taken for a list of characters, and tracebacks out of torch."""
    with pytest.raises(ValueError, match=r"texts is a single text; give a list of texts"):
        run.translate("The cat sleeps.")
    with pytest.raises(ValueError, match=r"references is a single text"):
        run.score(SOURCES, REFERENCES[0])
    with pytest.raises(ValueError, match=r"^3 sources and 2 references; give one reference"):
        run.score(SOURCES, REFERENCES[:2])
    with pytest.raises(ValueError, match=r"^0 sources and 0 references"):
        run.score([], [])
    with pytest.raises(ValueError, match=r"^a beam of 0: choose 1 \(greedy\) to 64"):
        run.translate(SOURCES, beam=0)
    with pytest.raises(ValueError, match="nothing to align"):
        run.align(SOURCES[0], "")
    with pytest.raises(ValueError, match="whole source is in one vector"):
        seqmodels.load(folder / "lstm_seq2seq-seed1").align(SOURCES[0])
    with pytest.raises(ValueError, match=r"reads at most 2000"):
        run.translate(["cat " * 2001])
    with pytest.raises((OSError, ValueError), match="nothing-seed1"):
        seqmodels.load(folder / "nothing-seed1")


def test_no_texts_have_no_translations(run: trained.TrainedRun) -> None:
    """Keeps out a crash on an empty list."""
    assert run.translate([]) == []


def test_importing_the_package_does_not_import_torch() -> None:
    """Keeps out a public name that loads torch before it is used."""
    program = (
        "import sys, seqmodels; assert 'load' in seqmodels.__all__; print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_the_readmes_lines_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out lines for a notebook that were never tried as they are written, from a clone."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len([line for line in block.splitlines() if line]) <= 10
    assert not re.search(r"\b(tasks|tests|tools|benchmarks)\b[.\s]", block.partition("load(")[0])
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(intervals, "N_BOOTSTRAP", 20)
    names: dict[str, Any] = {}
    exec(block, names)
    translated, looks = capsys.readouterr().out.splitlines()
    assert translated.startswith(f"['{names['reference']}'] {{'n': 1, 'bleu': {{'value': 100.0")
    assert "('Pferd', 'horse')" in looks


def test_a_vocabulary_of_another_run_is_refused(folder: Path, tmp_path: Path) -> None:
    """Keeps out words that stand for others: the tokenizer beside the record is of another run."""
    for ending in ("json", "safetensors"):
        name = f"bahdanau-seed1.{ending}"
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    tokenizers.Words(["one"]).save(tmp_path / "tokenizer.json")
    n = json.loads((tmp_path / "bahdanau-seed1.json").read_text("utf-8"))["model_config"]
    with pytest.raises(ValueError, match=rf"vocabulary of {n['vocab_size']}, the tokenizer"):
        seqmodels.load(tmp_path / "bahdanau-seed1")
