"""Trace a model on one sentence: what each tagged line of its chapter computes."""

from __future__ import annotations

import ast
import inspect
import sys
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seqmodels.interface import BOS, SequenceModel
from seqmodels.site.source import Chapter

N_VALUES = 4
"""Values of a tensor that are shown, its first ones."""


class Value(NamedTuple):
    """A tensor that a line computes."""

    name: str
    """As the line names it; empty if the line returns it."""
    shape: tuple[int, ...]
    first: list[float]


def trace_lines(
    chapter: Chapter, model: SequenceModel, src: Tensor, tgt_in: Tensor
) -> dict[int, list[Value]]:
    """Return what the tagged lines compute when they first run, by the number of the line.

    All target tokens are computed first, then attention weights, then one step; attention by its
    equation, not by the fused kernel. Lines that do not run, or name no tensor, are left out.
    """
    tagged = {line.number: line.text for unit in chapter.units for line in unit.lines if line.tag}
    path = inspect.getfile(type(model))
    values: dict[int, list[Value]] = {}

    def trace(frame: FrameType, *_: Any) -> Any:
        if frame.f_code.co_filename != path:
            return None
        running = 0

        def trace_frame(frame: FrameType, event: str, result: Any) -> Any:
            nonlocal running
            if running in tagged and running not in values and event in ("line", "return"):
                values[running] = find_tensors(tagged[running], frame.f_locals, result)
            running = frame.f_lineno
            return trace_frame

        return trace_frame

    for module in model.modules():
        if hasattr(module, "is_fused"):
            module.is_fused = False  # type: ignore[assignment]
    src_mask = torch.ones_like(src).bool()
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with torch.inference_mode():
            model(src, src_mask, tgt_in)
            if model.src_attentions:
                model.attention_weights(src, src_mask, tgt_in)
            model.step(torch.full((len(src),), BOS), model.encode(src, src_mask))
    finally:
        sys.settrace(before)
    return {number: its for number, its in values.items() if its}


def find_tensors(line: str, variables: dict[str, Any], result: Any) -> list[Value]:
    """Return the tensors that a line assigns to names or returns, in its order."""
    statement = ast.parse(line.strip()).body[0]
    named: list[tuple[str, Any]] = []
    if isinstance(statement, ast.Assign):
        names = [n.id for n in ast.walk(statement.targets[0]) if isinstance(n, ast.Name)]
        named = [(name, variables[name]) for name in names if name in variables]
    elif isinstance(statement, ast.Return):
        parts = result if isinstance(result, tuple) else (result,)
        named = [*zip(getattr(result, "_fields", [""] * len(parts)), parts, strict=True)]
    return [
        Value(name, tuple(value.shape), value.flatten()[:N_VALUES].tolist())
        for name, value in named
        if isinstance(value, Tensor)
    ]
