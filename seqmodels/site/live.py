"""Build the live page: the trained models of a folder, in one file that translates by itself."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seqmodels.data import tokenizers
from seqmodels.report import reading, style
from seqmodels.report.format import bucket_name, subtitle
from seqmodels.report.reading import Record
from seqmodels.site import export, report, rows, runtime, vocabulary
from seqmodels.utils import files
from seqmodels.utils.terminal import print_line

PER_BUCKET = 5
"""Test examples of a bucket that are in the page."""
MOST_CHARACTERS = 2_000
"""Longest text that the page takes; tokenizers cut longer ones."""
N_NEW = 100
"""Tokens by which a text is continued, at most."""


class Model(NamedTuple):
    """An exported run."""

    record: Record
    manifest: dict[str, Any]
    files: dict[str, bytes]

    @property
    def graphs(self) -> list[str]:
        """Return the names of its graphs."""
        return [Path(name).stem for name in self.files if name.endswith(".onnx")]


def write(folder: Path, out: Path) -> Path:
    """Write the live page of a folder of runs; return its path.

    Raises ValueError if the folder has no weights, or they cannot be exported.
    """
    return files.write(out, page(folder))


def page(folder: Path, home: str = "") -> str:
    """Return the live page of a folder: the first seed of each model whose weights are there.

    It links to a page `home`. Raises ValueError like `write`.
    """
    by_file = reading.load_by_file(folder)
    names: dict[str, str] = {}
    for name, record in by_file.items():
        if (folder / name).with_suffix(".safetensors").exists():
            names.setdefault(record["model"], name)
    if not names:
        raise ValueError(f"{folder} holds no weights (RUN.safetensors); train its runs again")
    known = vocabulary.described(tokenizers.load(folder / "tokenizer.json"))
    program = runtime.runtime()
    models = [exported(folder / name, by_file[name]) for name in names.values()]
    records = [model.record for model in models]
    looks = style.looks(reading.by_model(records))
    runs = [
        {
            "label": looks[model.record["model"]].label,
            "colour": looks[model.record["model"]].colour,
            "n_parameters": model.record["n_parameters"],
            "tokens": model.record["train_config"]["tokens"],
            "graphs": model.graphs,
            "manifest": model.manifest,
        }
        for model in models
    ]
    vectors = [run["label"] for run in runs if not run["manifest"]["attention"]]
    about = {
        "name": folder.resolve().name,
        "home": home,
        "title": subtitle(records),
        "runs": runs,
        "vectors": vectors,
        "versions": program.versions,
        "data": data_of(folder, [*names.values()], records, known) | {"runs": runs},
        "packed": packed(program, models),
    }
    return report.environment().get_template("live.html").render(about)


def exported(path: Path, record: Record) -> Model:
    """Export a run with its weights rounded."""
    print_line(f"exporting {path.stem}")
    contents, _ = export.contents_of(path, is_half=True)
    return Model(record, json.loads(contents["manifest.json"]), contents)


def data_of(
    folder: Path, names: Sequence[str], records: Sequence[Record], known: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the page's script has to know besides the models."""
    data, task = records[0]["data"], records[0]["task"]
    test = next(iter(reading.tests(records).values()))
    found = (rows.read((folder / name).with_suffix(".jsonl")) for name in names)
    its = [row for row in next((r for r in found if r), []) if row.set == test["name"]]
    by_bucket = [[r for r in its if b["low"] <= r.x <= b["high"]] for b in test["buckets"]]
    examples = sorted(chain(*(b[:PER_BUCKET] for b in by_bucket)), key=lambda r: (r.x, r.src))
    buckets = [
        {"low": b["low"], "high": b["high"], "name": bucket_name(b)}
        for b, inside in zip(test["buckets"], by_bucket, strict=True)
        if inside
    ]
    is_plain = data.get("context") == 0
    return {
        "task": task,
        "noun": test["noun"],
        "axis": test["axis"],
        "unit": "words" if known["kind"] != "spaces" else "symbols",
        "continues": None if task != "next_token" else "prefix" if is_plain else "context",
        "block": data.get("block"),
        "n_new": N_NEW,
        "most_characters": MOST_CHARACTERS,
        "case": data.get("case"),
        "has_source_end": data.get("source_end") == "EOS",
        "vocabulary": known,
        "examples": [{"x": row.x, "src": row.src, "ref": row.ref} for row in examples],
        "buckets": buckets,
    }


def packed(program: runtime.Runtime, models: Sequence[Model]) -> dict[str, str]:
    """Return all that the page unpacks, by the id of its element."""
    found = {"worker": pack(program.worker.encode()), "wasm": pack(program.wasm)}
    for i, model in enumerate(models):
        weights = np.frombuffer(model.files[export.WEIGHTS], np.uint8)
        found[f"weights-{i}"] = pack(weights.reshape(-1, 2).T.tobytes())  # compresses better
        found |= {f"{name}-{i}": pack(model.files[f"{name}.onnx"]) for name in model.graphs}
    return found


def pack(content: bytes) -> str:
    """Return bytes as base64 of them gzipped."""
    return base64.b64encode(gzip.compress(content, mtime=0)).decode()
