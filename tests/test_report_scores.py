"""Scores against the bins of a test set, read back from the figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_records import MODELS, drawn_scores, row, scored, several, write
from matplotlib.colors import to_rgba

from seqmodels.evaluation.metrics import METRICS
from seqmodels.report import drawing, figures, reading, style, tables


def test_a_metric_that_the_table_lacks_is_called_by_its_key() -> None:
    """Keeps out a panel without a title for the records of somebody's own metric."""
    figure = drawn_scores(scored({"gpt": (3, 2, 1)}, primary_metric="rouge"))
    assert figure.texts[0].get_text().startswith("Rouge by source length")
    assert figure.axes[0].get_title("left").startswith("rouge")


def test_a_metric_that_is_missing_leaves_a_gap(tmp_path: Path) -> None:
    """A crash, or a zero drawn, where a model was not scored."""
    records = several(2)
    for r in records:
        for part in r["tests"][0]["buckets"]:
            del part["nats"]
    gpt = [r for r in records if r["model"] == "gpt"]
    gpt[1]["tests"][0]["buckets"][0]["bleu"]["value"] = None
    folder = write(tmp_path, records)
    figures.plot_folder(folder)
    records = reading.load_records(folder)
    assert row(tables.tables(records), "GPT ")[2] == "–"
    figure = drawing.draw_scores(records, records[0]["tests"][0])
    assert "not recorded" in [t.get_text() for t in figure.axes[1].texts]


def test_thin_bins_are_drawn_hollow(tmp_path: Path) -> None:
    """Seventeen sentences that look as sure as a thousand."""
    records = reading.load_records(write(tmp_path, several(1)))
    axes = drawing.draw_scores(records, records[0]["tests"][0]).axes
    hollow = [line for line in axes[0].lines if line.get_markerfacecolor() == "white"]
    assert [list(np.round(line.get_xdata())) for line in hollow] == [[7]] * 5
    fills = [bar.get_facecolor()[:3] == (1, 1, 1) for bar in axes[2].containers[0]]
    assert fills[-8:] == [False] * 7 + [True]


def test_areas_lie_over_their_buckets(tmp_path: Path) -> None:
    """Keeps out a page that leads from one bucket to the sentences of another."""
    records = reading.load_records(write(tmp_path, several(1)))
    test = records[0]["tests"][0]
    axes, seen = drawing.draw_scores(records, test).axes, set()
    for ax in axes:
        for area in (patch for patch in ax.patches if patch.get_gid()):
            number = int(area.get_gid().removeprefix("bucket-").rstrip("bcd"))
            assert area.get_bbox().intervalx.tolist() == [number - 0.5, number + 0.5]
            seen.add(area.get_gid())
    assert len(seen) == 4 * len(test["buckets"])


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("translation", "BLEU, free-running, greedy"),
        ("recall", "symbol accuracy (%), free-running, greedy"),
        ("next_token", "exact match (%), teacher-forced"),
    ],
)
def test_a_score_says_whether_the_model_ran_freely(task: str, words: str, tmp_path: Path) -> None:
    """Keeps out an exact score, taken with the true words before it, sold as free search."""
    records = reading.load_records(write(tmp_path, several(1, task)))
    axes = drawing.draw_scores(records, records[0]["tests"][-1]).axes
    assert words in [ax.get_title("left") for ax in axes]


@pytest.mark.parametrize(("share", "top"), [(1.0, 100), (0.3, 35)])
def test_the_axis_of_bleu_fits_real_text(share: float, top: float, tmp_path: Path) -> None:
    """Keeps out curves pressed to the floor, and an axis of the grammar that is cut short."""
    made = several(1)
    for part in (part for r in made for test in r["tests"] for part in test["buckets"]):
        part["bleu"] = {key: share * value for key, value in part["bleu"].items()}
    records = reading.load_records(write(tmp_path, made))
    bleu = drawing.draw_scores(records, records[0]["tests"][0]).axes[0]
    assert bleu.get_ylim() == (0, 100) if top == 100 else bleu.get_ylim()[1] < top


@pytest.mark.parametrize("column", [0, 1])
def test_lines_bands_whiskers_and_bars_are_the_records(column: int, tmp_path: Path) -> None:
    """Keeps out the first seed drawn as the mean, another model's band, and bars of other bins."""
    records = reading.load_records(write(tmp_path, several(3)))
    metric = ("bleu", "nats")[column]
    figure = drawn_scores(records)
    ax, strip = figure.axes[column], figure.axes[2 + column]
    bins = records[0]["tests"][0]["buckets"]
    assert [bar.get_height() for bar in strip.patches if bar.get_height() > 1] == [
        b["n"] for b in bins
    ]
    assert [t.get_text() for t in strip.get_xticklabels()] == ["1–10", *(
        f"{b['low']}–{b['high']}" for b in bins[1:]
    )]  # fmt: skip
    for i, model in enumerate(MODELS):
        group = [r["tests"][0]["buckets"] for r in records if r["model"] == model]
        cells = np.array(
            [[[b[metric][k] for k in ("value", "low", "high")] for b in seed] for seed in group]
        )
        mean = cells.mean(axis=0)
        colour = style.looks([model])[model].colour
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


