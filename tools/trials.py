"""Train models at several learning rates and print their losses on valid. Test is not scored.

    python -m tools.trials --out DIR translation gpt=1e-3,2e-3 bahdanau=5e-3 --tokens 300_000

What follows the rates are flags of the task. Each trial is appended to trials.jsonl in the folder,
with its settings and its curve. A trial that is there is not trained again; one that was stopped
resumes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

from seqmodels.comparison.arm import make_arm
from seqmodels.comparison.compare import choose_precision, resolve_device
from seqmodels.comparison.runs import Run, build_model, train_run
from seqmodels.comparison.task import Task
from seqmodels.models import PAPERS, VARIANTS
from seqmodels.training.config import TrainConfig
from seqmodels.utils.terminal import Parser, ensure_out_folder, positive_float, run_cli
from tasks.flags import TASKS

FILE = "trials.jsonl"


def rates(text: str) -> tuple[str, list[float]]:
    """Parse MODEL=RATE,RATE."""
    model, _, values = text.partition("=")
    if model not in {*PAPERS, *VARIANTS} or not values:
        raise argparse.ArgumentTypeError(f"expected MODEL=RATE,RATE, not {text}")
    return model, [positive_float(value) for value in values.split(",")]


def task_of(name: str, argv: list[str]) -> tuple[Task, argparse.Namespace]:
    """Return a task and its parsed flags."""
    module: Any = import_module(f"tasks.{name}.__main__")
    args = module.PARSER.parse_args(argv)
    return module.make_task(args), args


def try_rates(
    task: Task, args: argparse.Namespace, chosen: Iterable[tuple[str, list[float]]], out: Path
) -> None:
    """Train each model at each of its rates that the folder lacks."""
    device, path = resolve_device(args.device), out / FILE
    task = choose_precision(task, args.precision, device)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    earlier: list[dict[str, Any]] = [json.loads(line) for line in lines]
    pairs = [(model, lr) for model, values in chosen for lr in values]
    for (model, lr), seed in product(pairs, args.seeds):
        cfg = TrainConfig(lr=lr, seed=seed, **task.training)
        record = out / f"{model}-{lr:g}-seed{seed}.json"
        run = Run(make_arm(model), task, cfg, record, device, args.checkpoint_every)
        settings = json.loads(json.dumps(run.settings()))
        curves = [trial["curve"] for trial in earlier if trial["settings"] == settings]
        curve = curves[0] if curves else train_run(run, build_model(run)).curve
        if not curves:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"settings": settings, "curve": curve}) + "\n")
            run.checkpoints().remove()
        losses = " ".join(f"{point['valid_nats']:.3f}" for point in curve)
        print(f"{model} {lr:g} seed {seed}: {losses}", flush=True)


def main() -> None:
    """Run the trials."""
    p = Parser(
        prog="python -m tools.trials",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--out", type=Path, required=True, metavar="DIR")
    p.add_argument("task", choices=TASKS)
    p.add_argument("rates", nargs="+", type=rates, metavar="MODEL=RATE,RATE")
    own, others = p.parse_known_args()
    for flag in ("--lr", "--models", "--fresh"):
        if flag in others:
            p.error(f"{flag} does not apply to trials; give MODEL=RATE,RATE")
    run_cli(
        "tools.trials",
        lambda: try_rates(*task_of(own.task, others), own.rates, ensure_out_folder(own.out)),
    )


if __name__ == "__main__":
    main()
