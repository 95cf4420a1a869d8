"""Trace the lines of a chapter that have the tag of an equation: what each of them computes."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_stack
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lesson.source import Chapter
from seqmodels.interface import SequenceModel

N_VALUES = 4
"""Values of a tensor that are shown, its first ones."""
DECODERS = {"bahdanau": "GatedUnit.forward"}
"""Units that encoder and decoder call, whose equations are those of the decoder, by chapter."""
Named = list[tuple[str, Any]]
"""Values that a line computes, by their names in it; a returned one has an empty name."""


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

    Those of DECODERS, when the decoder first runs them. Lines that do not run, or name no tensor,
    are left out.
    """
    tagged = {line.number for unit in chapter.units for line in unit.lines if line.tag}
    values: dict[int, list[Value]] = {}
    own = DECODERS.get(chapter.name)
    decoder = {line.number for unit in chapter.units if unit.name == own for line in unit.lines}

    def observe(number: int, named: Named) -> None:
        if number in decoder and any(
            frame.f_code.co_qualname == "Encoder.forward" for frame, _ in walk_stack(None)
        ):
            return
        tensors = [(name, value) for name, value in named if isinstance(value, Tensor)]
        values.setdefault(number, [
            Value(name, tuple(value.shape), value.flatten()[:N_VALUES].tolist())
            for name, value in tensors
        ])  # fmt: skip

    with watch_lines(inspect.getfile(type(model)), tagged, observe):
        run_everything(model, src, torch.ones_like(src).bool(), tgt_in)
    return {number: its for number, its in values.items() if its}


def run_everything(
    model: SequenceModel, src: Tensor, src_mask: Tensor, tgt_in: Tensor
) -> dict[str, Tensor]:
    """Compute all target tokens, then attention weights, then one step; return them by name."""
    results = {}
    with torch.no_grad():
        results["forward"] = model(src, src_mask, tgt_in)
        if model.cross_attentions:
            results["attention_weights"] = model.attention_weights(src, src_mask, tgt_in)
        results["step"], _ = model.step(tgt_in[:, 0], model.encode(src, src_mask))
    return results


@contextmanager
def watch_lines(
    path: str, numbers: Collection[int], observe: Callable[[int, Named], None]
) -> Iterator[None]:
    """Call `observe` inside the context with what each of these lines of a file has computed."""
    statements = {
        node.lineno: node
        for node in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8")))
        if isinstance(node, ast.stmt) and node.lineno in numbers
    }

    def trace(frame: FrameType, *_: Any) -> Any:
        if frame.f_code.co_filename != path:
            return None
        running = 0

        def trace_frame(frame: FrameType, event: str, result: Any) -> Any:
            nonlocal running
            if running in statements and event in ("line", "return"):
                observe(running, read_values(statements[running], frame.f_locals, result))
            running = 0 if event == "exception" else frame.f_lineno
            return trace_frame

        return trace_frame

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def read_values(statement: ast.stmt, variables: dict[str, Any], result: Any) -> Named:
    """Return what a statement returns, assigns or changes."""
    if isinstance(statement, ast.Return):
        parts = result if isinstance(result, tuple) else (result,)
        return [*zip(getattr(result, "_fields", [""] * len(parts)), parts, strict=True)]
    if isinstance(statement, ast.Assign):
        target = statement.targets[0]
        nodes = target.elts if isinstance(target, ast.Tuple) else [target]
        return [(ast.unparse(node), eval_target(node, variables)) for node in nodes]
    names = [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)]
    return [(name, variables[name]) for name in names if isinstance(variables.get(name), Tensor)]


def eval_target(node: ast.expr, variables: dict[str, Any]) -> Any:
    """Return the value of NAME or NAME.ATTRIBUTE."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return getattr(variables.get(node.value.id), node.attr, None)
    return variables.get(node.id) if isinstance(node, ast.Name) else None
