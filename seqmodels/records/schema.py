"""The schema of records, which every reader validates. No torch.

A folder of records can come from a stranger or be edited by hand: a field that is missing, unknown,
of the wrong type or out of range raises an error that names it, before the record is used.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from seqmodels.catalog import entries
from seqmodels.utils.files import read_json
from seqmodels.utils.terminal import CONTROL_ESCAPES

SCHEMA = "seqmodels.record/3"
VERSIONS = ("seqmodels.record/1", "seqmodels.record/2", SCHEMA)
"""The versions that can be read."""

Name = Annotated[str, Field(pattern=r"^\w[\w. -]{0,63}$")]
"""Can become part of a file name."""
Text = Annotated[str, Field(max_length=2_000)]
Count = Annotated[int, Field(ge=0, le=2**62)]
Size = Annotated[int, Field(ge=-(2**24), le=2**24)]
"""A number in a model's Config."""
Checksum = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""A SHA-256, as `sha256sum` prints it."""
Row = Annotated[list[float], Field(max_length=500)]
Words = Annotated[list[Text], Field(max_length=500)]
TwoNumbers = Annotated[list[Count], Field(min_length=2, max_length=2)]


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
    kind: Literal["resumed", "skipped", "spike", "memory", "recipe"]
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
    noun: Name = "examples"
    """The plural noun for its examples."""
    primary_metric: Name
    beam: Count | None = None
    """Beam width; 1: greedy; None: no free-running search, or the run's own width."""
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
    alpha: Annotated[list[Row], Field(max_length=500)]
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
    """Processes that trained the model together."""
    fsdp: bool = False
    """Whether each of them held pieces of the weights."""
    compiled: bool = False
    """Whether the forward pass of a training step was compiled."""


class Speed(Strict):
    """Throughput."""

    train_tokens_per_s: float
    evaluate_sentences_per_s: float


class Record(Strict):
    """One run."""

    version: Annotated[Literal["seqmodels.record/3"], Field(alias="schema")]
    task: Name
    model: Name
    seed: Count
    settings: Annotated[dict[Name, Size | float | Text | bool], Field(alias="model_config")]
    train_config: Training
    beam: Count
    n_parameters: Count
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
    """Rows of named values that the task's analyses measured."""
    speed: Speed
    peak_memory_bytes: Count
    train_s: float
    evaluate_s: float
    hypotheses: Name
    weights_sha256: Checksum | None
    """SHA-256 of RUN.safetensors when it was written; None: not recorded."""
    rounded_from_sha256: Checksum | None = None
    """SHA-256 of the weights that were trained, where those of the run are rounded to float16."""
    intervals: dict[Name, Text] | None
    """How the interval of each score was computed; None: not recorded."""
    continued: dict[Name, Count | float | Text] | None
    """The run that this run continued; None: it was trained from scratch."""


def one_line(error: ValidationError) -> str:
    """Return the first error in one line, and how many more there are."""
    first, *more = error.errors(include_url=False)
    where = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in first["loc"])
    where = where.lstrip(".")[:200]
    known = {"missing": f"it lacks the field {where}", "extra_forbidden": f"unknown field {where}"}
    text = known.get(first["type"], f"{where}: {first['msg'].removeprefix('Value error, ')}")
    return text + (f" (and {len(more)} more)" if more else "")


def check(kind: Any, value: Any) -> Any:
    """Return the value as an instance of `kind`; raise a one-line ValueError otherwise."""
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        raise ValueError(one_line(error)) from None


def is_record(value: Any) -> bool:
    """Return whether a JSON value declares itself a record, of any version."""
    return isinstance(value, dict) and str(value.get("schema")).startswith("seqmodels.record/")


def unknown_version(path: Path, value: dict[str, Any]) -> str | None:
    """Return a sentence that names a record's version if it cannot be read; None otherwise."""
    if (version := value["schema"]) in VERSIONS:
        return None
    return f"{path} has the schema {version[:60]!r}; this version reads {', '.join(VERSIONS)}"


RENAMED = {
    "rate": "lr",
    "clip": "max_grad_norm",
    "headline": "primary_metric",
    "trained_to": "max_train_length",
    "bins": "buckets",
    "exact": "exact_match",
    "state_bytes": "cache_bytes",
}
"""Old names of fields in version 2 and of settings in its checkpoints -> current names."""


def renamed(value: Any) -> Any:
    """Return a JSON value of version 2 with the field names of this version."""
    if isinstance(value, list):
        return [renamed(item) for item in value]
    if not isinstance(value, dict):
        return value
    new = {RENAMED.get(key, key): renamed(item) for key, item in value.items()}
    if (metric := new.get("primary_metric")) in RENAMED:
        new["primary_metric"] = RENAMED[metric]
    return new


def upgrade(old: dict[str, Any]) -> dict[str, Any]:
    """Convert a record of an earlier version to this version.

    Fields that version 1 did not have become None. Settings that had only one value at the time get
    that value, so that runs can be compared by their settings. `source_bytes` is computed if the
    model is in the catalog.

    Raises ValueError with one line if the record is invalid.
    """
    record: dict[str, Any] = dict.fromkeys(("weights_sha256", "intervals", "continued"))
    record |= {"source_bytes": [], **renamed(old), "schema": SCHEMA}
    check(Record, record)
    with suppress(KeyError, TypeError):  # a model, or sizes, that the catalog does not know
        entry, sizes = entries()[record["model"]], record["model_config"]
        known = [[n, entry.source_bytes(sizes, n)] for n, _ in record["cache_bytes"]]
        record["source_bytes"] = known
    for test in record["tests"]:
        test["noun"] = "sentences" if record["task"] == "translation" else "examples"
    if old["schema"] == VERSIONS[0]:
        limits = {"max_tokens": 200, "max_tokens_test": 400}
        is_limited = "n_too_long_train" in record["data"]
        fixed = {"source_end": "none", "bleu_tokenize": "13a"}
        is_lowercase = ", lower-cased" in record["data"]["name"]
        fixed |= {"case": "lower"} if is_lowercase else {}
        record["data"] = fixed | (limits if is_limited else {}) | record["data"]
        record["train_config"] = {"precision": "float32"} | record["train_config"]
        for test in record["tests"]:
            drop_dependent_intervals(test)
    return record


def drop_dependent_intervals(test: dict[str, Any]) -> None:
    """Drop the overall intervals of version 1's `context` tests, but keep the values.

    These intervals treated the same continuation under different contexts as independent examples.
    """
    if test["name"] == "context":
        for interval in test["overall"].values():
            interval |= {"low": None, "high": None}


def cleaned(value: Any) -> Any:
    """Return a JSON value without control characters, which a terminal could execute."""
    if isinstance(value, str):
        return value.translate(CONTROL_ESCAPES)
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if isinstance(value, dict):
        return {key: cleaned(item) for key, item in value.items()}
    return value


def load(path: Path) -> dict[str, Any]:
    """Read one record; upgrade it if it is of an earlier version.

    Raises ValueError if the file is missing or is not a valid record.
    """
    try:
        record = cleaned(read_json(path))
    except FileNotFoundError:
        raise ValueError(f"{path}: no such record; name a RUN such as FOLDER/gpt-seed1") from None
    if not is_record(record):
        raise ValueError(f"{path} is not a record ({SCHEMA})")
    if unknown := unknown_version(path, record):
        raise ValueError(unknown)
    try:
        if record["schema"] != SCHEMA:
            return upgrade(record)
        check(Record, record)
    except ValueError as error:
        raise ValueError(f"{path} is not a record: {error}") from None
    return record
