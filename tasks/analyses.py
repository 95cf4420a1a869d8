"""What several tasks measure in trained models: heads, gradients, translations, states, probes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.data.batches import Example, batches_by_length, collate
from seqmodels.data.tokenizers import Tokenizer
from seqmodels.evaluation.evaluate import BATCH_TOKENS, generate_targets
from seqmodels.experiments.task import TestSet
from seqmodels.interface import PAD, Batch, SequenceModel, device_of
from seqmodels.models.gpt import GPT
from seqmodels.models.memory import rotate
from seqmodels.models.transformer import Transformer

from .synthetic import grammar
from .synthetic.changes import CHANGES, classify_changes
from .synthetic.pairs import encode_sentences
from .synthetic.trees import Parse, Sentence
from .synthetic.words import KINDS

Rows = list[dict[str, float | str]]
"""Rows of an analysis, as a record holds them."""
QUARTILES = {"low": 0.25, "median": 0.5, "high": 0.75}
N_FEATURES = 256
"""Inputs of every probe: random combinations of what a model has."""
RIDGE = 0.01
"""Penalty of the probe's squared weights, per row."""


def batch_of(model: SequenceModel, examples: Sequence[Example]) -> Batch:
    """Collate examples on the model's device."""
    return collate(examples, device_of(model))


def batches_of(
    model: SequenceModel, examples: Sequence[Example]
) -> Iterator[tuple[list[int], Batch]]:
    """Yield batches of examples of similar lengths: their indices, and the batch."""
    for indices in batches_by_length(examples, BATCH_TOKENS):
        yield indices, batch_of(model, [examples[i] for i in indices])


@contextmanager
def watch(modules: Iterable[nn.Module]) -> Iterator[list[list[tuple[Any, Any]]]]:
    """Collect the arguments and the output of each call of these modules inside the context."""
    calls: list[list[tuple[Any, Any]]] = []
    with ExitStack() as hooks:
        for module in modules:
            own: list[tuple[Any, Any]] = []
            calls.append(own)
            hooks.enter_context(
                module.register_forward_hook(lambda _, args, out, own=own: own.append((args, out)))
            )
        yield calls


# ------------------------------------------------------------------------------------- Attentions


class Attention(NamedTuple):
    """One module with several heads."""

    kind: str
    """encoder or decoder, where it attends to its own text; source; text: GPT's only one."""
    layer: int
    """From 1."""
    module: Any


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


def name_head(a: Attention, head: int) -> dict[str, float | str]:
    """Return the columns that name a head."""
    return {"attention": a.kind, "layer": a.layer, "head": head}


# -------------------------------------------------------------------------------------- Gradients
#
# All sources have the same length S, all targets the same length T; target token t comes t places
# after the source.


def pick_equally_long(test: TestSet) -> list[Example]:
    """Return the test sentences, nearly as long as trained, whose source has the commonest length.

    Their targets are cut to the length of the shortest one.
    """
    longest = min(test.max_train_length or 0, max(test.x))
    near = [e for e, n in zip(test.examples, test.x, strict=True) if longest - 10 < n <= longest]
    ((n_source, _),) = Counter(len(e.src) for e in near).most_common(1)
    equal = [e for e in near if len(e.src) == n_source]
    n_target = min(len(e.tgt) for e in equal)
    return [e._replace(tgt=e.tgt[:n_target]) for e in equal]


def gradient_norms(model: SequenceModel, batch: Batch) -> Float[Tensor, "B T S"]:
    """Return the norm of ∂ loss_t / ∂ e_j for target token t and source token j.

    It is divided by the norm of ∂ loss_t / ∂ logits_t: otherwise, a token of which the model is
    sure would hardly count.
    """
    logits, embedded = source_embeddings(model, batch.src, batch.src_mask, batch.tgt_in)
    nats = F.cross_entropy(logits.transpose(1, 2), batch.tgt_out, reduction="none").sum(0)
    grads = [torch.autograd.grad(loss, embedded, retain_graph=True)[0] for loss in nats]
    one_hot = F.one_hot(batch.tgt_out, logits.shape[-1])
    error = (logits.detach().softmax(-1) - one_hot).norm(dim=-1, keepdim=True)
    return torch.stack(grads, 1)[:, :, : batch.src.shape[1]].norm(dim=-1) / error


