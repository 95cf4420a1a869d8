"""Build the report on a folder of records: from its scores to sentences, and to attention.

Records alone give the figure and the table of scores. With their hypotheses (RUN.jsonl), a bucket
leads to its sentences and to what each model wrote; with their weights (RUN.safetensors), to what
the models attend to. Only the first seed of a model has sentences. The page opens by itself.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from markupsafe import Markup
from pydantic import BaseModel, ConfigDict, Field

from lesson import layout
from seqmodels.evaluation.metrics import check_tokenizer, make_bleu, metric_of
from seqmodels.records import io
from seqmodels.records.schema import Bucket, Count, Name, Record, validate
from seqmodels.report import figures, load, style
from seqmodels.report.load import Folder, format_bucket, format_subtitle
from seqmodels.utils import files
from seqmodels.utils.terminal import print_error

PARTS = 2_000
"""Attention weights are stored as whole multiples of 1 / PARTS."""
PER_BUCKET = 100
"""Most sentences of a bucket in a page."""


class Row(BaseModel):
    """The fields of RUN.jsonl that a page shows; a run has a row for each test example."""

    model_config = ConfigDict(extra="ignore", strict=True)

    set: Name
    x: Count
    src: str
    ref: str
    hyp: str | None = None
    """None: nothing was generated."""
    nats: Annotated[float, Field(allow_inf_nan=False)] | None = None
    n_tokens: Count = 0
    n_same: Count = 0
    n_places: Count = 0


def read_rows(path: Path) -> list[Row]:
    """Return a run's rows; none if the file is missing. Raises ValueError if one is invalid.

    So it does for a file that is not that of the record beside it.
    """
    if not path.exists():
        return []
    text, rows = io.read_checked(path, io.load(path.with_suffix(".json"))), list[Row]()
    for n, line in enumerate(text.removesuffix(b"\n").split(b"\n"), 1):  # U+2028 ends no line
        try:
            rows.append(validate(Row, json.loads(line)))
        except ValueError as error:  # json's is one
            raise ValueError(
                f"{path}, line {n}, is not a row of a run ({error}): restore it, or move it away"
            ) from None
    return rows


def write(folder: Path, out: Path, n_maps: int) -> Path:
    """Write the report on a folder of records; return its path.

    Raises ValueError if the folder has no records, or weights are not those of their record.
    """
    loaded = load.load_folder(folder)
    with style.context():
        page = layout.render("report.html", **describe(loaded, n_maps))
    return files.write(files.claim_file(out), page)


def describe(folder: Folder, n_maps: int) -> dict[str, Any]:
    """Return the content of the page, for the first test set; `data` is for its script."""
    records = [*folder.records.values()]
    test = records[0].tests[0]
    styles = style.line_styles_for(load.group_by_model(records))
    svg = style.render(figures.draw_scores(records, test), ".svg").decode()
    scores = load.score_array(records, test.name, test.primary_metric)[:, 1:, 0]
    firsts = read_first_seeds(folder, test.name)
    examples = list_examples([*firsts.values()], records[0], test.buckets)
    return {
        "name": folder.path.resolve().name,
        "title": format_subtitle(records),
        "metric": metric_of(test.primary_metric).name,
        "axis": test.axis,
        "figure": Markup(svg[svg.index("<svg") :]),
        "rows": [(styles[r.model].label, r.seed, row)
                 for r, row in zip(records, scores, strict=True)],
        "data": {
            "buckets": [{"low": b.low, "high": b.high, "name": format_bucket(b)}
                        for b in test.buckets],
            "start": load.longest_trained_bucket(test) or 0,
            "runs": [styles[folder.records[path.name].model].label for path in firsts],
            "examples": examples,
            "maps": attention_maps([*firsts], examples, n_maps),
        },
    }  # fmt: skip


def read_first_seeds(folder: Folder, test: str) -> dict[Path, list[Row]]:
    """Return the rows of a test set of the first seed of each model that has hypotheses.

    A damaged file, or one with other examples, is left out, with a line that says so.
    """
    by_run, texts, models = dict[Path, list[Row]](), list[Any](), set[str]()
    for path, r in ((folder.path / name, r) for name, r in folder.records.items()):
        if r.model in models:
            continue
        try:
            rows = [row for row in read_rows(path.with_suffix(".jsonl")) if row.set == test]
            own = [(row.x, row.src, row.ref) for row in rows]
            if rows and own != (texts or own):
                raise ValueError(f"{path}: its test examples are not those of the other runs")
        except ValueError as error:
            print_error("left out", error)
            continue
        if rows:
            models.add(r.model)
            by_run[path], texts = rows, own
    return by_run


def list_examples(
    by_run: Sequence[Sequence[Row]], first: Record, buckets: Sequence[Bucket]
) -> list[dict[str, Any]]:
    """Return the first examples of each bucket, with what each run wrote and its score.

    They are sorted by the gap between the runs, the largest first.
    """
    bleu: Any = None
    if by_run and first.tests[0].primary_metric == "bleu":
        check_tokenizer(first.data.bleu_tokenize)
        bleu = make_bleu(first.data.bleu_tokenize)
        bleu.effective_order = True  # otherwise a sentence of three words has none
    chosen = list[dict[str, Any]]()
    for b in buckets:
        its = [rows for rows in zip(*by_run, strict=True) if b.low <= rows[0].x <= b.high]
        chosen += [{
            "x": rows[0].x, "src": rows[0].src, "ref": rows[0].ref,
            "hyps": [row.hyp for row in rows], "scores": [score(row, bleu) for row in rows],
        } for rows in its[:PER_BUCKET]]  # fmt: skip
    return sorted(chosen, key=lambda e: min(e["scores"]) - max(e["scores"]))


def score(row: Row, bleu: Any) -> float:
    """Return a row's sentence BLEU, or its places that are right in per cent, or minus its loss."""
    if row.hyp is None:
        return -round((row.nats or 0.0) / max(row.n_tokens, 1), 3)
    if bleu:
        return round(bleu.sentence_score(row.hyp, [row.ref]).score, 1)
    return round(100 * row.n_same / max(row.n_places, 1), 1)


