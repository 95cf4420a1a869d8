"""Records -> figures and tables."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from seqmodels.report import (
    alignment,
    curves,
    figures,
    fonts,
    layout,
    reading,
    scores,
    state,
    style,
    tables,
    wording,
)

MODELS = ("rnn_encdec", "bahdanau", "lstm_seq2seq", "transformer", "gpt")
ATTENDING = ("bahdanau", "transformer", "gpt")


def metric(value: float, half: float, top: float = 1e9) -> dict[str, float]:
    """Make a value with its interval."""
    value = min(value, top - 0.1)
    return {"value": value, "low": max(value - half, 0.0), "high": min(value + half, top)}


def fake_test(
    model: str, name: str, axis: str, headline: str, bins: list[tuple[int, int, int]], trained: Any
) -> dict[str, Any]:
    """Make a test set on which the fixed-vector models fall with length, the others late."""
    rng = np.random.default_rng([MODELS.index(model) if model in MODELS else 9, len(name)])
    k, longest = MODELS.index(model) if model in MODELS else 2, max(b[1] for b in bins) or 1
    parts = []
    for low, high, n in bins:
        x = (low + high) / 2 / longest
        fall = (75 if model in ATTENDING else 130) * x ** (3 if model in ATTENDING else 1.1)
        score = max(92.0 - fall - 1.5 * k + float(rng.normal()), 1.0)
        half = 60 / n**0.5
        nats = 0.25 + 2.5 * (100 - score) / 100
        part = {
            "nats": metric(nats, half / 60),
            "bits_per_byte": metric(nats / 2.2, half / 100),
            "token_accuracy": metric(40 + score / 2, half, 100),
            "exact": metric(score * 0.8, half, 100),
        }
        if headline in ("bleu", "accuracy"):
            part |= {h: metric(score, half, 100) for h in ("bleu", "chrf", "accuracy")}
        parts.append({"low": low, "high": high, "n": n, **part})
    overall = {h: v for h, v in parts[len(parts) // 3].items() if isinstance(v, dict)}
    return {
        "name": name, "axis": axis, "headline": headline, "trained_to": trained,
        "overall": overall, "bins": parts,
    }  # fmt: skip


def fake_tests(model: str, task: str) -> list[dict[str, Any]]:
    """Make the test sets of a task."""
    if task == "translation":
        counts = (1000, 1000, 1000, 987, 400, 212, 64, 17)
        bins = [(10 * i + 1, 10 * i + 10, n) for i, n in enumerate(counts)]
        return [fake_test(model, "length", "source length (words)", "bleu", bins, 40)]
    if task == "recall":
        bins = [(n, n, 200) for n in (4, 8, 16, 32, 64, 128)]
        axis = "source length (symbols)"
        return [
            fake_test(model, t, axis, "accuracy", bins, 32) for t in ("copy", "reverse", "lookup")
        ]
    bins = [(n, n, 2000) for n in (0, 8, 16, 32, 64, 128, 256)]
    far = [(1, 8, 300), (9, 16, 250), (17, 32, 120), (33, 64, 22)]
    return [
        fake_test(model, "context", "context (tokens)", "bits_per_byte", bins, None),
        fake_test(model, "distance", "distance to the word (tokens)", "exact", far, 32),
    ]


def fake_record(model: str, seed: int, task: str = "translation") -> dict[str, Any]:
    """Make a realistic record."""
    k = MODELS.index(model) if model in MODELS else 5
    rng = np.random.default_rng([seed, k])
    tests = fake_tests(model, task)
    shift = float(rng.normal(0, 1.5))
    for part in [p for t in tests for p in [t["overall"], *t["bins"]]]:
        for name, cell in part.items():
            if isinstance(cell, dict):
                scale = 0.02 if name in ("nats", "bits_per_byte") else 1
                part[name] = {q: max(v + shift * scale, 0.01) for q, v in cell.items()}
    names = {"translation": "English–German grammar", "recall": "random symbols"}
    steps = np.arange(100, 1400, 50)
    loss = (0.4 + 0.3 * (model not in ATTENDING)) + 4 * np.exp(-steps / (260 + 60 * k))
    english = "the old gardener who sold the red bicycles yesterday does not see the small child ."
    german = "der alte Gärtner , der gestern die roten Fahrräder verkaufte , sieht das kleine Kind"
    src, tgt = english.split(), [*german.split(), "nicht", "."]
    gold = [[0, 0], [1, 1], [2, 2], [3, 4], [8, 5], [5, 6], [6, 7], [7, 8], [4, 9], [11, 11],
            [12, 12], [13, 13], [14, 14], [10, 15], [15, 16]]  # fmt: skip
    alpha = rng.dirichlet(np.full(len(src), 0.15), len(tgt)) * (0.2 + 0.1 * k)
    for s, t in gold:
        alpha[t, s] += 1.5
    alpha /= alpha.sum(1, keepdims=True)
    aligned = {"src": src, "tgt": tgt, "alpha": alpha.tolist(), "gold": gold}
    if task != "translation":
        aligned["gold"] = None
    size = {"rnn_encdec": 2048, "lstm_seq2seq": 2048, "bahdanau": 512, "transformer": 2048}.get(
        model, 2100
    )
    fixed = model in ("rnn_encdec", "lstm_seq2seq")
    return {
        "schema": "seqmodels.record/2", "task": task, "model": model, "seed": seed,
        "model_config": {}, "train_config": {"tokens": 2000000, "rate": 0.002}, "beam": 1,
        "n_parameters": 985_000 + 9_000 * k,
        "data": {"name": names.get(task, "TinyStories"), "sha256": "00", "n_train": 118000},
        "provenance": {"commit": "abc", "date": "2026-11-21", "versions": {}, "system": "",
                       "device": "", "threads": 1},
        "curve": [
            {"step": int(s), "tokens": int(s) * 1500, "seconds": float(s) * (0.05 + 0.03 * k),
             "train_nats": float(v), "valid_nats": float(v) * (1 + 0.01 * shift),
             "valid_accuracy": 50.0} for s, v in zip(steps, loss, strict=True)
        ],
        "tests": tests,
        "signatures": {"bleu": "nrefs:1|case:mixed|tok:13a", "chrf": "nrefs:1|nc:6"},
        "alignment": aligned if model in ATTENDING else None,
        "state_bytes": [[s, size if fixed else size * s // 2] for s in (8, 16, 32, 64, 128, 256)],
        "speed": {"train_tokens_per_s": 9000.0 - 500 * k, "evaluate_sentences_per_s": 80.0},
        "peak_memory_bytes": 1, "train_s": 100.0 + 10 * k + seed, "evaluate_s": 9.0,
        "hypotheses": f"{model}-seed{seed}.jsonl",
        "weights_sha256": "00" * 32, "intervals": None, "continued": None,
    }  # fmt: skip


def write(folder: Path, records: list[dict[str, Any]]) -> Path:
    """Write the records to a folder, made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    for r in records:
        path = folder / f"{r['model']}-seed{r['seed']}.json"
        path.write_text(json.dumps(r, ensure_ascii=False), encoding="utf-8")
    return folder


