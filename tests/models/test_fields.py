"""Every field of every Config has its effect, and every model and variant its published start."""

import math
import re
from itertools import count
from typing import Any, Literal, get_args, get_origin

import pytest
import torch
from conftest import COMPUTED, TINY, Pairs, V
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from seqmodels import MODELS, SequenceModel, build
from seqmodels.models import INFOS, list_models, model_of
from seqmodels.utils.values import field_types

# ------------------------------------------------------------------------------------------ Fields

ONE_LAYER = {
    k: own | {"n_layers": 2 if "attention" in field_types(MODELS[k].config_type) else 1}
    if "n_layers" in own else own for k, own in TINY.items()
}  # fmt: skip
"""Sizes with one layer, or one of each kind."""
SHAPES = {
    "vocab_size": "embed output", "d_embed": "embed W output", "d_maxout": "output",
    "d_align": "attention", "d_ff": "ff", "d_k": "W_q W_k", "d_v": "W_v W_o", "d_conv": "filter",
    "d_state": "W_qkv filter", "d_vector": "encoder V W_c", "n_positions": "positions",
    "n_queries": "pooling", "n_kv_heads": "W_qkv", "n_layers": "encoder decoder",
}  # fmt: skip
"""The parts whose parameters, and no others, a size makes larger."""
STARTS = {"std_align", "v_align", "init_range", "forget_bias", "init_std", "shrinking"}
"""Fields that move the start alone, and such a part that is left out."""
OTHERS = {
    "d_model": 32, "n_heads": 1, "n_layers": 3, "rotary_base": 30.0, "dropout": 0.5,
    "n_positions": 40, "n_kv_heads": 1, "d_k": 4, "d_v": 4, "d_vector": 10, "d_state": 10,
    "d_conv": 2,
}  # fmt: skip
"""Other values of numbers; elsewhere, twice as much, or a quarter more of a share."""
BESIDE: dict[tuple[str, str], dict[str, Any]] = {
    ("transformer_positions", "rotary_base"): {"positions": "rotary"},
    ("transformer_positions", "n_positions"): {"positions": "learned"},
    ("gpt_parts", "rotary_base"): {"positions": "rotary"},
    ("gpt_2023", "n_positions"): {"positions": "learned"},
    ("gpt_2023", "n_heads"): {"n_kv_heads": None},
    ("gpt_2023", "is_prefix"): {"positions": "learned", "n_layers": 2},
    ("gpt_parts", "is_prefix"): {"n_layers": 2},
}
"""What a field of a variant needs, or excludes."""
IDLE = {(f"bahdanau_{name}", "v_align") for name in ("dot", "heads", "tied")}
IDLE |= {("bahdanau_tied", "d_maxout"), ("rnn_encdec_fresh", "is_fresh")}
"""Fields that a variant has no use for: no v_a; units as wide as an embedding; what is loaded."""


def choices(hint: Any) -> list[Any]:
    """Return the values of a field that has a list of them."""
    if get_origin(hint) is Literal:
        return [*get_args(hint)]
    return [value for each in get_args(hint) for value in choices(each)]


def list_changes() -> list[tuple[str, str, Any]]:
    """Return each model, each field of its Config, and each value to compare with its own."""
    changes = []
    for name in list_models():
        defaults = {**INFOS[name].sizes, **ONE_LAYER[name], "vocab_size": V}
        config = vars(MODELS[name].config_type(**defaults))
        for field, hint in field_types(MODELS[name].config_type).items():
            now: Any = config[field]
            other = now + 0.25 if isinstance(now, float) else 2 * (now or 0)
            others = [not now] if isinstance(now, bool) else [OTHERS.get(field, other)]
            others = [value for value in choices(hint) if value != now] or others
            changes += [(name, field, value) for value in others]
    return changes


def start(name: str, **sizes: Any) -> SequenceModel:
    torch.manual_seed(1)
    return build(name, **{"vocab_size": V, **ONE_LAYER[name], **sizes})


def logits_of(model: SequenceModel, weights: dict[str, Tensor], pairs: Pairs) -> Tensor:
    model.load_state_dict(weights)
    torch.manual_seed(2)
    with torch.no_grad():
        return model(*pairs)


