"""Read the records of a folder, group them by model and test set, and format what they hold.

No torch.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seqmodels.evaluation.metrics import metric_of
from seqmodels.models import INFOS, PAPERS, model_of
from seqmodels.records.io import parse
from seqmodels.records.schema import SCHEMA, Bucket, Interval, Record, Test, Value
from seqmodels.records.significance import MIN_SEEDS, Comparison, Pair
from seqmodels.utils import files
from seqmodels.utils.terminal import print_error

NAMES = {
    "war-and-peace": "War and Peace", "shakespeare": "Shakespeare",
    "multi30k de→en, lower-cased": "Multi30k German→English, lower-cased",
    "multi30k en→de, lower-cased": "Multi30k English→German, lower-cased",
    "bible de→en": "Bible German→English", "bible en→de": "Bible English→German",
    "keys given again": "keys given again, last value counts",
    "knows the values, not the binding": "the best guess from the values alone",
}  # fmt: skip
"""Names of data and of baselines, as they are written in a figure."""
FIELDS = {
    "is_prenorm": "pre-norm", "d_model": "width", "d_k": "d_k", "d_v": "d_v", "lr": "learning rate",
    "muon_lr": "Muon’s learning rate", "tokens": "target tokens", "batch_tokens": "tokens a batch",
    "width": "× width", "n_queries": "vectors",
}  # fmt: skip
"""Fields whose names alone do not say what they are."""
MIN_EXAMPLES = 30
"""Buckets with fewer examples are hollow in figures, starred in tables and not compared."""
Groups = Mapping[str, Sequence[Record]]
"""The records of each model, one for each seed."""
AnalysisRow = Mapping[str, Any]
"""A row of an analysis: the values that a task has measured, by name."""


class Folder(NamedTuple):
    """The records of a folder."""

    path: Path
    records: dict[str, Record]
    """Records by the names of their files, in order of history, then by seed."""


def load_folder(path: Path, may_be_empty: bool = False) -> Folder:
    """Read each JSON file of a folder once; those that are not records are ignored.

    A *-seed*.json that is none is left out, with a line that says so. Raises ValueError for
    two records of the same (model, seed), more than one task, and, unless it `may_be_empty`,
    without records.
    """
    by_run: dict[tuple[str, int], tuple[str, Record]] = {}
    for file in sorted(Path(path).glob("*.json"), key=lambda file: by_number(file.name)):
        try:
            record = parse(file, files.read_json(file))
        except (OSError, ValueError) as error:
            if "-seed" in file.name:
                print_error("left out", error)
            continue
        if (run := (record.model, record.seed)) in by_run:
            raise ValueError(f"{file}: a second record of {run[0]}, seed {run[1]}; keep one")
        by_run[run] = file.name, record
    if len(tasks := sorted({r.task for _, r in by_run.values()})) > 1:
        raise ValueError(f"{path} mixes the tasks {', '.join(tasks)}; give each its own folder")
    if not by_run and not may_be_empty:
        raise ValueError(f"{path} holds no record (*.json with schema {SCHEMA!r})")
    named = sorted(by_run.values(), key=lambda named: (order_of(named[1]), named[1].seed))
    return Folder(Path(path), dict(named))


def group_by_model(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Group records by model, in order of history, then by name; within a model, by seed."""
    groups: dict[str, list[Record]] = {}
    for r in sorted(records, key=lambda r: r.seed):
        groups.setdefault(r.model, []).append(r)
    return {model: groups[model] for model in sorted(groups, key=lambda m: order_of(groups[m][0]))}


def order_of(r: Record) -> tuple[int, int, list[str | int]]:
    """Return the key that sorts models by history, variants and then arms behind their model."""
    listed = [*INFOS]
    if r.base not in listed:
        return len(PAPERS), 0, by_number(r.model)
    rank = [*PAPERS].index(model_of(r.base))
    return (rank, 1, by_number(f"{r.model}-")) if r.arm else (rank, 0, [listed.index(r.model)])


def by_number(name: str) -> list[str | int]:
    """Return the key by which `n_heads-4` is sorted before `n_heads-16`."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


def tests_by_name(records: Sequence[Record]) -> dict[str, Test]:
    """Return all test sets by name; raise ValueError if the records have different buckets."""
    tests: dict[str, Test] = {}
    for r in records:
        for test in r.tests:
            first = tests.setdefault(test.name, test)
            own, expected = ([(b.low, b.high, b.n) for b in t.buckets] for t in (test, first))
            if own != expected:
                raise ValueError(
                    f"{r.model}, seed {r.seed}: test {test.name!r} has other buckets than the "
                    "other records; evaluate all models on the same examples"
                )
    return tests


def score_array(group: Sequence[Record], name: str, metric: str) -> np.ndarray:
    """Return an array of scores, (seeds, 1 + buckets, 3): overall first; value, low and high.

    A score that is not recorded is nan.
    """
    tests = [test for r in group if (test := r.test(name))]
    scores = [[t.overall.get(metric), *(b.get(metric) for b in t.buckets)] for t in tests]
    ends = [[(s.value, s.low, s.high) if s else (np.nan,) * 3 for s in own] for own in scores]
    return np.array(ends, float)


def is_beyond(test: Test, bucket: Bucket) -> bool:
    """Return whether all of a bucket's examples are longer than those of training."""
    return test.max_train_length is not None and bucket.low > test.max_train_length


def longest_trained_bucket(test: Test) -> int | None:
    """Return the index of the longest bucket of trained lengths; None if that is the first.

    If the trained lengths are not known, it is the last bucket. Buckets with fewer than
    MIN_EXAMPLES are left out.
    """
    trained, buckets = test.max_train_length, test.buckets
    is_usable = [b.n >= MIN_EXAMPLES and (trained is None or b.high <= trained) for b in buckets]
    last = max(np.flatnonzero(is_usable), default=0)
    return int(last) if last and is_usable[0] else None


