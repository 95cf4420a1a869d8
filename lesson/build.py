"""Build the site: the lesson's chapters and pairs, what was measured, and models that run.

The pages are made from the model files and from records. Each opens by itself, without a network
and, but for the live page, without JavaScript.
"""

from __future__ import annotations

import hashlib
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, groupby
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup
from matplotlib.figure import Figure

from lesson import essays, glossary, layout, pair, questions, report, rows, source, svg
from lesson.preview import draw_preview
from lesson.source import LESSON, TEXT, Chapter, Line, Unit, convert_equations, read_toml
from seqmodels.models import FIVE
from seqmodels.records.schema import Record
from seqmodels.report import figures, load, style
from seqmodels.report.load import Folder
from seqmodels.utils import files
from seqmodels.utils.imports import PACKAGE

TIMELINE: dict[str, str] = read_toml("timeline")
"""What each paper added."""
TEACHING: dict[str, list[dict[str, Any]]] = read_toml("teach")
"""The steps of a lesson of ten minutes."""
WITH_TERMS = {"chapter", "pair"}
"""The templates in which terms are linked, besides essays."""
FIGURE_OF_CHAPTER: dict[str, dict[str, str]] = read_toml("figures")
"""The folder of records and the figure that illustrate each chapter and essay."""
RESULTS: dict[str, Any] = read_toml("results")
"""Names of comparisons, and further figures of findings, by the id of a figure."""
MAIN = "translation-grammar"
"""The folder of the main comparison, as in the README."""
N_MAPS = 2
"""Sentences with attention maps in a report of the site."""
MIN_WORDS = 7
"""Least words of the sentence for which a chapter shows what its lines compute."""


class Site:
    """The site that is being written: its records and chapters, and the pages so far."""

    def __init__(self, out: Path, folders: dict[str, Folder], **shared: Any):
        self.out, self.folders, self.chapters = out, folders, source.read_chapters()
        self.main = find_folder(folders, *FIVE) or next(iter(folders))
        """The folder in which the five papers are compared, MAIN where it is there."""
        self.numbers = essays.collect(folders, self.main)
        self.questions = essays.ask(self.numbers)
        self.shared = shared | {"chapters": self.chapters, "questions": self.questions}
        self.shared["answers"] = questions.read_answers()
        names = [c.name for c in self.chapters]
        there = {*names, *map("-".join, combinations(names, 2)), *(q.page for q in self.questions)}
        plan = TEACHING["step"]
        self.shared["plan"] = [s for s in plan if s["page"].removesuffix(".html") in there]
        self.pages: list[Path] = []

    def write(self, page: str, template: str = "", /, **content: Any) -> None:
        """Write a page from its template, by default the one of its name."""
        has_terms = template in WITH_TERMS or page in essays.ENTRIES
        finish = glossary.link_terms if has_terms else str
        content = {"here": page, **self.shared, **content}
        text = layout.render(f"{template or page}.html", finish, **content)
        self.pages.append(files.write(self.out / f"{page}.html", text))


def build(
    out: Path,
    runs: Path,
    live: Path | None = None,
    is_single: bool = False,
    has_training: bool = False,
    url: str = "",
) -> list[Path]:
    """Write the site to a folder; return the paths of its pages, the home page first.

    `live` is a folder of runs whose models run in a further page, built with packages from npm:
    from files beside it, or in it if `is_single`. With `has_training`, another one trains three
    models. `url` is where the site will be, which previews of links to it need.
    Raises ValueError if there are no records in `runs`, or no weights in `live`.
    """
    files.claim_folder(out, "lesson")
    shared = {"has_live": live is not None, "has_training": has_training, "url": url.rstrip("/")}
    site, content = Site(out, read_folders(runs), **shared), dict[str, Any]()
    if live:
        from lesson.live import describe  # imports torch and onnx

        content = describe(live, None if is_single else out, site.folders)
        site.shared["muted"] = content["muted"]
    with style.context():
        steps = write_home, write_chapters, write_pairs, write_essays
        for step in steps:
            print(f"writing {step.__name__.removeprefix('write_')}")
            step(site)
        site.write("glossary", terms=glossary.GLOSSARY["field"])
        site.write("teach")
        print("writing reports")
        reports = write_reports(site, live)
        print("writing results")
        sections = make_sections(site.folders)
        site.write("results", sections=sections, reports=reports, page_script="figures.js")
        if site.shared["answers"]:
            charts = [chart.name for section in sections for chart in section.charts]
            there = [path.stem for path in site.pages]
            site.write("questions", groups=questions.GROUPS, charts=charts, there=there)
    site.write("sources", groups=compute_checksums(site.chapters, site.folders))
    if live:
        site.write("live", **content)
    if has_training:
        from lesson import training_page

        addresses = content["data"]["files"] if live else {}
        site.write("training", **training_page.describe(addresses))
    return site.pages


