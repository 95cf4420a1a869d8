"""Options of a comparison, and the runs that they stand for: models, changed fields, seeds.

`Options` are filled by the command line or by Python; `list_runs` turns them into runs. Models have
equal parameter counts, unless a recipe or a change gives them a width. No torch at import, so that
`--help` is printed at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from seqmodels.models import (
    MODELS,
    PAPERS,
    Fields,
    ModelInfo,
    Value,
    ancestors,
    derive,
    file_sha256,
    import_class,
    paper_of,
    register_file,
)
from seqmodels.training.config import ABSENT, Precision, TrainConfig
from seqmodels.utils.terminal import did_you_mean, non_negative, positive
from seqmodels.utils.values import Size, field_types, parse_field

if TYPE_CHECKING:
    from seqmodels.experiments.task import Recipe, Task
    from seqmodels.interface import SequenceModel

WIDTH = "width"
"""The field that multiplies the d_model that fits a task's number of parameters."""
FIXED = {
    "--vary": {"seed", "optimizer", "vocab_size"},
    "--set": {"seed", "vocab_size", "tokens", "precision"},
}
"""Fields that a flag does not change: the data, those that all runs share, or another flag's."""
Vary = Iterable[tuple[str, Sequence[Value]]]
"""Fields, and the values that each is given: as text, or of the field's type."""
Set = Iterable[tuple[str, Value]]
"""Fields, each with the value that it is given."""

# --------------------------------------------------------------------------------------- Options


def parse_model(text: str) -> str:
    """Return the name of a model, or `all`; one of a file is registered under its own."""
    if ".py:" in text or text.endswith(".py"):
        return register_file(text)
    if text != "all":
        paper_of(text)  # raises ValueError for an unknown name
    return text


def parse_vary(text: str) -> tuple[str, list[str]]:
    """Parse FIELD=A,B,C."""
    name, _, values = text.partition("=")
    if not name or not all(values.split(",")):
        raise ValueError(f"expected FIELD=A,B,C, not {text!r}")
    return name, values.split(",")


def parse_set(text: str) -> tuple[str, str]:
    """Parse FIELD=VALUE."""
    name, _, value = text.partition("=")
    if not name or not value:
        raise ValueError(f"expected FIELD=VALUE, not {text!r}")
    return name, value


def flag(default: object, text: str, **settings: object) -> Any:
    """Return a field that is a flag as well, with its help and the settings of argparse."""
    return field(default=default, metadata={"help": text, **settings})


def switch(text: str) -> Any:
    """Return a field that is False unless its flag is given."""
    return flag(False, text, action="store_true")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is compared, how it is trained, and where its records go; each field is a flag.

    Raises ValueError if two options contradict each other.
    """

    # fmt: off
    models: Sequence[str] = flag(tuple(PAPERS), "models to train",
        nargs="+", type=parse_model, metavar="NAME")
    set: Sequence[tuple[str, Value]] = flag((),
        "give all models that have it this value of a field: of their Config (dropout, d_model), "
        "of training (lr, optimizer, batch_tokens), or n_parameters, which all models have about; "
        "can be repeated",
        action="append", type=parse_set, metavar="FIELD=VALUE")
    vary: Sequence[tuple[str, Sequence[Value]]] = flag((),
        "besides each model, train it with each of these values of a field that it has: of its "
        "Config (d_k), of training (lr, label_smoothing), or a multiple of its width (width); can "
        "be repeated",
        action="append", type=parse_vary, metavar="FIELD=A,B,C")
    grid: bool = switch("train each combination of the values of --vary")
    seeds: Sequence[int] = flag((1,), "train each model once per seed (default: 1)",
        nargs="+", type=non_negative, metavar="N")
    tokens: int | None = flag(None, "budget: target tokens to train each model on",
        type=positive, metavar="N")
    device: str = flag("auto",
        "auto: cuda if available, else cpu (default); mps: Apple's GPU, on which no test has run",
        choices=["auto", "cpu", "cuda", "mps"])
    precision: Precision = flag("float32",  # noqa: RUF009
        "of matrix products in training (default: float32, on NVIDIA's GPUs TF32); bfloat16 can be "
        "faster on GPUs and on processors with AVX512_BF16 or AMX",
        choices=get_args(Precision))
    out: Path | None = flag(None,  # noqa: RUF009
        "folder for records and figures (default: runs/TASK-SIZE or, with --data, "
        "runs/TASK-DATA-SIZE)",
        type=Path, metavar="DIR")
    fresh: bool = switch("start these runs again, deleting what the folder has of them")
    trained: Path | None = flag(None,  # noqa: RUF009
        "evaluate the runs that another folder has, trained with the same settings, instead of "
        "training them again",
        type=Path, metavar="DIR")
    dry_run: bool = switch("train nothing; print the missing runs and their estimated time")
    launcher: str | None = flag(None,
        "train each run on a cluster, whose machines share the disk, instead of on this machine; "
        "see docs/scale.md",
        choices=["ray", "slurm"])
    tensorboard: bool = switch(
        "also write curves for TensorBoard, to the folder tensorboard in --out")
    # fmt: on

    def __post_init__(self) -> None:
        """Raise ValueError if two options contradict each other."""
        for name in ("models", "seeds"):
            given = list(getattr(self, name))
            if twice := [str(value) for value in given if given.count(value) > 1]:
                raise ValueError(f"--{name}: {twice[0]} is given twice; give each once")
        if self.grid and not self.vary:
            raise ValueError("--grid needs --vary")
        expand_specs(self.models, self.vary, self.grid, self.set)


# ----------------------------------------------------------------------------------------- Specs


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
    given: Mapping[str, Value] = {}
    """Fields given by --set in place of the task's recipe: in every record, but in no name."""

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
        """Return whether it is another model than the one that was named."""
        return bool(self.sizes or self.training or self.width != 1)

    def build(self, sizes: Fields) -> SequenceModel:
        """Build the model; sizes left out are the paper's."""
        return self.model_type(self.model_type.config_type(**{**self.info.sizes, **sizes}))

    def recipe(self, task: Task) -> Recipe:
        """Return the task's recipe for the model, which changes do not change."""
        return task.recipe(self.info.variant_of if self.is_changed else self.name)

    def train_config(self, task: Task, seed: int) -> TrainConfig:
        """Return how it is trained: as its recipe, the task and the command line say."""
        recipe = self.recipe(task)
        changed = {f: v for f, v in self.given.items() if f in field_types(TrainConfig)}
        changed |= self.training
        rates = {"lr": recipe.lr, "muon_lr": recipe.muon_lr}
        values: dict[str, Any] = {**rates, **task.training, **changed, "seed": seed}
        cfg = TrainConfig(**values)
        if "muon_lr" in changed and cfg.optimizer != "muon":
            raise ValueError("muon_lr changes nothing: this task is trained with AdamW alone")
        return cfg


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
    width: Any = changed.get(WIDTH, 1)
    label = ", ".join(
        f"{value} × width" if field == WIDTH else f"{field} {value}"
        for field, value in changed.items()
    )
    info = derive({"variant_of": base.name}, label, {**sizes, WIDTH: width})
    training = {field: v for field, v in changed.items() if field not in (*config, WIDTH)}
    return Spec(name, {name: info, **base.lineage}, sizes, width, training, base.given)


