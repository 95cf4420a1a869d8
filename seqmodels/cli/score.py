"""Score translations from elsewhere by source length."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seqmodels.cli.arguments import Add
from seqmodels.utils.terminal import increasing, print_json

BUCKETS = "10,20,30,40,50,60,80"
"""Words of the longest source of each bucket, unless other ends are given."""
MANY_TOKENIZED = 100
"""Lines ending in " ." from which a text is suspected to be tokenized (sacreBLEU's threshold)."""
PAIR = "{difference:+.2f} (p = {p:.3f})"
"""A system less the first one."""


def run(args: argparse.Namespace) -> None:
    """Print the scores of translations, as tables or as JSON."""
    from seqmodels.evaluation import external, metrics

    if not args.ref or not args.src:
        raise ValueError("give --ref and --src, the texts that the translations are scored with")
    src, *others = external.read_files([args.src, *args.ref, *args.hyps])
    refs, systems = others[: len(args.ref)], others[len(args.ref) :]
    tokenize = args.tokenize or metrics.tokenizer_for(refs[0].lines)
    ends = args.buckets or increasing(BUCKETS)
    result = external.score_translations(src, refs, systems, tokenize, args.lowercase, ends)
    print_json(result) if args.json else print(format_tables(result))


def format_tables(result: Mapping[str, Any]) -> str:
    """Format one Markdown table per score, systems side by side, with notes."""
    from seqmodels.evaluation.metrics import metric_of
    from seqmodels.report.load_records import MIN_EXAMPLES, format_ends
    from seqmodels.report.tables import format_markdown

    systems, parts, notes = result["systems"], list[str](), list[str]()
    for key in (*result["signatures"], "length_ratio"):
        rows = [[f"source {result['unit']}", "n", *(system["name"] for system in systems)]]
        for row in zip(*([*s["buckets"], s["overall"]] for s in systems), strict=True):
            name = format_ends(row[0]["low"], row[0]["high"]) if "low" in row[0] else "all"
            rows.append([name, f"{row[0]['n']:,}", *(format_score(part, key) for part in row)])
        if key in result["paired_signatures"]:
            pairs = [system["against_first"][key] for system in systems[1:]]
            differences = ("the same" if d["p"] is None else PAIR.format(**d) for d in pairs)
            rows.append([f"against {systems[0]['name']}", "", "", *differences])
        parts += [f"### {metric_of(key).label}", format_markdown(rows)]
    first = f"[95 % interval (BCa bootstrap)]; * fewer than {MIN_EXAMPLES} sentences."
    other = f"Against {systems[0]['name']}: difference, and p of sacreBLEU's paired bootstrap."
    for note, named in ((first, result["signatures"]), (other, result["paired_signatures"])):
        lines = [f"{metric_of(key).label}: `{text}`" for key, text in named.items()]
        parts += ["\n".join([note, *lines])] * bool(lines)
    for text in (result["src"], *result["refs"], *systems):
        if n := text["n_blank"]:
            notes.append(f"{text['file']}: {n:,} of {result['n']:,} lines are blank.")
        n = text.get("n_tokenized", 0)
        if n >= MANY_TOKENIZED and "tok:none" not in result["signatures"]["bleu"]:
            notes.append(f"{text['file']}: {n:,} lines end in ' .'; is it tokenized? BLEU differs.")
    return "\n\n".join([*parts, *["\n".join(notes)] * bool(notes)])


def format_score(part: Mapping[str, Any], key: str) -> str:
    """Format the score of a bucket with its interval, or the ratio of its lengths."""
    from seqmodels.report.load_records import MIN_EXAMPLES

    if isinstance(score := part[key], float):
        return f"{score:.3f}"
    interval = "[–]" if score["low"] is None else "[{low:.1f}, {high:.1f}]"
    return f"{{value:.1f}} {interval}".format(**score) + "*" * (part["n"] < MIN_EXAMPLES)


def add_arguments(arg: Add) -> None:
    """Add the arguments of the command."""
    arg("--ref", type=Path, action="append", default=[], metavar="FILE",
        help="reference, or several, each after a --ref")  # fmt: skip
    arg("--src", type=Path, metavar="FILE", help="source, whose words are counted")
    arg("hyps", type=Path, nargs="+", metavar="HYP",
        help="a system's translations; others are compared with the first; all: UTF-8, a "
        "sentence per line")  # fmt: skip
    arg("--tokenize", metavar="NAME",
        help="sacreBLEU's; default: 13a, or one for the script of the references")  # fmt: skip
    arg("--lowercase", action="store_true", help="ignore case")
    arg("--buckets", type=increasing, metavar="N,N,…",
        help=f"longest source of each bucket, in words; default: {BUCKETS}")  # fmt: skip
    arg("--json", action="store_true", help="print the scores as one line of JSON")
