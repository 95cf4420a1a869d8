"""Read sentences of the grammar with a trained model, and collect what is inside it.

The grammar says what each word is and on which it depends. Every measurement takes a `Reader` and
returns rows for a record; a model without the part that is measured has none. Shares, accuracies
and explained variance are in percent.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from seqmodels.data.batches import Example
from seqmodels.data.tokenizers import Tokenizer
from seqmodels.interface import PAD, Batch, SequenceModel
from seqmodels.models.gpt import GPT
from seqmodels.models.linear_attention import LinearAttention
from seqmodels.models.memory import rotate
from seqmodels.models.rnn_encdec import RNNEncDec
from seqmodels.models.transformer import Transformer

from ..analyses import batches_of, watch
from ..synthetic import grammar
from ..synthetic.pairs import encode_sentences
from ..synthetic.trees import Forms, Parse

N_SENTENCES, LENGTHS = 1_200, range(6, 25)
"""Sentences that are drawn, and their lengths in words."""
N_FEATURES, RIDGE = 256, 0.01
"""Inputs of every probe: random combinations of what a model has; penalty of its weights, a row."""


class Sample(NamedTuple):
    """Sentences to measure on."""

    parses: Sequence[Parse]
    examples: Sequence[Example]
    tokenizer: Tokenizer


def draw_sample(n: int, tokenizer: Tokenizer, lengths: range = LENGTHS) -> Sample:
    """Draw sentences of these lengths in turn."""
    rng, seen = random.Random(2), set[tuple[str, ...]]()
    parses = [grammar.draw_unseen(rng, lengths[i % len(lengths)], seen) for i in range(n)]
    return Sample(parses, encode_sentences((p.sentence for p in parses), tokenizer), tokenizer)


class Word(NamedTuple):
    """A word of a source."""

    sentence: int
    text: str
    kind: str
    role: str
    """Of an article, that of its noun; subject, object or none."""
    forms: Forms | None
    """Of a noun, and of an article's."""


def list_words(parses: Sequence[Parse]) -> list[Word]:
    """Return the words of all sources, one after the other."""
    words = []
    for n, p in enumerate(parses):
        columns = zip(p.sentence.en, p.en.kinds, p.en.heads, strict=True)
        for i, (text, kind, head) in enumerate(columns):
            noun = head if kind == "article" else i
            words.append(Word(n, text, kind, p.en.roles[noun] or "none", p.forms[noun]))
    return words


@dataclass
class Reader:
    """A trained model, the same at its start, and the sentences that it reads."""

    model: Any
    untrained: Any
    sample: Sample

    @cached_property
    def words(self) -> list[Word]:
        """The words of all sources, one after the other."""
        return list_words(self.sample.parses)

    @cached_property
    def layers(self) -> list[Float[Tensor, "N _"]]:
        """The vectors of all words in each layer; the first are embeddings."""
        return collect_layers(self.model, self.sample.examples)

    def take(self, n: int) -> Sample:
        """Return the first n sentences."""
        parses, examples, tokenizer = self.sample
        return Sample(parses[:n], examples[:n], tokenizer)


# ---------------------------------------------------------------------------------------- Layers


def is_one_text(model: Any) -> bool:
    """Return whether a model reads source and target as one text."""
    return isinstance(model, GPT | LinearAttention)


def read(model: Any, batch: Batch) -> None:
    """Compute all layers at all words: of source and target for a model that reads both as one."""
    (model.text_logits if is_one_text(model) else model)(batch.src, batch.src_mask, batch.tgt_in)


def stack_layers(model: Any, stack: Any, batch: Batch) -> list[Float[Tensor, "B N D"]]:
    """Return what the first layer of a stack is given, and what each of them returns."""
    if is_one_text(model):  # what norms are given: each layer's input, the last one's output
        with watch([*(layer.norm_1 for layer in stack), model.norm]) as calls:
            read(model, batch)
        return [args[0] for ((args, _),) in calls]
    with watch(stack) as calls:
        read(model, batch)
    return [calls[0][0][0][0], *(out for ((_, out),) in calls)]


def source_layers(model: Any, batch: Batch) -> list[Float[Tensor, "B S _"]]:
    """Return the vectors of the source's words, in the order of reading: embeddings, then layers.

    Embeddings have their positions added where the model does so. A recurrent encoder is one layer.
    """
    if not is_one_text(model) and not isinstance(model, Transformer):
        encoder = model.encoder.unit if isinstance(model, RNNEncDec) else model.encoder
        with watch([model.embed, encoder]) as (embedded, states):
            model.encode(batch.src, batch.src_mask)
        outputs = [out[0] if isinstance(out, tuple) else out for _, out in states]
        is_stepwise = outputs[0].dim() == 2
        return [embedded[0][1], torch.stack(outputs, 1) if is_stepwise else outputs[0]]
    vectors = stack_layers(model, model.decoder if is_one_text(model) else model.encoder, batch)
    layers = [x[:, : batch.src.shape[1]] for x in vectors]
    if isinstance(model, LinearAttention):  # it reads pads first
        layers = [rotate(x, -batch.src_mask.sum(1)) for x in layers]
    return layers


