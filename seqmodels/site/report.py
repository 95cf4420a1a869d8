"""Build the report: one page with the figures of one or more folders of records.

Records alone give figures and tables. With their hypotheses (RUN.jsonl), a bucket of a figure leads
to its sentences and to what every model wrote; with their weights (RUN.safetensors), to what the
models attend to. The file opens without a network; without JavaScript, figures and tables remain.
"""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from seqmodels.evaluation.metrics import metric_of
from seqmodels.report import curves, figures, reading, style
from seqmodels.report.format import bucket_name, subtitle
from seqmodels.report.reading import Record
from seqmodels.site import figure, rows
from seqmodels.utils import files

NOMIN_EXAMPLESG_YET = "No run has reached the first point of its learning curve yet."
LABELS = {"right": "right (%)"}
"""Names of scores that are not metrics."""


def write(folders: Sequence[Path], out: Path, n_maps: int) -> Path:
    """Write the report on these folders of records; return its path.

    Raises ValueError if a folder has no records, or files of a run that do not belong together.
    """
    return files.write(out, page(folders, n_maps))


def page(folders: Sequence[Path], n_maps: int, is_live: bool = False) -> str:
    """Return the report; a live one also shows unfinished runs, and asks whether it is out of date.

    Raises ValueError like `write`.
    """
    check_folders(folders)
    return render(
        [describe(folder, i, n_maps, is_live) for i, folder in enumerate(folders)], is_live
    )


def render(parts: Sequence[Mapping[str, Any]], is_live: bool = False) -> str:
    """Return the page with these parts (see describe)."""
    text = (
        environment()
        .get_template("report.html")
        .render(parts=parts, data={"folders": [part["data"] for part in parts]}, is_live=is_live)
    )
    return text.replace("/*night*/", figure.night(text))


def check_folders(folders: Sequence[Path]) -> None:
    """Raise ValueError for a folder that is given twice."""
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise ValueError("a folder is given twice; give each once")


