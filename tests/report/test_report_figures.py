"""All figures of a folder of records, the matrix of differences among them; their style."""

import html
import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import needs_tasks
from fake_records import (
    MODELS,
    as_arm,
    as_records,
    drawn_scores,
    fake_record,
    row,
    scored,
    several,
)
from matplotlib.collections import PathCollection, QuadMesh
from matplotlib.colors import same_color, to_rgba
from matplotlib.figure import Figure

from seqmodels.models import PAPERS, model_of, paper_of
from seqmodels.records.schema import Alignment, Record
from seqmodels.records.significance import SCHEMA, Comparison, Difference, Pair, Significance
from seqmodels.report import alignment, effects, figures, style, tables


def texts_of(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.texts]


@pytest.mark.parametrize("column", [0, 1])
def test_lines_bands_whiskers_and_bars_are_the_records(column: int) -> None:
    records, key = several(3), ("bleu", "nats")[column]
    figure = drawn_scores(records)
    assert style.texts_of(figure)[0] == "BLEU by source length (words)"
    assert column == 1 or figure.axes[0].get_ylim() == (0, 100)
    ax, strip = figure.axes[column], figure.axes[2 + column]
    buckets = records[0]["tests"][0]["buckets"]
    assert [bar.get_height() for bar in strip.patches if bar.get_height() > 1] == [
        b["n"] for b in buckets
    ]
    names = [f"{b['low']}–{b['high']}" for b in buckets]
    assert [t.get_text() for t in strip.get_xticklabels()] == names
    for i, model in enumerate(MODELS):
        group = [r["tests"][0]["buckets"] for r in records if r["model"] == model]
        cells = np.array(
            [[[b[key][k] for k in ("value", "low", "high")] for b in seed] for seed in group]
        )
        mean = cells.mean(axis=0)
        colour = style.line_style_of(model).colour
        line, marks, hollow = (line for line in ax.lines if line.get_color() == colour)
        assert np.allclose(line.get_ydata(), mean[:7, 0])  # the eighth bucket has 29 sentences
        assert np.allclose([*marks.get_ydata(), *hollow.get_ydata()], mean[:, 0])
        assert line.get_zorder() < min(marks.get_zorder(), hollow.get_zorder())
        assert hollow.get_markerfacecolor() == "white" != marks.get_markerfacecolor()
        band, whiskers = ax.collections[2 * i : 2 * i + 2]
        corners = band.get_paths()[0].vertices
        for k in range(7):
            edges = corners[np.isclose(corners[:, 0], line.get_xdata()[k]), 1]
            assert [edges.min(), edges.max()] == pytest.approx([*mean[k, 1:]])
            ends = whiskers.get_segments()[k][:, 1]
            assert np.allclose(ends, [cells[:, k, 0].min(), cells[:, k, 0].max()])


def test_few_examples_are_hollow_and_fewer_have_no_interval() -> None:
    records = scored({"gpt": (30, 20, 25, 24, 23)}, counts=(30, 9, 10, 100, 29))
    figure = drawn_scores(records)
    line, marks, hollow = figure.axes[0].lines
    assert 31 <= figure.axes[0].get_ylim()[1] < 50  # of BLEU, not of a share
    assert len(line.get_xdata()) == 4
    assert [round(x) for x in marks.get_xdata()] == [0, 3]
    assert [round(x) for x in hollow.get_xdata()] == [1, 2, 4]
    white = [bar.get_facecolor()[:3] == (1, 1, 1) for bar in figure.axes[2].containers[0]]
    assert white == [False, True, True, False, True]
    paths = figure.axes[0].collections[0].get_paths()
    assert {round(float(x)) for path in paths for x in path.vertices[:, 0]} == {0, 2, 3}
    assert row(tables.format_tables(as_records(records)), "GPT")[2:-1] == [
        "30.0 [29.0, 31.0]", "20.0 [–]", "25.0 [24.0, 26.0]", "24.0 [23.0, 25.0]",
        "23.0 [22.0, 24.0]",
    ]  # fmt: skip
    assert row(tables.format_tables(as_records(records)), "model")[2:-1] == [
        "1–10", "11–20*", "21–30*", "31–40", "41–50*"
    ]  # fmt: skip


