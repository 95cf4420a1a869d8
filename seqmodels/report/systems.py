"""Tables of the translations and alignments of other systems (see evaluation/external.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seqmodels.evaluation.metrics import metric_of
from seqmodels.report import tables
from seqmodels.report.reading import MIN_EXAMPLES, format_bucket

MANY_TOKENIZED = 100
"""Lines ending in " ." from which a text is suspected to be tokenized (sacreBLEU's threshold)."""

Systems = Sequence[Mapping[str, Any]]
Result = Mapping[str, Any]
"""Scores of external systems, from evaluation/external.py."""


def translation_table(result: Result) -> str:
    """Format one Markdown table per score, systems side by side, with notes."""
    systems, parts = result["systems"], []
    for key in (*result["signatures"], "length_ratio"):
        rows = bucket_rows(result, key)
        pairs = [system["against_first"].get(key) for system in systems[1:]]
        if any(pairs):
            rows.append(
                [f"against {systems[0]['name']}", "", "", *map(format_paired_difference, pairs)]
            )
        parts += [f"### {metric_of(key).label}", tables.format_markdown(rows)]
    note = f"[95 % interval (BCa bootstrap)]; * fewer than {MIN_EXAMPLES} sentences."
    parts.append(append_signatures(note, result["signatures"]))
    if paired := result["paired_signatures"]:
        note = f"Against {systems[0]['name']}: difference, and p of sacreBLEU's paired bootstrap."
        parts.append(append_signatures(note, paired))
    notes = []
    for text in (result["src"], *result["refs"], *systems):
        if n := text["n_blank"]:
            in_no_bucket = "; they are in no bucket" if text is result["src"] else ""
            notes.append(f"{text['file']}: {n:,} of {result['n']:,} lines are blank{in_no_bucket}.")
        n = text.get("n_tokenized", 0)
        if n >= MANY_TOKENIZED and "tok:none" not in result["signatures"]["bleu"]:
            notes.append(
                f"{text['file']}: {n:,} lines end in ' .'; is it tokenized? That can change BLEU."
            )
    return "\n\n".join([*parts, *["\n".join(notes)] * bool(notes)])


def alignment_table(result: Result) -> str:
    """Format a Markdown table of all rates and one of AER by source length, with notes."""
    systems, gold = result["systems"], result["gold"]
    rates = ("aer", "precision", "recall")
    rows = [["alignment", *(metric_of(key).name for key in rates), "links"]]
    for system in systems:
        cells = [format_cell(system["overall"][key], key, system["overall"]["n"]) for key in rates]
        rows.append([system["name"], *cells, f"{system['n_links']:,}"])
    if len(systems) > 1:
        pairs = ["", *(format_difference(s["against_first"]["aer"]) for s in systems[1:])]
        pairs = [f"AER against {systems[0]['name']}", *pairs]
        rows = [[*row, pair] for row, pair in zip(rows, pairs, strict=True)]
    parts = ["### Word alignment", tables.format_markdown(rows)]
    if systems[0]["buckets"]:
        parts += [
            "### AER (%) by source length",
            tables.format_markdown(bucket_rows(result, "aer")),
        ]
    note = "[95 % interval (BCa bootstrap over sentences)]"
    n_thin = sum(
        part["n"] < MIN_EXAMPLES for part in (systems[0]["overall"], *systems[0]["buckets"])
    )
    note += f"; * fewer than {MIN_EXAMPLES} sentences." if n_thin else "."
    n, n_sure, n_more = result["n"], gold["n_sure"], gold["n_links"] - gold["n_sure"]
    parts.append(
        f"{note}\n"
        "AER = 1 - (|A∩S| + |A∩P|) / (|A| + |S|), precision = |A∩P| / |A|, recall = |A∩S| / |S|\n"
        "A: links found, S: sure gold links, P: sure and possible gold links (Och and Ney 2003)\n"
        f"Gold: {gold['file']}, {n:,} sentences, {n_sure:,} sure links, {n_more:,} possible ones"
    )
    notes = [
        f"{facts['file']}: no link to word 0; are its words counted from 1?"
        for facts in (gold, *systems)
        if (facts["lowest_word"] or 0) > 0
    ]
    if result["src"] and (n := result["src"]["n_blank"]):
        notes.append(f"{result['src']['file']}: {n:,} blank lines; they are in no bucket.")
    return "\n\n".join([*parts, *["\n".join(notes)] * bool(notes)])


def bucket_rows(result: Result, key: str) -> list[list[str]]:
    """Return the table rows of one score: a bucket each, and all sentences."""
    systems, unit = result["systems"], result["unit"]
    rows = [[f"source {unit}", "n", *(system["name"] for system in systems)]]
    for parts in zip(*([*system["buckets"], system["overall"]] for system in systems), strict=True):
        n, name = parts[0]["n"], format_bucket(parts[0]) if "low" in parts[0] else "all"
        rows.append([name, f"{n:,}", *(format_cell(part[key], key, n) for part in parts)])
    return rows


def format_cell(score: float | Mapping[str, Any], key: str, n: int) -> str:
    """Format a ratio, or a score with its interval."""
    if isinstance(score, float):
        return f"{score:.{metric_of(key).digits}f}"
    seeds = np.array([[score["value"], score["low"], score["high"]]], float)  # None becomes nan
    return tables.format_cell(seeds, key, n) + "*" * (n < MIN_EXAMPLES)


def format_paired_difference(pair: Mapping[str, Any]) -> str:
    """Format a difference with its p-value."""
    return "the same" if pair["p"] is None else "{difference:+.2f} (p = {p:.3f})".format(**pair)


def format_difference(pair: Mapping[str, Any]) -> str:
    """Format a difference with its interval."""
    interval = "[–]" if pair["low"] is None else "[{low:+.1f}, {high:+.1f}]".format(**pair)
    return f"{pair['value']:+.1f} {interval}"


def append_signatures(note: str, signatures: Mapping[str, str]) -> str:
    """Return a note, followed by one line per metric with its signature."""
    return "\n".join(
        [note, *(f"{metric_of(key).label}: `{text}`" for key, text in signatures.items())]
    )


def format_subtitle(result: Result) -> str:
    """Return a one-line summary: references, sentences, signature."""
    about = name_references(result), f"{result['n']:,} sentences"
    return " · ".join((*about, result["signatures"]["bleu"]))


def name_references(result: Result) -> str:
    """Return the names of the files of references."""
    return " + ".join(Path(ref["file"]).name for ref in result["refs"])
