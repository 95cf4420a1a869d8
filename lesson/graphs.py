"""Trace a model's `encode` and `step` as ONNX graphs, for one source of any length.

    encode   src (1,S) -> state
    step     y (1,), state -> logits (1,V), the new state, attention (L,H,M)
    attend   src (1,S), tgt_in (1,T) -> the weights of each attention of several heads (H,Q,M)

Where attention has several heads, graphs also take `head_mask` (A,H), a row for each attention: 1,
or 0 for a head that is muted, whose output is then zero.

The state is a list of tensors; a cache is its mask and the keys and values of each layer. Sizes are
named S (source), N (target so far) and P (both); the target's are 0 at first. The first S of the M
weights of each layer and head are those over the source. `attend` returns all weights at once, also
those of a text over itself, of models with several heads.

`torch.onnx.export` alone fixes S at the traced length where a chapter loops over the source, and
fails where a length is read from data. So `scan` over the same unit replaces such a loop, and
functions without these checks replace theirs.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple
from unittest.mock import patch

import onnx
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan
from torch.export import Dim

from seqmodels.interface import BOS, SequenceModel, mute_heads, watch_attention
from seqmodels.models import (
    bahdanau,
    gated_deltanet,
    linear_attention,
    lstm_seq2seq,
    mamba2,
    rnn_encdec,
)
from seqmodels.models.cache import Buffer, KVCache
from seqmodels.models.memory import TextModel

OPSET = 18
MAX_TOKENS = 4096
"""Tokens that a graph takes, unless the model has fewer positions."""


class Part(NamedTuple):
    """A tensor of the state."""

    name: str
    dtype: torch.dtype
    shape: tuple[int | str, ...]
    """Sizes; S, N or P for those that vary."""


class Graphs(NamedTuple):
    """The graphs of a model."""

    protos: dict[str, onnx.ModelProto]
    """By name: encode, step and, with several heads, attend."""
    state: list[Part]
    attention: str | None
    """The graph that returns the attention weights; None if the model has none."""
    masked: Sequence[str]
    """The attentions of several heads, which can be muted, by the paths of their modules."""


class TracedFunction(nn.Module):
    """A function of tensors that calls a model, as a module that can be traced."""

    def __init__(self, model: SequenceModel, function: Callable[..., Any]):
        super().__init__()
        self.model, self.function = model, function

    def forward(self, *tensors: Tensor) -> Any:
        """Call the function."""
        return self.function(*tensors)


class Functions:
    """The functions of a model that become graphs: all that they take and return are tensors."""

    def __init__(self, model: SequenceModel):
        self.model = model
        n = min(11, model.max_target(1)) // 2  # tokens of a side: a model may have few positions
        states = [state_after(model, n + 1 + s, n + t) for s, t in ((0, 0), (1, 0), (0, 1))]
        self.n_source, self.state, self.like = n + 1, describe_state(states), states[0]
        self.names = [part.name for part in self.state]
        self.attending, self.masked = source_attentions(model), multi_head_attentions(model)
        self.outputs = [model.get_submodule(f"{path}.W_o") for path in self.masked]

    def encode(self, src: Tensor, *masks: Tensor) -> tuple[Tensor, ...]:
        """Return the state; tensors that only `step` creates are empty."""
        with mute_heads(self.outputs, *masks):
            state = self.model.encode(src, torch.ones_like(src, dtype=torch.bool))
        tensors = flatten_state(state)
        for name, dtype, shape in self.state:
            if name not in tensors:
                size = [n if isinstance(n, int) else 0 for n in shape]
                tensors[name] = torch.zeros(size, dtype=dtype)
        return tuple(tensors[name] for name in self.names)

    def step(self, y: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the logits, the new state and, if the model attends, the weights."""
        tensors, masks = tensors[: len(self.names)], tensors[len(self.names) :]
        before = unflatten_state(self.like, dict(zip(self.names, tensors, strict=True)))
        attending = [] if isinstance(self.model, TextModel) else self.attending  # a step reads sums
        with watch_attention(attending) as alphas, mute_heads(self.outputs, *masks):
            logits, state = self.model.step(y, before)
        rows = [alpha[0].flatten(0, -2) for calls in alphas for alpha in calls]
        weights = [torch.stack(rows)] if rows else []
        return logits, *flatten_state(state).values(), *weights

    def attend(self, src: Tensor, tgt_in: Tensor, *masks: Tensor) -> tuple[Tensor, ...]:
        """Return all weights of a forward pass."""
        with mute_heads(self.outputs, *masks):
            return weights_of(self.model, self.masked, src, tgt_in)


