"""The figures of a folder of records, effects and alignments; their style."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import needs_tasks
from fake_records import MODELS, as_arm, as_records, drawn_scores, fake_record, row, scored, several
from matplotlib.colors import same_color, to_rgba

from seqmodels.models import paper_of
from seqmodels.records.schema import Alignment, Interval
from seqmodels.records.significance import Comparison, Pair, Significance
from seqmodels.report import alignment, effects, figures, load, style, tables


@pytest.mark.parametrize("column", [0, 1])
def test_lines_bands_whiskers_and_bars_are_the_records(column: int) -> None:
    records, key = several(3), ("bleu", "nats")[column]
    figure = drawn_scores(records)
    ax, strip = figure.axes[column], figure.axes[2 + column]
    buckets = records[0]["tests"][0]["buckets"]
    (bars,) = strip.containers
    assert [bar.get_height() for bar in bars] == [b["n"] for b in buckets]
    assert [t.get_text() for t in strip.texts] == [*["1 k"] * 3, "987", "400", "212", "30", "29"]
    hollow = [same_color(bar.get_facecolor(), "white") for bar in bars]
    assert hollow == [b["n"] < 30 for b in buckets]
    assert ax.get_title(loc="right") == ("longer than trained", "")[column]
    assert strip.get_xlabel() == "source length (words)"
    names = [f"{b['low']}–{b['high']}" for b in buckets]
    assert [t.get_text() for t in strip.get_xticklabels()] == names
    for i, model in enumerate(MODELS):
        group = [r["tests"][0]["buckets"] for r in records if r["model"] == model]
        ends = ("value", "low", "high")
        cells = np.array([[[b[key][end] for end in ends] for b in seed] for seed in group])
        mean, colour = cells.mean(axis=0), style.line_style_of(model).colour
        line, few = (line for line in ax.lines if line.get_color() == colour)
        assert np.allclose(line.get_ydata(), mean[:7, 0])  # the eighth bucket has 29 sentences
        assert np.allclose(few.get_ydata(), mean[7:, 0])
        assert (line.get_markerfacecolor(), few.get_markerfacecolor()) == (colour, "white")
        band, whiskers = ax.collections[2 * i : 2 * i + 2]
        corners = band.get_paths()[0].vertices
        for k in range(7):
            edges = corners[np.isclose(corners[:, 0], line.get_xdata()[k]), 1]
            assert [edges.min(), edges.max()] == pytest.approx([*mean[k, 1:]])
            whisker = whiskers.get_segments()[k][:, 1]
            assert np.allclose(whisker, [cells[:, k, 0].min(), cells[:, k, 0].max()])


def test_few_examples_are_hollow_and_fewer_have_no_interval() -> None:
    records = scored({"gpt": (30, 20, 25, 24, 23)}, counts=(30, 9, 10, 100, 29))
    figure = drawn_scores(records)
    line, few = figure.axes[0].lines
    assert 31 <= figure.axes[0].get_ylim()[1] < 50  # of BLEU, not of a share
    assert len(line.get_xdata()) == 4
    assert (line.get_markevery(), [*few.get_xdata()]) == ([0, 3], [1, 2, 4])
    paths = figure.axes[0].collections[0].get_paths()
    assert {round(float(x)) for path in paths for x in path.vertices[:, 0]} == {0, 2, 3}
    text = tables.format_tables(as_records(records))
    assert row(text, "GPT")[2:5] == ["30.0 [29.0, 31.0]", "20.0 [–]", "25.0 [24.0, 26.0]"]
    assert row(text, "model")[2:7] == ["1–10", "11–20*", "21–30*", "31–40", "41–50*"]


def test_a_missing_score_leaves_a_gap() -> None:
    records = several(2)
    del records[-1]["tests"][0]["buckets"][0]["bleu"]  # of the second seed of GPT
    assert row(tables.format_tables(as_records(records)), "GPT ")[2] == "–"
    colour = style.line_style_of("gpt").colour
    line, few = (x for x in drawn_scores(records).axes[0].lines if x.get_color() == colour)
    assert [np.isfinite(part.get_ydata()).sum() for part in (line, few)] == [6, 1]


def test_models_and_their_changes_have_looks_of_their_own() -> None:
    """An arm has a shade near its model's colour; a line tells the memory of the source."""
    made = [fake_record(name, 1) for name in ("zz", *MODELS, "linear_attention", "aa")]
    made += [as_arm(fake_record("gpt", 1), f"{n} heads", {"n_heads": n}) for n in (16, 4)]
    looks = style.line_styles_for({r.model: [r] for r in as_records(made)})
    arms = ["gpt-n_heads-4", "gpt-n_heads-16"]
    assert [*looks] == [*MODELS, *arms, "linear_attention", "aa", "zz"]
    assert len({look.colour for look in looks.values()}) == len(looks)
    assert len({looks[name].marker for name in ("gpt", *arms)}) == 3
    for name in (*MODELS, "linear_attention"):
        assert looks[name].dashes == style.DASHES[paper_of(name).memory]
    assert looks["zz"].dashes == style.UNKNOWN
    made[0]["n_parameters"] = 7_010_000
    labels = [look.label for look in style.label_line_styles(as_records(made)).values()]
    assert ["7.01 M" in label for label in labels] == [False] * (len(labels) - 1) + [True]


