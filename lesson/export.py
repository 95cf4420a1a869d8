"""Write a trained run as ONNX: its graphs, one file of weights, the tokenizer, and a manifest.

    encode.onnx step.onnx …   (see graphs.py); all read their weights from the same file
    weights.bin               float32, or float16 that the graphs cast to float32
    vocabulary.json           the run's own
    manifest.json             what belongs to it: sizes of the state, checksums, versions

Before anything is written, the graphs are run by onnxruntime beside the model.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data
from torch import Tensor

from lesson import graphs
from lesson.graphs import Graphs
from seqmodels import inference
from seqmodels.interface import BOS, EOS, PAD, UNK, SequenceModel, mute_heads
from seqmodels.search import allowed_argmax
from seqmodels.utils import files

SCHEMA = "seqmodels.export/2"
WEIGHTS = "weights.bin"
ALIGNMENT_BYTES = 64
"""Tensors start in the file at multiples of this."""
MAX_INLINE = 64
"""Elements of the largest tensor that stays in its graph."""
CHECKED_SOURCES = (1, 2, 7, 30, 86)
"""Lengths in tokens of the sources on which graphs and model are compared."""
CHECKED_STEPS = 12
"""Target tokens generated for each of these sources."""
PACKAGES = ("seqmodels", "torch", "onnx", "onnxscript", "onnxruntime")
"""Packages whose versions are in the manifest."""
TOLERANCE = 1e-3
"""Largest difference of a logit, as a share of the largest; rounding gave an LSTM 1e-5."""


class Check(NamedTuple):
    """The result of comparing the graphs with the model."""

    n_tokens: int
    difference: float
    """Max |Δlogit| / max |logit|."""
    attention_difference: float
    """Max |Δweight|."""


def export(run: str | Path, out: Path, is_half: bool = False) -> tuple[list[Path], Check]:
    """Write an exported run to a folder; return the paths and the result of the check.

    With `is_half`, in float16. Raises ValueError like `contents_of`, and for a folder of others.
    """
    contents, checked = contents_of(run, is_half)
    files.claim_folder(out, "export")
    return [files.write(out / name, content) for name, content in contents.items()], checked


def contents_of(name: str | Path, is_half: bool) -> tuple[dict[str, bytes], Check]:
    """Return the files of an exported run by name, the manifest last.

    Raises ValueError for what is not a run, or a model whose graphs do not compute the same.
    """
    path = inference.find_record(name)
    run = inference.load(path)
    if is_half:
        for p in run.model.parameters():
            p.data = p.data.half().float()
    traced = graphs.trace(run.model)
    weights = deduplicate_weights(traced.protos.values(), is_half)
    contents = {
        **{f"{name}.onnx": proto.SerializeToString() for name, proto in traced.protos.items()},
        WEIGHTS: weights,
        "vocabulary.json": path.with_name("vocabulary.json").read_bytes(),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, content in contents.items():
            (Path(folder) / name).write_bytes(content)
        checked = check(run.model, traced, make_runner(Path(folder), traced.protos))
    manifest = describe_run(run, traced) | {
        "files": {name: hashlib.sha256(own).hexdigest() for name, own in contents.items()},
        "versions": {name: version(name) for name in PACKAGES},
        "precision": "float16" if is_half else "float32",
        "record": {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()},
        "checked": checked._asdict(),
    }
    contents["manifest.json"] = (json.dumps(manifest, indent=1) + "\n").encode()
    return contents, checked


def describe_run(run: inference.TrainedModel, traced: Graphs) -> dict[str, Any]:
    """Return what the manifest says of a run, of its state, and of its attention and heads."""
    model, record = run.model, run.record
    attending, n_heads = graphs.source_attentions(model), getattr(model.config, "n_heads", 1)
    attention = {
        "graph": traced.attention,
        "layers": len(attending),
        "heads": n_heads,
        "aligned_layers": [*range(len(attending))][model.alignment_layers],
        "mask_rows": [
            i for i, path in enumerate(traced.masked) if model.get_submodule(path) in attending
        ],
    }
    return {
        "schema": SCHEMA,
        "model": record.model,
        "task": record.task,
        "seed": record.seed,
        "run_weights_sha256": record.weights_sha256,
        "ids": {"PAD": PAD, "BOS": BOS, "EOS": EOS, "UNK": UNK},
        "case": record.data.get("case"),
        "source_end": record.data.get("source_end"),
        "max_tokens": 1 + most if (most := model.max_target(1)) < sys.maxsize else None,
        "state": [
            {"name": name, "dtype": str(dtype).removeprefix("torch."), "shape": shape}
            for name, dtype, shape in traced.state
        ],
        "attention": attention if traced.attention else None,
        "heads": {"attentions": traced.masked, "n": n_heads} if traced.masked else None,
    }


# --------------------------------------------------------------------------------- The weights


def deduplicate_weights(models: Iterable[onnx.ModelProto], is_half: bool) -> bytes:
    """Move the weights of all graphs into one file, each once; return its content."""
    content, places = bytearray(), dict[bytes, int]()
    for model in models:
        for tensor in model.graph.initializer:
            values, name = numpy_helper.to_array(tensor), tensor.name
            if values.dtype != np.float32 or values.size <= MAX_INLINE:
                continue
            with np.errstate(over="ignore"):
                halves = values.astype(np.float16)
            # a constant such as the frequencies of positions is not a rounded weight
            if is_half and (halves == values).all():
                tensor.CopyFrom(numpy_helper.from_array(halves, f"{name}.half"))
                cast = helper.make_node("Cast", [tensor.name], [name], to=TensorProto.FLOAT)
                model.graph.node.insert(0, cast)
            raw = tensor.raw_data
            if raw not in places:
                content += bytes(-len(content) % ALIGNMENT_BYTES)
                places[raw] = len(content)
                content += raw
            set_external_data(tensor, WEIGHTS, places[raw], len(raw))
            tensor.ClearField("raw_data")
    return bytes(content)


# ---------------------------------------------------------------------------------- The check

Run = Callable[[str, dict[str, np.ndarray]], list[Any]]
"""Run the graph of this name; inputs that it does not take are ignored."""


def make_runner(folder: Path, names: Iterable[str]) -> Run:
    """Return a function that runs the graphs of a folder with onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    graphs = {n: onnxruntime.InferenceSession(str(folder / f"{n}.onnx"), options) for n in names}

    def run(name: str, given: dict[str, np.ndarray]) -> list[Any]:
        taken = [i.name for i in graphs[name].get_inputs()]
        return graphs[name].run(None, {i: given[i] for i in taken})

    return run


