"""What is in the files of a run: its record and the sums behind its scores.

A file can be edited by hand: a field that is missing, unknown, of the wrong type or out of range
raises an error that names it, before the record is used.
"""

from __future__ import annotations

from collections.abc import ItemsView
from typing import Annotated, ClassVar, Final, Generic, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from seqmodels.models import Value

SCHEMA: Final = "seqmodels.record/4"
OLD_FIELDS = ("continued", "flops_per_token", "intervals", "peak_memory_bytes")
"""Fields of earlier records, which are not read."""
Name = Annotated[str, Field(pattern=r"^\w[\w. -]{0,63}$")]
"""Can become part of a file name."""
FileName = Annotated[str, Field(pattern=r"^\w[\w. -]{0,99}$")]
"""A name with a seed and an ending."""
Count = Annotated[int, Field(ge=0, le=2**62)]
Checksum = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""A SHA-256, as `sha256sum` prints it."""
Numbers = list[Annotated[int | float, Field(allow_inf_nan=False)]]
TwoNumbers = Annotated[list[Count], Field(min_length=2, max_length=2)]
Kind = Literal["length", "count", "distance", "context", "place"]
"""What the x axis of a test set shows: the length of the source, a number of things in it, the
distance back to what is needed, the length of the context before the same target, or the place of
the target in a text."""

T = TypeVar("T")


class Strict(BaseModel):
    """Base class that accepts only known fields of the declared types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Open(BaseModel, Generic[T]):
    """Base class that accepts further fields of type T: `value[name]` and `value.get(name)`."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    __pydantic_extra__: dict[Name, T]

    def __getitem__(self, name: str) -> T:
        """Return a further field; raise KeyError if it is not there."""
        return self.__pydantic_extra__[name]

    def get(self, name: str, default: T | None = None) -> T | None:
        """Return a further field, or a default."""
        return self.__pydantic_extra__.get(name, default)

    def items(self) -> ItemsView[str, T]:
        """Return the further fields with their names."""
        return self.__pydantic_extra__.items()


class Interval(Strict):
    """A score with its 95 % interval, which is None where there are too few examples for one."""

    value: float
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
    """An event during training, such as that it was resumed."""

    step: Count
    kind: Name
    what: str


class Bucket(Open[Interval]):
    """The scores of the examples with low ≤ x ≤ high, by metric."""

    low: int
    high: int
    n: Count


class Test(Strict):
    """Scores on one test set."""

    __test__: ClassVar = False  # not a pytest class

    name: Name
    axis: str
    """Label of the x axis, which is only drawn."""
    kind: Kind
    unit: Name
    """The plural noun for what x counts."""
    primary_metric: Name
    beam: Count | None = None
    """Beam width; 1: greedy; None: no free-running search."""
    max_train_length: int | None
    noun: Name = "examples"
    """The plural noun for its examples."""
    grouped_by: str | None = None
    """The plural noun for the units resampled for the intervals; None: single examples."""
    baseline: str | None = None
    """The knowledge that suffices for the score `baseline`; None: there is no such score."""
    overall: dict[Name, Interval]
    buckets: Annotated[list[Bucket], Field(min_length=1)]


class Alignment(Strict):
    """Weights over the source (alpha: target × source), and the gold links."""

    src: list[str]
    tgt: list[str]
    alpha: list[list[float]]
    gold: list[TwoNumbers] | None


class Training(Open[Value]):
    """Training settings; the further fields are those of TrainConfig."""

    tokens: Count
    lr: float


class Data(Open[Count | str]):
    """The training data; each task adds its own counts."""

    name: str
    sha256: str

    def count(self, name: str) -> int:
        """Return a count; raise KeyError if the data have none of that name."""
        return int(self[name])

    @property
    def bleu_tokenize(self) -> str:
        """Return sacreBLEU's tokenizer for BLEU."""
        return str(self.get("bleu_tokenize", "13a"))


class Provenance(Strict):
    """Date, commit, versions and hardware of the run."""

    date: str
    commit: str | None
    versions: dict[Name, str]
    system: str
    device: str
    threads: Count
    """Threads of a process."""


class Speed(Strict):
    """Throughput."""

    train_tokens_per_s: float
    evaluate_sentences_per_s: float


