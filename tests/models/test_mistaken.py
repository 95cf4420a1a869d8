"""Mistakes in a Transformer: each by hand, and which property of the contract shows it."""

from itertools import islice
from typing import Any

import pytest
import torch
from conftest import Pairs, Tiny
from torch import Tensor
from torch.testing import assert_close

from seqmodels import MODELS, SequenceModel
from seqmodels.contract import CHECKS, list_violations
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
    if mistake == "no_causal_mask":
        assert "before target token 2 depend" in faults["future"]
        assert "from target token 1 on" in faults["step = forward"]
    assert {f"transformer_{own}" for own in BROKEN} >= {*MISTAKEN}


def copy_weights(tiny: Tiny, name: str, **changed: Any) -> tuple[SequenceModel, SequenceModel]:
    """Return a Transformer, and the model of a mistake with the same weights."""
    sound, wrong = tiny("transformer"), tiny(name, **changed)
    wrong.load_state_dict(sound.state_dict(), strict=False)
    return sound, wrong


def test_without_a_mistake_it_is_the_chapter(tiny: Tiny, pairs: Pairs) -> None:
    sound, same = copy_weights(tiny, "transformer_pads", mistake=None)
    assert torch.equal(same(*pairs), sound(*pairs))
    torch.manual_seed(5)
    first = type(sound)(sound.config).state_dict()
    torch.manual_seed(5)
    again = type(same)(same.config).state_dict()
    assert all(map(torch.equal, first.values(), again.values()))
    for name, missing in {"one_projection": "k", "no_values": "v", "no_output": "o"}.items():
        sound, wrong = copy_weights(tiny, f"transformer_{name}", d_v=8)
        lost = [key.split(".")[-2] for key in sound.state_dict().keys() - wrong.state_dict().keys()]
        assert lost == 6 * [f"W_{missing}"]
    with pytest.raises(ValueError, match="no_values, d_v is d_model / n_heads"):
        tiny("transformer_no_values", d_v=16)


# ------------------------------------------------------------------------------- Weights by hand
SCORES = torch.tensor([[1.0, 2.0, 3.0], [0.5, 0.0, -1.0]])
"""Scores of two queries and three keys."""
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