def several(n_seeds: int, task: str = "translation") -> list[dict[str, Any]]:
    """Make the records of the five models."""
    return [fake_record(m, s, task) for m in MODELS for s in range(1, n_seeds + 1)]


def row(text: str, start: str) -> list[str]:
    """Return the cells of the first table row that starts so."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {start}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Draw a folder once for all tests."""
    folder = write(tmp_path_factory.mktemp("records"), several(2))
    figures.plot_folder(folder)
    return folder


def test_the_folder_holds_every_figure_twice_and_the_tables(drawn: Path) -> None:
    """A figure that is missing from the folder, or a half-written file that stays in it."""
    figures = {"score-length", "curves", "state", "alignment"}
    expected = {f"{name}.{kind}" for name in figures for kind in ("svg", "png")} | {"tables.md"}
    assert {p.name for p in drawn.iterdir() if p.suffix != ".json"} == expected


def test_figures_made_again_are_the_same_bytes(drawn: Path, tmp_path: Path) -> None:
    """A date or a random id in a figure, so that every remake shows up as a change."""
    again = figures.plot_folder(drawn, tmp_path / "out")
    assert again
    for path in again:
        assert path.read_bytes() == (drawn / path.name).read_bytes(), path.name


def test_drawing_leaves_the_callers_settings_alone(tmp_path: Path) -> None:
    """A style that leaks into other figures of the same program."""
    import matplotlib

    before = dict(matplotlib.rcParams)
    alignment.draw_alignment(
        {"gpt": {"src": ["a"], "tgt": ["b"], "alpha": [[1.0]]}}, tmp_path / "a.svg"
    )
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("task", ["recall", "next_token"])
def test_every_test_set_of_every_task_gets_a_figure(task: str, tmp_path: Path) -> None:
    """A metric or an axis of one task that the others never draw."""
    folder = write(tmp_path, several(1, task)[:2])
    paths = figures.plot_folder(folder)
    names = [t["name"] for t in fake_tests("gpt", task)]
    assert {f"score-{n}.svg" for n in names} <= {p.name for p in paths}
    assert all(f"### {n}:" in (folder / "tables.md").read_text(encoding="utf-8") for n in names)


def test_one_seed_in_the_tables_is_the_record(tmp_path: Path) -> None:
    """A number in a table that comes from another bin, metric or model."""
    records = reading.load_records(write(tmp_path, several(1)))
    r = next(r for r in records if r["model"] == "lstm_seq2seq")
    test = r["tests"][0]

    def shown(part: dict[str, Any], metric: str = "bleu", digits: int = 1) -> str:
        value, low, high = (f"{part[metric][k]:.{digits}f}" for k in ("value", "low", "high"))
        return f"{value} [{low}, {high}]"

    bins = test["bins"]
    assert row(tables.table(records), "LSTM") == [
        "LSTM seq2seq", "1", "1.00 M", shown(test["overall"]), shown(bins[0]),
        shown(bins[3]), shown(bins[7]) + "*", shown(test["overall"], "nats", 3),
        shown(test["overall"], "bits_per_byte", 3), "8,000", "121",
    ]  # fmt: skip
    by_length = tables.by_length_table(records)
    stars = [""] * 7 + ["*"]
    assert row(by_length, "LSTM")[1:] == [shown(b) + s for b, s in zip(bins, stars, strict=True)]
    assert row(by_length, "n ")[1:] == [f"{b['n']:,}" for b in bins]
    assert "nrefs:1|case:mixed|tok:13a" in tables.table(records)


def test_several_seeds_are_averaged_and_their_spread_told(tmp_path: Path) -> None:
    """The first seed, or a sum, passed off as the mean of all."""
    records = reading.load_records(write(tmp_path, several(3)))
    seeds = [r["tests"][0]["overall"]["bleu"] for r in records if r["model"] == "gpt"]
    value, low, high = (np.mean([s[k] for s in seeds]) for k in ("value", "low", "high"))
    half = np.ptp([s["value"] for s in seeds]) / 2
    cells = row(tables.table(records), "GPT ")
    assert cells[1] == "3"
    assert cells[-1] == "142"  # seconds, the mean of 141, 142 and 143
    assert "2 M target tokens" in wording.subtitle(records)
    assert cells[3] == f"{value:.1f} ± {half:.1f} [{low:.1f}, {high:.1f}]"


