"""What surrounds the models: text, start-up, memory; and where the time of a step goes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from torch.profiler import ProfilerActivity, profile

from benchmarks.contests import endless, model, prose, sentences, translation
from benchmarks.growth import alone, default_point, trainer_of
from benchmarks.measure import RATE, Effort, Size, alternate, pace
from seqmodels.data.batches import Example, stream
from seqmodels.data.tokenizers import BPE, Words
from seqmodels.interface import EOS, PAD
from seqmodels.models import MODELS
from seqmodels.search import greedy

Row = dict[str, Any]

COMMANDS = {
    "seqmodels --help": ("from seqmodels.commands.main import main; main()", "--help"),
    "seqmodels models": ("from seqmodels.commands.main import main; main()", "models"),
    "import seqmodels": ("import seqmodels",),
    "import torch": ("import torch",),
}
"""For comparison the last one: what no command that uses a model can go below."""


def row(what: str, unit: str, values: Iterable[float]) -> Row:
    """Return one line of a table."""
    return {"what": what, "unit": unit, "values": list(values)}


def text(size: Size, effort: Effort) -> Row:
    """Measure tokenising and batching, and how much of the batches is padding."""
    pairs = sentences(size.n_pairs)
    lines = [line for pair in pairs for line in (pair.en_text, pair.de_text)]
    n_bytes = sum(len(line.encode()) for line in lines)
    words, bpe = Words.train(lines), BPE.train(lines, 1_000)
    examples = [Example(words.encode(p.en_text), [*words.encode(p.de_text), EOS]) for p in pairs]

    def encode(tokenizer: Words | BPE) -> Callable[[], float]:
        return lambda: len([tokenizer.encode(line) for line in lines]) and n_bytes / 1e6

    def draw() -> float:
        """Draw an epoch and a bit."""
        n_rows, batches = 0, stream(examples, size.batch_tokens, seed=1)
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
    """Return the share of PAD among all source and target positions of an epoch, in percent."""
    n_rows = n_real = n_all = 0
    for batch in stream(examples, batch_tokens, seed=1):
        n_rows += len(batch.src)
        n_real += int(batch.src_mask.sum()) + int((batch.tgt_out != PAD).sum())
        n_all += batch.src.numel() + batch.tgt_out.numel()
        if n_rows >= len(examples):
            return 100 * (1 - n_real / n_all)
    raise AssertionError("the stream has no end")


def startup(size: Size, effort: Effort) -> Row:
    """Measure how long commands take to answer, each in a new process."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(effort.rounds + 1):
        for name, code in COMMANDS.items():
            since = time.perf_counter()
            subprocess.run([sys.executable, "-c", *code], capture_output=True, check=True)
            times[name].append(time.perf_counter() - since)
    rows = [row(name, "s", values[1:]) for name, values in times.items()]  # the first one is cold
    return {"kind": "rows", "title": "Start-up", "rows": rows}


def memory(size: Size, effort: Effort) -> Row:
    """Measure the peak memory of the translation task's training, above torch's own."""
    vocab_size, n_updates, rows = translation(size).vocab_size, size.n_pairs // 100, []
    for name in MODELS:
        found = alone(default_point, name, vocab_size, n_updates)
        rows.append(row(name, "MB", [found["peak_bytes"] / 1e6] if "peak_bytes" in found else []))
    return {"kind": "rows", "title": "Peak memory of a training of 1 M parameters", "rows": rows}


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
"""What the names of torch's operations contain; all others are elementwise or reduce."""

ORDER = ("matrix products", "attention", "elementwise", "copies", "optimiser")


def group_of(name: str) -> str:
    """Return the group of one operation by its name."""
    plain = name.removeprefix("aten::").lower()
    for group, parts in GROUPS.items():
        if any(part in plain for part in parts):
            return group
    return "elementwise"


def where_time_goes(run: Callable[[], object]) -> Row:
    """Profile one run: shares of its time in percent, and the operations that take most of it.

    What no operation accounts for is Python, autograd and the dispatch between them. Recording
    itself makes this part larger, so the time without it is given beside.
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
    """Profile a training step and a decoding step of every model at the contests' sizes."""
    rows = []
    for name in MODELS:
        with_ = prose(size) if name == "gpt" else translation(size)
        trained, batch, [(shown, n)] = model(name, with_), with_.batches[0], with_.shown
        update = partial(trainer_of(trained).optimizer_step, batch, RATE)
        rows.append({"model": name, "step": "training", **where_time_goes(update)})
        write = partial(greedy, endless(trained), shown.src, shown.src_mask, n)
        found = where_time_goes(write)
        found["step_s"] /= n
        rows.append({"model": name, "step": "writing a token", **found})
    return {"kind": "profile", "title": "Where the time goes", "rows": rows}
