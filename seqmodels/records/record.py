"""The record of a run: one JSON file of settings, data and results, validated when it is read.

Beside it are the run's hypotheses (RUN.jsonl) and its sums (RUN.sums.json.gz). A folder of records
can come from a stranger or be edited by hand: a field that is missing, unknown, of the wrong type
or out of range raises an error that names it, before the record is used. torch is imported only to
describe a run, so that records are read without it.
"""

from __future__ import annotations

import datetime
import gzip
import hashlib
import json
import platform
import subprocess
import sys
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from seqmodels.evaluation.intervals import Row, groups_of, number_groups
from seqmodels.evaluation.metrics import metric_of
from seqmodels.models import register_recorded
from seqmodels.utils import files
from seqmodels.utils.terminal import CONTROL_ESCAPES

SCHEMA: Final = "seqmodels.record/4"
SUMS_SUFFIX = ".sums.json.gz"
MAX_SUMS_BYTES = 2**26
"""Size limit of a file of sums, unzipped."""

# --------------------------------------------------------------------------------------- Schema

Name = Annotated[str, Field(pattern=r"^\w[\w. -]{0,63}$")]
"""Can become part of a file name."""
FileName = Annotated[str, Field(pattern=r"^\w[\w. -]{0,99}$")]
"""A name with a seed and an ending."""
Text = Annotated[str, Field(max_length=2_000)]
Count = Annotated[int, Field(ge=0, le=2**62)]
Size = Annotated[int, Field(ge=-(2**24), le=2**24)]
"""A number in a model's Config."""
Checksum = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""A SHA-256, as `sha256sum` prints it."""
Words = Annotated[list[Text], Field(max_length=500)]
Numbers = list[Annotated[int | float, Field(allow_inf_nan=False)]]
TwoNumbers = Annotated[list[Count], Field(min_length=2, max_length=2)]
Kind = Literal["length", "count", "distance", "context", "place"]
"""What the x axis of a test set shows: the length of the source, a number of things in it, the
distance back to what is needed, the length of the context before the same target, or the place of
the target in a text."""


class Strict(BaseModel):
    """Base class that accepts only known fields of the declared types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Interval(Strict):
    """A score with its 95 % interval; None where there are too few examples for one."""

    value: float | None
    low: float | None
    high: float | None


class Point(Strict):
    """One point of a learning curve."""

    step: Count
    tokens: Count
    seconds: float
    train_nats: float
    valid_nats: float
    valid_accuracy: float


class Event(Strict):
    """An event during training, such as a skipped batch or a spike of the loss."""

    step: Count
    kind: Literal["resumed", "skipped", "spike", "memory", "recipe", "trained"]
    what: Text


class Bucket(BaseModel):
    """The scores of the examples with low ≤ x ≤ high."""

    model_config = ConfigDict(extra="allow", strict=True)
    __pydantic_extra__: dict[Name, Interval]

    low: int
    high: int
    n: Count


class Test(Strict):
    """Scores on one test set."""

    __test__: ClassVar = False  # not a pytest class

    name: Name
    axis: Text
    """Label of the x axis, which is only drawn."""
    kind: Kind
    unit: Name
    """The plural noun for what x counts."""
    noun: Name = "examples"
    """The plural noun for its examples."""
    primary_metric: Name
    beam: Count | None = None
    """Beam width; 1: greedy; None: no free-running search."""
    max_train_length: int | None
    grouped_by: Text | None = None
    """The plural noun for the units resampled for the intervals; None: single examples."""
    baseline: Text | None = None
    """The knowledge that suffices for the score `baseline`; None: there is no such score."""
    overall: dict[Name, Interval]
    buckets: Annotated[list[Bucket], Field(min_length=1, max_length=1_000)]


class Alignment(Strict):
    """Weights over the source (alpha: target × source), and the gold links."""

    src: Words
    tgt: Words
    alpha: Annotated[list[Annotated[list[float], Field(max_length=500)]], Field(max_length=500)]
    gold: Annotated[list[TwoNumbers], Field(max_length=10_000)] | None


class Training(BaseModel):
    """Training settings; the other fields are those of TrainConfig."""

    model_config = ConfigDict(extra="allow", strict=True)
    __pydantic_extra__: dict[Name, float | str | bool | None]

    tokens: Count