def test_the_columns_of_a_table_are_padded(tmp_path: Path) -> None:
    """Tables that only a browser can read."""
    records = reading.load_records(write(tmp_path, several(1)))
    lines = [line for line in tables.table(records).splitlines() if line.startswith("| ")]
    assert len(lines) == 7
    assert len(set(map(len, lines))) == 1


@pytest.mark.parametrize(("n_seeds", "words"), [(1, "one seed"), (3, "3 seeds")])
def test_the_number_of_seeds_is_said(n_seeds: int, words: str, tmp_path: Path) -> None:
    """One lucky seed that reads like a result of many."""
    records = reading.load_records(write(tmp_path, several(n_seeds)))
    figure = scores.draw_scores(records, records[0]["tests"][0])
    head, caption = figure.texts[1].get_text(), figure.texts[2].get_text()
    assert head.endswith(words)
    assert ("whisker" in caption) == (n_seeds > 1)


def test_models_stand_in_order_of_history_and_a_sixth_comes_last(tmp_path: Path) -> None:
    """Somebody's own model that is dropped, or that borrows a colour of the five."""
    folder = write(tmp_path, [fake_record("a_sixth", 1), *several(1)])
    records = reading.load_records(folder)
    assert [r["model"] for r in records] == [*MODELS, "a_sixth"]
    assert row(tables.table(records), "a_sixth")[2] == "1.03 M"
    looks = style.looks([r["model"] for r in records])
    assert list(looks) == [*MODELS, "a_sixth"]
    assert len({look.colour for look in looks.values()}) == 6
    figure = scores.draw_scores(records, records[0]["tests"][0])
    assert "a_sixth · 1.03 M" in [t.get_text() for t in figure.legends[0].get_texts()]
    figures.plot_folder(folder)


def test_a_metric_that_is_missing_leaves_a_gap(tmp_path: Path) -> None:
    """A crash, or a zero drawn, where a model was not scored."""
    records = several(2)
    for r in records:
        for part in r["tests"][0]["bins"]:
            del part["nats"]
    gpt = [r for r in records if r["model"] == "gpt"]
    gpt[1]["tests"][0]["bins"][0]["bleu"]["value"] = None
    folder = write(tmp_path, records)
    figures.plot_folder(folder)
    records = reading.load_records(folder)
    assert row(tables.by_length_table(records), "GPT ")[1] == "–"
    figure = scores.draw_scores(records, records[0]["tests"][0])
    assert "not recorded" in [t.get_text() for t in figure.axes[1].texts]


def test_thin_bins_are_drawn_hollow(tmp_path: Path) -> None:
    """Seventeen sentences that look as sure as a thousand."""
    records = reading.load_records(write(tmp_path, several(1)))
    axes = scores.draw_scores(records, records[0]["tests"][0]).axes
    hollow = [line for line in axes[0].lines if line.get_markerfacecolor() == "white"]
    assert [list(np.round(line.get_xdata())) for line in hollow] == [[7]] * 5
    fills = [bar.get_facecolor()[:3] == (1, 1, 1) for bar in axes[2].patches if bar.get_height()]
    assert fills[-8:] == [False] * 7 + [True]


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("translation", "BLEU, free-running"),
        ("recall", "symbols right (%), free-running"),
        ("next_token", "exactly right (%), teacher-forced"),
    ],
)
def test_a_score_says_whether_the_model_ran_freely(task: str, words: str, tmp_path: Path) -> None:
    """Keeps out an exact score, taken with the true words before it, sold as free search."""
    records = reading.load_records(write(tmp_path, several(1, task)))
    axes = scores.draw_scores(records, records[0]["tests"][-1]).axes
    assert words in [ax.get_title("left") for ax in axes]


@pytest.mark.parametrize(("beam", "words"), [(1, "greedy"), (5, "beam 5")])
def test_a_score_says_how_targets_were_searched_for(beam: int, words: str, tmp_path: Path) -> None:
    """Keeps out a beam's BLEU beside a greedy one as if they were the same."""
    made = several(1)
    for test in (test for r in made for test in r["tests"]):
        test["beam"] = beam
    folder = write(tmp_path, made)
    records = reading.load_records(folder)
    titles = [
        ax.get_title("left") for ax in scores.draw_scores(records, records[0]["tests"][0]).axes
    ]
    assert f"BLEU, free-running, {words}" in titles
    assert f"### length: by source length (words), {words}\n" in tables.table(records)


@pytest.mark.parametrize(("share", "top"), [(1.0, 100), (0.3, 35)])
def test_the_axis_of_bleu_fits_real_text(share: float, top: float, tmp_path: Path) -> None:
    """Keeps out curves pressed to the floor, and an axis of the grammar that is cut short."""
    made = several(1)
    for part in (part for r in made for test in r["tests"] for part in test["bins"]):
        part["bleu"] = {key: share * value for key, value in part["bleu"].items()}
    records = reading.load_records(write(tmp_path, made))
    bleu = scores.draw_scores(records, records[0]["tests"][0]).axes[0]
    assert bleu.get_ylim() == (0, 100) if top == 100 else bleu.get_ylim()[1] < top


def test_labels_at_line_ends_do_not_overlap(tmp_path: Path) -> None:
    """Five names on top of each other where the lines meet, on log axes too."""
    records = reading.load_records(write(tmp_path, several(1)))
    scored = scores.draw_scores(records, records[0]["tests"][0])
    sizes = state.draw_state(records)
    for figure, ax in ((scored, scored.axes[0]), (scored, scored.axes[1]), (sizes, sizes.axes[0])):
        figure.draw_without_rendering()
        labels = [t for t in ax.texts if hasattr(t, "xyann")]
        boxes = sorted((t.get_window_extent() for t in labels), key=lambda b: b.y0)
        assert len(boxes) == 5
        assert all(low.y1 <= high.y0 + 4 for low, high in pairwise(boxes))
        assert all(b.x1 <= figure.bbox.x1 for b in boxes)


