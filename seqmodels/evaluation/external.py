"""Score translations of other systems: BLEU and chrF, overall and by source length, and compare.

Every file holds one sentence per line and is scored as is: subword marks or tokens must be joined
beforehand. All scores, and the significance test between systems, are sacreBLEU's. No torch.
"""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from seqmodels.data import readers
from seqmodels.evaluation import intervals
from seqmodels.evaluation.intervals import Interval, Row
from seqmodels.evaluation.sacre import count
from seqmodels.evaluation.table import by_bucket, metric_of, sacre_metrics
from seqmodels.report import scores, style, tables
from seqmodels.report.findings import THIN, bucket_name
from seqmodels.utils import files
from seqmodels.utils.terminal import printable

SCHEMA = "seqmodels.score/2"

MAX_LINES = 20_000
"""Most lines on which systems are compared: the test holds all resamples, 80 kB per line."""
MANY_TOKENIZED = 100
"""Lines ending in " ." from which a text is suspected to be tokenized (sacreBLEU's threshold)."""

Result = dict[str, Any]
Metrics = Mapping[str, Any]
"""sacreBLEU's metric objects by the keys of the table of metrics."""


# ------------------------------------------------------------------------------------- Reading


class Text(NamedTuple):
    """One file."""

    path: Path
    lines: list[str]

    def facts(self) -> dict[str, Any]:
        """Return the file's path and checksum, and the number of its blank lines."""
        n_blank = sum(not line.strip() for line in self.lines)
        sha256 = readers.sha256(self.lines)
        return {"file": printable(str(self.path)), "sha256": sha256, "n_blank": n_blank}


def read(src: Path, ref: Path, hyps: Sequence[Path]) -> list[Text]:
    """Return the source, the reference and each system's text.

    Raises ValueError for a file that cannot be read or is given twice, and if the numbers of lines
    differ.
    """
    src_text, ref_text, *systems = read_files((src, ref, *hyps))
    n = len(ref_text.lines)
    for text in (src_text, *systems):
        check_lines(ref_text, text, "must translate")
    if not any(line.strip() for line in src_text.lines):
        raise ValueError(f"{src} has no words; scores are grouped by the number of source words")
    if len(hyps) > 1 and n > MAX_LINES:
        raise ValueError(
            f"{ref} has {n:,} lines; systems are compared on at most {MAX_LINES:,}: "
            "score one system at a time"
        )
    return [src_text, ref_text, *systems]


def read_files(paths: Sequence[Path]) -> list[Text]:
    """Return the text of each file. A pipe is read once.

    Raises ValueError for a file that is not text, and for a file given twice.
    """
    for one, other in combinations(paths, 2):
        with suppress(OSError):  # files that cannot be read are named below
            if one.samefile(other):
                raise ValueError(f"{one} and {other} are the same file; give each file once")
    return [Text(path, readers.read_lines(path, takes_pipe=True)) for path in paths]


def check_lines(one: Text, other: Text, verb: str) -> None:
    """Raise ValueError unless two texts have the same number of lines."""
    if len(other.lines) != len(one.lines):
        raise ValueError(
            f"{one.path} has {len(one.lines):,} lines and {other.path} has {len(other.lines):,}; "
            f"line n of one {verb} line n of the other"
        )


def names_of(paths: Sequence[Path]) -> list[str]:
    """Name systems by their files, without a common ending.

    If two files have the same name, their folders distinguish them.
    """
    names = [path.name for path in paths]
    if len(set(names)) < len(names):
        absolute = [os.path.abspath(path) for path in paths]
        names = [os.path.relpath(path, os.path.commonpath(absolute)) for path in absolute]
    for dot in re.finditer(r"[./]", names[0]) if len(names) > 1 else ():
        ending = names[0][dot.start() :]
        if all(name.endswith(ending) and name != ending for name in names):
            names = [name.removesuffix(ending) for name in names]
            break
    return [printable(name) for name in names]


# ------------------------------------------------------------------------------------- Scoring


