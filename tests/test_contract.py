"""The contract: every model × every property that the harness relies on."""

from itertools import islice
from typing import get_type_hints

import jaxtyping
import pytest
import torch
from conftest import COMPUTED, DECODER_ONLY, PLACED, Pairs, Tiny, V, n_positions
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

from seqmodels import MODELS, PAD, SequenceModel, reorder, unroll
from seqmodels.contract import CHECKS, list_violations
from seqmodels.models import INFOS, PAPERS, model_of
from seqmodels.models.cache import tensors_of
from tools.sizes import sizes_of

MODELS_AND_VARIANTS = [
    name for name in COMPUTED
    if INFOS[name].width == 1 and "d_model" not in INFOS[name].sizes
    and INFOS[name].group != "mistaken"
]  # fmt: skip
"""All that compute something of their own, and are meant to keep the contract."""


@pytest.fixture(params=MODELS_AND_VARIANTS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def wide_start(name: str) -> dict[str, float]:
    """Return the initial values that narrow LSTMs and scores of pooled vectors need."""
    if name.startswith("bahdanau_"):
        return {"std_align": 0.3, "v_align": 0.1}
    return {"init_range": 0.3} if model_of(name) == "lstm_seq2seq" else {}


def least(name: str) -> float:
    """Return how much a token must change: little is left where a sublayer replaces its input."""
    return 1e-14 if name.endswith("_no_residual") else 1e-8


def loss(model: SequenceModel, src: Tensor, src_mask: Tensor, tgt: Tensor) -> Tensor:
    """Return the mean nats per token of `tgt`, whose first column is BOS."""
    logits = model(src, src_mask, tgt[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=PAD)


KNOWN = {
    "bahdanau_1": {"gradients"},  # a single vector has the weight 1 whatever its score
    "transformer_unnormalised": {"attention"},  # its weights are no shares
    "transformer_no_norm": {"source"},  # of numbers so large that the last digits differ
}
"""Properties that a variant lacks."""
UNLEARNED = {name: {"learning"} for name in ("transformer_no_residual", "transformer_unnormalised")}
"""These reach 1.3 nats: what they lack is what learning takes."""


@pytest.mark.parametrize("learns", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_contract(name: str, learns: bool) -> None:
    """Learning six pairs by heart takes time; for variants it is left to the slow tests."""
    sizes = {**sizes_of(name, d_k=6, d_v=5), **INFOS[name].sizes}
    n = len(CHECKS) - (not learns and name not in PAPERS)
    faults = dict(islice(list_violations(MODELS[name], **sizes), n))
    found = {check for check, fault in faults.items() if fault} - UNLEARNED.get(name, set())
    assert (found, len(faults)) == (KNOWN.get(name, set()), n), faults


def test_shapes_are_executed(name: str, tiny: Tiny, pairs: Pairs) -> None:
    model, (src, src_mask, tgt_in) = tiny(name, **sizes_of(name, d_k=6, d_v=5)), pairs
    _, state = unroll(model, model.encode(src, src_mask), tgt_in[:, :2])
    with jaxtyping.jaxtyped("context"):
        for field, shape in get_type_hints(type(state)).items():
            assert isinstance(getattr(state, field), shape), field
    with pytest.raises(jaxtyping.TypeCheckError):
        model(src, src_mask[:, 1:], tgt_in)


# --------------------------------------------------------------------------------- what must matter
def test_every_target_token_matters_from_then_on(name: str, tiny: Tiny, pairs: Pairs) -> None:
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    logits = model(src, src_mask, tgt_in)
    for t in range(tgt_in.shape[1]):
        changed = tgt_in.clone()
        changed[:, t] = (tgt_in[:, t] - 4 + 1) % (V - 4) + 4  # another word
        moved = (model(src, src_mask, changed) - logits).abs().amax(2)
        assert (moved[:, :t] <= 1e-12).all()
        # without residuals, attention to a single source token erases what came before
        is_read = (src_mask.sum(1) > (name == "transformer_no_residual")).unsqueeze(1)
        assert ((moved[:, t:] > least(name)) == is_read).all()


def test_order_matters(name: str, tiny: Tiny, pairs: Pairs) -> None:
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    one, swapped = (torch.tensor([[4, *two, 7, 8]]).expand(4, -1) for two in ((5, 6), (6, 5)))
    logits = model(src, src_mask, one)[:, -1]
    assert (logits - model(src, src_mask, swapped)[:, -1]).abs().amax() > 100 * least(name)
    real = torch.ones_like(one, dtype=torch.bool)
    moved = (model(one, real, tgt_in) - model(swapped, real, tgt_in)).abs().amax()
    assert moved < 1e-12 if name == "transformer_none" else moved > 100 * least(name)


# ----------------------------------------------------------------------------------------- learning
def test_every_parameter_gets_a_gradient(name: str, fresh: Tiny) -> None:
    """No gradient is right in two places.

    A recurrent model never reads PAD, and a bias on GPT's keys adds the same to all scores of a
    query. Rectified units are opened first by a bias.
    """
    sizes = n_positions(name, 12 if name in DECODER_ONLY else 6)
    model = fresh(name, **sizes, **wide_start(name)).double()
    for path, p in model.named_parameters():
        if path.endswith("ff.0.bias"):
            p.data.fill_(3.0)
    src, tgt = torch.randint(4, V, (64, 6)), torch.randint(1, V, (64, 7))
    src[:, 0], mask = torch.arange(64) % (V - 1) + 1, torch.ones_like(src, dtype=torch.bool)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(2):  # v_a starts at zero and hides W_a and U_a from the first step
        optimizer.zero_grad()
        loss(model, src, mask, tgt).backward()
        optimizer.step()
    for path, p in model.named_parameters():
        assert p.grad is not None, path
        rows = p.grad.reshape(len(p), -1).abs().amax(1) > least(name) * 1e-6
        if path == "embed.weight" or name == "transformer_untied":
            rows[PAD] |= "embed" in path
        if path.endswith("W_qkv.bias"):
            d_model = model.config.d_model
            rows[d_model : (d_model + len(p)) // 2] = True
        if name == "bahdanau_1" and path.startswith("attention."):
            rows[:] = True  # a single vector has the weight 1 whatever its score
        if name in ("transformer_no_norm", "transformer_no_residual"):  # units die at the start
            rows[:] = rows.any() or path[-10:-7] in ("W_q", "W_k")
        assert rows.all(), f"{path}: no gradient in rows {(~rows).nonzero().flatten().tolist()}"


def test_dropout_acts_in_training_alone(name: str, fresh: Tiny, pairs: Pairs) -> None:
    model = fresh(name, dropout=0.5)
    assert torch.equal(model(*pairs), model(*pairs))
    model.train()
    assert not torch.equal(model(*pairs), model(*pairs))


# ------------------------------------------------------------------------------------------- limits
def test_learned_positions_alone_limit_a_text(name: str, tiny: Tiny) -> None:
    limits = dict.fromkeys(PLACED, 27) | {"transformer_learned": 32}
    n = tiny(name).max_target(5)
    assert n == limits[name] if name in limits else n > 10**6


# ---------------------------------------------------------------------------------------- The State
@pytest.mark.parametrize("n_steps", [0, 2])
@pytest.mark.parametrize("width", [1, 3])
def test_beams_go_on(name: str, width: int, n_steps: int, tiny: Tiny, pairs: Pairs) -> None:
    model, (src, src_mask, _) = tiny(name), pairs
    began, rest = torch.randint(4, V, (4 * width, n_steps)), torch.randint(4, V, (3 * width, 4))
    rows, sources = torch.arange(4).repeat_interleave(width), torch.tensor([3, 1, 1])  # one left
    beams = torch.tensor({1: [3, 1, 1], 3: [11, 9, 9, 3, 5, 4, 4, 4, 5]}[width])
    with torch.set_grad_enabled(width == 1 and n_steps == 2):
        state = reorder(model.encode(src, src_mask), rows, shared=model.beam_shared_fields)
        for field in model.beam_shared_fields:
            assert {len(tensor) for tensor in tensors_of([getattr(state, field)])} == {4}
        if n_steps:
            _, state = unroll(model, state, began)
        state = reorder(state, beams, sources, model.beam_shared_fields)
        logits, _ = unroll(model, state, rest)
        text, of_rows = torch.cat([began[beams], rest], 1), sources.repeat_interleave(width)
        expected = model(src[of_rows], src_mask[of_rows], text)[:, n_steps:]
    assert_close(logits, expected)


def test_gradients_flow_through_steps(name: str, tiny: Tiny, pairs: Pairs) -> None:
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    unroll(model, model.encode(src, src_mask), tgt_in)[0].square().sum().backward()
    stepped = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(src, src_mask, tgt_in).square().sum().backward()
    for grad, p in zip(stepped, model.parameters(), strict=True):
        assert_close(grad, p.grad)


@pytest.mark.parametrize("name", ["transformer", "transformer_rotary", *DECODER_ONLY])
def test_a_text_outgrows_its_room(name: str, tiny: Tiny, pairs: Pairs) -> None:
    model, (src, src_mask, _) = tiny(name, **n_positions(name, 200)), pairs
    tgt_in = torch.randint(4, V, (4, 150))
    with torch.inference_mode():
        logits, _ = unroll(model, model.encode(src, src_mask), tgt_in)
        assert_close(logits, model(src, src_mask, tgt_in))
