"""The schema of records, which every reader validates. No torch.

A folder of records can come from a stranger or be edited by hand: a field that is missing, unknown,
of the wrong type or out of range raises an error that names it, before the record is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from seqmodels.models import register_recorded
from seqmodels.utils.files import read_json
from seqmodels.utils.terminal import CONTROL_ESCAPES

SCHEMA: Final = "seqmodels.record/4"

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


class Speed(Strict):
    """Throughput."""

    train_tokens_per_s: float
    evaluate_sentences_per_s: float


class Arm(Strict):
    """What was changed in a model."""

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
    """What a comparison changed in a model to make this one; None: it is a model or a variant."""
    seed: Count
    settings: Annotated[dict[Name, Size | float | Text | bool | None], Field(alias="model_config")]
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
    """Rows of named values that the task measured besides scores, by measurement."""
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
    if (version := value["schema"]) == SCHEMA:
        return None
    return f"{path} has the schema {version[:60]!r}; this version reads {SCHEMA}"


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
    """Read one record.

    Raises ValueError if the file is missing or is not a valid record.
    """
    try:
        return parse(path, read_json(path))
    except FileNotFoundError:
        raise ValueError(f"{path}: no such record; name a RUN such as FOLDER/gpt-seed1") from None


def parse(path: Path, value: Any) -> dict[str, Any]:
    """Return the JSON value of a file as a record; raise ValueError if it is not a valid one."""
    if not is_record(value):
        raise ValueError(f"{path} is not a record ({SCHEMA})")
    if unknown := unknown_version(path, value):
        raise ValueError(unknown)
    record: dict[str, Any] = cleaned(value)
    try:
        check(Record, record)
    except ValueError as error:
        raise ValueError(f"{path} is not a record: {error}") from None
    if arm := record.get("arm"):
        register_recorded(record["model"], arm)
    return record