def trace(model: SequenceModel) -> Graphs:
    """Return the graphs of a model. Raises ValueError for a model that cannot be traced."""
    functions = Functions(model)
    state, names, masked = functions.state, functions.names, functions.masked
    given = [tensor.detach() for tensor in flatten_state(functions.like).values()]
    masks = [torch.ones(len(masked), model.config.n_heads)] if masked else []
    head_mask, fixed = ["head_mask"] * len(masks), [dict[int, Any]() for _ in masks]
    src, y = torch.full((1, functions.n_source), BOS), torch.tensor([BOS])
    limit = getattr(model.config, "n_positions", MAX_TOKENS)
    dims = {n: Dim(n, max=limit - (n in "PT")) for n in "SNPT"}
    sizes = [{i: dims[str(n)] for i, n in enumerate(part.shape) if n in dims} for part in state]
    shows_attention = len(functions.step(y, *given, *masks)) > 1 + len(state)
    after = [f"{name}'" for name in names]
    results = ["logits", *after, *["attention"] * shows_attention]
    plans: dict[str, tuple[Any, ...]] = {  # function, example, free sizes, inputs and outputs
        "encode": (functions.encode, (src, *masks), [{1: dims["S"]}, *fixed],
                   ["src", *head_mask], after),
        "step": (functions.step, (y, *given, *masks), [{}, *sizes, *fixed],
                 ["y", *names, *head_mask], results),
    }  # fmt: skip
    if masked:
        plans["attend"] = (
            functions.attend, (src, src[:, 1:], *masks), [{1: dims["S"]}, {1: dims["T"]}, *fixed],
            ["src", "tgt_in", *head_mask], [f"w{i}" for i in range(len(masked))],
        )  # fmt: skip
    try:
        protos = {}
        for name, (function, *plan) in plans.items():
            with ExitStack() as patches:
                for replaced in [*SCANS, *UNCHECKED] if name == "encode" else UNCHECKED:
                    patches.enter_context(patch.object(*replaced))
                protos[name] = to_onnx(TracedFunction(model, function), *plan)
    except Exception as error:  # torch raises many kinds
        reason = str(error.__cause__ or error).strip().split("\n")[0]
        raise ValueError(f"this model cannot be traced for ONNX: {reason}") from error
    attention = "step" if shows_attention else "attend"
    return Graphs(protos, state, attention if functions.attending else None, masked)


