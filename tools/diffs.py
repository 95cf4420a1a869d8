"""Diff the code of two chapters, and tag each changed line with its equation or section.

    python -m tools.diffs      update docs/diffs; lines without a tag get a question mark

Docstrings, comments, blank lines and indentation are ignored. A line that has nothing to do with
what the later paper changed is tagged `plumbing`.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tempfile
import tokenize
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
MODELS = ROOT / "seqmodels" / "models"
PAIRS = [
    ("rnn_encdec", "bahdanau"), ("transformer", "gpt"), ("gpt", "linear_attention"),
    ("linear_attention", "mamba2"), ("linear_attention", "gated_deltanet"),
    ("mamba2", "gated_deltanet"),
]  # fmt: skip


def code(source: str) -> list[str]:
    """Return a program's lines without docstrings, comments and blank lines."""
    dropped: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", [])
        for part in body if isinstance(body, list) else []:  # a lambda's body is an expression
            if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
                dropped |= set(range(part.lineno, (part.end_lineno or 0) + 1))
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    return [line for i, line in enumerate(lines, 1) if line.strip() and i not in dropped]


def changed(old: str, new: str) -> list[str]:
    """Return the removed (-) and added (+) lines between two programs, according to git."""
    with tempfile.TemporaryDirectory() as folder:
        for name, source in (("old", old), ("new", new)):
            (Path(folder) / name).write_text("\n".join([*code(source), ""]), encoding="utf-8")
        command = ["git", "diff", "--no-index", "--no-color", "-w", "-U0", "old", "new"]
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    lines = done.stdout.decode().splitlines()
    return [line for line in lines[4:] if not line.startswith(("@@", "\\"))]


def path_of(old: str, new: str) -> Path:
    """Return the path of a pair's tags."""
    return ROOT / "docs" / "diffs" / f"{old}-{new}.txt"


def tagged(old: str, new: str) -> list[tuple[str, str]]:
    """Return the stored tag and line of each change."""
    rows = []
    for row in path_of(old, new).read_text(encoding="utf-8").splitlines():
        tag, is_row, line = row.partition(" | ")
        if is_row:
            rows.append((tag.strip(), line))
    return rows


def diff(old: str, new: str) -> list[str]:
    """Return the changed lines of two chapters."""
    sources = ((MODELS / f"{name}.py").read_text(encoding="utf-8") for name in (old, new))
    return changed(*sources)


def main() -> int:
    """Write the diffs with the known tags; return 1 if any is missing."""
    n_missing = 0
    for pair in PAIRS:
        known = defaultdict(list)
        if path_of(*pair).exists():
            for tag, line in tagged(*pair):
                known[line].append(tag)
        rows = [(known[line].pop(0) if known[line] else "?", line) for line in diff(*pair)]
        n_missing += sum(tag == "?" for tag, _ in rows)
        n_plumbing = sum(tag == "plumbing" for tag, _ in rows)
        head = f"{pair[0]}.py → {pair[1]}.py: {len(rows)} changed lines, {n_plumbing} plumbing"
        width = max(len(tag) for tag, _ in rows)
        text = "\n".join([head, "", *(f"{tag:{width}} | {line}" for tag, line in rows), ""])
        path_of(*pair).write_text(text, encoding="utf-8")
        print(head)
    return int(n_missing > 0)


if __name__ == "__main__":
    sys.exit(main())
