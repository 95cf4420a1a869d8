"""The contract: every model × every property that the harness relies on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, get_type_hints

import jaxtyping
import pytest
import torch
from conftest import Pairs, Tiny, V
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

from seqmodels import MODELS, PAD, SequenceModel, build, catalog, reorder, unroll
from seqmodels.catalog import CATALOG
from seqmodels.ops.kv_cache import tensors_of

ONE_VECTOR = ["rnn_encdec", "lstm_seq2seq"]
ATTENDING = ["bahdanau", "transformer", "gpt"]


def test_the_catalog_lists_the_models_as_they_are() -> None:
    """Keeps out a list whose order or module is no longer that of the classes."""
    assert list(CATALOG) == list(MODELS)
    for name, entry in CATALOG.items():
        model_type = MODELS[name]
        assert entry.home == f"{model_type.__module__}:{model_type.__name__}"
        assert entry.attends == (name in ATTENDING)


def test_a_model_is_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a list beside the catalog, and a model that takes another one's name."""
    entry = replace(CATALOG["gpt"], label="GPT again")
    monkeypatch.setitem(CATALOG, "again", entry)
    catalog.register("again", entry)
    assert list(MODELS)[-1] == "again"
    assert len(MODELS) == len(CATALOG) == 6
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
    ],
)
def test_what_a_paper_hands_over(name: str, sizes: dict[str, int], n_numbers: int) -> None:
    """Keeps out a cache counted as what the paper's decoder is given."""
    assert CATALOG[name].source_bytes(sizes, 7) == 4 * n_numbers


class Snapshot(NamedTuple):
    """All that a module could remember."""

    tensors: dict[str, Tensor]
    attributes: dict[str, dict[str, Any]]


def snapshot(model: SequenceModel) -> Snapshot:
    """Copy parameters, buffers and every plain attribute of every submodule."""
    plain = {
        path: {k: repr(v) for k, v in vars(module).items() if not k.startswith("_")}
        | {k: sorted(v) for k, v in vars(module).items() if k in ("_parameters", "_buffers")}
        for path, module in model.named_modules()
    }
    return Snapshot({k: v.clone() for k, v in model.state_dict().items()}, plain)


def other(token: Tensor) -> Tensor:
    """Return a different real token."""
    return (token - 4 + 1) % (V - 4) + 4


def state_bytes(model: SequenceModel, n_source: int) -> int:
    """Return the size of what `encode` hands over."""
    src = torch.randint(4, V, (2, n_source))
    state = model.encode(src, torch.ones_like(src, dtype=torch.bool))
    return sum(t.nbytes for t in tensors_of(state))


