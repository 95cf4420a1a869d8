"""HTML tables, as notebooks show results."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def format_table(rows: Sequence[Sequence[object]], shades: Sequence[Sequence[float]] = ()) -> str:
    """Return a table whose first row and column are headings.

    Cells below and beside them are shaded by numbers from 0 to 1.
    """
    lines = []
    for i, row in enumerate(rows):
        cells = []
        for j, value in enumerate(row):
            kind, style = "td" if i and j else "th", f"text-align: {'right' if j else 'left'}"
            if i and j and shades:
                style += f"; background: rgba(0, 90, 200, {0.6 * shades[i - 1][j - 1]:.3f})"
            cells.append(f'<{kind} style="{style}">{escape(str(value))}</{kind}>')
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(lines)}</table>"
