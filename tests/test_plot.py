"""Records -> figures and tables."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqmodels import plot

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
    plot.plot_folder(folder)
    return folder


def test_the_folder_holds_every_figure_twice_and_the_tables(drawn: Path) -> None:
    """A figure that is missing from the folder, or a half-written file that stays in it."""
    figures = {"score-length", "curves", "state", "alignment"}
    expected = {f"{name}.{kind}" for name in figures for kind in ("svg", "png")} | {"tables.md"}
    assert {p.name for p in drawn.iterdir() if p.suffix != ".json"} == expected


def test_figures_made_again_are_the_same_bytes(drawn: Path, tmp_path: Path) -> None:
    """A date or a random id in a figure, so that every remake shows up as a change."""
    again = plot.plot_folder(drawn, tmp_path / "out")
    assert again
    for path in again:
        assert path.read_bytes() == (drawn / path.name).read_bytes(), path.name


def test_drawing_leaves_the_callers_settings_alone(tmp_path: Path) -> None:
    """A style that leaks into other figures of the same program."""
    import matplotlib

    before = dict(matplotlib.rcParams)
    plot.draw_alignment({"gpt": {"src": ["a"], "tgt": ["b"], "alpha": [[1.0]]}}, tmp_path / "a.svg")
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("task", ["recall", "next_token"])
def test_every_test_set_of_every_task_gets_a_figure(task: str, tmp_path: Path) -> None:
    """A metric or an axis of one task that the others never draw."""
    folder = write(tmp_path, several(1, task)[:2])
    paths = plot.plot_folder(folder)
    names = [t["name"] for t in fake_tests("gpt", task)]
    assert {f"score-{n}.svg" for n in names} <= {p.name for p in paths}
    assert all(f"### {n}:" in (folder / "tables.md").read_text(encoding="utf-8") for n in names)


def test_one_seed_in_the_tables_is_the_record(tmp_path: Path) -> None:
    """A number in a table that comes from another bin, metric or model."""
    records = plot.load_records(write(tmp_path, several(1)))
    r = next(r for r in records if r["model"] == "lstm_seq2seq")
    test = r["tests"][0]

    def shown(part: dict[str, Any], metric: str = "bleu", digits: int = 1) -> str:
        value, low, high = (f"{part[metric][k]:.{digits}f}" for k in ("value", "low", "high"))
        return f"{value} [{low}, {high}]"

    bins = test["bins"]
    assert row(plot.table(records), "LSTM") == [
        "LSTM seq2seq", "1", "1.00 M", shown(test["overall"]), shown(bins[0]),
        shown(bins[3]), shown(bins[7]) + "*", shown(test["overall"], "nats", 3),
        shown(test["overall"], "bits_per_byte", 3), "8,000", "121",
    ]  # fmt: skip
    by_length = plot.by_length_table(records)
    stars = [""] * 7 + ["*"]
    assert row(by_length, "LSTM")[1:] == [shown(b) + s for b, s in zip(bins, stars, strict=True)]
    assert row(by_length, "n ")[1:] == [f"{b['n']:,}" for b in bins]
    assert "nrefs:1|case:mixed|tok:13a" in plot.table(records)


def test_several_seeds_are_averaged_and_their_spread_told(tmp_path: Path) -> None:
    """The first seed, or a sum, passed off as the mean of all."""
    records = plot.load_records(write(tmp_path, several(3)))
    seeds = [r["tests"][0]["overall"]["bleu"] for r in records if r["model"] == "gpt"]
    value, low, high = (np.mean([s[k] for s in seeds]) for k in ("value", "low", "high"))
    half = np.ptp([s["value"] for s in seeds]) / 2
    cells = row(plot.table(records), "GPT ")
    assert cells[1] == "3"
    assert cells[3] == f"{value:.1f} ± {half:.1f} [{low:.1f}, {high:.1f}]"


def test_the_columns_of_a_table_are_padded(tmp_path: Path) -> None:
    """Tables that only a browser can read."""
    records = plot.load_records(write(tmp_path, several(1)))
    lines = [line for line in plot.table(records).splitlines() if line.startswith("| ")]
    assert len(lines) == 7
    assert len(set(map(len, lines))) == 1


@pytest.mark.parametrize(("n_seeds", "words"), [(1, "one seed"), (3, "3 seeds")])
def test_the_number_of_seeds_is_said(n_seeds: int, words: str, tmp_path: Path) -> None:
    """One lucky seed that reads like a result of many."""
    records = plot.load_records(write(tmp_path, several(n_seeds)))
    figure = plot._draw_scores(records, records[0]["tests"][0])
    head, caption = figure.texts[1].get_text(), figure.texts[2].get_text()
    assert head.endswith(words)
    assert ("whisker" in caption) == (n_seeds > 1)


def test_models_stand_in_order_of_history_and_a_sixth_comes_last(tmp_path: Path) -> None:
    """Somebody's own model that is dropped, or that borrows a colour of the five."""
    folder = write(tmp_path, [fake_record("a_sixth", 1), *several(1)])
    records = plot.load_records(folder)
    assert [r["model"] for r in records] == [*MODELS, "a_sixth"]
    assert row(plot.table(records), "a_sixth")[2] == "1.03 M"
    looks = plot._looks([r["model"] for r in records])
    assert list(looks) == [*MODELS, "a_sixth"]
    assert len({look.colour for look in looks.values()}) == 6
    figure = plot._draw_scores(records, records[0]["tests"][0])
    assert "a_sixth · 1.03 M" in [t.get_text() for t in figure.legends[0].get_texts()]
    plot.plot_folder(folder)


