"""Build the report: one page with the figures of one or more folders of records.

Records alone give figures and tables. With their hypotheses (RUN.jsonl), a bucket of a figure leads
to its sentences and to what every model wrote; with their weights (RUN.safetensors), to what the
models attend to. The file opens without a network; without JavaScript, figures and tables remain.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping, Sequence
from itertools import compress, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from lesson import layout, rows, svg
from seqmodels.data.tokenizers import WORD
from seqmodels.evaluation.metrics import metric_of
from seqmodels.records.schema import Bucket, Record, Test
from seqmodels.report import figures, load, style
from seqmodels.report.load import Folder, format_bucket, format_subtitle
from seqmodels.utils import files

PARTS = 2_000
"""Attention weights are stored as whole multiples of 1 / PARTS."""
Table = list[list[Any]]
"""Rows of cells; the first row names the columns."""


def write(folders: Sequence[Path], out: Path, n_maps: int) -> Path:
    """Write the report on these folders of records; return its path.

    Raises ValueError if a folder is given twice, or has no records, or files of a run that do not
    belong together.
    """
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise ValueError("a folder is given twice; give each once")
    styles = svg.Styles()
    with style.context():
        loaded = enumerate(map(load.load_folder, folders))
        parts = [describe(folder, i, n_maps, styles) for i, folder in loaded]
    data = {"folders": [part["data"] for part in parts]}
    page = layout.render("report.html", parts=parts, data=data)
    return files.write(files.claim_file(out), page)


def describe(
    folder: Folder, number: int, n_maps: int, styles: svg.Styles, has_further: bool = True
) -> dict[str, Any]:
    """Return the content of the page for one folder; `data` is for its script.

    Without `has_further`, there are no figures but those of scores and learning curves.
    """
    records = [*folder.records.values()]
    compared = figures.find_significance(folder.path, folder.records)
    main = ("curves", "score-")
    if has_further:
        drawn = figures.draw_all(records, compared)
    else:
        shared = figures.shared_figures(records, compared)
        drawn = {name: draw() for name, draw in shared.items() if name.startswith(main)}
    svgs = {
        name: svg.inline(figure, f"f{number}-{name}", styles, has_buckets=True)
        for name, figure in drawn.items()
    }
    tests = load.tests_by_name(records)
    keys = {name: figures.format_file_name(name) for name in tests}
    line_styles = style.line_styles_for(load.group_by_model(records))
    labels = {model: line_style.label for model, line_style in line_styles.items()}
    name = folder.path.resolve().name
    return {
        "id": f"f{number}",
        "name": name,
        "title": format_subtitle(records),
        "tests": [(name, key, table_by_bucket(records, tests[name]))
                  for name, key in keys.items()],
        "figures": svgs,
        "further": [name for name in drawn if not name.startswith(main)],
        "records": {file: r.model_dump(by_alias=True, exclude_unset=True)
                    for file, r in folder.records.items()},
        "data": {"name": name, **describe_hypotheses(folder, labels, n_maps)},
    }  # fmt: skip


def describe_hypotheses(folder: Folder, labels: Mapping[str, str], n_maps: int) -> dict[str, Any]:
    """Return the runs that have hypotheses, and by test set what they wrote."""
    read = {name: rows.read((folder.path / name).with_suffix(".jsonl")) for name in folder.records}
    by_run = {name: its for name, its in read.items() if its}
    runs = {folder.path / name: folder.records[name] for name in by_run}
    described = list[dict[str, Any]]()
    tests = load.tests_by_name([*folder.records.values()]) if runs else {}
    for name, test in tests.items():
        first, *_ = records = [*runs.values()]
        examples = rows.side_by_side(by_run, test, first.data.bleu_tokenize)
        count_errors(first, examples)
        maps = {} if described else attention_maps(runs, examples, test, n_maps)
        scores = load.score_array(records, name, test.primary_metric)[:, 1:, 0]
        described.append(describe_test(test, examples, maps, scores.tolist()))
    return {
        "runs": [{"model": r.model, "label": labels[r.model], "seed": r.seed}
                 for r in runs.values()],
        "tests": described,
    }  # fmt: skip


def table_by_bucket(records: Sequence[Record], test: Test) -> Table:
    """Return the score of each run with a column per bucket."""
    rows: Table = [["model", "seed", *map(format_bucket, test.buckets)]]
    for r in (r for r in records if r.test(test.name)):
        scores = load.score_array([r], test.name, test.primary_metric)[0, 1:, 0]
        rows.append([load.label_of(r), r.seed, *(f"{score:.6g}" for score in scores)])
    return rows


# ----------------------------------------------------------------------------------- Sentences


def describe_test(
    test: Test,
    examples: Sequence[Mapping[str, Any]],
    maps: dict[int, list[Any]],
    values: Sequence[Sequence[float]],
) -> dict[str, Any]:
    """Return the examples of a test set, and the attention maps of some of them.

    `values` are the scores of each run by bucket.
    """
    keys = [*examples[0]["scores"][0]] if examples else []
    return {
        "name": test.name,
        "noun": test.noun,
        "axis": test.axis,
        "buckets": [
            {"low": b.low, "high": b.high, "n": b.n, "name": format_bucket(b)}
            | {"values": [None if v != v else v for v in by_run]}
            for b, by_run in zip(test.buckets, zip(*values, strict=True), strict=True)
        ],
        "start": load.longest_trained_bucket(test) or 0,
        "scores": [
            {
                "key": key,
                "name": "right (%)" if key == "right" else metric_of(key).name,
                "lower": key != "right" and metric_of(key).is_loss,
                "digits": rows.digits(key),
            }
            for key in keys
        ],
        "examples": [
            {**e, "scores": [[scores.get(key) for key in keys] for scores in e["scores"]]}
            for e in examples
        ],
        "maps": maps,
    }


def count_errors(record: Record, examples: Sequence[dict[str, Any]]) -> None:
    """Add to each example the wrong words of each run by kind, if the task tells kinds apart."""
    module = figures.task_figures(record.task)
    find = getattr(module, "find_classifier", None)
    if find and (classify := find(record)):
        for e in examples:
            ref, *hyps = ([w for w in WORD.findall(text or "") if w[0].isalnum()]
                          for text in (e["ref"], *e["hyps"]))  # fmt: skip
            e["errors"] = [classify(ref, hyp) for hyp in hyps]


def attention_maps(
    runs: Mapping[Path, Record], examples: Sequence[Mapping[str, Any]], test: Test, n_maps: int
) -> dict[int, list[Any]]:
    """Return by example a map per run; only a model's first seed with weights has one."""
    has_weights = [path.with_suffix(".safetensors").exists() for path in runs]
    if not n_maps or not any(has_weights) or not examples or examples[0]["hyps"][0] is None:
        return {}
    from seqmodels.inference import load  # imports torch

    is_first = [r.seed == min(r.seed for r in runs.values()) for r in runs.values()]
    gaps = [measure_gap([*compress(e["scores"], is_first)]) for e in examples]
    x = [e["x"] for e in examples]
    maps: dict[int, list[Any]] = {i: [] for i in spread_over_buckets(x, gaps, test.buckets, n_maps)}
    loaded: set[str] = set()
    for k, (path, record) in enumerate(runs.items()):
        run = None
        if has_weights[k] and record.model not in loaded:
            loaded.add(record.model)
            run = load(path)
        for i, row in maps.items():
            attends = run and run.model.cross_attentions
            row.append(
                encode_map(run, examples[i]["src"], examples[i]["hyps"][k]) if attends else None
            )
    return maps


def encode_map(run: Any, source: str, target: str) -> dict[str, Any] | None:
    """Return the attention weights of a run's layers and heads; None for an empty target."""
    import torch

    from seqmodels.data.batches import Example, collate

    if not (tgt := run.encode(target)):
        return None
    src, model = run.encode_source(source), run.model
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


def measure_gap(scores: Sequence[Mapping[str, float]]) -> float:
    """Return the range of an example's first score over the runs."""
    first = [next(iter(its.values()), 0.0) for its in scores]
    return max(first) - min(first)


def spread_over_buckets(
    x: Sequence[int], gaps: Sequence[float], buckets: Sequence[Bucket], n: int
) -> list[int]:
    """Choose up to n examples, those of each bucket with the largest gaps; return them in order."""
    ranked = sorted(range(len(x)), key=lambda i: (-gaps[i], i))
    inside = [[i for i in ranked if b.low <= x[i] <= b.high] for b in buckets]
    return sorted([i for rank in zip_longest(*inside) for i in rank if i is not None][:n])