class Data(BaseModel):
    """The training data; each task adds its own counts."""

    model_config = ConfigDict(extra="allow", strict=True)
    __pydantic_extra__: dict[Name, Count | Text]

    name: Text
    sha256: Text


class Provenance(Strict):
    """Date, commit, versions and hardware of the run."""

    date: Text
    commit: Text | None
    versions: dict[Name, Text]
    system: Text
    device: Text
    threads: Count
    """Threads of a process."""
    processes: Count = 1
    """Processes that trained the model together, in a record of version 0.1."""


class Speed(Strict):
    """Throughput."""

    train_tokens_per_s: float
    evaluate_sentences_per_s: float


class Arm(Strict):
    """The changes that a comparison made to a model."""

    varies: Name
    """The model or variant that it differs from."""
    label: Text
    """Its name in figures and tables."""
    sizes: dict[Name, Size | float | Text | bool | None]
    """Changed fields of its Config."""
    width: Count = 1
    """Its d_model as a multiple of the one that fits the task's number of parameters."""
    training: dict[Name, float | Text | bool]
    """Changed fields of TrainConfig."""


class Record(Strict):
    """One run."""

    version: Annotated[Literal["seqmodels.record/4"], Field(alias="schema")]
    task: Name
    model: Name
    arm: Arm | None = None
    """The changes that made this model; None: it is a model or a variant."""
    seed: Count
    settings: Annotated[dict[Name, Size | float | Text | bool | None], Field(alias="model_config")]
    train_config: Training
    beam: Count
    n_parameters: Count
    contrasts: list[Name] | None = None
    """The models from which its difference is tested; None: all others."""
    data: Data
    provenance: Provenance
    curve: Annotated[list[Point], Field(min_length=1, max_length=10_000)]
    events: Annotated[list[Event], Field(max_length=10_000)] = []
    tests: Annotated[list[Test], Field(min_length=1, max_length=50)]
    signatures: dict[Name, Text]
    alignment: Alignment | None
    source_bytes: Annotated[list[TwoNumbers], Field(max_length=100)]
    """(n, float32 bytes that the paper passes to the decoder for a source of n tokens)."""
    cache_bytes: Annotated[list[TwoNumbers], Field(max_length=100)]
    """(n, bytes that this implementation keeps for a source of n tokens)."""
    flops_per_token: float | None = None
    """Floating-point operations of training per target token; None: not counted."""
    analyses: dict[Name, Annotated[list[dict[Name, float | Text]], Field(max_length=50_000)]] = {}
    """Rows of named values that the task measured besides scores, by measurement."""
    speed: Speed
    peak_memory_bytes: Count
    train_s: float
    evaluate_s: float
    hypotheses: FileName
    weights_sha256: Checksum | None
    """SHA-256 of RUN.safetensors when it was written; None: not recorded."""
    rounded_from_sha256: Checksum | None = None
    """SHA-256 of the weights that were trained, where those of the run are rounded to float16."""
    intervals: dict[Name, Text] | None
    """How the interval of each score was computed; None: not recorded."""
    continued: dict[Name, Count | float | Text] | None = None
    """The finished run that this one began with, in a record of version 0.1."""


class Sums(Strict):
    """The terms of the primary metric on one test set; they hold no text of the corpus."""

    columns: Annotated[list[Numbers], Field(min_length=1, max_length=32)]
    """Their sums give the score: each has a number per example."""
    losses: Annotated[list[Numbers], Field(min_length=2, max_length=2)] | None = None
    """Nats and tokens of each example; None: not kept, or the primary metric has them."""
    x: Numbers
    groups: list[int] | None
    """Examples with the same number share a text."""
    examples: Checksum
    """Checksum of the test examples: runs that share it are compared example by example."""

    @property
    def terms(self) -> np.ndarray:
        """Return the columns as an array: (examples, columns)."""
        return np.array(self.columns, float).T


class SumsFile(Strict):
    """The test sets of a run whose primary metric is a score of sums."""

    version: Annotated[Literal["seqmodels.sums/1"], Field(alias="schema")]
    tests: dict[Name, Sums]


# -------------------------------------------------------------------------------------- Reading