def test_a_metric_that_is_missing_leaves_a_gap(tmp_path: Path) -> None:
    """A crash, or a zero drawn, where a model was not scored."""
    records = several(2)
    for r in records:
        for part in r["tests"][0]["bins"]:
            del part["nats"]
    gpt = [r for r in records if r["model"] == "gpt"]
    gpt[1]["tests"][0]["bins"][0]["bleu"]["value"] = None
    folder = write(tmp_path, records)
    plot.plot_folder(folder)
    records = plot.load_records(folder)
    assert row(plot.by_length_table(records), "GPT ")[1] == "–"
    figure = plot._draw_scores(records, records[0]["tests"][0])
    assert "not recorded" in [t.get_text() for t in figure.axes[1].texts]


def test_thin_bins_are_drawn_hollow(tmp_path: Path) -> None:
    """Seventeen sentences that look as sure as a thousand."""
    records = plot.load_records(write(tmp_path, several(1)))
    axes = plot._draw_scores(records, records[0]["tests"][0]).axes
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
    records = plot.load_records(write(tmp_path, several(1, task)))
    axes = plot._draw_scores(records, records[0]["tests"][-1]).axes
    assert words in [ax.get_title("left") for ax in axes]


@pytest.mark.parametrize(("beam", "words"), [(1, "greedy"), (5, "beam 5")])
def test_a_score_says_how_targets_were_searched_for(beam: int, words: str, tmp_path: Path) -> None:
    """Keeps out a beam's BLEU beside a greedy one as if they were the same."""
    made = several(1)
    for test in (test for r in made for test in r["tests"]):
        test["beam"] = beam
    folder = write(tmp_path, made)
    records = plot.load_records(folder)
    titles = [
        ax.get_title("left") for ax in plot._draw_scores(records, records[0]["tests"][0]).axes
    ]
    assert f"BLEU, free-running, {words}" in titles
    assert f"### length: by source length (words), {words}\n" in plot.table(records)


@pytest.mark.parametrize(("share", "top"), [(1.0, 100), (0.3, 35)])
def test_the_axis_of_bleu_fits_real_text(share: float, top: float, tmp_path: Path) -> None:
    """Keeps out curves pressed to the floor, and an axis of the grammar that is cut short."""
    made = several(1)
    for part in (part for r in made for test in r["tests"] for part in test["bins"]):
        part["bleu"] = {key: share * value for key, value in part["bleu"].items()}
    records = plot.load_records(write(tmp_path, made))
    bleu = plot._draw_scores(records, records[0]["tests"][0]).axes[0]
    assert bleu.get_ylim() == (0, 100) if top == 100 else bleu.get_ylim()[1] < top


def test_labels_at_line_ends_do_not_overlap(tmp_path: Path) -> None:
    """Five names on top of each other where the lines meet, on log axes too."""
    records = plot.load_records(write(tmp_path, several(1)))
    scores, state = plot._draw_scores(records, records[0]["tests"][0]), plot._draw_state(records)
    for figure, ax in ((scores, scores.axes[0]), (scores, scores.axes[1]), (state, state.axes[0])):
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
        plot.load_records(folder)
    assert str(error.value).endswith(f" {path}")


