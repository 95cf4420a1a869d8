"""Specs: a model, the fields that are changed in it, and its sizes.

Models have equal parameter counts, unless a recipe or a spec has a width.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from typing import Any, NamedTuple, get_args

import torch

from seqmodels.experiments.task import Recipe, Task
from seqmodels.interface import Config, SequenceModel
from seqmodels.models import MODELS, Fields, ModelInfo, Value, ancestors, derive, paper_of
from seqmodels.training.checkpoint import SkipInit
from seqmodels.training.config import TrainConfig
from seqmodels.utils.imports import import_class
from seqmodels.utils.terminal import did_you_mean
from seqmodels.utils.values import Size, field_types, parse_field

WIDTH = "width"
"""The field that multiplies the d_model that fits a task's number of parameters."""
FIXED = ("seed", "optimizer")
"""Fields of TrainConfig that all specs of a command share."""
Vary = Iterable[tuple[str, Sequence[Value]]]
"""Fields, and the values that each is given: as text, or of the field's type."""


class Spec(NamedTuple):
    """A model to train, with its changed fields."""

    name: str
    """The model's own name, or one that says what is changed; records are named by it."""
    lineage: Mapping[str, ModelInfo]
    """The model and those that it varies, itself first: no process needs to have them listed."""
    sizes: Mapping[str, Value] = {}
    """Changed fields of its Config."""
    width: int = 1
    training: Mapping[str, Value] = {}
    """Changed fields of TrainConfig."""

    @property
    def info(self) -> ModelInfo:
        """Return what is known about the model without building it."""
        return self.lineage[self.name]

    @property
    def model_type(self) -> type[SequenceModel]:
        """Return the model's class."""
        return import_class(self.info.class_path)

    @property
    def is_changed(self) -> bool:
        """Return whether anything was changed by the command line."""
        return bool(self.sizes or self.training or self.width != 1)

    def build(self, sizes: Fields) -> SequenceModel:
        """Build the model; sizes left out are the paper's."""
        return self.model_type(self.model_type.config_type(**{**self.info.sizes, **sizes}))

    def recipe(self, task: Task) -> Recipe:
        """Return the task's recipe for the model, which changes do not change."""
        return task.recipe(self.info.variant_of if self.is_changed else self.name)

    def train_config(self, task: Task, lr: float | None, seed: int) -> TrainConfig:
        """Return how it is trained: as the task says, at this learning rate or its recipe's.

        Raises ValueError for a changed rate of Muon where the task does not use it.
        """
        recipe = self.recipe(task)
        given: dict[str, Any] = {"lr": lr or recipe.lr, "muon_lr": recipe.muon_lr}
        cfg = TrainConfig(**{**given, **task.training, **self.training, "seed": seed})
        if "muon_lr" in self.training and cfg.optimizer != "muon":
            raise ValueError("muon_lr changes nothing: this task is trained with AdamW alone")
        if cfg.source_loss and self.model_type.text_logits is SequenceModel.text_logits:
            raise ValueError("source_loss needs a model that continues its source, such as gpt")
        return cfg

    def recorded(self) -> dict[str, object]:
        """Return the description of the spec in its records."""
        return {
            "varies": self.info.variant_of,
            "label": self.info.label,
            "sizes": dict(self.sizes),
            "width": self.width,
            "training": dict(self.training),
        }


def make_spec(model: str) -> Spec:
    """Return the spec of an unchanged model or variant."""
    return Spec(model, {name: paper_of(name) for name in ancestors(model)})


def change_spec(base: Spec, changed: Fields) -> Spec:
    """Return the spec with these fields changed; its name can be part of a file's name."""
    name = "-".join([base.name, *(f"{field}-{value}" for field, value in changed.items())])
    if not re.fullmatch(r"\w[\w. -]{0,63}", name):
        given = ", ".join(f"{field}={value}" for field, value in changed.items())
        raise ValueError(f"{given} cannot be part of a file's name")
    config = field_types(base.model_type.config_type)
    sizes = {field: value for field, value in changed.items() if field in config}
    width = changed.get(WIDTH, 1)
    assert isinstance(width, int)
    label = ", ".join(
        f"{value} × width" if field == WIDTH else f"{field} {value}"
        for field, value in changed.items()
    )
    return Spec(
        name,
        {name: derive({"variant_of": base.name}, label, {**sizes, WIDTH: width}), **base.lineage},
        sizes,
        width,
        {field: v for field, v in changed.items() if field not in (*config, WIDTH)},
    )


def task_specs(models: Iterable[str], task: Task) -> list[Spec]:
    """Return each model as it is, followed by one for each of the task's changes of it."""
    specs = []
    for base in map(make_spec, models):
        specs += [base, *(change_spec(base, changed) for changed in task.vary.get(base.name, ()))]
    return specs