def write_home(site: Site) -> None:
    """Write the home page, and its opening picture, or scores, for previews of links."""
    taught = select_records(site.folders, site.main, [c.name for c in site.chapters])
    scores = taught or select_records(site.folders, site.main)
    chart = make_chapter_chart(site.folders, "index") or make_chart(site.main, draw_scores(scores))
    opening = site.numbers["opening"]
    answer = essays.answer_first(site.numbers["budgets"], "long-sentences.html#who")
    content = {"answer": answer, "opening": opening, "page_script": "opening.js" if opening else ""}
    site.write("index", chart=chart, timeline=TIMELINE, **content)
    figure = draw_preview(opening) if opening else draw_scores(scores)
    figure.savefig(site.out / "preview.png", dpi=100, metadata=style.STAMPS[".png"])


def write_chapters(site: Site) -> None:
    """Write a page for each chapter."""
    chapters = site.chapters
    for before, c, after in zip([None, *chapters], chapters, [*chapters[1:], None], strict=False):
        example = compute_example(c, site.folders)
        site.write(
            c.name,
            "chapter",
            chapter=c,
            symbols=parse_symbol_table(c.parts["Symbols"]),
            letters=source.read_letters(c),
            differs=re.split(r"^\d+\. ", textwrap.dedent(c.parts["Differs"]), flags=re.M)[1:],
            sections=[
                (section, [split_into_segments(c, unit, example) for unit in units])
                for section, units in groupby(c.units, key=lambda unit: unit.section)
            ],
            example=example,
            chart=make_chapter_chart(site.folders, c.name),
            before=before,
            after=after,
        )


def write_pairs(site: Site) -> None:
    """Write a page for each two chapters; those that follow each other have a figure."""
    for i, j in combinations(range(len(site.chapters)), 2):
        old, new, chart = site.chapters[i], site.chapters[j], None
        if j == i + 1 and (folder := find_folder(site.folders, old.name, new.name)):
            records = select_records(site.folders, folder, [old.name, new.name])
            chart = make_chart(folder, draw_scores(records))
        equations = {
            (c.name, unit.name): convert_equations(c, unit) for c in (old, new) for unit in c.units
        }
        site.write(
            f"{old.name}-{new.name}",
            "pair",
            old=old,
            new=new,
            is_next=j == i + 1,
            steps=site.chapters[i : j + 1],
            blocks=pair.compare_chapters(old, new),
            equations=equations,
            chart=chart,
        )


def write_essays(site: Site) -> None:
    """Write a page for each question that the records can answer."""
    for question in site.questions:
        if question.page == "attention":
            from lesson import attention  # imports torch

            content = attention.describe()
        else:
            content = {"chart": make_chapter_chart(site.folders, question.page)}
        content |= site.numbers | {"question": question, "page_script": question.script}
        site.write(question.page, **content)


def write_reports(site: Site, live: Path | None) -> dict[str, str]:
    """Write the report of each folder with hypotheses; return the names of their pages."""
    reports, live_records = {}, load.load_folder(live, True).records if live else None
    for name, its in site.folders.items():
        if any((its.path / file).with_suffix(".jsonl").exists() for file in its.records):
            reports[name] = f"report-{figures.format_file_name(name)}"
            part = report.describe(its, 0, N_MAPS, svg.Styles(), has_further=False)
            is_live = its.records == live_records
            data = {"folders": [part["data"]], "live": is_live and "live.html"}
            site.write(reports[name], "report", parts=[part], data=data)
    return reports


def compute_checksums(
    chapters: Sequence[Chapter], folders: Mapping[str, Folder]
) -> dict[str, list[tuple[Path, str]]]:
    """Return the name and SHA-256 of each source file of the site, grouped by folder."""
    ours = [LESSON / "attention.py", *sorted(TEXT.iterdir())]
    paths = {
        "seqmodels": [(c.path.relative_to(PACKAGE), c.path) for c in chapters],
        "lesson": [(path.relative_to(LESSON), path) for path in ours],
    }
    for name, folder in folders.items():
        paths[name] = [(Path(file), folder.path / file) for file in folder.records]
    return {
        group: [(name, hashlib.sha256(path.read_bytes()).hexdigest()) for name, path in its]
        for group, its in paths.items()
    }


