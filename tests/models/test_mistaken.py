"""Mistakes in a Transformer: each by hand, and which property of the contract shows it."""

from itertools import islice
from typing import Any

import pytest
import torch
from conftest import Pairs, Tiny
from torch import Tensor
from torch.testing import assert_close

from seqmodels import MODELS, SequenceModel, unroll
from seqmodels.contract import CHECKS, list_violations
from seqmodels.interface import PAD
from seqmodels.models import OLD_NAMES, paper_of
from seqmodels.models.variants import mistaken

MISTAKEN = [name for name, (of, *_) in OLD_NAMES.items() if of == "transformer_mistaken"]
SEEN_AHEAD = {"future", "step = forward", "beams"}
PADDING = {"padding and batch"}
BROKEN = {
    "score_mask": SEEN_AHEAD | PADDING | {"attention"},
    "weight_mask": SEEN_AHEAD | PADDING,
    "finite_mask": SEEN_AHEAD | PADDING | {"attention"},
    "wrong_axis": SEEN_AHEAD | PADDING,
    "no_causal_mask": SEEN_AHEAD,
    "no_bos": SEEN_AHEAD,
    "pads": PADDING | {"attention"},
    "embeddings": {"gradients"},
    "one_projection": set(), "no_values": set(), "no_output": set(),
    "unscaled": set(), "unnormalised": {"attention"},
}  # fmt: skip
"""Properties of the contract that a mistake breaks; those without are shown by an oracle alone."""


@pytest.mark.parametrize("mistake", BROKEN)
def test_which_property_shows_a_mistake(mistake: str) -> None:
    name = f"transformer_{mistake}"
    faults = dict(islice(list_violations(MODELS[name], **paper_of(name).sizes), len(CHECKS) - 1))
    assert {check for check, fault in faults.items() if fault} == BROKEN[mistake]
    assert {f"transformer_{own}" for own in BROKEN} >= {*MISTAKEN}


def copy_weights(tiny: Tiny, name: str, **changed: Any) -> tuple[SequenceModel, SequenceModel]:
    """Return a Transformer, and the model of a mistake with the same weights."""
    sound, wrong = tiny("transformer"), tiny(name, **changed)
    wrong.load_state_dict(sound.state_dict(), strict=False)
    return sound, wrong


@pytest.mark.parametrize("name", MISTAKEN)
def test_a_mistake_changes_what_is_trained(name: str, tiny: Tiny, pairs: Pairs) -> None:
    sound, wrong = copy_weights(tiny, name)
    assert (sound(*pairs) - wrong(*pairs)).abs().amax() > 1e-4


def test_without_a_mistake_it_is_the_chapter(tiny: Tiny, pairs: Pairs) -> None:
    sound, same = copy_weights(tiny, "transformer_pads", mistake=None)
    assert torch.equal(same(*pairs), sound(*pairs))
    torch.manual_seed(5)
    first = type(sound)(sound.config).state_dict()
    torch.manual_seed(5)
    again = type(same)(same.config).state_dict()
    assert first.keys() == again.keys()
    assert all(map(torch.equal, first.values(), again.values()))


# ------------------------------------------------------------------------------- Weights by hand
SCORES = torch.tensor([[1.0, 2.0, 3.0], [0.5, 0.0, -1.0]])
"""Of two queries and three keys."""
MASK = torch.tensor([[True, False, False], [True, True, False]])


def weigh(mistake: Any, scores: Tensor = SCORES, mask: Tensor = MASK) -> Tensor:
    """Return the weights of queries with these scores, in one head of width 4."""
    cfg = mistaken.Config(vocab_size=9, d_model=4, n_heads=1, mistake=mistake)
    q, k = torch.zeros(2, 1, 1, len(scores), 4), torch.eye(4)[: scores.shape[1]]
    q[..., : scores.shape[1]] = 2 * scores  # √4
    attention = mistaken.MistakenAttention(cfg)
    return attention.attention_weights(q[0], k[None, None], k, mask)[0, 0]


def test_weights_are_those_computed_by_hand() -> None:
    e = SCORES.exp()
    assert_close(weigh(None), torch.tensor([[1, 0, 0], [0.622459, 0.377541, 0]]))
    product = torch.tensor([[2.718282, 1, 1], [1.648721, 1, 1]])  # e^1, e^½, and e^0
    assert_close(weigh("score_mask"), product / product.sum(1, keepdim=True))
    shown = torch.tensor([[2.718282, 0, 0], [1.648721, 1, 0]])
    assert_close(weigh("weight_mask"), shown / e.sum(1, keepdim=True))  # their sum is below 1
    small = torch.tensor([[0, 4.539993e-5, 4.539993e-5], [0, 0, 4.539993e-5]])  # e^-10
    assert_close(weigh("finite_mask"), (shown + small) / (shown + small).sum(1, keepdim=True))
    column = torch.tensor([[0.622459, 0, 0], [0.377541, 1, 0]])  # e^1 and e^½ share the first key
    assert_close(weigh("wrong_axis"), column)
    lone = weigh("wrong_axis", SCORES[:1], MASK[1:])  # one query, as in search
    assert torch.equal(lone, torch.tensor([[1.0, 1, 0]]))


