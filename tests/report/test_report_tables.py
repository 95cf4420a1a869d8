"""The records of a folder and their tables."""

import re
from copy import deepcopy
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_records import MODELS, as_arm, as_records, fake_record, row, several, write
from test_fixtures import list_quantities
from toys import load_records

from seqmodels.models import PAPERS
from seqmodels.records.schema import Interval, Record
from seqmodels.records.significance import ALPHA, Comparison, Pair, Significance
from seqmodels.report import figures, load, tables


@pytest.mark.parametrize("task", ["translation", "recall", "next_token"])
def test_a_summary_has_all_buckets_in_100_columns(task: str) -> None:
    records = several(3 if task == "translation" else 1, task)
    for test in (test for r in records for test in r["tests"]):
        test["overall"]["length_ratio"] = {"value": 0.931, "low": None, "high": None}
    made = as_records(records)
    lines = tables.format_summary(made).splitlines()
    assert max(map(len, lines)) <= 100
    for test in load.tests_by_name(made).values():
        begin = next(i for i, line in enumerate(lines) if line.startswith(f"{test.name}: "))
        heads = [re.sub("[*†]", "", head) for head in lines[begin + 1].split()]
        length = ["length"] * (test.primary_metric == "bleu")
        assert heads == ["model", "all", *map(load.format_bucket, test.buckets), *length]
        digits = 3 if test.primary_metric == "bits_per_byte" else 1
        for model in MODELS:
            label = PAPERS[model].label
            (line,) = [line for line in lines[begin:][2:8] if line.startswith(label)]
            group = [r for r in made if r.model == model]
            scores = load.score_array(group, test.name, test.primary_metric)[..., 0]
            cells = [f"{x:.{digits}f}" for x in scores.mean(axis=0)] + ["0.931"] * len(length)
            assert line.removeprefix(label).split() == cells
    assert sum(line.startswith("GPT ") for line in lines) == len(records[0]["tests"]) + 1


def test_formats_at_their_borders() -> None:
    short = {0: "0", 0.0005: "5e-4", 0.001: "0.001", 999: "999", 1000: "1 k", 1e6: "1 M"}
    assert {n: load.format_short(n) for n in short} == short
    fields = {
        ("n_heads", 1): "1 head", ("n_layers", 4): "4 layers", ("d_k", 4): "d_k 4",
        ("n_queries", 1): "1 vector",
        ("tokens", 15e6): "15 M target tokens", ("label_smoothing", 0.1): "label smoothing 0.1",
        ("is_prenorm", True): "pre-norm", ("is_reversed", False): "not reversed",
        ("optimizer", "muon"): "optimizer muon", ("width", 2): "2 × width",
    }  # fmt: skip
    assert {field: load.format_field(*field) for field in fields} == fields
    label = "GPT, muon_lr 0.5, lr 0.5, batch_tokens 4, tokens 4"  # as `specs` has it
    fake = as_arm(fake_record("gpt", 1), label, muon_lr=0.5, lr=0.5, batch_tokens=4, tokens=4)
    (record,) = as_records([fake])
    changes = "Muon’s learning rate 0.5, learning rate 0.5, 4 tokens a batch, 4 target tokens"
    assert load.label_of(record) == f"GPT, {changes}"
    p_values = {None: "–", 0.0009765625: "< 0.001", 0.001: "0.001", 0.5: "0.500"}
    assert {p: load.format_p_value(p) for p in p_values} == p_values


def test_seeds_are_counted_at_each_width_and_of_each_data() -> None:
    runs = ((16, 1), (16, 2), (32, 3))
    made = [fake_record("gpt", seed) | {"model_config": {"d_model": d}} for d, seed in runs]
    other = made[0] | {"data": made[0]["data"] | {"name": "other"}}
    assert " · 1–2 seeds" in load.format_subtitle(as_records([*made[:2], other]))
    for n, seeds in ((3, "1–2 seeds"), (2, "2 seeds"), (1, "one seed")):
        assert load.format_subtitle(as_records(made[:n])).endswith(f" · {seeds}")