def by_distance(norms: Float[Tensor, "B T S"]) -> Rows:
    """Return a row per distance: quartiles of the norms, over the median of all of them.

    A gradient that does not depend on the distance is 1 everywhere.
    """
    T, S = norms.shape[1:]
    relative = norms / norms.median()
    distance = S + torch.arange(T).view(T, 1) - torch.arange(S)
    rows: Rows = []
    for d in range(1, S + T):
        norms_at_d = relative[:, (distance == d).to(norms.device)].flatten().double()
        quantiles = {name: norms_at_d.quantile(q).item() for name, q in QUARTILES.items()}
        rows.append({"distance": d, **quantiles})
    return rows


def measure_gradients(
    model: SequenceModel, untrained: SequenceModel, examples: Sequence[Example]
) -> Rows:
    """Return the rows of `by_distance` before and after training."""
    models = {"before": untrained, "after": model}
    return [
        {"when": when, **row}
        for when, each in models.items()
        for row in by_distance(gradient_norms(each, batch_of(each, examples)))
    ]


def source_embeddings(
    model: nn.Module,
    src: Int[Tensor, "B S"],
    src_mask: Bool[Tensor, "B S"],
    tgt_in: Int[Tensor, "B T"],
) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B N E"]]:
    """Return the logits of one forward pass and the embeddings that begin with the source's.

    They are in the graph of the logits: gradients reach them. GPT's go on with the target's; those
    of a model whose memory has a fixed size begin with the source's pads.
    """
    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    with watch(tables) as calls:
        logits = model(src, src_mask, tgt_in)
    orders = src, rotate(src, src_mask.sum(1))
    (embedded,) = (
        out
        for own in calls
        for (ids,), out in own
        if ids.dim() == 2 and any(torch.equal(ids[:, : src.shape[1]], order) for order in orders)
    )
    return logits, embedded


# --------------------------------------------------------------------------------------- Sentences


class Sample(NamedTuple):
    """Sentences to measure on."""

    parses: Sequence[Parse]
    examples: Sequence[Example]
    tokenizer: Tokenizer


def draw_sample(
    n: int, lengths: range, tokenizer: Tokenizer, corpus: Iterable[Sequence[Sentence]] = ()
) -> Sample:
    """Draw sentences of these lengths in turn, none of which is in the corpus."""
    rng, seen = random.Random(2), {s.en for split in corpus for s in split}
    parses = [grammar.draw_unseen(rng, lengths[i % len(lengths)], seen) for i in range(n)]
    return Sample(parses, encode_sentences((p.sentence for p in parses), tokenizer), tokenizer)


def translate(model: SequenceModel, sample: Sample) -> list[list[str]]:
    """Return the greedy translations, in words."""
    outputs = generate_targets(model, sample.examples, 1)
    return [sample.tokenizer.tokens(output) for output in outputs]


def write_texts(
    model: SequenceModel,
    _: SequenceModel,
    examples: Sequence[Example],
    tokenizer: Tokenizer,
    column: str = "text",
) -> Rows:
    """Return a row per example: source, reference, and in a column what greedy search writes."""
    names, outputs = ("source", "reference", column), generate_targets(model, examples, width=1)
    return [
        dict(zip(names, map(tokenizer.decode, (*example[:2], output)), strict=True))
        for example, output in zip(examples, outputs, strict=True)
    ]


def compare_translations(
    sample: Sample, whole: Sequence[list[str]], other: Sequence[list[str]]
) -> dict[str, float | str]:
    """Return how many translations are exact and how many are changed, and the changed words."""
    n_exact = sum(hyp == [*p.sentence.de] for hyp, p in zip(other, sample.parses, strict=True))
    differing = [pair for pair in zip(whole, other, strict=True) if pair[0] != pair[1]]
    changes = sum((classify_changes(*pair) for pair in differing), Counter[str]())
    return {"exact": n_exact, "changed": len(differing), **{key: changes[key] for key in CHANGES}}


# ------------------------------------------------------------------------------------------ States

WORDS = [(kind, word) for kind, forms in KINDS.items() for word in forms]
"""All content words, by kind."""
NUMBER = {word: i for i, (_, word) in enumerate(WORDS)}


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
    for run, batch in batches_of(model, pairs):
        states, real = decoder_states(model, batch), batch.tgt_in != PAD
        by_example |= {i: own[mask] for i, own, mask in zip(run, states, real, strict=True)}
    return torch.cat([by_example[i] for i in range(len(pairs))])


# ------------------------------------------------------------------------------------------ Probes
#
# Probes have one size, whatever the width of what they read.


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
