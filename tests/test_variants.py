"""Variants: each differs from its model in one respect, and everything finds it by name."""

import math

import numpy as np
import pytest
import torch
from conftest import Pairs, Tiny, V
from torch.testing import assert_close
from toy_task import toy

from seqmodels import MODELS, build
from seqmodels.comparison.arm import count_parameters, model_sizes
from seqmodels.comparison.task import Recipe
from seqmodels.interface import PAD
from seqmodels.models import PAPERS, VARIANTS, papers, transformer
from seqmodels.models.variants import positions


def test_a_variant_follows_its_model() -> None:
    """Keeps out a variant among the models, in another place, or with the look of another."""
    names = list(papers())
    assert list(MODELS) == list(PAPERS) == [name for name in names if name not in VARIANTS]
    for name, entry in VARIANTS.items():
        model = entry.variant_of
        between = names[names.index(model) + 1 : names.index(name)]
        assert {VARIANTS[other].variant_of for other in between} <= {model}
        assert names.index(model) < names.index(name)
        assert issubclass(MODELS[name], MODELS[model])


def test_a_name_decides_the_positions() -> None:
    """Keeps out three names of one model: the switch is in the Config, and so in the record."""
    for kind in ("learned", "rotary", "alibi", "none"):
        model = build(f"transformer_{kind}", V, d_model=8, n_heads=2, n_layers=1)
        assert model.config.positions == kind
        assert model_sizes(f"transformer_{kind}", toy())["positions"] == kind


@pytest.mark.parametrize("times", [2, 4])
def test_a_width_is_a_multiple_of_the_one_that_fits(times: int) -> None:
    """Keeps out a wider model that is fitted to the task's parameters after all."""
    fitted, wide = (model_sizes(name, toy()) for name in ("rnn_encdec", f"rnn_encdec_x{times}"))
    assert wide == fitted | {"d_model": times * fitted["d_model"]}
    small, large = (count_parameters(build("rnn_encdec", **sizes)) for sizes in (fitted, wide))
    assert large > times * small


def test_a_variant_has_its_models_recipe() -> None:
    """Keeps out default sizes for a variant whose model has a recipe, or a recipe overlooked."""
    task = toy()
    assert task.recipe("lstm_seq2seq_x2") == task.recipes["lstm_seq2seq"]
    own = Recipe({"n_layers": 2}, 1e-3)
    recipes = {**task.recipes, "lstm_seq2seq_x2": own}
    assert toy(recipes=recipes).recipe("lstm_seq2seq_x2") == own
    assert toy(recipes={}).recipe("lstm_seq2seq_x2") == Recipe({}, 8e-3)


