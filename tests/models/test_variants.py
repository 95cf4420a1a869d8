"""Variants of the Transformer: positions, and parts left out."""

import numpy as np
import pytest
import torch
from conftest import PLACED, Pairs, Tiny, V
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

from seqmodels import unroll
from seqmodels.interface import PAD, watch_attention
from seqmodels.models import transformer
from seqmodels.models.bahdanau import Bahdanau
from seqmodels.models.variants import ablated as ablations


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_a_layer_scores_by_distance(side: str, tiny: Tiny, pairs: Pairs) -> None:
    """A pair of numbers is a complex one: Re(q k* e^(i(n-m)θ)) for places n and m (eq. 12)."""
    model = tiny("transformer_rotary", rotary_base=30.0)
    attention, seen, projected = model.get_submodule(f"{side}.1.self_attention"), [], []
    attention.register_forward_pre_hook(lambda _, given: seen.extend(given[:2]))
    for w in (attention.W_q, attention.W_k):
        w.register_forward_hook(
            lambda _, x, out: projected.append(attention.split_heads(out).transpose(1, 2))
        )
    model(*pairs)
    k, q = projected
    theta = 30.0 ** (-torch.arange(0, 8, 2) / 8)
    for n in range(q.shape[1]):
        for m in range(k.shape[1]):
            a, b = (torch.view_as_complex(x.unflatten(-1, (4, 2))) for x in (q[:, n], k[:, m]))
            score = (a * b.conj() * torch.exp(1j * (n - m) * theta)).real.sum(-1)
            assert_close((seen[0][:, :, n] * seen[1][:, :, m]).sum(-1), score, rtol=0, atol=1e-5)


def test_sinusoids_give_the_published_model(tiny: Tiny, pairs: Pairs) -> None:
    """So are learned positions that have the values of sinusoids."""
    published, learned = tiny("transformer"), tiny("transformer_learned")
    switched = tiny("transformer_none", positions="sinusoids")
    switched.load_state_dict(published.state_dict())
    assert torch.equal(switched(*pairs), published(*pairs))
    table = transformer.sinusoids(torch.arange(32), 16).double()
    learned.load_state_dict(published.state_dict() | {"positions.weight": table})
    assert_close(learned(*pairs), published(*pairs))


@pytest.mark.parametrize("name", [*PLACED, "transformer_learned"])
def test_positions_run_out(name: str, fresh: Tiny) -> None:
    """The last position is used; the next one raises a sentence."""
    n_src, n_tgt, room = (10, 10, 10) if name == "transformer_learned" else (6, 4, 10)
    model, src = fresh(name, n_positions=room), torch.randint(4, V, (2, n_src))
    mask, tgt_in = torch.ones_like(src, dtype=torch.bool), torch.randint(4, V, (2, n_tgt + 1))
    assert model.max_target(n_src) == n_tgt
    assert model(src, mask, tgt_in[:, :n_tgt]).isfinite().all()
    message = r"(a text of|need) 11 (tokens|positions).* (has|learned) 10"
    with pytest.raises(ValueError, match=message):
        model(src, mask, tgt_in)
    _, state = unroll(model, model.encode(src, mask), tgt_in[:, :n_tgt])
    with pytest.raises(ValueError, match=message):
        model.step(tgt_in[:, n_tgt], state)
    assert model.max_target(11) <= 0


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_a_score_falls_with_the_distance(side: str, tiny: Tiny, pairs: Pairs) -> None:
    """With two heads, by 1/16 and 1/256 a token (Press et al. 2022, section 3)."""
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