@pytest.mark.parametrize(("n", "shown"), [(1, "1"), (3, "1 2 3"), (4, "4 seeds")])
def test_costs_are_means_of_the_seeds(n: int, shown: str) -> None:
    """The loss is the lowest of each curve."""
    records = [fake_record("gpt", seed) | {
        "n_parameters": 1_250_000 * seed, "train_s": 10.0 * seed**2, "evaluate_s": 3.0 * seed**2,
        "speed": {"train_tokens_per_s": 700.0 * seed**2, "evaluate_sentences_per_s": 1.0},
    } for seed in range(1, n + 1)]  # fmt: skip
    for record in records:
        for i, point in enumerate(record["curve"]):
            point["valid_nats"] = record["seed"] if i == 3 else 9.0
    square = sum(i * i for i in range(1, n + 1)) / n
    _, cells = tables.cost_rows(as_records(records))
    size = "1.25 M" if n == 1 else f"1.25–{1.25 * n:.2f} M"
    numbers = [f"{(n + 1) / 2:.3f}", *(f"{x * square:,.0f}" for x in (700, 10, 3))]
    assert cells == ["GPT", size, shown, *numbers]


def test_each_number_is_of_its_field() -> None:
    """A number of a record moves the cells that show it, and no others."""
    fake = fake_record("gpt", 1) | {"alignment": None, "evaluate_s": 37.0}
    (test,), fake["curve"] = fake["tests"], fake["curve"][:2]
    test["overall"]["length_ratio"] = {"value": 0.931, "low": None, "high": None}
    test |= {"buckets": test["buckets"][2:4], "max_train_length": None}

    def show(name: str = "") -> list[str]:
        fields = deepcopy(fake)
        if name:
            *path, key = (int(x) if x.isdigit() else x for x in re.findall(r"\w+", name))
            place: Any = reduce(getitem, path, fields)
            place[key] *= 2 if isinstance(place[key], int) else 1.07
        made = as_records([fields])
        cells = tables.format_tables(made).replace("\n", "|").split("|")
        return [*load.format_subtitle(made).split(" · "), *map(str.strip, cells)]

    cells, moved = show(), dict[str, list[str]]()
    for name, _ in list_quantities(fake):
        pairs = zip(cells, show(name), strict=True)
        if changed := [old for old, new in pairs if old != new]:
            moved.setdefault("; ".join(changed), []).append(name)
    parts = "overall.bleu", "buckets[0].bleu", "buckets[1].bleu"
    ends = [[f"tests[0].{part}.{end}" for end in ("value", "low", "high")] for part in parts]
    assert moved == {
        "82.7 [80.8, 84.6]": ends[0], "83.6 [81.7, 85.5]": ends[1], "78.7 [76.8, 80.6]": ends[2],
        "1.02 M parameters; 1.02 M": ["n_parameters"], "1": ["seed"], "142": ["train_s"],
        "2 M target tokens": ["train_config.tokens"], "3.353": ["curve[1].valid_nats"],
        "7,000": ["speed.train_tokens_per_s"], "37": ["evaluate_s"],
        "### length: BLEU by source length (words), beam 5": ["tests[0].beam"],
        "0.931": ["tests[0].overall.length_ratio.value"],
        "21–30": ["tests[0].buckets[0].low", "tests[0].buckets[0].high"],
        "31–40": ["tests[0].buckets[1].low", "tests[0].buckets[1].high"],
        "1,987; 1,000": ["tests[0].buckets[0].n"], "1,987; 987": ["tests[0].buckets[1].n"],
    }  # fmt: skip


def test_the_table_has_a_verdict_over_all_examples_alone() -> None:
    made = [fake_record(m, s) for m in ("rnn_encdec", "bahdanau") for s in (1, 2, 3)]
    for record in made:
        record["tests"][0]["buckets"] = record["tests"][0]["buckets"][:2]
    records = as_records(made)
    overall, near, far = (Interval(value=x, low=x - 2, high=x + 3) for x in (-30.0, 20.0, 40.0))
    buckets = [near, far.model_copy(update={"low": None, "high": None})]
    pair = Pair(row="bahdanau", column="rnn_encdec", n_seeds=[3, 2], is_separated=True, p=ALPHA,
                overall=overall, buckets=buckets)  # fmt: skip
    bounds = [[1, 10], [11, 20]]
    for p, verdict in (
        (ALPHA, "significantly worse"), (0.0625, "not shown; up to −32.0 is not excluded"),
    ):  # fmt: skip
        own = pair.model_copy(update={"p": p})
        comparison = Comparison(test="length", metric="bleu", buckets=bounds, pairs=[own])
        compared = Significance(comparisons=[comparison])
        title, table, note = tables.format_differences(records, records[0].tests[0], compared)
        assert title == "### length: differences in BLEU"
        assert "the 1 tested" in note
        assert row(table, "Bahdanau − RNN")[1:] == [
            "3 − 2", "−30.0 [−32.0, −27.0]", f"{p:.3f}", f"{verdict}; seeds do not overlap",
            "+20.0 [+18.0, +23.0]", "+40.0 [–]",
        ]  # fmt: skip
        _, line = tables.difference_rows(records, records[0].tests[0], compared)
        whole = ["−30.0 [−32.0, −27.0]", f"{p:.3f}", f"{verdict}; seeds do not overlap"]
        assert line == ["Bahdanau − RNN encoder–decoder", *whole, "+40.0 [–]"]


