"""The experiment: train what is missing, evaluate, record, tabulate, plot."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tqdm import tqdm

from seqmodels import checkpoint, plot, record
from seqmodels.batches import Example, collate
from seqmodels.command import CLEAR, Parser, not_negative, positive, positive_float
from seqmodels.decode import align
from seqmodels.evaluate import (
    Row,
    by_bin,
    compare_tokens,
    free_running,
    scores,
    signatures,
    state_bytes,
    teacher_forced,
)
from seqmodels.interface import EOS, SequenceModel
from seqmodels.models import MODELS, build
from seqmodels.text import Tokenizer
from seqmodels.train import BAR, TrainConfig, fastest_precision, train

# ------------------------------------------------------------------------- What a task says


@dataclass(frozen=True, kw_only=True)
class TestSet:
    """Examples with one number each, along which their scores are drawn."""

    name: str
    axis: str
    """What the number is, with its unit."""
    headline: str
    """The score that the figure shows."""
    examples: Sequence[Example]
    x: Sequence[int]
    bins: Sequence[tuple[int, int]]
    trained_to: int | None = None
    """Longest x in training."""
    is_generated: bool = True
    """Write targets freely, too; else they are scored teacher-forced only."""


class Recipe(NamedTuple):
    """Sizes of one model, but for its width, and how it is trained."""

    sizes: Mapping[str, Any]
    rate: float
    """Peak learning rate, the best of those tried."""


class Shown(NamedTuple):
    """The one example whose alignment is drawn, with its gold links where they are known."""

    example: Example
    links: Sequence[tuple[int, int]] | None


@dataclass(frozen=True, kw_only=True)
class Task:
    """All that the harness needs to know; it never asks which task it is."""

    name: str
    data: Mapping[str, Any]
    """Name, sha256 and counts, as the record shows them."""
    tokenizer: Tokenizer
    train: Sequence[Example]
    valid: Sequence[Example]
    tests: Sequence[TestSet]
    recipes: Mapping[str, Recipe]
    training: Mapping[str, Any]
    """Fields of TrainConfig that all models share: the budget above all."""
    n_parameters: int
    """Size of every model, to 5 %."""
    beam: int = 1
    shown: Shown | None = None


# -------------------------------------------------------------------------- The command line


def parser(name: str, doc: str) -> Parser:
    """Return the command line that all tasks share; a task adds its own flags."""
    p = Parser(
        prog=f"python -m tasks.{name}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    names = list(MODELS)
    p.add_argument("--models", nargs="+", choices=names, default=names, metavar="NAME",
                   help=f"which of {', '.join(names)} (default: all)")  # fmt: skip
    p.add_argument("--seeds", nargs="+", type=not_negative, default=[1], metavar="N",
                   help="one run of each model per seed (default: 1)")  # fmt: skip
    p.add_argument("--size", choices=["smoke", "laptop"], default="laptop",
                   help="smoke: everything once, in a minute; laptop: the comparison")  # fmt: skip
    p.add_argument("--data", type=Path, metavar="PATH", help="your own data (default: embedded)")
    p.add_argument("--tokens", type=positive, metavar="N",
                   help="budget: target tokens to train each model on")  # fmt: skip
    p.add_argument("--rate", type=positive_float, metavar="R",
                   help="learning rate for all models (default: each recipe's own)")  # fmt: skip
    p.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto",
                   help="auto: cuda where there is one (default)")  # fmt: skip
    p.add_argument("--precision", choices=["auto", "float32", "bfloat16"], default="auto",
                   help="of products in training; auto: the faster here (default)")  # fmt: skip
    p.add_argument("--out", type=Path, metavar="DIR",
                   help="folder of records and figures (default: runs/TASK-SIZE)")  # fmt: skip
    return p


def device_of(choice: str) -> str:
    """Return cpu or cuda.

    Raises ValueError if cuda is asked for and there is none.
    """
    if choice == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device cuda: no CUDA device is available here; use --device cpu")
    return "cuda" if choice != "cpu" and torch.cuda.is_available() else "cpu"


# ------------------------------------------------------------------------------- One run


def fit_width(name: str, vocab_size: int, n_parameters: int, **sizes: Any) -> dict[str, Any]:
    """Return the sizes with the d_model whose parameter count comes nearest to `n_parameters`.

    Raises ValueError if none comes within 5 %.
    """
    counts = {}
    for step in (8, 4):  # multiples of 4 where those of 8 are too far apart
        with torch.device("meta"):
            for d_model in range(16, 2049, step):
                model = build(name, vocab_size, d_model=d_model, **sizes)
                counts[d_model] = count_parameters(model)
                if counts[d_model] > n_parameters:
                    break
        d_model = min(counts, key=lambda d: abs(counts[d] - n_parameters))
        if abs(counts[d_model] / n_parameters - 1) <= 0.05:
            return {"d_model": d_model, **sizes}
    raise ValueError(
        f"{name} has no width within 5 % of {n_parameters:,} parameters with {sizes}; "
        f"the nearest is {counts[d_model]:,}"
    )


def count_parameters(model: SequenceModel) -> int:
    """Return the number of parameters, shared ones once."""
    return sum(p.numel() for p in model.parameters())


def evaluate(
    model: SequenceModel, task: Task, test: TestSet, device: str
) -> tuple[list[Row], dict[str, Any]]:
    """Return a test set's rows and its entry in the record."""
    rows = teacher_forced(model, test.examples, device)
    free = free_running(model, test.examples, task.beam, device) if test.is_generated else None
    for i, (row, example) in enumerate(zip(rows, test.examples, strict=True)):
        tgt = example.scored()
        ref = task.tokenizer.decode(tgt)
        n_bytes = task.tokenizer.n_bytes(tgt) + (EOS in tgt)  # a text's end counts as one byte
        row |= {"set": test.name, "x": test.x[i], "n_bytes": n_bytes}
        row |= {"src": task.tokenizer.decode(example.src), "ref": ref}
        if free is None:
            row["exact"] = row["n_right"] == row["n_tokens"]
        else:
            row |= {"hyp": task.tokenizer.decode(free[i])} | compare_tokens(free[i], example.tgt)
    entry = {
        "name": test.name,
        "axis": test.axis,
        "headline": test.headline,
        "trained_to": test.trained_to,
        "overall": scores(rows),
        "bins": by_bin(rows, test.bins),
    }
    return rows, entry


def alignment_of(model: SequenceModel, task: Task, device: str) -> dict[str, Any] | None:
    """Return the weights with which the model writes the shown example's true target."""
    if task.shown is None:
        return None
    example, links = task.shown
    batch = collate([example], device)
    if not hasattr(model.encode(batch.src, batch.src_mask), "alpha"):
        return None
    alpha = align(model, batch.src, batch.src_mask, batch.tgt_in)[0]
    tgt = [token for token in example.tgt if token != EOS]
    return {
        "src": task.tokenizer.tokens(example.src),
        "tgt": task.tokenizer.tokens(tgt),
        "alpha": [[round(a, 4) for a in row] for row in alpha[: len(tgt)].tolist()],
        "gold": links,
    }


def run_one(name: str, task: Task, cfg: TrainConfig, path: Path, device: str) -> dict[str, Any]:
    """Train, evaluate and record one model; return the record."""
    provenance = record.provenance(device)
    record.reset_peak_memory(device)
    torch.manual_seed(cfg.seed)
    sizes = model_sizes(name, task)
    model = build(name, **sizes).to(device)
    weights = path.with_suffix(".safetensors")
    BAR["desc"] = title(name, cfg)
    say(f"{title(name, cfg)}: training on {cfg.tokens:,} tokens")
    curve = train(model, task.train, task.valid, cfg, device, lambda w: checkpoint.save(weights, w))
    since = time.perf_counter()
    rows, tests = [], []
    for test in task.tests:
        test_rows, entry = evaluate(model, task, test, device)
        rows += test_rows
        tests.append(entry)
    evaluate_s = time.perf_counter() - since
    result = {
        "schema": record.SCHEMA,
        "task": task.name,
        "model": name,
        "seed": cfg.seed,
        "model_config": sizes,
        "train_config": asdict(cfg),
        "beam": task.beam,
        "n_parameters": count_parameters(model),
        "data": task.data,
        "provenance": provenance,
        "curve": curve,
        "tests": tests,
        "signatures": signatures(),
        "alignment": alignment_of(model, task, device),
        "state_bytes": state_bytes(model, device),
        "speed": {
            "train_tokens_per_s": curve[-1]["tokens"] / curve[-1]["seconds"],
            "evaluate_sentences_per_s": len(rows) / evaluate_s,
        },
        "peak_memory_bytes": record.peak_memory_bytes(device),
        "train_s": curve[-1]["seconds"],
        "evaluate_s": evaluate_s,
        "hypotheses": path.with_suffix(".jsonl").name,
    }
    record.save(path, result, rows)
    return result


def model_sizes(name: str, task: Task) -> dict[str, Any]:
    """Return the arguments of `build`."""
    vocab_size = task.tokenizer.vocab_size
    sizes = task.recipes[name].sizes
    return {"vocab_size": vocab_size} | fit_width(name, vocab_size, task.n_parameters, **sizes)


# ------------------------------------------------------------------------- Several at once
#
# Two models on one thread each train faster than one after the other on two threads: the tensors
# are small, and threads wait for each other at every one of them.

Run = tuple[str, Task, TrainConfig, Path, str]
"""Arguments of `run_one`."""


def at_once(n_runs: int, device: str) -> int:
    """Return how many runs share the processor; as many of all, finished or not, every time."""
    return 1 if device == "cuda" else min(n_runs, torch.get_num_threads())


def start_worker(threads: int, lock: Any, lines: Any) -> None:
    """Make this process one that trains: its threads, its line; it ends when its parent ends."""
    torch.set_num_threads(threads)
    tqdm.set_lock(lock)
    BAR["position"] = lines.get()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it, and stops this one
    threading.Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    """Wait until the parent has ended, however it did; then end, too."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


@contextmanager
def workers(n: int) -> Iterator[ProcessPoolExecutor]:
    """Open n processes that share the threads; whatever goes wrong, none of them is left."""
    context = multiprocessing.get_context("spawn")
    lines = context.SimpleQueue()
    for line in range(n):
        lines.put(line)
    started = torch.get_num_threads() // n, context.RLock(), lines
    pool = ProcessPoolExecutor(n, context, start_worker, started)
    try:
        yield pool
    except BaseException:
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def run_all(todo: Sequence[Run], n_at_once: int) -> list[str]:
    """Train, evaluate and record; return what went wrong, a line for each run that failed."""
    if n_at_once == 1 or not todo:
        wrong = [report(run, partial(run_one, *run)) for run in todo]
    else:
        with workers(n_at_once) as pool:  # the newest first: they take longest
            futures = {pool.submit(run_one, *run): run for run in reversed(todo)}
            wrong = [report(futures[f], f.result) for f in as_completed(futures)]
    return [line for line in wrong if line]


def report(run: Run, result: Callable[[], dict[str, Any]]) -> str | None:
    """Wait for a run's record and print its score; return what was wrong, if it failed."""
    name, _, cfg, *_ = run
    try:
        done = result()
    except ValueError as error:
        return f"{title(name, cfg)}: {error}"
    except BrokenProcessPool:
        raise ValueError(
            "a process that trained was killed, perhaps for lack of memory; finished runs are "
            "kept, and OMP_NUM_THREADS=1 trains one model at a time"
        ) from None
    test = done["tests"][0]
    say(
        f"{title(name, cfg)}: {test['headline']} {test['overall'][test['headline']]['value']:.2f}, "
        f"{done['train_s']:.0f} s training, {done['evaluate_s']:.0f} s evaluation"
    )
    return None


def title(name: str, cfg: TrainConfig) -> str:
    """Return how messages name a run."""
    return f"{name}, seed {cfg.seed}"


def say(line: str) -> None:
    """Print one line, over a progress bar that may stand there."""
    print(f"{CLEAR if sys.stdout.isatty() else ''}{line}", flush=True)


# ------------------------------------------------------------------------ The comparison


def shared_settings(task: Task) -> dict[str, Any]:
    """Return what is the same for all runs of a folder."""
    data = {f"data.{key}": value for key, value in task.data.items()}
    return data | {"beam": task.beam, **task.training}


def check_same(path: Path, now: Mapping[str, Any]) -> None:
    """Raise ValueError if the record at the path was made with other settings than these."""
    old = record.load(path)
    was = {f"data.{key}": value for key, value in old["data"].items()}
    was |= {"beam": old["beam"]} | old["train_config"] | old["model_config"]
    changed = [f"{k} was {was.get(k)}, is {now.get(k)}" for k in now if was.get(k) != now[k]]
    if changed:
        raise ValueError(
            f"{path} was made with other settings ({'; '.join(changed)}); "
            "choose another --out or remove it"
        )


def compare(task: Task, args: argparse.Namespace) -> None:
    """Train every (seed, model) that has no record yet; then draw and print all that have one."""
    device = device_of(args.device)
    precision = fastest_precision(device) if args.precision == "auto" else args.precision
    task = replace(task, training={**task.training, "precision": precision})
    data = f"-{args.data.resolve().stem}" if args.data else ""
    out = args.out or Path("runs") / f"{task.name}{data}-{args.size}"
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out} is a file; name a folder")
    out.mkdir(parents=True, exist_ok=True)
    for path in sorted(out.glob("*-seed*.json")):  # before anything in the folder is changed
        check_same(path, shared_settings(task))
    runs: dict[Path, tuple[str, TrainConfig]] = {}
    for seed in args.seeds:
        for name in args.models:
            rate = args.rate or task.recipes[name].rate
            cfg = TrainConfig(rate=rate, seed=seed, **task.training)
            path = out / f"{name}-seed{seed}.json"
            runs[path] = name, cfg
            if path.exists():
                check_same(path, asdict(cfg) | model_sizes(name, task))
    task.tokenizer.save(out / "tokenizer.json")
    todo = []
    for path, (name, cfg) in runs.items():
        if path.exists():
            say(f"{title(name, cfg)}: recorded in {path}")
        else:
            todo.append((name, task, cfg, path, device))
    failed = run_all(todo, at_once(len(runs), device))
    if any(path.exists() for path in runs):
        files = plot.plot_folder(out)
        print(f"\n{plot.table(plot.load_records(out))}")
        print(f"\nRecords, hypotheses, weights and figures are in {out}:")
        print("  " + ", ".join(sorted(file.name for file in files)))
    if failed:
        raise ValueError("; ".join(failed))