def rows_of(r: Record, analysis: str, **columns: object) -> list[AnalysisRow]:
    """Return the rows of an analysis that have these values."""
    return [row for row in r.analyses[analysis] if row.items() >= columns.items()]


# Names and numbers


def label_of(r: Record) -> str:
    """Return the label of a record's model; an unknown model keeps its name."""
    if r.arm is None:
        info = INFOS.get(r.base)
        return info.label if info else r.model
    label = r.arm.label
    for field, value in {**r.arm.sizes, **r.arm.training}.items():
        named = rf"(?<!\w){re.escape(f'{field} {value}')}(?![\w.])"
        label = re.sub(named, format_field(field, value), label)
    return label


def name_field(field: str) -> str:
    """Return the name of a field in words."""
    return FIELDS.get(field) or field.removeprefix("is_").removeprefix("n_").replace("_", " ")


def format_field(field: str, value: Value) -> str:
    """Format a changed field: 4 heads, 2 M tokens, label smoothing 0.1, pre-norm."""
    name = name_field(field)
    if isinstance(value, bool):
        return name if value else f"not {name}"
    is_count = field.startswith("n_") or name in ("target tokens", "tokens a batch", "× width")
    if is_count and isinstance(value, int | float):
        return f"{format_short(value)} {name.removesuffix('s') if value == 1 else name}"
    return f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"


def format_bucket(bucket: Bucket) -> str:
    """Format the range of a bucket."""
    low, high = f"{bucket.low:,}", f"{bucket.high:,}"
    return high if low == high else f"{low}–{high}"


def format_short(n: float, _: object = None, unit: str = "") -> str:
    """Format 2000000 as 2 M and 0.0002 as 2e-4; also a formatter for axis ticks."""
    if 0 < n < 1e-3:
        return f"{n:.0e}".replace("e-0", "e-")
    sizes = {1e15: "P", 1e12: "T", 1e9: "G", 1e6: "M", 1e3: "k", 0: ""}
    size, prefix = next((s or 1, p) for s, p in sizes.items() if n >= s)
    return f"{n / size:.3g} {prefix}{unit}".strip()


def format_range(values: Iterable[float], write: Callable[[float], str]) -> str:
    """Format the range of the values, or one value if all are equal."""
    low, high = write(min(values := list(values))), write(max(values))
    return high if low == high else f"{low}–{high}"


def name_baseline(test: Test) -> str:
    """Return the name of a test set's baseline in plain words."""
    return NAMES.get(test.baseline or "", test.baseline or "")


def format_parameters(records: Iterable[Record]) -> str:
    """Format the number of parameters, or the range of numbers, in millions."""
    return format_range((r.n_parameters / 1e6 for r in records), "{:.2f}".format) + " M"


def format_subtitle(records: Sequence[Record]) -> str:
    """Return a one-line summary: task, data, parameters, target tokens and seeds."""
    runs = {(r.model, r.settings.get("d_model"), r.data.name, r.seed) for r in records}
    seeds = format_range(Counter(run[:-1] for run in runs).values(), str)
    tokens = format_range((r.train_config.tokens for r in records), format_short)
    parts = [records[0].task.replace("_", " ").capitalize()]
    parts += dict.fromkeys(NAMES.get(r.data.name, r.data.name) for r in records)
    parts += [f"{format_parameters(records)} parameters", f"{tokens} target tokens"]
    parts += ["one seed" if seeds == "1" else f"{seeds} seeds"]
    return " · ".join(parts)


def format_search(test: Test) -> str:
    """Return the search method as a suffix; empty if the test set does not record it."""
    beam = test.beam
    return "" if beam is None else ", greedy" if beam == 1 else f", beam {beam}"


def format_signed(value: float, metric: str) -> str:
    """Format a difference with its sign; ± if it rounds to zero."""
    text = f"{value:+.{metric_of(metric).digits}f}"
    return text.replace("-", "−") if float(text) else f"±{text[1:]}"


def format_difference(difference: Interval, metric: str) -> str:
    """Format a difference with its interval."""
    ends = [end for end in (difference.low, difference.high) if end is not None]
    interval = ", ".join(format_signed(end, metric) for end in ends) or "–"
    return f"{format_signed(difference.value, metric)} [{interval}]"


def format_verdict(pair: Pair, metric: str) -> str:
    """Say whether a difference is significant, or how large it may be, and if seeds overlap."""
    verdict = "not tested"
    if pair.is_significant:
        is_better = (pair.overall.value < 0) == metric_of(metric).is_loss
        verdict = "significantly better" if is_better else "significantly worse"
    elif pair.p is not None and pair.largest is not None:
        verdict = f"not shown; up to {format_signed(pair.largest, metric)} is not excluded"
    return f"{verdict}; seeds do not overlap" if pair.is_separated else verdict


def format_significance(comparison: Comparison, test: Test) -> str:
    """Explain the significance test and the limits of few seeds."""
    units = test.grouped_by or test.noun
    if not comparison.n_tested:
        return f"Fewer than {MIN_SEEDS} seeds: nothing is tested; intervals are over {units} alone."
    return (
        f"Intervals: 95 % each, over seeds and the same {units}; of fewer than {MIN_SEEDS} seeds, "
        f"over {units} alone. p: over all {units}, corrected for the {comparison.n_tested} tested "
        "differences together (Holm)."
    )


def format_p_value(p: float | None) -> str:
    """Format a p-value; a dash if there is none."""
    return "–" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"