class Arm(Strict):
    """The changes that a comparison made to a model."""

    varies: Name
    """The model or variant that it differs from."""
    label: str
    """Its name in figures and tables."""
    sizes: dict[Name, Value]
    """Changed fields of its Config."""
    width: Count = 1
    """Its d_model as a multiple of the one that fits the task's number of parameters."""
    training: dict[Name, Value]
    """Changed fields of TrainConfig."""


class Record(Strict):
    """One run; the fields are in the order of the file."""

    version: Annotated[Literal["seqmodels.record/4"], Field(alias="schema")]
    task: Name
    model: Name
    arm: Arm | None = None
    """The changes that made this model; None: it is a model or a variant."""
    seed: Count
    settings: Annotated[dict[Name, Value], Field(alias="model_config")]
    """The fields of its Config that the task's recipe or the command chose."""
    defaults: Annotated[dict[Name, Value], Field(alias="model_defaults")] = {}
    """All others, which had their class's defaults; none in earlier records."""
    model_sha256: Checksum | None = None
    """SHA-256 of the file of a model of one's own; None: it is a model of the package."""
    train_config: Training
    beam: Count
    n_parameters: Count
    contrasts: list[Name] | None = None
    """The models from which its difference is tested; None: all others."""
    data: Data
    provenance: Provenance
    curve: Annotated[list[Point], Field(min_length=1)]
    events: list[Event] = []
    tests: Annotated[list[Test], Field(min_length=1)]
    signatures: dict[Name, str]
    alignment: Alignment | None
    source_bytes: list[TwoNumbers]
    """(n, float32 bytes that the paper passes to the decoder for a source of n tokens)."""
    cache_bytes: list[TwoNumbers]
    """(n, bytes that this implementation keeps for a source of n tokens)."""
    train_s: float
    hypotheses: FileName
    analyses: dict[Name, list[dict[Name, int | float | str]]] = {}
    """Rows of named values that the task measured besides scores, by measurement."""
    speed: Speed
    evaluate_s: float
    weights_sha256: Checksum | None
    """SHA-256 of RUN.safetensors when it was written; None: not recorded."""
    files_sha256: dict[str, Checksum] = {}
    """Those of its hypotheses and sums, by the ends of their names; earlier records have none."""
    rounded_from_sha256: Checksum | None = None
    """SHA-256 of the weights that were trained, where those of the run are rounded to float16."""

    @model_validator(mode="before")
    @classmethod
    def drop_old_fields(cls, value: dict[str, object]) -> dict[str, object]:
        """Leave out the fields that no record has any more."""
        return {name: field for name, field in value.items() if name not in OLD_FIELDS}

    @property
    def base(self) -> str:
        """Return the listed model or variant: that which the arm changes, or the model itself."""
        return self.arm.varies if self.arm else self.model

    def __repr__(self) -> str:
        """Return what it is a record of: a run has ten thousand characters."""
        test = self.tests[0]
        score = f"{test.primary_metric} {test.overall[test.primary_metric].value:.4g}"
        about = f"{self.model}, seed {self.seed}: {self.n_parameters:,} parameters"
        return f"<Record {about}\n  {self.task} on {self.data.name}\n  {test.name}: {score}>"

    def size(self, name: str) -> int:
        """Return a size of the model, such as d_model; raise KeyError if its Config has none."""
        return int(self.settings[name] or 0)

    def test(self, name: str) -> Test | None:
        """Return the scores on the test set of this name."""
        return next((test for test in self.tests if test.name == name), None)


class Sums(Strict):
    """The terms of the primary metric on one test set; they hold no text of the corpus."""

    columns: Annotated[list[Numbers], Field(min_length=1)]
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


Model = TypeVar("Model", bound=BaseModel)


def validate(kind: type[Model], value: object) -> Model:
    """Return the value as an instance of `kind`; raise a one-line ValueError otherwise."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first, *more = error.errors(include_url=False)
        field = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in first["loc"])
        place = f"{field.lstrip('.')[:200]}: " if field else ""
        message = f"{place}{first['msg'].removeprefix('Value error, ')}"
        raise ValueError(message + (f" (and {len(more)} more)" if more else "")) from None
