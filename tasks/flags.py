"""The command line of a task: its flags, and what runs it. No torch at import.

`--help` and typos are thus answered at once.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqmodels.data import TOKENIZERS, corpora
from seqmodels.experiments.sweep import Options
from seqmodels.models import PAPERS, list_models
from seqmodels.utils import files
from seqmodels.utils.terminal import Parser, argument, did_you_mean, run_cli

if TYPE_CHECKING:
    from seqmodels.experiments.task import Task

SIZES = {
    "smoke": "run everything once, in a minute",
    "laptop": "the comparison, in minutes",
    "full": "with larger budgets, in hours",
}
MakeTask = Callable[[argparse.Namespace], "Task"]
RUN_AS: str | None = None
"""What a task is called in its messages, unless it is run by `python -m`."""
Choice = tuple[str, list[str] | None]
"""The beginning of a folder's name, and models."""
Presets = Mapping[str, corpora.Preset]


class TaskParser(Parser):
    """A parser of the flags that all tasks share, to which a task adds its own.

    `models` are trained by default. `check` raises ValueError if flags contradict each other.
    `choose` returns how the default folder begins with these flags, if not with the task's name,
    and the models that are trained by default, if others.
    """

    def __init__(
        self,
        module: str,
        doc: str | None,
        models: Sequence[str] = tuple(PAPERS),
        sizes: Sequence[str] = tuple(SIZES),
        check: Callable[[argparse.Namespace], None] = lambda args: None,
        choose: Callable[[argparse.Namespace], Choice | None] = lambda args: None,
    ):
        super().__init__(
            prog=f"python -m {module}" if RUN_AS is None else RUN_AS,
            description=doc,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.check, self.choose, self.defaults = check, choose, [list(models)]
        self.own_data: tuple[list[argparse.Action], str, Presets] | None = None
        others = ", ".join(name for name in list_models() if name not in models)
        own: dict[str, dict[str, Any]] = {
            "models": {
                "default": [*models],
                "help": f"models to train: {', '.join(models)} (default: these), all for those "
                f"with a chapter, a model of your own as FILE.py:CLASS, or any of {others}",
            },
            "vary": {"default": []},  # argparse appends to it
        }
        for each in fields(Options):  # those that all tasks share
            settings = {"default": each.default, **each.metadata, **own.get(each.name, {})}
            if "type" in settings:
                settings["type"] = argument(settings["type"])
            self.add_argument(f"--{each.name.replace('_', '-')}", **settings)
        help = "; ".join(f"{size}: {SIZES[size]}" for size in sizes) + " (default: laptop)"
        self.add_argument("--size", choices=sizes, default="laptop", help=help)

    def add_data_group(self, builtin: str, names: Presets) -> Callable[..., Any]:
        """Return what adds the flags that require --data, which takes corpora by these names.

        `builtin` tells what the built-in data are without them.
        """
        group, actions = self.add_argument_group("with --data"), list[argparse.Action]()
        self.own_data = actions, builtin, names

        def add(*names: str, **settings: Any) -> None:
            actions.append(group.add_argument(*names, **settings))

        return add

    def parse(self, words: Sequence[str] | None = None) -> argparse.Namespace:
        """Return the flags; raise ValueError for a wrong one, or if two contradict each other."""
        args = super().parse(words)
        self.complete(args)
        if args.out and not args.dry_run:
            files.check_folder(args.out, "comparison")
        return args

    def complete(self, args: argparse.Namespace) -> None:
        """Replace `all` by its models; raise ValueError if flags contradict each other."""
        if "all" in args.models:
            each = [PAPERS if name == "all" else [name] for name in args.models]
            args.models = [*chain.from_iterable(each)]
        self.check(args)
        if self.own_data:
            actions, builtin, names = self.own_data
            own = [a for a in actions if getattr(args, a.dest) != a.default]
            if own and not args.data:
                raise ValueError(f"{own[0].option_strings[0]} needs --data; {builtin}")
            if args.data and len(args.data) == 1:
                corpora.check_name(str(args.data[0]), names)
        if chosen := self.choose(args):
            folder, models = chosen
            self.defaults += [models] if models else []
            if models and args.models is self.get_default("models"):
                args.models = models
            args.out = args.out or Path("runs", f"{folder}-{args.size}")
        options_of(args)


def to_words(values: Mapping[str, Any]) -> list[str]:
    """Return the words of a command line that stand for values from Python, by flag.

    `models=["gpt", "bahdanau"]` is `--models gpt bahdanau`, `vary={"lr": [1, 2]}` is `--vary
    lr=1,2`; None and False leave a flag out.
    """
    words = list[str]()
    for name, value in values.items():
        flag = f"--{name.replace('_', '-')}"
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif isinstance(value, Mapping):
            words += [f"{flag}={field}={','.join(map(str, its))}" for field, its in value.items()]
        elif isinstance(value, Iterable) and not isinstance(value, str):
            words += [flag, *map(str, value)]
        else:
            words.append(f"{flag}={value}")
    return words


def tokenizer(text: str) -> str:
    """Accept a kind of tokenizer, or the path of a file."""
    if text in TOKENIZERS or Path(text).is_file():
        return text
    similar, kinds = did_you_mean(text, TOKENIZERS), ", ".join(TOKENIZERS)
    raise argparse.ArgumentTypeError(
        f"{text!r} is not a file{similar}; give one, or one of {kinds}"
    )


def options_of(args: argparse.Namespace) -> Options:
    """Return the options among a task's flags; raise ValueError if two contradict each other."""
    return Options(**{each.name: getattr(args, each.name) for each in fields(Options)})


def default_folder(task: Task, args: argparse.Namespace) -> Path:
    """Return the default folder of a task's runs, from its name, data and size."""
    data = [Path(name) for name in getattr(args, "data", None) or ()]
    names = [path.resolve().stem if path.exists() else str(path) for path in data[:1]]
    return Path("runs", re.sub(r"[^\w.-]+", "-", "-".join([task.name, *names, args.size])))


def read_task(
    parser: TaskParser, make_task: MakeTask, args: argparse.Namespace
) -> tuple[Task, Options]:
    """Return a task and its options; its own changes of models are of its default models."""
    task, options = make_task(args), options_of(args)
    options = replace(options, out=options.out or default_folder(task, args))
    if args.models not in parser.defaults:
        task = replace(task, vary={})
    return task, options


def run(parser: TaskParser, make_task: MakeTask, argv: Sequence[str] | None = None) -> None:
    """Parse a task's command line, run its comparison, then draw and print its folder.

    A run that failed is an error once the others are drawn.
    """
    args = parser.parse_args(argv)

    def run_comparison() -> None:
        from seqmodels.comparison import draw_and_print, show
        from seqmodels.experiments import launch  # imports torch

        task, options = read_task(parser, make_task, args)
        try:
            out = launch.compare(task, options, show=partial(show, task=task))
        except launch.FailedRunsError as failed:
            draw_and_print(failed.out, task)
            raise
        if out:
            draw_and_print(out, task)

    run_cli(re.split("[. ]", parser.prog)[-1], run_comparison)
