"""Write a trained run as ONNX: two graphs, one file of weights, the tokenizer, and a manifest.

    encode.onnx step.onnx     (see graphs.py); both read their weights from the same file
    weights.bin               float32, or float16 that the graphs cast to float32
    tokenizer.json            the run's own
    manifest.json             what belongs to it: sizes of the state, checksums, versions

Before anything is written, the graphs are run by onnxruntime beside the model.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper

from seqmodels.comparison import trained
from seqmodels.comparison.trained import TrainedRun
from seqmodels.export import graphs
from seqmodels.export.graphs import Part
from seqmodels.interface import BOS, EOS, PAD, UNK, SequenceModel
from seqmodels.search import allowed_argmax
from seqmodels.utils import files

SCHEMA = "seqmodels.export/1"
WEIGHTS = "weights.bin"
ALIGNED = 64
"""Bytes of which the place of a tensor in the file is a multiple."""
FEW = 64
"""Elements of the largest tensor that stays in its graph."""
SOURCES = (1, 2, 7, 30, 86)
"""Tokens of the sources that are checked."""
STEPS = 12
"""Tokens that are written for each of them."""
TOLERANCE = 1e-3
"""Largest difference of a logit, as a share of the largest logit.

Rounding alone makes 1e-5 of an LSTM that has not learned yet, after 86 words.
"""


class Check(NamedTuple):
    """How far the graphs are from the model."""

    n_tokens: int
    difference: float
    """Of the logits, at most."""


def export(run: Path, out: Path, is_half: bool = False) -> tuple[list[Path], Check]:
    """Write a run to a folder; return the paths, and how far the graphs are from the model.

    With `is_half`, weights are rounded to float16.

    Raises ValueError for what is not a run, or a model whose graphs do not compute the same.
    """
    loaded = trained.load(run)
    if is_half:
        for p in loaded.model.parameters():
            p.data = p.data.half().float()
    made = graphs.trace(loaded.model)
    weights = share([made.encode, made.step], is_half)
    record = Path(run).with_name(Path(run).name.removesuffix(".json") + ".json")
    contents = {
        "encode.onnx": made.encode.SerializeToString(),
        "step.onnx": made.step.SerializeToString(),
        WEIGHTS: weights,
        "tokenizer.json": files.read(record.with_name("tokenizer.json")),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, content in contents.items():
            (Path(folder) / name).write_bytes(content)
        found = check(loaded.model, Session(Path(folder), made.state))
    known = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    manifest = manifest_of(loaded, made.state, known) | {
        "precision": "float16" if is_half else "float32",
        "record": {"file": record.name, "sha256": hashlib.sha256(files.read(record)).hexdigest()},
        "checked": found._asdict(),
    }
    contents["manifest.json"] = (json.dumps(manifest, indent=1) + "\n").encode()
    return [files.write(out / name, content) for name, content in contents.items()], found


def manifest_of(loaded: TrainedRun, state: list[Part], sums: dict[str, str]) -> dict[str, Any]:
    """Return what a program has to know to run the graphs."""
    made = loaded.record
    return {
        "schema": SCHEMA,
        "model": made["model"],
        "task": made["task"],
        "seed": made["seed"],
        "trained_weights_sha256": made["weights_sha256"],
        "files": sums,
        "ids": {"PAD": PAD, "BOS": BOS, "EOS": EOS, "UNK": UNK},
        "case": made["data"].get("case"),
        "source_end": made["data"].get("source_end"),
        "max_tokens": getattr(loaded.model.config, "n_positions", None),
        "state": [
            {"name": p.name, "dtype": str(p.dtype).removeprefix("torch."), "shape": [*p.shape]}
            for p in state
        ],
        "versions": {
            name: version(name)
            for name in ("seqmodels", "torch", "onnx", "onnxscript", "onnxruntime")
        },
    }


# --------------------------------------------------------------------------------- The weights


def share(models: list[onnx.ModelProto], is_half: bool) -> bytes:
    """Move the weights of all graphs into one file, each once; return its content."""
    content, places = bytearray(), dict[bytes, int]()
    for model in models:
        for graph in graphs_in(model.graph):
            for tensor in graph.initializer:
                values = numpy_helper.to_array(tensor)
                if values.dtype != np.float32 or values.size <= FEW:
                    continue
                raw = (values.astype(np.float16) if is_half else values).tobytes()
                if raw not in places:
                    content += bytes(-len(content) % ALIGNED)
                    places[raw] = len(content)
                    content += raw
                name, dims = tensor.name, [*tensor.dims]
                tensor.Clear()
                tensor.name, tensor.dims[:] = name, dims
                tensor.data_type = TensorProto.FLOAT
                refer(tensor, places[raw], len(raw))
                if is_half:
                    tensor.name, tensor.data_type = f"{name}.half", TensorProto.FLOAT16
                    cast = helper.make_node("Cast", [tensor.name], [name], to=TensorProto.FLOAT)
                    graph.node.insert(0, cast)
        forget(model)
    return bytes(content)


def refer(tensor: TensorProto, offset: int, length: int) -> None:
    """Let a tensor take its values from the file of weights."""
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", WEIGHTS), ("offset", offset), ("length", length)):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)


def graphs_in(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph, and those of its loops."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs_in(attribute.g)


def forget(model: onnx.ModelProto) -> None:
    """Delete where the code was that a graph was traced from."""
    del model.metadata_props[:]
    for graph in graphs_in(model.graph):
        del graph.value_info[:]
        for part in (graph, *graph.node, *graph.initializer, *graph.input, *graph.output):
            del part.metadata_props[:]
            part.doc_string = ""


# ------------------------------------------------------------------------------------ To run it


class Session:
    """The graphs of a folder, run by onnxruntime."""

    def __init__(self, folder: Path, state: list[Part]):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        self.encoder, self.stepper = (
            onnxruntime.InferenceSession(str(folder / f"{name}.onnx"), options)
            for name in ("encode", "step")
        )
        self.names = [part.name for part in state]
        self.taken = {given.name for given in self.stepper.get_inputs()}

    def encode(self, src: list[int]) -> list[np.ndarray]:
        """Return the state after a source."""
        return self.encoder.run(None, {"src": np.array([src])})

    def step(self, y: int, state: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the logits of the next token, and the new state."""
        given = dict(zip(self.names, state, strict=True)) | {"y": np.array([y])}
        known = {name: value for name, value in given.items() if name in self.taken}
        logits, *after = self.stepper.run(None, known)
        return logits[0], after


@torch.inference_mode()
def check(model: SequenceModel, session: Session) -> Check:
    """Compare the logits of graphs and model on some sources, along the model's own greedy texts.

    Raises ValueError if they differ.
    """
    draw, n_tokens, worst = torch.Generator().manual_seed(1), 0, 0.0
    for n in (n for n in SOURCES if model.max_target(n) > 0):
        n_steps = min(STEPS, model.max_target(n))
        src = torch.randint(UNK + 1, model.config.vocab_size, (1, n), generator=draw)
        state, y = model.encode(src, src != PAD), torch.tensor([BOS])
        others = session.encode(src[0].tolist())
        for _ in range(n_steps):
            logits, state = model.step(y, state)
            found, others = session.step(int(y), others)
            difference = (torch.from_numpy(found) - logits[0]).abs().max() / logits.abs().max()
            worst = max(worst, float(difference.nan_to_num(torch.inf)))
            y = allowed_argmax(logits)
        n_tokens += n_steps
    if worst > TOLERANCE:
        raise ValueError(f"the exported graphs differ from the model by {worst:.1e} of a logit")
    return Check(n_tokens, worst)
