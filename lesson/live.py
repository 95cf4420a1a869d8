"""Build the live page: one HTML file in which the trained models of a folder translate."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import torch

from lesson import export, layout, report, runtime, vocabulary
from seqmodels import inference
from seqmodels.data import tokenizers
from seqmodels.data.text import count_words
from seqmodels.interface import mute_heads
from seqmodels.models import INFOS, PAPERS
from seqmodels.records import io
from seqmodels.records.schema import Record, Test
from seqmodels.report import load, style
from seqmodels.report.load import format_subtitle, rows_of
from seqmodels.report.style import LineStyle
from seqmodels.utils import files
from seqmodels.utils.imports import HOME

EXAMPLES = "examples.tsv.gz"
"""A file in a folder of runs: source and reference of the sentences that the page offers."""
EXAMPLES_PER_BUCKET = 5
"""Maximum test examples of a bucket in the page, from the runs' hypotheses."""
LOADED_FIRST = ("rnn_encdec", "bahdanau")
"""Models that the page can run before the others have arrived."""
MAX_CHARACTERS = 2_000
"""Longest source text that can be typed into the page."""
N_NEW = 100
"""Maximum tokens of a continuation."""
MEASURED = HOME / "results" / "heads-full"
"""Records that say what the heads of these weights do."""
MIN_SHARE = 50
"""Per cent of a head's weight that goes to what it is named by, and twice what chance gives."""
N_TRIED = 30
"""Sentences that are translated without a head, at most."""
Example = tuple[int, str, str]
"""A sentence of the page: its place on the slider, source and reference."""


def write(folder: Path, out: Path) -> Path:
    """Write the live page of a folder of runs to one file; return its path.

    Raises ValueError if the folder has no weights, or they cannot be exported.
    """
    return files.write(files.claim_file(out), layout.render("live.html", **describe(folder)))


def describe(folder: Path, out: Path | None = None) -> dict[str, Any]:
    """Return the content of the live page: the first seed with weights of each model.

    Its large parts are in it, or in files of the folder `out`. Raises ValueError like `write`.
    """
    chosen = choose_runs(folder)
    records = [*chosen.values()]
    worker, wasm, versions = runtime.build_runtime()
    line_styles = style.line_styles_for(load.group_by_model(records))
    runs, packed = zip(*(
        export_run(path, record, line_styles[record.model]) for path, record in chosen.items()
    ), strict=True)  # fmt: skip
    examples = read_examples(folder / EXAMPLES) or sample_hypotheses([*chosen], records[0].tests[0])
    muted = describe_heads(runs, chosen, examples)
    in_order = sorted(range(len(runs)), key=lambda i: (runs[i]["model"] not in LOADED_FIRST, i))
    parts = {"worker": worker.encode(), "examples": json.dumps(examples).encode(), "wasm": wasm}
    parts |= {f"model-{i}": packed[i] for i in in_order}
    parts = {name: gzip.compress(content, mtime=0) for name, content in parts.items()}
    tokenizer = vocabulary.describe(tokenizers.load(folder / "vocabulary.json"))
    data = {
        "unit": "words",
        "vocabulary": tokenizer,
        "sizes": {name: len(part) for name, part in parts.items()},
        "files": write_parts(out, parts) if out else {},
        "runs": runs,
    }
    return {
        "name": folder.resolve().name, "subtitle": format_subtitle(records), "runs": runs,
        "groups": {
            "One vector": [i for i, run in enumerate(runs) if run["is_vector"]],
            "Looks back": [
                i for i, run in enumerate(runs) if not run["is_vector"] and not run["is_fixed"]
            ],
            "A memory of fixed size": [i for i, run in enumerate(runs) if run["is_fixed"]],
        },
        "has_examples": bool(examples), "muted": muted, "versions": versions, "parts": parts,
        "data": data | describe_texts(records[0]),
    }  # fmt: skip


def choose_runs(folder: Path) -> dict[Path, Record]:
    """Return the first run with weights of each model of a folder; ValueError if there is none."""
    by_model: dict[str, tuple[Path, Record]] = {}
    for name, record in load.load_folder(folder).records.items():
        if (folder / name).with_suffix(".safetensors").exists():
            by_model.setdefault(record.model, (folder / name, record))
    if not by_model:
        raise ValueError(f"{folder} holds no weights (RUN.safetensors); train its runs again")
    return dict(by_model.values())


def export_run(path: Path, record: Record, line_style: LineStyle) -> tuple[dict[str, Any], bytes]:
    """Return what the page knows of a run, and its weights and graphs."""
    print(f"exporting {path.stem}")
    contents, _ = export.contents_of(path, is_half=True)
    weights = np.frombuffer(contents.pop(export.WEIGHTS), np.uint8)
    parts = {"weights": weights.reshape(-1, 2).T.tobytes()}  # compresses better
    parts |= {Path(name).stem: contents[name] for name in contents if name.endswith(".onnx")}
    model, info = record.model, INFOS.get(record.base)
    memory = info.memory if info else ""
    about = {
        "model": model, "label": line_style.label, "colour": line_style.colour,
        "is_vector": memory == "vector", "is_fixed": memory == "fixed",
        "is_first": model in LOADED_FIRST, "chapter": model in PAPERS,
        "n_parameters": record.n_parameters, "tokens": record.train_config.tokens,
        "manifest": json.loads(contents["manifest.json"]),
        "sizes": [(name, len(part)) for name, part in parts.items()],
    }  # fmt: skip
    return about, b"".join(parts.values())


