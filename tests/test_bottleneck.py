"""The bottleneck: pooled annotations are their equations, and the task measures bits alone."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
import torch
from checks import check_folder
from conftest import Pairs, Run, Tiny, V
from torch.testing import assert_close

from seqmodels import EOS, build
from seqmodels.comparison.arm import model_sizes
from seqmodels.models.bahdanau import Bahdanau
from tasks.bottleneck import __main__ as bottleneck

NAMES = bottleneck.MODELS


def test_a_vector_is_a_weighted_mean_of_real_annotations(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out pads that are pooled, and a softmax over the queries instead of the words."""
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


def test_vectors_that_are_the_annotations_are_the_chapter(
    tiny: Tiny, pairs: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a decoder that attends to anything else than the pooled vectors."""
    src, _, tgt_in = pairs
    mask = torch.ones_like(src, dtype=torch.bool)
    published, model = tiny("bahdanau"), tiny("bahdanau_1", n_queries=5)
    model.load_state_dict(published.state_dict(), strict=False)
    one_each = torch.eye(5).double().expand(len(src), -1, -1)
    monkeypatch.setattr(model.pooling, "attention_weights", lambda h, src_mask: one_each)
    assert_close(model(src, mask, tgt_in), published(src, mask, tgt_in))
    assert_close(model.align(src, mask, tgt_in), published.align(src, mask, tgt_in))


def test_weights_are_read_through_the_vectors(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out an alignment to vectors drawn as one to words, and weight on pads."""
    src, src_mask, tgt_in = pairs
    for name in ("bahdanau_1", "bahdanau_16"):
        alpha = tiny(name).align(src, src_mask, tgt_in)
        assert alpha.shape == (4, 6, 5)
        assert_close(alpha.sum(-1), torch.ones(4, 6).double())
        assert (alpha * ~src_mask.unsqueeze(1) == 0).all()


def test_the_memory_does_not_grow(tiny: Tiny) -> None:
    """Keeps out a State that is as large as the source after all."""
    model = tiny("bahdanau_4")
    for n in (2, 9):
        src = torch.full((1, n), 5)
        assert model.encode(src, src > 0).h.shape == (1, 4, 32)
    assert [model.config.source_floats(n) for n in (2, 9)] == 2 * [2 * 4 * 16]


@pytest.mark.parametrize("size", ["smoke", "laptop", "full"])
def test_targets_are_copies_without_an_end(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out an end that is scored with the symbols, and lengths that are not trained."""
    few = bottleneck.SIZES[size] | {"n_train": 200, "n_valid": 10}
    monkeypatch.setitem(bottleneck.SIZES, size, few)
    task = bottleneck.make_task(argparse.Namespace(size=size, tokens=None))
    (test,) = task.tests
    for e in (*task.train, *task.valid, *test.examples):
        assert [*e.tgt, EOS] == list(e.src)
        assert not e.unscored
        assert len(e.tgt) <= few["max_length"]
    assert [len(e.tgt) for e in test.examples] == list(test.x)
    assert task.data["n_symbols"] == 64
    assert not test.is_generated
    sizes = {name: model_sizes(name, task) for name in NAMES}
    widths = [own["d_model"] for name, own in sizes.items() if name.startswith("rnn_encdec")]
    assert widths == [32, 64, 128, 256, 512]
    pooled = [own for name, own in sizes.items() if name.startswith("bahdanau")]
    assert [own.pop("n_queries", None) for own in pooled] == [1, 2, 4, 8, 16, None]
    assert len({str(own) for own in pooled}) == 1


def test_the_bottleneck_runs(run: Run, tmp_path: Path) -> None:
    """Keeps out a width or a number of vectors that the harness cannot train or draw."""
    names = ["rnn_encdec_32", "bahdanau_2", "bahdanau"]
    assert run(bottleneck, "--models", *names, "--out", tmp_path) == 0
    records = check_folder(tmp_path, names)
    assert [b["low"] for b in records[0]["tests"][0]["buckets"]] == [1, 2, 3, 4]
    assert [build(r["model"], V, **{"d_model": 8}).config.d_model for r in records] == [8, 8, 8]