def test_a_missing_score_leaves_a_gap() -> None:
    records = several(2)
    for part in (part for r in records for part in r["tests"][0]["buckets"]):
        del part["nats"]
    gpt = [r for r in records if r["model"] == "gpt"]
    del gpt[1]["tests"][0]["buckets"][0]["bleu"]
    assert row(tables.format_tables(as_records(records)), "GPT ")[2] == "–"
    assert ["not recorded" in texts_of(ax) for ax in drawn_scores(records).axes[:2]] == [0, 1]


def test_a_title_names_the_search() -> None:
    for task, beam, title in (
        ("recall", 5, "Symbol accuracy (%), free-running, beam 5"),
        ("next_token", None, "Exact match (%), teacher-forced"),
    ):
        records = several(1, task)
        for test in (test for r in records for test in r["tests"]):
            test["beam"] = beam
        figure, name = drawn_scores(records, -1), records[0]["tests"][-1]["name"]
        titles = [ax.get_title("left") for ax in figure.axes[:2]]
        assert titles == [title, "Loss (nats per token), teacher-forced"]
        is_named = task == "recall"  # the axis of the other names its test set
        assert style.texts_of(figure)[0].endswith(f": {name}") == is_named
        assert figure.axes[0].get_ylim() == (0, 100)
        suffix = title.partition("free-running")[2]
        assert f"by {records[0]['tests'][-1]['axis']}{suffix}\n" in tables.format_tables(
            as_records(records)
        )


def test_no_two_variants_look_alike() -> None:
    names = [name for paper in PAPERS for name in (paper, *style.variants_of(paper))]
    registered = {name: paper_of(name) for name in names}
    names = ["zz", *reversed(registered), "aa"]
    groups = {name: as_records([fake_record(name, 1)]) for name in names}
    line_styles = style.line_styles_for(groups)
    assert [*line_styles] == [*registered, "aa", "zz"]
    for model, paper in registered.items():
        own = [line_styles[name] for name in registered if model_of(name) == model_of(model)]
        assert len({(line_style.colour, line_style.marker) for line_style in own}) == len(own)
        enough = min(len(own), len(style.VARIANT_MARKERS))  # after so many, they begin anew
        assert all(
            len({getattr(line_style, k) for line_style in own}) >= enough
            for k in ("colour", "marker")
        )
        vector = line_styles["rnn_encdec" if "rnn" in model else "lstm_seq2seq"].dashes
        dashes = {"grows": "-", "fixed": style.LATER, "vector": vector}
        assert line_styles[model].dashes == dashes[paper.memory]
    rungs = [*(f"bahdanau{each}" for each in ("", "_dot", "_heads", "_tied")), "transformer"]
    rungs += [f"transformer_recurrent{each}" for each in ("_1", "", "_decoder")]
    for names in (rungs, [name for name in line_styles if name.endswith("_conv")]):  # in one figure
        assert len({line_styles[name].colour for name in names}) == len(names) > 2
    assert (
        len({str(line_styles[m].dashes) for m in ("rnn_encdec", "lstm_seq2seq", "aa", "gpt")}) == 4
    )


def test_a_context_is_drawn_as_the_gain_from_it() -> None:
    none = {0: {"low": 0, "high": 0, "token_accuracy": {"value": 10, "low": 9, "high": 11}}}
    more = {i: {"token_accuracy": {"value": 10 + i, "low": 9, "high": 11}} for i in (1, 2)}
    values = {"rnn_encdec": (2.0, 1.9, 1.8), "gpt": (2.5, 2.2, 1.9)}
    about: dict[str, Any] = {"axis": "length (tokens)", "kind": "context", "half": 0.01}
    about |= {"primary_metric": "bits_per_byte", "buckets": none | more}
    higher = {model: [x + 0.5 for x in its] for model, its in values.items()}
    records = scored(values, **about) + [r | {"seed": 2} for r in scored(higher, **about)]
    figure = drawn_scores(records)
    labels = [text.get_text().split(" · ")[-1] for text in figure.legends[0].get_texts()]
    assert style.texts_of(figure)[0] == "Bits per byte saved by length (tokens)"
    assert labels == ["at 0: 2.25", "at 0: 2.75"]  # bits per byte without context, each its own
    saved, gained = figure.axes[:2]
    assert np.allclose(saved.lines[0].get_ydata(), [0, 0.1, 0.2])
    assert np.allclose(saved.lines[3].get_ydata(), [0, 0.3, 0.6])
    assert np.allclose(gained.lines[0].get_ydata(), [0, 1, 2])
    assert saved.get_title("left").startswith("Bits per byte saved")
    assert saved.get_ylim()[1] < 0.7
    for ax in (saved, gained):
        assert "higher is better ↑" in texts_of(ax)


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
    assert row(tables.format_tables(as_records(records)), "(the best")[2:] == [
        f"{x:.1f}" for x in expected
    ]
    figure = drawn_scores(records)
    dotted = [
        [list(line.get_ydata()) for line in ax.lines if line.get_linestyle() == ":"]
        for ax in figure.axes[:2]
    ]
    assert dotted == [[expected], []]
    assert "Dotted: the best guess from the values alone." in figure.get_label()