def expand_specs(
    models: Sequence[str], vary: Vary, is_grid: bool = False, given: Set = ()
) -> list[Spec]:
    """Return each model with the given fields, followed by a spec for each value of each field.

    In a grid, there is a spec for each combination of values instead. A model that lacks a field is
    trained as it is.

    Raises ValueError for a field that all models lack, or a value that the field cannot have.
    """
    vary, given = [*vary], [*given]
    for name, names in (("--vary", [f for f, _ in vary]), ("--set", [f for f, _ in given])):
        check_names(models, name, names)
    specs = []
    for model in models:
        values = {
            name: parse_value(model, name, value, "--set")
            for name, value in given
            if name in changeable(model, "--set")
        }
        for name, value in values.items():
            if (fixed := paper_of(model).sizes.get(name, value)) != value:
                raise ValueError(f"--set {name}={value}: {model} is the variant with {fixed}")
        base = make_spec(model)._replace(given=values)
        specs.append(base)
        changes = [
            [(field, v) for v in dict.fromkeys(parse_value(model, field, g) for g in each)]
            for field, each in vary
            if field in changeable(model)
        ]
        combinations = product(*changes) if is_grid else ([each] for each in chain(*changes))
        for combination in combinations:
            if changed := {f: v for f, v in combination if (f, v) != (WIDTH, 1)}:
                specs.append(change_spec(base, changed))
    return specs


def changeable(model: str, flag: str = "--vary") -> dict[str, Any]:
    """Return the types of the fields that a flag can change for a model, by name."""
    config = field_types(MODELS[model].config_type)
    own = {"n_parameters": Size} if flag == "--set" else {WIDTH: Size}
    hints = {**own, **field_types(TrainConfig), **config}
    return {name: hint for name, hint in hints.items() if name not in FIXED[flag]}


def check_names(models: Sequence[str], flag: str, names: Iterable[str]) -> None:
    """Raise ValueError for a field that none of the models has."""
    for name in names:
        if flag == "--set" and name in ("tokens", "precision"):
            raise ValueError(f"--set {name}: give --{name}")
        own = dict.fromkeys(chain.from_iterable(changeable(model, flag) for model in models))
        if name not in own:
            raise ValueError(
                f"{flag}: {', '.join(models)}: no field {name!r}{did_you_mean(name, own)}; "
                f"choose from {', '.join(own)}"
            )


def parse_value(model: str, field: str, given: Value, flag: str = "--vary") -> Value:
    """Return a value of a model's field; raise ValueError for an unknown field or a wrong value."""
    check_names([model], flag, [field])
    hint = changeable(model, flag)[field]
    if given in ("None", None) and type(None) in get_args(hint):
        return None
    try:
        return parse_field(field, hint, given, is_strict=not isinstance(given, str))
    except ValueError as error:
        raise ValueError(f"{flag}: {error}") from None