def test_only_records_are_read_and_an_empty_folder_is_told(tmp_path: Path) -> None:
    """Other JSON files drawn as records, or an empty figure for an empty folder."""
    (tmp_path / "other.json").write_text('{"schema": "something else"}')
    (tmp_path / "list.json").write_text("[1, 2]")
    with pytest.raises(ValueError, match="holds no record"):
        plot.load_records(tmp_path)
    write(tmp_path, several(1))
    assert len(plot.load_records(tmp_path)) == 5
    (tmp_path / "torn.json").write_text('{"schema": "seqmod')
    with pytest.raises(ValueError, match=r"torn\.json is not JSON"):
        plot.load_records(tmp_path)


def test_a_record_of_another_version_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out a record that is dropped in silence: which file, and why; alone it is an error."""
    newer = fake_record("gpt", 1) | {"schema": "seqmodels.record/9"}
    folder = write(tmp_path / "made", [newer])
    why = r"gpt-seed1\.json has the schema 'seqmodels\.record/9'; this version reads "
    for draw in (plot.plot_folder, plot.load_records):
        with pytest.raises(ValueError, match=rf"holds no record that can be drawn \(.*{why}"):
            draw(folder)
    with pytest.raises(ValueError, match=why):
        plot.plot_results(tmp_path)
    write(folder, [fake_record("bahdanau", 1)])
    (folder / "made.json").write_text('{"n": 3}')
    plot.plot_folder(folder)
    told = capsys.readouterr().err
    assert re.fullmatch(rf"not drawn: .*{why}seqmodels\.record/1 and seqmodels\.record/2\n", told)


def test_version_1_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keeps out committed records that can no longer be drawn, and [nan, nan] in their tables."""
    records = [fake_record("gpt", 1, "next_token") | {"schema": "seqmodels.record/1"}]
    for field in ("weights_sha256", "intervals", "continued"):
        del records[0][field]
    plot.plot_folder(write(tmp_path, records))
    tables = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert "nan" not in tables
    assert " [–] |" in tables
    assert capsys.readouterr().err == ""


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    """Two tasks, two runs or two sets of sentences blended into one line."""
    other = fake_record("gpt", 1, "recall")
    with pytest.raises(ValueError, match="mixes the tasks"):
        plot.load_records(write(tmp_path / "a", [fake_record("bahdanau", 1), other]))
    folder = write(tmp_path / "b", [fake_record("gpt", 1)])
    (folder / "copy.json").write_text((folder / "gpt-seed1.json").read_text(encoding="utf-8"))
    with pytest.raises(ValueError, match="second record of gpt, seed 1"):
        plot.load_records(folder)
    records = several(1)
    records[3]["tests"][0]["bins"][1]["n"] += 1
    with pytest.raises(ValueError, match="transformer, seed 1: test 'length'"):
        plot.table(records)


def test_alignments_stand_alone(tmp_path: Path) -> None:
    """Words read as formulas, or a map whose rows and columns are swapped."""
    a = {"src": ["$5", "and", "$6"], "tgt": ["5", "$"], "alpha": [[1, 0, 0], [0, 0.5, 0.5]]}
    for kind in ("svg", "png"):
        path = plot.draw_alignment(
            {"bahdanau": a | {"gold": [[0, 0], [2, 1]]}}, tmp_path / f"a.{kind}"
        )
        assert path.stat().st_size > 1000
    with pytest.raises(ValueError, match=r"gpt: alpha is \(2, 3\)"):
        plot.draw_alignment({"gpt": a | {"src": a["tgt"], "tgt": a["src"]}}, tmp_path / "b.svg")
    with pytest.raises(ValueError, match="no model here attends"):
        plot.draw_alignment({}, tmp_path / "b.svg")
    with pytest.raises(ValueError, match=r"written as \.svg or \.png"):
        plot.draw_alignment({"gpt": a}, tmp_path / "b.pdf")


def test_plotting_needs_neither_torch_nor_pyplot() -> None:
    """A plot of stored records that waits for torch, or that touches pyplot's global state."""
    spec = importlib.util.find_spec("seqmodels.plot")
    assert spec is not None
    code = (
        "import runpy, sys; runpy.run_path(sys.argv[1]); "
        "print([m for m in ('torch', 'matplotlib.pyplot') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code, str(spec.origin)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