def metrics_of(ref: Sequence[str], tokenize: str, is_lowercase: bool) -> Metrics:
    """Return sacreBLEU's metrics in the table, made for a reference.

    Raises ValueError for a tokenizer that sacreBLEU does not have, or that does not work here.
    """
    if tokenize not in BLEU.TOKENIZERS:
        known = ", ".join(BLEU.TOKENIZERS)
        raise ValueError(f"--tokenize {tokenize}: sacreBLEU has {known}")
    try:
        return {
            key: kind.make(tokenize, is_lowercase, [ref]) for key, kind in sacre_metrics().items()
        }
    except (ImportError, OSError, RuntimeError) as error:  # not installed; no network
        raise ValueError(f"--tokenize {tokenize} does not work here: {error}") from error


def buckets_of(lengths: Sequence[int], ends: Sequence[int]) -> list[tuple[int, int]]:
    """Return the buckets with these ends, starting at 1, and one for all longer sources."""
    longer = [max(lengths)] if max(lengths) > ends[-1] else []
    return [(low + 1, high) for low, high in pairwise([0, *ends, *longer])]


def parts_of(
    counts: Mapping[str, np.ndarray],
    kinds: Metrics,
    lengths: Sequence[int],
    buckets: Sequence[tuple[int, int]],
) -> dict[str, Any]:
    """Return one system's scores and length ratios, overall and by bucket."""

    def part(rows: Sequence[Row]) -> dict[str, Any]:
        here = {key: np.stack([row[key] for row in rows]) for key in kinds}
        known = sacre_metrics()
        found = {key: known[key].score(metric, here[key]) for key, metric in kinds.items()}
        n_hyp, n_ref = here["bleu"][:, :2].sum(0)
        return {**found, "length_ratio": float(n_hyp / n_ref) if n_ref else 0.0}

    columns = zip(lengths, *(counts[key] for key in kinds), strict=True)
    rows = [dict(zip(("x", *kinds), row, strict=True)) for row in columns]
    return {"overall": {"n": len(rows), **part(rows)}, "buckets": by_bucket(rows, buckets, part)}


def against_first(
    metric: Any, counted: Sequence[np.ndarray]
) -> tuple[str, list[dict[str, float | None]]]:
    """Return the signature of sacreBLEU's paired bootstrap, and each system's difference and p.

    p is None if all counts are equal, which the test would call significant.
    """
    known: Any = copy.copy(metric)
    known._extract_corpus_statistics = lambda counts, refs: counts  # it is given counts
    named: Any = [(str(i), counts) for i, counts in enumerate(counted)]
    signatures, found = PairedTest(named, {"": known}, None, "bs", intervals.N_BOOTSTRAP)()
    ((name, signature),) = signatures.items()
    first, *others = cast("list[Any]", found[name])
    return str(signature), [
        {
            "difference": float(other.score - first.score),
            "p": None if np.array_equal(counts, counted[0]) else other.p_value,
        }
        for other, counts in zip(others, counted[1:], strict=True)
    ]


def score(texts: Sequence[Text], tokenize: str, is_lowercase: bool, ends: Sequence[int]) -> Result:
    """Score all systems in `texts` (see read), in buckets of source words with these ends.

    Returns what is written as JSON. Differences are from the first system.
    """
    src, ref, *systems = texts
    kinds = metrics_of(ref.lines, tokenize, is_lowercase)
    lengths = [len(line.split()) for line in src.lines]
    buckets = buckets_of(lengths, ends)
    counted, entries = [], []
    for text, name in zip(systems, names_of([text.path for text in systems]), strict=True):
        counts = {key: count(metric, text.lines, None) for key, metric in kinds.items()}
        n_tokenized = sum(line.endswith(" .") for line in text.lines)
        parts = parts_of(counts, kinds, lengths, buckets)
        counted.append(counts)
        entries.append({"name": name, **text.facts(), "n_tokenized": n_tokenized, **parts})
    paired = {}
    for key, metric in kinds.items() if len(systems) > 1 else ():
        paired[key], found = against_first(metric, [counts[key] for counts in counted])
        for entry, result in zip(entries[1:], found, strict=True):
            entry.setdefault("against_first", {})[key] = result
    return {
        "schema": SCHEMA,
        "n": len(lengths),
        "src": src.facts(),
        "ref": ref.facts(),
        "n_bootstrap": intervals.N_BOOTSTRAP,
        "signatures": {key: str(metric.get_signature()) for key, metric in kinds.items()},
        "paired_signatures": paired,
        "systems": entries,
    }


