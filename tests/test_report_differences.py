"""The matrix of differences, and their table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fake_records import fake_record, row
from matplotlib.collections import PathCollection, QuadMesh
from matplotlib.colors import same_color
from matplotlib.figure import Figure

from seqmodels.records.significance import SCHEMA, Comparison, Difference, Pair, Significance
from seqmodels.report import drawing, style, tables

MODELS = ("rnn_encdec", "bahdanau", "gpt")


def compared(metric: str = "bleu") -> tuple[list[dict[str, Any]], Comparison]:
    """Make records and differences: Bahdanau is above Cho, GPT is not clearly below Bahdanau.

    GPT is above Cho in the second of two buckets alone.
    """
    records = [fake_record(model, seed) for model in MODELS for seed in (1, 2, 3)]
    for record in records:
        record["tests"][0]["primary_metric"] = metric
        record["tests"][0]["buckets"] = record["tests"][0]["buckets"][:2]
    values = {
        ("bahdanau", "rnn_encdec"): [(30.0, 0.0001), (20.0, 0.04), (40.0, 0.01)],
        ("gpt", "rnn_encdec"): [(25.0, 0.06), (24.0, 0.2), (26.0, 0.02)],
        ("gpt", "bahdanau"): [(-5.0, 1.0), (4.0, 0.8), (-14.0, 0.03)],
    }
    pairs = []
    for (model, other), parts in values.items():
        overall, *buckets = (
            Difference(value=x, low=x - 2, high=x + 2, p=0.01, p_holm=p) for x, p in parts
        )
        pairs.append(
            Pair(row=model, column=other, n_seeds=[3, 3], overall=overall, buckets=buckets)
        )
    return records, Comparison(
        test="length", metric=metric, n_corrected=9, buckets=[[1, 10], [11, 20]], pairs=pairs
    )


def draw(records: list[dict[str, Any]], comparison: Comparison) -> Figure:
    """Draw the differences."""
    with style.context():
        return drawing.draw_differences(records, records[0]["tests"][0], comparison)


def cells(figure: Figure) -> dict[tuple[str, str], tuple[list[str], list[Any]]]:
    """Return (row, column) -> the texts and the fills of a cell: its own, then its squares'."""
    (ax,) = figure.axes
    (mesh,) = (each for each in ax.collections if isinstance(each, QuadMesh))
    values = mesh.get_array().reshape(len(MODELS), len(MODELS))
    squares = [each for each in ax.collections if isinstance(each, PathCollection)]
    contents = {}
    for i, model in enumerate(MODELS):
        for j, other in enumerate(MODELS):
            texts = [
                text.get_text() for text in ax.texts
                if j < text.get_position()[0] < j + 1 and i < text.get_position()[1] < i + 1
            ]  # fmt: skip
            fills = [] if np.ma.is_masked(values[i, j]) else [mesh.to_rgba(values[i, j])]
            for each in squares:
                (x, y), *_ = each.get_offsets()
                if j < x < j + 1 and i < y < i + 1:
                    fills += list(each.get_facecolors())
            contents[model, other] = texts, fills
    return contents


BLUE, ORANGE = ("#A9D3EE", "#1B75BC"), ("#F6C9A0", "#E8741C")


@pytest.mark.parametrize(
    ("metric", "better", "worse"), [("bleu", BLUE, ORANGE), ("nats", ORANGE, BLUE)]
)
def test_a_cell_is_row_minus_column(metric: str, better: Any, worse: Any) -> None:
    """Keeps out a matrix that is turned round, and a loss of which more is called better."""
    contents = cells(draw(*compared(metric)))
    assert all(contents[model, model] == ([], []) for model in MODELS)
    digits = ".1f" if metric == "bleu" else ".3f"
    above, below = contents["bahdanau", "rnn_encdec"], contents["rnn_encdec", "bahdanau"]
    assert above[0] == [f"{30:+{digits}}", f"[{28:+{digits}}, {32:+{digits}}]"]
    assert below[0] == [f"−{30:{digits}}", f"[−{32:{digits}}, −{28:{digits}}]"]
    fills = {
        ("bahdanau", "rnn_encdec"): [better[0], better[1], better[1]],
        ("rnn_encdec", "bahdanau"): [worse[0], worse[1], worse[1]],
        ("gpt", "rnn_encdec"): ["white", "white", better[1]],
        ("gpt", "bahdanau"): ["white", "white", worse[1]],
        ("bahdanau", "gpt"): ["white", "white", better[1]],
    }
    for pair, expected in fills.items():
        assert all(map(same_color, contents[pair][1], expected)), pair
        assert len(contents[pair][1]) == 3


def test_the_table_marks_each_bucket() -> None:
    """Keeps out marks of other buckets, and p-values before the correction."""
    records, comparison = compared()
    significance = Significance(schema=SCHEMA, records={}, comparisons=[comparison])
    text = tables.format_differences(records[0]["tests"][0], significance)
    assert text.startswith("### length: differences in BLEU\n")
    assert row(text, "row")[3:] == ["p", "1–10", "11–20"]
    assert row(text, "Bahdanau − RNN")[1:] == [
        "3", "**+30.0** [+28.0, +32.0]", "< 0.001", "**+20.0**", "**+40.0**"
    ]  # fmt: skip
    assert row(text, "GPT − RNN")[1:] == [
        "3", "+25.0 [+23.0, +27.0]", "0.060", "+24.0", "**+26.0**"
    ]  # fmt: skip


def test_few_examples_have_no_interval() -> None:
    """Keeps out a traceback where a difference has no interval, and a sign of nothing."""
    records, comparison = compared()
    none = Difference(value=-0.01, low=None, high=None, p=None, p_holm=None)
    comparison.pairs[0] = comparison.pairs[0].model_copy(update={"overall": none})
    assert cells(draw(records, comparison))["bahdanau", "rnn_encdec"][0] == ["±0.0", "[–]"]
