"""Words and numbers that figures, tables and the summary share. No torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from seqmodels.report.reading import Record


def short(n: float, _: object = None, unit: str = "") -> str:
    """Write 2000000 as 2 M, also for the ticks of an axis."""
    sizes = {1e9: "G", 1e6: "M", 1e3: "k", 0: ""}
    size, prefix = next((s or 1, p) for s, p in sizes.items() if n >= s)
    return f"{n / size:.3g} {prefix}{unit}".strip()


def span(values: Iterable[float], write: Callable[[float], str]) -> str:
    """Write the lowest and the highest value, or the one value."""
    low, high = write(min(values := list(values))), write(max(values))
    return high if low == high else f"{low}–{high}"


def parameters(records: Iterable[Record]) -> str:
    """Write the number of parameters, or their range, in millions."""
    return span((r["n_parameters"] / 1e6 for r in records), "{:.2f}".format) + " M"


def subtitle(records: Sequence[Record]) -> str:
    """Write what was trained on what: task, data, parameters, target tokens and seeds."""
    seeds = span(Counter(r["model"] for r in records).values(), str)
    tokens = span((r["train_config"]["tokens"] for r in records), short)
    parts = [records[0]["task"].replace("_", " ").capitalize()]
    parts += dict.fromkeys(r["data"]["name"] for r in records)
    parts += [f"{parameters(records)} parameters", f"{tokens} target tokens"]
    parts += ["one seed" if seeds == "1" else f"{seeds} seeds"]
    parts += ["trained further"] * any(r.get("continued") for r in records)
    return " · ".join(parts)


def noun(records: Sequence[Record]) -> str:
    """Return what the examples of the records' tests are called, in the plural."""
    return str(records[0]["tests"][0]["noun"])


def methods(records: Iterable[Record], metrics: Iterable[str]) -> str:
    """Tell how the intervals of these scores were computed."""
    told = {(r.get("intervals") or {}).get(m, "bootstrap"): None for m in metrics for r in records}
    return ", ".join(told)


def search(test: dict[str, Any]) -> str:
    """Tell how targets were searched for, where the test set says it."""
    beam = test.get("beam")
    return "" if beam is None else ", greedy" if beam == 1 else f", beam {beam}"