@torch.inference_mode()
def check(model: SequenceModel, traced: Graphs, run: Run) -> Check:
    """Compare graphs and model on random sources, along the model's own greedy targets.

    For every second source, one head of each attention is muted. Raises ValueError if logits or
    attention differ.
    """
    draw, checks = torch.Generator().manual_seed(1), list[Check]()
    for i, n in enumerate(n for n in CHECKED_SOURCES if model.max_target(n) > 0):
        src = torch.randint(UNK + 1, model.config.vocab_size, (1, n), generator=draw)
        mask = torch.ones(len(traced.masked), getattr(model.config, "n_heads", 1))
        mask[:, i // 2 % mask.shape[1]] = (i + 1) % 2
        checks.append(check_source(model, traced, run, src, mask))
    n_tokens, worst, worst_weight = zip(*checks, strict=True)
    checked = Check(sum(n_tokens), max(worst), max(worst_weight))
    if max(checked[1:]) > TOLERANCE:
        raise ValueError(
            f"the exported graphs differ from the model: logits by {checked.difference:.1e} of the "
            f"largest, attention by {checked.attention_difference:.1e}"
        )
    return checked


def check_source(
    model: SequenceModel, traced: Graphs, run: Run, src: Tensor, mask: Tensor
) -> Check:
    """Compare graphs and model on one source, with the heads muted that are 0 in the mask."""
    names, muted = [part.name for part in traced.state], {"head_mask": mask.numpy()}
    n, worst, worst_weight, alphas = src.shape[1], 0.0, 0.0, list[np.ndarray]()
    outputs = [model.get_submodule(f"{path}.W_o") for path in traced.masked]
    with mute_heads(outputs, mask):
        state, tgt_in = model.encode(src, src != PAD), [BOS]
        graph_state = run("encode", {"src": src.numpy(), **muted})
        for _ in range(min(CHECKED_STEPS, model.max_target(n))):
            logits, state = model.step(torch.tensor(tgt_in[-1:]), state)
            given = dict(zip(names, graph_state, strict=False)) | muted  # attention comes last
            graph_logits, *graph_state = run("step", {"y": np.array(tgt_in[-1:]), **given})
            largest = float(logits.abs().max())
            worst = max(worst, max_difference(graph_logits, logits.numpy()) / largest)
            tgt_in.append(int(allowed_argmax(logits)))
            alphas += graph_state[len(names) :]
        written, pairs = torch.tensor([tgt_in[:-1]]), list[tuple[Any, Tensor]]()
        if traced.attention == "step":
            true = model.attention_weights(src, src != PAD, written)[0]
            pairs.append((np.stack([alpha[..., :n] for alpha in alphas], 2), true))
        if traced.masked:
            given = {"src": src.numpy(), "tgt_in": written.numpy(), **muted}
            maps = graphs.weights_of(model, traced.masked, src, written)
            pairs += zip(run("attend", given), maps, strict=True)
    for weights, true in pairs:
        worst_weight = max(worst_weight, max_difference(weights, true.numpy()))
    return Check(len(tgt_in) - 1, worst, worst_weight)


def max_difference(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest difference; infinite if one of them is not a number."""
    return float(np.nan_to_num(np.abs(a - b), nan=np.inf).max())