def expand_specs(models: Iterable[str], vary: Vary, is_grid: bool = False) -> list[Spec]:
    """Return each model as it is, followed by a spec for each value of each field.

    In a grid, there is a spec for each combination of values instead.

    Raises ValueError for a field that a model lacks, or a value that the field cannot have.
    """
    specs = []
    for model in models:
        base = make_spec(model)
        specs.append(base)
        changes = [
            [(field, v) for v in dict.fromkeys(parse_value(model, field, g) for g in given)]
            for field, given in vary
        ]
        combinations = product(*changes) if is_grid else ([each] for each in chain(*changes))
        for combination in combinations:
            if changed := {f: v for f, v in combination if (f, v) != (WIDTH, 1)}:
                specs.append(change_spec(base, changed))
    return specs


def drop_repeats(
    specs: Iterable[Spec], sizes: Mapping[str, Fields], task: Task, lr: float | None
) -> list[Spec]:
    """Leave out changes to the model's default, which would repeat a training."""
    different, trained = list[Spec](), list[tuple[type[SequenceModel], Config, TrainConfig]]()
    for spec in specs:
        config = spec.model_type.config_type(**sizes[spec.name])
        settings = spec.model_type, config, spec.train_config(task, lr, seed=1)
        if not spec.is_changed or settings not in trained:
            different.append(spec)
            trained.append(settings)
    return different


def parse_value(model: str, field: str, given: Value) -> Value:
    """Return a value of a model's field; raise ValueError for an unknown field or a wrong value."""
    config = field_types(MODELS[model].config_type)
    hints = {WIDTH: Size, **field_types(TrainConfig), **config}
    names = [name for name in hints if name not in (*FIXED, "vocab_size")]
    if field not in names:
        similar = did_you_mean(field, names)
        raise ValueError(f"{model} has no field {field!r}{similar}; choose from {', '.join(names)}")
    hint = hints[field]
    if given in ("None", None) and type(None) in get_args(hint):
        return None
    return parse_field(field, hint, given, is_strict=not isinstance(given, str))


# ----------------------------------------------------------------------------------------- Sizes


def fix_widths(task: Task, models: Iterable[str]) -> Task:
    """Return the task with recipes in which these models have the widths that fit it.

    What is changed in them then leaves the width as it is, whatever the number of parameters.
    """
    recipes = dict(task.recipes)
    for spec in map(make_spec, models):
        recipe = spec.recipe(task)
        sizes = {**recipe.sizes, "d_model": choose_width(spec, task)}
        recipes[spec.name] = recipe._replace(sizes=sizes)
    return replace(task, recipes=recipes)


def model_sizes(spec: Spec, task: Task) -> dict[str, Value]:
    """Return the sizes to build a model with; a variant in width is a multiple as wide."""
    d_model = spec.info.width * choose_width(spec, task)
    sizes = {"vocab_size": task.tokenizer.vocab_size, "d_model": d_model}
    return {**sizes, **spec.recipe(task).sizes, **spec.info.sizes, "d_model": d_model}


def choose_width(spec: Spec, task: Task) -> int:
    """Return the width that the recipe has, or the one that fits the task."""
    sizes = {**spec.recipe(task).sizes, **spec.info.sizes}
    if isinstance(width := sizes.get("d_model"), int):
        return width
    return fit_width(spec, {"vocab_size": task.tokenizer.vocab_size, **sizes}, task.n_parameters)


def fit_width(spec: Spec, sizes: Fields, n_parameters: int) -> int:
    """Return the d_model with which the parameter count is closest to `n_parameters`.

    Raises ValueError if none is within 5 %.
    """
    counts, refused = dict[int, int](), ValueError(f"{spec.name} has no width from 16 to 2,048")
    for step in (8, 4):  # multiples of 4 if those of 8 are too far apart
        with torch.device("meta"), SkipInit():
            for d_model in range(16, 2049, step):
                if d_model not in counts:
                    try:
                        model = spec.build({**sizes, "d_model": d_model})
                    except ValueError as error:  # such as a width that its heads do not divide
                        refused = error
                        continue
                    counts[d_model] = count_parameters(model)
                if counts[d_model] > n_parameters:
                    break
        if not counts:
            raise refused
        nearest = min(counts, key=lambda d: abs(counts[d] - n_parameters))
        if abs(counts[nearest] / n_parameters - 1) <= 0.05:
            return nearest
    raise ValueError(
        f"{spec.name} has no width within 5 % of {n_parameters:,} parameters with {sizes}; "
        f"the nearest is {counts[nearest]:,}; give that as --parameters, where the task takes it, "
        "or other sizes"
    )


def count_parameters(model: SequenceModel) -> int:
    """Return the number of parameters, counting shared ones once."""
    return sum(p.numel() for p in model.parameters())
