"""Measure what surrounds the models (text, start-up, memory), and profile their steps."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from torch.profiler import ProfilerActivity, profile

from benchmarks.contests import endless, model, prose, sentences, translation
from benchmarks.growth import default_point, in_own_process, trainer_of
from benchmarks.measure import Effort, Size, alternate, pace
from seqmodels.data.batches import Example, training_batches
from seqmodels.data.tokenizers import BPE, Words
from seqmodels.interface import EOS, PAD
from seqmodels.models import MODELS
from seqmodels.search import greedy
from seqmodels.training import loop

Row = dict[str, Any]

COMMANDS = {
    "seqmodels --help": ("from seqmodels.cli.main import main; main()", "--help"),
    "seqmodels models": ("from seqmodels.cli.main import main; main()", "models"),
    "import seqmodels": ("import seqmodels",),
    "import torch": ("import torch",),
}
"""The last one is a baseline: no command that uses a model can be faster."""


def row(what: str, unit: str, values: Iterable[float]) -> Row:
    """Return one row of a table."""
    return {"what": what, "unit": unit, "values": list(values)}


def text(size: Size, effort: Effort) -> Row:
    """Measure tokenization and batching, and the share of padding."""
    pairs = sentences(size.n_pairs)
    lines = [line for pair in pairs for line in (pair.en_text, pair.de_text)]
    n_bytes = sum(len(line.encode()) for line in lines)
    words, bpe = Words.train(lines), BPE.train(lines, 1_000)
    examples = [Example(words.encode(p.en_text), [*words.encode(p.de_text), EOS]) for p in pairs]

    def encode(tokenizer: Words | BPE) -> Callable[[], float]:
        return lambda: len([tokenizer.encode(line) for line in lines]) and n_bytes / 1e6

    def draw() -> float:
        """Draw slightly more than an epoch."""
        n_rows, batches = 0, training_batches(examples, size.batch_tokens, seed=1)
        while n_rows < len(examples):
            n_rows += len(next(batches).src)
        return n_rows

    works = {"Words": encode(words), "BPE": encode(bpe), "batches": draw}
    rates = alternate(works, effort)
    shares = [padding(examples, n) for n in (size.batch_tokens, size.batch_tokens // 3)]
    return {"kind": "rows", "title": "Text to batches", "rows": [
        row("Words, encoding", "MB/s", rates["Words"]),
        row("BPE, encoding", "MB/s", rates["BPE"]),
        row("batches of the training stream", "examples/s", rates["batches"]),
        row(f"padding, batches of {size.batch_tokens:,} tokens", "% of positions", shares[:1]),
        row(f"padding, batches of {size.batch_tokens // 3:,} tokens", "% of positions", shares[1:]),
    ]}  # fmt: skip


def padding(examples: list[Example], batch_tokens: int) -> float:
    """Return the percentage of PAD among all source and target positions of an epoch."""
    n_rows = n_real = n_all = 0
    for batch in training_batches(examples, batch_tokens, seed=1):
        n_rows += len(batch.src)
        n_real += int(batch.src_mask.sum()) + int((batch.tgt_out != PAD).sum())
        n_all += batch.src.numel() + batch.tgt_out.numel()
        if n_rows >= len(examples):
            return 100 * (1 - n_real / n_all)
    raise AssertionError("the stream is infinite")


def startup(size: Size, effort: Effort) -> Row:
    """Measure how long commands take, each in a new process."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(effort.rounds + 1):
        for name, code in COMMANDS.items():
            since = time.perf_counter()
            subprocess.run([sys.executable, "-c", *code], capture_output=True, check=True)
            times[name].append(time.perf_counter() - since)
    rows = [row(name, "s", values[1:]) for name, values in times.items()]  # the first run is cold
    return {"kind": "rows", "title": "Start-up", "rows": rows}


def memory(size: Size, effort: Effort) -> Row:
    """Measure the peak memory of training on the translation task, beyond what torch holds."""
    vocab_size, n_updates, rows = translation(size).vocab_size, size.n_pairs // 100, []
    for name in MODELS:
        found = in_own_process(default_point, name, vocab_size, n_updates)
        rows.append(row(name, "MB", [found["peak_bytes"] / 1e6] if "peak_bytes" in found else []))
    return {"kind": "rows", "title": "Peak memory when training 1 M parameters", "rows": rows}


# ---- Where the time goes

GROUPS = {
    "matrix products": ("mm", "mv", "mkldnn"),
    "attention": ("scaled_dot_product", "flash_attention"),
    "optimiser": ("adam", "vector_norm", "_foreach"),
    "copies": (
        *("copy", "cat", "index", "gather", "scatter", "embedding", "fill", "zero", "empty"),
        *("arange", "clone", "stack"),
    ),
    "Python and dispatch": (
        *("view", "transpose", "strided", "expand", "reshape", "permute", "squeeze", "detach"),
        *("unbind", "split", "chunk", "select", "slice", "narrow", "resolve", "resize", "item"),
        *("matmul", "linear"),  # they call mm
    ),
}
"""Substrings of torch's operation names; all others are elementwise or reductions."""

ORDER = ("matrix products", "attention", "elementwise", "copies", "optimiser")


def group_of(name: str) -> str:
    """Return the group of an operation."""
    plain = name.removeprefix("aten::").lower()
    for group, parts in GROUPS.items():
        if any(part in plain for part in parts):
            return group
    return "elementwise"


def where_time_goes(run: Callable[[], object]) -> Row:
    """Profile one run: percentages of time per group, and the most expensive operations.

    Time outside any operation is Python, autograd and dispatch. Recording inflates this part, so
    the time without recording is reported beside it.
    """
    run()
    step_s = 1 / pace(lambda: (run(), 1.0)[1], 0.0)
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        since = time.perf_counter()
        run()
        wall_us = 1e6 * (time.perf_counter() - since)
    shares = dict.fromkeys([*ORDER, "Python and dispatch"], 0.0)
    events = [e for e in recorded.key_averages() if e.key.startswith("aten::")]
    for event in events:
        shares[group_of(event.key)] += 100 * event.self_cpu_time_total / wall_us
    shares["Python and dispatch"] += max(0.0, 100 - sum(shares.values()))
    top = sorted(events, key=lambda e: -e.self_cpu_time_total)[:6]
    most = {
        e.key.removeprefix("aten::"): round(100 * e.self_cpu_time_total / wall_us, 1) for e in top
    }
    return {"step_s": step_s, "shares": {k: round(v, 1) for k, v in shares.items()}, "most": most}


def profiles(size: Size, effort: Effort) -> Row:
    """Profile a training step and a decoding step of every model, at the contests' sizes."""
    rows = []
    for name in MODELS:
        setting = prose(size) if name == "gpt" else translation(size)
        trained, batch, [(shown, n)] = model(name, setting), setting.batches[0], setting.shown
        trainer = trainer_of(trained)
        update = partial(loop.training_step, trainer, trainer.prepare(batch))
        rows.append({"model": name, "step": "training", **where_time_goes(update)})
        write = partial(greedy, endless(trained), shown.src, shown.src_mask, n)
        found = where_time_goes(write)
        found["step_s"] /= n
        rows.append({"model": name, "step": "decoding a token", **found})
    return {"kind": "profile", "title": "Where the time goes", "rows": rows}
