"""List the attentions of a Transformer, and name their heads."""

from __future__ import annotations

from typing import Any, NamedTuple

from seqmodels.interface import SequenceModel
from seqmodels.models.transformer import Transformer


class Attention(NamedTuple):
    """One module with several heads."""

    kind: str
    """encoder or decoder, where it attends to its own text; source."""
    layer: int
    """From 1."""
    module: Any


def list_attentions(model: SequenceModel) -> list[Attention]:
    """Return the attentions of a Transformer; of another model, none."""
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