# -------------------------------------------------------------------------------------- Chapters


class Example(NamedTuple):
    """A sentence, and what the lines of a chapter compute for it."""

    run: str
    src: str
    tgt: str
    values: Mapping[int, Sequence[Any]]
    """The values of tagged lines, from `trace`, by number of the line."""


def compute_example(chapter: Chapter, folders: Mapping[str, Folder]) -> Example | None:
    """Run the first model with weights on a test sentence; None without weights or sentences."""
    for name, folder in folders.items():
        for file, record in folder.records.items():
            path = folder.path / file
            is_trained = path.with_suffix(".safetensors").exists()
            if record.model != chapter.name or not is_trained:
                continue
            written = [row for row in rows.read(path.with_suffix(".jsonl")) if row.hyp is not None]
            if row := next((row for row in written if row.x >= MIN_WORDS), None):
                from lesson.trace import trace_lines
                from seqmodels.data import batches
                from seqmodels.inference import load  # imports torch

                run = load(path)
                pair = batches.Example(run.encode_source(row.src), run.encode(row.ref))
                batch = batches.collate([pair])
                values = trace_lines(chapter, run.model, batch.src, batch.tgt_in)
                return Example(f"{name}/{path.stem}", row.src, row.ref, values)
    return None


class Segment(NamedTuple):
    """Lines of code, with the note and the equations beside them."""

    name: str
    note: str
    equations: Sequence[Markup]
    lines: list[Line]
    values: Sequence[Any]
    """Values of the last line for the example."""


def split_into_segments(chapter: Chapter, unit: Unit, example: Example | None) -> list[Segment]:
    """Split the lines of a unit after each equation, and before and after each noted field."""
    equations, parts = convert_equations(chapter, unit), list[list[Line]]()
    for above, line in zip([None, *unit.lines], unit.lines, strict=False):
        if above is None or above.tag or above.note or line.note:
            parts.append([])
        parts[-1].append(line)
    heads = [(unit.name, unit.note), *[("", "")] * len(parts)]
    segments = []
    for (name, note), lines in zip(heads, parts, strict=False):
        number = lines[-1].number
        values = example.values.get(number, ()) if example else ()
        note = lines[-1].note or note
        segments.append(Segment(name, note, equations.get(number, ()), lines, values))
    return segments


def parse_symbol_table(text: str) -> list[list[tuple[str, int]]]:
    """Return the rows of a table in a docstring: each cell with the number of columns it spans."""
    lines = textwrap.dedent(text).splitlines()
    starts = [match.start() for match in re.finditer(r"\S+", lines[0])]
    rows = []
    for line in lines:
        cells = [(m.start(), m[0]) for m in re.finditer(r"\S+(?: \S+)*", line)]
        columns = [max(i for i, s in enumerate(starts) if s <= start) for start, _ in cells]
        ends = [*columns[1:], len(starts)]
        rows.append([(cell, b - a) for (_, cell), a, b in zip(cells, columns, ends, strict=True)])
    return rows


# --------------------------------------------------------------------------------------- Figures


class Chart(NamedTuple):
    """A figure in a page."""

    name: str
    """Its id in the page."""
    title: str
    svg: Markup
    folder: str
    """The folder, or folders, of its records."""
    caption: str = ""
    """Sentence under it on what it shows."""


def make_chart(folder: str, drawn: Figure) -> Chart:
    """Return a chart of a figure that is alone in its page."""
    return add_chart([], {}, folder, drawn, "figure")


def add_chart(
    charts: list[Chart], styles: svg.Styles, folder: str, drawn: Figure, name: str
) -> Chart:
    """Add a chart of a figure to those of a page; return it."""
    title = drawn.get_suptitle()
    markup = svg.inline(drawn, f"f{len(charts)}", styles)
    charts.append(Chart(name, title, markup, folder))
    return charts[-1]


def draw_scores(records: Sequence[Record]) -> Figure:
    """Draw the scores of the test set "distance" if there is one, otherwise of the first."""
    tests = load.tests_by_name(records)
    test = tests.get("distance") or next(iter(tests.values()))
    return figures.draw_scores(records, test)


def read_folders(root: Path) -> dict[str, Folder]:
    """Read the folders of records in `root`, which may be a folder of records itself."""
    paths = sorted({path.parent for path in [*root.glob("*.json"), *root.glob("*/*.json")]})
    loaded = (load.load_folder(path, True) for path in paths)
    folders = {folder.path.resolve().name: folder for folder in loaded if folder.records}
    if not folders:
        raise ValueError(f"{root} holds no records; name a folder of records, or of such folders")
    return folders