@needs_tasks
def test_records_without_the_tasks_measurements_are_named(capsys: Any) -> None:
    bare = fake_record("gpt", 1) | {"task": "distance"}
    bare["tests"][0]["name"] = "a b"
    names = {"curves", "state", "score-a-b", "alignment"}
    assert {*figures.draw_all(as_records([bare]), None)} == names
    assert "whose records lack 'probe'" in capsys.readouterr().err


def test_curves_and_sizes_are_those_of_the_records() -> None:
    records = as_records(several(1))
    curves = figures.draw_curves(records).axes
    sizes = [ax for ax in figures.draw_memory_size(records).axes if ax.lines]
    assert [ax.get_xlabel() for ax in curves] == ["target tokens"]
    assert [ax.get_title("left") for ax in sizes] == [*figures.SIZES.values()]
    assert sizes[0].get_ylim() == sizes[1].get_ylim()
    for record in records:
        colour, curve = style.line_style_of(record.model).colour, record.curve
        drawn = [[(p.tokens, p.valid_nats) for p in curve]]
        drawn += [record.source_bytes, record.cache_bytes]
        for ax, points in zip([*curves, *sizes], drawn, strict=True):
            line = next(line for line in ax.lines if line.get_color() == colour)
            assert np.allclose(line.get_xydata(), points)


