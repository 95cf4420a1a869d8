"""Measure and draw our models' cost against the length of the text."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from seqmodels.interface import Batch, SequenceModel
from seqmodels.models import PAPERS, build
from seqmodels.models.cache import attend_fused, fuse, tensors_of
from seqmodels.report import style
from seqmodels.report.load import format_short
from seqmodels.training import loop
from seqmodels.training.config import TrainConfig
from seqmodels.training.trainer import Trainer
from tools.sizes import sizes_of

MODELS = tuple(PAPERS)
VOCAB = 1_000
N_DECODED, N_ROWS = 32, 8
"""Decoding steps and rows of a batch."""

Point = dict[str, Any]


class Size(NamedTuple):
    """The sizes of the models and texts."""

    seconds: float
    """The least time of a measurement."""
    width: int
    n_layers: int
    """Layers of GPT; the Transformer has half as many on each side."""
    lengths: tuple[int, ...]
    """Source and target tokens."""


SIZES = {
    "smoke": Size(0.0, 16, 2, (8, 16)),
    "full": Size(1.0, 256, 6, tuple(2**k for k in range(3, 11))),
}


def build_model(name: str, size: Size, n_positions: int) -> SequenceModel:
    """Build a model at the width of a size, without dropout."""
    n, d = size.n_layers, size.width
    layers = {"lstm_seq2seq": 2, "transformer": n // 2, "mamba2": 2 * n}
    sizes = sizes_of(
        name, d_model=d, d_embed=d, d_maxout=d // 2, d_align=d, d_ff=4 * d, d_state=32, n_heads=4,
        n_layers=layers.get(name, n), n_positions=n_positions, dropout=0.0,
    )  # fmt: skip
    model = build(name, VOCAB, **sizes)
    fuse(model, attend_fused)
    return model


def draw_batch(rows: int, n: int) -> Batch:
    """Draw a random batch without padding."""
    src, tgt_in, tgt_out = torch.randint(4, VOCAB, (3, rows, n))
    return Batch(src, torch.ones_like(src, dtype=torch.bool), tgt_in, tgt_out)


def median_time(run: Callable[[], object], seconds: float) -> float:
    """Return the median CPU time over at least two runs, after one that is not counted."""
    run()
    times: list[float] = []
    while len(times) < 2 or sum(times) < seconds:
        since = time.process_time()
        run()
        times.append(time.process_time() - since)
    return statistics.median(times)


def measure_training(name: str, n: int, size: Size) -> Point:
    """Time a training step on one sequence."""
    config = TrainConfig(tokens=10**9, lr=1e-4)  # nothing diverges; speed does not depend on it
    trainer = Trainer(build_model(name, size, 2 * n + 2).train(), config)
    batch = trainer.prepare(draw_batch(1, n))
    step_s = median_time(lambda: loop.training_step(trainer, batch), size.seconds)
    return {"rows": 1, "step_s": step_s}


@torch.inference_mode()
def measure_decoding(name: str, n: int, size: Size) -> Point:
    """Time the decoding steps after a source of `n` tokens, and count what is kept of it.

    `pass_s` is the time of the next token without what is kept: a pass over source and token.
    """
    model = build_model(name, size, 2 * max(n, N_DECODED) + 2).eval()
    batch = draw_batch(N_ROWS, n)
    first = model.encode(batch.src, batch.src_mask)

    def decode() -> None:
        state = first
        for _ in range(N_DECODED):
            _, state = model.step(batch.src[:, 0], state)

    kept = sum(tensor.nbytes for tensor in tensors_of(first))
    token_s = median_time(decode, size.seconds) / N_DECODED
    pass_s = median_time(
        lambda: model(batch.src, batch.src_mask, batch.tgt_in[:, :1]), size.seconds
    )
    return {"rows": N_ROWS, "token_s": token_s, "pass_s": pass_s, "state_bytes": kept}


AXES = {"length": measure_training, "writing": measure_decoding}


def measure_growth(axis: str, models: Sequence[str], size: Size) -> dict[str, Any]:
    """Measure models by length."""
    points = []
    for name, n in product(models, size.lengths):
        torch.manual_seed(1)
        points.append({"model": name, "n": n, **AXES[axis](name, n, size)})
    return {"kind": "growth", "axis": axis, "points": points}


def draw_growth(results: dict[str, Any]) -> Figure:
    """Draw the time of a training step, of decoding a token, and what is kept, by length."""
    trained, decoded = (results["parts"][f"growth-{axis}"]["points"] for axis in AXES)
    where = results["provenance"]
    figure = Figure((style.WIDTH, 4.4), layout="constrained")
    axes = figure.subplots(1, 3)
    draw_lines(axes[0], trained, "step_s", 1e3, "training on one sequence (ms)")
    draw_lines(axes[1], decoded, "token_s", 1e3, "decoding one token of one row (ms)")
    draw_lines(axes[2], decoded, "state_bytes", 1, "bytes kept of one source")
    for power in (1, 2):  # in proportion to S and S²
        axes[0].plot([256, 8192], [30, 30 * 32**power], ":", color=style.GREY)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=5, loc="outside lower left", frameon=False)
    figure.suptitle(f"Cost against length ({where['device']}, one thread, {where['date']})")
    return figure


def draw_lines(ax: Axes, points: Sequence[Point], key: str, scale: float, label: str) -> None:
    """Draw a line per model."""
    for model in dict.fromkeys(p["model"] for p in points):
        own = [(p["n"], scale * p[key] / p["rows"]) for p in points
               if p["model"] == model and key in p]  # fmt: skip
        look = style.line_style_of(model)
        ax.plot(*zip(*own, strict=True), look.marker, color=look.colour, ls=look.dashes, ms=4,
                label=look.label)  # fmt: skip
    ax.set(xscale="log", yscale="log", xlabel="tokens", ylabel=label)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(format_short)
        axis.set_minor_locator(NullLocator())
