"""The command `seqmodels score`: score translations or alignments from elsewhere."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from seqmodels.utils import files
from seqmodels.utils.imports import import_beside
from seqmodels.utils.terminal import ensure_out_folder, increasing, print_json

Scored = dict[str, Any]
BUCKETS = "10,20,30,40,50,60,80"
"""Words of the longest source of each bucket, unless other ends are given."""


def score(args: argparse.Namespace) -> None:
    """Print scores of translations, or of alignments, from elsewhere; with --out, write them."""
    if args.gold:
        if args.tokenize is not None or args.lowercase:
            raise ValueError("--tokenize and --lowercase are for texts; leave them out with --gold")
        if args.buckets and not args.src:
            raise ValueError("--buckets needs --src, whose words it counts")
        if len(args.ref) > 1:
            raise ValueError("--ref is given twice; with --gold, there is one target")
    elif not args.ref or not args.src:
        raise ValueError("give --ref and --src to score translations, or --gold for alignments")
    elif args.gold_one_based:
        raise ValueError("--gold-one-based needs --gold")
    ends = args.buckets or increasing(BUCKETS)
    result, lines = (score_alignments if args.gold else score_translations)(args, ends)
    if args.json:
        print_json(result)
    else:
        print(*lines, sep="\n")


def score_translations(args: argparse.Namespace, ends: list[int]) -> tuple[Scored, list[object]]:
    """Return scores, and their tables and the paths of what is written: a figure and a page too."""
    from seqmodels.evaluation import external, metrics
    from seqmodels.report import drawing, style, systems

    texts = external.read_translations(args.src, args.ref, args.hyps)
    chosen = metrics.tokenizer_for("", texts.refs[0].lines)
    tokenize = chosen if args.tokenize is None else args.tokenize
    out = ensure_out_folder(args.out) if args.out else None
    if out:
        figures = (out / f"score-length{kind}" for kind in style.STAMPS)
        files.check_own(out / "score.json", out / "report.html", *figures)
    result = external.score_translations(texts, tokenize, args.lowercase, ends)
    if out is None:
        return result, [systems.translation_table(result)]
    write_systems = import_beside("lesson.report").write_systems
    paths = [write_json(result, out / "score.json")]
    with style.context():
        figure = drawing.draw_systems(
            result["systems"], systems.format_subtitle(result), result["unit"]
        )
        paths += style.save_own({"score-length": figure}, out)
    paths.append(write_systems(result, texts, tokenize, args.lowercase, out))
    return result, [systems.translation_table(result), "", *paths]


def score_alignments(args: argparse.Namespace, ends: list[int]) -> tuple[Scored, list[object]]:
    """Return scores, and their tables and the path of what is written."""
    from seqmodels.evaluation import external
    from seqmodels.report import systems

    tgt = args.ref[0] if args.ref else None
    given = external.read_alignments(args.gold, args.hyps, args.src, tgt, args.gold_one_based)
    out = ensure_out_folder(args.out) if args.out else None
    result = external.score_alignments(*given, ends)
    table = systems.alignment_table(result)
    paths = ["", write_json(result, out / "alignments.json")] if out else []
    return result, [table, *paths]


def write_json(result: dict[str, Any], path: Path) -> Path:
    """Write scores; return the path."""
    return files.write_own(path, json.dumps(result, ensure_ascii=False, indent=1) + "\n")


def add_score_arguments(arg: Callable[..., Any]) -> None:
    """Add the arguments of the command."""
    arg("--ref", type=Path, action="append", default=[], metavar="FILE",
        help="reference, or several, each after a --ref; with --gold optional")  # fmt: skip
    arg("--src", type=Path, metavar="FILE", help="source; with --gold optional")
    arg("hyps", type=Path, nargs="+", metavar="HYP",
        help="a system's output: translations or, with --gold, alignments; others are compared "
        "with the first; all: UTF-8, a sentence per line")  # fmt: skip
    arg("--gold", type=Path, metavar="FILE",
        help="score word alignments against this one: i-j are sure links, i?j or ipj possible "
        "ones, words counted from 0")  # fmt: skip
    arg("--gold-one-based", action="store_true", help="--gold counts words from 1")
    arg("--tokenize", metavar="NAME",
        help="sacreBLEU's; default: 13a, or one for the script of the references")  # fmt: skip
    arg("--lowercase", action="store_true", help="ignore case")
    arg("--buckets", type=increasing, metavar="N,N,…",
        help=f"longest source of each bucket, in words; default: {BUCKETS}")  # fmt: skip
    arg("--out", type=Path, metavar="DIR",
        help="write the scores as JSON and, for translations, a figure and a page that leads to "
        "the sentences")  # fmt: skip
