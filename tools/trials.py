"""Train models with settings to be tried, and print their losses on valid. Test is not scored.

    python -m tools.trials --out DIR translation gpt,lr=2e-3,muon_lr=8e-3 bahdanau --tokens 300_000

Each trial is a model and the fields of its Config or of training that are changed for it. Flags of
the task come last. Each trial is appended to trials.jsonl in the folder, with its settings and its
curve, and to trials.csv in the task's folder. A trial that is there is not trained again; one that
was stopped resumes.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

from seqmodels.experiments.options import Options
from seqmodels.experiments.plan import resolve_device
from seqmodels.experiments.run import Run, fit
from seqmodels.experiments.specs import Spec, change_spec, make_spec, model_sizes, parse_value
from seqmodels.experiments.task import Task
from seqmodels.models import PAPERS, VARIANTS
from seqmodels.utils.imports import list_tasks
from seqmodels.utils.terminal import Parser, run_cli
from tasks.flags import read_task

ROOT = Path(__file__).parents[1]
FILE = "trials.jsonl"
TABLE = "trials.csv"
COLUMNS = (
    "data", "model", "changes", "tokens", "batch_tokens", "optimizer", "lr", "muon_lr", "seed",
    "valid_nats", "train_s",
)  # fmt: skip
"""Columns of trials.csv: `valid_nats` is the lowest of the curve."""


def parse_trial(text: str) -> tuple[str, Spec]:
    """Parse MODEL,FIELD=VALUE,FIELD=VALUE; return the model and the spec."""
    model, *changes = text.split(",")
    if model not in {*PAPERS, *VARIANTS}:
        raise argparse.ArgumentTypeError(f"expected MODEL,FIELD=VALUE,…, not {text}")
    fields = [(field, value) for field, _, value in (change.partition("=") for change in changes)]
    try:
        changed = {field: parse_value(model, field, value) for field, value in fields}
        spec = change_spec(make_spec(model), changed) if changed else make_spec(model)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return model, spec


def task_of(name: str, argv: list[str]) -> tuple[Task, Options]:
    """Return a task and its options."""
    module: Any = import_module(f"tasks.{name}.__main__")
    return read_task(module.PARSER, module.make_task, module.PARSER.parse_args(argv))


def run_trials(
    task: Task, options: Options, trials: Iterable[tuple[str, Spec]], out: Path, table: Path
) -> None:
    """Train what the folder lacks."""
    device, path = resolve_device(options.device), out / FILE
    task = replace(task, training={**task.training, "precision": options.precision})
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    earlier: list[dict[str, Any]] = [json.loads(line) for line in lines]
    for (model, spec), seed in product(trials, options.seeds):
        cfg = spec.train_config(task, None, seed)
        record = out / f"{spec.name}-seed{seed}.json"
        run = Run(spec, task, cfg, model_sizes(spec, task), record, device, options)
        settings = json.loads(json.dumps(run.settings()))
        curves = [trial["curve"] for trial in earlier if trial["settings"] == settings]
        curve = curves[0] if curves else fit(run)[1].curve
        if not curves:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"settings": settings, "curve": curve}) + "\n")
            add_row(table, model, run, curve)
            run.checkpoints().remove()
        losses = " ".join(f"{point['valid_nats']:.3f}" for point in curve)
        print(f"{spec.name} seed {seed}: {losses}", flush=True)


def add_row(table: Path, model: str, run: Run, curve: Sequence[Mapping[str, float]]) -> None:
    """Append a trial to the table of a task's trials."""
    settings = asdict(run.cfg) | run.settings()
    changes = {**run.spec.sizes, **run.spec.training}
    own = {
        "data": run.task.data["name"],
        "model": model,
        "changes": " ".join(f"{k}={v}" for k, v in changes.items() if k not in COLUMNS),
        "valid_nats": f"{min(point['valid_nats'] for point in curve):.4f}",
        "train_s": f"{curve[-1]['seconds']:.0f}",
    }
    is_new = not table.exists()
    with table.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(settings | own)


def main() -> None:
    """Run the trials."""
    p = Parser(
        prog="python -m tools.trials",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        passes_on=True,
    )
    p.add_argument("--out", type=Path, required=True, metavar="DIR")
    p.add_argument("task", choices=list_tasks())
    p.add_argument("trials", nargs="+", type=parse_trial, metavar="MODEL,FIELD=VALUE,…")
    own, others = p.parse_known_args()
    for flag in ("--lr", "--models", "--vary", "--fresh"):
        if flag in others:
            p.error(f"{flag} does not apply to trials; give MODEL,FIELD=VALUE,…")
    table = ROOT / "tasks" / own.task / TABLE
    own.out.mkdir(parents=True, exist_ok=True)
    run_cli(
        "tools.trials", lambda: run_trials(*task_of(own.task, others), own.trials, own.out, table)
    )


if __name__ == "__main__":
    main()