def differ(one: Tensor, other: Tensor) -> bool:
    return not torch.allclose(one, other, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("name", "field", "value"), list_changes())
def test_a_field_has_its_effect(name: str, field: str, value: Any, pairs: Pairs) -> None:
    """It moves shapes, the logits of the same weights, those of training, or the start."""
    beside = BESIDE.get((name, field), {})
    models = start(name, **beside), start(name, **beside, **{field: value})
    one, other = ({n: p.clone() for n, p in m.state_dict().items()} for m in models)
    names = sorted(one.keys() | other.keys())
    shapes = [{n: p.shape for n, p in weights.items()} for weights in (one, other)]
    reshaped = [n for n in names if shapes[0].get(n) != shapes[1].get(n)]
    if reshaped:
        models[1](*pairs)  # all parts have it
        assert (name, field) not in IDLE
        assert not field.startswith("d_") or one.keys() <= other.keys()
        parts = SHAPES.get(field, "").split()
        assert all(any(part in n for part in parts) for n in reshaped) or not parts, reshaped
        return
    weights = {n: 0.4 * torch.randn_like(p) for n, p in one.items()}
    if field == "dropout":
        trained, training_other = (logits_of(m.train(), weights, pairs) for m in models)
        assert differ(trained, training_other)
    one_logits, other_logits = (logits_of(m.eval(), weights, pairs) for m in models)
    computed = differ(one_logits, other_logits)
    if computed and isinstance(value, float):  # a number, not a switch
        more = start(name, **beside, **{field: 1.5 * value}).eval()
        assert differ(logits_of(more, weights, pairs), other_logits)
    is_start = not STARTS.isdisjoint((field, value))
    assert computed == (not is_start and field != "dropout" and (name, field) not in IDLE)
    if is_start:
        is_moved = any(not torch.equal(one[n], other[n]) for n in names)
        assert is_moved == ((name, field) not in IDLE)


DROPPED = [
    ("rnn_encdec", 3, {}), ("bahdanau", 3, {}), ("lstm_seq2seq", 5, {}), ("gpt", 7, {}),
    ("transformer", 18, {}), ("transformer", 18, {"is_prenorm": True}), ("mamba2", 3, {}),
    ("linear_attention", 5, {}), ("gated_deltanet", 5, {}), ("bahdanau_heads", 3, {}),
    ("transformer_cosine", 18, {}), ("gpt_2023", 7, {}), ("transformer_rotary", 18, {}),
    ("transformer_alibi", 18, {}), ("gpt_no_residual", 7, {}), ("gated_deltanet_last", 6, {}),
]  # fmt: skip
"""The places where a model of two layers has dropout: what is dropped there counts."""


@pytest.mark.parametrize(("name", "n_places", "sizes"), DROPPED)
def test_dropout_acts_in_each_place(
    name: str, n_places: int, sizes: dict[str, Any], pairs: Pairs
) -> None:
    model = start(name, **sizes, **{"n_layers": 2} if "n_layers" in TINY[name] else {}).train()
    weights = {n: 0.4 * torch.randn_like(p) for n, p in model.state_dict().items()}

    def drop(place: int) -> tuple[Tensor, int]:
        """Return the logits if all is dropped in one place, and the number of places."""
        calls = count()

        def hook(module: nn.Module, _: object, out: Tensor) -> Tensor | None:
            return 0 * out if isinstance(module, nn.Dropout) and next(calls) == place else None

        with register_module_forward_hook(hook):
            return logits_of(model, weights, pairs), next(calls)

    whole, n_calls = drop(-1)
    assert sum(differ(drop(place)[0], whole) for place in range(n_calls)) == n_places
    assert not differ(logits_of(model.eval(), weights, pairs), whole)  # its share is 0 here


# ------------------------------------------------------------------------------------------- Start

