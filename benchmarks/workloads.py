"""The work that is timed: training and search with our models, in fixed amounts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import torch

from seqmodels.data.batches import Example, batch_indices, batches_by_length, collate
from seqmodels.data.tokenizers import Words
from seqmodels.evaluation.evaluate import BATCH_TOKENS
from seqmodels.interface import EOS, PAD, Batch, SequenceModel
from seqmodels.models import build, model_of
from seqmodels.search import beam
from seqmodels.training import loop
from seqmodels.training.config import TrainConfig
from seqmodels.training.trainer import Trainer
from tasks.synthetic import grammar
from tools.sizes import sizes_of

Work = Callable[[], float]
"""Do a fixed amount of work; return how many units it was."""


class Size(NamedTuple):
    """The sizes of the workloads."""

    seconds: float
    """The least time of a turn."""
    n_train: int
    """Sentence pairs from the English–German grammar."""
    width: int
    n_layers: int
    """Layers of GPT; the Transformer has half as many on each side."""
    batch_tokens: int
    n_batches: int
    """Training batches; a turn cycles through all of them until its time is up."""
    test_step: int
    """Stride over the batches of the translation task's test sentences."""
    lengths: tuple[int, ...]
    """Source and target tokens, for growth with length."""


SIZES = {
    "smoke": Size(0.0, 100, 16, 2, 64, 2, 34, (8, 16)),
    "full": Size(2.0, 4_000, 256, 6, 1500, 8, 11, tuple(2**k for k in range(3, 11))),
}


@cache
def translation(size: Size) -> tuple[int, list[Batch], list[Batch]]:
    """Return the number of words, training batches and test batches of the grammar."""
    corpus = grammar.draw_corpus(seed=1, n_train=size.n_train, n_valid=1)
    pairs = [*corpus.train, *corpus.test]
    words = Words.train(text for pair in pairs for text in (pair.en_text, pair.de_text))
    examples, test = (
        [Example(words.encode(p.en_text), [*words.encode(p.de_text), EOS]) for p in split]
        for split in (corpus.train, corpus.test)
    )
    batches = batch_indices(examples, size.batch_tokens, seed=1)
    runs = [*batches_by_length(test, BATCH_TOKENS // 5)][3 :: size.test_step]
    return (
        words.vocab_size,
        [collate([examples[i] for i in next(batches).rows]) for _ in range(size.n_batches)],
        [collate([test[i] for i in run]) for run in runs],
    )


def build_model(name: str, vocab_size: int, size: Size, n_positions: int = 1024) -> SequenceModel:
    """Build a model at the width of a size, without dropout."""
    base, n, d = model_of(name), size.n_layers, size.width
    layers = {"lstm_seq2seq": 2, "transformer": n // 2, "mamba2": 2 * n}
    sizes: dict[str, Any] = sizes_of(
        base, d_model=d, d_embed=d, d_maxout=d // 2, d_align=d, d_ff=4 * d, d_state=32, n_heads=4,
        n_layers=layers.get(base, n), n_positions=n_positions, dropout=0.0,
    )  # fmt: skip
    return build(name, vocab_size, **sizes)


def make_trainer(model: SequenceModel) -> Trainer:
    """Return a trainer at a rate at which nothing diverges; speed does not depend on it."""
    return Trainer(model.train(), TrainConfig(tokens=10**9, lr=1e-4))


def train(name: str, size: Size) -> Work:
    """Train on the batches, counted in real target tokens."""
    vocab_size, batches, _ = translation(size)
    trainer = make_trainer(build_model(name, vocab_size, size))
    n_tokens = sum(int((batch.tgt_out != PAD).sum()) for batch in batches)

    def work() -> float:
        for batch in batches:
            loop.training_step(trainer, trainer.prepare(batch))
        return n_tokens

    return work


def search(name: str, size: Size) -> Work:
    """Translate the test sentences with a beam of 5, each to the length of the longest reference.

    The models are untrained: EOS, which is ruled out, would end them anywhere.
    """
    vocab_size, _, batches = translation(size)
    model = build_model(name, vocab_size, size).eval()
    step = model.step

    def endless_step(y: torch.Tensor, state: Any) -> tuple[torch.Tensor, Any]:
        logits, state = step(y, state)
        logits[:, EOS] = -torch.inf
        return logits, state

    model.step = endless_step  # type: ignore[method-assign]

    def work() -> float:
        for batch in batches:
            beam(model, batch.src, batch.src_mask, batch.tgt_out.shape[1], 5)
        return sum(len(batch.src) for batch in batches)

    return work


WORKLOADS: dict[str, Callable[[Size], Work]] = {
    **{f"train-{name}": partial(train, name)
       for name in ("rnn_encdec", "bahdanau", "lstm_seq2seq", "transformer", "gpt")},
    **{f"beam-{name}": partial(search, name) for name in ("bahdanau", "transformer")},
}  # fmt: skip
