"""Exhibits: what a memory does by its rule alone, without any training. No torch."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from seqmodels.report import style
from seqmodels.utils import files
from seqmodels.utils.terminal import Parser, run_cli

Exhibit = Mapping[str, Any]
"""What its file holds: `settings`, and `rows` of named values."""


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
