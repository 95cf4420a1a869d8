"""The papers: the only list of models, in order of history."""

from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Tiny, V

from seqmodels import MODELS, build, models
from seqmodels.data import tokenizers
from seqmodels.interface import BOS, EOS, PAD, UNK
from seqmodels.models import PAPERS, papers
from seqmodels.records.record import load as load_record

RESULTS = Path(__file__).parents[1] / "results"


def test_the_papers_describe_the_classes(fresh: Tiny) -> None:
    """Keeps out an order that is not history's, and a module, memory or id unlike the classes'."""
    five = ["rnn_encdec", "bahdanau", "lstm_seq2seq", "transformer", "gpt"]
    assert [name for name, paper in PAPERS.items() if paper.group == "five"] == five
    years = [paper.year for paper in PAPERS.values()]
    assert years == sorted(years)
    own = tokenizers.PAD, tokenizers.BOS, tokenizers.EOS, tokenizers.UNK
    assert own == (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    assert list(PAPERS) == list(MODELS)
    for name, paper in papers().items():
        model_type = MODELS[name]
        assert paper.home == f"{model_type.__module__}:{model_type.__name__}"
        model = fresh(name)
        assert paper.attends == bool(model.src_attentions)
        grows = model.config.source_floats(9) > model.config.source_floats(8)
        assert (paper.memory == "grows") == grows
        assert (paper.memory == "vector") == (not grows and not paper.attends)


def test_a_model_is_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a second list of models, and a model that takes another one's name."""
    paper, n_models = replace(PAPERS["gpt"], label="GPT again"), len(MODELS)
    monkeypatch.setitem(PAPERS, "again", paper)
    models.register("again", paper)
    assert list(MODELS)[-1] == "again"
    assert len(MODELS) == len(PAPERS) == n_models + 1
    assert type(build("again", V, d_model=8, n_heads=2, n_layers=1)) is MODELS["gpt"]
    with pytest.raises(ValueError, match="gpt is the name of another model, seqmodels"):
        models.register("gpt", paper)
    with pytest.raises(ValueError, match="unknown model 'gru'; choose from rnn_encdec, bahdanau"):
        build("gru", V)


def test_the_committed_records_hold_what_is_handed_over() -> None:
    """Keeps out a formula that no longer gives the bytes of the records."""
    paths = sorted(RESULTS.glob("*/*-seed*.json"))
    assert len(paths) > 200
    for path in paths:
        record = load_record(path)
        config = MODELS[record["model"]].config_type(**record["model_config"])
        lengths = [n for n, _ in record["cache_bytes"]]
        assert record["source_bytes"] == [[n, 4 * config.source_floats(n)] for n in lengths], path