# -------------------------------------------------------------------------------------- Showing


def table(result: Result) -> str:
    """Return one Markdown table per score, systems side by side, and explain the cells."""
    systems, parts = result["systems"], []
    for key in (*result["signatures"], "length_ratio"):
        parts += [f"### {metric_of(key).label}", tables.markdown(rows_of(systems, key))]
    note = f"[95 % interval (BCa bootstrap)]; * fewer than {THIN} sentences."
    parts.append(signed(note, result["signatures"]))
    if paired := result["paired_signatures"]:
        note = f"Against {systems[0]['name']}: difference, and p of sacreBLEU's paired bootstrap."
        parts.append(signed(note, paired))
    return "\n\n".join([*parts, *filter(None, ["\n".join(notes_on(result))])])


def signed(note: str, signatures: Mapping[str, str]) -> str:
    """Return a note, followed by one line per metric with its signature."""
    return "\n".join(
        [note, *(f"{metric_of(key).label}: `{text}`" for key, text in signatures.items())]
    )


def rows_of(systems: Sequence[Mapping[str, Any]], key: str) -> list[list[str]]:
    """Return the table rows of one score: buckets, all sentences, differences."""
    rows = [["source words", "n", *(system["name"] for system in systems)]]
    for parts in zip(*([*system["buckets"], system["overall"]] for system in systems), strict=True):
        n, name = parts[0]["n"], bucket_name(parts[0]) if "low" in parts[0] else "all"
        rows.append([name, f"{n:,}", *(cell(part[key], key, n) for part in parts)])
    found = [system["against_first"].get(key) for system in systems[1:]]
    if any(found):
        rows.append([f"against {systems[0]['name']}", "", "", *map(difference, found)])
    return rows


def cell(score: float | Interval, key: str, n: int) -> str:
    """Format a ratio, or a score with its interval."""
    if isinstance(score, float):
        return f"{score:.{metric_of(key).digits}f}"
    found = np.array([[score["value"], score["low"], score["high"]]], float)  # None becomes nan
    return tables.cell(found, key, n)


def difference(found: Mapping[str, Any]) -> str:
    """Format a difference with its p-value."""
    return "the same" if found["p"] is None else "{difference:+.2f} (p = {p:.3f})".format(**found)


def notes_on(result: Result) -> list[str]:
    """Return a warning for each text with blank lines, or that seems to be tokenized."""
    notes = []
    for text in (result["src"], result["ref"], *result["systems"]):
        if n := text["n_blank"]:
            in_no_bucket = "; they are in no bucket" if text is result["src"] else ""
            notes.append(f"{text['file']}: {n:,} of {result['n']:,} lines are blank{in_no_bucket}.")
        n = text.get("n_tokenized", 0)
        if n >= MANY_TOKENIZED and "tok:none" not in result["signatures"]["bleu"]:
            notes.append(
                f"{text['file']}: {n:,} lines end in ' .'; is it tokenized? That can change BLEU."
            )
    return notes


def subtitle(result: Result) -> str:
    """Return a one-line summary: reference, sentences, signature."""
    about = Path(result["ref"]["file"]).name, f"{result['n']:,} sentences"
    return " · ".join((*about, result["signatures"]["bleu"]))


def write(result: Result, out: Path) -> list[Path]:
    """Write score.json and the figure to a folder; return the paths."""
    text = json.dumps(result, ensure_ascii=False, indent=1) + "\n"
    made = files.write(out / "score.json", text)
    with style.context():
        figure = scores.draw_systems(result["systems"], subtitle(result))
        return [made, *(style.save(figure, out / f"score-length.{x}") for x in ("svg", "png"))]