@pytest.mark.parametrize(
    "path", ["n_parameters", "data.name", "train_config.tokens", "tests[0].bins[2].n"]
)
def test_a_record_that_lacks_a_field_is_named(path: str, tmp_path: Path) -> None:
    """A KeyError that names neither the file nor the field."""
    record: Any = fake_record("gpt", 1)
    folder = tmp_path
    inner, keys = record, path.replace("[", ".").replace("]", "").split(".")
    for key in keys[:-1]:
        inner = inner[int(key) if key.isdigit() else key]
    del inner[keys[-1]]
    write(folder, [record])
    with pytest.raises(ValueError, match=r"gpt-seed1\.json") as error:
        reading.load_records(folder)
    assert str(error.value).endswith(f" {path}")


def test_only_records_are_read_and_an_empty_folder_is_told(tmp_path: Path) -> None:
    """Other JSON files drawn as records, or an empty figure for an empty folder."""
    (tmp_path / "other.json").write_text('{"schema": "something else"}')
    (tmp_path / "list.json").write_text("[1, 2]")
    with pytest.raises(ValueError, match="holds no record"):
        reading.load_records(tmp_path)
    write(tmp_path, several(1))
    assert len(reading.load_records(tmp_path)) == 5
    (tmp_path / "torn.json").write_text('{"schema": "seqmod')
    with pytest.raises(ValueError, match=r"torn\.json is not JSON"):
        reading.load_records(tmp_path)


def test_a_record_of_another_version_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out a record that is dropped in silence: which file, and why; alone it is an error."""
    newer = fake_record("gpt", 1) | {"schema": "seqmodels.record/9"}
    folder = write(tmp_path / "made", [newer])
    why = r"gpt-seed1\.json has the schema 'seqmodels\.record/9'; this version reads "
    for draw in (figures.plot_folder, reading.load_records):
        with pytest.raises(ValueError, match=rf"holds no record that can be drawn \(.*{why}"):
            draw(folder)
    with pytest.raises(ValueError, match=why):
        figures.plot_results(tmp_path)
    write(folder, [fake_record("bahdanau", 1)])
    (folder / "made.json").write_text('{"n": 3}')
    figures.plot_folder(folder)
    told = capsys.readouterr().err
    assert re.fullmatch(rf"not drawn: .*{why}seqmodels\.record/1 and seqmodels\.record/2\n", told)


def test_version_1_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keeps out committed records that can no longer be drawn, and [nan, nan] in their tables."""
    records = [fake_record("gpt", 1, "next_token") | {"schema": "seqmodels.record/1"}]
    for field in ("weights_sha256", "intervals", "continued"):
        del records[0][field]
    figures.plot_folder(write(tmp_path, records))
    tables = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert "nan" not in tables
    assert " [–] |" in tables
    assert capsys.readouterr().err == ""


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    """Two tasks, two runs or two sets of sentences blended into one line."""
    other = fake_record("gpt", 1, "recall")
    with pytest.raises(ValueError, match="mixes the tasks"):
        reading.load_records(write(tmp_path / "a", [fake_record("bahdanau", 1), other]))
    folder = write(tmp_path / "b", [fake_record("gpt", 1)])
    (folder / "copy.json").write_text((folder / "gpt-seed1.json").read_text(encoding="utf-8"))
    with pytest.raises(ValueError, match="second record of gpt, seed 1"):
        reading.load_records(folder)
    records = several(1)
    records[3]["tests"][0]["bins"][1]["n"] += 1
    with pytest.raises(ValueError, match="transformer, seed 1: test 'length'"):
        tables.table(records)


def test_alignments_stand_alone(tmp_path: Path) -> None:
    """Words read as formulas, or a map whose rows and columns are swapped."""
    a = {"src": ["$5", "and", "$6"], "tgt": ["5", "$"], "alpha": [[1, 0, 0], [0, 0.5, 0.5]]}
    for kind in ("svg", "png"):
        path = alignment.draw_alignment(
            {"bahdanau": a | {"gold": [[0, 0], [2, 1]]}}, tmp_path / f"a.{kind}"
        )
        assert path.stat().st_size > 1000
    with pytest.raises(ValueError, match=r"gpt: alpha is \(2, 3\)"):
        alignment.draw_alignment(
            {"gpt": a | {"src": a["tgt"], "tgt": a["src"]}}, tmp_path / "b.svg"
        )
    with pytest.raises(ValueError, match="no model here attends"):
        alignment.draw_alignment({}, tmp_path / "b.svg")
    with pytest.raises(ValueError, match=r"written as \.svg or \.png"):
        alignment.draw_alignment({"gpt": a}, tmp_path / "b.pdf")


