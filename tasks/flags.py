"""The command line of a task: its flags, and what runs it. No torch at import.

`--help` and typos are thus answered at once.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqmodels.data import TOKENIZERS
from seqmodels.experiments.sweep import Options
from seqmodels.models import PAPERS, import_file
from seqmodels.utils import files
from seqmodels.utils.imports import list_tasks
from seqmodels.utils.terminal import Parser, argument, did_you_mean, run_cli, wrap

if TYPE_CHECKING:
    from seqmodels.experiments.task import Task

SIZES = {
    "smoke": "run everything once, in a minute",
    "laptop": "the comparison, in minutes",
    "full": "with larger budgets, in hours",
}
GROUPS = {
    "what is compared": ("models", "set", "vary", "grid", "metric", "seeds", "tokens", "size"),
    "how it is computed": ("device", "precision", "launcher"),
    "where the records go": ("out", "fresh", "trained", "dry_run", "tensorboard"),
}
"""The groups of the shared flags in --help."""
MakeTask = Callable[[argparse.Namespace], "Task"]
Preset = tuple[str, Sequence[str]]
"""The name of a task's preset, with which its default folder begins, and the models to train."""
MODELS_HELP = (
    "models to train (default: {}), all for the eight with a chapter, a variant (seqmodels models "
    "--all lists them), or one of your own as FILE.py:CLASS"
)

TOKENIZER_HELP = (
    f"{', '.join(TOKENIZERS)} (default: bpe for your own data), with the size of its vocabulary, "
    "such as bpe:4000, or a run's vocabulary.json"
)


