"""Say what the heads of a model that runs in a page look for, where records know it.

A record of tasks.heads knows the weights that it has measured by their checksum: those of a run of
the page, or those that it was rounded from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch

from seqmodels.experiments import inference
from seqmodels.interface import mute_heads
from seqmodels.records.schema import Record
from seqmodels.report.load_records import Folder, rows_of

MIN_SHARE = 50
"""Per cent of a head's weight that goes to what it is named by, and twice what chance gives."""
N_TRIED = 30
"""Sentences that are translated without a head, at most."""


def find_measured(record: Record, folders: Mapping[str, Folder]) -> Record | None:
    """Return a record with measured heads of the same weights."""
    sums = {record.weights_sha256, record.rounded_from_sha256} - {None}
    records = (r for folder in folders.values() for r in folder.records.values())
    return next((r for r in records if "heads" in r.analyses and r.weights_sha256 in sums), None)


def name_heads(measured: Record, paths: Sequence[str], n_heads: int) -> list[list[str]]:
    """Return the name of each head of these attentions, by its number; empty if it has none."""
    best: dict[tuple[Any, ...], tuple[float, str]] = {}
    for row in rows_of(measured, "heads"):
        if row["share"] >= max(MIN_SHARE, 2 * row["by_offset"], 2 * row["by_part_of_speech"]):
            place = row["attention"], row["layer"], row["head"]
            named = row["share"], f"{row['pair']}, {row['share']:.0f} %"
            best[place] = max(named, best.get(place, named))
    numbers = range(1, n_heads + 1)
    return [[best.get((*find_place(path), i), (0, ""))[1] for i in numbers] for path in paths]


def find_place(path: str) -> tuple[str, int]:
    """Return kind and layer of an attention, as records name them, from its path in the model."""
    parts = path.split(".")
    kind = "source" if parts[-1] == "src_attention" else parts[0]
    return kind, int(parts[1]) + 1


def mute_article_head(
    measured: Record, path: Path, manifest: Mapping[str, Any], examples: Sequence[tuple[Any, ...]]
) -> dict[str, Any] | None:
    """Return a sentence that a run translates exactly, but not without its article's head.

    Return it with the numbers of the attention and of the head; None if there is no such sentence.
    """
    rows = rows_of(measured, "article") if "article" in measured.analyses else []
    row = max(rows, key=lambda row: row["share"], default={"share": 0})
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
            return {"src": src, "attention": attention, "head": head}
    return None


def address_of(run: int, manifest: Mapping[str, Any], muted: Mapping[str, Any]) -> str:
    """Return the part of the page's address that shows such a sentence without the head."""
    attention, head, layers = muted["attention"], muted["head"], manifest["attention"]["mask_rows"]
    layer = layers.index(attention) if attention in layers else f"a{attention}"
    view = f"m={run}&l={layer}&h={head}&mute={run}-{attention}-{head}"
    return f"#text={quote(muted['src'])}&{view}"