def test_plotting_needs_neither_torch_nor_pyplot() -> None:
    """A plot of stored records that waits for torch, or that touches pyplot's global state."""
    spec = importlib.util.find_spec("seqmodels.report.figures")
    assert spec is not None
    code = (
        "import runpy, sys; runpy.run_path(sys.argv[1]); "
        "print([m for m in ('torch', 'matplotlib.pyplot') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code, str(spec.origin)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ------------------------------------------------------------------ Numbers read back from figures


def scored(
    values: dict[str, Sequence[float]],
    counts: Sequence[int] = (100, 100, 100),
    headline: str = "bleu",
    trained: int | None = None,
    half: float = 1.0,
    **about: Any,
) -> list[dict[str, Any]]:
    """Make a record per model with these scores in bins of ten words, each ± half."""
    records = []
    for model, parts in values.items():
        r = fake_record(model, 1)
        bins = [
            {"low": 10 * i + 1, "high": 10 * i + 10, "n": n, **about.get("bins", {}).get(i, {}),
             headline: {"value": v, "low": v - half, "high": v + half}}
            for i, (n, v) in enumerate(zip(counts, parts, strict=True))
        ]  # fmt: skip
        overall = dict.fromkeys({headline, "nats"}, bins[0][headline])
        r["tests"] = [{"name": "length", "axis": about.get("axis", "source length (words)"),
                       "headline": headline, "trained_to": trained, "overall": overall,
                       "bins": bins}]  # fmt: skip
        records.append(r)
    return records


def drawn_scores(records: list[dict[str, Any]], index: int = 0) -> Any:
    """Draw a test set."""
    return scores.draw_scores(records, records[0]["tests"][index])


def title_of(records: list[dict[str, Any]]) -> str:
    """Return the title of the first test set's figure, on one line."""
    return " ".join(drawn_scores(records).texts[0].get_text().split())


@pytest.mark.parametrize("column", [0, 1])
def test_lines_bands_whiskers_and_bars_are_the_records(column: int, tmp_path: Path) -> None:
    """Keeps out the first seed drawn as the mean, another model's band, and bars of other bins."""
    records = reading.load_records(write(tmp_path, several(3)))
    metric = ("bleu", "nats")[column]
    figure = drawn_scores(records)
    ax, strip = figure.axes[column], figure.axes[2 + column]
    bins = records[0]["tests"][0]["bins"]
    assert [bar.get_height() for bar in strip.patches if bar.get_height() > 1] == [
        b["n"] for b in bins
    ]
    assert [t.get_text() for t in strip.get_xticklabels()] == ["1–10", *(
        f"{b['low']}–{b['high']}" for b in bins[1:]
    )]  # fmt: skip
    for i, model in enumerate(MODELS):
        group = [r["tests"][0]["bins"] for r in records if r["model"] == model]
        cells = np.array(
            [[[b[metric][k] for k in ("value", "low", "high")] for b in seed] for seed in group]
        )
        mean = cells.mean(axis=0)
        colour = style.LOOKS[model].colour
        line, marks, hollow = (line for line in ax.lines if line.get_color() == colour)
        assert np.allclose(line.get_ydata(), mean[:7, 0])  # the eighth bin has 17 sentences
        assert np.allclose(marks.get_ydata(), mean[:7, 0])
        assert np.allclose(hollow.get_ydata(), mean[7:, 0])
        band, whiskers = ax.collections[2 * i : 2 * i + 2]
        corners = band.get_paths()[0].vertices
        for k in range(7):
            x = line.get_xdata()[k]
            at = corners[np.isclose(corners[:, 0], x), 1]
            assert np.isclose(at.min(), mean[k, 1])
            assert np.isclose(at.max(), mean[k, 2])
            ends = whiskers.get_segments()[k][:, 1]
            assert np.allclose(ends, [cells[:, k, 0].min(), cells[:, k, 0].max()])


def test_names_are_written_where_the_lines_end() -> None:
    """Keeps out names in the order of two sentences, where bins of a hundred say otherwise."""
    values = {"rnn_encdec": (30, 20, 50), "bahdanau": (30, 25, 40), "gpt": (30, 22, 45)}
    ax = drawn_scores(scored(values, counts=(100, 100, 2))).axes[0]
    labels = sorted((t for t in ax.texts if hasattr(t, "xyann")), key=lambda t: -t.xyann[1])
    assert [t.get_text() for t in labels] == ["Bahdanau", "GPT", "RNN encoder–\ndecoder"]
    assert [round(t.xy[0]) for t in labels] == [1, 1, 1]
    assert [round(t.xy[1]) for t in labels] == [25, 22, 20]


def test_too_few_examples_have_no_interval() -> None:
    """Keeps out a band over nine sentences, drawn or in a table, between two bins of a hundred."""
    records = scored({"gpt": (30, 20, 25)}, counts=(100, 9, 100))
    ax = drawn_scores(records).axes[0]
    xs = {round(float(x)) for path in ax.collections[0].get_paths() for x in path.vertices[:, 0]}
    assert 1 not in xs
    assert len(ax.lines[0].get_xdata()) == 3
    assert row(tables.by_length_table(records), "GPT")[1:] == [
        "30.0 [29.0, 31.0]", "20.0 [–]*", "25.0 [24.0, 26.0]"
    ]  # fmt: skip


@pytest.mark.parametrize("metric", [*wording.METRICS, *wording.LOSSES, "perplexity"])
def test_the_better_direction_is_said(metric: str) -> None:
    """Keeps out a loss captioned as higher is better."""
    ax = drawn_scores(scored({"gpt": (3, 2, 1)}, headline=metric)).axes[0]
    words = (
        "lower is better ↓" if metric in (*wording.LOSSES, "perplexity") else "higher is better ↑"
    )
    assert words in [t.get_text() for t in ax.texts]


def test_a_caption_counts_thin_bins_and_says_what_is_drawn() -> None:
    """Keeps out a caption of another figure: thin bins where there are none, seeds of one seed."""
    values = {"bahdanau": (30, 20, 25)}

    def caption(*records: dict[str, Any]) -> str:
        return " ".join(drawn_scores(list(records)).texts[2].get_text().split())

    one = caption(*scored(values, counts=(100, 12, 2)))
    assert "Hollow: fewer than 30 (2 of 3 bins have)" in one
    assert one.startswith("One seed; band: 95 % interval (bootstrap) over sentences. ")
    assert "Dashed" not in one
    two = scored(values)[0], scored(values)[0] | {"seed": 2}
    assert caption(*two).startswith(
        "Line: mean of the seeds; whisker: lowest to highest seed; band: 95 % interval "
        "(bootstrap) over sentences, its ends averaged over the seeds."
    )
    assert "Hollow" not in caption(*two)
    both = caption(*scored(values | {"rnn_encdec": (3, 2, 1)}))
    assert both.endswith("Dashed: source in one vector; solid: attends to every word.")


# ------------------------------------------------------------------------------------------ Titles

FALLING = {
    "rnn_encdec": (80, 40, 10), "lstm_seq2seq": (50, 30, 10),
    "bahdanau": (100, 98, 50), "gpt": (50, 48, 20),
}  # fmt: skip


@pytest.mark.parametrize(
    ("trained", "counts", "words"),
    [
        (20, (100, 100, 100), "45 % of its BLEU between 1–10 and 11–20 words; attention loses 3 %"),
        (None, (100, 100, 29), "45 % of its BLEU between 1–10 and 11–20 words; attention loses 3 "),
        (None, (100, 100, 30), "84 % of its BLEU between 1–10 and 21–30 words; attention loses 55"),
        (29, (100, 100, 100), "45 % of its BLEU between 1–10 and 11–20 words"),
    ],
)
def test_a_title_says_what_is_lost(
    trained: int | None, counts: tuple[int, ...], words: str
) -> None:
    """Keeps out a loss from another bin than the longest trained, or one of two sentences."""
    records = scored(FALLING, counts, trained=trained)
    assert title_of(records).startswith(f"One vector loses {words}")
    numbers = " ".join(drawn_scores(records).texts[1].get_text().split())
    change = -50 if counts[2] < 30 or trained else -88
    assert f"RNN encoder–decoder −{-change} %" in numbers


def test_a_title_says_that_a_score_rises() -> None:
    """Keeps out a gain that is sold as a loss."""
    rising = FALLING | {"bahdanau": (50, 60, 70), "gpt": (40, 48, 56)}
    assert title_of(scored(rising, trained=20)).endswith("; attention gains 20 %")


@pytest.mark.parametrize(
    ("values", "half"),
    [
        ({m: FALLING[m] for m in ("bahdanau", "gpt")}, 1.0),  # one group
        (FALLING, 30.0),  # intervals that meet
        ({m: tuple(v / 50 for v in x) for m, x in FALLING.items()}, 0.01),  # nothing learned
        (FALLING | {"a_sixth": (9, 9, 9)}, float("nan")),  # intervals not recorded
    ],
)
def test_a_title_says_no_more_than_is_known(values: Any, half: float) -> None:
    """Keeps out a finding where there is but one group, where intervals meet, or below BLEU 2."""
    assert title_of(scored(values, half=half, trained=20)) == "BLEU against source length"


def test_groups_that_overlap_give_way_to_two_models() -> None:
    """Keeps out a mean of attention in which one model hides that is worse than one vector."""
    values = FALLING | {"gpt": (50, 10, 5)}
    assert title_of(scored(values, trained=20)).startswith(
        "GPT loses 80 % of its BLEU between 1–10 and 11–20 words; Bahdanau loses 2 %"
    )


def test_percentages_are_titled_from_first_to_last() -> None:
    """Keeps out a share of a percentage: from 2 to 4 % right would be a gain of 100 %."""
    records = scored(FALLING, headline="accuracy", trained=20)
    title = "Symbols right from 1–10 to 11–20 words: attention 75 → 73 %, one vector 65 → 35 %"
    assert title_of(records) == title


def test_a_context_is_drawn_and_titled_as_what_it_saves() -> None:
    """Keeps out lines that differ by 0.05 on an axis of 2.5, and a gain turned round."""
    none = {0: {"low": 0, "high": 0, "token_accuracy": {"value": 10, "low": 9, "high": 11}}}
    more = {i: {"token_accuracy": {"value": 10 + i, "low": 9, "high": 11}} for i in (1, 2)}
    values = {"rnn_encdec": (2.0, 1.9, 1.8), "gpt": (2.5, 2.2, 1.9)}
    records = scored(
        values, headline="bits_per_byte", half=0.01, axis="length (tokens)", bins=none | more
    )
    figure = drawn_scores(records)
    saved, gained = figure.axes[:2]
    assert title_of(records) == (
        "21–30 tokens of context save attention 0.60 bits per byte, one vector 0.20"
    )
    assert np.allclose(saved.lines[0].get_ydata(), [0, 0.1, 0.2])
    assert np.allclose(saved.lines[3].get_ydata(), [0, 0.3, 0.6])
    assert np.allclose(gained.lines[0].get_ydata(), [0, 1, 2])
    assert saved.get_title("left").startswith("bits per byte saved")
    assert saved.get_ylim()[1] < 0.7
    for ax in (saved, gained):
        assert "higher is better ↑" in [t.get_text() for t in ax.texts]
        assert not any(len(band.get_paths()[0].vertices) for band in ax.collections[::2]
                       if band.get_paths())  # fmt: skip
    assert [t.get_text() for t in figure.legends[0].get_texts()] == [
        "RNN encoder–decoder (2014) · 0.98 M · 2.00", "GPT (2019) · 1.02 M · 2.50"
    ]  # fmt: skip


def test_the_state_and_the_curves_are_titled_by_their_numbers(tmp_path: Path) -> None:
    """Keeps out a vector that is said to grow, and the highest loss sold as the lowest."""
    records = reading.load_records(write(tmp_path, several(2)))
    title = state.draw_state(records).texts[0].get_text()
    assert " ".join(title.split()) == (
        "State: one vector stays at 2.05 kB, attention grows to 65.5 kB–269 kB at 256 tokens of "
        "source"
    )
    title = " ".join(curves.draw_curves(records).texts[0].get_text().split())
    last = {
        m: np.mean([r["curve"][-1]["valid_nats"] for r in records if r["model"] == m])
        for m in MODELS
    }
    low, high = min(last.values()), max(last.values())
    assert f"{low:.3f} nats per token, the lowest" in title
    assert title.endswith(f"{high:.3f}, the highest")


def test_curves_are_the_validation_losses(tmp_path: Path) -> None:
    """Keeps out the training loss under the name of validation, and exchanged axes."""
    records = reading.load_records(write(tmp_path, several(1)))
    axes = curves.draw_curves(records).axes
    assert [ax.get_xlabel() for ax in axes] == ["target tokens", "seconds of training"]
    for ax, field in zip(axes, ("tokens", "seconds"), strict=True):
        for record in records:
            points, colour = record["curve"], style.LOOKS[record["model"]].colour
            line = next(line for line in ax.lines if line.get_color() == colour)
            assert np.allclose(line.get_xdata(), [point[field] for point in points])
            assert np.allclose(line.get_ydata(), [point["valid_nats"] for point in points])


def test_lengths_beyond_training_are_shaded(tmp_path: Path) -> None:
    """Keeps out a shade that begins a bin late, or a bin early."""
    records = reading.load_records(write(tmp_path, several(1)))
    assert records[0]["tests"][0]["trained_to"] == 40
    figure = drawn_scores(records)
    for ax in figure.axes:
        shades = [p.get_extents().transformed(ax.transData.inverted()) for p in ax.patches
                  if p.get_facecolor() == to_rgba("#F5F2EA")]  # fmt: skip
        assert [(round(s.x0, 2), round(s.x1, 2)) for s in shades] == [(3.5, 7.5)]


def test_gold_links_lie_on_their_cells() -> None:
    """Keeps out links and words that are transposed, or rows that are upside down to them."""
    ax = Figure().subplots()
    a = {"src": ["a", "b", "c"], "tgt": ["x", "y"], "alpha": [[1, 0, 0], [0, 0, 1]]}
    alignment._draw_heat(ax, a | {"gold": [[2, 1]]})
    (link,) = ax.patches
    assert [int(x) for x in link.get_xy()] == [2, 1]
    assert np.array_equal(ax.collections[0].get_array().reshape(2, 3), a["alpha"])
    assert ax.yaxis_inverted()
    assert not ax.xaxis_inverted()
    assert [t.get_text() for t in ax.get_xticklabels()] == a["src"]
    assert [t.get_text() for t in ax.get_yticklabels()] == a["tgt"]


# ------------------------------------------------------------------------------------------- Words


def test_a_figure_as_svg_is_text_with_title_and_description(drawn: Path) -> None:
    """Keeps out words that are drawings, which nobody can search, select or have read aloud."""
    for path in sorted(drawn.glob("*.svg")):
        root = ElementTree.parse(path).getroot()
        space = root.tag.removesuffix("svg")
        title, desc = (root[i] for i in (0, 1))
        assert (title.tag, desc.tag) == (f"{space}title", f"{space}desc")
        shown = [text.text or "" for text in root.iter(f"{space}text")]
        words = " ".join(" ".join(shown).split())
        assert title.text, path.name
        assert desc.text, path.name
        assert all(word in words for word in [*title.text.split(), *desc.text.split()])
        assert "Bahdanau" in words
        styles = {text.get("style", "") for text in root.iter(f"{space}text")}
        assert all("'DejaVu Sans'" in style and "sans-serif" in style for style in styles)


def test_signatures_and_untrained_lengths_are_told_where_they_belong(tmp_path: Path) -> None:
    """Keeps out BLEU's signature under accuracies, and long bins that look like trained ones."""
    recall = reading.load_records(write(tmp_path / "a", several(1, "recall")))
    text = tables.table(recall) + tables.by_length_table(recall)
    assert "tok:13a" not in text
    assert "nc:6" not in text
    assert "| 32, longest trained | 128, longest, longer than trained |" in re.sub(" +", " ", text)
    assert "| 32 | 64† | 128† |" in re.sub(" +", " ", text)
    assert text.count("† longer than trained") == 3
    translation = reading.load_records(write(tmp_path / "b", several(1)))
    text = tables.table(translation)
    assert ("tok:13a" in text, "nc:6" in text) == (True, False)
    for index, name in enumerate(["copy", "reverse", "lookup"]):
        figure = drawn_scores(recall, index)
        assert recall[0]["tests"][index]["name"] == name
        for ax in figure.axes[:2]:
            assert "longer than trained" in [t.get_text() for t in ax.texts]


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        (["RNN encoder–decoder", "GPT"], ["RNN encoder–\ndecoder", "GPT"]),
        (
            [f"experiment_of_november_with_rate_{i}_beam_5_out" for i in (1, 2, 10)],
            ["…1…", "…2…", "…10…"],
        ),
        ([f"{'x' * 40}{i}" for i in "ab"], ["…a", "…b"]),
        (["base.v1", "base.v2"], ["base.v1", "base.v2"]),
        (["base.de", "a_very_long_name_of_a_system.v1", "a_very_long_name_of_a_system.v2"],) * 2,
    ],
)
def test_long_names_keep_what_differs(labels: list[str], shown: list[str]) -> None:
    """Keeps out two systems that are both called `exper…5_out` beside their lines."""
    found = layout.brief(labels)
    assert len(set(found)) == len(labels)
    assert [text.replace("\n", "") for text in found] == [s.replace("\n", "") for s in shown]
    assert max(len(line) for text in found for line in text.split("\n")) <= layout.ROW + 2