def validate(kind: Any, value: Any) -> Any:
    """Return the value as an instance of `kind`; raise a one-line ValueError otherwise."""
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        first, *more = error.errors(include_url=False)
        field = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in first["loc"])
        place = f"{field.lstrip('.')[:200]}: " if field else ""
        message = f"{place}{first['msg'].removeprefix('Value error, ')}"
        raise ValueError(message + (f" (and {len(more)} more)" if more else "")) from None


def load_as(kind: Any, path: Path, what: str) -> Any:
    """Return a JSON file as an instance of `kind`; raise ValueError if it is not `what`."""
    value = escape_control_characters(files.read_json(path))
    try:
        return validate(kind, value)
    except ValueError as error:
        raise ValueError(f"{path} is not {what}: {error}") from None


def is_record(value: Any) -> bool:
    """Return whether a JSON value declares itself a record, of any version."""
    return isinstance(value, dict) and str(value.get("schema")).startswith("seqmodels.record/")


def describe_unknown_version(path: Path, value: dict[str, Any]) -> str | None:
    """Return an error message if this version cannot read a record's schema; None otherwise."""
    if (version := value["schema"]) == SCHEMA:
        return None
    return f"{path} has the schema {version[:60]!r}; this version reads {SCHEMA}"


def escape_control_characters(value: Any) -> Any:
    """Escape the control characters of a JSON value, which a terminal could execute."""
    if isinstance(value, str):
        return value.translate(CONTROL_ESCAPES)
    if isinstance(value, list):
        return [escape_control_characters(item) for item in value]
    if isinstance(value, dict):
        return {key: escape_control_characters(item) for key, item in value.items()}
    return value


def load(path: Path) -> dict[str, Any]:
    """Read one record.

    Raises ValueError if the file is missing or is not a valid record.
    """
    try:
        return parse(path, files.read_json(path))
    except FileNotFoundError:
        raise ValueError(f"{path}: no such record; name a RUN such as FOLDER/gpt-seed1") from None


def parse(path: Path, value: Any) -> dict[str, Any]:
    """Return the JSON value of a file as a record; raise ValueError if it is not a valid one."""
    if not is_record(value):
        raise ValueError(f"{path} is not a record ({SCHEMA})")
    if unknown := describe_unknown_version(path, value):
        raise ValueError(unknown)
    record: dict[str, Any] = escape_control_characters(value)
    try:
        validate(Record, record)
    except ValueError as error:
        raise ValueError(f"{path} is not a record: {error}") from None
    if arm := record.get("arm"):
        register_recorded(record["model"], arm)
    return record


def sums_path(folder: Path, record: Mapping[str, Any]) -> Path:
    """Return the path of a run's sums, named like its hypotheses."""
    return (folder / record["hypotheses"]).with_suffix(SUMS_SUFFIX)


def load_sums(path: Path, record: Mapping[str, Any]) -> dict[str, Sums]:
    """Return the sums of a run by test set; raise ValueError if they do not give its scores."""
    try:
        decompressor = zlib.decompressobj(16 + zlib.MAX_WBITS)
        text = decompressor.decompress(files.read(path), MAX_SUMS_BYTES)
        if not decompressor.eof:
            raise ValueError(f"cut short, or longer than {MAX_SUMS_BYTES:,} bytes")
        sums: dict[str, Sums] = validate(SumsFile, json.loads(text)).tests
        for test in record["tests"]:
            if (own := sums.get(test["name"])) is None:
                continue
            key = test["primary_metric"]
            columns = *own.columns, *(own.losses or ()), own.groups or own.x
            if {len(column) for column in columns} != {len(own.x)}:
                raise ValueError("columns, x and groups differ in length")
            score = metric_of(key).score_from_stats(own.terms.sum(axis=0))
            recorded = test["overall"][key]["value"]
            if not np.isclose(score, recorded, rtol=1e-6, atol=1e-9):
                raise ValueError(f"{key} is {score:.6g}, not {recorded:.6g}")
    except (KeyError, TypeError, ValueError, IndexError, RecursionError, zlib.error) as error:
        raise ValueError(f"{path} does not hold the sums of its record ({error})") from None
    return sums


# -------------------------------------------------------------------------------------- Writing