# ----------------------------------------------------------------------------------------- Sizes


def model_sizes(spec: Spec, task: Task) -> dict[str, Any]:
    """Return the sizes to build a model with: the recipe's width, or the one that fits the task.

    A variant in width is a multiple as wide. Raises ValueError for sizes that cannot be built.
    """
    import torch

    from seqmodels.training.checkpoint import SkipInit

    config = field_types(spec.model_type.config_type)
    given = {field: value for field, value in spec.given.items() if field in config}
    sizes = {**spec.recipe(task).sizes, **given, **spec.info.sizes}
    sizes = {"vocab_size": task.tokenizer.vocab_size, **sizes}
    n_parameters: Any = spec.given.get("n_parameters", task.n_parameters)
    d_model = sizes.get("d_model") or fit_width(spec, sizes, n_parameters)
    sizes["d_model"] = spec.info.width * d_model
    with torch.device("meta"), SkipInit():
        spec.build(sizes)
    return sizes


def fit_width(spec: Spec, sizes: Fields, n_parameters: int) -> int:
    """Return the d_model with which the parameter count is closest to `n_parameters`.

    Raises ValueError if none is within 5 %.
    """
    import torch

    from seqmodels.training.checkpoint import SkipInit

    counts, refused = dict[int, int](), ValueError(f"{spec.name} has no width from 16 to 2,048")
    for step in (8, 4):  # multiples of 4 if those of 8 are too far apart
        for d_model in range(16, 2049, step):
            if d_model not in counts:
                try:
                    with torch.device("meta"), SkipInit():
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
        f"the nearest is {counts[nearest]:,}; give that as --set n_parameters={counts[nearest]}, "
        "or other sizes"
    )


def count_parameters(model: SequenceModel) -> int:
    """Return the number of parameters, counting shared ones once."""
    return sum(p.numel() for p in model.parameters())


# ------------------------------------------------------------------------------------------ Runs


class Run(NamedTuple):
    """A spec to train with one seed, evaluate and record."""

    spec: Spec
    task: Task
    cfg: TrainConfig
    sizes: Fields
    """What the model is built with."""
    path: Path
    """Path of the record; weights, hypotheses and checkpoints are stored beside it."""
    device: str
    options: Options

    @property
    def name(self) -> str:
        """Return the name of its spec."""
        return self.spec.name

    @property
    def title(self) -> str:
        """Return its name in messages."""
        return f"{self.name}, seed {self.cfg.seed}"

    @property
    def defaults(self) -> Fields:
        """Return the fields of its Config that keep their defaults."""
        config: Any = self.spec.model_type.config_type(**self.sizes)
        values = {each.name: getattr(config, each.name) for each in fields(config) if each.init}
        return {f: v for f, v in values.items() if f not in self.sizes and isinstance(v, Value)}

    def class_settings(self) -> dict[str, Value]:
        """Return what its class decides: defaults, and the checksum of a file of one's own."""
        return {**self.defaults, "model_sha256": file_sha256(self.spec.info.class_path)}

    def settings(self) -> dict[str, Value]:
        """Return everything its result depends on, as `recorded_settings` does."""
        data = {f"data.{name}": value for name, value in self.task.data.items()}
        own = {"model": self.name, **self.sizes, **self.cfg.settings()}
        return {**data, "beam": self.task.beam, **self.class_settings(), **own}


def list_runs(task: Task, options: Options, out: Path, device: str) -> list[Run]:
    """Return the runs of a comparison, by seed and model; their records go to the folder."""
    budget = {"tokens": options.tokens} if options.tokens else {}
    training = {**task.training, **budget, "precision": options.precision}
    task = replace(task, training=training)
    specs = expand_specs(options.models, options.vary, options.grid, options.set)
    for base in [] if options.vary else [*specs]:
        place = specs.index(base) + 1
        specs[place:place] = [change_spec(base, each) for each in task.vary.get(base.name, ())]
    runs, different = list[Run](), list[object]()
    for seed, spec in product(options.seeds, specs):
        sizes, cfg = model_sizes(spec, task), spec.train_config(task, seed)
        trained = spec.model_type, spec.model_type.config_type(**sizes), cfg
        if spec.is_changed and trained in different:
            continue  # changed to the model's default
        different.append(trained)
        path = out / f"{spec.name}-seed{seed}.json"
        runs.append(Run(spec, task, cfg, sizes, path, device, options))
    return runs


def check_same_settings(path: Path, was: Fields, now: Fields) -> None:
    """Raise ValueError if the file at the path was made with other settings.

    A count of the data that an earlier version did not record is not compared.
    """
    was, now = {**ABSENT, **was}, {**ABSENT, **now}
    changed = [
        f"{key} was {was.get(key)}, is {value}"
        for key, value in now.items()
        if was.get(key) != value and (key in was or not key.startswith("data.n_"))
    ]
    if changed:
        raise ValueError(
            f"{path} was made with other settings ({'; '.join(changed)}); choose another --out, "
            "name its model with --fresh, or remove it"
        )