def test_a_name_has_three_rows_at_most() -> None:
    """Keeps out a name that grows over those above and below it, and one whose cut is not shown."""
    (found,) = layout.brief(["one name of a system that is far too long to stand beside its line"])
    assert found.count("\n") == 2
    assert found.endswith("…")


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["The", "▁mag", "ic", ",", "▁isn", "'t", "▁", "8", "]"],
         ["The", "mag", "·ic", ",", "isn", "'t", "␣", "8", "]"]),
        (["Fr", r"\xc3", r"\xa4", "u", "▁"], ["Fr", "ä", "…", "u", "␣"]),
        ([r"▁M\xc3", r"\xa4dch", "en"], ["Mä", "·dch", "·en"]),
        ([r"▁\xe4", r"\xbd\xa0"], ["你", "…"]),
        ([r"\xe4", "x", r"a\x00"], [r"\xe4", "x", r"a\x00"]),
        (["nine", "words"], ["nine", "words"]),
    ],
)  # fmt: skip
def test_pieces_are_shown_as_text(pieces: list[str], shown: list[str]) -> None:
    r"""Keeps out marks of spaces, bytes such as \xe4, and pieces that look like whole words."""
    assert alignment._pieces(pieces) == shown


def test_alignments_stand_in_one_row_with_one_scale() -> None:
    """Keeps out maps below each other, a scale of another range, and marks without a word."""
    a = {"src": ["▁a", "b", "▁c"], "tgt": ["▁d", "e"], "alpha": [[1, 0, 0], [0, 0.6, 0.4]]}
    a["gold"] = [[0, 0], [2, 1]]
    other = a | {"alpha": [[0.2, 0.8, 0], [0, 0, 1]]}
    figure = alignment._draw_alignments(
        {"bahdanau": a, "transformer": other, "gpt": other}, "about"
    )
    *maps, scale = figure.axes
    assert len({round(ax.get_position().y0, 6) for ax in maps}) == 1
    assert all(one.get_position().x1 < two.get_position().x0 for one, two in pairwise(maps))
    assert scale.get_ylim() == (0, 1)
    assert maps[0].collections[0].norm.vmax == 1
    assert np.allclose(maps[0].collections[0].get_array(), a["alpha"])
    assert [t.get_text() for t in maps[0].get_xticklabels()] == ["a", "·b", "c"]
    assert [t.get_text() for t in maps[0].get_yticklabels()] == ["d", "·e"]
    assert [square.get_xy() for square in maps[0].patches] == [(0.06, 0.06), (2.06, 1.06)]
    title, _, caption = (" ".join(text.get_text().split()) for text in figure.texts[:3])
    assert title == (
        "Strongest weight on a gold link, of 2 target words: Bahdanau 1, Transformer 1, GPT 1"
    )
    assert "A dot (·): goes on with the word before." in caption
    assert "GPT's to less" in caption
    assert "GPT's" not in alignment._draw_alignments({"bahdanau": a}, "").texts[2].get_text()