def test_a_context_is_drawn_as_the_gain_from_it() -> None:
    none = {0: {"low": 0, "high": 0, "token_accuracy": {"value": 10, "low": 9, "high": 11}}}
    more = {i: {"token_accuracy": {"value": 10 + i, "low": 9, "high": 11}} for i in (1, 2)}
    about: dict[str, Any] = {"axis": "length (tokens)", "kind": "context", "half": 0.01}
    about |= {"primary_metric": "bits_per_byte", "buckets": none | more}
    saved, gained = drawn_scores(scored({"gpt": (2.5, 2.2, 1.9)}, **about)).axes
    assert np.allclose(saved.lines[0].get_ydata(), [0, 0.3, 0.6])
    assert np.allclose(gained.lines[0].get_ydata(), [0, 1, 2])
    assert saved.get_title() == "Bits per byte saved ↑"
    assert gained.get_title() == "Next-token accuracy, gain (points) ↑"


def test_lengths_beyond_training_are_shaded() -> None:
    for trained, expected in ((40, [(3.5, 7.5)]), (41, [(4.5, 7.5)]), (None, [])):
        records = several(1)[:1]
        records[0]["tests"][0]["max_train_length"] = trained
        for ax in drawn_scores(records).axes:
            shades = [p.get_extents().transformed(ax.transData.inverted()) for p in ax.patches
                      if p.get_facecolor() == to_rgba("#F5F2EA")]  # fmt: skip
            assert [(round(s.x0, 2), round(s.x1, 2)) for s in shades] == expected


def test_a_baseline_is_drawn_and_printed() -> None:
    records = several(1, "recall")[:2]
    for test in (r["tests"][0] for r in records):
        test["baseline"] = "knows the values, not the binding"
        for i, part in enumerate((*test["buckets"], test["overall"])):
            part["baseline"] = {"value": 50.5 - i, "low": None, "high": None}
    expected = [50.5 - i for i in range(len(records[0]["tests"][0]["buckets"]))]
    cells = row(tables.format_tables(as_records(records)), "(the best")
    assert cells[2:] == [f"{x:.1f}" for x in expected]
    figure = drawn_scores(records)
    left, right = ([x for x in ax.lines if x.get_linestyle() == ":"] for ax in figure.axes[:2])
    assert ([[*line.get_ydata()] for line in left], right) == ([expected], [])
    assert figure.get_suptitle() == "Symbol accuracy (%) by source length (symbols): copy"
    assert "the best guess" in figure.legends[0].get_texts()[-1].get_text()
    assert [ax.get_ylabel() for ax in figure.axes] == ["free-running, beam 5", "teacher-forced"]


@needs_tasks
def test_records_without_the_tasks_measurements_lack_its_figures() -> None:
    bare = fake_record("gpt", 1) | {"task": "mistakes"}
    bare["tests"][0]["name"] = "a b"
    names = {"curves", "score-a-b", "alignment"}
    assert {*figures.draw_all(as_records([bare]), None)} == names


def test_curves_are_those_of_the_records() -> None:
    several_runs = several(1)
    several_runs[1]["curve"][-1]["valid_nats"] = 0.0  # has no place on a logarithmic axis
    records = as_records(several_runs)
    figure = figures.draw_curves(records)
    figure.draw_without_rendering()  # whose layout could not be, warns
    (ax,) = figure.axes
    for record in records:
        colour, curve = style.line_style_of(record.model).colour, record.curve
        line = next(line for line in ax.lines if line.get_color() == colour)
        assert np.allclose(line.get_xydata(), [(p.tokens, p.valid_nats) for p in curve])