def select_records(
    folders: Mapping[str, Folder], name: str, models: Sequence[str] = ()
) -> list[Record]:
    """Return the records of a folder, only those of `models` if any are named."""
    records = folders[name].records.values()
    return [record for record in records if record.model in models or not models]


def find_folder(folders: Mapping[str, Folder], *models: str) -> str | None:
    """Return the folder with records of all these models: MAIN, or a large one of translation."""
    records = {name: select_records(folders, name) for name in folders}
    whole = [name for name in folders if {*models} <= {r.model for r in records[name]}]
    translated = [name for name in whole if records[name][0].task == "translation"]
    return max(
        translated or whole, key=lambda name: (name == MAIN, len(records[name])), default=None
    )


def make_chapter_chart(folders: Mapping[str, Folder], model: str) -> Chart | None:
    """Return the chart that illustrates a chapter, or its scores if those records are missing."""
    entry = FIGURE_OF_CHAPTER.get(model, {"folder": ""})
    if (folder := entry["folder"]) not in folders:
        folder = find_folder(folders, model) or ""
        return make_chart(folder, draw_scores(select_records(folders, folder))) if folder else None
    records = select_records(folders, folder)
    if entry["figure"] == "alignment":
        records = [next(r for r in select_records(folders, folder, [model]) if r.alignment)]
    chart = make_chart(folder, draw_figure(folders[folder], records, entry["figure"]))
    return chart._replace(caption=entry.get("caption", ""))


def draw_figure(folder: Folder, records: Sequence[Record], name: str) -> Figure:
    """Draw a figure of some records of a folder by the name of its file."""
    has_pairs = name.startswith("effects-")  # of all records, not only these
    compared = figures.find_significance(folder.path, folder.records) if has_pairs else None
    draw = figures.shared_figures(records, compared).get(name)
    return draw() if draw else figures.draw_task_figures(records)[name]


class Section(NamedTuple):
    """A comparison in the page of results."""

    title: str
    asked: str
    charts: list[Chart]
    observed: str
    question: str = ""


def make_sections(folders: Mapping[str, Folder]) -> list[Section]:
    """Return the findings of the documentation about these folders, then the other comparisons."""
    committed = figures.TASKS.parent / "results"
    ours = {n for n, f in folders.items() if f.path.resolve() == (committed / n).resolve()}
    findings = [finding for finding in questions.read_findings() if finding.folder in ours]
    sections, charts, styles = list[Section](), list[Chart](), svg.Styles()
    for name, figure, title, asked, observed in findings:
        records, its = select_records(folders, name), list[Chart]()
        for each in (figure, *RESULTS["further"].get(f"{name}-{figure}", ())):
            drawn = draw_figure(folders[name], records, each)
            its.append(add_chart(charts, styles, name, drawn, f"{name}-{each}"))
        is_alone = all(title != section.title for section in sections)
        title = title if is_alone else f"{title} ({its[0].title})"
        sections.append(Section(title, asked, its, observed, questions.find_question(asked)))
    in_findings = {finding.folder for finding in findings}
    others = {name: folder for name, folder in folders.items() if name not in in_findings}
    for chart, task in make_comparison_charts(others, charts, styles):
        is_ours = chart.folder.split(", ")[0] in ours
        title = RESULTS["titles"].get(chart.name, "") if is_ours else ""
        title = title or f"{chart.title} ({chart.folder})"
        sections.append(Section(title, questions.read_question(task), [chart], ""))
    return sections


def make_comparison_charts(
    folders: Mapping[str, Folder], charts: list[Chart], styles: svg.Styles
) -> Iterator[tuple[Chart, str]]:
    """Add a chart of each folder to those of a page; yield it with its task.

    It is the task's own figure, or the scores. Folders of a task that draws all of them in one
    figure share a chart, and only the largest folder has one of its own.
    """
    by_task: dict[str, list[str]] = {}
    for name in folders:
        by_task.setdefault(select_records(folders, name)[0].task, []).append(name)
    for task, names in by_task.items():
        records = [record for name in names for record in select_records(folders, name)]
        across = figures.draw_across([records])
        for name, drawn in across.items():
            yield add_chart(charts, styles, ", ".join(names), drawn, name), task
        largest = max(names, key=lambda name: len(select_records(folders, name)))
        for name in [largest] if across else names:
            own = select_records(folders, name)
            drawn_own = figures.draw_task_figures(own)
            first = next(iter(drawn_own.values()), None) or draw_scores(own)
            yield add_chart(charts, styles, name, first, name), task