STRANGE = ["你好", "नमस्ते", "שלום", "مرحبا", "e\N{COMBINING ACUTE ACCENT}", "\u202eabc", "ไทย"]


@pytest.mark.parametrize("is_installed", [True, False])
def test_any_script_is_drawn_and_what_lacks_a_font_is_named_once(
    is_installed: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Keeps out dozens of warnings about glyphs, and boxes that nobody explains."""
    manager = fonts.font_manager
    if not is_installed:
        known = [f for f in manager.fontManager.ttflist if "DejaVu" in f.name]
        monkeypatch.setattr(manager.fontManager, "ttflist", known)
        monkeypatch.setattr(manager, "findSystemFonts", lambda: [])
    fonts.families.cache_clear()
    fonts.NOTED.clear()
    alpha = np.eye(len(STRANGE)).tolist()
    a = {"src": STRANGE, "tgt": STRANGE, "alpha": alpha}
    for kind in ("png", "svg"):
        alignment.draw_alignment({"bahdanau": a, "gpt": a}, tmp_path / f"a.{kind}")
    fonts.families.cache_clear()
    assert "你好" in (tmp_path / "a.svg").read_text(encoding="utf-8")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") <= 1
    if not is_installed:
        assert err.startswith("note: no font here has ")
        assert "fonts-noto" in err
        assert "Cjk" in err


def test_a_font_that_has_the_script_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out boxes on a machine that has a font for them, installed a minute ago, too."""
    manager = fonts.font_manager
    entry = next(f for f in manager.fontManager.ttflist if f.name == "DejaVu Sans")
    noto = dataclasses.replace(entry, name="Noto Sans Tested", fname="/tested.ttf")
    monkeypatch.setattr(manager.fontManager, "ttflist", [entry])
    monkeypatch.setattr(manager, "findSystemFonts", lambda: ["/tested.ttf"])
    monkeypatch.setattr(
        manager.fontManager, "addfont", lambda path: manager.fontManager.ttflist.append(noto)
    )
    has = fonts._characters
    monkeypatch.setattr(
        fonts, "_characters", lambda path: {ord("你")} if path == "/tested.ttf" else has(path)
    )
    fonts.families.cache_clear()
    assert fonts.families(frozenset("你好")) == (("Noto Sans Tested",), frozenset("好"))
    fonts.families.cache_clear()
    assert fonts.lacking("abc ä → − \n") == set()


def test_a_baseline_is_drawn_and_printed(tmp_path: Path) -> None:
    """Keeps out a look-up that seems to be learned, where it is what anyone gets without it."""
    made = several(1, "recall")[:2]
    for r in made:
        test = r["tests"][0]
        test["baseline"] = "knows the values"
        for i, part in enumerate((*test["bins"], test["overall"])):
            part["baseline"] = {"value": 50.5 - i, "low": None, "high": None}
    records = reading.load_records(write(tmp_path, made))
    test = records[0]["tests"][0]
    expected = [50.5 - i for i in range(len(test["bins"]))]
    assert row(tables.by_length_table(records), "(knows")[1:] == [f"{x:.1f}" for x in expected]
    left, right, *_ = scores.draw_scores(records, test).axes
    drawn = [list(line.get_ydata()) for line in left.lines if line.get_linestyle() == ":"]
    assert drawn == [expected]
    assert "dotted: knows the values" in [t.get_text() for t in left.texts]
    assert not [line for line in right.lines if line.get_linestyle() == ":"]
