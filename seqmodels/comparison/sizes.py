"""Choose the sizes of models: of equal parameter counts, unless a recipe has a width."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from seqmodels.comparison.task import Task
from seqmodels.interface import SequenceModel
from seqmodels.models import build, paper_of


def fit_width(name: str, vocab_size: int, n_parameters: int, **sizes: Any) -> dict[str, Any]:
    """Return the sizes with the d_model whose parameter count is closest to `n_parameters`.

    Raises ValueError if none is within 5 %.
    """
    counts, refused = {}, ValueError(f"{name} has no width from 16 to 2,048")
    for step in (8, 4):  # multiples of 4 if those of 8 are too far apart
        with torch.device("meta"), SkipInit():
            for d_model in range(16, 2049, step):
                try:
                    model = build(name, vocab_size, d_model=d_model, **sizes)
                except ValueError as error:  # such as a width that its heads do not divide
                    refused = error
                    continue
                counts[d_model] = count_parameters(model)
                if counts[d_model] > n_parameters:
                    break
        if not counts:
            raise refused
        d_model = min(counts, key=lambda d: abs(counts[d] - n_parameters))
        if abs(counts[d_model] / n_parameters - 1) <= 0.05:
            return {"d_model": d_model, **sizes}
    raise ValueError(
        f"{name} has no width within 5 % of {n_parameters:,} parameters with {sizes}; "
        f"the nearest is {counts[d_model]:,}"
    )


class SkipInit(TorchFunctionMode):
    """Skip random initialization: parameters need no values to be counted.

    On the meta device, the first random draw imports 800 modules, which takes over a second.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Skip functions that fill a tensor with random numbers."""
        if getattr(func, "__name__", "") in ("normal_", "uniform_"):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def count_parameters(model: SequenceModel) -> int:
    """Return the number of parameters, counting shared ones once."""
    return sum(p.numel() for p in model.parameters())


def model_sizes(name: str, task: Task) -> dict[str, Any]:
    """Return the arguments of `build`: the recipe's, with the width that fits the task.

    A recipe that has a width keeps it; a variant in width is a multiple as wide.
    """
    vocab_size, paper = task.tokenizer.vocab_size, paper_of(name)
    sizes = {**task.recipe(name).sizes, **paper.sizes}
    if "d_model" not in sizes:
        sizes = fit_width(name, vocab_size, task.n_parameters, **sizes)
    return {"vocab_size": vocab_size, **sizes, "d_model": paper.width * sizes["d_model"]}
