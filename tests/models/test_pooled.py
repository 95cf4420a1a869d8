"""Attention pooled into k vectors."""

from typing import Any

import torch
from conftest import Pairs, Tiny
from torch.testing import assert_close

from seqmodels.models.bahdanau import Bahdanau


def test_a_vector_is_a_weighted_mean_of_real_annotations(tiny: Tiny, pairs: Pairs) -> None:
    src, src_mask, _ = pairs
    model = tiny("bahdanau_4")
    h, state = Bahdanau.encode(model, src, src_mask).h, model.encode(src, src_mask)
    for b, n in enumerate(src_mask.sum(1).tolist()):
        for k, query in enumerate(model.pooling.query.weight):
            scores = torch.stack([(query @ h[b, s]).exp() for s in range(n)])
            mean = sum(scores[s] / scores.sum() * h[b, s] for s in range(n))
            assert_close(state.h[b, k], mean)
    assert state.src_mask.all()
    assert_close(state.keys, model.attention.U_a(state.h))


def test_pooled_annotations_are_the_chapter(tiny: Tiny, pairs: Pairs, monkeypatch: Any) -> None:
    src, _, tgt_in = pairs
    mask = torch.ones_like(src, dtype=torch.bool)
    published, model = tiny("bahdanau"), tiny("bahdanau_1", n_queries=5)
    model.load_state_dict(published.state_dict(), strict=False)
    one_each = torch.eye(5).double().expand(len(src), -1, -1)
    monkeypatch.setattr(model.pooling, "attention_weights", lambda h, src_mask: one_each)
    assert_close(model(src, mask, tgt_in), published(src, mask, tgt_in))
    assert_close(model.align(src, mask, tgt_in), published.align(src, mask, tgt_in))
