"""Made-up records, as fields in JSON types, and helpers that build, write and draw them."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seqmodels.evaluation import metrics
from seqmodels.models import PAPERS
from seqmodels.records.io import build, save_sums, sums_path
from seqmodels.records.schema import SCHEMA, Record
from seqmodels.report import figures

MODELS = tuple(name for name, paper in PAPERS.items() if paper.group == "five")
"""The models of the five papers."""
LENGTHS = (8, 16, 32, 64, 128, 256)
ATTENDING = [name for name, paper in PAPERS.items() if paper.attends]


def metric(value: float, half: float, top: float = 1e9) -> dict[str, float]:
    value = min(value, top - 0.1)
    return {"value": value, "low": max(value - half, 0.0), "high": min(value + half, top)}


def fake_test(
    model: str, name: str, axis: str, primary: str, bins: list[tuple[int, int, int]], trained: Any
) -> dict[str, Any]:
    """Make a test set on which the fixed-vector models fall with length, the others late."""
    k, longest = MODELS.index(model) if model in MODELS else 2, max(high for _, high, _ in bins)
    rng = np.random.default_rng([k, len(name)])
    is_generated = primary in ("bleu", "accuracy")
    parts = []
    for low, high, n in bins:
        x, half = (low + high) / 2 / longest, 60 / n**0.5
        fall = 75 * x**3 if model in ATTENDING else 130 * x**1.1
        score = max(92.0 - fall - 1.5 * k + float(rng.normal()), 1.0)
        nats = 0.25 + 2.5 * (100 - score) / 100
        part = {
            "low": low, "high": high, "n": n, "nats": metric(nats, half / 60),
            "bits_per_byte": metric(nats / 2.2, half / 100),
            "token_accuracy": metric(40 + score / 2, half, 100),
            "exact_match": metric(score * 0.8, half, 100),
        }  # fmt: skip
        if is_generated:
            keys = enumerate(("bleu", "accuracy"))
            part |= {key: metric(score + 3 * i, half + i, 100) for i, key in keys}
        parts.append(part)
    middle = {h: v for h, v in parts[len(parts) // 3].items() if isinstance(v, dict)}
    overall = {h: {end: 0.99 * x for end, x in v.items()} for h, v in middle.items()}
    return {
        "name": name, "axis": axis, "kind": name if name in ("context", "distance") else "length",
        "unit": axis.split()[-1].strip("()"), "primary_metric": primary,
        "noun": "sentences" if primary == "bleu" else "examples",
        "beam": 5 if is_generated else None,
        "max_train_length": trained, "overall": overall, "buckets": parts,
    }  # fmt: skip


def fake_tests(model: str, task: str) -> list[dict[str, Any]]:
    if task == "translation":
        counts = (1000, 1000, 1000, 987, 400, 212, 30, 29)
        bins = [(10 * i + 1, 10 * i + 10, n) for i, n in enumerate(counts)]
        return [fake_test(model, "length", "source length (words)", "bleu", bins, 40)]
    if task == "recall":
        bins = [(n, n, 200) for n in (4, 8, 16, 32, 64, 128)]
        kinds, about = ("copy", "reverse", "lookup"), ("source length (symbols)", "accuracy")
        return [fake_test(model, kind, *about, bins, 32) for kind in kinds]
    bins = [(n, n, 2000) for n in (0, 8, 16, 32, 64, 128, 256)]
    far = [(1, 8, 300), (9, 16, 250), (17, 32, 120), (33, 64, 22)]
    return [
        fake_test(model, "context", "context (tokens)", "bits_per_byte", bins, None),
        fake_test(model, "distance", "distance to the word (tokens)", "exact_match", far, 32),
    ]


def fake_record(model: str, seed: int, task: str = "translation") -> dict[str, Any]:
    k = MODELS.index(model) if model in MODELS else 5
    rng = np.random.default_rng([seed, k])
    tests = fake_tests(model, task)
    shift = float(rng.normal(0, 1.5))
    for part in [p for t in tests for p in [t["overall"], *t["buckets"]]]:
        for name, cell in part.items():
            if isinstance(cell, dict):
                scale = 0.02 if name in ("nats", "bits_per_byte") else 1
                part[name] = {q: max(v + shift * scale, 0.01) for q, v in cell.items()}
    names = {"translation": "English–German grammar", "recall": "random symbols"}
    steps = np.arange(100, 1400, 50)
    loss = (0.4 + 0.3 * (model not in ATTENDING)) + 4 * np.exp(-steps / (260 + 60 * k))
    loss += np.maximum(steps - 1100, 0) / 1000  # the best point is not the last
    src = ["the", "old", "gardener", "does", "not", "see", "the", "small", "child", "."]
    tgt = ["der", "alte", "Gärtner", "sieht", "das", "kleine", "Kind", "nicht", "."]
    gold = [[0, 0], [1, 1], [2, 2], [5, 3], [6, 4], [7, 5], [8, 6], [4, 7], [9, 8]]
    alpha = rng.dirichlet(np.full(len(src), 0.15), len(tgt)).tolist()
    aligned = {"src": src, "tgt": tgt, "alpha": alpha}
    aligned["gold"] = gold if task == "translation" else None
    is_fixed = model not in PAPERS or PAPERS[model].memory != "grows"
    return {
        "schema": SCHEMA, "task": task, "model": model, "seed": seed,
        "model_config": {}, "train_config": {"tokens": 2000000, "lr": 0.002}, "beam": 5,
        "n_parameters": 985_000 + 9_000 * k,
        "data": {"name": names.get(task, "TinyStories"), "sha256": "00", "n_train": 118000},
        "provenance": {"commit": "abc", "date": "2026-11-21", "versions": {}, "system": "",
                       "device": "", "threads": 2},
        "curve": [
            {"step": s, "tokens": s * 1500, "seconds": s * (0.05 + 0.03 * k), "train_nats": v,
             "valid_nats": v * (1 + 0.01 * shift), "valid_accuracy": 50 + s / 100 + k}
            for s, v in zip(steps.tolist(), loss.tolist(), strict=True)
        ],
        "tests": tests,
        "signatures": {"bleu": "nrefs:1|case:mixed|tok:13a"},
        "alignment": aligned if model in ATTENDING else None,
        "source_bytes": [[s, 2048 if is_fixed else 256 * s] for s in LENGTHS],
        "cache_bytes": [[s, 4096 if is_fixed else 512 * s] for s in LENGTHS],
        "speed": {"train_tokens_per_s": 9000.0 - 500 * k, "evaluate_sentences_per_s": 81.5},
        "train_s": 100.5 + 10 * k + seed, "evaluate_s": 9.75,
        "hypotheses": f"{model}-seed{seed}.jsonl",
        "weights_sha256": "00" * 32,
    }  # fmt: skip


def as_arm(
    record: dict[str, Any], label: str = "", sizes: Any = None, **training: Any
) -> dict[str, Any]:
    """Make of a model's record that of an arm with these sizes and this training changed."""
    name = "-".join([record["model"], *(f"{k}-{v}" for k, v in ((sizes or {}) | training).items())])
    arm = {"varies": record["model"], "label": label, "sizes": sizes or {}, "width": 1}
    return record | {"model": name, "arm": arm | {"training": training}}