@torch.inference_mode()
def collect_layers(model: Any, examples: Sequence[Example]) -> list[Float[Tensor, "N _"]]:
    """Return the vectors of all words of these sources but EOS, layer by layer."""
    by_sentence: dict[int, list[Tensor]] = {}
    is_reversed = getattr(model.config, "is_reversed", False)
    for indices, batch in batches_of(model, examples):
        layers = source_layers(model, batch)
        for row, i in enumerate(indices):
            own = [x[row, : len(examples[i].src) - 1].cpu() for x in layers]
            by_sentence[i] = [x.flip(0) for x in own] if is_reversed else own
    each = (by_sentence[i] for i in range(len(examples)))
    return [torch.cat(parts) for parts in zip(*each, strict=True)]


def decoder_states(model: SequenceModel, batch: Batch) -> Float[Tensor, "B T D"]:
    """Return the decoder's state after each token of tgt_in, without its memory of the source.

    It is the last layer's output if a norm follows that; otherwise, what `step` changes in a State.
    """
    norm = getattr(model, "norm_tgt", None) or getattr(model, "norm", None)
    if norm is not None:
        with watch([norm]) as (calls,):
            model(batch.src, batch.src_mask, batch.tgt_in)
        return calls[-1][1]
    state, states = model.encode(batch.src, batch.src_mask), []
    for y in batch.tgt_in.unbind(1):
        before, (_, state) = state, model.step(y, state)
        changed = [new for old, new in zip(before, state, strict=True) if new is not old]
        states.append(torch.cat([field.flatten(1) for field in changed], 1))
    return torch.stack(states, 1)


@torch.inference_mode()
def collect_states(model: SequenceModel, pairs: Sequence[Example]) -> Float[Tensor, "N D"]:
    """Return the decoder's states of all examples, one after the other."""
    by_example: dict[int, Tensor] = {}
    for indices, batch in batches_of(model, pairs):
        states, real = decoder_states(model, batch), batch.tgt_in != PAD
        by_example |= {i: own[mask] for i, own, mask in zip(indices, states, real, strict=True)}
    return torch.cat([by_example[i] for i in range(len(pairs))])


# ------------------------------------------------------------------------------------ Attentions


class Attention(NamedTuple):
    """One module with several heads."""

    kind: str
    """encoder or decoder, where it attends to its own text; source; text: GPT's only one."""
    layer: int
    """From 1."""
    module: Any

    def name_head(self, head: int) -> dict[str, float | str]:
        """Return the columns that name a head, counted from 1."""
        return {"attention": self.kind, "layer": self.layer, "head": head}


def list_attentions(model: SequenceModel) -> list[Attention]:
    """Return the attentions of a Transformer or GPT; of another model, none."""
    if isinstance(model, GPT):
        return [
            Attention("text", i, layer.self_attention) for i, layer in enumerate(model.decoder, 1)
        ]
    if not isinstance(model, Transformer):
        return []
    stacks = {"encoder": model.encoder, "decoder": model.decoder, "source": model.decoder}
    return [
        Attention(kind, i, layer.src_attention if kind == "source" else layer.self_attention)
        for kind, stack in stacks.items()
        for i, layer in enumerate(stack, 1)
    ]


def heads_of(model: SequenceModel, kind: str | None = None) -> list[tuple[Attention, int]]:
    """Return all heads, or those of this kind of attention, numbered from 1 in each layer."""
    n_heads = range(1, 1 + getattr(model.config, "n_heads", 0))
    return [(a, head) for a in list_attentions(model) if kind in (None, a.kind) for head in n_heads]


# ---------------------------------------------------------------------------------------- Probes
#
# Linear probes have one size, whatever the width of what they read.


def mix_features(features: Float[Tensor, "N D"]) -> Float[Tensor, "N F"]:
    """Return N_FEATURES random combinations of the standardised columns, and a constant."""
    features = features.double().cpu()
    features = (features - features.mean(0)) / (features.std(0) + 1e-6)
    mix = torch.Generator().manual_seed(0)
    weights = torch.randn(features.shape[1], N_FEATURES, generator=mix, dtype=torch.float64)
    return torch.cat(
        [features @ weights / features.shape[1] ** 0.5, torch.ones(len(features), 1)], 1
    )


def fit_ridge(x: Float[Tensor, "N F"], y: Float[Tensor, "N O"]) -> Float[Tensor, "F O"]:
    """Return the weights of the linear probes of several labels, in closed form."""
    penalty = RIDGE * len(x) * torch.eye(x.shape[1], dtype=x.dtype)
    return torch.linalg.solve(x.T @ x + penalty, x.T @ y)
