"""Trace a model's `encode` and `step` as ONNX graphs, for one source of any length.

    encode   src (1,S) -> state
    step     y (1,), state -> logits (1,V), the new state, attention (L,H,M)
    attend   src (1,S), tgt_in (1,T) -> attention (L,H,T,S)

The state is a list of tensors; a cache is its mask and the keys and values of each layer. Sizes are
named S (source), N (target so far) and P (both); the target's are 0 at first. The first S of the M
weights of each layer and head are those over the source. Only a model that attends to the source,
but in another way while it writes, has `attend`.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import onnx
import torch
from torch import Tensor, nn
from torch.export import Dim

from seqmodels.interface import BOS, SequenceModel
from seqmodels.models.ops.kv_cache import KVCache
from seqmodels.site.loops import UNCHECKED, swapped
from seqmodels.utils.watch import watched

OPSET = 18
LONGEST = 4096
"""Tokens that a graph takes, unless the model has fewer positions."""


class Part(NamedTuple):
    """A tensor of the state."""

    name: str
    dtype: torch.dtype
    shape: tuple[int | str, ...]
    """With S, N or P where it is not fixed."""


class Graphs(NamedTuple):
    """The graphs of a model."""

    protos: dict[str, onnx.ModelProto]
    """By name: encode, step and, for some, attend."""
    state: list[Part]
    attention: str | None
    """The graph that returns the attention; None: the model has none."""


def flat(state: Any) -> dict[str, Tensor]:
    """Return the tensors of a State by name."""
    found = {}
    for name, field in zip(state._fields, state, strict=True):
        if isinstance(field, Tensor):
            found[name] = field
            continue
        found[f"{name}.mask"] = field.visible
        for i, (k, v) in enumerate(field.layers):
            found |= {f"{name}.k{i}": k, f"{name}.v{i}": v}
    return found


def restored(like: Any, tensors: dict[str, Tensor]) -> Any:
    """Return a State like another one that holds these tensors."""
    fields: list[Tensor | KVCache] = []
    for name, field in zip(like._fields, like, strict=True):
        if isinstance(field, Tensor):
            fields.append(tensors[name])
        else:
            layers = range(len(field.layers))
            pairs = [(tensors[f"{name}.k{i}"], tensors[f"{name}.v{i}"]) for i in layers]
            fields.append(KVCache(tensors[f"{name}.mask"], 1, pairs))
    return type(like)(*fields)


def attentions(model: SequenceModel) -> list[Any]:
    """Return the modules whose weights are over the words of the source, not over sums of them."""
    is_plain = type(model).attention_weights is SequenceModel.attention_weights
    return model.src_attentions if is_plain else []


class Encode(nn.Module):
    """A model's `encode`, with the state as a list; what only `step` adds is empty."""

    def __init__(self, model: SequenceModel, state: Sequence[Part]):
        super().__init__()
        self.model, self.state = model, state

    def forward(self, src: Tensor) -> tuple[Tensor, ...]:
        """Return the state."""
        found = flat(self.model.encode(src, torch.ones_like(src, dtype=torch.bool)))
        for part in self.state:
            if part.name not in found:
                size = [0 if n == "N" else n for n in part.shape]
                found[part.name] = torch.zeros(size, dtype=part.dtype)  # type: ignore[arg-type]
        return tuple(found[part.name] for part in self.state)


class Step(nn.Module):
    """A model's `step`, with the state as a list, and how it attends to the source."""

    def __init__(self, model: SequenceModel, like: Any):
        super().__init__()
        self.model, self.like, self.names = model, like, [*flat(like)]

    def forward(self, y: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """Return the logits, the new state and, if it attends, the weights."""
        before = restored(self.like, dict(zip(self.names, state, strict=True)))
        with watched(attentions(self.model)) as found:
            logits, after = self.model.step(y, before)
        weights = [alpha[0].flatten(0, -2) for alphas in found for alpha in alphas]
        return (logits, *flat(after).values(), *([torch.stack(weights)] if weights else []))


class Attend(nn.Module):
    """A model's attention to the source in a forward pass."""

    def __init__(self, model: SequenceModel):
        super().__init__()
        self.model = model

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """Return the weights."""
        return self.model.attention_weights(src, torch.ones_like(src, dtype=torch.bool), tgt_in)[0]


def run(model: SequenceModel, n_source: int, n_target: int) -> Any:
    """Return the State after so many tokens, all the same."""
    src = torch.full((1, n_source), BOS)
    state = model.encode(src, torch.ones_like(src, dtype=torch.bool))
    for _ in range(n_target):
        _, state = model.step(src[0, :1], state)
    return state


def parts_of(model: SequenceModel) -> list[Part]:
    """Return the tensors of a model's state, with the sizes that depend on source or target."""
    states = [flat(run(model, *sizes)) for sizes in ((5, 3), (6, 3), (5, 4))]
    parts = []
    for name, tensor in states[0].items():
        shapes = zip(*(state[name].shape for state in states), strict=True)
        sizes = {(False, False): None, (True, False): "S", (False, True): "N", (True, True): "P"}
        named = [sizes[n != longer, n != later] or n for n, longer, later in shapes]
        parts.append(Part(name, tensor.dtype, tuple(named)))
    return parts


def trace(model: SequenceModel) -> Graphs:
    """Return the graphs of a model.

    Raises ValueError for a model that cannot be traced.
    """
    limit = getattr(model.config, "n_positions", LONGEST)
    dims = {"S": Dim("S", max=limit), "N": Dim("N", max=limit), "P": Dim("P", max=limit - 1)}
    state, like = parts_of(model), run(model, 7, 3)
    given = [tensor.detach() for tensor in flat(like).values()]
    free = tuple({i: dims[n] for i, n in enumerate(p.shape) if n in dims} for p in state)
    names = [part.name for part in state]
    after = [f"{name}'" for name in names]
    read, write = Encode(model, state), Step(model, like)
    src, y, source = torch.full((1, 7), BOS), torch.tensor([BOS]), {1: dims["S"]}
    is_seen = len(write(y, *given)) > 1 + len(after)  # the weights, while it writes
    attention = ["attention"] * is_seen
    try:
        with swapped():
            made = {"encode": to_onnx(read, (src,), (source,), ["src"], after)}
        with swapped(UNCHECKED):
            made["step"] = to_onnx(
                write, (y, *given), ({}, free), ["y", *names], ["logits", *after, *attention]
            )
            if attentions(model) and not is_seen:
                both, target = ["src", "tgt_in"], {1: Dim("T", max=limit - 1)}
                made["attend"] = to_onnx(
                    Attend(model), (src, src[:, :5]), (source, target), both, ["attention"]
                )
    except Exception as error:  # torch raises many kinds
        why = str(error.__cause__ or error).strip().split("\n")[0]
        raise ValueError(f"this model cannot be traced for ONNX: {why}") from error
    where = "step" if is_seen else "attend" if "attend" in made else None
    return Graphs(made, state, where)


def to_onnx(
    module: nn.Module, given: tuple[Tensor, ...], free: Any, names: list[str], after: list[str]
) -> onnx.ModelProto:
    """Trace a module, with gradients enabled: caches then grow by `torch.cat`."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"), torch.enable_grad():
            program = torch.onnx.export(
                module, given, dynamo=True, dynamic_shapes=free, input_names=names,
                output_names=after, opset_version=OPSET, verbose=False,
            )  # fmt: skip
    finally:
        logging.disable(logging.NOTSET)
    assert program
    return program.model_proto
