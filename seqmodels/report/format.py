"""Format numbers and names for figures, tables and pages. No torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from seqmodels.evaluation.metrics import metric_of
from seqmodels.evaluation.significance import Difference
from seqmodels.models import papers
from seqmodels.records.significance import Comparison
from seqmodels.report.reading import Record


def label_of(model: str) -> str:
    """Return the label of a model; an unknown model keeps its name."""
    known = papers()
    return known[model].label if model in known else model


def bucket_name(bucket: Mapping[str, Any]) -> str:
    """Format the range of a bucket."""
    low, high = f"{bucket['low']:,}", f"{bucket['high']:,}"
    return high if low == high else f"{low}–{high}"


def short(n: float, _: object = None, unit: str = "") -> str:
    """Format 2000000 as 2 M and 0.0002 as 2e-4; also a formatter for axis ticks."""
    if 0 < n < 1e-3:
        return f"{n:.0e}".replace("e-0", "e-")
    sizes = {1e15: "P", 1e12: "T", 1e9: "G", 1e6: "M", 1e3: "k", 0: ""}
    size, prefix = next((s or 1, p) for s, p in sizes.items() if n >= s)
    return f"{n / size:.3g} {prefix}{unit}".strip()


def span(values: Iterable[float], write: Callable[[float], str]) -> str:
    """Format the range of the values, or a single value if all are equal."""
    low, high = write(min(values := list(values))), write(max(values))
    return high if low == high else f"{low}–{high}"


def parameters(records: Iterable[Record]) -> str:
    """Format the number of parameters, or the range of numbers, in millions."""
    return span((r["n_parameters"] / 1e6 for r in records), "{:.2f}".format) + " M"


def subtitle(records: Sequence[Record]) -> str:
    """Return a one-line summary: task, data, parameters, target tokens and seeds."""
    runs = {(r["model"], r["model_config"].get("d_model"), r["seed"]) for r in records}
    seeds = span(Counter((model, width) for model, width, _ in runs).values(), str)
    tokens = span((r["train_config"]["tokens"] for r in records), short)
    parts = [records[0]["task"].replace("_", " ").capitalize()]
    parts += dict.fromkeys(r["data"]["name"] for r in records)
    parts += [f"{parameters(records)} parameters", f"{tokens} target tokens"]
    parts += ["one seed" if seeds == "1" else f"{seeds} seeds"]
    parts += ["trained further"] * any(r.get("continued") for r in records)
    return " · ".join(parts)


def topic(records: Sequence[Record], test: dict[str, Any]) -> str:
    """Return what is scored and against what; of several test sets, which one."""
    n_tests = len({t["name"] for r in records for t in r["tests"]})
    which = f"{test['name']}: " if n_tests > 1 else ""
    text = f"{metric_of(test['primary_metric']).name} by {test['axis']}"
    return which + text[0].upper() + text[1:]


def noun(records: Sequence[Record]) -> str:
    """Return the plural noun for the examples of the records' tests."""
    return str(records[0]["tests"][0]["noun"])


def interval_methods(records: Iterable[Record], metrics: Iterable[str]) -> str:
    """Return the methods by which the intervals of these scores were computed."""
    pairs = [(r, m) for m in metrics for r in records]
    return ", ".join(dict.fromkeys((r["intervals"] or {}).get(m, "bootstrap") for r, m in pairs))


def search_method(test: dict[str, Any]) -> str:
    """Return the search method as a suffix; empty if the test set does not record it."""
    beam = test.get("beam")
    return "" if beam is None else ", greedy" if beam == 1 else f", beam {beam}"


def signed(value: float, metric: str) -> str:
    """Format a difference with its sign; ± if it rounds to zero."""
    text = f"{value:+.{metric_of(metric).digits}f}"
    return text.replace("-", "−") if float(text) else f"±{text[1:]}"


def format_interval(difference: Difference, metric: str) -> str:
    """Format the interval of a difference."""
    if difference.low is None or difference.high is None:
        return "[–]"
    return f"[{signed(difference.low, metric)}, {signed(difference.high, metric)}]"


def format_significance(comparison: Comparison, units: str) -> str:
    """Explain the test of significance, and what one seed does not show."""
    seeds = [n for pair in comparison.pairs for n in pair.n_seeds]
    text = ""
    if comparison.n_corrected:
        n_seeds = span((n for n in seeds if n > 1), str)
        text = (
            f"Paired bootstrap over {n_seeds} seeds and the same {units}, Student's t, corrected "
            f"for {comparison.n_corrected} difference{'s' * (comparison.n_corrected > 1)} (Holm)."
        )
    if min(seeds) == 1:
        alone = "Pairs with one seed" if comparison.n_corrected else "One seed"
        text += f" {alone}: {units} alone are drawn, and nothing is called significant."
    return text.strip()


def p_value(p: float | None) -> str:
    """Format a p-value; a dash if there is none."""
    return "–" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"
