"""Round the weights of trained runs to float16, and record their scores anew.

python -m tasks.translation --size full --seeds 1 --out runs/live
python -m tools.rounded runs/live results/live

makes the runs that are kept with their weights: they take half the bytes, and scores, alignment
and hypotheses are those of the rounded weights. The first KEPT hypotheses of each bucket remain.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seqmodels.experiments import evaluate_run, inference
from seqmodels.experiments.task import Task
from seqmodels.records import record
from seqmodels.training import checkpoint
from seqmodels.utils import files
from seqmodels.utils.terminal import Parser
from tasks.translation import __main__ as translation

KEPT = 5
"""Hypotheses of a bucket that are kept."""


def rounded(path: Path, out: Path, task: Task) -> Path:
    """Round a run's weights and write it, evaluated anew, to a folder; return its new record.

    Raises ValueError for a run of another task.
    """
    run = inference.load(path)
    if run.record["data"] != task.data:
        raise ValueError(f"{path} was trained on other data than {task.data['name']}")
    weights = {name: tensor.half() for name, tensor in run.model.state_dict().items()}
    run.model.load_state_dict(weights)
    rows, tests = [], []
    for test in task.tests:
        test_rows, entry = evaluate_run.score_test_set(run.model, task, test, "cpu")
        rows += test_rows
        tests.append(entry)
    new = out / path.name
    record.save(new, run.record | {
        "tests": tests,
        "alignment": evaluate_run.example_alignment(run.model, task, "cpu"),
        "weights_sha256": checkpoint.save_weights(new.with_suffix(".safetensors"), weights),
        "rounded_from_sha256": run.record["weights_sha256"],
    }, rows)  # fmt: skip
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in sample(rows, tests)]
    files.write(new.with_suffix(".jsonl"), "".join(lines))
    return new


def sample(rows: Sequence[dict[str, Any]], tests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first KEPT rows of each bucket, as they are in the test sets."""
    first = []
    for test in tests:
        for bucket in test["buckets"]:
            inside = [
                row
                for row in rows
                if row["set"] == test["name"] and bucket["low"] <= row["x"] <= bucket["high"]
            ]
            first += inside[:KEPT]
    return first


def main(argv: Sequence[str] | None = None) -> None:
    """Round all runs of a folder."""
    p = Parser(prog="python -m tools.rounded", description=__doc__)
    p.add_argument("runs", type=Path, help="folder of runs")
    p.add_argument("out", type=Path, help="folder for the rounded ones")
    args = p.parse_args(argv)
    given = translation.PARSER.parse_args(["--size", "full"])
    task = translation.builtin_task(given)
    args.out.mkdir(parents=True, exist_ok=True)
    task.tokenizer.save(args.out / "tokenizer.json")
    for path in sorted(args.runs.glob("*-seed*[0-9].json")):
        print(rounded(path, args.out, task))


if __name__ == "__main__":
    main()
