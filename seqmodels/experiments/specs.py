"""Arms of a comparison: a model, the fields changed in it, and its sizes.

Models have equal parameter counts, unless a recipe or an arm has a width.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from typing import Any, NamedTuple, get_args, get_type_hints

import torch
from pydantic import TypeAdapter, ValidationError

from seqmodels.experiments.inference import SkipInit
from seqmodels.experiments.task import Task
from seqmodels.interface import SequenceModel
from seqmodels.models import MODELS, ModelInfo, ancestors, derive, paper_of, register
from seqmodels.training.config import TrainConfig

WIDTH = "width"
"""The field that multiplies the d_model that fits a task's number of parameters."""
FIXED = ("seed", "optimizer")
"""Fields of TrainConfig that belong to all arms of a command."""
Vary = Iterable[tuple[str, Sequence[str]]]
"""Fields, and the values that each is given, as they are written on the command line."""


class Spec(NamedTuple):
    """A model to train, with its changed fields."""

    name: str
    """The model's own name, or one that says what is changed; records are named by it."""
    papers: Mapping[str, ModelInfo]
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

    @property
    def varies(self) -> str | None:
        """Return the model or variant that it differs from."""
        return self.papers[self.name].variant_of

    def register(self) -> None:
        """Register its name in this process."""
        for name, paper in self.papers.items():
            register(name, paper)

    def train_config(self, task: Task, lr: float | None, seed: int) -> TrainConfig:
        """Return how it is trained: as the task says, at this learning rate or its recipe's.

        Raises ValueError for a changed rate of Muon where the task does not use it.
        """
        recipe = task.recipe(self.name)
        rates = {"lr": lr or recipe.lr, "muon_lr": recipe.muon_lr}
        cfg = TrainConfig(**{**rates, **task.training, **self.training, "seed": seed})
        if "muon_lr" in self.training and cfg.optimizer != "muon":
            raise ValueError("muon_lr changes nothing: this task is trained with AdamW alone")
        if cfg.source_loss and MODELS[self.name].text_logits is SequenceModel.text_logits:
            raise ValueError("source_loss needs a model that continues its source, such as gpt")
        return cfg

    def recorded(self) -> dict[str, Any]:
        """Return the description of the arm in its records."""
        paper = self.papers[self.name]
        return {
            "varies": self.varies,
            "label": paper.label,
            "sizes": dict(self.sizes),
            "width": self.width,
            "training": dict(self.training),
        }


def expand_specs(models: Iterable[str], vary: Vary, is_grid: bool = False) -> list[Spec]:
    """Return each model as it is, followed by an arm for each value of each field.

    In a grid, there is an arm for each combination of values instead.

    Raises ValueError for a field that a model lacks, or a value that the field cannot have.
    """
    specs = []
    for model in models:
        base = make_spec(model)
        specs.append(base)
        changes = [
            [(field, value) for value in dict.fromkeys(parse_value(model, field, t) for t in texts)]
            for field, texts in vary
        ]
        combinations = product(*changes) if is_grid else ([each] for each in chain(*changes))
        for combination in combinations:
            if changed := {f: v for f, v in combination if (f, v) != (WIDTH, 1)}:
                specs.append(vary_arm(base, changed))
    return specs


def task_specs(models: Iterable[str], task: Task) -> list[Spec]:
    """Return each model as it is, followed by an arm for each of the task's changes of it."""
    specs = []
    for base in map(make_spec, models):
        specs += [base, *(vary_arm(base, changed) for changed in task.vary.get(base.name, ()))]
    return specs


def without_repeats(specs: Iterable[Spec], task: Task, lr: float | None) -> list[Spec]:
    """Leave out arms whose value is the model's default: they would repeat a training."""
    different, trained = list[Spec](), list[tuple[Any, ...]]()
    for spec in specs:
        model_type = MODELS[spec.name]
        config = model_type.config_type(**model_sizes(spec.name, task))
        settings = model_type, config, spec.train_config(task, lr, seed=1)
        if not spec.is_changed or settings not in trained:
            different.append(spec)
            trained.append(settings)
    return different


def make_spec(model: str) -> Spec:
    """Return the arm of an unchanged model or variant."""
    return Spec(model, {name: paper_of(name) for name in reversed(ancestors(model))})


