"""Exhibits: what a memory does by its rule alone, without any training. No torch."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from seqmodels.report import style
from seqmodels.utils import files
from seqmodels.utils.terminal import Parser, run_cli

Exhibit = Mapping[str, Any]
"""What its file holds: `settings`, and `rows` of named values."""


def write_pair(
    s: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    alpha: float | np.ndarray = 1.0,
    beta: float | np.ndarray = 1.0,
    is_delta: bool = True,
) -> np.ndarray:
    """Return memories (..., K, V) after they have written values (..., V) under keys (..., K).

    A memory first fades to its share `alpha`. The delta rule then writes the part `beta` of the
    difference between the value and what the memory reads with the key; otherwise, the part `beta`
    of the value itself is added.
    """
    s = alpha * s
    new = v - (k[..., None, :] @ s)[..., 0, :] if is_delta else v
    return s + beta * k[..., :, None] * new[..., None, :]


def normalise(x: np.ndarray) -> np.ndarray:
    """Return vectors of length 1."""
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def run_exhibit(
    name: str, doc: str | None, measure: Callable[[], Exhibit], draw: Callable[[Exhibit], Figure]
) -> None:
    """Measure, write NAME.json with a line for each row, and draw NAME.svg from it, in --out."""
    p = Parser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, default=Path("results"), metavar="DIR",
                   help=f"folder for {name}.json and {name}.svg (default: results)")  # fmt: skip
    out = p.parse_args().out

    def write_files() -> None:
        if not out.is_dir():
            raise ValueError(f"--out {out} is not a folder; create it, or name another")
        settings, rows = map(json.dumps, measure().values())
        text = f'{{"settings": {settings},\n"rows": {rows}}}\n'.replace("}, {", "},\n{")
        path = files.write(out / f"{name}.json", text)
        with style.context():
            figure = draw(files.read_json(path))
            drawn = [style.save(figure, out / f"{name}{kind}") for kind in style.STAMPS]
        print("\n".join(map(str, [path, *drawn])))

    run_cli(f"tasks.{name}", write_files)
