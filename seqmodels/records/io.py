"""Read and write the record of a run, RUN.json, and the files beside it.

These are the run's hypotheses (RUN.jsonl) and its sums (RUN.sums.json.gz). No torch.
"""

from __future__ import annotations

import datetime
import gzip
import hashlib
import json
import platform
import subprocess
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from seqmodels.evaluation.intervals import Row, groups_of, number_groups
from seqmodels.evaluation.metrics import metric_of
from seqmodels.models import PAPERS
from seqmodels.records.schema import SCHEMA, Record, Sums, SumsFile, validate
from seqmodels.utils import files
from seqmodels.utils.terminal import did_you_mean

SUMS_SUFFIX = ".sums.json.gz"
OLD_TASKS = {
    "recall": "copy", "ladder": "translation", "choices": "translation", "positions": "translation",
    "vector": "bottleneck", "distance": "bottleneck",
    "lookup": "memory", "tracking": "memory",
    "heads": "inside", "words": "inside", "smoothing": "inside",
}  # fmt: skip
"""Names that tasks had in earlier records."""

# -------------------------------------------------------------------------------------- Reading


def load(path: Path) -> Record:
    """Read one record.

    Raises ValueError if the file is missing or is not a valid record.
    """
    try:
        return parse(path, files.read_json(path))
    except FileNotFoundError:
        runs = [each.stem for each in path.parent.glob("*-seed*.json")]
        similar = did_you_mean(path.stem, [*runs, *PAPERS] if path.parent == Path() else runs)
        raise ValueError(
            f"{path}: no such record{similar}; name a RUN such as FOLDER/gpt-seed1"
        ) from None


def parse(path: Path, value: object) -> Record:
    """Return the JSON value of a file as a record; raise ValueError if it is not a valid one."""
    if not (isinstance(value, dict) and str(value.get("schema")).startswith("seqmodels.record/")):
        raise ValueError(f"{path} is not a record ({SCHEMA}): restore it, or move it away")
    if (version := str(value["schema"])) != SCHEMA:
        raise ValueError(f"{path} has the schema {version[:60]!r}; this version reads {SCHEMA}")
    try:
        record = validate(Record, value)
    except ValueError as error:
        raise ValueError(f"{path} is not a record: {error}") from None
    # a later task is called bottleneck as well
    is_copy = record.task == "bottleneck" and record.data.get("n_symbols")
    task = "copy" if is_copy else OLD_TASKS.get(record.task, record.task)
    return record.model_copy(update={"task": task})


def read_checked(path: Path, record: Record) -> bytes:
    """Return a file beside a record; raise ValueError if it is not that written with the record."""
    content = path.read_bytes()
    for ending, wanted in record.files_sha256.items():
        if path.name.endswith(ending) and wanted != hashlib.sha256(content).hexdigest():
            raise ValueError(f"{path} is not the file of its record: restore it, or move it away")
    return content


def sums_path(folder: Path, record: Record) -> Path:
    """Return the path of a run's sums, named like its hypotheses."""
    return (folder / record.hypotheses).with_suffix(SUMS_SUFFIX)


def load_sums(path: Path, record: Record) -> dict[str, Sums]:
    """Return the sums of a run by test set; raise ValueError if they do not give its scores."""
    content = read_checked(path, record)
    try:
        text = gzip.decompress(content)
        sums = validate(SumsFile, json.loads(text)).tests
        for test in record.tests:
            if (own := sums.get(test.name)) is None:
                continue
            key = test.primary_metric
            columns = *own.columns, *(own.losses or ()), own.groups or own.x
            if {len(column) for column in columns} != {len(own.x)}:
                raise ValueError("columns, x and groups differ in length")
            score = metric_of(key).score_from_stats(own.terms.sum(axis=0))
            recorded = test.overall[key].value
            if not np.isclose(score, recorded, rtol=1e-6, atol=1e-9):
                raise ValueError(f"{key} is {score:.6g}, not {recorded:.6g}")
    except (KeyError, ValueError, IndexError, EOFError, OSError, zlib.error) as error:
        raise ValueError(
            f"{path} does not hold the sums of its record ({error}): restore it, or move it away"
        ) from None
    return sums