def test_a_typing_error_multiplies_scores() -> None:
    """`masked_fill(~mask, 1e-9)`, where -1e9 was meant, hides nothing either."""
    typed = SCORES.masked_fill(~MASK, 1e-9).softmax(-1)
    assert_close(weigh("score_mask"), typed, rtol=0, atol=1e-7)
    assert torch.equal(SCORES.masked_fill(~MASK, -1e9).softmax(-1), weigh(None))


# ------------------------------------------------------------------------------- Other mistakes
def attention_of(mistake: Any, **sizes: Any) -> tuple[Any, Tensor]:
    """Return an attention of two heads, and states of three tokens."""
    cfg = mistaken.Config(vocab_size=9, d_model=6, n_heads=2, dropout=0.0, mistake=mistake, **sizes)
    return mistaken.MistakenAttention(cfg), torch.randn(1, 3, 6)


def test_a_missing_matrix_leaves_states_or_heads_as_they_are() -> None:
    no_values, x = attention_of("no_values")
    assert torch.equal(no_values.keys_values(x)[1], torch.stack([x[..., :3], x[..., 3:]], 1))
    no_output, x = attention_of("no_output")
    q, (k, v) = no_output.queries(x), no_output.keys_values(x)
    heads = no_output.attention_weights(q, k, v, torch.tensor(True)) @ v
    assert torch.equal(no_output(q, k, v, torch.tensor(True)), torch.cat([*heads[0]], -1)[None])
    shared, x = attention_of("one_projection")
    score = shared.queries(x) @ shared.keys_values(x)[0].mT
    assert_close(score, score.mT)
    assert not hasattr(shared, "W_k")
    assert attention_of("no_values", d_v=3)[0].W_v(x) is x
    with pytest.raises(ValueError, match="with no_output, d_v is d_model / n_heads"):
        attention_of("no_output", d_v=2)


def test_all_target_tokens_are_seen_in_training_and_none_ahead_in_search(
    tiny: Tiny, pairs: Pairs
) -> None:
    src, src_mask, tgt_in = pairs
    sound, wrong = copy_weights(tiny, "transformer_no_causal_mask")
    stepped, _ = unroll(wrong, wrong.encode(src, src_mask), tgt_in)
    assert_close(stepped, sound(*pairs))
    changed = tgt_in.clone()
    changed[:, -1] = 4 + (changed[:, -1] == 4).long()
    assert (wrong(src, src_mask, changed) - wrong(*pairs))[:, 0].abs().amin(1).amax() > 1e-4


def test_without_bos_the_decoder_is_given_what_it_writes(tiny: Tiny, pairs: Pairs) -> None:
    src, src_mask, _ = pairs
    sound, wrong = copy_weights(tiny, "transformer_no_bos")
    given = torch.tensor([[1, 5, 6, 7]] * 4)
    shifted = torch.tensor([[5, 6, 7, PAD]] * 4)
    assert torch.equal(wrong(src, src_mask, given), sound(src, src_mask, shifted))
    stepped, _ = unroll(wrong, wrong.encode(src, src_mask), given)
    assert_close(stepped, sound(src, src_mask, given))


def test_pads_are_read_as_words(tiny: Tiny, pairs: Pairs) -> None:
    src, src_mask, tgt_in = pairs
    sound, wrong = copy_weights(tiny, "transformer_pads")
    assert torch.equal(wrong(*pairs), sound(src, torch.ones_like(src_mask), tgt_in))
    assert_close(wrong(*pairs)[0], sound(*pairs)[0])  # the longest source has none


def test_memory_is_made_of_embeddings(tiny: Tiny, pairs: Pairs) -> None:
    src, src_mask, _ = pairs
    _, wrong = copy_weights(tiny, "transformer_embeddings")
    x = wrong.embed(src, torch.arange(5))
    k, v = wrong.decoder[1].src_attention.keys_values(x)
    memory = wrong.encode(src, src_mask).memory
    assert torch.equal(memory[1][0], k)
    assert torch.equal(memory[1][1], v)