def test_alignments_are_drawn_in_rows_with_one_scale(tmp_path: Path) -> None:
    words: dict[str, Any] = {"src": ["▁a", "b", "▁c"], "tgt": ["▁d", "e"], "gold": [[0, 0], [2, 1]]}
    whole = Alignment(**words, alpha=[[1.0, 0.0, 0.0], [0.0, 0.6, 0.4]])
    partial = Alignment(**words, alpha=[[0.2, 0.6, 0.0], [0.0, 0.0, 1.0]])
    looks = map(style.line_style_of, ("bahdanau", "transformer", "gpt"))
    panels = [*zip(looks, (whole, partial, partial), strict=True)]
    path = alignment.draw_alignment(panels[0], tmp_path / "a.PNG")
    assert path.read_bytes().startswith(b"\x89PNG")
    figure = alignment.draw_heat_maps(panels)
    *maps, scale = figure.axes
    assert (*scale.get_ylim(), maps[0].collections[0].norm.vmax) == (0, 1, 1)
    assert (maps[0].yaxis_inverted(), maps[0].xaxis_inverted()) == (True, False)
    assert np.allclose(maps[0].collections[0].get_array(), whole.alpha)
    assert [t.get_text() for t in maps[0].get_xticklabels()] == ["▁a", "b", "▁c"]
    assert [t.get_text() for t in maps[0].get_yticklabels()] == ["▁d", "e"]
    assert [square.get_xy() for square in maps[0].patches] == [(0.06, 0.06), (2.06, 1.06)]
    long = Alignment(src=["a"] * 25, tgt=["b"], alpha=[[0.0] * 25], gold=None)  # two fit beside
    other = long.model_copy(update={"tgt": ["c"]})
    for every, labels in (([*[long] * 4, other], [*"bbbbc"]), ([long] * 6, ["b", ""] * 3)):
        *maps, _ = alignment.draw_heat_maps([(panels[0][0], a) for a in every]).axes
        assert [ax.get_subplotspec().rowspan.start for ax in maps] == [0, 0, 1, 1, 2, 2]
        assert [t.get_text() for ax in maps[: len(every)] for t in ax.get_yticklabels()] == labels


def swept(bleu: float, **training: Any) -> Any:
    """Make the record of GPT with these fields changed, of this BLEU at 31 to 40 words."""
    record = fake_record("gpt", 1)
    record["tests"][0]["buckets"][3]["bleu"]["value"] = bleu
    return as_arm(record, **training)


def test_a_sweep_is_drawn_over_the_values_of_one_field() -> None:
    base = [fake_record("gpt", seed) for seed in (1, 2)]
    for record, bleu in zip(base, (40.0, 44.0), strict=True):
        record["tests"][0]["buckets"][3]["bleu"]["value"] = bleu  # at 2 M tokens
        record["tests"][0]["max_train_length"] = 44  # within the next bucket
    records = [
        *base, swept(90.0, tokens=16_000_000), swept(7.0, tokens=400_000),
        swept(99.0, tokens=800_000, lr=0.1),
        swept(3.0, lr=0.1),  # with the model as it is, two values
    ]  # fmt: skip
    drawn = effects.draw_sweeps(as_records(records))
    assert [*drawn] == ["sweep-tokens"]
    bleu, nats = drawn["sweep-tokens"].axes
    for ax, values in ((bleu, [7.0, 42.0, 90.0]), (nats, None)):
        line, _ = ax.lines
        assert [*line.get_xdata()] == [400_000, 2_000_000, 16_000_000] == [*ax.get_xticks()]
        assert values is None or [*line.get_ydata()] == values
    low, high = bleu.collections[1].get_segments()[1][:, 1]
    assert (low, high, bleu.get_ylim()) == (40.0, 44.0, (0, 100))
    losses = [r["tests"][0]["buckets"][3]["nats"]["value"] for r in base]
    assert nats.lines[0].get_ydata()[1] == pytest.approx(np.mean(losses))
    assert (bleu.get_xscale(), nats.get_yscale()) == ("log", "log")
    # without the model, whose own value is no number; near values on a linear axis
    records = [*base, *(swept(10.0 * n, d_k=n) for n in (7, 2, 3))]
    line, _ = effects.draw_sweeps(as_records(records))["sweep-d_k"].axes[0].lines
    assert ([*line.get_xdata()], [*line.get_ydata()]) == ([2, 3, 7], [20.0, 30.0, 70.0])
    assert line.axes.get_xscale() == "linear"
    for record in records:  # no length was trained: all of them
        record["tests"][0]["max_train_length"] = 0
    line, _ = effects.draw_sweeps(as_records(records))["sweep-d_k"].axes[1].lines
    overall = [r["tests"][0]["overall"]["nats"]["value"] for r in (*records[3:], records[2])]
    assert [*line.get_ydata()] == pytest.approx(overall)


