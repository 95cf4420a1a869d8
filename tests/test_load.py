"""A trained run in a program of one's own: its translations, alignments and scores."""

import copy
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Call
from sacrebleu.metrics import BLEU, CHRF

import seqmodels
from seqmodels.cli import main
from seqmodels.comparison import trained
from seqmodels.comparison.trained import TrainedRun
from seqmodels.interface import BOS, EOS

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "results" / "translation-live"
"""Trained runs that come with the repository."""
SOURCES = ["The cat sees the dog.", "Although it rained, the man slept.", "They sing."]
REFERENCES = ["Die Katze sieht den Hund.", "Obwohl es regnete, schlief der Mann.", "Sie singen."]


@pytest.fixture(scope="module")
def run() -> TrainedRun:
    """Load a run that attends, by its public name."""
    return seqmodels.load(FOLDER / "bahdanau-seed1")


def with_data(run: TrainedRun, **data: Any) -> TrainedRun:
    """Return the run as if it had been trained on data with other properties."""
    return TrainedRun(run.model, run.tokenizer, run.record | {"data": run.record["data"] | data})


def test_texts_are_translated_as_by_the_command(run: TrainedRun, call: Call) -> None:
    """Keeps out two ways to translate, texts in another order, and a beam that is not used."""
    path = FOLDER / "bahdanau-seed1"
    printed = [call(main, "translate", path, text, "--beam", 4)[1][:-1] for text in SOURCES]
    assert run.translate(SOURCES, beam=4) == printed
    assert len(set(printed)) == 3
    assert run.translate([]) == []


def test_the_source_is_read_as_in_training(run: TrainedRun, few_draws: None) -> None:
    """Keeps out an EOS or capitals that training had not, and a source without its EOS."""
    words = run.tokenizer.encode(SOURCES[0])
    for end, expected in (("EOS", [*words, EOS]), ("none", words), (None, words)):
        assert with_data(run, source_end=end).encode_source(SOURCES[0]) == expected
    assert with_data(run, source_end="none").encode_source("") == [BOS]
    assert run.encode_source(SOURCES[0], has_source_eos=False) == words

    lower, (source, *_), (reference, *_) = with_data(run, case="lower"), SOURCES, REFERENCES
    assert run.encode_source(source) != run.encode_source(source.lower())
    assert lower.encode_source(source) == run.encode_source(source.lower())
    assert lower.align(source, reference).tgt == run.align(source, reference.lower()).tgt
    for tested, is_good in ((run, False), (lower, True)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tested, "translate", lambda *_: [reference.lower()])
            score = tested.score([source], [reference.upper()])["bleu"]["value"]
        assert (score > 50) is is_good


def test_an_alignment_is_that_of_the_model(run: TrainedRun) -> None:
    """Keeps out weights of another pass, transposed ones, and words beside the wrong edge."""
    model = copy.deepcopy(run.model)
    for parameter in model.parameters():  # so that no two weights are equal
        parameter.data += 0.1 * torch.randn(parameter.shape)
    run = TrainedRun(model, run.tokenizer, run.record)
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
    greedy = run.search([SOURCES[0]])[0]
    assert run.align(SOURCES[0]).tgt == run.tokenizer.tokens(greedy)


@pytest.mark.parametrize("tokenize", ["13a", "char"])
def test_scores_are_those_of_sacrebleu(
    tokenize: str, run: TrainedRun, monkeypatch: pytest.MonkeyPatch, few_draws: None
) -> None:
    """Keeps out scores of other texts, swapped sides, and another tokenizer than the run's."""
    hypotheses = [run.tokenizer.encode(f"{text} {text}") for text in REFERENCES]
    written = {2: hypotheses}
    monkeypatch.setattr(trained, "generate_targets", lambda model, texts, beam: written[beam])
    run = with_data(run, bleu_tokenize=tokenize)
    texts = run.translate(SOURCES, beam=2)
    scores = run.score(SOURCES, REFERENCES, beam=2)
    bleu = BLEU(tokenize=tokenize, force=True).corpus_score(texts, [REFERENCES]).score
    assert scores["bleu"]["value"] == pytest.approx(bleu) != 0
    assert scores["chrf"]["value"] == pytest.approx(CHRF().corpus_score(texts, [REFERENCES]).score)
    assert scores["n"] == 3
    assert f"tok:{tokenize}" in scores["signatures"]["bleu"]


def test_mistakes_are_named(run: TrainedRun) -> None:
    """Keeps out a text that is taken for a list of characters, and tracebacks out of torch."""
    for method, *given, match in (
        (run.translate, "The cat sleeps.", "list of texts"),
        (run.score, SOURCES, REFERENCES[0], "list of texts"),
        (run.score, SOURCES, REFERENCES[:2], "3 sources and 2 references"),
        (run.score, [], [], "0 sources"),
        (run.translate, SOURCES, 0, "beam of 0"),
        (run.align, SOURCES[0], "", "empty"),
        (seqmodels.load(FOLDER / "lstm_seq2seq-seed1").align, SOURCES[0], "one vector"),
        (seqmodels.load, FOLDER / "nothing-seed1", "nothing-seed1"),
    ):
        with pytest.raises(ValueError, match=match):
            method(*given)


def test_the_readmes_lines_run(monkeypatch: Any, capsys: Any, few_draws: None) -> None:
    """Keeps out lines for a notebook that were never tried as they are written, from a clone."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    exec(block, names)
    translated, alignment = capsys.readouterr().out.splitlines()
    assert translated.startswith(f"['{names['reference']}'] {{'n': 1, 'bleu': {{'value': 100.0")
    assert "('Pferd', 'horse')" in alignment
