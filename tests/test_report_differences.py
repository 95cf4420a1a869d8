"""The matrix of differences, and their table."""

import itertools
from typing import Any

import numpy as np
import pytest
from fake_records import fake_record, row
from matplotlib.collections import PathCollection, QuadMesh
from matplotlib.colors import same_color

from seqmodels.records.significance import SCHEMA, Comparison, Difference, Pair, Significance
from seqmodels.report import drawing, style, tables

MODELS = ("rnn_encdec", "bahdanau", "gpt")


def compared(metric: str = "bleu") -> tuple[list[dict[str, Any]], Comparison]:
    """Make records; Bahdanau is above Cho; GPT is above Cho, below Bahdanau in one bucket alone."""
    records = [fake_record(model, seed) for model in MODELS for seed in (1, 2, 3)]
    for record in records:
        (test,) = record["tests"]
        test |= {"primary_metric": metric, "buckets": test["buckets"][:2]}
    values = {
        ("bahdanau", "rnn_encdec"): [(30.0, 0.0001), (20.0, 0.04), (40.0, 0.01)],
        ("gpt", "rnn_encdec"): [(25.0, 0.06), (24.0, 0.2), (26.0, 0.02)],
        ("gpt", "bahdanau"): [(-5.0, 1.0), (4.0, 0.8), (-14.0, 0.03)],
    }
    pairs = []
    for (model, other), parts in values.items():
        found = [Difference(value=x, low=x - 2, high=x + 2, p=p) for x, p in parts]
        about = {"row": model, "column": other, "n_seeds": [3, 3], "is_tested": True}
        pairs.append(Pair(**about, overall=found[0], buckets=found[1:]))
    about = {"test": "length", "metric": metric, "n_tested": 9}
    return records, Comparison(**about, buckets=[[1, 10], [11, 20]], pairs=pairs)


def cells(
    records: list[dict[str, Any]], comparison: Comparison
) -> dict[tuple[str, str], tuple[list[str], list[Any]]]:
    """Draw; return (row, column) -> texts and fills of a cell: its own, then its squares'."""
    with style.context():
        (ax,) = drawing.draw_differences(records, records[0]["tests"][0], comparison).axes
    (mesh,) = (each for each in ax.collections if isinstance(each, QuadMesh))
    values = mesh.get_array().reshape(len(MODELS), len(MODELS))
    squares = [each for each in ax.collections if isinstance(each, PathCollection)]
    contents = {}
    for (i, model), (j, other) in itertools.product(enumerate(MODELS), repeat=2):
        texts = [t.get_text() for t in ax.texts if [*map(int, t.get_position())] == [j, i]]
        fills = [] if np.ma.is_masked(values[i, j]) else [mesh.to_rgba(values[i, j])]
        for each in squares:
            if [*each.get_offsets()[0].astype(int)] == [j, i]:
                fills += list(each.get_facecolors())
        contents[model, other] = texts, fills
    return contents


BLUE, ORANGE = ("#A9D3EE", "#1B75BC"), ("#F6C9A0", "#E8741C")


@pytest.mark.parametrize(
    ("metric", "better", "worse"), [("bleu", BLUE, ORANGE), ("nats", ORANGE, BLUE)]
)
def test_a_cell_is_row_minus_column(metric: str, better: Any, worse: Any) -> None:
    """Keeps out a matrix that is turned round, and a loss of which more is called better."""
    contents = cells(*compared(metric))
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
    far, near = ["**+30.0** [+28.0, +32.0]", "< 0.001"], ["+25.0 [+23.0, +27.0]", "0.060"]
    assert row(text, "Bahdanau − RNN")[1:] == ["3", *far, "**+20.0**", "**+40.0**"]
    assert row(text, "GPT − RNN")[1:] == ["3", *near, "+24.0", "**+26.0**"]


def test_few_examples_have_no_interval() -> None:
    """Keeps out a traceback where a difference has no interval, and a sign of nothing."""
    records, comparison = compared()
    none = Difference(value=-0.01, low=None, high=None, p=None)
    comparison.pairs[0] = comparison.pairs[0].model_copy(update={"overall": none})
    assert cells(records, comparison)["bahdanau", "rnn_encdec"][0] == ["±0.0", "[–]"]
