"""Build the report of systems trained elsewhere, from their texts. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seqmodels.evaluation.external import Result, Text
from seqmodels.evaluation.metrics import metric_of
from seqmodels.report import scores, style
from seqmodels.report import systems as tables
from seqmodels.report.format import bucket_name
from seqmodels.report.style import GREY, Look
from seqmodels.site import figure, report, rows
from seqmodels.utils import files


def write(
    result: Result, texts: Sequence[Text], tokenize: str, is_lowercase: bool, out: Path
) -> Path:
    """Write report.html to a folder: the scores of `external.score`, and the texts behind them."""
    systems, name = result["systems"], Path(result["ref"]["file"]).name
    with style.context():
        drawn = figure.inline(scores.draw_systems(systems, tables.subtitle(result)), "f0-score")
    looks = {system["name"]: Look(system["name"], GREY, "-", "o") for system in systems}
    tests = [{"name": "length", "figure": drawn, "differences": None, "table": table(systems)}]
    shown = explored(systems, texts, tokenize, is_lowercase)
    runs = [{"model": system, "label": system, "seed": 1} for system in looks]
    part = {
        **{"id": "f0", "name": name, "title": tables.subtitle(result), "tests": tests},
        **{"curves": None, "further": {}, "records": {}, "running": [], "looks": looks},
        "data": {"name": name, "runs": runs, "tests": [shown]},
    }
    return files.write(out / "report.html", report.render([part]))


def explored(
    systems: Sequence[dict[str, Any]], texts: Sequence[Text], tokenize: str, is_lowercase: bool
) -> dict[str, Any]:
    """Return the sentences by source length, with what each system wrote."""
    src, ref, *hyps = (text.lines for text in texts)
    by_system = {
        system["name"]: [
            rows.Row(set="length", x=len(s.split()), src=s, ref=r, hyp=h)
            for s, r, h in zip(src, ref, lines, strict=True)
        ]
        for system, lines in zip(systems, hyps, strict=True)
    }
    test: dict[str, Any] = {"name": "length", "noun": "sentences", "axis": "source length (words)"}
    test |= {"primary_metric": "bleu", "buckets": systems[0]["buckets"]}
    examples = rows.side_by_side(by_system, test, tokenize, is_lowercase)
    return report.explored_test(test, examples, None)


def table(systems: Sequence[dict[str, Any]]) -> list[list[Any]]:
    """Return each system's BLEU and chrF by bucket, overall last, with a row of names."""
    parts = [[*system["buckets"], system["overall"]] for system in systems]
    names = [*(bucket_name(bucket) for bucket in systems[0]["buckets"]), "all"]
    made: list[list[Any]] = [["system", "score", *names]]
    for key in ("bleu", "chrf"):
        metric = metric_of(key)
        for system, its in zip(systems, parts, strict=True):
            values = [f"{part[key]['value']:.{metric.digits}f}" for part in its]
            made.append([system["name"], metric.label, *values])
    return made
