"""CUDA graphs: padding to a few shapes, and on a GPU the same loss and gradients."""

from functools import partial
from unittest.mock import Mock

import pytest
import torch
from conftest import Tiny
from toys import CFG, toy

from seqmodels.data.batches import collate
from seqmodels.interface import BOS, PAD, Batch
from seqmodels.models import MODELS, build
from seqmodels.records.schema import Event
from seqmodels.training import graphs, loop
from seqmodels.training.trainer import Trainer
from tools.sizes import sizes_of

SIZES = {"d_model": 16, "d_embed": 8, "d_maxout": 8, "d_align": 8, "d_ff": 32, "n_heads": 2}


def test_sizes_are_rounded_up_to_few() -> None:
    assert [*map(graphs.round_up, (1, 8, 9, 63, 64, 65, 81, 97, 320, 321))] == [
        8, 8, 16, 64, 64, 80, 96, 112, 320, 384,
    ]  # fmt: skip


def test_a_filled_batch_keeps_its_rows_and_hides_what_is_added() -> None:
    batch = collate(toy().train[:3])
    n_src, n_tgt = batch.src.shape[1], batch.tgt_in.shape[1]
    shapes = (5, n_src + 2), (5, n_src + 2), (5, n_tgt + 1), (5, n_tgt + 1)
    whole = Batch(*(t.new_full(s, 9) for t, s in zip(batch, shapes, strict=True)))
    graphs.fill(whole, batch)
    for larger, own in zip(whole, batch, strict=True):
        assert torch.equal(larger[:3, : own.shape[1]], own)
    assert whole.src_mask.sum(1).tolist()[3:] == [1, 1]
    assert (whole.src[3:, 0] == BOS).all()
    assert (whole.tgt_out[3:] == PAD).all()
    assert not whole.src_mask[:3, n_src:].any()
    assert (whole.tgt_out[:3, n_tgt:] == PAD).all()


def test_padded_rows_and_columns_change_neither_loss_nor_gradient() -> None:
    """What a graph computes, without one: for each chapter, in evaluation mode."""
    batch = collate(toy().train[:5])
    shapes = (8, 16), (8, 16), (8, 16), (8, 16)
    whole = Batch(*(t.new_empty(s) for t, s in zip(batch, shapes, strict=True)))
    graphs.fill(whole, batch)
    for name in MODELS:
        torch.manual_seed(1)
        more = {"n_layers": 1, "n_positions": 64, **SIZES}
        model = build(name, toy().tokenizer.vocab_size, **sizes_of(name, **more)).double().eval()
        found = []
        for each in (batch, whole):
            model.zero_grad()
            loss = loop.loss_of(model, CFG, each)
            loss.backward()
            found.append([loss, *(p.grad for p in model.parameters() if p.grad is not None)])
        for own, padded in zip(*found, strict=True):
            torch.testing.assert_close(own, padded)


def test_without_a_graph_that_fails_the_step_is_the_same_and_is_recorded(fresh: Tiny) -> None:
    trainer = Trainer(fresh("gpt"), CFG)
    batch = trainer.prepare(collate(toy().train[:5]))
    expected = loop.backward(trainer, batch)
    trainer.graphs = Mock(side_effect=RuntimeError("operation not permitted"))
    assert torch.equal(loop.backward(trainer, batch), expected)
    assert trainer.graphs is None
    (event,) = trainer.progress.events
    assert "operation not permitted" in Event(**event).what


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")
def test_a_graph_computes_the_same_step() -> None:
    batches = [collate(toy().train[i : i + 7], "cuda") for i in (0, 7, 0, 14)]
    for name in MODELS:
        more = {"n_layers": 1, "n_positions": 64, **SIZES}
        model = build(name, toy().tokenizer.vocab_size, **sizes_of(name, **more)).cuda().eval()
        trainer = Trainer(model, CFG)
        recorded = graphs.BackwardGraphs(partial(loop.loss_of, model, CFG), model.parameters())
        for batch in batches:
            found = []
            for trainer.graphs in (None, recorded):
                loss = loop.backward(trainer, trainer.prepare(batch))
                found.append([loss.clone(), *(p.grad.clone() for p in model.parameters())])
            for eager, graph in zip(*found, strict=True):
                torch.testing.assert_close(eager, graph)
