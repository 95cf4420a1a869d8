"""The command `seqmodels doctor`: installed versions and a self-test, for bug reports.

A check returns a finding or raises an error, and any error becomes a line. Only the checks that
need torch import it, because it may be what is broken.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from importlib import import_module, metadata
from pathlib import Path

from seqmodels.utils import files

EXTRAS = ("data", "site", "export", "ray", "slurm", "tensorboard")
"""Extras that are looked for; the others are for developers."""


def check_installed(requirement: str) -> str:
    """Return a package's version; raise ValueError if one is needed that is missing or too old."""
    from packaging.requirements import Requirement

    needed = Requirement(requirement)
    install = f"pip install '{needed.name}{needed.specifier}'"
    try:
        version = metadata.version(needed.name)
    except metadata.PackageNotFoundError:
        if needed.marker:
            return f"not installed (optional; {install})"
        raise ValueError(f"not installed; {install}") from None
    if not needed.specifier.contains(version, prereleases=True):
        raise ValueError(f"{version} is not supported; {install}")
    return version


def check_machine() -> str:
    """Return the commit of this package, the processor, torch's threads and the CUDA devices."""
    import torch

    from seqmodels.records import record

    cards = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    cpu = (
        f"{record.read_processor_name()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads"
    )
    cuda = f"CUDA {torch.version.cuda or 'is not in this torch'}: {cards or 'no device'}"
    return f"commit {record.read_commit() or 'unknown'}; {cpu}; {cuda}"


def check_folder(folder: Path) -> str:
    """Write a small file into a folder or, if it does not exist, into the one that does."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    files.write(folder / ".seqmodels-doctor", "").unlink()
    return f"{folder.resolve()}, {shutil.disk_usage(folder).free / 2**30:.1f} GiB free"


STEPS, LR = 30, 0.03


def check_model(name: str) -> str:
    """Train a tiny model on one batch.

    Raises ValueError if the loss does not fall, or if `forward` differs from steps.
    """
    import torch

    from seqmodels import EOS, MODELS, unroll
    from seqmodels.contract import build_tiny
    from seqmodels.data.batches import Example, collate
    from seqmodels.training.loop import loss_of

    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build_tiny(MODELS[name]).to(device)
    pairs = [Example([4, 5, 6, 7], [7, 6, 5, 4, EOS]), Example([8, 9, 5, 4], [4, 5, 9, 8, EOS])]
    batch, losses = collate(pairs, device), list[float]()
    optimizer = torch.optim.AdamW(model.parameters(), LR)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    finding = f"loss {losses[0]:.2f}, {losses[-1]:.2f} after {STEPS} steps"
    if not losses[-1] < losses[0] / 2:
        raise ValueError(f"it does not learn: {finding}")
    with torch.inference_mode():
        stepped, _ = unroll(model.eval(), model.encode(batch.src, batch.src_mask), batch.tgt_in)
        difference = stepped - model(batch.src, batch.src_mask, batch.tgt_in)
    if not (gap := difference.abs().max().item()) < 1e-3:
        raise ValueError(f"forward and step differ by {gap:.2g}")
    return f"works: {finding}"


def run_checks() -> None:
    """Print the report; exit with 1 if something that the default commands need is wrong."""
    checks: dict[str, Callable[[], str]] = {
        "python": lambda: f"{platform.python_version()}, {platform.platform()}",
        "seqmodels": lambda: metadata.version("seqmodels"),
        "machine": check_machine,
        "runs": lambda: check_folder(Path("runs")),
        "cache": lambda: check_folder(import_module("seqmodels.data.presets").cache_dir()),
    }
    for requirement in metadata.requires("seqmodels") or ():
        extra = re.search(r"extra == .(\w+)", requirement)
        if not extra or extra[1] in EXTRAS:
            package = re.split(r"[^\w.-]", requirement)[0]
            checks[package] = partial(check_installed, requirement)
    wrong = list[str]()
    try:
        import_module("seqmodels.comparison.compare")
        models = import_module("seqmodels").MODELS
        checks |= {name: partial(check_model, name) for name in models}
    except Exception as error:
        wrong.append(f"imports ({type(error).__name__}: {error})")
    for label, check in checks.items():
        try:
            finding = check()
        except Exception as error:
            kind = "" if isinstance(error, ValueError | OSError) else f"{type(error).__name__}: "
            finding = textwrap.shorten(f"WRONG: {kind}{error}", 400)
            wrong.append(label)
        print(textwrap.fill(f"{label:16} {finding}", 79, subsequent_indent=" " * 17), flush=True)
    if wrong:
        print(f"\nNeeded by the default commands, but wrong: {'; '.join(wrong)}.")
        sys.exit(1)
    print("\nEverything that the default commands need works.")
