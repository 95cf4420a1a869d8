"""The snapshots of a run, RUN.snapshots.json: what the model wrote and attended to as it learned.

The file is validated when it is read, like a record.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from seqmodels.records.io import load_as
from seqmodels.records.schema import Count, Name, Strict, TwoNumbers, validate
from seqmodels.utils import files
from seqmodels.utils.values import check_arguments

SCHEMA: Final = "seqmodels.snapshots/1"
SUFFIX = ".snapshots.json"

Weight = Annotated[float, Field(ge=0, le=1)]


class Sentence(Strict):
    """A test example whose target is generated in every snapshot."""

    src: str
    ref: str


class Axes(Strict):
    """The tokens of the example whose attention is kept, and its gold links."""

    src: list[str]
    tgt: list[str]
    gold: list[TwoNumbers] | None


class Snapshot(Strict):
    """The model after so many steps and target tokens."""

    step: Count
    tokens: Count
    hyps: list[str]
    """The target that it generates for each sentence."""
    alpha: list[list[Weight]] | None
    """Its attention: target × source; None for a model without attention."""
    scores: dict[Name, float] | None = None
    """Its scores, if the task follows any through training."""


class SnapshotsFile(Strict):
    """The snapshots of one run, the last of them of the model that is evaluated."""

    version: Annotated[Literal["seqmodels.snapshots/1"], Field(alias="schema")]
    sentences: Annotated[list[Sentence], Field(min_length=1)]
    alignment: Axes | None
    snapshots: Annotated[list[Snapshot], Field(min_length=1)]

    @model_validator(mode="after")
    def check_sizes(self) -> SnapshotsFile:
        """Raise ValueError unless each snapshot has a text per sentence and a weight per cell."""
        axes = self.alignment
        shape = None if axes is None else [len(axes.src)] * len(axes.tgt)
        for snapshot in self.snapshots:
            if len(snapshot.hyps) != len(self.sentences):
                raise ValueError(f"step {snapshot.step} does not have a text for each sentence")
            rows = snapshot.alpha
            if (None if rows is None else [len(row) for row in rows]) != shape:
                raise ValueError(f"the weights of step {snapshot.step} do not fit the tokens")
        return self


def path_of(record: Path) -> Path:
    """Return the path of the snapshots of a record's run."""
    return record.with_suffix(SUFFIX)


@check_arguments
def load(path: Path) -> SnapshotsFile:
    """Read the snapshots of a run.

    Raises ValueError that names the file if they are invalid; OSError as `open` does.
    """
    return load_as(SnapshotsFile, path, "a file of snapshots")


def save(path: Path, value: dict[str, object] | None) -> None:
    """Write the snapshots of a run; None: delete those of the run that it continues.

    Raises ValueError if they are invalid, WriteError if they cannot be written.
    """
    if value is None:
        path.unlink(missing_ok=True)
        return
    text = json.dumps({"schema": SCHEMA, **value}, ensure_ascii=False, separators=(",", ": "))
    validate(SnapshotsFile, json.loads(text))
    files.write(path, f"{text}\n")