def test_pairs_are_rotated_by_hand() -> None:
    """Keeps out pairs from two halves of a head, a rotation the other way, and wrong angles."""
    x = torch.tensor([[[[1.0, 0.0, 0.0, 2.0]]]])
    (turned,) = positions.rotate(x, torch.tensor([3]), 100.0).flatten(0, 2)
    by_hand = [math.cos(3), math.sin(3), -2 * math.sin(0.3), 2 * math.cos(0.3)]
    assert_close(turned, torch.tensor(by_hand))


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_a_layer_scores_by_distance(side: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a layer that rotates queries and not keys, or counts from another place.

    A pair of numbers is a complex one: Re(q k* e^(i(n-m)θ)) for places n and m (eq. 12).
    """
    model = tiny("transformer_rotary", rotary_base=30.0)
    attention, seen, projected = model.get_submodule(f"{side}.1.self_attention"), [], []
    attention.register_forward_pre_hook(lambda _, given: seen.extend(given[:2]))
    for w in (attention.W_q, attention.W_k):
        w.register_forward_hook(lambda _, x, out: projected.append(attention.to_heads(out)))
    model(*pairs)
    k, q = projected
    theta = 30.0 ** (-torch.arange(0, 8, 2) / 8)
    for n in range(q.shape[1]):
        for m in range(k.shape[1]):
            a, b = (torch.view_as_complex(x.unflatten(-1, (4, 2))) for x in (q[:, n], k[:, m]))
            score = (a * b.conj() * torch.exp(1j * (n - m) * theta)).real.sum(-1)
            assert_close((seen[0][:, :, n] * seen[1][:, :, m]).sum(-1), score, rtol=0, atol=1e-5)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_a_score_falls_with_the_distance(side: str, tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out slopes of another head, distances of one sign, and a fused call without them.

    With two heads, scores fall by 1/16 and 1/256 a token (Press et al. 2022, section 3).
    """
    model, seen = tiny("transformer_alibi", n_heads=2), []
    attention = model.get_submodule(f"{side}.1.self_attention")
    attention.register_forward_hook(lambda _, given, out: seen.extend([*given, out]))
    model(*pairs)
    q, k, v, bias, out = (t.detach() for t in seen)
    is_text = pairs[1] if side == "encoder" else pairs[2] != PAD
    heads = torch.zeros_like(q)
    for row, head, i in np.ndindex(*q.shape[:3]):
        js = [j for j in range(k.shape[2]) if (is_text[row, j] if side == "encoder" else j <= i)]
        slope = (1 / 16, 1 / 256)[head]
        query = q[row, head, i]
        score = [float(query @ k[row, head, j]) / 8**0.5 - slope * abs(i - j) for j in js]
        alpha = torch.tensor(score, dtype=torch.double).softmax(0)
        assert_close(attention.attention_weights(q, k, v, bias)[row, head, i, js], alpha)
        heads[row, head, i] = alpha @ v[row, head, js]
    assert_close(attention.W_o(heads.transpose(1, 2).flatten(2)), out)


def test_sinusoids_are_the_published_model(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a switch that changes more, and learned positions that are scaled or shifted."""
    published, learned = tiny("transformer"), tiny("transformer_learned")
    switched = tiny("transformer_none", positions="sinusoids")
    switched.load_state_dict(published.state_dict())
    assert torch.equal(switched(*pairs), published(*pairs))
    table = transformer.sinusoids(torch.arange(32), 16).double()
    learned.load_state_dict(published.state_dict() | {"positions.weight": table})
    assert_close(learned(*pairs), published(*pairs))


@pytest.mark.parametrize("is_prenorm", [False, True])
def test_a_rotary_layer_is_otherwise_the_published_one(
    is_prenorm: bool, tiny: Tiny, pairs: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a copied layer that drifts: not rotated, it has no positions."""
    rotary, none = (tiny(f"transformer_{k}", is_prenorm=is_prenorm) for k in ("rotary", "none"))
    none.load_state_dict(rotary.state_dict())
    assert not torch.allclose(rotary(*pairs), none(*pairs))
    monkeypatch.setattr(positions, "rotate", lambda x, position, base: x)
    assert torch.equal(rotary(*pairs), none(*pairs))


def test_learned_positions_end(fresh: Tiny, pairs: Pairs) -> None:
    """Keeps out an index error, and a text that is cut although the last position is free."""
    src, src_mask, tgt_in = pairs
    model = fresh("transformer_learned", n_positions=6)
    assert model(src, src_mask, tgt_in).shape[1] == model.max_target(6) == 6
    assert model.max_target(7) == 0
    with pytest.raises(ValueError, match=r"a text of 7 tokens .* learned 6; shorten"):
        model(src, src_mask, torch.cat([tgt_in, tgt_in[:, :1]], 1))


def test_learned_positions_start_as_large_as_sinusoids(fresh: Tiny) -> None:
    """Keeps out positions that words drown from the start."""
    weight = fresh("transformer_learned", n_positions=200, d_model=64).positions.weight
    assert weight.square().mean().item() == pytest.approx(0.5, rel=0.05)


def test_an_odd_width_cannot_be_rotated(fresh: Tiny) -> None:
    """Keeps out an error about shapes from inside the rotation."""
    with pytest.raises(ValueError, match="a head has queries of width 5; choose an even d_k"):
        fresh("transformer_rotary", d_k=5)
