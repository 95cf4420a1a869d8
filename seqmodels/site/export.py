"""Write a trained run as ONNX: its graphs, one file of weights, the tokenizer, and a manifest.

    encode.onnx step.onnx …   (see graphs.py); all read their weights from the same file
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
from torch import Tensor

from seqmodels.comparison import trained
from seqmodels.interface import BOS, EOS, PAD, UNK, SequenceModel
from seqmodels.search import allowed_argmax
from seqmodels.site import graphs
from seqmodels.site.graphs import Graphs
from seqmodels.utils import files

SCHEMA = "seqmodels.export/1"
WEIGHTS = "weights.bin"
ALIGNMENT_BYTES = 64
"""The place of a tensor in the file is a multiple of it."""
MAX_INLINE = 64
"""Elements of the largest tensor that stays in its graph."""
CHECKED_SOURCES = (1, 2, 7, 30, 86)
"""Tokens of the sources that are checked."""
CHECKED_STEPS = 12
"""Tokens that are written for each of them."""
TOLERANCE = 1e-3
"""Largest difference of a logit, as a share of the largest logit.

Rounding alone makes 1e-5 of an LSTM that has not learned yet, after 86 words.
"""


class Check(NamedTuple):
    """How far the graphs are from the model."""

    n_tokens: int
    difference: float
    """Max |Δlogit| / max |logit|."""
    attention_difference: float
    """Max |Δweight| over the source."""


def export(run: Path, out: Path, is_half: bool = False) -> tuple[list[Path], Check]:
    """Write a run to a folder; return the paths, and how far the graphs are from the model.

    With `is_half`, weights are rounded to float16. Raises ValueError like `contents_of`.
    """
    contents, found = contents_of(run, is_half)
    return [files.write(out / name, content) for name, content in contents.items()], found


def contents_of(path: Path, is_half: bool) -> tuple[dict[str, bytes], Check]:
    """Return the files of an exported run by name, the manifest last.

    Raises ValueError for what is not a run, or a model whose graphs do not compute the same.
    """
    run = trained.load(path)
    model, record = run.model, run.record
    if is_half:
        for p in model.parameters():
            p.data = p.data.half().float()
    traced = graphs.trace(model)
    weights = deduplicate_weights([*traced.protos.values()], is_half)
    record_path = Path(path).with_name(Path(path).name.removesuffix(".json") + ".json")
    contents = {
        **{f"{name}.onnx": proto.SerializeToString() for name, proto in traced.protos.items()},
        WEIGHTS: weights,
        "tokenizer.json": files.read(record_path.with_name("tokenizer.json")),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, content in contents.items():
            (Path(folder) / name).write_bytes(content)
        found = check(model, Session(Path(folder), traced))
    layers = [*range(len(graphs.attentions(model)))]
    attention = {
        "graph": traced.attention,
        "layers": len(layers),
        "heads": getattr(model.config, "n_heads", 1),
        "aligned_layers": layers[model.aligned_layers],
    }
    manifest = {
        "schema": SCHEMA,
        "model": record["model"],
        "task": record["task"],
        "seed": record["seed"],
        "run_weights_sha256": record["weights_sha256"],
        "files": {name: sha256(content) for name, content in contents.items()},
        "ids": {"PAD": PAD, "BOS": BOS, "EOS": EOS, "UNK": UNK},
        "case": record["data"].get("case"),
        "source_end": record["data"].get("source_end"),
        "max_tokens": getattr(model.config, "n_positions", None),
        "state": [
            {"name": name, "dtype": str(dtype).removeprefix("torch."), "shape": shape}
            for name, dtype, shape in traced.state
        ],
        "attention": attention if traced.attention else None,
        "versions": {
            name: version(name)
            for name in ("seqmodels", "torch", "onnx", "onnxscript", "onnxruntime")
        },
        "precision": "float16" if is_half else "float32",
        "record": {"file": record_path.name, "sha256": sha256(files.read(record_path))},
        "checked": found._asdict(),
    }
    contents["manifest.json"] = (json.dumps(manifest, indent=1) + "\n").encode()
    return contents, found


def sha256(content: bytes) -> str:
    """Return a checksum."""
    return hashlib.sha256(content).hexdigest()


# --------------------------------------------------------------------------------- The weights


def deduplicate_weights(models: list[onnx.ModelProto], is_half: bool) -> bytes:
    """Move the weights of all graphs into one file, each once; return its content."""
    content, places = bytearray(), dict[bytes, int]()
    for graph in (graph for model in models for graph in graphs_in(model.graph)):
        for tensor in graph.initializer:
            values = numpy_helper.to_array(tensor)
            if values.dtype != np.float32 or values.size <= MAX_INLINE:
                continue
            with np.errstate(over="ignore"):
                halves = values.astype(np.float16)
            # a constant such as the frequencies of positions is not a rounded weight
            is_rounded = is_half and bool((halves == values).all())
            raw = (halves if is_rounded else values).tobytes()
            if raw not in places:
                content += bytes(-len(content) % ALIGNMENT_BYTES)
                places[raw] = len(content)
                content += raw
            point_to_file(tensor, places[raw], len(raw))
            if is_rounded:
                name = tensor.name
                tensor.name, tensor.data_type = f"{name}.half", TensorProto.FLOAT16
                cast = helper.make_node("Cast", [tensor.name], [name], to=TensorProto.FLOAT)
                graph.node.insert(0, cast)
    for model in models:
        drop_metadata(model)
    return bytes(content)


def point_to_file(tensor: TensorProto, offset: int, length: int) -> None:
    """Let a tensor take its values from the file of weights."""
    tensor.ClearField("raw_data")
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", WEIGHTS), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))


def graphs_in(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph, and those of its loops."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs_in(attribute.g)


def drop_metadata(model: onnx.ModelProto) -> None:
    """Delete where on this machine the code was that a graph was traced from."""
    del model.metadata_props[:]
    for graph in graphs_in(model.graph):
        del graph.value_info[:]
        for part in (graph, *graph.node, *graph.initializer, *graph.input, *graph.output):
            del part.metadata_props[:]
            part.doc_string = ""


# ------------------------------------------------------------------------------------ To run it


class Session:
    """The graphs of a folder, run by onnxruntime."""

    def __init__(self, folder: Path, traced: Graphs):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        self.graphs = {
            name: onnxruntime.InferenceSession(str(folder / f"{name}.onnx"), options)
            for name in traced.protos
        }
        self.names = [part.name for part in traced.state]
        self.taken = {given.name for given in self.graphs["step"].get_inputs()}

    def encode(self, src: list[int]) -> list[np.ndarray]:
        """Return the state after a source."""
        return self.graphs["encode"].run(None, {"src": np.array([src])})

    def step(self, y: int, state: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray], Any]:
        """Return the logits of the next token, the new state, and the attention, or None."""
        given = {"y": np.array([y]), **dict(zip(self.names, state, strict=True))}
        taken = {name: value for name, value in given.items() if name in self.taken}
        logits, *after = self.graphs["step"].run(None, taken)
        n = len(self.names)
        return logits[0], after[:n], after[n] if after[n:] else None

    def attend(self, src: Tensor, tgt_in: Tensor) -> np.ndarray:
        """Return the attention of all target tokens to the source."""
        return self.graphs["attend"].run(None, {"src": src.numpy(), "tgt_in": tgt_in.numpy()})[0]


@torch.inference_mode()
def check(model: SequenceModel, session: Session) -> Check:
    """Compare graphs and model on some sources, along the model's own greedy texts.

    Raises ValueError if logits or attention differ.
    """
    draw, n_tokens, worst, worst_weight = torch.Generator().manual_seed(1), 0, 0.0, 0.0
    for n in (n for n in CHECKED_SOURCES if model.max_target(n) > 0):
        src = torch.randint(UNK + 1, model.config.vocab_size, (1, n), generator=draw)
        state, tgt_in, alphas = model.encode(src, src != PAD), [BOS], []
        graph_state = session.encode(src[0].tolist())
        for _ in range(min(CHECKED_STEPS, model.max_target(n))):
            logits, state = model.step(torch.tensor(tgt_in[-1:]), state)
            graph_logits, graph_state, alpha = session.step(tgt_in[-1], graph_state)
            largest = float(logits.abs().max())
            worst = max(worst, max_difference(graph_logits, logits[0].numpy()) / largest)
            tgt_in.append(int(allowed_argmax(logits)))
            alphas.append(alpha)
        n_tokens += len(alphas)
        if graphs.attentions(model):
            written = torch.tensor([tgt_in[:-1]])
            true = model.attention_weights(src, src != PAD, written)[0].numpy()
            if "attend" in session.graphs:
                weights = session.attend(src, written)
            else:
                weights = np.stack([alpha[..., :n] for alpha in alphas], 2)
            worst_weight = max(worst_weight, max_difference(weights, true))
    if max(worst, worst_weight) > TOLERANCE:
        raise ValueError(
            f"the exported graphs differ from the model: logits by {worst:.1e} of the largest, "
            f"attention by {worst_weight:.1e}"
        )
    return Check(n_tokens, worst, worst_weight)


def max_difference(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest difference; infinite if one of them is not a number."""
    return float(np.nan_to_num(np.abs(a - b), nan=np.inf).max())