def as_records(fields: Iterable[dict[str, Any]]) -> list[Record]:
    return [*map(build, fields)]


def write(folder: Path, records: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for r in records:
        path = folder / f"{r['model']}-seed{r['seed']}.json"
        path.write_text(json.dumps(r, ensure_ascii=False), encoding="utf-8")
    return folder


def several(n_seeds: int, task: str = "translation") -> list[dict[str, Any]]:
    return [fake_record(m, s, task) for m in MODELS for s in range(1, n_seeds + 1)]


WORDS = [f"w{i}" for i in range(40)]
BUCKETS = [(1, 5), (6, 10), (11, 15)]


def fake_rows(seed: int, share: float, n: int = 30) -> list[dict[str, Any]]:
    """Make n rows per bucket: the same sentences, of whose words a share is right."""
    rows = []
    shared, own = np.random.default_rng(1), np.random.default_rng([seed, round(1000 * share)])
    for low, high in BUCKETS:
        for _ in range(n):
            ref = shared.choice(WORDS, shared.integers(low, high + 1))
            hard = shared.uniform(-0.2, 0.2)
            right = own.random(len(ref)) < share + hard
            hyp = np.where(right, ref, own.choice(WORDS, len(ref)))
            rows.append({
                "set": "length", "x": len(ref), "ref": " ".join(ref), "hyp": " ".join(hyp),
                "nats": float(len(ref) * (2 - share + hard)), "n_tokens": len(ref),
                "n_bytes": 2 * len(ref), "n_correct": int(right.sum()),
                "n_same": int((hyp == ref).sum()), "n_places": len(ref),
                "exact_match": bool((hyp == ref).all()),
            })  # fmt: skip
    return rows


def with_rows(
    folder: Path, shares: dict[str, Sequence[float]], primary_metric: str = "bleu"
) -> Path:
    """Write records with their rows: per model, the shares of right words of its seeds."""
    folder.mkdir(parents=True, exist_ok=True)
    for model, of_seeds in shares.items():
        for seed, share in enumerate(of_seeds, 1):
            rows, record = fake_rows(seed, share), fake_record(model, seed)
            overall, buckets = metrics.compute_scores_by_bucket(rows, BUCKETS)
            record["tests"] = [{
                "name": "length", "axis": "source length (words)", "noun": "sentences",
                "kind": "length", "unit": "words", "beam": 1, "primary_metric": primary_metric,
                "max_train_length": 10, "overall": overall, "buckets": buckets,
            }]  # fmt: skip
            lines = [json.dumps(row) + "\n" for row in rows]
            (folder / record["hypotheses"]).write_text("".join(lines), encoding="utf-8")
            save_sums(sums_path(folder, build(record)), build(record), rows)
            write(folder, [record])
    return folder


def row(text: str, start: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"| {start}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def scored(
    values: dict[str, Sequence[float]],
    counts: Sequence[int] = (100, 100, 100),
    primary_metric: str = "bleu",
    trained: int | None = None,
    half: float = 1.0,
    **about: Any,
) -> list[dict[str, Any]]:
    """Make a record per model with these scores in buckets of ten words, each ± half."""
    records = []
    for model, parts in values.items():
        r = fake_record(model, 1)
        buckets = [
            {"low": 10 * i + 1, "high": 10 * i + 10, "n": n, **about.get("buckets", {}).get(i, {}),
             primary_metric: {"value": v, "low": v - half, "high": v + half}}
            for i, (n, v) in enumerate(zip(counts, parts, strict=True))
        ]  # fmt: skip
        value = 0.99 * float(np.mean(parts))
        overall = {
            name: {"value": v, "low": v - half / 2, "high": v + half / 2}
            for name, v in (("nats", value / 50), (primary_metric, value))
        }
        test = {"name": "length", "axis": "source length (words)", "kind": "length"}
        test |= {"unit": "words", "noun": "sentences"} | about
        test |= {"primary_metric": primary_metric, "max_train_length": trained}
        r["tests"] = [test | {"overall": overall, "buckets": buckets}]
        records.append(r)
    return records


def drawn_scores(fields: list[dict[str, Any]], index: int = 0) -> Any:
    records = as_records(fields)
    return figures.draw_scores(records, records[0].tests[index]).figure