def save(path: Path, record: dict[str, Any], rows: Sequence[Row]) -> None:
    """Write the rows as JSONL, their sums, then the record: a record that exists is complete.

    Raises ValueError if the record is invalid (see Record), WriteError if it cannot be
    written.
    """
    text = json.dumps(record, ensure_ascii=False, indent=1) + "\n"
    validate(Record, json.loads(text))
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    files.write(path.with_suffix(".jsonl"), "".join(lines))
    save_sums(path.with_suffix(SUMS_SUFFIX), record, rows)
    files.write(path, text)


def save_sums(path: Path, record: Mapping[str, Any], rows: Sequence[Row]) -> None:
    """Write the terms of a run's primary metrics and the groups of its rows, gzipped."""
    tests = {}
    for test in record["tests"]:
        own_rows = [row for row in rows if row["set"] == test["name"]]
        tokenize = record["data"].get("bleu_tokenize", "13a")
        if (terms := metric_of(test["primary_metric"]).terms(own_rows, tokenize)) is None:
            continue
        examples = json.dumps([(row["x"], row["ref"], row.get("group")) for row in own_rows])
        groups = groups_of(own_rows)
        tests[test["name"]] = {
            "columns": [
                [int(number) if number.is_integer() else number for number in column]
                for column in terms.T.tolist()
            ],
            "losses": list_losses(own_rows, test["primary_metric"]),
            "x": [row["x"] for row in own_rows],
            "groups": groups and number_groups(groups),
            "examples": hashlib.sha256(examples.encode()).hexdigest(),
        }
    text = json.dumps({"schema": "seqmodels.sums/1", "tests": tests}, separators=(",", ":"))
    files.write(path, gzip.compress(text.encode(), mtime=0))


def list_losses(rows: Sequence[Row], primary_metric: str) -> list[list[float]] | None:
    """Return the nats and the tokens of each row; None if the primary metric holds them."""
    if metric_of(primary_metric).is_loss or "nats" not in rows[0]:
        return None
    return [[round(row["nats"], 5) for row in rows], [row["n_tokens"] for row in rows]]


# ------------------------------------------------------------------------------ Describing a run


@cache
def read_commit() -> str | None:
    """Return the commit of the running clone, with + if files differ; None outside a clone.

    The commit is read once: the clone can change later, but the loaded code does not. An installed
    copy inside another project's clone is outside, because git does not track this file.
    """
    git = ["git", "-C", str(Path(__file__).parent)]
    with suppress(OSError, subprocess.CalledProcessError):
        is_tracked = [*git, "ls-files", "--error-unmatch", Path(__file__).name]
        subprocess.run(is_tracked, capture_output=True, check=True)
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, check=True)
        code = ("--", ":/", ":(exclude,top)results")  # new records do not change the program
        status = [*git, "status", "--porcelain", "--untracked-files=no", *code]
        changed = subprocess.run(status, capture_output=True, check=True)
        return head.stdout.decode().strip() + ("+" if changed.stdout else "")
    return None


def read_processor_name() -> str:
    """Return the processor's name as reported by the system."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def provenance(device: str) -> dict[str, Any]:
    """Return the date, commit, versions and hardware of a run."""
    import torch

    packages = ("torch", "numpy", "sacrebleu", "tiktoken", "tokenizers")
    return {
        "date": datetime.date.today().isoformat(),
        "commit": read_commit(),
        "versions": {"python": platform.python_version(), **{p: version(p) for p in packages}},
        "system": f"{platform.system()} {platform.machine()}",
        "device": torch.cuda.get_device_name() if device == "cuda" else read_processor_name(),
        "threads": torch.get_num_threads(),
    }


def reset_peak_memory(device: str) -> None:
    """Reset the peak memory, where the system supports it."""
    if device == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats()
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def find_folders(folder: Path) -> list[Path]:
    """Return the folders with runs in a folder without any; otherwise, the folder itself."""
    folders = sorted({path.parent for path in folder.glob("*/*-seed*") if path.is_file()})
    return [folder] if any(folder.glob("*-seed*")) else folders or [folder]


def peak_memory_bytes(device: str) -> int:
    """Return the peak memory since the last reset: of the GPU, or of this process."""
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated()
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    if sys.platform == "win32":
        import psutil

        return psutil.Process().memory_info().peak_wset
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS
