"""Report what is installed, what the machine offers and whether each model works: for bug reports.

A check returns a finding or raises an error, and any error becomes a line. Only the checks that
need torch import it, because it may be what is broken.
"""

from __future__ import annotations

import io
import locale
import os
import platform
import re
import shutil
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import fields
from functools import cache, partial
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from seqmodels.utils import files

# ----------------------------------------------------------------------------- What is installed


def version() -> str:
    """Return the version and the commit."""
    found = metadata.version("seqmodels")
    with suppress(ImportError):  # torch is missing, which has a line of its own
        from seqmodels.records.record import commit

        found += f", commit {commit() or 'unknown'}"
    return found


def installed(name: str, needed: str) -> str:
    """Return a package's version; raise ValueError if it is missing or not supported."""
    from packaging.requirements import Requirement

    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        raise ValueError(f"not installed; pip install '{needed}'") from None
    admitted = Requirement(needed).specifier
    if not admitted.contains(found, prereleases=True):
        raise ValueError(f"{found} is not supported; pip install '{needed}'")
    return f"{found} ({admitted})"


def imports() -> str:
    """Import everything that the tasks import."""
    since = time.perf_counter()
    import_module("seqmodels.comparison.compare")
    return f"everything that the tasks need, in {time.perf_counter() - since:.1f} s"


# -------------------------------------------------------------------------- What the machine offers


def processor() -> str:
    """Return the processor's name, its cores and torch's threads."""
    import torch

    from seqmodels.records import record

    return f"{record.processor()}; {os.cpu_count()} cores, torch uses {torch.get_num_threads()}"


def gpus() -> str:
    """Return the CUDA devices with their memory, or why there is none."""
    import torch

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        n_cards = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not n_cards and torch.version.cuda is None:
        return "none: this torch was built without CUDA"
    if not n_cards:
        reason = warned[0].message if warned else "no device was found"
        return f"none: torch was built for CUDA {torch.version.cuda}; {reason}"
    gib = [[n / 2**30 for n in torch.cuda.mem_get_info(i)] for i in range(n_cards)]
    return "; ".join(
        f"{torch.cuda.get_device_name(i)}, {free:.1f} of {total:.1f} GiB free"
        for i, (free, total) in enumerate(gib)
    )


@cache
def defaults() -> tuple[str, Any]:
    """Return the device and the precision that the tasks choose here."""
    from seqmodels.comparison.compare import resolve_device
    from seqmodels.training.loop import fastest_precision

    return (device := resolve_device("auto")), fastest_precision(device)


def matmul_speed() -> str:
    """Return the speed of matrix products in each precision, and the one that training uses."""
    import torch

    device, precision = defaults()
    speeds = []
    for dtype in (torch.float32, torch.bfloat16):
        a, times = torch.ones(512, 512, dtype=dtype, device=device), []
        for _ in range(5):
            since = time.perf_counter()
            (a @ a)[0, 0].item()  # waits for a GPU
            times.append(time.perf_counter() - since)
        speeds.append(2 * 512**3 / min(times) / 1e9)
    measured = "float32 {:,.0f}, bfloat16 {:,.0f} GFLOP/s".format(*speeds)
    return f"{measured} on {device}; training uses {precision}"


def memory() -> str:
    """Return the available memory."""
    import psutil

    found = psutil.virtual_memory()
    return f"{found.available / 2**30:.1f} of {found.total / 2**30:.1f} GiB free"


def encoding() -> str:
    """Return the encoding of printed text; raise ValueError if it cannot show tables."""
    try:
        "–ü".encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        raise ValueError(f"{sys.stdout.encoding} lacks characters; set PYTHONUTF8=1") from None
    return f"{sys.stdout.encoding}, locale {locale.setlocale(locale.LC_CTYPE)}"


def folder(path: Path) -> str:
    """Write a small file and remove it; return the time it took, and the free space."""
    since = time.perf_counter()
    file = files.write(path / ".seqmodels-doctor", bytes(4096))
    took = time.perf_counter() - since
    file.unlink()
    free = shutil.disk_usage(path).free / 2**30
    return f"writable, 4 KiB in {1e3 * took:.1f} ms; {free:.1f} GiB free"


# -------------------------------------------------------------------------- Whether models work

TINY = {"d_model": 16, "d_embed": 16, "d_maxout": 16, "d_align": 16, "d_ff": 32, "n_heads": 2,
        "n_layers": 1, "n_positions": 32, "dropout": 0.0}  # fmt: skip
STEPS, RATE = 40, 0.02


def try_model(name: str) -> str:
    """Train a tiny model on one batch, and decode with it.

    Raises ValueError if the loss does not fall, or if equivalent computations differ.
    """
    import torch

    from seqmodels import EOS, MODELS, build, unroll
    from seqmodels.data.batches import Example, collate
    from seqmodels.interface import PAD
    from seqmodels.search import beam, greedy
    from seqmodels.training.config import TrainConfig
    from seqmodels.training.trainer import Trainer

    since = time.perf_counter()
    device, precision = defaults()
    torch.manual_seed(1)
    sizes = {field.name for field in fields(MODELS[name].config_type)} & TINY.keys()
    model = build(name, 12, **{size: TINY[size] for size in sizes}).to(device)
    pairs = [Example([4, 5, 6, 7], [7, 6, 5, 4, EOS]), Example([8, 9], [9, 8, EOS])]
    batch = collate(pairs, device)
    trainer = Trainer(model, TrainConfig(tokens=1, lr=RATE, precision=precision))
    losses = [trainer.optimizer_step(batch, RATE) for _ in range(STEPS)]
    fell = f"loss {losses[0]:.2f}, {losses[-1]:.2f} after {STEPS} steps"
    if not losses[-1] < losses[0] / 2:
        raise ValueError(f"it does not learn: {fell}")
    model.eval()
    source = batch.src, batch.src_mask
    with torch.inference_mode():
        stepped, _ = unroll(model, model.encode(*source), batch.tgt_in)
        differ = (stepped - model(*source, batch.tgt_in)).abs()
        gap = differ[batch.tgt_out != PAD].max().item()
    if not gap < 1e-3:
        raise ValueError(f"forward and step differ by {gap:.2g}")
    beam(model, *source, max_len=6, width=3)
    if beam(model, *source, max_len=6, width=1) != greedy(model, *source, max_len=6):
        raise ValueError("beam search with a beam of 1 differs from greedy search")
    return f"works: {fell}; {time.perf_counter() - since:.1f} s"


# ---------------------------------------------------------------------- What the network offers

ONLINE_CHECKS = {
    "hub": (
        "huggingface.co can be reached",
        "import huggingface_hub as hub; next(iter(hub.list_datasets(limit=1)))",
    ),
    "encodings": (
        "tiktoken's encodings can be loaded",
        "import tiktoken; tiktoken.get_encoding('gpt2')",
    ),
}
"""Facts that are good to know, and programs that fail if they are not true."""
LIMIT_S = 3.0


def check_online(fact: str, program: str) -> str:
    """Return whether it is true; run in a process, because looking up a host has no timeout."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return "not checked: HF_HUB_OFFLINE is set (not needed by default)"
    try:
        subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, timeout=LIMIT_S
        )
    except subprocess.SubprocessError:
        fact = fact.replace(" can ", " cannot ") + f" in {LIMIT_S:g} s"
    return f"{fact} (not needed by default)"


# ----------------------------------------------------------------------------------- The report


def print_check(label: str, check: Callable[[], str], wrong: list[str] | None = None) -> bool:
    """Print a check's finding or error, add errors to `wrong`; return whether it passed."""
    try:
        found, is_well = check(), True
    except Exception as error:
        kind = "" if isinstance(error, ValueError | OSError) else f"{type(error).__name__}: "
        found, is_well = textwrap.shorten(f"WRONG: {kind}{error}", 400), False
        if wrong is not None:
            wrong.append(label)
    print(textwrap.fill(f"{label:16}{found}", 79, subsequent_indent=" " * 16), flush=True)
    return is_well


def run_checks() -> None:
    """Print the report; exit with 1 if something that the default commands need is wrong."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    wrong: list[str] = []
    print_check("python", lambda: f"{platform.python_version()}, {platform.platform()}")
    if print_check("seqmodels", version, wrong):
        for needed in metadata.requires("seqmodels") or ():
            if "extra ==" not in needed:
                name = re.split(r"[^\w.-]", needed)[0]
                print_check(name, partial(installed, name, needed), wrong)
    print_check("memory", memory)
    print_check("encoding", encoding, wrong)
    is_made = Path("runs").exists()
    print_check("this folder", partial(folder, Path()), None if is_made else wrong)
    print_check(
        "runs", partial(folder, Path("runs")) if is_made else lambda: "does not exist yet", wrong
    )
    if print_check("imports", imports, wrong):
        print_check("processor", processor)
        print_check("cuda", gpus)
        print_check("matmul", matmul_speed, wrong)
        with ThreadPoolExecutor() as pool:
            asked = {
                label: pool.submit(check_online, *question)
                for label, question in ONLINE_CHECKS.items()
            }
            for name in import_module("seqmodels.models").MODELS:
                print_check(name, partial(try_model, name), wrong)
        for label, answer in asked.items():
            print_check(label, answer.result)
    if wrong:
        print(f"\nNeeded by the default commands, but wrong: {', '.join(wrong)}.")
        sys.exit(1)
    print("\nEverything that the default commands need works.")
