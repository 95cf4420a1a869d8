"""The catalog: the only list of models, in order of history."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conftest import ATTENDING, Tiny, V

from seqmodels import MODELS, build, catalog
from seqmodels.catalog import CATALOG


def test_the_catalog_lists_the_models_as_they_are(fresh: Tiny) -> None:
    """Keeps out a list whose order, module or kind of State is no longer that of the classes."""
    assert list(CATALOG) == list(MODELS)
    for name, entry in CATALOG.items():
        model_type = MODELS[name]
        assert entry.home == f"{model_type.__module__}:{model_type.__name__}"
        assert entry.attends == bool(fresh(name).src_attentions)


def test_a_model_is_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a list beside the catalog, and a model that takes another one's name."""
    entry, n_models = replace(CATALOG["gpt"], label="GPT again"), len(MODELS)
    monkeypatch.setitem(CATALOG, "again", entry)
    catalog.register("again", entry)
    assert list(MODELS)[-1] == "again"
    assert len(MODELS) == len(CATALOG) == n_models + 1
    assert type(build("again", V, d_model=8, n_heads=2, n_layers=1)) is MODELS["gpt"]
    with pytest.raises(ValueError, match="gpt is the name of another model, seqmodels"):
        catalog.register("gpt", entry)
    assert catalog.attending() == [*ATTENDING, "again"]


@pytest.mark.parametrize(
    ("name", "sizes", "n_numbers"),
    [
        ("rnn_encdec", {"d_model": 16}, 16),  # c, A.1.1
        ("bahdanau", {"d_model": 16}, 7 * 32),  # h_j of both directions, (7)
        ("lstm_seq2seq", {"d_model": 16, "n_layers": 3}, 96),  # h and c of each layer
        ("transformer", {"d_model": 16, "n_layers": 2}, 7 * 16),  # the encoder's output
        ("gpt", {"d_model": 16, "n_layers": 2}, 7 * 32),  # what each layer reads of the prefix
        (
            "linear_attention",
            {"d_model": 16, "n_layers": 2, "n_heads": 4, "n_draws": 1},
            2 * 4 * (4 * 4 + 4),  # S and z of each layer and head, (18) and (19)
        ),
        (
            "linear_attention",
            {"d_model": 16, "n_layers": 2, "n_heads": 4, "n_draws": 3},
            2 * 4 * (12 * 4 + 12),
        ),
    ],
)
def test_what_a_paper_hands_over(name: str, sizes: dict[str, int], n_numbers: int) -> None:
    """Keeps out a cache counted as what the paper's decoder is given."""
    assert CATALOG[name].source_bytes(sizes, 7) == 4 * n_numbers


def test_an_unknown_model_is_refused_with_the_choice() -> None:
    """Keeps out a bare KeyError."""
    with pytest.raises(ValueError, match="unknown model 'gru'; choose from rnn_encdec, bahdanau"):
        build("gru", V)


def test_the_models_stand_in_order_of_history() -> None:
    """Keeps out a table of contents in another order than the lesson."""
    assert list(MODELS)[:5] == ["rnn_encdec", "bahdanau", "lstm_seq2seq", "transformer", "gpt"]
    years = [entry.year for entry in CATALOG.values()]
    assert years == sorted(years)