def to_onnx(
    module: TracedFunction,
    given: tuple[Tensor, ...],
    free: Sequence[Any],
    names: list[str],
    out: list[str],
    optimize: bool = True,
) -> onnx.ModelProto:
    """Trace a module, with gradients enabled: caches then grow by `torch.cat`."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"), torch.enable_grad():
            program = torch.onnx.export(
                module, given, dynamo=True, dynamic_shapes=(tuple(free),), input_names=names,
                output_names=out, opset_version=OPSET, verbose=False, optimize=optimize,
            )  # fmt: skip
    finally:
        logging.disable(logging.NOTSET)
    assert program
    for graph in program.model.graphs():  # metadata names the places on this machine
        for part in (*graph, *graph.inputs, *graph.initializers.values(), *graph.outputs):
            part.metadata_props.clear()
        for value in (value for node in graph for value in node.outputs):
            value.metadata_props.clear()
    proto = program.model_proto
    del proto.graph.value_info[:]
    return proto


# ------------------------------------------------------------------------------------- The state


def flatten_state(state: Any) -> dict[str, Tensor]:
    """Return the tensors of a State by name."""
    tensors = {}
    for name, field in zip(state._fields, state, strict=True):
        if isinstance(field, Tensor):
            tensors[name] = field
            continue
        tensors[f"{name}.mask"] = field.visible
        for i, (k, v) in enumerate(field.buffer.layers):
            tensors |= {f"{name}.k{i}": k, f"{name}.v{i}": v}
    return tensors


def unflatten_state(like: Any, tensors: dict[str, Tensor]) -> Any:
    """Return a State of the same structure as `like`, with these tensors."""
    fields: list[Tensor | KVCache] = []
    for name, field in zip(like._fields, like, strict=True):
        if isinstance(field, Tensor):
            fields.append(tensors[name])
        else:
            layers, mask = range(len(field.buffer.layers)), tensors[f"{name}.mask"]
            pairs = [(tensors[f"{name}.k{i}"], tensors[f"{name}.v{i}"]) for i in layers]
            fields.append(KVCache(mask, 1, Buffer(pairs, mask.shape[1])))
    return type(like)(*fields)


def state_after(model: SequenceModel, n_source: int, n_target: int) -> Any:
    """Return the State after this many source and target tokens."""
    src = torch.full((1, n_source), BOS)
    state = model.encode(src, torch.ones_like(src, dtype=torch.bool))
    for _ in range(n_target):
        _, state = model.step(src[0, :1], state)
    return state


def describe_state(states: Sequence[Any]) -> list[Part]:
    """Return the tensors of a State, with a symbol for each size that varies.

    It is compared with that after one more token of the source, and of the target.
    """
    named = [*map(flatten_state, states)]
    symbols = {(True, False): "S", (False, True): "N", (True, True): "P"}
    parts = []
    for name, tensor in named[0].items():
        sizes = zip(*(each[name].shape for each in named), strict=True)
        shape = [symbols.get((n != longer, n != later), n) for n, longer, later in sizes]
        parts.append(Part(name, tensor.dtype, tuple(shape)))
    return parts


def source_attentions(model: SequenceModel) -> list[Any]:
    """Return the modules that attend to single source words, not to sums of them."""
    return [] if hasattr(model, "pooling") else model.cross_attentions


# ------------------------------------------------------------------------------------- The heads


def multi_head_attentions(model: SequenceModel) -> list[str]:
    """Return the paths of the modules that attend with several heads, which W_o merges."""
    if getattr(model.config, "n_heads", 1) == 1 or not model.cross_attentions:
        return []
    return [path for path, module in model.named_modules() if hasattr(module, "W_o")]


def weights_of(
    model: SequenceModel, paths: Sequence[str], src: Tensor, tgt_in: Tensor
) -> tuple[Tensor, ...]:
    """Return the weights (H,Q,M) of these attentions in a forward pass of one pair."""
    with watch_attention([model.get_submodule(path) for path in paths]) as calls:
        model(src, torch.ones_like(src, dtype=torch.bool), tgt_in)
    return tuple(torch.cat(alphas, -2)[0] for alphas in calls)


# ------------------------------------------------------------------------------------- The loops


def scan_states(
    step: Callable[..., Tensor], first: Float[Tensor, "B D"], xs: Any, is_backward: bool = False
) -> Float[Tensor, "B N D"]:
    """Return all states of the recurrence h = step(h, x) over `xs`, tensors (N,B,…)."""

    def body(h: Tensor, x: Any) -> tuple[Tensor, Tensor]:
        h = step(h, x)
        return h, h.clone()

    return scan(body, first, xs, reverse=is_backward)[1].transpose(0, 1)


def scan_left_to_right(self: Any, e: Float[Tensor, "B S E"], src_mask: Tensor) -> Tensor:
    """Read a source as `rnn_encdec.Encoder` does."""
    h = e.new_zeros(len(e), self.d_model)
    states = scan_states(lambda h, x: self.unit(x, h), h, self.W(e).transpose(0, 1))
    return states[torch.arange(len(e)), src_mask.sum(1) - 1]


def scan_both_ways(self: Any, e: Float[Tensor, "B S E"], src_mask: Tensor) -> Tensor:
    """Read a source as `bahdanau.Encoder` does."""
    h = e.new_zeros(len(e), self.d_model)
    real = src_mask.unsqueeze(-1).to(e.dtype).transpose(0, 1)
    forward = scan_states(lambda h, x: self.unit(x, h), h, self.W(e).transpose(0, 1))
    xs = self.W_back(e).transpose(0, 1), real
    backward = scan_states(lambda h, x: x[1] * self.unit_back(x[0], h), h, xs, is_backward=True)
    return torch.cat([forward, backward], -1)


def scan_layer(self: Any, e: Tensor, h: Tensor, c: Tensor, n: Tensor) -> tuple[Tensor, ...]:
    """Run over a sequence as `lstm_seq2seq.LSTMLayer` does; a scan carries h and c as one."""
    width = h.shape[-1]

    def step(hc: Tensor, x: Tensor) -> Tensor:
        return torch.cat(self.unit(x, hc[:, :width], hc[:, width:]), -1)

    states = scan_states(step, torch.cat([h, c], -1), self.W(e).transpose(0, 1))
    return states[..., :width], *states[torch.arange(len(e)), n - 1].split(width, -1)


def read_at_once(q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """Read a text as `linear_attention.read_chunks` does, as one chunk."""
    sums = (q @ k.mT).tril() @ v + q @ s
    return linear_attention.divide(sums), s + k.mT @ v


def scan_memory(
    q: Tensor, k: Tensor, v: Tensor, gates: Tensor, s: Tensor, is_delta: bool
) -> tuple[Tensor, Tensor]:
    """Read a text as `gated_deltanet.read_chunks` does, token by token."""

    def body(s: Tensor, token: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        q, k, v, log_a, beta = (t.unsqueeze(2) for t in token)
        s = log_a.exp() * s
        s = s + k.mT @ (beta * (v - k @ s if is_delta else v))
        return s, (q @ s).squeeze(2)

    s, heads = scan(body, s, tuple(t.movedim(2, 0) for t in (q, k, v, *gates)))
    return heads.movedim(0, 2), s


def scan_without_delta(
    q: Tensor, k: Tensor, v: Tensor, log_a: Tensor, s: Tensor
) -> tuple[Tensor, Tensor]:
    """Read a text as `mamba2.read_chunks` does, token by token."""
    return scan_memory(q, k, v, torch.stack([log_a, torch.ones_like(log_a)]), s, is_delta=False)


def join_real(src: Tensor, src_mask: Tensor, tgt_in: Tensor) -> tuple[Tensor, Tensor]:
    """Return source and target as one text without pads, and that all of its tokens are real."""
    text = torch.cat([src, tgt_in], 1)
    return text, torch.ones_like(text, dtype=torch.bool)


UNCHECKED: list[tuple[Any, str, Any]] = [
    *((module, "join", join_real) for module in (linear_attention, gated_deltanet, mamba2)),
    (linear_attention, "check_positions", lambda *_: None),
    (linear_attention, "read_chunks", read_at_once),
    (gated_deltanet, "read_chunks", scan_memory),
    (mamba2, "read_chunks", scan_without_delta),
]
"""Functions that read a text in chunks, or look at its length, with their replacements."""
SCANS: list[tuple[Any, str, Any]] = [
    (rnn_encdec.Encoder, "forward", scan_left_to_right),
    (bahdanau.Encoder, "forward", scan_both_ways),
    (lstm_seq2seq.LSTMLayer, "forward", scan_layer),
]
"""Methods that loop over a source, with their replacements while `encode` is traced."""
