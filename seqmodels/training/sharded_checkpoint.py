"""Checkpoints of a model whose weights are shared out: a folder to which every process writes.

RUN.checkpoint-NUMBER-CHECKSUM.sharded holds the tensors, as torch's distributed checkpoints in
safetensors, and STATE: everything else, and the SHA-256 of each file of tensors. The checksum in
the folder's name is that of STATE. Any number of processes can resume from it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException

from seqmodels.interface import SequenceModel
from seqmodels.training.checkpoint import (
    FOLDER,
    MAX_BYTES,
    MAX_TIME_SHARE,
    SCHEMA,
    STATE,
    Checkpoint,
    Checkpoints,
    digest,
    sha256,
)
from seqmodels.utils import files
from seqmodels.utils.world import world


class ShardedCheckpoints(Checkpoints):
    """The latest two; all processes must write and read them together."""

    def __init__(self, record: Path, every_s: float, model: SequenceModel):
        super().__init__(record, every_s)
        self.model = model

    def save(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Write the next checkpoint, and remove all but it and the previous one.

        Raises WriteError; the previous one is then still there.
        """
        since = time.monotonic()
        number = self.number(self.last) + 1 if self.last else 1
        part = self.folder / f".{self.run}.checkpoint-{number:06d}{files.PART}"
        world().from_first(lambda: files.remove(part))
        writer = dcp.HuggingFaceStorageWriter(str(part), save_distributed=True)
        try:
            dcp.save({key: t.detach() for key, t in tensors.items()}, storage_writer=writer)
        except CheckpointException as error:
            raise files.WriteError(
                f"{self.folder} did not take a checkpoint: {first_line(error)}; the previous one "
                "is kept"
            ) from error
        sums = world().merged(dict(enumerate_mine(part, digest)))
        self.last = world().from_first(lambda: self.finish(part, sums, state))
        self.due = time.monotonic() + max(self.every_s, (time.monotonic() - since) / MAX_TIME_SHARE)

    def finish(self, part: Path, sums: Mapping[int, str], state: Mapping[str, Any]) -> Path:
        """Give a written folder its name; remove older ones."""
        names = [path.name for path in tensor_files(part)]
        known = {
            "files": {name: sums[i] for i, name in enumerate(names)},
            "n_parameters": sum(p.numel() for p in self.model.parameters()),
        }
        content = json.dumps({"schema": SCHEMA, **state, **known}).encode()
        files.write(part / STATE, content)
        name = part.name.removeprefix(".").removesuffix(files.PART)
        path = files.rename(part, self.folder / f"{name}-{sha256(content)[:16]}{FOLDER}")
        self.remove_others(path)
        return path

    def agreed(self, log: Callable[[str], None], most_bytes: int = MAX_BYTES) -> Checkpoint | None:
        """Return the latest intact checkpoint, the same in all processes, or None.

        One in a single file is returned as well.
        """
        for path in world().from_first(self.paths):
            found = world().from_first(partial(self.intact, path, log, most_bytes))
            if found is None or path.suffix != FOLDER:
                if found is not None:
                    return found
            elif are_intact(path, found.state["files"]):
                self.last = path
                return found._replace(tensors=self.tensors(path))
            elif world().is_first:
                log(
                    f"{path} is damaged: a file does not have the checksum in {STATE}; going back "
                    "to the previous checkpoint"
                )
        return None

    def tensors(self, path: Path) -> dict[str, Tensor]:
        """Read this process's pieces of all tensors of a checkpoint."""
        reader = dcp.HuggingFaceStorageReader(str(path))
        weights, found = self.model.state_dict(), {}
        for key in reader.read_metadata().state_dict_metadata:
            kind, _, name = key.partition("/")
            if name not in weights:
                raise ValueError(f"{path} does not fit this run: {name} is unknown")
            found[key] = torch.zeros(()) if kind == "step" else torch.empty_like(weights[name])
        dcp.load(found, storage_reader=reader)
        return found


def are_intact(folder: Path, sums: Mapping[str, str]) -> bool:
    """Return whether the files of tensors are those of which a checkpoint's state has the sums."""
    digests = world().merged(dict(enumerate_mine(folder, digest)))
    names = [file.name for file in tensor_files(folder)]
    return {name: digests[i] for i, name in enumerate(names)} == sums


def tensor_files(folder: Path) -> list[Path]:
    """Return the files of tensors in a checkpoint's folder."""
    return sorted(folder.glob("*.safetensors"))


def enumerate_mine(folder: Path, find: Callable[[Path], Any]) -> list[tuple[int, Any]]:
    """Return what is found of this process's share of the files, by their places among all."""
    return [(i, find(file)) for i, file in world().mine([*enumerate(tensor_files(folder))])]


def first_line(error: CheckpointException) -> str:
    """Return why writing failed in the first process where it did."""
    why = next(iter(error.failures.values()), (error,))[0]
    return str(getattr(why, "strerror", None) or why).partition("\n")[0]
