"""The contests: who competes with whom, on which task, and how far ahead we aim to be."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import peers
from benchmarks.measure import RATE, Effort, Size, Work, contest, training
from benchmarks.peers import Setting
from seqmodels.data.batches import (
    Example,
    batches_by_length,
    collate,
    lengths,
    training_batches,
)
from seqmodels.data.tokenizers import Bytes, Words
from seqmodels.evaluation.evaluate import BATCH_TOKENS
from seqmodels.experiments.plan import native_precision
from seqmodels.interface import BOS, EOS, Batch, SequenceModel
from seqmodels.models import MODELS, build
from seqmodels.search import beam, generate, greedy, sampler
from seqmodels.training import loop
from seqmodels.training.config import Precision, TrainConfig
from seqmodels.training.trainer import Trainer
from tasks.synthetic import grammar, trees

Make = Callable[[], SequenceModel]
Sides = dict[str, Callable[[], Work]]
"""Builders of the sides; those whose names begin with "ours" are compared with all others."""

# ---- Data


@cache
def sentences(n: int) -> list[trees.Sentence]:
    """Draw sentence pairs of 4 to 40 words, mostly short ones."""
    rng, lengths = random.Random(1), range(4, 41)
    weights = [length**-2 for length in lengths]
    return [grammar.draw_sentence(rng, length) for length in rng.choices(lengths, weights, k=n)]


def unsorted_batches(examples: list[Example], size: Size) -> list[list[Example]]:
    """Return batches whose rows have all lengths, in the order of the examples."""
    batches: list[list[Example]] = [[]]
    for example in examples:
        longest = lengths([*batches[-1], example]).max()
        if batches[-1] and longest * (len(batches[-1]) + 1) > size.batch_tokens:
            batches.append([])
        batches[-1].append(example)
    return batches[: size.n_batches]


@cache
def translation(size: Size) -> Setting:
    """Return batches of sentence pairs, and sentences to translate, sorted by length."""
    pairs = sentences(size.n_pairs)
    words = Words.train(text for pair in pairs for text in (pair.en_text, pair.de_text))
    examples = [Example(words.encode(p.en_text), [*words.encode(p.de_text), EOS]) for p in pairs]
    batches = training_batches(examples, size.batch_tokens, seed=1)
    mixed = [collate(batch) for batch in unsorted_batches(examples, size)]
    shown = collate(sorted(examples[: size.n_sentences], key=lambda e: len(e.src)))
    trained = [next(batches) for _ in range(size.n_batches)]
    n_layers = size.n_layers // 2
    shown_once = [(shown, size.n_written)]
    return Setting(words.vocab_size, size.width, n_layers, 4, trained, mixed, shown_once)


@cache
def test_sentences(size: Size) -> Setting:
    """Return some of the batches in which the translation task translates its test sentences.

    The sentences in a batch have similar lengths, overall from 4 to 80 words. Every row is decoded
    to the length of the longest reference in its batch.
    """
    test = grammar.draw_corpus(seed=1, n_train=1, n_valid=1).test
    words = Words.train(text for pair in test for text in (pair.en_text, pair.de_text))
    examples = [Example(words.encode(p.en_text), [*words.encode(p.de_text), EOS]) for p in test]
    runs = batches_by_length(examples, BATCH_TOKENS // 5)
    batches = [collate([examples[i] for i in run]) for run in runs[3 :: size.test_step]]
    shown = [(batch, batch.tgt_out.shape[1]) for batch in batches]
    return Setting(words.vocab_size, size.width, size.n_layers // 2, 4, batches, batches, shown)


@cache
def prose(size: Size, n_prompts: int = 1) -> Setting:
    """Return batches of 12 blocks of bytes, and prompts of 32 bytes.

    The source of a block is BOS alone; with the target's own BOS the text fills all positions.
    """
    ids = Bytes().encode(" ".join(pair.en_text for pair in sentences(size.n_pairs)))
    n = size.block - 1
    blocks = [Example([BOS], ids[start : start + n]) for start in range(0, 24 * n, n)]
    prompts = [Example(ids[32 * i : 32 * i + 32], [EOS]) for i in range(n_prompts)]
    batches, width = [collate(blocks[:12]), collate(blocks[12:])], size.width * 3 // 2
    layers = size.n_layers, size.n_layers
    shown = [(collate(prompts), size.n_sampled)]
    return Setting(Bytes().vocab_size, width, *layers, batches, batches, shown)


# ---- Our sides


def sizes(name: str, width: int, n_layers: int, n_positions: int = 1024) -> dict[str, Any]:
    """Return a model's sizes at a width, without dropout; a Transformer has `n_layers` per side."""
    recurrent = {"d_model": width, "d_embed": width, "dropout": 0.0}
    attending = {"d_model": width, "n_heads": 4, "n_layers": n_layers, "dropout": 0.0}
    return {
        "rnn_encdec": recurrent | {"d_maxout": width // 2},
        "bahdanau": recurrent | {"d_maxout": width // 2, "d_align": width},
        "lstm_seq2seq": recurrent | {"n_layers": 2},
        "transformer": attending | {"d_ff": 4 * width},
        "gpt": attending | {"n_layers": 2 * n_layers, "n_positions": n_positions},
        "linear_attention": attending | {"n_layers": 2 * n_layers, "n_positions": n_positions},
    }[name]


def model(name: str, setting: Setting) -> SequenceModel:
    """Build one of our models for a contest."""
    more = sizes(name, setting.width, setting.n_layers)
    if name == "gpt":
        n_positions = max(setting.batches[0].tgt_in.shape[1], 2 * setting.shown[0][1]) + 33
        more |= {
            "n_heads": setting.n_heads,
            "n_layers": setting.n_layers,
            "n_positions": n_positions,
        }
    return build(name, setting.vocab_size, **more)


def endless(model: SequenceModel) -> SequenceModel:
    """Rule out EOS, so that every side generates exactly as many tokens as allowed."""

    class Endless(type(model)):  # type: ignore[misc]
        def step(self, y: Tensor, state: Any) -> tuple[Tensor, Any]:
            logits, state = super().step(y, state)
            logits[:, EOS] = -torch.inf
            return logits, state

    model.__class__ = Endless
    return model.eval()


def training_work(
    model: SequenceModel, batches: list[Batch], precision: Precision = "float32"
) -> Work:
    """Return the work of our training loop."""
    trainer = Trainer(model.train(), TrainConfig(tokens=10**9, lr=RATE, precision=precision))
    return training(lambda batch: loop.training_step(trainer, trainer.prepare(batch)), batches)


@cache
def precisions() -> list[Precision]:
    """Return float32 and, where the processor has instructions for it, bfloat16."""
    return ["float32"] if native_precision("cpu") == "float32" else ["float32", "bfloat16"]


def our_training(name: str, setting: Setting) -> Sides:
    """Return our sides, one per precision."""
    return {
        f"ours, {p}": partial(lambda p: training_work(model(name, setting), setting.batches, p), p)
        for p in precisions()
    }


def their_training(peers: dict[str, Callable[..., Work]]) -> Sides:
    """Return the sides of peers: as they train by default, and with autocast where tasks do."""
    named = {"float32": "{}", "bfloat16": "{}, autocast"}
    return {
        named[precision].format(name): partial(make, precision=precision)
        for name, make in peers.items()
        for precision in precisions()
    }


def our_search(name: str, setting: Setting, width: int, precision: Precision) -> Work:
    """Return the work of our search, greedy or with a beam, with weights in this precision."""
    writer = endless(model(name, setting)).to(getattr(torch, precision))

    def work() -> float:
        for batch, n in setting.shown:
            read = batch.src, batch.src_mask
            written = greedy(writer, *read, n) if width == 1 else beam(writer, *read, n, width)
            assert {len(row) for row in written} == {n}
        return sum(len(batch.src) for batch, _ in setting.shown)

    return work


def our_sampling(setting: Setting, precision: Precision) -> Work:
    """Return the work of our sampling from the full distribution."""
    writer, [(batch, n)] = endless(model("gpt", setting)), setting.shown
    writer.to(getattr(torch, precision))
    read = batch.src, batch.src_mask
    return lambda: sum(map(len, generate(writer, *read, n, sampler(torch.Generator()))))


# ---- The machine


def flops(model: SequenceModel, batch: Batch) -> int:
    """Count the floating-point operations of one forward and backward pass.

    Matrix products are counted as they run, and attention as if nothing were masked. Elementwise
    operations and the optimiser are not counted.
    """
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        loop.loss_of(model.train(), TrainConfig(tokens=10**9, lr=RATE), batch).backward()
    return counter.get_total_flops()


def training_flops(name: str, setting: Setting, precision: Precision) -> Work:
    """Return the work of our training loop, counted in GFLOP."""
    total = sum(flops(model(name, setting), batch) for batch in setting.batches) / 1e9
    work = training_work(model(name, setting), setting.batches, precision)
    return lambda: work() and total


def matrix_product(n: int, dtype: torch.dtype) -> Work:
    """Return the work of one product of two square matrices, in GFLOP."""
    a, b, c = (torch.randn(n, n).to(dtype) for _ in range(3))

    def work() -> float:
        torch.mm(a, b, out=c)
        return 2 * n**3 / 1e9

    return work


# ---- Contests


def bahdanau_training(size: Size) -> Sides:
    """Against Joey NMT: a bidirectional GRU encoder, and a GRU decoder with input feeding."""
    setting, joey = translation(size), partial(peers.joey_training, "recurrent")
    return our_training("bahdanau", setting) | their_training(
        {
            "Joey NMT": partial(joey, setting, setting.mixed),
            "Joey NMT, our batches": partial(joey, setting, setting.batches),
        }
    )


def transformer_training(size: Size) -> Sides:
    """All are post-norm, except x-transformers, which does not offer it."""
    setting, joey = translation(size), partial(peers.joey_training, "transformer")
    return our_training("transformer", setting) | their_training(
        {
            "Joey NMT": partial(joey, setting, setting.mixed),
            "Joey NMT, our batches": partial(joey, setting, setting.batches),
            "torch.nn.Transformer": partial(peers.torch_training, setting),
            "x-transformers": partial(peers.x_training, setting),
        }
    )


def on_torch(name: str, label: str, peer: type[SequenceModel], size: Size) -> Sides:
    """Our own network, with our readable loop and with one of torch's recurrent layers."""
    setting = translation(size)
    config = MODELS[name].config_type(
        vocab_size=setting.vocab_size, **sizes(name, setting.width, setting.n_layers)
    )

    def train_peer(precision: Precision) -> Work:
        return training_work(peer(config), setting.batches, precision)

    return our_training(name, setting) | their_training({label: train_peer})


def gpt_training(size: Size) -> Sides:
    """All sides use fused attention and tied embeddings."""
    setting = prose(size)
    return our_training("gpt", setting) | their_training(
        {
            "transformers GPT-2": partial(peers.gpt2_training, setting),
            "x-transformers": partial(peers.x_decoder_training, setting),
        }
    )


def beams(name: str, kind: str, size: Size) -> Sides:
    """Untrained models, the same batches, and equally many tokens for all sentences of a batch."""
    setting = test_sentences(size)
    sides: Sides = {f"ours, {p}": partial(our_search, name, setting, 5, p) for p in precisions()}
    sides["Joey NMT"] = lambda: peers.joey_beam(kind, setting)
    if name == "transformer":
        sides["transformers Marian"] = lambda: peers.marian_beam(setting)
        sides |= on_ctranslate2(setting, 5)
    return sides


def on_ctranslate2(setting: Setting, width: int) -> Sides:
    """Return the sides of CTranslate2, in float32 and int8."""
    peer = partial(peers.ctranslate2_search, setting, width)
    return {f"CTranslate2, {p}": partial(peer, p) for p in ("float32", "int8")}


def greedy_transformer(size: Size) -> Sides:
    """Search the same test sentences as the beams, to the same lengths."""
    setting = test_sentences(size)
    ours = partial(our_search, "transformer", setting, 1)
    return {f"ours, {p}": partial(ours, p) for p in precisions()} | on_ctranslate2(setting, 1)


def sampling(n_rows: int, size: Size) -> Sides:
    """Prompts of 32 bytes; every token is sampled from the full distribution."""
    setting = prose(size, n_rows)
    sides: Sides = {f"ours, {p}": partial(our_sampling, setting, p) for p in precisions()}
    return sides | {"transformers GPT-2": lambda: peers.gpt2_sampling(setting)}


def share_of_peak(size: Size) -> Sides:
    """Model FLOP/s in training, against the machine's product of two large matrices."""
    sides: Sides = {}
    for name, setting in (("transformer", translation(size)), ("gpt", prose(size))):
        for precision in precisions():
            sides[f"ours {name}, {precision}"] = partial(training_flops, name, setting, precision)
    for dtype in (torch.float32, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        sides[f"matrix product, {name}"] = partial(matrix_product, size.n_peak, dtype)
    return sides


@dataclass(frozen=True)
class Contest:
    """One contest; `bars` holds the speedup over each peer that we aim for."""

    title: str
    unit: str
    sides: Callable[[Size], Sides]
    bars: dict[str, float]

    def __call__(self, size: Size, effort: Effort) -> dict[str, Any]:
        """Run the contest."""
        named = {"kind": "contest", "title": self.title, "unit": self.unit, "bars": self.bars}
        return named | contest(self.sides(size), effort)


TOKENS, SENTENCES = "target tokens/s", "sentences/s"
LSTM, GRU = "torch.nn.LSTM", "torch.nn.GRU"

CONTESTS: dict[str, Callable[[Size, Effort], dict[str, Any]]] = {
    "train-bahdanau": Contest("Bahdanau, training", TOKENS, bahdanau_training, {"Joey NMT": 4.0}),
    "train-transformer": Contest(
        "Transformer 3+3, training", TOKENS, transformer_training, {"Joey NMT": 3.0}
    ),
    "train-gpt": Contest("GPT, training", TOKENS, gpt_training, {"transformers GPT-2": 1.2}),
    "train-lstm": Contest(
        *("LSTM, training", TOKENS, partial(on_torch, "lstm_seq2seq", LSTM, peers.TorchLSTM)),
        {LSTM: 0.95},
    ),
    "train-cho": Contest(
        *("Cho, training", TOKENS, partial(on_torch, "rnn_encdec", GRU, peers.TorchGRU)),
        {GRU: 0.95},
    ),
    "beam-bahdanau": Contest(
        *("Bahdanau, beam 5", SENTENCES, partial(beams, "bahdanau", "recurrent")),
        {"Joey NMT": 5.0},
    ),
    "beam-transformer": Contest(
        *("Transformer 3+3, beam 5", SENTENCES, partial(beams, "transformer", "transformer")),
        {"Joey NMT": 20.0, "transformers Marian": 2.0, "CTranslate2, float32": 1.0},
    ),
    "greedy-transformer": Contest(
        *("Transformer 3+3, greedy", SENTENCES, greedy_transformer), {"CTranslate2, float32": 1.0}
    ),
    **{
        f"sample-gpt-{n}": Contest(
            *(f"GPT, cached sampling, batch {n}", "tokens/s", partial(sampling, n)),
            {"transformers GPT-2": 2.0},
        )
        for n in (1, 32)
    },
    "peak": Contest(
        *("Training, share of the machine's peak", "GFLOP/s", share_of_peak),
        {"matrix product, float32": 0.65},
    ),
}
