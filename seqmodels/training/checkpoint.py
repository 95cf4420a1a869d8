"""Checkpoints, from which a run resumes, and weights on disk: safetensors, never a pickle.

A checkpoint is one file, RUN.checkpoint-NUMBER-CHECKSUM.safetensors: tensors, and everything else
as JSON in the metadata. Its name contains the beginning of its content's SHA-256, which reveals a
torn or corrupted file; the previous checkpoint is kept for that case.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor
from torch.overrides import TorchFunctionMode

from seqmodels.interface import SequenceModel
from seqmodels.models import Fields, build
from seqmodels.records.schema import Record
from seqmodels.training.trainer import check_shapes
from seqmodels.utils import files
from seqmodels.utils.terminal import defer_signals

SCHEMA = "seqmodels.checkpoint/1"
MAX_TIME_SHARE = 0.01
"""Limit of the share of time spent on writing checkpoints, however often they are due."""


class Checkpoint(NamedTuple):
    """A checkpoint read from disk."""

    path: Path
    tensors: dict[str, Tensor]
    state: dict[str, Any]
    """Everything except the tensors, unchecked, with the `settings` of its run."""


class Checkpoints:
    """The latest two checkpoints of a run, beside its record, RUN.json, with the run's settings."""

    def __init__(self, record: Path, every_s: float = 30.0, settings: Fields | None = None):
        self.folder, self.run, self.every_s = record.parent, record.stem, every_s
        self.settings = dict(settings or {})
        self.last: Path | None = None
        self.due = time.monotonic() + every_s

    def paths(self) -> list[Path]:
        """Return the run's checkpoints, intact or damaged, the latest first."""
        return sorted(self.folder.glob(f"{self.run}.checkpoint-*.safetensors"), reverse=True)

    def number(self, path: Path) -> int:
        """Return the number of a checkpoint."""
        return int(path.stem.split("-")[-2])

    def is_due(self) -> bool:
        """Return whether the next checkpoint is due."""
        return time.monotonic() >= self.due

    def save(self, tensors: Mapping[str, Tensor], state: Mapping[str, object]) -> None:
        """Write the next checkpoint, and remove all except it and the previous one.

        Raises OSError, and leaves the previous checkpoint in place.
        """
        since = time.monotonic()
        metadata = {"seqmodels": json.dumps({"schema": SCHEMA, "settings": self.settings, **state})}
        number = self.number(self.last) + 1 if self.last else 1
        with defer_signals():
            content = to_bytes(tensors, metadata)
            name = f"{self.run}.checkpoint-{number:06d}-{sha256(content)[:16]}.safetensors"
            path = files.write(self.folder / name, content)
            for old in self.paths():
                if old not in (path, self.last):
                    old.unlink(missing_ok=True)
            self.last, now = path, time.monotonic()
            self.due = now + max(self.every_s, (now - since) / MAX_TIME_SHARE)

    def latest(self, log: Callable[[str], None] = print) -> Checkpoint | None:
        """Return the latest intact checkpoint, or None; report the damaged ones."""
        for path in self.paths():
            try:
                checkpoint = read(path)
            except (ValueError, OSError) as error:
                log(f"{error}; going back to the previous checkpoint")
                continue
            self.last = path
            return checkpoint
        return None

    def remove(self) -> None:
        """Remove all checkpoints: the run is recorded, or starts again."""
        for path in self.paths():
            path.unlink(missing_ok=True)


def read(path: Path) -> Checkpoint:
    """Read a checkpoint.

    Raises ValueError that names the file if its content does not match its name.
    """
    content = path.read_bytes()
    if sha256(content)[:16] != path.stem.rpartition("-")[2]:
        raise ValueError(f"{path} is damaged: its content does not have the checksum in its name")
    n = int.from_bytes(content[:8], "little")  # the header's length: safetensors' format
    state = json.loads(json.loads(content[8 : 8 + n])["__metadata__"]["seqmodels"])
    if state.pop("schema") != SCHEMA:
        raise ValueError(f"{path} is of another version; this version reads {SCHEMA}")
    return Checkpoint(path, safetensors.torch.load(content), state)


def save_weights(path: Path, weights: Mapping[str, Tensor]) -> str:
    """Write weights to PATH; return the SHA-256 of the file, for the record.

    Raises OSError.
    """
    content = to_bytes(weights)
    files.write(path, content)
    return sha256(content)


def to_bytes(tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Return tensors in safetensors' format."""
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return safetensors.torch.save(on_cpu, metadata)


def sha256(content: bytes) -> str:
    """Return the SHA-256, as `sha256sum` prints it."""
    return hashlib.sha256(content).hexdigest()


# ------------------------------------------------------------------------------ Models from weights


class SkipInit(TorchFunctionMode):
    """Leave weights as they are instead of drawing them.

    On the meta device, where they have no values, a draw imports torch's compiler: a second.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Skip functions that fill a tensor with random numbers."""
        if getattr(func, "__name__", "") in ("normal_", "uniform_"):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


@contextmanager
def on_meta() -> Iterator[None]:
    """Build models that have shapes alone: no memory, no random numbers."""
    with torch.device("meta"), SkipInit():
        yield


def load_model(record: Record, path: Path) -> SequenceModel:
    """Build the record's model with the weights at PATH, in evaluation mode.

    Raises ValueError if the weights are missing (results are committed without them), or are not
    those of the record, by the checksum that it contains. A rounded run's float16 weights are
    computed with in float32.
    """
    if not path.exists():
        raise ValueError(f"{path}: the weights of this run are missing; train it again")
    content = path.read_bytes()
    if (wanted := record.weights_sha256) and wanted != sha256(content):
        raise ValueError(
            f"{path} is damaged or belongs to another run: its SHA-256 is not {wanted[:16]}…, "
            "as in its record; restore the file or train the run again"
        )
    sizes: dict[str, Any] = dict(record.settings)
    try:
        weights = safetensors.torch.load(content)
        if record.rounded_from_sha256:
            weights = {name: tensor.float() for name, tensor in weights.items()}
        if sizes.get("n_layers", 1) > len(weights):  # each would be built
            raise ValueError(f"{len(weights)} tensors cannot be {sizes['n_layers']} layers")
        with on_meta():  # no more memory than the file has bytes before names and shapes fit
            check_shapes(weights, build(record.base, **sizes).state_dict())
    except (SafetensorError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"{path} does not match its record; train it again: {error}") from error
    if not all(tensor.isfinite().all() for tensor in weights.values()):
        raise ValueError(f"{path} contains non-finite numbers; train the run again")
    model = build(record.base, **sizes)
    model.load_state_dict(weights)
    return model.eval()
