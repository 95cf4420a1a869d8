"""Make results/translation-live from trained runs: rounded weights, and sentences to translate.

    python -m tasks.translation --size full --seeds 1 --out runs/live
    python -m tools.live runs/live results/translation-live

Weights are rounded to float16: they take half the bytes, and scores, alignment and hypotheses are
those of the rounded weights. The first KEPT hypotheses of each bucket remain. PER_LENGTH sentences
of each length are drawn for the live page: those of the test set first, then others that training
did not see either.
"""

from __future__ import annotations

import argparse
import gzip
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seqmodels import inference
from seqmodels.experiments import run as one_run
from seqmodels.experiments.task import Task
from seqmodels.records import io as record
from seqmodels.training import checkpoint
from seqmodels.utils import files
from seqmodels.utils.terminal import Parser
from tasks.synthetic import grammar
from tasks.translation import __main__ as translation

KEPT = 5
"""Hypotheses of a bucket that are kept."""
EXAMPLES = "examples.tsv.gz"
PER_LENGTH = 20
LENGTHS = range(4, 81)


def round_run(path: Path, out: Path, task: Task) -> Path:
    """Round a run's weights and write it, evaluated anew, to a folder; return its new record.

    Raises ValueError for a run of another task.
    """
    run = inference.load(path)
    if run.record.data.model_dump() != task.data:
        raise ValueError(f"{path} was trained on other data than {task.data['name']}")
    weights = {name: tensor.half() for name, tensor in run.model.state_dict().items()}
    run.model.load_state_dict(weights)
    rows, tests = [], []
    for test in task.tests:
        test_rows, entry = one_run.score_test_set(run.model, task, test)
        rows += test_rows
        tests.append(entry)
    new = out / path.name
    fields = run.record.model_dump(by_alias=True, exclude_unset=True) | {
        "tests": tests,
        "alignment": one_run.align_example(run.model, task),
        "weights_sha256": checkpoint.save_weights(new.with_suffix(".safetensors"), weights),
        "rounded_from_sha256": run.record.weights_sha256,
    }
    record.save(new, record.build(fields), rows, shown=first_rows(rows, tests))
    return new


def first_rows(
    rows: Sequence[dict[str, Any]], tests: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the first KEPT rows of each bucket, in the order of the test sets."""
    first = []
    for test in tests:
        own = [row for row in rows if row["set"] == test["name"]]
        for bucket in test["buckets"]:
            first += [r for r in own if bucket["low"] <= r["x"] <= bucket["high"]][:KEPT]
    return first


def draw_sentences(
    corpus: grammar.Splits, lengths: Sequence[int], n: int
) -> list[grammar.Sentence]:
    """Return n sentences of each length, none from train or valid."""
    rng, seen, drawn = random.Random(1), {s.en for split in corpus for s in split}, []
    for length in lengths:
        tested = [s for s in corpus.test if s.n_words == length][:n]
        drawn += tested
        drawn += [grammar.draw_unseen(rng, length, seen).sentence for _ in range(n - len(tested))]
    return drawn


def main(argv: Sequence[str] | None = None) -> None:
    """Round all runs of a folder, and draw the sentences."""
    p = Parser(prog="python -m tools.live", description=__doc__,
               formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    p.add_argument("runs", type=Path, help="folder of runs")
    p.add_argument("out", type=Path, help="folder for the rounded ones")
    args = p.parse_args(argv)
    full = translation.PARSER.parse_args(["--size", "full"])
    corpus = translation.draw_corpus(full)
    task = translation.builtin_task(full, corpus)
    args.out.mkdir(parents=True, exist_ok=True)
    task.tokenizer.save(args.out / "vocabulary.json")
    for path in sorted(args.runs.glob("*-seed*[0-9].json")):
        print(round_run(path, args.out, task))
    drawn = draw_sentences(corpus, LENGTHS, PER_LENGTH)
    lines = "".join(f"{s.en_text}\t{s.de_text}\n" for s in drawn)
    print(files.write(args.out / EXAMPLES, gzip.compress(lines.encode(), mtime=0)))


if __name__ == "__main__":
    main()
