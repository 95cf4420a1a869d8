"""Build the live page: one HTML file in which the trained models of a folder translate."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

from seqmodels.data import tokenizers
from seqmodels.report import reading, style
from seqmodels.report.reading import Record, format_bucket, format_subtitle
from seqmodels.site import export, layout, rows, runtime, vocabulary
from seqmodels.utils import files
from seqmodels.utils.terminal import print_line

EXAMPLES_PER_BUCKET = 5
"""Maximum test examples of a bucket in the page."""
MAX_CHARACTERS = 2_000
"""Longest source text that can be typed into the page."""
N_NEW = 100
"""Maximum tokens of a continuation."""


def write(folder: Path, out: Path) -> Path:
    """Write the live page of a folder of runs; return its path.

    Raises ValueError if the folder has no weights, or they cannot be exported.
    """
    return files.write(out, layout.render("live.html", **describe(folder)))


def describe(folder: Path) -> dict[str, Any]:
    """Return the content of the live page: the first seed with weights of each model.

    Raises ValueError like `write`.
    """
    by_model: dict[str, tuple[Path, Record]] = {}
    for name, record in reading.load_folder(folder).records.items():
        if (folder / name).with_suffix(".safetensors").exists():
            by_model.setdefault(record["model"], (folder / name, record))
    if not by_model:
        raise ValueError(f"{folder} holds no weights (RUN.safetensors); train its runs again")
    paths, records = zip(*by_model.values(), strict=True)
    tokenizer = vocabulary.describe(tokenizers.load(folder / "tokenizer.json"))
    worker, wasm, versions = runtime.build_runtime()
    packed = {"worker": compress(worker.encode()), "wasm": compress(wasm)}
    looks, runs = style.choose_looks(by_model), []
    for i, (path, record) in enumerate(by_model.values()):
        print_line(f"exporting {path.stem}")
        contents, _ = export.contents_of(path, is_half=True)
        weights = np.frombuffer(contents[export.WEIGHTS], np.uint8)
        packed[f"weights-{i}"] = compress(weights.reshape(-1, 2).T.tobytes())  # compresses better
        graphs = [Path(name).stem for name in contents if name.endswith(".onnx")]
        packed |= {f"{name}-{i}": compress(contents[f"{name}.onnx"]) for name in graphs}
        runs.append({
            "label": looks[record["model"]].label,
            "colour": looks[record["model"]].colour,
            "n_parameters": record["n_parameters"],
            "tokens": record["train_config"]["tokens"],
            "graphs": graphs,
            "manifest": json.loads(contents["manifest.json"]),
        })  # fmt: skip
    task, data, test = records[0]["task"], records[0]["data"], records[0]["tests"][0]
    by_run = (rows.read(path.with_suffix(".jsonl")) for path in paths)
    examples = [r for r in next(filter(None, by_run), []) if r.set == test["name"]]
    by_bucket = [[r for r in examples if b["low"] <= r.x <= b["high"]] for b in test["buckets"]]
    in_page = [r for inside in by_bucket for r in inside[:EXAMPLES_PER_BUCKET]]
    continues = "prefix" if data.get("context") == 0 else "context"
    return {
        "name": folder.resolve().name,
        "subtitle": format_subtitle(records),
        "runs": runs,
        "vectors": [run["label"] for run in runs if not run["manifest"]["attention"]],
        "versions": versions,
        "packed": packed,
        "data": {
            "task": task,
            "noun": test["noun"],
            "axis": test["axis"],
            "unit": "symbols" if tokenizer["kind"] == "spaces" else "words",
            "continues": continues if task == "next_token" else None,
            "block": data.get("block"),
            "n_new": N_NEW,
            "most_characters": MAX_CHARACTERS,
            "case": data.get("case"),
            "has_source_end": data.get("source_end") == "EOS",
            "vocabulary": tokenizer,
            "examples": [
                {"x": r.x, "src": r.src, "ref": r.ref}
                for r in sorted(in_page, key=lambda r: (r.x, r.src))
            ],
            "buckets": [
                {"low": b["low"], "high": b["high"], "name": format_bucket(b)}
                for b, inside in zip(test["buckets"], by_bucket, strict=True)
                if inside
            ],
            "runs": runs,
        },
    }


def compress(content: bytes) -> str:
    """Compress bytes with gzip, and encode them as base64."""
    return base64.b64encode(gzip.compress(content, mtime=0)).decode()
