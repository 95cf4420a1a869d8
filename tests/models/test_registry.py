"""The list of models and variants, and what it says of them."""

from dataclasses import replace

import pytest
from conftest import RESULTS, Tiny, V
from toys import toy

from seqmodels import BOS, EOS, MODELS, PAD, UNK, build, models
from seqmodels.data import tokenizers
from seqmodels.experiments.specs import make_spec, model_sizes
from seqmodels.experiments.task import Recipe
from seqmodels.models import PAPERS, VARIANTS, derive, list_models, papers
from seqmodels.records.io import load as load_record

ONE_VECTOR = ("rnn_encdec", "lstm_seq2seq")


def test_the_papers_describe_the_classes(fresh: Tiny) -> None:
    five = ["rnn_encdec", "bahdanau", "lstm_seq2seq", "transformer", "gpt"]
    assert [name for name, paper in PAPERS.items() if paper.group == "five"] == five
    years = [paper.year for paper in PAPERS.values()]
    assert years == sorted(years)
    own = tokenizers.PAD, tokenizers.BOS, tokenizers.EOS, tokenizers.UNK
    assert own == (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    assert list(PAPERS) == list(MODELS)
    for name, paper in papers().items():
        model_type = MODELS[name]
        assert paper.class_path == f"{model_type.__module__}:{model_type.__name__}"
        model = fresh(name)
        assert paper.attends == bool(model.cross_attentions)
        grows = model.config.source_floats(9) > model.config.source_floats(8)
        assert (paper.memory == "grows") == grows
        assert (paper.memory == "vector") == (
            not paper.attends and models.model_of(name) in ONE_VECTOR
        )


def test_a_model_is_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
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
    """The bytes follow from the Config's formula."""
    paths = sorted(RESULTS.glob("*/*-seed[0-9].json"))
    assert len(paths) > 200
    for path in paths:
        record = load_record(path)
        config = MODELS[record.base].config_type(**record.settings)
        lengths = [n for n, _ in record.cache_bytes]
        assert record.source_bytes == [[n, 4 * config.source_floats(n)] for n in lengths], path


def test_a_variant_follows_its_model() -> None:
    names = list(papers())
    assert list(MODELS) == list(PAPERS) == [name for name in names if name not in VARIANTS]
    for name, entry in VARIANTS.items():
        model = entry.variant_of
        between = names[names.index(model) + 1 : names.index(name)]
        assert {VARIANTS[other].variant_of for other in between} <= {model}
        assert names.index(model) < names.index(name)
        assert issubclass(MODELS[name], MODELS[model])


def test_values_are_known_by_name_but_not_listed() -> None:
    """Records and commands have such names; `--vary d_model=64` or `width=2` gives the same."""
    values = {name for name in VARIANTS if name not in list_models()}
    widths = {f"{model}_x{n}" for model in ("rnn_encdec", "lstm_seq2seq") for n in (2, 4)}
    narrow = {f"rnn_encdec_{d}" for d in (32, 64, 128, 256, 512)}
    wrong = {name for name, info in VARIANTS.items() if info.group == "mistaken"}
    assert len(wrong) > 10
    delta = {f"gated_deltanet_{part}" for part in ("sum", "fade", "delta", "2")}
    others = {"lstm_seq2seq_forward", "linear_attention_conv"}
    assert values == widths | narrow | wrong | delta | others
    assert list_models()[: len(PAPERS)] == list(PAPERS)
    assert build("rnn_encdec_64", V).config == build("rnn_encdec", V, d_model=64).config
    paths = [*RESULTS.glob("**/*-seed[0-9].json")]
    plain = {path.name.rpartition("-seed")[0] for path in paths if path.name.count("-") == 1}
    assert len(plain) > 40
    assert plain <= papers().keys()


def test_a_variant_of_a_variant_has_the_sizes_of_both() -> None:
    more = derive({"variant_of": "bahdanau_4"}, "more", {"dropout": 0.1})
    assert more.sizes == {"n_queries": 4, "dropout": 0.1}
    twice = derive({"variant_of": "rnn_encdec_x2"}, "twice", {})
    assert (twice.label, twice.width) == ("RNN, 2 × width, twice", 2)
    fitted, *wide = (model_sizes(make_spec(f"rnn_encdec{x}"), toy()) for x in ("", "_x2", "_x4"))
    assert wide == [fitted | {"d_model": times * fitted["d_model"]} for times in (2, 4)]


def test_a_variant_has_its_models_recipe() -> None:
    """A recipe of its own comes first; without any, it has the default for its kind of memory."""
    task = toy()
    assert task.recipe("lstm_seq2seq_x2") == task.recipes["lstm_seq2seq"]
    own = Recipe({"n_layers": 2}, 1e-3)
    recipes = {**task.recipes, "lstm_seq2seq_x2": own}
    assert toy(recipes=recipes).recipe("lstm_seq2seq_x2") == own
    assert toy(recipes={}).recipe("lstm_seq2seq_x2") == Recipe({}, 8e-3)
