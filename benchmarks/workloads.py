"""The work that is timed: training, search and sampling with our models, in fixed amounts."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seqmodels.data.batches import Example, batches_by_length, collate, training_batches
from seqmodels.data.tokenizers import Bytes, Words
from seqmodels.evaluation.evaluate import BATCH_TOKENS
from seqmodels.interface import BOS, EOS, PAD, Batch, SequenceModel
from seqmodels.models import build, model_of
from seqmodels.search import beam, generate, greedy, sampler
from seqmodels.training import loop
from seqmodels.training.config import Precision, TrainConfig
from seqmodels.training.trainer import Trainer
from tasks.synthetic import grammar, trees
from tools.sizes import sizes_of

Work = Callable[[], float]
"""Do a fixed amount of work; return how many units it was."""

RATE = 1e-4
"""Learning rate: speed does not depend on it, and at this one nothing diverges."""


class Size(NamedTuple):
    """The sizes of the workloads."""

    seconds: float
    """The least time of a turn."""
    n_pairs: int
    """Sentence pairs from the English–German grammar, 4 to 40 words long."""
    width: int
    """Width of all models except GPT, which is 1.5 times as wide."""
    n_layers: int
    """Layers and heads of GPT; the Transformer has half as many layers on each side."""
    block: int
    """Bytes per row of GPT's training text."""
    batch_tokens: int
    n_batches: int
    """Training batches; a turn cycles through all of them until its time is up."""
    test_step: int
    """Stride over the 34 batches of the translation task's test sentences."""
    n_sampled: int
    lengths: tuple[int, ...]
    """Source and target tokens, for growth with length."""


SIZES = {
    "smoke": Size(0.0, 100, 16, 2, 16, 64, 2, 34, 4, (8, 16)),
    "full": Size(2.0, 4_000, 256, 6, 256, 1500, 8, 11, 128, tuple(2**k for k in range(3, 14))),
}


class Setting(NamedTuple):
    """The sizes and data of a workload."""

    vocab_size: int
    sizes: dict[str, int]
    """Arguments of the function `sizes`: width, layers and others."""
    batches: list[Batch]
    """Training batches, each of similar lengths."""
    shown: list[tuple[Batch, int]]
    """Batches to translate or continue, each with the number of tokens to generate per row."""


# ---------------------------------------------------------------------------------------- Data
@cache
def sentences(n: int) -> list[trees.Sentence]:
    """Draw sentence pairs of 4 to 40 words, mostly short ones."""
    rng, lengths = random.Random(1), range(4, 41)
    weights = [length**-2 for length in lengths]
    return [grammar.draw_sentence(rng, length) for length in rng.choices(lengths, weights, k=n)]


def encode_pairs(pairs: list[trees.Sentence]) -> tuple[int, list[Example]]:
    """Return the number of words, and the pairs as tokens."""
    words = Words.train(text for pair in pairs for text in (pair.en_text, pair.de_text))
    encode = words.encode
    return words.vocab_size, [Example(encode(p.en_text), [*encode(p.de_text), EOS]) for p in pairs]


