"""Draw figures and tables from records: score against length, curves, state size, alignments.

The JSON records of a folder are read, one per (model, seed), and the differences between the models
(see records/significance.py): redrawing needs neither torch nor a model. The same records give the
same bytes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from seqmodels.records import ledger, schema, significance
from seqmodels.report import (
    alignment,
    bottleneck,
    curves,
    distance,
    head_maps,
    heads,
    matching,
    matrix,
    places,
    reading,
    rungs,
    scores,
    state,
    style,
    tables,
    transition,
    widths,
    wording,
)
from seqmodels.report.reading import Record
from seqmodels.utils import files


def plot_folder(folder: Path, out: Path | None = None) -> list[Path]:
    """Write all figures (SVG and PNG) and tables.md to `out` or the folder; return the paths.

    If the sums of all records are there, significance.json is written as well.
    """
    by_file, out = reading.load_by_file(folder), Path(out or folder)
    records, compared = list(by_file.values()), compare(folder, by_file)
    for unknown in reading.find(folder)[1]:
        print(f"not drawn: {unknown}", file=sys.stderr)
    out.mkdir(parents=True, exist_ok=True)
    with style.context():
        figures = draw_all(records, compared)
        names = [f"{name}.{kind}" for name in figures for kind in ("svg", "png")]
        paths = [style.save(figures[name[:-4]], out / name) for name in names]
    parts = [tables.table(records), tables.by_length_table(records), matching.table(records)]
    if compared:
        parts.append(tables.differences(records, compared))
        paths.append(files.write(out / significance.FILE, compared.text()))
    return [*paths, files.write(out / "tables.md", "\n".join(filter(None, parts)).encode())]


def draw_all(
    records: Sequence[Record], compared: significance.Significance | None
) -> dict[str, Figure]:
    """Return all figures of a folder by the names of their files, in the style's context."""
    figures = {"curves": curves.draw_curves(records), "state": state.draw_state(records)}
    figures |= _special(records)
    for name, test in reading.tests(records).items():
        figures[f"score-{file_name(name)}"] = scores.draw_scores(records, test)
        if compared and (comparison := compared.on(name)):
            figures[f"significance-{file_name(name)}"] = matrix.draw(records, test, comparison)
    attending = reading.by_model(r for r in records if r["alignment"])
    first = [group[0] for group in attending.values()]
    if first:
        alignments = {r["model"]: r["alignment"] for r in first}
        figures["alignment"] = alignment.figure_of(alignments, wording.subtitle(first))
    return figures


def _special(records: Sequence[Record]) -> dict[str, Figure]:
    """Return the figures of what only some tasks measure."""
    figures = {}
    if bottleneck.is_drawn(records):
        figures["bits"] = bottleneck.draw_bits(records)
        figures["reach"] = bottleneck.draw_reach(records)
    if transition.is_drawn(records):
        figures["transition"] = transition.draw_transition(records)
    if distance.is_drawn(records):
        figures["distance"] = distance.draw_distance(records)
    for model, group in reading.by_model(records).items():
        if heads.is_drawn(group):
            figures[f"heads-{model}"] = heads.draw_heads(group)
            figures[f"head-maps-{model}"] = head_maps.draw_maps(group[0])
    if rungs.is_drawn(records):
        figures["rungs"] = rungs.draw_rungs(records)
    if places.is_drawn(records):
        figures["places"] = places.draw_places(records)
    return figures


def compare(folder: Path, by_file: dict[str, Record]) -> significance.Significance | None:
    """Return the differences between the models of a folder; say why if they cannot be drawn."""
    try:
        return significance.find(folder, by_file)
    except ValueError as error:
        print(f"not drawn: {error}", file=sys.stderr)
        return None


def file_name(test: str) -> str:
    """Return the name of a test set as part of the name of a file."""
    return re.sub(r"[^\w.-]+", "-", test)


def plot_results(root: Path) -> list[Path]:
    """Draw a folder of records, or all folders of records in it with a README.md that shows them.

    The README.md also compares the published figures of a ledger in the folder with the records.
    """
    folders = sorted({path.parent for path in root.glob("*/*.json") if _is_record(path)})
    if not folders:
        return plot_folder(root)
    entries = ledger.load(root)
    paths: list[Path] = []
    parts = [
        "# Results",
        "Made from the records in these folders by `seqmodels plot`. A record holds everything "
        "needed to repeat its run (task, seed, settings, commit), `….sums.json.gz` the numbers "
        "behind its scores, and `significance.json` the differences between the models; "
        "hypotheses and weights are not stored here. `python -m tasks --out FOLDER` repeats the "
        "runs; `--corpora` includes those on real text.",
    ]
    for folder in folders:
        drawn = plot_folder(folder)
        paths += drawn
        parts += [f"## {folder.name}", (folder / "tables.md").read_text(encoding="utf-8").strip()]
        figures = sorted(path for path in drawn if path.suffix == ".svg")
        parts += [f"![{path.stem}]({folder.name}/{path.name})" for path in figures]
    for same in widths.together(reading.load_records(folder) for folder in folders):
        name = f"widths-{same[0]['task']}"
        with style.context():
            figure = widths.draw_widths(same)
            paths += [style.save(figure, root / f"{name}.{kind}") for kind in ("svg", "png")]
        parts += [f"## {same[0]['task']} by width", f"![{name}]({name}.svg)"]
    if entries:
        parts += [tables.published(entries, {f.name: reading.load_records(f) for f in folders})]
    return [*paths, files.write(root / "README.md", ("\n\n".join(parts) + "\n").encode())]


def _is_record(path: Path) -> bool:
    """Return whether a JSON file is a record."""
    return schema.is_record(files.read_json(path))
