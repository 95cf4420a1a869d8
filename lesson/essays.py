"""Read what the essays show: the opening picture, one head, symptoms, attention on a sentence.

Each essay is a template in the folder `text`; its few numbers are typed there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from seqmodels.records import io
from seqmodels.report.load import rows_of
from seqmodels.utils.files import read_json

LEVELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
"""The digit of each of 64 levels of a number from -1 to 1, or of a weight from 0 to 1."""
HEAD_RECORD = "heads-full/transformer-seed3.json"
"""The record of the head that the essay on one head shows, the one that finds an article's noun."""


def describe(page: str, results: Path) -> dict[str, Any]:
    """Return the content of an essay's page that is not in its template."""
    if page == "one-head":
        path = results / HEAD_RECORD
        return {"head": describe_head(path) if path.exists() else None}
    if page == "long-sentences":
        return {"opening": read_opening(results / "translation-live")}
    if page == "symptoms":
        path = results.parent / "docs" / "symptoms.md"
        return {"symptoms": read_symptoms(path.read_text("utf-8") if path.exists() else "")}
    if page == "attention":
        from lesson import attention  # imports torch

        return attention.describe()
    return {}


def read_opening(folder: Path) -> list[dict[str, Any]]:
    """Return the sentences of the opening picture, made by tools.opening; none without them."""
    path = folder / "opening.json"
    if not path.exists():
        return []
    made = read_json(path)
    return [row | {"steps": [0, *made["steps"]]} for row in made["rows"]]


def read_symptoms(text: str) -> list[list[str]]:
    """Return the rows of the index: symptom, its other words, suspects, checks; without links."""
    rows = re.findall(r"^\| \*\*(.*?)\*\*(.*?) \| (.*?) \| (.*?) \|$", text, re.M)
    return [[re.sub(r"\[(.*?)\]\(.*?\)", r"\1", cell) for cell in row] for row in rows]


def describe_head(path: Path) -> dict[str, Any]:
    """Return the weights of the article's head before and after training, and what it does.

    The `article` rows of a record measure each head; the one with the largest share is shown.
    """
    r = io.load(path)
    best = max(rows_of(r, "article"), key=lambda row: row["share"])
    place = {key: best[key] for key in ("attention", "layer", "head")}
    before, after = (rows_of(r, "maps", when=when, **place) for when in ("before", "after"))
    words = [{
        "text": new["query"], "is_article": new["noun"] >= 0,
        "weights": [[int(w) for w in row["weights"].split()] for row in (old, new)],
    } for old, new in zip(before, after, strict=True)]  # fmt: skip
    muted = [{**row, "lost": best["whole"] - row["exact"], "is_shown": row.items() >= place.items()}
             for row in rows_of(r, "muting") if row["attention"] != "none"]  # fmt: skip
    chosen = [word["is_article"] for word in words].index(True)
    return {"words": words, "chosen": chosen, "muted": muted, **best}
