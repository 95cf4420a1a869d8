"""Arms of a comparison: a model, and what is changed in it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from seqmodels.comparison.sizes import model_sizes
from seqmodels.comparison.task import Task
from seqmodels.models import MODELS, Paper, arm_paper, lineage, paper_of, register
from seqmodels.training.config import TrainConfig

WIDTH = "width"
"""The field that multiplies the d_model that fits a task's number of parameters."""
FIXED = ("seed", "shards")
"""Fields of TrainConfig that belong to all arms of a command."""


class Arm(NamedTuple):
    """A model to train, with what is changed in it."""

    name: str
    """The model's own name, or one that says what is changed; records are named by it."""
    papers: Mapping[str, Paper]
    """Its own paper and those that it varies, the model's first: a spawned process has only the
    built-in ones."""
    sizes: Mapping[str, Any] = {}
    """Changed fields of its Config."""
    width: int = 1
    training: Mapping[str, Any] = {}
    """Changed fields of TrainConfig."""

    @property
    def is_changed(self) -> bool:
        """Return whether anything was changed by the command line."""
        return bool(self.sizes or self.training or self.width != 1)

    def register(self) -> None:
        """Make its name known to this process."""
        for name, paper in self.papers.items():
            register(name, paper)

    def recorded(self) -> dict[str, Any] | None:
        """Return what its records hold of it; None for a model as it is."""
        if not self.is_changed:
            return None
        paper = self.papers[self.name]
        return {
            "varies": paper.variant_of,
            "label": paper.label,
            "sizes": dict(self.sizes),
            "width": self.width,
            "training": dict(self.training),
        }


def fields_of(model: str) -> dict[str, Any]:
    """Return the types of all that can be changed in a model, by name."""
    config, training = MODELS[model].config_type, get_type_hints(TrainConfig)
    own = {name: hint for name, hint in get_type_hints(config).items() if name != "vocab_size"}
    return {WIDTH: int, **{k: v for k, v in training.items() if k not in FIXED}, **own}


def parse_value(model: str, field: str, text: str) -> Any:
    """Return a value of a model's field; raise ValueError for an unknown field or a wrong value."""
    known = fields_of(model)
    if field not in known:
        raise ValueError(f"{model} has no field {field!r}; choose from {', '.join(known)}")
    if text == "None" and type(None) in get_args(known[field]):
        return None
    try:
        value = TypeAdapter(known[field]).validate_strings(text)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]["msg"]
        raise ValueError(f"{field}={text}: {problem}") from None
    is_size = field == WIDTH or known[field] in (int, int | None)
    if (isinstance(value, float) and not math.isfinite(value)) or (is_size and value < 1):
        raise ValueError(f"{field}={text}: give a {'positive' if is_size else 'finite'} number")
    return value


Vary = Iterable[tuple[str, Sequence[str]]]
"""Fields, and the values that each is given, as they are written on the command line."""


def check_vary(models: Iterable[str], vary: Vary) -> None:
    """Raise ValueError for a field that a model lacks, or a value that the field cannot have."""
    for model in models:
        for field, texts in vary:
            for text in texts:
                parse_value(model, field, text)


def make_arms(models: Sequence[str], vary: Vary, task: Task, lr: float | None = None) -> list[Arm]:
    """Return each model as it is, and an arm for each value of each field that is not its own.

    Raises ValueError for an unknown field, or a value that the field cannot have.
    """
    arms = []
    for model in models:
        base = unchanged(model)
        arms.append(base)
        for field, texts in vary:
            own = lr if lr and field == "lr" else own_value(model, field, task)
            values = {parse_value(model, field, text): None for text in texts}
            arms += [changed(base, field, value) for value in values if value != own]
    return arms


def unchanged(model: str) -> Arm:
    """Return a model or a variant as it is."""
    return Arm(model, {name: paper_of(name) for name in reversed(lineage(model))})


def own_value(model: str, field: str, task: Task) -> Any:
    """Return a field's value in a model as the task trains it."""
    if field == WIDTH:
        return paper_of(model).width
    config = MODELS[model].config_type
    if field in {f.name for f in fields(config)}:
        return model_sizes(model, task).get(field, getattr(config, field, None))
    own = {"lr": task.recipe(model).lr, **task.training}
    return own.get(field, getattr(TrainConfig, field, None))


def changed(base: Arm, field: str, value: Any) -> Arm:
    """Return a model with one field changed; its name can be part of a file's."""
    name = f"{base.name}-{field}-{value}"
    if not re.fullmatch(r"\w[\w. -]{0,63}", name):
        raise ValueError(f"{field}={value} cannot be part of a file's name")
    is_width, is_size = field == WIDTH, field in get_type_hints(MODELS[base.name].config_type)
    label = f"{value} × width" if is_width else f"{field} {value}"
    sizes, width = {field: value} if is_size else {}, value if is_width else 1
    paper = arm_paper(base.name, label, sizes, width)
    training = {} if is_size or is_width else {field: value}
    return Arm(name, {**base.papers, name: paper}, sizes, width, training)