def environment() -> jinja2.Environment:
    """Return the templates, which escape everything that they are given."""
    env = jinja2.Environment(
        loader=jinja2.PackageLoader("seqmodels.site"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    env.filters["download"] = download
    return env


def download(table: Sequence[Sequence[Any]]) -> str:
    """Return the address of a table as a CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(table)
    return "data:text/csv;base64," + base64.b64encode(text.getvalue().encode()).decode()


def describe(folder: Path, number: int, n_maps: int, is_live: bool) -> dict[str, Any]:
    """Return what the page shows of one folder."""
    running = running_in(folder) if is_live else []
    by_file = {} if is_live and not has_records(folder) else reading.load_by_file(folder)
    records = list(by_file.values())
    tests = reading.tests(records)
    with style.context():
        drawn = figures.draw_all(records, figures.compare(folder, by_file)) if records else {}
        if running:
            drawn["curves"] = curves.draw_curves([*records, *running])
        made = {name: figure.inline(one, f"f{number}-{name}") for name, one in drawn.items()}
    shown = []
    for name, test in tests.items():
        key = figures.file_name(name)
        shown.append({
            "name": name,
            "figure": made.pop(f"score-{key}"),
            "differences": made.pop(f"significance-{key}", None),
            "table": score_table(records, test),
        })  # fmt: skip
    return {
        "id": f"f{number}",
        "name": folder.resolve().name,
        "title": subtitle(records or running) if records or running else NOMIN_EXAMPLESG_YET,
        "tests": shown,
        "curves": made.pop("curves", None),
        "curve_table": curve_table([*records, *running]) if records or running else None,
        "further": made,
        "records": by_file,
        "running": running,
        "looks": style.looks(reading.by_model([*records, *running])),
        "data": explored(folder, by_file, tests, n_maps),
    }


def running_in(folder: Path) -> list[Record]:
    """Return what is known of a folder's unfinished runs (see unfinished.find)."""
    from seqmodels.site import unfinished  # imports torch

    return unfinished.find(folder)


def has_records(folder: Path) -> bool:
    """Return whether a folder holds a record that can be read, or one that cannot."""
    read = reading.read_folder(folder)
    return bool(read.records or read.unknown)


def score_table(records: Sequence[Record], test: Mapping[str, Any]) -> list[list[Any]]:
    """Return the primary metric of each run by bucket, overall last, with a row of names."""
    primary = test["primary_metric"]
    names = [*(bucket_name(bucket) for bucket in test["buckets"]), "all"]
    table: list[list[Any]] = [["model", "seed", *names]]
    for record in records:
        (found,) = reading.scores([record], test["name"], primary)
        cells = [f"{value:.{metric_of(primary).digits}f}" for value in (*found[1:, 0], found[0, 0])]
        table.append([record["model"], record["seed"], *cells])
    return table


def curve_table(records: Sequence[Record]) -> list[list[Any]]:
    """Return all points of the learning curves, with a row of names."""
    keys = [*records[0]["curve"][0]]
    return [["model", "seed", *keys]] + [
        [r["model"], r["seed"], *(point[key] for key in keys)]
        for r in records
        for point in r["curve"]
    ]


# ----------------------------------------------------------------------------------- Sentences


def explored(
    folder: Path, by_file: Mapping[str, Record], tests: Mapping[str, Any], n_maps: int
) -> dict[str, Any]:
    """Return what the page's script shows of one folder: its examples, hypotheses and maps."""
    looks = style.looks(reading.by_model(by_file.values()))
    found = {name: rows.read((folder / name).with_suffix(".jsonl")) for name in by_file}
    found = {name: its for name, its in found.items() if its}
    runs = [
        {"model": r["model"], "label": looks[r["model"]].label, "seed": r["seed"]}
        for name, r in by_file.items()
        if name in found
    ]
    shown = []
    for n, test in enumerate(tests.values() if found else ()):
        tokenize = by_file[next(iter(found))]["data"].get("bleu_tokenize", "13a")
        examples = rows.side_by_side(found, test, tokenize)
        drawn = maps_by_example(folder, by_file, found, examples, test, n_maps if n == 0 else 0)
        shown.append(explored_test(test, examples, drawn))
    return {"name": folder.resolve().name, "runs": runs, "tests": shown}


def explored_test(
    test: Mapping[str, Any], examples: Sequence[rows.Shown], maps: dict[int, list[Any]] | None
) -> dict[str, Any]:
    """Return the examples of one test set with their maps; None: there can be none."""
    keys = [*examples[0].sides[0].scores] if examples else []
    return {
        "name": test["name"],
        "noun": test["noun"],
        "axis": test["axis"],
        "buckets": [
            {"low": b["low"], "high": b["high"], "n": b["n"], "name": bucket_name(b)}
            for b in test["buckets"]
        ],
        "scores": [
            {
                "key": key,
                "name": LABELS.get(key) or metric_of(key).name,
                "lower": key not in LABELS and metric_of(key).is_loss,
                "digits": rows.digits(key),
            }
            for key in keys
        ],
        "examples": [
            {
                "x": e.x,
                "src": e.src,
                "ref": e.ref,
                "hyps": [side.hyp for side in e.sides],
                "scores": [[side.scores.get(key) for key in keys] for side in e.sides],
            }
            for e in examples
        ],
        "maps": maps,
    }


def maps_by_example(
    folder: Path,
    by_file: Mapping[str, Record],
    found: Mapping[str, Sequence[rows.Row]],
    examples: Sequence[rows.Shown],
    test: Mapping[str, Any],
    n_maps: int,
) -> dict[int, list[Any]]:
    """Return, for some examples, the map of each run, None for a run without."""
    has_weights = any((folder / name).with_suffix(".safetensors").exists() for name in found)
    if not n_maps or not has_weights or not examples or examples[0].sides[0].hyp is None:
        return {}
    from seqmodels.site import maps  # imports torch

    buckets = [(bucket["low"], bucket["high"]) for bucket in test["buckets"]]
    numbers = maps.chosen([e.x for e in examples], buckets, n_maps)
    by_run: list[list[Any]] = []
    drawn: set[str] = set()
    for k, name in enumerate(found):  # the first seed of each model that has weights
        model = by_file[name]["model"]
        texts = [(examples[i].src, examples[i].sides[k].hyp or "") for i in numbers]
        by_run.append([] if model in drawn else maps.maps_of(folder / name, texts))
        drawn |= {model} if by_run[-1] else set()
    return {i: [its[n] if its else None for its in by_run] for n, i in enumerate(numbers)}