def test_the_effect_of_a_change_is_the_arm_minus_the_model_as_it_is() -> None:
    values = 1.0, 9.0, -9.0
    noise, rise, fall = (Interval(value=x, low=x - 1.5, high=x + 4.0) for x in values)
    records = [fake_record("gpt", 1), swept(3.0, lr=0.5)]
    records += [swept(7.0, tokens=400_000, lr=0.5), fake_record("transformer", 1)]
    base, one, two, other = (r["model"] for r in records)
    its: dict[str, Any] = {"n_seeds": [3, 3], "is_separated": False, "buckets": [fall] * 5}
    pairs = [
        Pair(row=one, column=base, overall=rise, p=0.01, **{**its, "is_separated": True}),
        Pair(row=two, column=base, overall=noise, p=0.5, **its),
        Pair(row=two, column=one, overall=fall, p=0.01, **its),
        Pair(row=other, column=base, overall=fall, p=0.01, **its),
    ]
    bounds = [[1, 9], [10, 19], [20, 29], [30, 39], [40, 49]]
    for record in records:
        record["tests"][0]["buckets"] = record["tests"][0]["buckets"][:5]
    for metric, verdict, largest in (
        ("bleu", "significantly better", "+5.0"), ("nats", "significantly worse", "+5.000"),
    ):  # fmt: skip
        comparison = Comparison(test="length", metric=metric, buckets=bounds, pairs=pairs)
        for record in records:
            record["tests"][0]["primary_metric"] = metric
        whole = Significance(comparisons=[comparison])
        made = as_records(records)
        test = made[0].tests[0]
        _, first, second = effects.effect_rows(made, test, whole)
        assert first[0] == "GPT: learning rate 0.5"
        assert first[2:] == ["0.010", f"{verdict}; seeds do not overlap"]
        assert second[0] == "GPT: 400 k target tokens, learning rate 0.5"
        assert second[2:] == ["0.500", f"not shown; up to {largest} is not excluded"]
        assert verdict in tables.format_summary(made[:3], whole)
        with style.context():
            drawn = figures.draw_all(made, whole)
        (ax,) = drawn["effects-length"].axes
        ends = [c.get_segments()[0][:, 0].tolist() for c in ax.collections]
        assert ends == [[7.5, 13.0], [-0.5, 5.0]]
        fills = {"significantly better": "#1B75BC", "significantly worse": "#E8741C"}
        assert same_color(ax.collections[0].get_colors()[0], fills[verdict])
        assert same_color(ax.collections[1].get_colors()[0], style.GREY)
        assert "white" not in [line.get_markerfacecolor() for line in ax.lines[:2]]
        assert [text.get_text().endswith("*") for text in ax.texts] == [True, False]
        assert [label.get_text() for label in ax.get_yticklabels()] == [first[0], second[0]]
        assert ("lower" if metric == "nats" else "higher") in ax.get_xlabel()
    untested = pairs[1].model_copy(update={"p": None})
    assert load.format_verdict(untested, "bleu") == "not tested"
    one = comparison.model_copy(update={"pairs": [pairs[0], untested]})
    drawn = effects.draw_effects(made, test, one)
    fills = [line.get_markerfacecolor() for line in drawn.axes[0].lines[:2]]
    assert [fill == "white" for fill in fills] == [False, True]
    one = comparison.model_copy(update={"pairs": [pairs[0]]})
    alone = whole.model_copy(update={"comparisons": [one]})
    assert "effects-length" not in figures.draw_all(made, alone)  # of one row
    assert effects.effect_rows([made[0], made[3]], test, whole) == []
    made += as_records([fake_record("transformer_cosine", 1)])  # a variant beside its base
    its |= {"column": other, "overall": rise, "p": 0.01, "buckets": []}
    pairs = [Pair(row="transformer_cosine", **its)]
    comparison = comparison.model_copy(update={"buckets": [], "pairs": pairs})
    whole = whole.model_copy(update={"comparisons": [comparison]})
    _, row = effects.effect_rows(made, test, whole)
    assert (row[0], row[-1]) == ("Transformer, cosine scores", "significantly worse")
