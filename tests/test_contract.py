"""The contract: every model × every property that the harness relies on."""

from itertools import islice
from typing import get_type_hints

import jaxtyping
import pytest
from conftest import COMPUTED, Pairs, Tiny

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
    "transformer_over_d", "transformer_small", "transformer_small_untied", "gpt_large",
}  # fmt: skip
"""Variants each of whose switches stands as it does in another one."""
QUICK = [name for name in MODELS_AND_VARIANTS if name not in REPEATED]


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
