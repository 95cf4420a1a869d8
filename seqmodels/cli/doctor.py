"""The command `seqmodels doctor`: installed versions and the contract, for bug reports."""

from __future__ import annotations

import platform
import re
import sys
import textwrap
from collections.abc import Iterator
from importlib import metadata
from itertools import chain

DEVELOPERS = ("dev", "bench", "notebook")
"""Extras whose packages are not listed."""


def check_versions() -> Iterator[tuple[str, str, bool]]:
    """Yield each package, its version, and whether it is missing or too old."""
    from packaging.requirements import Requirement

    for needed in map(Requirement, metadata.requires("seqmodels") or ()):
        extra = re.search(r"extra == .(\w+)", str(needed.marker))
        if extra and extra[1] in DEVELOPERS:
            continue
        install = f"pip install '{needed.name}{needed.specifier}'"
        try:
            version = metadata.version(needed.name)
        except metadata.PackageNotFoundError:
            optional = " (optional)" if needed.marker else ""
            yield needed.name, f"not installed{optional}; {install}", not optional
            continue
        is_right = needed.specifier.contains(version, prereleases=True)
        finding = version if is_right else f"{version} is not supported; {install}"
        yield needed.name, finding, not is_right


def check_models() -> Iterator[tuple[str, str, bool]]:
    """Yield each model, what `seqmodels check` says of it, and whether it is a fault."""
    try:
        import torch

        from seqmodels import MODELS
        from seqmodels.contract import list_violations
    except Exception as error:  # a broken package raises anything
        yield "imports", f"{type(error).__name__}: {error}", True
        return
    torch.set_num_threads(1)  # the models are tiny: other threads would only wait for each other
    for name, model_type in MODELS.items():
        faults = [f"{rule}: {fault}" for rule, fault in list_violations(model_type) if fault]
        yield name, "; ".join(faults) or "the contract holds", bool(faults)


def run_checks() -> None:
    """Print the report; exit with 1 if something that the default commands need is wrong."""
    python = f"{platform.python_version()}, {platform.platform()}"
    own = ("python", python, False), ("seqmodels", metadata.version("seqmodels"), False)
    wrong = []
    for name, finding, is_wrong in chain(own, check_versions(), check_models()):
        wrong += [name] * is_wrong
        line = textwrap.shorten(f"{'WRONG: ' * is_wrong}{finding}", 400)
        print(textwrap.fill(f"{name:16} {line}", 79, subsequent_indent=" " * 17), flush=True)
    if wrong:
        print(f"\nNeeded by the default commands, but wrong: {'; '.join(wrong)}.")
        sys.exit(1)
    print("\nEverything that the default commands need works.")