def test_a_folder_is_drawn_as_if_alone(tmp_path: Path, monkeypatch: Any) -> None:
    curves = figures.draw_curves

    def draw_few(its: list[Record], *_: Any) -> dict[str, Any]:
        return {"curves": curves(its), f"of-{len(its)}": curves(its)}

    monkeypatch.setattr(figures, "draw_all", draw_few)
    for n_heads, more in ((4, []), (2, [fake_record("gpt", 2)])):
        arm = as_arm(fake_record("gpt", 1), f"{n_heads} heads", {"n_heads": n_heads})
        made = [fake_record("gpt", 1), arm, *more]
        write(tmp_path / str(n_heads), made)
    figures.plot_results(tmp_path)
    found = [path.read_text(encoding="utf-8") for path in tmp_path.glob("*/curves.svg")]
    colours, others = ({*re.findall("#[0-9a-f]{6}", text)} for text in found)
    assert colours == others


def test_models_are_in_order_of_history(tmp_path: Path) -> None:
    seeds = [fake_record("gpt", seed) for seed in (10, 9)]
    arms = [as_arm(fake_record("gpt", 1), f"{n} heads", {"n_heads": n}) for n in (16, 4)]
    folder = write(tmp_path, [fake_record("a_sixth", 1), *seeds, *several(1), *arms])
    records = load_records(folder)
    names = [*MODELS[:-1], "gpt", "gpt", "gpt", "gpt-n_heads-4", "gpt-n_heads-16", "a_sixth"]
    assert [r.model for r in records] == names
    assert [r.seed for r in records] == [1, 1, 1, 1, 1, 9, 10, 1, 1, 1]
    assert row(tables.format_tables(records).split("### Costs")[1], "a_sixth")[1] == "1.03 M"


def test_only_records_are_read(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "other.json").write_text('{"schema": "something else"}')
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / "tsconfig.json").write_text("{ // another program's\n}")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(ValueError, match="holds no record"):
        load_records(tmp_path)
    write(tmp_path, several(1))
    assert len(load_records(tmp_path)) == 5
    broken = fake_record("gpt", 9)
    del broken["tests"][0]["buckets"][2]["n"], broken["tests"][0]["buckets"][3]["n"]
    write(tmp_path, [broken])
    for half, fault in (
        (None, ": tests[0].buckets[2].n: Field required (and 1 more)"),
        ('{"schema": "seqmod', " is not JSON"),
    ):
        if half:
            (tmp_path / "gpt-seed9.json").write_text(half)
        assert len(load_records(tmp_path)) == 5
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("left out: ")
        assert f"gpt-seed9.json{fault}" in line.replace(" is not a record", "")


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    other = fake_record("gpt", 1, "recall")
    with pytest.raises(ValueError, match="mixes the tasks"):
        load_records(write(tmp_path / "a", [fake_record("bahdanau", 1), other]))
    folder = write(tmp_path / "b", [fake_record("gpt", 1)])
    (folder / "copy.json").write_text((folder / "gpt-seed1.json").read_text(encoding="utf-8"))
    with pytest.raises(ValueError, match="second record of gpt, seed 1"):
        load_records(folder)
    records = several(1)
    records[3]["tests"][0]["buckets"][1]["n"] += 1
    with pytest.raises(ValueError, match="transformer, seed 1: test 'length'"):
        tables.format_tables(as_records(records))


@pytest.mark.parametrize(
    ("scores", "metric", "cell"),
    [([100.0, 80.0, 99.0], "bleu", "93.0 (80.0 to 100.0)"), ([90.0, 80.0], "bleu", "85.0 ± 5.0"),
     ([0.0, 0.4, 0.0, 0.0], "exact_match", "0.1 (0.0 to 0.4)"),
     ([3.0, 1.0], "nats", "2.000 ± 1.000"), ([99.95, 99.75], "bleu", "99.8 ± 0.1"),
     ([1.0, 7.0, 1.0], "nats", "3.000 ± 3.000")],
)  # fmt: skip
def test_a_spread_stays_within_the_scale(scores: list[float], metric: str, cell: str) -> None:
    seeds = np.array([[score, score, score] for score in scores])
    assert tables.format_cell(seeds, metric) == cell
