"""The list of models and variants, and what it says of them."""

import sys
from dataclasses import astuple, replace

import pytest
from conftest import COMPUTED, RESULTS, Tiny, V
from toys import toy

from seqmodels import MODELS, build, models
from seqmodels.experiments.sweep import expand_specs, model_sizes
from seqmodels.experiments.task import Recipe
from seqmodels.models import INFOS, OLD_NAMES, PAPERS, VARIANTS, list_models, lstm_seq2seq
from seqmodels.records.io import load as load_record


def test_the_list_describes_the_classes(fresh: Tiny) -> None:
    years = [paper.year for paper in PAPERS.values()]
    assert years == sorted(years)
    assert list(PAPERS) == list(MODELS)
    for name, paper in PAPERS.items():
        page, (author, *_, where) = sys.modules[MODELS[name].__module__], paper.cite.split()
        assert all(words in (page.__doc__ or "") for words in (author, where))
        assert paper.year == (2000 + int(where[6:8]) if name != "gpt" else 2019)
    for name in COMPUTED:
        model, paper = fresh(name), INFOS[name]
        assert paper.class_path == f"{type(model).__module__}:{type(model).__name__}"
        assert paper.attends == bool(model.cross_attentions)
        grows = model.source_floats(9) > model.source_floats(8)
        assert (paper.memory == "grows") == grows
        if paper.variant_of:
            assert isinstance(model, MODELS[paper.variant_of])


def test_defaults_are_as_published() -> None:
    assert astuple(lstm_seq2seq.PAPER) == (80_000, 1000, 1000, 4, True, 0.08, 0.0, 0.0)
    for name in ("gpt_parts", "transformer_positions"):
        assert MODELS[name].config_type(vocab_size=V).rotary_base == 10_000


def test_a_model_is_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    paper = replace(PAPERS["gpt"], label="GPT again")
    monkeypatch.setitem(PAPERS, "again", paper)
    models.register("again", paper)
    assert list(MODELS)[-1] == "again"
    assert type(build("again", V, d_model=8, n_heads=2, n_layers=1)) is MODELS["gpt"]
    with pytest.raises(ValueError, match="gpt is the name of another model, seqmodels"):
        models.register("gpt", paper)
    with pytest.raises(ValueError, match="unknown model 'gru'; choose from rnn_encdec, bahdanau"):
        build("gru", V)


def test_a_name_is_listed_for_each_class() -> None:
    listed = list_models()
    assert listed[: len(PAPERS)] == list(PAPERS)
    classes = {info.class_path for name, info in INFOS.items() if name in COMPUTED}
    assert {INFOS[name].class_path for name in listed} == classes


def test_committed_records_have_known_names() -> None:
    """The bytes that are handed over follow from the model's formula; tables have its label."""
    paths = sorted(RESULTS.glob("*/*-seed[0-9].json"))
    assert len(paths) > 200
    for path in paths:
        record = load_record(path)
        assert record.model_sha256 or record.base in (*PAPERS, *VARIANTS, *OLD_NAMES)
        if record.base in COMPUTED:
            model = object.__new__(MODELS[record.base])
            vars(model)["config"] = model.config_type(**record.settings)
            lengths = [n for n, _ in record.cache_bytes]
            assert record.source_bytes == [[n, 4 * model.source_floats(n)] for n in lengths], path
        if record.base in INFOS:
            assert INFOS[record.base].sizes.items() <= record.settings.items(), path
        if record.base in INFOS and path.name.startswith(f"{record.base}-seed"):
            tables = path.with_name("tables.md").read_text(encoding="utf-8")
            assert INFOS[record.base].label in tables, path


def test_an_old_name_is_a_class_with_changed_fields() -> None:
    rotary = build("transformer_positions", V, d_model=8, n_heads=2, positions="rotary")
    assert build("transformer_rotary", V, d_model=8, n_heads=2).config == rotary.config
    assert INFOS["transformer_rotary"].label == "Transformer, rotary positions"
    assert INFOS["lstm_seq2seq_general_fed"].label == "LSTM, general, fed"
    more = models.derive({"variant_of": "bahdanau_4"}, "more", {"dropout": 0.1, "width": 2})
    assert more.sizes == {"n_queries": 4, "dropout": 0.1}
    assert (more.label, more.width, more.memory) == ("Bahdanau, 4 vectors, more", 2, "fixed")
    specs = expand_specs(["rnn_encdec"], [("width", ["4"])])
    fitted, wide = (model_sizes(spec, toy()) for spec in specs)
    assert wide == fitted | {"d_model": 4 * fitted["d_model"]}


def test_a_class_that_is_gone_cannot_be_trained() -> None:
    assert VARIANTS["rnn_encdec_tanh"].label == "RNN, plain tanh units"
    with pytest.raises(ValueError, match="there is no module"):
        build("rnn_encdec_tanh", V)


def test_a_variant_has_its_models_recipe() -> None:
    """A recipe of its own comes first; without any, it has the default for its kind of memory."""
    task = toy()
    assert task.recipe("lstm_seq2seq_forward") == task.recipes["lstm_seq2seq"]
    own = Recipe({"n_layers": 2}, 1e-3)
    recipes = {**task.recipes, "lstm_seq2seq_forward": own}
    assert toy(recipes=recipes).recipe("lstm_seq2seq_forward") == own
    assert toy(recipes={}).recipe("lstm_seq2seq_forward") == Recipe({}, 8e-3)