def attention_maps(
    paths: Sequence[Path], examples: Sequence[Mapping[str, Any]], n: int
) -> dict[int, list[Any]]:
    """Return for the first n examples a map per run; None for a run without weights or attention.

    The examples begin with those in which the runs differ most.
    """
    has_weights = [path.with_suffix(".safetensors").exists() for path in paths]
    if not n or not any(has_weights) or not examples or examples[0]["hyps"][0] is None:
        return {}
    from seqmodels import inference  # imports torch

    runs = [
        inference.load(path) if has else None for path, has in zip(paths, has_weights, strict=True)
    ]
    return {
        i: [(run and run.model.cross_attentions and encode_map(run, e["src"], e["hyps"][k])) or None
            for k, run in enumerate(runs)]
        for i, e in enumerate(examples[:n])
    }  # fmt: skip


def encode_map(run: Any, source: str, target: str) -> dict[str, Any] | None:
    """Return the attention weights of layers and heads; None for no target or one too long."""
    import torch

    from seqmodels.data.batches import Example, collate

    tgt, src, model = run.encode(target), run.encode_source(source), run.model
    if not tgt or len(tgt) > model.max_target(len(src)):
        return None
    batch = collate([Example(src, tgt)])
    with torch.inference_mode():
        weights = model.attention_weights(batch.src, batch.src_mask, batch.tgt_in)[0].numpy()
    by_token = np.round(weights.transpose(2, 0, 1, 3) * PARTS).astype("<u2")  # (T, L, H, S)
    packed = gzip.compress(by_token.tobytes(), mtime=0)
    return {
        "src": run.tokenizer.tokens(src),
        "tgt": run.tokenizer.tokens(tgt),
        "layers": weights.shape[0],
        "heads": weights.shape[1],
        "aligned_layers": [*range(len(weights))][model.alignment_layers],
        "weights": base64.b64encode(packed).decode(),
    }