def test_too_few_examples_have_no_interval() -> None:
    """Keeps out a band over nine sentences, drawn or in a table, between two bins of a hundred."""
    records = scored({"gpt": (30, 20, 25)}, counts=(100, 9, 100))
    ax = drawn_scores(records).axes[0]
    xs = {round(float(x)) for path in ax.collections[0].get_paths() for x in path.vertices[:, 0]}
    assert 1 not in xs
    assert len(ax.lines[0].get_xdata()) == 3
    assert row(tables.tables(records), "GPT")[2:-1] == [
        "30.0 [29.0, 31.0]", "20.0 [–]", "25.0 [24.0, 26.0]"
    ]  # fmt: skip


@pytest.mark.parametrize("metric", [k for k, m in METRICS.items() if m.better])
def test_the_better_direction_is_said(metric: str) -> None:
    """Keeps out a loss captioned as higher is better."""
    ax = drawn_scores(scored({"gpt": (3, 2, 1)}, primary_metric=metric)).axes[0]
    is_loss = metric in ("nats", "bits_per_byte", "perplexity", "aer")
    words = "lower is better ↓" if is_loss else "higher is better ↑"
    assert words in [t.get_text() for t in ax.texts]


def test_a_caption_counts_thin_bins_and_says_what_is_drawn() -> None:
    """Keeps out a caption of another figure: thin bins where there are none, seeds of one seed."""
    values = {"bahdanau": (30, 20, 25)}

    def caption(*records: dict[str, Any]) -> str:
        return str(drawn_scores(list(records)).get_label())

    one = caption(*scored(values, counts=(100, 12, 2)))
    assert "Hollow: fewer than 30" in one
    assert one.startswith("One seed; band: 95 % interval (bootstrap) over sentences. ")
    assert "Dashed" not in one
    two = scored(values)[0], scored(values)[0] | {"seed": 2}
    assert caption(*two).startswith(
        "Line: mean of the seeds; whisker: lowest to highest seed; band: 95 % interval "
        "(bootstrap) over sentences, its ends averaged over the seeds."
    )
    assert "Hollow" not in caption(*two)
    both = caption(*scored(values | {"rnn_encdec": (3, 2, 1)}))
    assert both.endswith("Dashed: source in one vector. Solid: attends to every word.")


def test_a_context_is_drawn_and_titled_as_what_it_saves() -> None:
    """Keeps out lines that differ by 0.05 on an axis of 2.5, and a gain turned round."""
    none = {0: {"low": 0, "high": 0, "token_accuracy": {"value": 10, "low": 9, "high": 11}}}
    more = {i: {"token_accuracy": {"value": 10 + i, "low": 9, "high": 11}} for i in (1, 2)}
    values = {"rnn_encdec": (2.0, 1.9, 1.8), "gpt": (2.5, 2.2, 1.9)}
    records = scored(
        values,
        primary_metric="bits_per_byte",
        half=0.01,
        axis="length (tokens)",
        kind="context",
        buckets=none | more,
    )
    figure = drawn_scores(records)
    saved, gained = figure.axes[:2]
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
        "RNN encoder–decoder (2014)\n0.98 M · 2.00", "GPT (2019)\n1.02 M · 2.50"
    ]  # fmt: skip


def test_lengths_beyond_training_are_shaded(tmp_path: Path) -> None:
    """Keeps out a shade that begins a bin late, or a bin early."""
    records = reading.load_records(write(tmp_path, several(1)))
    assert records[0]["tests"][0]["max_train_length"] == 40
    figure = drawn_scores(records)
    for ax in figure.axes:
        shades = [p.get_extents().transformed(ax.transData.inverted()) for p in ax.patches
                  if p.get_facecolor() == to_rgba("#F5F2EA")]  # fmt: skip
        assert [(round(s.x0, 2), round(s.x1, 2)) for s in shades] == [(3.5, 7.5)]


def test_a_baseline_is_drawn_and_printed(tmp_path: Path) -> None:
    """Keeps out a look-up that seems to be learned, where it is what anyone gets without it."""
    made = several(1, "recall")[:2]
    for r in made:
        test = r["tests"][0]
        test["baseline"] = "knows the values"
        for i, part in enumerate((*test["buckets"], test["overall"])):
            part["baseline"] = {"value": 50.5 - i, "low": None, "high": None}
    records = reading.load_records(write(tmp_path, made))
    test = records[0]["tests"][0]
    expected = [50.5 - i for i in range(len(test["buckets"]))]
    assert row(tables.tables(records), "(knows")[2:] == [f"{x:.1f}" for x in expected]
    figure = drawing.draw_scores(records, test)
    left, right, *_ = figure.axes
    drawn = [list(line.get_ydata()) for line in left.lines if line.get_linestyle() == ":"]
    assert drawn == [expected]
    assert figure.get_label().endswith(" Dotted: knows the values.")
    assert not [line for line in right.lines if line.get_linestyle() == ":"]
