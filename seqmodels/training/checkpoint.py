"""The checkpoint from which a run resumes, and weights on disk: safetensors, never a pickle.

A checkpoint is one file, RUN.checkpoint.safetensors, which is replaced as a whole: tensors, and
everything else as JSON in the metadata.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.overrides import TorchFunctionMode

from seqmodels.interface import SequenceModel
from seqmodels.models import INFOS, SHA256, Fields, build, paper_of
from seqmodels.records.schema import Record
from seqmodels.utils import files

SUFFIX = ".checkpoint.safetensors"
EVERY_S = 30.0
"""Seconds between two checkpoints, which are more if writing one takes long."""
MAX_TIME_SHARE = 0.01
"""Limit of the share of time spent on writing checkpoints."""


class Checkpoint:
    """The latest checkpoint of a run, beside its record, RUN.json, with the run's settings."""

    def __init__(self, record: Path, settings: Fields | None = None):
        self.path, self.settings = record.with_suffix(SUFFIX), dict(settings or {})
        self.due = time.monotonic() + EVERY_S

    def is_due(self) -> bool:
        """Return whether the next checkpoint is due."""
        return time.monotonic() >= self.due

    def save(self, tensors: Mapping[str, Tensor], progress: Mapping[str, object]) -> None:
        """Replace the checkpoint.

        Raises OSError, and leaves the previous one in place.
        """
        since = time.monotonic()
        state = json.dumps({"settings": self.settings, "progress": progress})
        files.write(self.path, to_bytes(tensors, {"seqmodels": state}))
        now = time.monotonic()
        self.due = now + max(EVERY_S, (now - since) / MAX_TIME_SHARE)

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors, and the progress and the `settings` of the run, unchecked.

        Raises ValueError that names a file that is damaged, or is no checkpoint of ours.
        """
        try:
            with safe_open(self.path, "pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                return tensors, json.loads(file.metadata()["seqmodels"])
        except (SafetensorError, TypeError, KeyError, ValueError) as error:
            raise ValueError(f"{self.path} is damaged ({error}); --fresh starts again") from None


def save_weights(path: Path, weights: Mapping[str, Tensor]) -> str:
    """Write weights to PATH; return the SHA-256 of the file, for the record.

    Raises OSError.
    """
    content = to_bytes(weights)
    files.write(path, content)
    return hashlib.sha256(content).hexdigest()


def to_bytes(tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Return tensors in safetensors' format."""
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return safetensors.torch.save(on_cpu, metadata)


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


def load_model(record: Record, path: Path) -> SequenceModel:
    """Build the record's model with the weights at PATH, in evaluation mode.

    Raises ValueError if the weights are missing (results are committed without them), or are not
    those of the record, by the checksum that it contains, or if the model's class was changed. A
    rounded run's float16 weights are computed with in float32.
    """
    if not path.exists():
        raise ValueError(f"{path}: the weights of this run are missing; train it again")
    content = path.read_bytes()
    if (wanted := record.weights_sha256) and wanted != hashlib.sha256(content).hexdigest():
        raise ValueError(
            f"{path} is damaged or belongs to another run: its SHA-256 is not {wanted[:16]}…, "
            "as in its record; restore the file or train the run again"
        )
    sizes: dict[str, Any] = dict(record.settings)
    if record.base not in INFOS:
        raise ValueError(
            f"{path}: {record.base} is a model of your own; name its file with --model, or give it "
            "to seqmodels.models.register_file"
        )
    try:
        model = build(record.base, **sizes)
        check_class(record, model)
        model.load_state_dict(safetensors.torch.load(content))
    except (SafetensorError, RuntimeError, TypeError, ValueError) as error:
        fault = str(error)[:200]  # names of weights
        raise ValueError(f"{path} does not match its record; train it again: {fault}") from error
    return model.eval()


def check_class(record: Record, model: SequenceModel) -> None:
    """Raise ValueError if a default of the model's Config, or the file of its class, has changed.

    Earlier records hold neither.
    """
    place = paper_of(record.base).class_path
    now = {name: getattr(model.config, name, None) for name in record.defaults}
    changed = [f"{f} was {was}, is {now[f]}" for f, was in record.defaults.items() if now[f] != was]
    if (wanted := record.model_sha256) and wanted != SHA256.get(type(model).__module__):
        changed.append(f"its SHA-256 is no longer {wanted[:16]}…")
    if changed:
        file = Path(place.rpartition(":")[0]).name
        raise ValueError(f"{file} has changed: {'; '.join(changed)}")
