"""Check the installed versions and the contract of each model."""

from __future__ import annotations

import argparse
import platform
import re
import sys
import textwrap
from collections.abc import Iterator
from importlib import metadata

from seqmodels.cli.arguments import Add

DEVELOPERS = ("dev", "notebook")
"""Extras whose packages are not listed."""


def add_arguments(arg: Add) -> None:
    """Add no arguments: the command has none."""


def run(args: argparse.Namespace) -> None:
    """Print the report; exit with 1 if something that the default commands need is wrong."""
    print_finding("python", f"{platform.python_version()}, {platform.platform()}")
    print_finding("seqmodels", metadata.version("seqmodels"))
    wrong = []
    for name, finding, is_wrong in (*check_versions(), *check_models()):
        wrong += [name] * is_wrong
        print_finding(name, f"{'WRONG: ' * is_wrong}{finding}")
    if wrong:
        print(f"\nNeeded by the default commands, but wrong: {'; '.join(wrong)}.")
        sys.exit(1)
    print("\nEverything that the default commands need works.")


def print_finding(name: str, finding: str) -> None:
    """Print a line of the report, folded to the width of a terminal."""
    line = textwrap.shorten(finding, 400)
    print(textwrap.fill(f"{name:16} {line}", 79, subsequent_indent=" " * 17), flush=True)


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
    from seqmodels.contract import list_violations
    from seqmodels.models import MODELS

    for name, model_type in MODELS.items():
        faults = [f"{rule}: {fault}" for rule, fault in list_violations(model_type) if fault]
        yield name, "; ".join(faults) or "the contract holds", bool(faults)