@cache
def translation(size: Size) -> Setting:
    """Return training batches of sentence pairs."""
    vocab_size, examples = encode_pairs(sentences(size.n_pairs))
    batches = training_batches(examples, size.batch_tokens, seed=1)
    trained = [next(batches) for _ in range(size.n_batches)]
    return Setting(vocab_size, {"width": size.width, "n_layers": size.n_layers // 2}, trained, [])


@cache
def test_sentences(size: Size) -> Setting:
    """Return some of the batches in which the translation task translates its test sentences.

    The sentences in a batch have similar lengths, overall from 4 to 80 words. Every row is decoded
    to the length of the longest reference in its batch.
    """
    test = grammar.draw_corpus(seed=1, n_train=1, n_valid=1).test
    vocab_size, examples = encode_pairs(test)
    runs = batches_by_length(examples, BATCH_TOKENS // 5)
    batches = [collate([examples[i] for i in run]) for run in runs[3 :: size.test_step]]
    shown = [(batch, batch.tgt_out.shape[1]) for batch in batches]
    own = {"width": size.width, "n_layers": size.n_layers // 2}
    return Setting(vocab_size, own, batches, shown)


@cache
def prose(size: Size, n_prompts: int = 1) -> Setting:
    """Return batches of 12 blocks of bytes, and prompts of 32 bytes.

    The source of a block is BOS alone; with the target's own BOS the text fills all positions.
    """
    ids = Bytes().encode(" ".join(pair.en_text for pair in sentences(size.n_pairs)))
    n = size.block - 1
    blocks = [Example([BOS], ids[start : start + n]) for start in range(0, 24 * n, n)]
    prompts = [Example(ids[32 * i : 32 * i + 32], [EOS]) for i in range(n_prompts)]
    batches = [collate(blocks[:12]), collate(blocks[12:])]
    own = {"width": size.width * 3 // 2, "n_layers": size.n_layers // 2, "n_heads": size.n_layers}
    own["n_positions"] = max(n, 2 * size.n_sampled) + 33
    return Setting(Bytes().vocab_size, own, batches, [(collate(prompts), size.n_sampled)])


# -------------------------------------------------------------------------------------- Models
def sizes(
    name: str, width: int, n_layers: int, n_heads: int = 4, n_positions: int = 1024
) -> dict[str, Any]:
    """Return a model's sizes at a width, without dropout; a Transformer has `n_layers` per side."""
    base = model_of(name)
    layers = {"lstm_seq2seq": 2, "transformer": n_layers, "mamba2": 4 * n_layers}
    return sizes_of(
        base, d_model=width, d_embed=width, d_maxout=width // 2, d_align=width, d_ff=4 * width,
        d_state=32, n_heads=n_heads, n_layers=layers.get(base, 2 * n_layers),
        n_positions=n_positions, dropout=0.0,
    )  # fmt: skip


def model(name: str, setting: Setting) -> SequenceModel:
    """Build a model for a workload."""
    return build(name, setting.vocab_size, **sizes(name, **setting.sizes))


def endless(model: SequenceModel) -> SequenceModel:
    """Rule out EOS, so that every search generates exactly as many tokens as allowed."""

    class Endless(type(model)):  # type: ignore[misc]
        def step(self, y: Tensor, state: Any) -> tuple[Tensor, Any]:
            logits, state = super().step(y, state)
            logits[:, EOS] = -torch.inf
            return logits, state

    model.__class__ = Endless
    return model.eval()


def trainer_of(model: SequenceModel, precision: Precision = "float32") -> Trainer:
    """Return a trainer at a fixed rate."""
    return Trainer(model.train(), TrainConfig(tokens=10**9, lr=RATE, precision=precision))


@cache
def precisions() -> list[Precision]:
    """Return float32 and, where the processor has instructions for it, bfloat16."""
    has = torch.cpu.get_capabilities()
    is_native = has.get("avx512_bf16") or has.get("amx_bf16")
    return ["float32", "bfloat16"] if is_native else ["float32"]


# ----------------------------------------------------------------------------------- Workloads
def train(name: str, size: Size, precision: Precision) -> Work:
    """Train on the batches of a setting, counted in real target tokens."""
    setting = prose(size) if name == "gpt" else translation(size)
    trainer = trainer_of(model(name, setting), precision)
    n_tokens = sum(int((batch.tgt_out != PAD).sum()) for batch in setting.batches)

    def work() -> float:
        for batch in setting.batches:
            loop.training_step(trainer, trainer.prepare(batch))
        return n_tokens

    return work


def search(name: str, n_beams: int, size: Size, precision: Precision) -> Work:
    """Translate the test sentences greedily or with a beam, weights in this precision."""
    setting = test_sentences(size)
    writer = endless(model(name, setting)).to(getattr(torch, precision))

    def work() -> float:
        for batch, n in setting.shown:
            source = batch.src, batch.src_mask
            is_greedy = n_beams == 1
            written = greedy(writer, *source, n) if is_greedy else beam(writer, *source, n, n_beams)
            assert {len(row) for row in written} == {n}
        return sum(len(batch.src) for batch, _ in setting.shown)

    return work


def sample(n_rows: int, size: Size, precision: Precision) -> Work:
    """Continue prompts of 32 bytes; every token is sampled from the full distribution."""
    setting = prose(size, n_rows)
    writer, [(batch, n)] = endless(model("gpt", setting)), setting.shown
    writer.to(getattr(torch, precision))
    source = batch.src, batch.src_mask
    return lambda: sum(map(len, generate(writer, *source, n, sampler(torch.Generator()))))


WORKLOADS: dict[str, Callable[[Size, Precision], Work]] = {
    "train-bahdanau": partial(train, "bahdanau"),
    "train-transformer": partial(train, "transformer"),
    "train-gpt": partial(train, "gpt"),
    "train-lstm": partial(train, "lstm_seq2seq"),
    "train-cho": partial(train, "rnn_encdec"),
    "beam-bahdanau": partial(search, "bahdanau", 5),
    "beam-transformer": partial(search, "transformer", 5),
    "greedy-transformer": partial(search, "transformer", 1),
    "sample-gpt-1": partial(sample, 1),
    "sample-gpt-32": partial(sample, 32),
}