def test_alignments_that_cannot_be_drawn_are_refused(tmp_path: Path) -> None:
    bahdanau, gpt = map(style.line_style_of, ("bahdanau", "gpt"))
    words: dict[str, Any] = {"src": ["$5", "and", "$6"], "tgt": ["5", "$"]}
    weights, gold = [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]], [[0, 0], [2, 1]]
    a = Alignment(**words, alpha=weights, gold=None)
    linked = Alignment(**words, alpha=weights, gold=gold)
    path = alignment.draw_alignment([(bahdanau, linked)], tmp_path / "a.PNG")
    assert path.read_bytes().startswith(b"\x89PNG")
    swapped = a.model_copy(update={"src": a.tgt, "tgt": a.src})
    for maps, name, fault in (
        ([(gpt, swapped)], "b.svg", r"GPT: alpha is \(2, 3\)"),
        ([], "b.svg", "no alignment"),
        ([(gpt, a)], "b.pdf", r"b\.pdf"),
    ):
        with pytest.raises(ValueError, match=fault):
            alignment.draw_alignment(maps, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["a.PNG"]


def test_tokens_are_shown_as_text() -> None:
    for tokens, texts in (
        ("The ▁mag ic , ▁isn 't ▁ 8 ]", "The mag ·ic , isn 't ␣ 8 ]"),
        (r"Fr \xc3 \xa4 u ▁", "Fr ä … u ␣"),
        (r"▁M\xc3 \xa4dch en", "Mä ·dch ·en"),
        (r"\xe4 x a\x00", r"\xe4 x a\x00"),
    ):
        assert alignment.show_tokens(tokens.split()) == texts.split()


def test_alignments_are_drawn_in_rows_with_one_scale() -> None:
    words: dict[str, Any] = {"src": ["▁a", "b", "▁c"], "tgt": ["▁d", "e"], "gold": [[0, 0], [2, 1]]}
    whole = Alignment(**words, alpha=[[1.0, 0.0, 0.0], [0.0, 0.6, 0.4]])
    partial = Alignment(**words, alpha=[[0.2, 0.6, 0.0], [0.0, 0.0, 1.0]])
    looks = map(style.line_style_of, ("bahdanau", "transformer", "gpt"))
    panels = [*zip(looks, (whole, partial, partial), strict=True)]
    figure = alignment.draw_heat_maps(panels, "about")
    *maps, scale = figure.axes
    assert (*scale.get_ylim(), maps[0].collections[0].norm.vmax) == (0, 1, 1)
    assert (maps[0].yaxis_inverted(), maps[0].xaxis_inverted()) == (True, False)
    assert np.allclose(maps[0].collections[0].get_array(), whole.alpha)
    assert [t.get_text() for t in maps[0].get_xticklabels()] == ["a", "·b", "c"]
    assert [t.get_text() for t in maps[0].get_yticklabels()] == ["d", "·e"]
    assert [square.get_xy() for square in maps[0].patches] == [(0.06, 0.06), (2.06, 1.06)]
    long = Alignment(src=["a"] * 30, tgt=["b"], alpha=[[0.0] * 30], gold=None)  # two fit beside
    other = long.model_copy(update={"tgt": ["c"]})
    for every, labels in (([*[long] * 4, other], [*"bbbbc"]), ([long] * 6, ["b", ""] * 3)):
        *maps, _ = alignment.draw_heat_maps([(panels[0][0], a) for a in every], "").axes
        assert [ax.get_subplotspec().rowspan.start for ax in maps] == [0, 0, 1, 1, 2, 2]
        assert [t.get_text() for ax in maps[: len(every)] for t in ax.get_yticklabels()] == labels


def test_a_logarithmic_axis_has_a_few_ticks() -> None:
    for low, high, ticks in ((0.3, 4, [0.5, 1, 2]), (0.003, 4, [0.01, 0.1, 1]), (210, 260, [])):
        drawn = [tick for tick in style.LogTicks().tick_values(low, high) if low <= tick <= high]
        assert drawn == pytest.approx(ticks) if ticks else len(drawn) > 1


# -------------------------------------------------------------------------------------- Differences
COMPARED = ("rnn_encdec", "bahdanau", "gpt")


def compared(metric: str = "bleu") -> tuple[list[Record], Comparison]:
    """Make records; Bahdanau is above Cho; GPT is above Cho, below Bahdanau in one bucket alone."""
    records = [fake_record(model, seed) for model in COMPARED for seed in (1, 2, 3)]
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
        about = {"row": model, "column": other, "n_seeds": [3, 2], "is_tested": True}
        pairs.append(Pair(**about, overall=found[0], buckets=found[1:]))
    about = {"test": "length", "metric": metric, "n_tested": 9}
    return as_records(records), Comparison(**about, buckets=[[1, 10], [11, 20]], pairs=pairs)


def cells(
    records: list[Record], comparison: Comparison
) -> dict[tuple[str, str], tuple[list[str], list[Any]]]:
    """Draw; return (row, column) -> texts and fills of a cell: its own, then its squares'."""
    with style.context():
        (ax,) = figures.draw_differences(records, records[0].tests[0], comparison).axes
    (mesh,) = (each for each in ax.collections if isinstance(each, QuadMesh))
    values = mesh.get_array().reshape(len(COMPARED), len(COMPARED))
    squares = [each for each in ax.collections if isinstance(each, PathCollection)]
    contents = {}
    for (i, model), (j, other) in itertools.product(enumerate(COMPARED), repeat=2):
        texts = [t.get_text() for t in ax.texts if [*map(int, t.get_position())] == [j, i]]
        fills = [] if np.ma.is_masked(values[i, j]) else [mesh.to_rgba(values[i, j])]
        for each in squares:
            if [*each.get_offsets()[0].astype(int)] == [j, i]:
                fills += list(each.get_facecolors())
        contents[model, other] = texts, fills
    return contents


BLUE, ORANGE = ("#A9D3EE", "#1B75BC"), ("#F6C9A0", "#E8741C")


def test_the_table_marks_each_bucket() -> None:
    records, comparison = compared()
    significance = Significance(schema=SCHEMA, records={}, comparisons=[comparison])
    text = tables.format_differences(records, records[0].tests[0], significance)
    assert text.startswith("### length: differences in BLEU\n")
    assert row(text, "row")[3:] == ["p", "1–10", "11–20"]
    far, near = ["**+30.0** [+28.0, +32.0]", "< 0.001"], ["+25.0 [+23.0, +27.0]", "0.060"]
    assert row(text, "Bahdanau − RNN")[1:] == ["3 − 2", *far, "**+20.0**", "**+40.0**"]
    assert row(text, "GPT − RNN")[1:] == ["3 − 2", *near, "+24.0", "**+26.0**"]


def test_a_caption_explains_what_is_drawn_alone_and_is_in_the_file() -> None:
    few, equal = (100, 29), (100, 100)
    for counts, said in ((few, "Hollow: fewer than 30"), (equal, "100 sentences a point")):
        records = scored({"gpt": (30, 20)}, counts=counts)
        with style.context():
            figure = drawn_scores(records)
            content = html.unescape(style.render(figure, ".svg").decode())
        hollow = [line for line in figure.axes[0].lines if line.get_markerfacecolor() == "white"]
        assert any(len(line.get_xdata()) for line in hollow) == (counts == few)
        assert len(figure.axes) == (4 if counts == few else 2)  # with a strip of counts, or not
        own = figure.get_label()
        assert said in own
        assert "whisker" not in own  # of one seed
        assert ("Hollow" in own) == ("Bars" in own) == (counts == few)
        drawn = re.sub(r"<desc>.*?</desc>", "", content, flags=re.S)
        assert said.split()[0] in " ".join(re.findall(r">([^<>]+)</text>", drawn))


def swept(bleu: float, **training: Any) -> Any:
    """Make the record of GPT with these fields changed, of this BLEU at 31 to 40 words."""
    record = fake_record("gpt", 1)
    record["tests"][0]["buckets"][3]["bleu"]["value"] = bleu
    return as_arm(record, **training)


def test_a_sweep_is_drawn_over_the_values_of_one_field() -> None:
    base = [fake_record("gpt", seed) for seed in (1, 2)]
    for record, bleu in zip(base, (40.0, 44.0), strict=True):
        record["tests"][0]["buckets"][3]["bleu"]["value"] = bleu  # at 2 M tokens
    records = [
        *base, swept(90.0, tokens=16_000_000), swept(7.0, tokens=400_000),
        swept(99.0, tokens=800_000, lr=0.1),
        swept(3.0, lr=0.1),  # with the model as it is, two values
    ]  # fmt: skip
    drawn = effects.sweep_figures(as_records(records))
    assert [*drawn] == ["sweep-tokens"]
    bleu, nats = drawn["sweep-tokens"]().axes
    for ax, values in ((bleu, [7.0, 42.0, 90.0]), (nats, None)):
        (line,) = ax.lines
        assert [*line.get_xdata()] == [400_000, 2_000_000, 16_000_000] == [*ax.get_xticks()]
        assert values is None or [*line.get_ydata()] == values
    low, high = bleu.collections[0].get_segments()[1][:, 1]
    assert (low, high, bleu.get_ylim()) == (40.0, 44.0, (0, 100))
    losses = [r["tests"][0]["buckets"][3]["nats"]["value"] for r in base]
    assert nats.lines[0].get_ydata()[1] == pytest.approx(np.mean(losses))
    assert (bleu.get_xscale(), nats.get_yscale()) == ("log", "log")
    # without the model, whose own value is no number; near values on a linear axis
    records = [*base, *(swept(10.0 * n, d_k=n) for n in (7, 2, 3))]
    (line,) = effects.sweep_figures(as_records(records))["sweep-d_k"]().axes[0].lines
    assert ([*line.get_xdata()], [*line.get_ydata()]) == ([2, 3, 7], [20.0, 30.0, 70.0])
    assert line.axes.get_xscale() == "linear"
    for record in records:  # no length was trained: all of them
        record["tests"][0]["max_train_length"] = 0
    (line,) = effects.sweep_figures(as_records(records))["sweep-d_k"]().axes[1].lines
    overall = [r["tests"][0]["overall"]["nats"]["value"] for r in (*records[3:], records[2])]
    assert [*line.get_ydata()] == pytest.approx(overall)


def test_values_far_apart_are_on_a_logarithmic_axis() -> None:
    for values, scale in (([1, 8], "log"), ([1, 7], "linear"), ([0, 8], "linear")):
        ax = Figure().subplots()
        effects._scale(ax, [*map(float, values)])
        assert (ax.get_xscale(), [*ax.get_xticks()]) == (scale, values)


def test_the_effect_of_a_change_is_the_arm_minus_the_model_as_it_is(monkeypatch: Any) -> None:

    def difference(value: float, p: float) -> Difference:
        return Difference(value=value, low=value - 1.5, high=value + 4.0, p=p)

    noise, rise, fall = difference(2.0, 0.5), difference(9.0, 0.01), difference(-9.0, 0.01)
    turned = [-part for part in (fall, noise, rise, rise, fall)]
    records = [fake_record("gpt", 1), swept(3.0, lr=0.5)]
    records += [swept(7.0, tokens=400_000, lr=0.5), fake_record("transformer", 1)]
    base, one, two, other = (r["model"] for r in records)
    tested: dict[str, Any] = {"n_seeds": [3, 3], "is_tested": True}
    pairs = [
        Pair(row=one, column=base, overall=turned[0], buckets=turned, **tested),
        Pair(row=two, column=base, overall=noise, buckets=[noise] * 5, **tested),
        Pair(row=two, column=one, overall=rise, buckets=[rise] * 5, **tested),
        Pair(row=other, column=base, overall=rise, buckets=[rise] * 5, **tested),
    ]
    bounds = [[1, 9], [10, 19], [20, 29], [30, 39], [40, 49]]
    for record in records:
        record["tests"][0]["buckets"] = record["tests"][0]["buckets"][:5]
    for metric, verdict, better, worse in (
        ("bleu", "significantly better", "1–9, 40–49", "20–39"),
        ("nats", "significantly worse", "20–39", "1–9, 40–49"),
    ):
        comparison = Comparison(test="length", metric=metric, n_tested=9, buckets=bounds,
                                pairs=pairs)  # fmt: skip
        for record in records:
            record["tests"][0]["primary_metric"] = metric
        whole = Significance(schema=SCHEMA, records={}, comparisons=[comparison])
        made = as_records(records)
        test = made[0].tests[0]
        _, first, second = effects.effect_rows(made, test, whole)
        assert first[0] == "GPT: learning rate 0.5"
        assert first[2:] == [better, worse, verdict]
        assert second[0] == "GPT: 400 k target tokens, learning rate 0.5"
        assert second[2:] == ["–", "–", "not significant"]
        assert verdict in tables.format_summary(made[:3], whole)
        with style.context():
            drawn = figures.draw_all(made, whole, own=[])
        (ax,) = drawn["effects-length"].axes
        ends = [c.get_segments()[0][:, 0].tolist() for c in ax.collections]
        assert ends == [[5.0, 10.5], [0.5, 6.0]]  # 9 with the ends of −9 turned round; 2
        fills = {"significantly better": "#1B75BC", "significantly worse": "#E8741C"}
        assert same_color(ax.collections[0].get_colors()[0], fills[verdict])
        assert same_color(ax.collections[1].get_colors()[0], style.GREY)
    untested = pairs[1].model_copy(update={"is_tested": False})
    one = comparison.model_copy(update={"pairs": [pairs[0], untested]})
    drawn = effects.draw_effects(made, test, one)
    ((place,),) = [[p.get_y() for p in ax.patches if p.get_hatch()] for ax in drawn.axes]
    assert place == 0.5  # the second row
    assert "hatched: not tested" in drawn.get_label()
    one = comparison.model_copy(update={"pairs": [pairs[0]]})
    alone = whole.model_copy(update={"comparisons": [one]})
    assert "effects-length" not in figures.shared_figures(made, alone)  # of one row
    assert effects.effect_rows([made[0], made[3]], test, whole) == []
    made += as_records([fake_record("transformer_cosine", 1)])  # a variant beside its base
    pairs = [Pair(row="transformer_cosine", column=other, overall=turned[0], buckets=[], **tested)]
    comparison = comparison.model_copy(update={"buckets": [], "pairs": pairs})
    whole = whole.model_copy(update={"comparisons": [comparison]})
    _, row = effects.effect_rows(made, test, whole)
    assert (row[0], row[-1]) == ("Transformer, cosine scores", "significantly worse")