def loss(model: SequenceModel, src: Tensor, src_mask: Tensor, tgt: Tensor) -> Tensor:
    """Return the mean nats per token of `tgt`, whose first column is BOS."""
    logits = model(src, src_mask, tgt[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=PAD)


# ---------------------------------------------------------------------------- the two ways agree


def test_forward_equals_stepping(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out training one model and searching with another: a forgotten offset, a lost state."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    logits, _ = unroll(model, model.encode(src, src_mask), tgt_in)
    assert_close(logits, model(src, src_mask, tgt_in))


def test_stepping_may_stop_and_go_on(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a recurrence that is started anew: what was said before must not be forgotten."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    first, state = unroll(model, model.encode(src, src_mask), tgt_in[:, :2])
    rest, _ = unroll(model, state, tgt_in[:, 2:])
    assert_close(torch.cat([first, rest], 1), model(src, src_mask, tgt_in))


def test_the_same_state_gives_the_same_answer(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a State changed in place, under the hands of the other beams that hold it."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    _, state = unroll(model, model.encode(src, src_mask), tgt_in[:, :2])
    before = [t.clone() for t in tensors_of(state)]
    first, _ = model.step(tgt_in[:, 2], state)
    model.step(tgt_in[:, 3], state)
    again, _ = model.step(tgt_in[:, 2], state)
    assert torch.equal(first, again)
    assert all(torch.equal(a, b) for a, b in zip(before, tensors_of(state), strict=True))


def test_modules_remember_nothing(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a cache on a module, which is wrong as soon as beams are reordered."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    before = snapshot(model)
    model(src, src_mask, tgt_in)
    unroll(model, model.encode(src, src_mask), tgt_in)
    after = snapshot(model)
    assert before.attributes == after.attributes
    assert before.tensors.keys() == after.tensors.keys()
    assert all(torch.equal(before.tensors[k], after.tensors[k]) for k in before.tensors)
    assert not list(model.buffers())


def test_shapes_are_executed(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a test run in which the annotated shapes are decoration."""
    src, src_mask, tgt_in = pairs
    with pytest.raises(jaxtyping.TypeCheckError):
        tiny(name)(src, src_mask[:, 1:], tgt_in)


# --------------------------------------------------------------------------- what must not matter


def test_padding_is_invisible(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out pads that are read, attended to or counted: each row equals itself alone."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    together = model(src, src_mask, tgt_in)
    for i, n in enumerate(src_mask.sum(1).tolist()):
        alone = model(src[i : i + 1, :n], src_mask[i : i + 1, :n], tgt_in[i : i + 1])
        assert_close(together[i : i + 1], alone)


def test_padding_of_the_target_is_invisible(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out pads that are counted as positions: rows that fit GPT alone, and not together."""
    model = tiny(name, **{"n_positions": 7} if name == "gpt" else {})
    src, src_mask, tgt_in = pairs
    n_src, n_tgt = src_mask.sum(1), 7 - src_mask.sum(1)
    padded = tgt_in * (torch.arange(6) < n_tgt.unsqueeze(1))
    together = model(src, src_mask, padded)
    for i, (S, T) in enumerate(zip(n_src.tolist(), n_tgt.tolist(), strict=True)):
        row = slice(i, i + 1)
        alone = model(src[row, :S], src_mask[row, :S], tgt_in[row, :T])
        assert_close(together[row, :T], alone)


def test_padding_is_invisible_to_stepping(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a State in which pads were read: search sees what training saw."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    together, _ = unroll(model, model.encode(src, src_mask), tgt_in)
    for i, n in enumerate(src_mask.sum(1).tolist()):
        state = model.encode(src[i : i + 1, :n], src_mask[i : i + 1, :n])
        assert_close(together[i : i + 1], unroll(model, state, tgt_in[i : i + 1])[0])


def test_more_padding_changes_nothing(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a score that depends on which longer sentences share the batch."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    wide, wide_mask = F.pad(src, (0, 3), value=PAD), F.pad(src_mask, (0, 3), value=False)
    assert_close(model(wide, wide_mask, tgt_in), model(src, src_mask, tgt_in))


def test_what_stands_under_the_mask_is_invisible(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a model that knows pads by their id and not by the mask."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    scribbled = torch.where(src_mask, src, torch.randint(4, V, src.shape))
    assert_close(model(scribbled, src_mask, tgt_in), model(src, src_mask, tgt_in))


def test_the_future_is_invisible(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a causal mask that is off by one, and any other look at the answer."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    logits = model(src, src_mask, tgt_in)
    assert logits.isfinite().all()
    for t in range(1, tgt_in.shape[1]):
        changed = tgt_in.clone()
        changed[:, t] = other(tgt_in[:, t])
        assert_close(model(src, src_mask, changed)[:, :t], logits[:, :t], rtol=0, atol=1e-12)


# ------------------------------------------------------------------------------- what must matter


def test_every_source_token_matters(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a source that is cut, or whose end or beginning is masked away."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    logits = model(src, src_mask, tgt_in)
    for j in range(src.shape[1]):
        changed = src.clone()
        changed[:, j] = torch.where(src_mask[:, j], other(src[:, j]), PAD)
        is_changed = (model(changed, src_mask, tgt_in) - logits).abs().amax((1, 2)) > 1e-8
        assert torch.equal(is_changed, src_mask[:, j])


def test_every_target_token_matters(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a decoder that forgets: each token moves the logits of all places after it."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    logits = model(src, src_mask, tgt_in)
    for t in range(tgt_in.shape[1]):
        changed = tgt_in.clone()
        changed[:, t] = other(tgt_in[:, t])
        moved = (model(src, src_mask, changed) - logits).abs().amax(2)
        assert (moved[:, t:] > 1e-8).all()


def test_the_order_of_the_source_matters(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a bag of words: positions left out of an attention, or all of them the same."""
    model, (_, _, tgt_in) = tiny(name), pairs
    src = torch.tensor([[4, 5, 6, 7, 8]]).expand(4, -1)
    mask = torch.ones_like(src, dtype=torch.bool)
    swapped = src[:, [0, 2, 1, 3, 4]]
    assert (model(src, mask, tgt_in) - model(swapped, mask, tgt_in)).abs().amax() > 1e-6


def test_the_order_of_the_target_matters(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a decoder without positions: the same words before, in another order."""
    model, (src, src_mask, _) = tiny(name), pairs
    tgt_in = torch.tensor([[1, 4, 5, 6, 7]]).expand(4, -1)
    swapped = tgt_in[:, [0, 2, 1, 3, 4]]
    moved = model(src, src_mask, tgt_in)[:, -1] - model(src, src_mask, swapped)[:, -1]
    assert moved.abs().amax() > 1e-6


# -------------------------------------------------------------------------------------- the State


@pytest.mark.parametrize("n_steps", [0, 2])
def test_rows_reorder(name: str, tiny: Tiny, pairs: Pairs, n_steps: int) -> None:
    """Keeps out a State with the batch on another axis: a beam would go on as its neighbour."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    _, state = unroll(model, model.encode(src, src_mask), tgt_in[:, : n_steps + 1])
    rows, y = torch.tensor([2, 0, 0, 3, 1, 2]), tgt_in[:, n_steps + 1]
    logits, after = model.step(y, state)
    logits_rows, after_rows = model.step(y[rows], reorder(state, rows, rows))
    assert_close(logits_rows, logits[rows])
    assert type(after_rows) is type(after)
    reordered = tensors_of(reorder(after, rows, rows))
    for tensor_rows, tensor in zip(tensors_of(after_rows), reordered, strict=True):
        assert_close(tensor_rows, tensor)


def test_states_hold_the_batch_first(name: str, tiny: Tiny) -> None:
    """Keeps out tensors that `reorder` would cut along the wrong axis."""
    model, src = tiny(name), torch.randint(4, V, (13, 3))
    state = model.encode(src, torch.ones_like(src, dtype=torch.bool))
    _, after = model.step(src[:, 0], state)
    for tensor in (*tensors_of(state), *tensors_of(after)):
        assert tensor.shape[0] == 13
        assert 13 not in tensor.shape[1:]


@pytest.mark.parametrize(
    ("name", "sizes"),
    [*((name, {}) for name in MODELS), ("transformer", {"d_k": 3, "d_v": 5})],
    ids=[*MODELS, "transformer with d_k≠d_v"],
)
def test_states_are_what_they_say(
    name: str, sizes: dict[str, int], tiny: Tiny, pairs: Pairs
) -> None:
    """Keeps out a State with other shapes than it says: nothing else checks a NamedTuple."""
    model, (src, src_mask, tgt_in) = tiny(name, **sizes), pairs
    before = model.encode(src, src_mask)
    for state in (before, unroll(model, before, tgt_in)[1]):
        with jaxtyping.jaxtyped("context"):
            for field, shape in get_type_hints(type(state)).items():
                tensor = getattr(state, field)
                assert isinstance(tensor, shape), f"{field}: {tuple(tensor.shape)}, not {shape}"


@pytest.mark.parametrize("width", [1, 3])
def test_beams_share_their_source(name: str, width: int, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a beam that looks at its neighbour's source, and one that needs a copy of its own.

    The beams of source i stand in rows width × i and after; their texts differ from each other.
    """
    model, (src, src_mask, _) = tiny(name), pairs
    tgt_in = torch.randint(4, V, (4 * width, 6))
    rows = torch.arange(4).repeat_interleave(width)
    with torch.inference_mode():
        state = reorder(model.encode(src, src_mask), rows, shared=model.shared_by_beams)
        for field in model.shared_by_beams:
            assert {len(tensor) for tensor in tensors_of([getattr(state, field)])} == {4}
        logits, _ = unroll(model, state, tgt_in)
        expected, _ = unroll(model, model.encode(src[rows], src_mask[rows]), tgt_in)
    assert_close(logits, expected)


def test_sources_can_leave_with_their_beams(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a search that goes on with the sources of those that have finished."""
    model, (src, src_mask, _) = tiny(name), pairs
    with torch.inference_mode():
        shared, rows = model.shared_by_beams, torch.arange(4).repeat_interleave(2)
        state = reorder(model.encode(src, src_mask), rows, shared=shared)
        _, state = model.step(torch.tensor([4, 5, 6, 7, 8, 9, 4, 5]), state)
        expected, _ = model.step(torch.tensor([4, 5, 6, 7, 8, 9, 4, 5]), state)
        beams, sources = torch.tensor([7, 6, 2, 2]), torch.tensor([3, 1])
        state = reorder(state, beams, sources, shared)
        logits, _ = model.step(torch.tensor([5, 4, 6, 6]), state)
    assert_close(logits, expected[beams])


@pytest.mark.parametrize("name", ATTENDING)
def test_a_state_without_gradients_is_not_changed_either(
    name: str, tiny: Tiny, pairs: Pairs
) -> None:
    """Keeps out keys written over those of another text that goes on from the same State."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    with torch.inference_mode():
        _, state = unroll(model, model.encode(src, src_mask), tgt_in[:, :2])
        before = [t.clone() for t in tensors_of(state)]
        first, one = model.step(tgt_in[:, 2], state)
        _, other_text = model.step(tgt_in[:, 3], state)
        assert all(torch.equal(a, b) for a, b in zip(before, tensors_of(state), strict=True))
        after_first, _ = model.step(tgt_in[:, 4], one)
        model.step(tgt_in[:, 5], other_text)
        again, two = model.step(tgt_in[:, 2], state)
        assert torch.equal(first, again)
        assert torch.equal(after_first, model.step(tgt_in[:, 4], two)[0])


def test_gradients_flow_through_steps(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a cache written in place where a gradient needs what was there."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    unroll(model, model.encode(src, src_mask), tgt_in)[0].square().sum().backward()
    stepped = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(src, src_mask, tgt_in).square().sum().backward()
    for grad, p in zip(stepped, model.parameters(), strict=True):
        assert_close(grad, p.grad)


@pytest.mark.parametrize("name", ["transformer", "gpt"])
def test_a_text_outgrows_its_room(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a cache that loses what was written when it moves to a larger place."""
    model, (src, src_mask, _) = tiny(name, **{"n_positions": 200} if name == "gpt" else {}), pairs
    tgt_in = torch.randint(4, V, (4, 150))
    with torch.inference_mode():
        logits, _ = unroll(model, model.encode(src, src_mask), tgt_in)
        assert_close(logits, model(src, src_mask, tgt_in))


@pytest.mark.parametrize("name", ONE_VECTOR)
def test_one_vector_is_one_vector(name: str, tiny: Tiny) -> None:
    """Keeps out a bottleneck that is none: the State's size does not depend on the source."""
    assert len({state_bytes(tiny(name), n) for n in (1, 5, 10, 20)}) == 1


@pytest.mark.parametrize("name", ATTENDING)
def test_a_memory_grows_with_the_source(name: str, tiny: Tiny) -> None:
    """Keeps out an attention to a summary, and a State that grows faster than the source."""
    model = tiny(name)
    five, ten, twenty = (state_bytes(model, n) for n in (5, 10, 20))
    assert 0 < 2 * (ten - five) == twenty - ten


@pytest.mark.parametrize("name", ATTENDING)
def test_attention_is_a_distribution(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out weight on pads, and weights that do not sum to one (GPT: some on the target)."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    weights = model.attention_weights(src, src_mask, tgt_in)
    n_layers, n_heads = (1, 1) if name == "bahdanau" else (2, 2)
    assert weights.shape == (len(src), n_layers, n_heads, tgt_in.shape[1], src.shape[1])
    real = src_mask[:, None, None, None].expand_as(weights)
    assert (weights[real] > 0).all()
    assert (weights[~real] == 0).all()
    total = weights.sum(-1)
    if name == "gpt":
        assert (total < 1).all()
    else:
        assert_close(total, torch.ones_like(total))


@pytest.mark.parametrize("name", ATTENDING)
def test_attention_does_not_see_pads(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out weights that change with the batch a sentence is shown in."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    together = model.align(src, src_mask, tgt_in)
    for i, n in enumerate(src_mask.sum(1).tolist()):
        one = src[i : i + 1, :n], src_mask[i : i + 1, :n], tgt_in[i : i + 1]
        assert_close(together[i : i + 1, :, :n], model.align(*one))


@pytest.mark.parametrize("name", ATTENDING)
def test_attention_is_what_the_output_is_made_of(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out weights of another target word: word t's depend on the words up to it alone."""
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    weights = model.attention_weights(src, src_mask, tgt_in)
    for t in range(1, tgt_in.shape[1]):
        changed = tgt_in.clone()
        changed[:, t] = other(tgt_in[:, t])
        moved = (model.attention_weights(src, src_mask, changed) - weights).abs().amax(
            (1, 2, 4)
        ) > 1e-9
        first = t + 1 if name == "bahdanau" else t  # it attends before it reads the word
        assert not moved[:, :first].any()
        assert moved[src_mask.sum(1) > 1, first:].all()


@pytest.mark.parametrize("name", ONE_VECTOR)
def test_one_vector_has_no_attention_to_show(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out an attention map made up for a model that has none."""
    with pytest.raises(ValueError, match="the whole source is in one vector"):
        tiny(name).align(*pairs)


# --------------------------------------------------------------------------------------- learning


def test_every_parameter_gets_a_gradient(name: str, fresh: Tiny) -> None:
    """Keeps out a weight that is never read, row by row: half a gate, an unused head, a position.

    No gradient is right in two places: a recurrent model never reads PAD, and a bias on GPT's
    keys adds the same to all scores of a query. Rectified units are opened first by a bias.
    """
    model = fresh(name, **{"n_positions": 12} if name == "gpt" else {}).double()
    for path, p in model.named_parameters():
        if path.endswith("ff.0.bias"):
            p.data.fill_(2.0)
    src, tgt = torch.randint(4, V, (64, 6)), torch.randint(1, V, (64, 7))
    src[:, 0], mask = torch.arange(64) % (V - 1) + 1, torch.ones_like(src, dtype=torch.bool)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(2):  # v_a starts at zero and hides W_a and U_a from the first step
        optimizer.zero_grad()
        loss(model, src, mask, tgt).backward()
        optimizer.step()
    for path, p in model.named_parameters():
        assert p.grad is not None, path
        rows = p.grad.reshape(len(p), -1).abs().amax(1) > 1e-12
        if path == "embed.weight":
            rows[PAD] = True
        if path.endswith("W_qkv.bias"):
            d_model = len(p) // 3
            rows[d_model : 2 * d_model] = True
        assert rows.all(), f"{path}: no gradient in rows {(~rows).nonzero().flatten().tolist()}"


def test_one_batch_can_be_memorised(name: str, fresh: Tiny) -> None:
    """Keeps out a model that runs and does not learn: cut gradients, a source that never arrives.

    All targets begin alike, so that only the source can tell them apart.
    """
    model = fresh(name, d_model=32).train()
    src, tgt = torch.randint(4, V, (6, 4)), torch.randint(4, V, (6, 6))
    tgt[:, 0], mask = 1, torch.ones_like(src, dtype=torch.bool)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2 if name in ONE_VECTOR else 1e-2)
    for _ in range(200):
        optimizer.zero_grad()
        now = loss(model, src, mask, tgt)
        now.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if now < 0.05:
            break
    assert now < 0.05


def test_dropout_acts_in_training_alone(name: str, fresh: Tiny, pairs: Pairs) -> None:
    """Keeps out a switch without effect, and evaluation with dropout on."""
    model = fresh(name, dropout=0.5)
    assert torch.equal(model(*pairs), model(*pairs))
    model.train()
    assert not torch.equal(model(*pairs), model(*pairs))


# ------------------------------------------------------------------------------------- the names


def test_an_unknown_model_is_refused_with_the_choice() -> None:
    """Keeps out a bare KeyError."""
    with pytest.raises(ValueError, match="unknown model 'gru'; choose from rnn_encdec, bahdanau"):
        build("gru", V)


def test_the_models_stand_in_order_of_history() -> None:
    """Keeps out a table of contents in another order than the lesson."""
    assert list(MODELS) == ["rnn_encdec", "bahdanau", "lstm_seq2seq", "transformer", "gpt"]
    years = [entry.year for entry in CATALOG.values()]
    assert years == sorted(years)


def test_a_source_may_be_bos_alone(name: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out models that need a source: the plain language model is a source of BOS alone."""
    bos = torch.ones(4, 1, dtype=torch.long)
    assert tiny(name)(bos, bos.bool(), pairs[2]).isfinite().all()


def test_targets_are_unlimited_but_for_gpt(name: str, tiny: Tiny) -> None:
    """Keeps out a limit that is not said, or one where none is."""
    n = tiny(name).max_target(5)
    assert n == 27 if name == "gpt" else n > 10**6