def test_what_an_ablation_leaves_out(fresh: Tiny, pairs: Pairs) -> None:
    sizes = {"d_k": 4, "n_layers": 2, "dropout": 0.0}
    whole = fresh("transformer", **sizes).double()

    def ablated(name: str, **factors: float) -> Tensor:
        model = fresh(f"transformer_{name}", **sizes).double()
        model.load_state_dict(whole.state_dict(), strict=False)
        for path, p in model.named_parameters():
            p.data *= factors.get(path.split(".")[-2], 1)
            if path == "output.weight":
                p.data.copy_(whole.embedding.weight)
        return model(*pairs)

    logits = whole(*pairs)
    assert_close(ablated("unscaled", W_q=0.5), logits)  # 1/√4
    assert_close(ablated("untied"), logits)
    assert_close(ablated("over_d", W_q=2.0), logits)  # √4
    assert_close(ablated("small", embedding=4.0), 4 * logits)  # √16, also in the output
    assert_close(ablated("small_untied", embedding=4.0), logits)
    assert_close(ablated("cosine", W_q=3.0, W_k=0.2), ablated("cosine"))
    for name in ("cosine", "no_residual", "no_norm", "no_feed_forward"):
        assert (ablated(name) - logits).abs().amax() > 1e-3
    assert fresh("transformer_cosine", **sizes).encoder[0].self_attention.g.unique() == 2  # √4
    x, cfg = torch.randn(2, 3, 16), ablations.Config(vocab_size=9, d_model=16, dropout=0.0)
    bare = fresh("transformer_no_norm", **sizes).encoder[1].self_residual
    assert_close(bare(x, lambda x: 2 * x), 3 * x)
    assert torch.equal(fresh("transformer_no_feed_forward").decoder[1].ff_residual(x, None), x)
    weigh = fresh("transformer_unnormalised").decoder[1].src_attention.attention_weights
    expected = ((x @ x.mT) / 16**0.5).exp().tril()[:, None]
    assert_close(weigh(*3 * [x[:, None]], torch.ones(3, 3).tril().bool()), expected)
    assert_close(ablations.WithoutResidual(cfg)(x, lambda x: -x), -F.layer_norm(x, [16]))


def test_one_matrix_can_be_a_product_of_two(tiny: Tiny, pairs: Pairs) -> None:
    whole, merged = tiny("transformer", d_k=4), tiny("transformer_one_matrix", d_k=4)
    merged.load_state_dict(
        {k: v for k, v in whole.state_dict().items() if "W_q" not in k}, strict=False
    )
    for name, part in merged.named_modules():
        if isinstance(part, ablations.MergedAttention):
            q, k = (whole.get_parameter(f"{name}.W_{x}.weight").unflatten(0, (2, 4)) for x in "qk")
            part.W_q.weight.data.copy_((k.mT @ q).flatten(0, 1))
    assert_close(merged(*pairs), whole(*pairs))


def test_a_head_sees_its_slice(tiny: Tiny, pairs: Pairs) -> None:
    """So do the heads of matrices that are 0 but in blocks on the diagonal."""
    whole, sliced = tiny("transformer"), tiny("transformer_sliced")
    for name, p in whole.named_parameters():
        if "W_o" in name or "attention" not in name:
            p.data.copy_(sliced.get_parameter(name))
        else:
            parts = sliced.get_submodule(name.removesuffix(".weight")).parts
            p.data.copy_(torch.block_diag(*(part.weight for part in parts)))
    assert_close(sliced(*pairs), whole(*pairs))


def test_positions_stand_beside_embeddings(tiny: Tiny, pairs: Pairs) -> None:
    """A token has 12 numbers of 16, in the output as well."""
    model, last = tiny("transformer_concatenated"), []
    model.norm_tgt.register_forward_hook(lambda _, __, x: last.append(x))
    E = model.embedding.weight
    x = model.embed(torch.tensor([[7, 5]]), torch.tensor([3, 9]))
    assert_close(x[0, :, :12], E[[7, 5]] * 12**0.5)
    assert_close(x[0, :, 12:], transformer.sinusoids(torch.tensor([3, 9]), 4).double())
    assert_close(model(*pairs), last[0][..., :12] @ E.T)


def test_a_vector_is_a_weighted_mean_of_real_annotations(tiny: Tiny, pairs: Pairs) -> None:
    src, src_mask, _ = pairs
    model = tiny("bahdanau_4")
    h, state = Bahdanau.encode(model, src, src_mask).h, model.encode(src, src_mask)
    shares = torch.zeros(4, 4, 5).double()
    for b, n in enumerate(src_mask.sum(1).tolist()):
        for k, query in enumerate(model.pooling.query.weight):
            scores = torch.stack([(query @ h[b, s]).exp() for s in range(n)])
            mean = sum(scores[s] / scores.sum() * h[b, s] for s in range(n))
            assert_close(state.h[b, k], mean)
            shares[b, k, :n] = scores / scores.sum()
    with watch_attention([model.attention]) as [alphas]:  # over the four means
        model(*pairs)
    assert_close(model.attention_weights(*pairs)[:, 0, 0], torch.cat(alphas, 1) @ shares)
    assert state.src_mask.all()
    assert_close(state.keys, model.attention.U_a(state.h))
