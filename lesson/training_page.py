"""Build the page in which three models are trained: each step is an ONNX graph.

    src (B,S), tgt (B,S+2), theta, m, v (P,), t () -> loss (), best (B,S+1), theta', m', v', t'

A step is the chapter's forward pass, the mean cross-entropy in nats, its gradient, and Adam. All P
parameters are one vector, `theta`. A row of `tgt` is BOS, the target, EOS and PADs; `best` are the
tokens that the model finds likeliest after BOS, given those of `tgt` before.
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import torch
from torch import Tensor
from torch._decomp import core_aten_decompositions
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector

from lesson import graphs, runtime
from seqmodels.interface import BOS, EOS, PAD, UNK, SequenceModel
from seqmodels.models import build, paper_of
from seqmodels.report import style

D = 48
SIZES: dict[str, dict[str, int]] = {
    "rnn_encdec": {"d_model": 64, "d_embed": D // 2, "d_maxout": D // 2},
    "bahdanau": {"d_model": D, "d_embed": D // 2, "d_maxout": D // 2, "d_align": D},
    "transformer": {"d_model": D, "d_ff": 176, "n_heads": 2, "n_layers": 1},
}
"""The models of the page, with about equally many parameters."""
ALPHABET = "abcdefghij"
"""The words of the page's sentences."""
N_PAIRS, MAX_WORDS = 32, 12
"""Pairs of a batch, and words of the longest sentence."""
LEARNING_RATE, BETAS, EPS = 0.005, (0.9, 0.98), 1e-8
SEED, MAX_STEPS = 1, 1_000
STATE = ("theta", "m", "v", "t")
"""Names of weights, moments and number of steps, as a graph takes and returns them."""


def describe(files: Mapping[str, str]) -> dict[str, Any]:
    """Return the content of the page; `files` are addresses of parts that it shares.

    Raises ValueError without npm, or if a model has no graph.
    """
    worker, wasm, versions = runtime.build_runtime()
    compress, runs = partial(gzip.compress, mtime=0), []
    parts = {"worker": compress(worker.encode()), "wasm": compress(wasm)}
    for i, (name, model) in enumerate(make_models().items()):
        line_style = style.line_style_of(name)
        theta = parameters_to_vector(model.parameters()).detach()
        parts[f"theta-{i}"] = compress(theta.numpy().tobytes())
        parts[f"graph-{i}"] = compress(trace(model).SerializeToString())
        runs.append({
            "label": line_style.label, "colour": line_style.colour,
            "is_vector": paper_of(name).memory == "vector", "n_parameters": len(theta),
        })  # fmt: skip
    data = {
        "runs": runs, "alphabet": ALPHABET, "n_pairs": N_PAIRS, "max_words": MAX_WORDS,
        "seed": SEED, "max_steps": MAX_STEPS, "files": files,
        "ids": {"PAD": PAD, "BOS": BOS, "EOS": EOS, "first": UNK + 1},
    }  # fmt: skip
    parts = {name: part for name, part in parts.items() if name not in files}
    return {"data": data, "parts": parts, "versions": versions, "learning_rate": LEARNING_RATE}


def make_models() -> dict[str, SequenceModel]:
    """Return the models of the page, with their own initial weights and without dropout."""
    models = {}
    for name, sizes in SIZES.items():
        torch.manual_seed(SEED)
        models[name] = build(name, UNK + 1 + len(ALPHABET), **sizes).eval()
    return models


def trace(model: SequenceModel) -> onnx.ModelProto:
    """Return the graph of a step, for batches of N_PAIRS and MAX_WORDS."""
    theta = parameters_to_vector(model.parameters()).detach()
    src = torch.full((N_PAIRS, MAX_WORDS), EOS)
    tgt = torch.full((N_PAIRS, MAX_WORDS + 2), EOS)
    given = src, tgt, theta, torch.zeros_like(theta), torch.zeros_like(theta), torch.zeros(())
    decompositions: Any = core_aten_decompositions()
    traced = make_fx(lambda *given: train_step(model, *given), decompositions)(*given)
    names, after = ["src", "tgt", *STATE], [f"{name}'" for name in STATE]
    module, fixed = graphs.TracedFunction(model, traced), [dict[int, Any]() for _ in given]
    # the optimiser of the exporter takes EPS for zero; that of onnxruntime does not
    proto = graphs.to_onnx(module, given, fixed, names, ["loss", "best", *after], optimize=False)
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(Path(folder) / "step.onnx")
        onnxruntime.InferenceSession(proto.SerializeToString(), options)
        return onnx.load(options.optimized_model_filepath)


def train_step(
    model: SequenceModel, src: Tensor, tgt: Tensor, *state: Tensor
) -> tuple[Tensor, ...]:
    """Return loss, likeliest tokens and the next state; see above."""
    theta, m, v, t = state
    theta, tgt_out = theta.detach().requires_grad_(), tgt[:, 1:]
    names, own = zip(*model.named_parameters(), strict=True)
    flat = theta.split([p.numel() for p in own])
    params = {name: x.view(p.shape) for name, x, p in zip(names, flat, own, strict=True)}
    logits = functional_call(model, params, (src, src != PAD, tgt[:, :-1]))
    loss = F.cross_entropy(logits.flatten(0, 1), tgt_out.flatten(), ignore_index=PAD)
    (g,) = torch.autograd.grad(loss, theta)
    t = t + 1
    m = BETAS[0] * m + (1 - BETAS[0]) * g
    v = BETAS[1] * v + (1 - BETAS[1]) * g * g
    m_hat, v_hat = m / (1 - BETAS[0] ** t), v / (1 - BETAS[1] ** t)
    theta = theta - LEARNING_RATE * m_hat / (v_hat.sqrt() + EPS)
    best = logits.argmax(-1).to(torch.uint8)
    return tuple(x.detach() for x in (loss, best, theta, m, v, t))