def describe_texts(record: Record) -> dict[str, Any]:
    """Return what the page's script knows of the texts."""
    task, data, test = record.task, record.data, record.tests[0]
    continues = "prefix" if data.get("context") == 0 else "context"
    return {
        "task": task, "noun": test.noun, "axis": test.axis, "limit": test.max_train_length,
        "continues": continues if task == "next_token" else None, "n_new": N_NEW,
        "block": data.get("block"), "case": data.get("case"), "most_characters": MAX_CHARACTERS,
        "has_source_end": data.get("source_end") == "EOS",
    }  # fmt: skip


def read_examples(path: Path) -> list[Example]:
    """Return the sentences of such a file by length; none if it is missing."""
    if not path.exists():
        return []
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    return sorted((count_words(src), src, ref) for src, ref in (line.split("\t") for line in lines))


def sample_hypotheses(paths: Sequence[Path], test: Test) -> list[Example]:
    """Return the first test examples of each bucket of the first run that has hypotheses."""
    by_run = (report.read_rows(path.with_suffix(".jsonl")) for path in paths)
    examples = [r for r in next(filter(None, by_run), []) if r.set == test.name]
    by_bucket = [[r for r in examples if b.low <= r.x <= b.high] for b in test.buckets]
    return sorted((r.x, r.src, r.ref) for rs in by_bucket for r in rs[:EXAMPLES_PER_BUCKET])


def write_parts(out: Path, parts: Mapping[str, bytes]) -> dict[str, str]:
    """Write parts of the page to files; return their addresses, which change with the content."""
    paths = [out / f"live-{name}.bin" for name in parts]
    for path, part in zip(paths, parts.values(), strict=True):
        files.write(path, part)
    sums = [hashlib.sha256(part).hexdigest()[:8] for part in parts.values()]
    return {name: f"{path.name}?{s}" for name, path, s in zip(parts, paths, sums, strict=True)}


# ------------------------------------------------------------------------------------- The heads


def describe_heads(
    runs: Sequence[dict[str, Any]],
    chosen: Mapping[Path, Record],
    examples: Sequence[Example],
) -> dict[str, str] | None:
    """Add to runs what records know of their heads; return a sentence without one of them."""
    shown = None
    for i, (run, (path, record)) in enumerate(zip(runs, chosen.items(), strict=True)):
        manifest = run["manifest"]
        if (measured := find_measured(record)) and manifest["heads"]:
            run["head_names"] = name_heads(measured, **manifest["heads"])
            if muted := mute_article_head(measured, path, manifest, examples):
                src, attention, head = muted
                layers = manifest["attention"]["mask_rows"]
                layer = layers.index(attention) if attention in layers else f"a{attention}"
                view = f"m={i}&l={layer}&h={head}&mute={i}-{attention}-{head}"
                address = f"#text={quote(src)}&{view}"
                shown = {"address": address, "label": run["label"], "src": src}
    return shown


def find_measured(record: Record) -> Record | None:
    """Return the record of MEASURED with the same weights, or with those before rounding."""
    sums = {record.weights_sha256, record.rounded_from_sha256} - {None}
    records = (io.load(path) for path in sorted(MEASURED.glob("*-seed*[0-9].json")))
    return next((r for r in records if r.weights_sha256 in sums), None)


def name_heads(measured: Record, attentions: Sequence[str], n: int) -> list[list[str]]:
    """Return the names of the n heads of each attention, by its path; empty if one has none."""
    best: dict[tuple[Any, ...], tuple[float, str]] = {}
    for row in rows_of(measured, "heads"):
        if row["share"] >= max(MIN_SHARE, 2 * row["by_offset"], 2 * row["by_part_of_speech"]):
            place = row["attention"], row["layer"], row["head"]
            named = row["share"], f"{row['pair']}, {row['share']:.0f} %"
            best[place] = max(named, best.get(place, named))
    numbers = range(1, n + 1)
    return [[best.get((*find_place(path), i), (0, ""))[1] for i in numbers] for path in attentions]


def find_place(path: str) -> tuple[str, int]:
    """Return kind and layer of an attention, as records name them, from its path in the model."""
    parts = path.split(".")
    kind = "source" if parts[-1] == "src_attention" else parts[0]
    return kind, int(parts[1]) + 1


def mute_article_head(
    measured: Record, path: Path, manifest: Mapping[str, Any], examples: Sequence[Example]
) -> tuple[str, int, int] | None:
    """Return a sentence that a run translates exactly, but not without its article's head.

    Return it with the numbers of the attention and of the head; None if there is no such sentence.
    """
    articles = rows_of(measured, "article")
    row = max(articles, key=lambda row: row["share"], default={"share": 0})
    if row["share"] < MIN_SHARE:
        return None
    paths, head = manifest["heads"]["attentions"], row["head"] - 1
    place: Any = row["attention"], row["layer"]
    attention = [*map(find_place, paths)].index(place)
    run, mask = inference.load(path), torch.ones(1, manifest["heads"]["n"])
    mask[0, head] = 0
    _, sources, references = zip(*examples[:N_TRIED], strict=True)
    whole = run.translate(sources)
    with mute_heads([run.model.get_submodule(f"{paths[attention]}.W_o")], mask):
        muted = run.translate(sources)
    for src, ref, *outputs in zip(sources, references, whole, muted, strict=True):
        if outputs[0] == ref != outputs[1]:
            return src, attention, head
    return None