def vary_arm(base: Spec, changed: Mapping[str, Any]) -> Spec:
    """Return the arm with these fields changed; its name can be part of a file's name."""
    name = "-".join([base.name, *(f"{field}-{value}" for field, value in changed.items())])
    if not re.fullmatch(r"\w[\w. -]{0,63}", name):
        given = ", ".join(f"{field}={value}" for field, value in changed.items())
        raise ValueError(f"{given} cannot be part of a file's name")
    config = get_type_hints(MODELS[base.name].config_type)
    sizes = {field: value for field, value in changed.items() if field in config}
    width = changed.get(WIDTH, 1)
    label = ", ".join(
        f"{value} × width" if field == WIDTH else f"{field} {value}"
        for field, value in changed.items()
    )
    return Spec(
        name,
        {**base.papers, name: derive(base.name, label, sizes, width)},
        {**base.sizes, **sizes},
        base.width * width,
        {**base.training, **{f: v for f, v in changed.items() if f not in (*config, WIDTH)}},
    )


def parse_value(model: str, field: str, text: str) -> Any:
    """Return a value of a model's field; raise ValueError for an unknown field or a wrong value."""
    config = get_type_hints(MODELS[model].config_type)
    hints = {WIDTH: int, **get_type_hints(TrainConfig), **config}
    fields = [name for name in hints if name not in (*FIXED, "vocab_size")]
    if field not in fields:
        raise ValueError(f"{model} has no field {field!r}; choose from {', '.join(fields)}")
    hint = hints[field]
    if text == "None" and type(None) in get_args(hint):
        return None
    try:
        value = TypeAdapter(hint).validate_strings(text)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]["msg"]
        raise ValueError(f"{field}={text}: {problem}") from None
    is_size = hint in (int, int | None)
    if (isinstance(value, float) and not math.isfinite(value)) or (is_size and value < 1):
        raise ValueError(f"{field}={text}: give a {'positive' if is_size else 'finite'} number")
    return value


# ----------------------------------------------------------------------------------------- Sizes


def fix_widths(task: Task, models: Iterable[str]) -> Task:
    """Return the task with recipes in which these models have the widths that fit it.

    Their arms then have the same width, whatever their numbers of parameters are.
    """
    recipes = dict(task.recipes)
    for model in models:
        recipe, width = task.recipe(model), paper_of(model).width
        d_model = model_sizes(model, task)["d_model"] // width
        recipes[model] = recipe._replace(sizes={**recipe.sizes, "d_model": d_model})
    return replace(task, recipes=recipes)


def model_sizes(name: str, task: Task) -> dict[str, Any]:
    """Return the arguments of `build`: the recipe's, with the width that fits the task.

    A recipe that has a width keeps it; a variant in width is a multiple as wide.
    """
    vocab_size, paper = task.tokenizer.vocab_size, paper_of(name)
    sizes = {**task.recipe(name).sizes, **paper.sizes}
    if "d_model" not in sizes:
        sizes = fit_width(name, vocab_size, task.n_parameters, **sizes)
    return {"vocab_size": vocab_size, **sizes, "d_model": paper.width * sizes["d_model"]}


COUNTS: dict[tuple[type[SequenceModel], str], int] = {}
"""Parameter counts by class and Config; each run needs its own three times."""


def fit_width(name: str, vocab_size: int, n_parameters: int, **sizes: Any) -> dict[str, Any]:
    """Return the sizes with the d_model whose parameter count is closest to `n_parameters`.

    Raises ValueError if none is within 5 %.
    """
    counts, refused = {}, ValueError(f"{name} has no width from 16 to 2,048")
    model_type, given = MODELS[name], {"vocab_size": vocab_size, **paper_of(name).sizes, **sizes}
    for step in (8, 4):  # multiples of 4 if those of 8 are too far apart
        with torch.device("meta"), SkipInit():
            for d_model in range(16, 2049, step):
                try:
                    config = model_type.config_type(**given | {"d_model": d_model})
                    key = model_type, repr(config)
                    if key not in COUNTS:
                        COUNTS[key] = count_parameters(model_type(config))
                except ValueError as error:  # such as a width that its heads do not divide
                    refused = error
                    continue
                counts[d_model] = COUNTS[key]
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


def count_parameters(model: SequenceModel) -> int:
    """Return the number of parameters, counting shared ones once."""
    return sum(p.numel() for p in model.parameters())
