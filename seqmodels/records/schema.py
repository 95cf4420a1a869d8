"""What a record may say, field by field: checked when one is read, by whoever reads it. No torch.

A folder of records may come from a stranger, or from an editor: every field that is missing,
unknown, of another type or beyond all measure is named, and nothing is drawn or built from it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from seqmodels.catalog import CATALOG
from seqmodels.utils.files import read_json
from seqmodels.utils.terminal import CONTROL_ESCAPES

SCHEMA = "seqmodels.record/3"
VERSIONS = ("seqmodels.record/1", "seqmodels.record/2", SCHEMA)
"""The versions that are read."""

Name = Annotated[str, Field(pattern=r"^\w[\w. -]{0,63}$")]
"""May become part of a file's name."""
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
    """Known fields of known types alone."""

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
    """Something that a training met: resumed, skipped (a batch), spike (a loss), memory, recipe."""

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

    __test__: ClassVar = False  # no test of pytest's

    name: Name
    axis: Text
    noun: Name = "examples"
    """What its examples are called, in the plural."""
    primary_metric: Name
    beam: Count | None = None
    """Width of the search; 1: greedy; None where targets are not written freely, or the run's."""
    max_train_length: int | None
    grouped_by: Text | None = None
    """What was drawn as one for the intervals, in the plural; None: each example on its own."""
    baseline: Text | None = None
    """What knowledge reaches the score `baseline`; None: there is no such score."""
    overall: dict[Name, Interval]
    buckets: Annotated[list[Bucket], Field(min_length=1, max_length=1_000)]


class Alignment(Strict):
    """Weights over the source (alpha: target × source), and the gold links."""

    src: Words
    tgt: Words
    alpha: Annotated[list[Row], Field(max_length=500)]
    gold: Annotated[list[TwoNumbers], Field(max_length=10_000)] | None


class Training(BaseModel):
    """How it was trained; the rest is TrainConfig's."""

    model_config = ConfigDict(extra="allow", strict=True)
    __pydantic_extra__: dict[Name, float | str | bool | None]

    tokens: Count


class Data(BaseModel):
    """What it was trained on; a task adds counts."""

    model_config = ConfigDict(extra="allow", strict=True)
    __pydantic_extra__: dict[Name, Count | Text]

    name: Text
    sha256: Text


class Provenance(Strict):
    """Where, when and with what it was made."""

    date: Text
    commit: Text | None
    versions: dict[Name, Text]
    system: Text
    device: Text
    threads: Count


class Speed(Strict):
    """How fast it was."""

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
    """(n, bytes, in float32, that the paper hands over for a source of n tokens)."""
    cache_bytes: Annotated[list[TwoNumbers], Field(max_length=100)]
    """(n, bytes that this implementation keeps for it)."""
    speed: Speed
    peak_memory_bytes: Count
    train_s: float
    evaluate_s: float
    hypotheses: Name
    weights_sha256: Checksum | None
    """Of RUN.safetensors as it was written; None: not recorded."""
    intervals: dict[Name, Text] | None
    """How the interval of each score was computed; None: not recorded."""
    continued: dict[Name, Count | float | Text] | None
    """What a run that was trained further began from; None: a run that began by itself."""


def one_line(error: ValidationError) -> str:
    """Return what is wrong with the first field at fault, and how many more are."""
    first, *more = error.errors(include_url=False)
    where = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in first["loc"])
    where = where.lstrip(".")[:200]
    told = {"missing": f"it lacks the field {where}", "extra_forbidden": f"unknown field {where}"}
    what = told.get(first["type"], f"{where}: {first['msg'].removeprefix('Value error, ')}")
    return what + (f" (and {len(more)} more)" if more else "")


def check(kind: Any, value: Any) -> Any:
    """Return the value as the dataclass or model that it is to be; raise ValueError, one line."""
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        raise ValueError(one_line(error)) from None


def is_record(value: Any) -> bool:
    """Return whether JSON calls itself a record, of whatever version."""
    return isinstance(value, dict) and str(value.get("schema")).startswith("seqmodels.record/")


def unknown_version(path: Path, value: dict[str, Any]) -> str | None:
    """Return a sentence that names a record's version if it is not read here; else None."""
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
"""Fields of version 2 and settings of its checkpoints, and what they are called now."""


def renamed(value: Any) -> Any:
    """Return JSON of version 2 with the field names of this version."""
    if isinstance(value, list):
        return [renamed(item) for item in value]
    if not isinstance(value, dict):
        return value
    new = {RENAMED.get(key, key): renamed(item) for key, item in value.items()}
    if (metric := new.get("primary_metric")) in RENAMED:
        new["primary_metric"] = RENAMED[metric]
    return new


def upgrade(old: dict[str, Any]) -> dict[str, Any]:
    """Turn a record of an earlier version into one of this version.

    What version 1 did not record becomes None, and a setting that had one value alone at the time
    gets that value, so that runs can be compared by their settings. What the paper hands over is
    computed, where the catalog has the model.

    Raises ValueError, one line, for what is not a record.
    """
    record: dict[str, Any] = dict.fromkeys(("weights_sha256", "intervals", "continued"))
    record |= {"source_bytes": [], **renamed(old), "schema": SCHEMA}
    check(Record, record)
    with suppress(KeyError, TypeError):  # a model, or sizes, that the catalog does not know
        entry, sizes = CATALOG[record["model"]], record["model_config"]
        known = [[n, entry.source_bytes(sizes, n)] for n, _ in record["cache_bytes"]]
        record["source_bytes"] = known
    for test in record["tests"]:
        test["noun"] = "sentences" if record["task"] == "translation" else "examples"
    if old["schema"] == VERSIONS[0]:
        limits = {"max_tokens": 200, "max_tokens_test": 400}
        is_limited = "n_too_long_train" in record["data"]
        fixed = {"source_end": "none", "bleu_tokenize": "13a"}
        record["data"] = fixed | (limits if is_limited else {}) | record["data"]
        record["train_config"] = {"precision": "float32"} | record["train_config"]
        for test in record["tests"]:
            drop_dependent_intervals(test)
    return record


def drop_dependent_intervals(test: dict[str, Any]) -> None:
    """Drop the overall intervals of version 1's `context` tests; the values stay.

    They counted the same continuation once for every context, as if these were independent.
    """
    if test["name"] == "context":
        for interval in test["overall"].values():
            interval |= {"low": None, "high": None}


def cleaned(value: Any) -> Any:
    """Return JSON whose texts can be shown: a terminal takes nothing in them for a command."""
    if isinstance(value, str):
        return value.translate(CONTROL_ESCAPES)
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if isinstance(value, dict):
        return {key: cleaned(item) for key, item in value.items()}
    return value


def load(path: Path) -> dict[str, Any]:
    """Read one record; one of an earlier version is upgraded.

    Raises ValueError if there is none at the path, or something else is.
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
