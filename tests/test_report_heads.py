"""The figures of heads of attention, read back."""

from __future__ import annotations

from typing import Any

import pytest
from fake_records import fake_record
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from tasks.heads import figure as heads

SELF = {"previous": 0.1, "own": 0.2, "next": 0.3}
N_HEADS = 2


def named(kind: str, head: int) -> dict[str, Any]:
    """Name a head of the only layer."""
    return {"attention": kind, "layer": 1, "head": head}


def record(seed: int, pruned: list[float], aer: tuple[float, float]) -> dict[str, Any]:
    """Make a record with these nats after each removal, and these rates of the best head."""
    made = fake_record("transformer", seed)
    made["alignment"] = {"src": ["a", "b", "<eos>"], "tgt": ["x", "y"],
                         "alpha": [[1, 0, 0], [0, 1, 0]], "gold": [[1, 0], [0, 1]]}  # fmt: skip
    described, maps, removed = [], [], [{"removed": 0, "nats": 1.0, "accuracy": 50.0}]
    for kind in heads.KINDS:
        for head in (0, 1, 2):
            row = named(kind, head) | {"entropy": 1.0 + head}
            row |= (
                {"aer_read": 80.0, "aer_written": 70.0 if head else 5.0}
                if kind == "source"
                else SELF
            )
            described.append(row)
            removed.append(named(kind, head) | {"removed": 1, "nats": 1.5 + head})
            maps += [named(kind, head) | {"query": n, "weights": "10 20 70"}
                     for n in range(3) if head]  # fmt: skip
    described[-1] |= {"aer_read": aer[0], "aer_written": aer[1]}
    order = [named(kind, head) for head in (1, 2) for kind in heads.KINDS]
    steps = zip(order, pruned, strict=True)
    pruning = [{"removed": i} | row | {"nats": n} for i, (row, n) in enumerate(steps, 1)]
    made["analyses"] = {
        "heads": described, "maps": maps, "ablation": removed,
        "pruning": [{"removed": 0, "nats": 1.0}, *pruning],
        "parameters": [{"part": "attention", "n": 1}, {"part": "embeddings", "n": 3}],
    }  # fmt: skip
    return made


ONE = record(1, [0.99, 1.04, 1.06, 1.01, 2, 3], (30.0, 12.34))
TWO = record(2, [1.2, 1.3, 1.4, 1.5, 2, 3], (40.0, 20.0))


def test_every_head_of_every_seed_is_drawn() -> None:
    """Keeps out a seed on top of another, and the loss of the whole model in a head's cost."""
    entropy, rates, costs, _ = heads.draw_heads([ONE, TWO]).axes
    for ax, n_places in ((entropy, 3), (rates, 2), (costs, 3)):
        dots = [line for line in ax.lines if line.get_marker() != "None"]
        assert len(dots) == 2 * n_places * N_HEADS
        assert len(ax.lines) - len(dots) == 2 * n_places
        assert len({line.get_xdata()[0] for line in dots}) == 2 * n_places
    first = [line for line in costs.lines if line.get_marker() == heads.KINDS["encoder"].marker]
    assert {line.get_ydata()[0] for line in first} == {1.5, 2.5}
    written = [line.get_ydata()[0] for line in rates.lines if line.get_xdata()[0] > 0.5]
    assert {5.0, 12.34, 20.0, 70.0} == set(written)


def test_pruning_runs_from_all_heads_to_none() -> None:
    """Keeps out a curve that is drawn backwards, and a marker of another head than the removed."""
    *_, pruning = heads.draw_heads([ONE]).axes
    curve = next(line for line in pruning.lines if len(line.get_xdata()) == 7)
    assert [*curve.get_xdata()] == [6, 5, 4, 3, 2, 1, 0]
    assert [*curve.get_ydata()] == [1.0, 0.99, 1.04, 1.06, 1.01, 2, 3]
    left, right = pruning.get_xlim()
    assert left > right
    marked = {line.get_xdata()[0]: line.get_color() for line in pruning.lines
              if line.get_marker() != "None"}  # fmt: skip
    colours = [look.colour for look in heads.KINDS.values()]
    assert marked == dict(zip([5, 4, 3, 2, 1, 0], 2 * colours, strict=True))


@pytest.mark.parametrize(
    ("aer", "places", "dashes"),
    [((9.0, 30.0), {(1, 1), (0, 2)}, "-"), ((30.0, 9.0), {(1, 0), (0, 1)}, (0, (2, 1)))],
)
def test_gold_links_are_marked(
    aer: tuple[float, float], places: set[tuple[int, int]], dashes: Any
) -> None:
    """Keeps out squares one row off, on maps of a text onto itself, or solid for the written."""
    made = record(1, [1.0] * 6, aer)
    figure = heads.draw_maps(made)
    maps = [ax for ax in figure.axes if ax.collections]
    assert len(maps) == 6
    squares = [[p for p in ax.patches if isinstance(p, Rectangle)] for ax in maps]
    assert [len(found) for found in squares] == [0, 0, 0, 0, 2, 2]
    assert {(int(p.get_x()), int(p.get_y())) for p in squares[-1]} == places
    assert {to_hex(p.get_edgecolor()) for p in squares[-1]} == {"#e8741c"}
    assert len({str(p.get_linestyle()) for p in squares[-1]}) == 1
    solid = squares[-1][0].get_linestyle() in ("-", "solid")
    assert solid == (dashes == "-")


def test_maps_show_their_words_and_weights() -> None:
    """Keeps out the word that is written beside the row that reads it, and percent as weights."""
    first, *_ = (ax for ax in heads.draw_maps(ONE).axes if ax.collections)
    assert [t.get_text() for t in first.get_xticklabels()] == ["a", "b", "<eos>"]
    assert first.collections[0].get_array().ravel().tolist() == pytest.approx([0.1, 0.2, 0.7] * 3)
    e = heads.sides("source", ONE["alignment"], 3)
    assert (e.read, e.written, e.keys) == (
        ["<bos>", "x", "y"], ["x", "y", "<eos>"], ["a", "b", "<eos>"],
    )  # fmt: skip
    own = heads.sides("decoder", ONE["alignment"], 3)
    assert (own.read, own.written, own.keys) == (e.read, [], e.read)
    both = heads.sides("decoder", ONE["alignment"], 6)
    assert both.keys == [*e.keys, *e.read]


def test_what_a_head_looks_at_is_said() -> None:
    """Keeps out a habit of less than half of the weight, and the mean of heads among the heads."""
    made = record(1, [1.0] * 6, (9.0, 30.0))
    rows = made["analyses"]["heads"]
    rows[0]["own"] = rows[1]["previous"] = rows[4]["previous"] = 0.6
    rows[5]["next"] = 0.5
    texts = [t.get_text() for t in heads.draw_maps(made).texts]
    assert {"1.1 · previous 60 %", "1.2 · next 50 %", "1.2", "1.2 · AER 9 %"} <= {*texts}


def test_models_without_heads_are_left_out() -> None:
    """Keeps out an error for a model of which no head was measured, and parts of another seed."""
    without = fake_record("lstm_seq2seq", 1)
    without["analyses"] = {name: [] for name in ONE["analyses"]}
    assert {*heads.draw([ONE, TWO, without])} == {"heads-transformer", "head-maps-transformer"}
    assert "Parameters: attention 25 %" in heads.draw_heads([ONE]).texts[1].get_text()