D, L = 48, 3
GIVEN = {
    "d_model": D, "d_embed": 40, "d_maxout": 36, "d_align": 44, "d_ff": 80, "n_heads": 4,
    "n_layers": L, "n_positions": 60, "d_vector": 52, "d_state": 20, "d_conv": 4, "n_queries": 4,
    "init_std": 0.05, "init_range": 0.3, "std_align": 0.2, "v_align": 0.5, "forget_bias": 1.5,
}  # fmt: skip
"""Sizes that differ from each other, and starts that differ from the defaults."""
Rules = list[tuple[str, str, Any]]
"""The parameters that have such a name, how they are drawn, and their deviation or value."""


def fan_in(p: Tensor) -> float:
    return p.shape[1] ** -0.5


RNN: Rules = [  # Bahdanau et al., B.1
    ("unit", "orthogonal", 0.0), (r"attention\.[WU]_a", "normal", 0.2), ("v_a", "constant", 0.5),
    ("bias", "constant", 0.0), ("", "normal", fan_in),
]  # fmt: skip
TRANSFORMER: Rules = [  # Glorot's distribution; learned positions are as large as sinusoids
    ("positions", "normal", 0.5**0.5), ("^embedding", "normal", fan_in), ("unit", "orthogonal", 0),
    (r"\.g$", "constant", math.sqrt(D / 4)), ("bias", "constant", 0.0), ("norm", "constant", 1.0),
    ("", "uniform", lambda p: math.sqrt(2 / sum(p.shape))),
]  # fmt: skip


def as_gpt(n_residuals: float) -> Rules:
    """GPT (2.3): N(0, 0.02²), smaller by the root of the number of sums in the stream."""
    return [
        ("filter", "uniform", lambda p: 1 / math.sqrt(3 * len(p))),
        (r"W_(alpha|dt)\.bias", "decades", 0.0), ("bias|log_A", "constant", 0.0),
        (r"W_o|ff\.2", "normal", 0.05 / math.sqrt(n_residuals * L)),
        ("norm|skip", "constant", 1.0), ("", "normal", 0.05),
    ]  # fmt: skip


RULES = {
    "rnn_encdec": RNN, "bahdanau": RNN, "lstm_seq2seq": [("", "uniform", 0.3 / math.sqrt(3))],
    "transformer": TRANSFORMER, "gpt": as_gpt(2), "linear_attention": as_gpt(2),
    "mamba2": as_gpt(1), "gated_deltanet": as_gpt(2), "gpt_large": as_gpt(1 / L),
}  # fmt: skip
"""By chapter, or variant; the first rule whose name is found holds."""


def check_start(p: Tensor, how: str, std: float) -> None:
    if how == "constant":
        assert torch.equal(p, torch.full_like(p, std))
    elif how == "orthogonal":
        for block in p.split(p.shape[1]):
            torch.testing.assert_close(block @ block.T, torch.eye(len(block)), rtol=0, atol=1e-5)
    elif how == "decades":  # steps of 0.001 … 0.1, as many for each factor
        log = torch.nn.functional.softplus(p.double()).log10()
        torch.testing.assert_close(log, torch.linspace(-3, -1, len(p)).double(), rtol=0, atol=1e-4)
    else:
        n, most = p.numel(), float(p.abs().max()) / std
        assert p.square().mean().sqrt().item() == pytest.approx(std, rel=3.5 / math.sqrt(n))
        assert abs(p.mean().item()) < 4 * std / math.sqrt(n)
        if how == "uniform":
            assert most <= math.sqrt(3) + 1e-5
        elif n > 500:
            assert most > math.sqrt(3)


@pytest.mark.parametrize("name", [n for n in COMPUTED if INFOS[n].group != "mistaken"])
def test_a_model_starts_as_published(name: str) -> None:
    has = field_types(MODELS[name].config_type)
    sizes = {k: v for k, v in GIVEN.items() if k in has and k not in INFOS[name].sizes}
    torch.manual_seed(3)
    model = build(name, 70, **sizes)
    for path, p in model.named_parameters():
        values = p.detach()
        if path.endswith("W.bias") and "forget_bias" in has:
            values = values.clone()
            values.chunk(4)[1].sub_(1.5)  # i, f, g, o
        rules = RULES.get(name) or RULES[model_of(name)]
        how, std = next(rule[1:] for rule in rules if re.search(rule[0], path))
        check_start(values, how, std(values) if callable(std) else std)
