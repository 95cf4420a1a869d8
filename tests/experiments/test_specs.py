"""Specs: which are trained, with which fields, and how wide."""

import pytest
import torch
from toys import toy

from seqmodels import MODELS, build, models
from seqmodels.experiments import specs
from seqmodels.experiments.specs import count_parameters, make_spec, model_sizes
from seqmodels.training.config import TrainConfig

GPT = ["gpt"]


def test_a_width_is_within_five_percent() -> None:
    sizes = {"vocab_size": 900, "d_embed": 128}
    with torch.device("meta"):
        narrowest = specs.count_parameters(build("lstm_seq2seq", **sizes, d_model=16))
    with pytest.raises(ValueError, match=r"no width within 5 %.* --parameters"):
        specs.fit_width(make_spec("lstm_seq2seq"), sizes, int(narrowest / 1.06))
    assert specs.fit_width(make_spec("lstm_seq2seq"), sizes, int(narrowest / 1.04)) == 16


def test_an_arm_changes_one_field() -> None:
    vary = [("n_heads", ["1", "2", "4"]), ("lr", ["0.01", "0.02"]), ("width", ["3"])]
    planned = specs.expand_specs(GPT, vary)
    sizes = {one.name: model_sizes(one, toy()) for one in planned}
    planned = specs.drop_repeats(planned, sizes, toy(), None)
    names = ["gpt", "gpt-n_heads-1", "gpt-n_heads-4", "gpt-lr-0.02", "gpt-width-3"]
    assert [one.name for one in planned] == names
    assert [one.training for one in planned] == [{}, {}, {}, {"lr": 0.02}, {}]
    sizes = [sizes[name] for name in names]
    assert [size["n_heads"] for size in sizes] == [2, 1, 4, 2, 2]
    assert sizes[4]["d_model"] == 3 * sizes[0]["d_model"]
    with torch.device("meta"):
        n = [count_parameters(m.build(size)) for m, size in zip(planned, sizes, strict=True)]
    assert all(abs(x / toy().n_parameters - 1) <= 0.05 for x in n[:4])
    assert n[4] > 2 * n[0]
    kept = specs.fix_widths(toy(), ["rnn_encdec_x2", "gpt"])
    twice = make_spec("rnn_encdec_x2")
    sizes = [model_sizes(one, kept) for one in (*planned, twice)]
    assert [size["d_model"] // sizes[0]["d_model"] for size in sizes[:5]] == [1, 1, 1, 1, 3]
    assert sizes[5] == model_sizes(twice, toy())
    # over the task's own setting, and the command's rate
    task = toy(training={"tokens": 200, "batch_tokens": 100, "label_smoothing": 0.1})
    planned = specs.expand_specs(["transformer"], [("label_smoothing", ["0.3"]), ("lr", [0.5])])
    found = [one.train_config(task, 0.02, 7) for one in planned]
    settings = [(cfg.label_smoothing, cfg.lr, cfg.seed) for cfg in found]
    assert settings == [(0.1, 0.02, 7), (0.3, 0.02, 7), (0.1, 0.5, 7)]
    texts, pairs = (
        specs.expand_specs([m], [("source_loss", ["0.5"])])[1] for m in ("gpt", "bahdanau")
    )
    assert texts.train_config(task, None, 7).settings()["source_loss"] == 0.5
    with pytest.raises(ValueError, match="continues its source"):
        pairs.train_config(task, None, 7)


def test_a_grid_has_each_combination() -> None:
    vary = [("n_heads", ["1", "4"]), ("width", ["1", "3"]), ("lr", ["0.5"])]
    base, *planned = specs.expand_specs(GPT, vary, is_grid=True)
    assert (base.name, base.is_changed) == ("gpt", False)
    assert [one.name for one in planned] == [
        "gpt-n_heads-1-lr-0.5", "gpt-n_heads-1-width-3-lr-0.5",
        "gpt-n_heads-4-lr-0.5", "gpt-n_heads-4-width-3-lr-0.5",
    ]  # fmt: skip
    last = planned[-1]
    assert (last.sizes, last.width, last.training) == ({"n_heads": 4}, 3, {"lr": 0.5})
    assert last.info.variant_of == "gpt"
    assert last.info.label == "GPT, n_heads 4, 3 × width, lr 0.5"


def test_values_have_the_type_of_their_field() -> None:
    fields = {"is_prenorm": "false", "d_k": "None", "dropout": "0", "n_layers": "1"}
    values = [specs.parse_value("transformer", field, text) for field, text in fields.items()]
    assert values == [False, None, 0.0, 1]
    assert [type(value) for value in values] == [bool, type(None), float, int]
    training = {*TrainConfig.__dataclass_fields__, specs.WIDTH}
    for name in models.list_models():  # no field has two meanings
        assert not training & set(MODELS[name].config_type.__dataclass_fields__), name