class TaskParser(Parser):
    """A parser of the flags that all tasks share, to which a task adds its own.

    `models` are trained by default. `check` raises ValueError if flags contradict each other, and
    returns the preset that they choose, if any.
    """

    def __init__(
        self,
        module: str,
        doc: str | None,
        models: Sequence[str] = tuple(PAPERS),
        sizes: Sequence[str] = tuple(SIZES),
        check: Callable[[argparse.Namespace], Preset | None] = lambda args: None,
    ):
        super().__init__(
            prog=f"python -m {module}",
            description=doc,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.check, self.default = check, (module.rpartition(".")[2], models)
        self.needs_data: Sequence[argparse.Action] = ()
        """The flags that require --data."""
        own: dict[str, dict[str, Any]] = {
            "models": {"default": None, "help": MODELS_HELP.format(", ".join(models))},
            "set": {"default": []},  # argparse appends to it
            "vary": {"default": []},
        }
        groups = [(self.add_argument_group(title), names) for title, names in GROUPS.items()]
        group_of = {name: group for group, names in groups for name in names}
        for each in fields(Options):
            settings = {"default": each.default, **each.metadata, **own.get(each.name, {})}
            if "type" in settings:
                settings["type"] = argument(settings["type"])
            group_of[each.name].add_argument(f"--{each.name.replace('_', '-')}", **settings)
        about = "; ".join(f"{size}: {SIZES[size]}" for size in sizes) + " (default: laptop)"
        group_of["size"].add_argument("--size", choices=sizes, default="laptop", help=about)

    def parse(self, words: Sequence[str] | None = None) -> argparse.Namespace:
        """Return the flags; raise ValueError for a wrong one, or if two contradict each other."""
        args = super().parse(words)
        args.folder, models = self.check(args) or self.default
        args.is_default = args.models is None
        each = [PAPERS if name == "all" else [name] for name in args.models or models]
        args.models = [*chain.from_iterable(each)]
        for action in self.needs_data:
            if not args.data and getattr(args, action.dest) != action.default:
                raise ValueError(f"{action.option_strings[0]} needs --data")
        args.options = Options(**{each.name: getattr(args, each.name) for each in fields(Options)})
        if args.out and not args.dry_run:
            files.check_folder(args.out, "comparison")
        return args


def to_words(values: Mapping[str, Any]) -> list[str]:
    """Return the words of a command line that stand for values from Python, by flag.

    `models=["gpt", "bahdanau"]` is `--models gpt bahdanau`, `set={"lr": 1}` is `--set lr=1`,
    `vary={"lr": [1, 2]}` is `--vary lr=1,2`; None and False leave a flag out.
    """
    words = list[str]()
    for name, value in values.items():
        flag = f"--{name.replace('_', '-')}"
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif isinstance(value, Mapping):
            for field, its in value.items():
                is_one = isinstance(its, str) or not isinstance(its, Iterable)
                words.append(f"{flag}={field}={its if is_one else ','.join(map(str, its))}")
        elif isinstance(value, Iterable) and not isinstance(value, str):
            words += [flag, *map(str, value)]
        else:
            words.append(f"{flag}={value}")
    return words


def tokenizer(text: str) -> tuple[str, int | None]:
    """Return a kind of tokenizer, or the path of a file, and the size of its vocabulary."""
    kind, _, size = text.rpartition(":") if text[-1:].isdigit() and ":" in text else (text, "", "")
    if kind in TOKENIZERS or Path(kind).is_file():
        return kind, int(size) if size else None
    similar, kinds = did_you_mean(kind, TOKENIZERS), ", ".join(TOKENIZERS)
    raise argparse.ArgumentTypeError(
        f"{text!r} is not a file{similar}; give one, or one of {kinds}"
    )


def default_folder(args: argparse.Namespace) -> Path:
    """Return the default folder of a task's runs, from its name or preset, data and size."""
    data = [Path(name) for name in getattr(args, "data", None) or ()]
    names = [path.resolve().stem if path.exists() else str(path) for path in data[:1]]
    return Path("runs", re.sub(r"[^\w.-]+", "-", "-".join([args.folder, *names, args.size])))


def read_task(make_task: MakeTask, args: argparse.Namespace) -> tuple[Task, Options]:
    """Return a task and its options; its own changes of models are of its default models."""
    task, options = make_task(args), replace(args.options, out=args.out or default_folder(args))
    return task if args.is_default else replace(task, vary={}), options


def run(parser: TaskParser, make_task: MakeTask, argv: Sequence[str] | None = None) -> None:
    """Parse a task's command line, run its comparison, then draw and print its folder.

    A run that failed is an error once the others are drawn.
    """
    args = parser.parse_args(argv)

    def run_comparison() -> None:
        from seqmodels.experiments import launch  # imports torch

        task, options = read_task(make_task, args)
        try:
            out = launch.compare(task, options)
        except launch.FailedRunsError as failed:
            draw_and_print(failed.out)
            raise
        if out:
            draw_and_print(out)

    run_cli(parser.default[0], run_comparison)


def find_task(task: str) -> Any:
    """Return the module of a task, by its name or that of its FILE.py.

    A file has a function `make_task(args)`; unless it has a PARSER, it gets the shared flags.
    Raises ValueError if there is no such task.
    """
    if task.endswith(".py"):
        module = import_file(Path(task).resolve())
        if not hasattr(module, "make_task"):
            raise ValueError(f"{task} has no function make_task(args) that returns a Task")
        if not hasattr(module, "PARSER"):
            module.PARSER = TaskParser(f"tasks.{Path(task).stem}", module.__doc__)  # type: ignore
    elif task in list_tasks():
        module = import_module(f"tasks.{task}.__main__")
    else:
        similar, names = did_you_mean(task, list_tasks()), ", ".join(list_tasks())
        raise ValueError(f"no task {task!r}{similar}; choose from {names}, or give a FILE.py")
    module.PARSER.prog = f"seqmodels run {task}"
    return module


def draw_and_print(out: Path) -> None:
    """Draw and print a folder's records."""
    from seqmodels.report import figures, load, tables

    folder = load.load_folder(out, may_be_empty=True)
    if not folder.records:
        return
    compared = figures.find_significance(folder)
    names = ", ".join(sorted(path.name for path in figures.plot_folder(folder, compared)))
    print(f"\n{tables.format_summary([*folder.records.values()], compared)}")
    print(f"\n{wrap(f'Records, hypotheses, weights and figures are in {out}:')}")
    print(wrap(f"  {names}"))
