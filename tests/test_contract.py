"""The contract: every model × every property that the harness relies on."""

from itertools import islice
from typing import get_type_hints

import jaxtyping
import pytest
import torch
from conftest import COMPUTED, PLACED, Pairs, Tiny, V, n_positions
from torch.testing import assert_close

from seqmodels import MODELS, unroll
from seqmodels.contract import CHECKS, list_violations
from seqmodels.models import INFOS, PAPERS
from tools.sizes import sizes_of

MODELS_AND_VARIANTS = [
    name for name in COMPUTED
    if INFOS[name].width == 1 and "d_model" not in INFOS[name].sizes
    and INFOS[name].group != "mistaken"
]  # fmt: skip
"""All that compute something of their own, and are meant to keep the contract."""
ONE_OF_EACH_CLASS = [*{INFOS[n].class_path: n for n in MODELS_AND_VARIANTS[::-1]}.values()]
REPEATED = {
    "bahdanau_4", "bahdanau_8", "bahdanau_16", "bahdanau_pooled", "gpt_parts",
    "transformer_positions", "transformer_ablated", "transformer_recurrent_1", "lstm_seq2seq_last",
    "lstm_seq2seq_dot_fed", "lstm_seq2seq_general", "lstm_seq2seq_additive_fed",
}  # fmt: skip
"""Variants each of whose switches stands as it does in another one."""
QUICK = [name for name in MODELS_AND_VARIANTS if name not in REPEATED]


@pytest.fixture(params=QUICK)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


KNOWN = {
    "bahdanau_1": {"gradients"},  # a single vector has the weight 1 whatever its score
    "transformer_unnormalised": {"attention"},  # its weights are no shares
}
"""Properties that a variant lacks."""
UNLEARNED = {name: {"learning"} for name in ("transformer_no_residual", "transformer_unnormalised")}
"""These reach 1.3 nats: what they lack is what learning takes."""


CASES = [(name, False) for name in QUICK]
CASES += [pytest.param(name, True, marks=pytest.mark.slow) for name in MODELS_AND_VARIANTS]


@pytest.mark.parametrize(("name", "learns"), CASES)
def test_the_contract(name: str, learns: bool) -> None:
    """Learning six pairs by heart takes time; for variants it is left to the slow tests."""
    sizes = {**sizes_of(name, d_k=6, d_v=5), **INFOS[name].sizes}
    n = len(CHECKS) - (not learns and name not in PAPERS)
    faults = dict(islice(list_violations(MODELS[name], **sizes), n))
    found = {check for check, fault in faults.items() if fault} - UNLEARNED.get(name, set())
    assert (found, len(faults)) == (KNOWN.get(name, set()), n), faults


@pytest.mark.parametrize("name", ONE_OF_EACH_CLASS)
def test_shapes_are_executed(name: str, tiny: Tiny, pairs: Pairs) -> None:
    model, (src, src_mask, tgt_in) = tiny(name, **sizes_of(name, d_k=6, d_v=5)), pairs
    _, state = unroll(model, model.encode(src, src_mask), tgt_in[:, :2])
    with jaxtyping.jaxtyped("context"):
        for field, shape in get_type_hints(type(state)).items():
            assert isinstance(getattr(state, field), shape), field
    with pytest.raises(jaxtyping.TypeCheckError):
        model(src, src_mask[:, 1:], tgt_in)


def test_order_matters(name: str, tiny: Tiny, pairs: Pairs) -> None:
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    one, swapped = (torch.tensor([[4, *two, 7, 8]]).expand(4, -1) for two in ((5, 6), (6, 5)))
    logits = model(src, src_mask, one)[:, -1]
    assert (logits - model(src, src_mask, swapped)[:, -1]).abs().amax() > 1e-12
    real = torch.ones_like(one, dtype=torch.bool)
    moved = (model(one, real, tgt_in) - model(swapped, real, tgt_in)).abs().amax()
    assert moved < 1e-12 if name == "transformer_none" else moved > 1e-12


@pytest.mark.parametrize("name", ONE_OF_EACH_CLASS)
def test_dropout_acts_in_training_alone(name: str, fresh: Tiny, pairs: Pairs) -> None:
    model = fresh(name, dropout=0.5)
    assert torch.equal(model(*pairs), model(*pairs))
    model.train()
    assert not torch.equal(model(*pairs), model(*pairs))


def test_learned_positions_alone_limit_a_text(name: str, tiny: Tiny) -> None:
    limits = dict.fromkeys(PLACED, 27) | {"transformer_learned": 32}
    n = tiny(name).max_target(5)
    assert n == limits[name] if name in limits else n > 10**6


@pytest.mark.parametrize("name", ONE_OF_EACH_CLASS)
def test_gradients_flow_through_steps(name: str, tiny: Tiny, pairs: Pairs) -> None:
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    unroll(model, model.encode(src, src_mask), tgt_in)[0].square().sum().backward()
    stepped = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(src, src_mask, tgt_in).square().sum().backward()
    for grad, p in zip(stepped, model.parameters(), strict=True):
        assert_close(grad, p.grad)


@pytest.mark.parametrize(
    "name", ["transformer", "transformer_rotary", "gpt", "gpt_2023", "linear_attention"]
)
def test_a_text_outgrows_its_room(name: str, tiny: Tiny, pairs: Pairs) -> None:
    model, (src, src_mask, _) = tiny(name, **n_positions(name, 200)), pairs
    tgt_in = torch.randint(4, V, (4, 60))
    with torch.inference_mode():
        logits, _ = unroll(model, model.encode(src, src_mask), tgt_in)
        assert_close(logits, model(src, src_mask, tgt_in))