# -------------------------------------------------------------------------------------- Writing


def build(fields: Mapping[str, object]) -> Record:
    """Return the record with these fields, as it is read again once it is written."""
    return validate(Record, json.loads(json.dumps(fields)))


def format_record(record: Record) -> str:
    """Return the content of a record's file, without the fields that were not given."""
    fields = record.model_dump(by_alias=True, exclude_unset=True)
    return json.dumps(fields, ensure_ascii=False, indent=1) + "\n"


def save(
    path: Path, record: Record, rows: Sequence[Row], shown: Sequence[Row] | None = None
) -> Record:
    """Write rows as JSONL, sums and, last, the record with their checksums, and return it.

    `shown` are the rows whose texts are kept, by default all. Raises OSError if it cannot write.
    """
    texts = rows if shown is None else shown
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in texts)
    paths = files.write(path.with_suffix(".jsonl"), text), path.with_suffix(SUMS_SUFFIX)
    save_sums(paths[1], record, rows)
    sums = {
        each.name.removeprefix(path.stem): hashlib.sha256(each.read_bytes()).hexdigest()
        for each in paths
    }
    record = record.model_copy(update={"files_sha256": sums})
    files.write(path, format_record(record))
    return record


def save_sums(path: Path, record: Record, rows: Sequence[Row]) -> None:
    """Write the terms of a run's primary metrics and the groups of its rows, gzipped."""
    tests = {}
    for test in record.tests:
        own_rows = [row for row in rows if row["set"] == test.name]
        terms = metric_of(test.primary_metric).terms(own_rows, record.data.bleu_tokenize)
        if terms is None:
            continue
        losses = None
        if "nats" in own_rows[0] and not metric_of(test.primary_metric).is_loss:
            nats = [round(row["nats"], 5) for row in own_rows]
            losses = [nats, [row["n_tokens"] for row in own_rows]]
        examples = json.dumps([(row["x"], row["ref"], row.get("group")) for row in own_rows])
        groups = groups_of(own_rows)
        tests[test.name] = {
            "columns": [
                [int(number) if number.is_integer() else number for number in column]
                for column in terms.T.tolist()
            ],
            "losses": losses,
            "x": [row["x"] for row in own_rows],
            "groups": groups and number_groups(groups),
            "examples": hashlib.sha256(examples.encode()).hexdigest(),
        }
    text = json.dumps({"schema": "seqmodels.sums/1", "tests": tests}, separators=(",", ":"))
    files.write(path, gzip.compress(text.encode(), mtime=0))


# ----------------------------------------------------------------------------------- Provenance


@cache
def read_commit() -> str | None:
    """Return the commit of the running clone, with + if files differ; None outside a clone.

    The commit is read once: the clone can change later, but the loaded code does not. An installed
    copy inside another project's clone is outside, because git does not track this file.
    """
    ask = partial(
        subprocess.check_output, cwd=Path(__file__).parent, text=True, stderr=subprocess.DEVNULL
    )
    code = ["--", ":/", ":(exclude,top)results"]  # new records do not change the program
    with suppress(OSError, subprocess.CalledProcessError):
        ask(["git", "ls-files", "--error-unmatch", Path(__file__).name])
        changes = ask(["git", "status", "--porcelain", "--untracked-files=no", *code])
        return ask(["git", "rev-parse", "HEAD"]).strip() + "+" * bool(changes)
    return None


def collect_provenance(device: str) -> dict[str, Any]:
    """Return the date, commit, versions and hardware of a run."""
    import torch

    processor = platform.processor() or platform.machine()
    with suppress(OSError):
        cpus = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next(
            (cpu.split(": ")[1] for cpu in cpus if cpu.startswith("model name")), processor
        )
    packages = ("torch", "numpy", "sacrebleu", "tiktoken", "tokenizers")
    return {
        "date": datetime.date.today().isoformat(),
        "commit": read_commit(),
        "versions": {"python": platform.python_version(), **{p: version(p) for p in packages}},
        "system": f"{platform.system()} {platform.machine()}",
        "device": torch.cuda.get_device_name() if device == "cuda" else processor,
        "threads": torch.get_num_threads(),
    }
