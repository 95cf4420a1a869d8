"""Measure which translations are lost, and which words change, without one part of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch import nn

from seqmodels.evaluation.evaluate import generate_targets
from seqmodels.experiments.task import Rows
from seqmodels.interface import PAD, SequenceModel, mute_heads
from seqmodels.models.transformer import Transformer

from ..analyses import batches_of
from ..synthetic.changes import CHANGES, classify_changes
from .reader import Reader, Sample, heads_of, is_one_text, stack_layers

N_TRANSLATED = 200
"""Sentences."""
Part = tuple[dict[str, float | str], Callable[[], AbstractContextManager[Any]]]
"""What names a part, and what returns a context in which it gives zero."""


def translate(model: SequenceModel, sample: Sample) -> list[list[str]]:
    """Return the greedy translations, in words."""
    outputs = generate_targets(model, sample.examples, 1)
    return [sample.tokenizer.tokens(output) for output in outputs]


def compare_translations(
    sample: Sample, whole: Sequence[list[str]], other: Sequence[list[str]]
) -> dict[str, float | str]:
    """Return how many translations are exact and how many are changed, and the changed words."""
    n_exact = sum(hyp == [*p.sentence.de] for hyp, p in zip(other, sample.parses, strict=True))
    differing = [pair for pair in zip(whole, other, strict=True) if pair[0] != pair[1]]
    changes = sum((classify_changes(*pair) for pair in differing), Counter[str]())
    counts = {key: changes[key] for key in CHANGES}
    return {"n": len(whole), "exact": n_exact, "changed": len(differing), **counts}


def mute_each(reader: Reader, parts: Iterable[Part]) -> Rows:
    """Return a row of `compare_translations` for each muted part; the first is the whole model.

    Nothing is trained again.
    """
    some, rows = reader.take(N_TRANSLATED), list[dict[str, float | str]]()
    whole = translate(reader.model, some)
    for about, mute in parts:
        with mute():
            found = translate(reader.model, some)
        rows.append({**about, **compare_translations(some, whole, found)})
    return [{"part": "none", **compare_translations(some, whole, whole)}, *rows] if rows else []


def muted(W_o: nn.Linear, head: int, n_heads: int) -> AbstractContextManager[None]:
    """Let a head, counted from 1, give zero in the context, as if its columns of W_o were zero."""
    mask = torch.ones(1, n_heads, device=W_o.weight.device)
    mask[0, head - 1] = 0
    return mute_heads([W_o], mask)


def mute_each_head(reader: Reader) -> Rows:
    """Return what `mute_each` returns of the heads of a Transformer or GPT."""
    n = getattr(reader.model.config, "n_heads", 0)
    heads = heads_of(reader.model)
    return mute_each(
        reader, [(a.name_head(i), partial(muted, a.module.W_o, i, n)) for a, i in heads]
    )


def list_sublayers(model: Any) -> list[tuple[dict[str, float | str], nn.Module]]:
    """Return the sublayers of a Transformer, GPT or linear attention: the modules that write."""
    names = {"attention": "self_attention", "source": "src_attention", "feed-forward": "ff"}
    stacks = ["encoder"] * isinstance(model, Transformer) + ["decoder"]
    if not (is_one_text(model) or isinstance(model, Transformer)):
        return []
    return [
        ({"stack": stack, "layer": i, "sublayer": name}, getattr(part, "W_o", part))
        for stack in stacks
        for i, layer in enumerate(getattr(model, stack), 1)
        for name, attribute in names.items()
        if (part := getattr(layer, attribute, None)) is not None
    ]


def give_zero(module: nn.Module, args: Any, out: torch.Tensor) -> torch.Tensor:
    """Return zeros in place of a module's output, as its hook."""
    return torch.zeros_like(out)


def mute_each_sublayer(reader: Reader) -> Rows:
    """Return what `mute_each` returns of the sublayers."""
    return mute_each(reader, [
        (about, partial(module.register_forward_hook, give_zero))
        for about, module in list_sublayers(reader.model)
    ])  # fmt: skip


@torch.inference_mode()
def read_early(reader: Reader) -> Rows:
    """Return how often (%) each layer has the word that is written as the best: the logit lens.

    The decoder's vectors at the words of true translations are read by its last norm and output.
    """
    model, found = reader.model, []
    if not heads_of(model):
        return []
    norm = getattr(model, "norm_tgt", None) or model.norm
    for _, batch in batches_of(model, reader.take(N_TRANSLATED).examples):
        layers = [x[:, -batch.tgt_in.shape[1] :] for x in stack_layers(model, model.decoder, batch)]
        best = torch.stack([(norm(x) @ model.embedding.weight.T).argmax(-1) for x in layers])
        found.append((best == best[-1])[:, batch.tgt_in != PAD].double())
    same = torch.cat(found, 1)
    shares = (100 * same.mean(1)).tolist()
    return [{"layer": i, "n": same.shape[1], "share": x} for i, x in enumerate(shares)]


MEASURES: dict[str, Callable[[Reader], Rows]] = {
    "muting": mute_each_head,
    "stream": mute_each_sublayer,
    "early": read_early,
}
