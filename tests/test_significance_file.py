"""Differences between the models of a folder: from its rows, kept beside its records."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_records import BUCKETS, with_rows
from toy_task import flags, toy

from seqmodels.comparison import compare
from seqmodels.metrics import intervals
from seqmodels.metrics.significance import holm
from seqmodels.records import significance
from seqmodels.records.significance import Significance
from seqmodels.report import figures, reading

SHARES = {"rnn_encdec": (0.5, 0.52, 0.51), "bahdanau": (0.8, 0.81, 0.82), "gpt": (0.81, 0.79)}


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw seldom."""
    monkeypatch.setattr(intervals, "N_BOOTSTRAP", 100)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write records of three models with their rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "N_BOOTSTRAP", 20)
        return with_rows(tmp_path_factory.mktemp("made"), SHARES)


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """Copy them, to be changed."""
    return Path(shutil.copytree(made, tmp_path / "made"))


def find(folder: Path) -> Significance | None:
    """Return the differences of a folder."""
    return significance.find(folder, reading.load_by_file(folder))


def keep(folder: Path) -> Path:
    """Write the file and delete the rows; return the file."""
    found = find(folder)
    assert found is not None
    (folder / significance.FILE).write_text(found.text(), encoding="utf-8")
    for rows in folder.glob("*.jsonl"):
        rows.unlink()
    return folder / significance.FILE


@pytest.mark.parametrize("metric", ["bleu", "nats", "exact_match", "accuracy", "bits_per_byte"])
def test_differences_are_those_of_the_records(metric: str, tmp_path: Path) -> None:
    """Keeps out a difference that is turned round, of another metric, bucket or mean."""
    folder = with_rows(tmp_path, SHARES, metric)
    found = find(folder)
    assert found is not None
    (comparison,) = found.comparisons
    assert (comparison.test, comparison.metric) == ("length", metric)
    assert comparison.buckets == [list(bucket) for bucket in BUCKETS]
    groups = reading.by_model(reading.load_records(folder))
    means = {m: reading.scores(g, "length", metric)[..., 0].mean(0) for m, g in groups.items()}
    assert [(p.row, p.column) for p in comparison.pairs] == [
        (row, column) for column, row in combinations(SHARES, 2)
    ]
    for pair in comparison.pairs:
        assert pair.n_seeds == [len(SHARES[pair.row]), len(SHARES[pair.column])]
        parts = [part.value for part in (pair.overall, *pair.buckets)]
        assert parts == pytest.approx(means[pair.row] - means[pair.column], abs=1e-9)


def test_all_pairs_and_buckets_are_corrected_together(folder: Path) -> None:
    """Keeps out Holm's correction for the pairs of one bucket alone, and for none."""
    found = find(folder)
    assert found is not None
    (comparison,) = found.comparisons
    parts = [part for pair in comparison.pairs for part in (pair.overall, *pair.buckets)]
    assert comparison.n_corrected == len(parts) == 12
    assert [part.p_holm for part in parts] == pytest.approx(holm([part.p for part in parts]))
    far, near = comparison.pairs[0].overall, comparison.pairs[2].overall
    assert (far.is_significant, near.is_significant) == (True, False)


def test_one_seed_is_never_significant(tmp_path: Path) -> None:
    """Keeps out a difference between two trainings as one between two architectures."""
    folder = with_rows(tmp_path, SHARES | {"rnn_encdec": (0.1,)})
    found = find(folder)
    assert found is not None
    (comparison,) = found.comparisons
    assert comparison.n_corrected == 4
    for pair in comparison.pairs:
        is_alone = "rnn_encdec" in (pair.row, pair.column)
        for part in (pair.overall, *pair.buckets):
            assert part.p is not None
            assert (part.p_holm is None) == is_alone
            assert not (is_alone and part.is_significant)


def test_rows_of_a_text_are_drawn_together(folder: Path) -> None:
    """Keeps out groups that get lost between the rows and the test."""
    alone = find(folder)
    for path in folder.glob("*.jsonl"):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        rows = [row | {"group": i % 15} for i, row in enumerate(rows)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    together = find(folder)
    assert alone is not None
    assert together is not None
    one, other = (found.comparisons[0].pairs[0].overall for found in (alone, together))
    assert one.value == other.value
    assert one.p != other.p


def test_the_file_outlives_the_rows(folder: Path, tmp_path: Path) -> None:
    """Keeps out differences that are lost with the rows, which are not committed."""
    drawn = figures.plot_folder(folder, tmp_path / "out")
    names = {path.name for path in drawn}
    assert {"significance.json", "significance-length.svg", "significance-length.png"} <= names
    kept = json.loads(keep(folder).read_text(encoding="utf-8"))
    for name, checksum in kept["records"].items():
        assert checksum == hashlib.sha256((folder / name).read_bytes()).hexdigest()
    assert len(kept["records"]) == 8
    for path in figures.plot_folder(folder):
        assert path.read_bytes() == (tmp_path / "out" / path.name).read_bytes(), path.name


def test_without_rows_and_file_nothing_is_compared(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out an error, or a comparison of some of the seeds."""
    (folder / "gpt-seed2.jsonl").unlink()
    drawn = figures.plot_folder(folder)
    assert not [path for path in drawn if path.name.startswith("significance")]
    assert "differences" not in (folder / "tables.md").read_text(encoding="utf-8")
    assert capsys.readouterr().err == ""


def change(folder: Path, name: str = "gpt-seed1.json", **fields: Any) -> None:
    """Change a record."""
    record = json.loads((folder / name).read_text(encoding="utf-8"))
    (folder / name).write_text(json.dumps(record | fields), encoding="utf-8")


def test_a_file_of_other_records_is_made_anew(folder: Path) -> None:
    """Keeps out differences of runs that have been trained again."""
    before = find(folder)
    assert before is not None
    (folder / significance.FILE).write_text(before.text(), encoding="utf-8")
    with_rows(folder, {"gpt": (0.2, 0.3)})
    after = find(folder)
    assert after is not None
    assert after.records != before.records
    assert after.comparisons[0].pairs[2].overall.value < -10


def test_a_file_of_other_records_is_refused_without_rows(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out stale differences in figures that are up to date."""
    path = keep(folder)
    change(folder, train_s=1.0)
    drawn = figures.plot_folder(folder)
    assert not [p for p in drawn if p.name.startswith("significance")]
    assert capsys.readouterr().err == (
        f"not drawn: {path} was made from other records; it cannot be made anew without "
        "rnn_encdec-seed1.jsonl, so restore the records, or delete it\n"
    )


def swap(folder: Path) -> None:
    """Exchange the rows of two seeds."""
    one, other = (folder / f"gpt-seed{seed}.jsonl" for seed in (1, 2))
    texts = one.read_bytes(), other.read_bytes()
    one.write_bytes(texts[1])
    other.write_bytes(texts[0])


def shuffle(folder: Path) -> None:
    """Put the rows of one run in another order."""
    path = folder / "gpt-seed1.jsonl"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))


def cut(folder: Path) -> None:
    """Cut the rows of one run short."""
    path = folder / "gpt-seed1.jsonl"
    path.write_text(path.read_text()[:-20])


def empty(folder: Path) -> None:
    """Leave no rows."""
    (folder / "gpt-seed1.jsonl").write_text("")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (swap, r"gpt-seed1\.jsonl does not hold the rows of its record \(bleu is .*, not .*\)$"),
        (shuffle, r"gpt-seed1\.jsonl: its test examples are not those of the other runs$"),
        (cut, r"gpt-seed1\.jsonl does not hold the rows of its record \("),
        (empty, r"gpt-seed1\.jsonl does not hold the rows of its record \(no 'length'\)$"),
    ],
)
def test_rows_must_be_those_of_the_records(
    spoil: Callable[[Path], None], why: str, folder: Path
) -> None:
    """Keeps out a test between rows that do not belong together."""
    spoil(folder)
    with pytest.raises(ValueError, match=why):
        find(folder)


def spoilt(value: Any, path: list[Any], new: Any) -> Any:
    """Return a JSON value in which the part at the path is another."""
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = spoilt(value[path[0]], path[1:], new)
    return copy


FIRST = ["comparisons", 0, "pairs", 0]


@pytest.mark.parametrize(
    ("path", "new", "why"),
    [
        (
            ["schema"],
            "seqmodels.significance/2",
            r"schema: Input should be 'seqmodels.significance/1'$",
        ),
        ([*FIRST, "overall", "p"], 1.5, "less than or equal to 1"),
        ([*FIRST, "overall", "value"], float("nan"), "finite number"),
        ([*FIRST, "overall"], {}, "lacks the field"),
        ([*FIRST, "row"], "../gpt", "pattern"),
        ([*FIRST, "row"], "gpt", "does not hold the pairs and buckets of its records; delete it$"),
        ([*FIRST, "n_seeds"], [3, 2], "does not hold the pairs and buckets of its records"),
        ([*FIRST, "buckets"], [], "does not hold the pairs and buckets of its records"),
        (["comparisons", 0, "test"], "other", "does not hold the pairs and buckets"),
        (["comparisons"], [], "at least 1 item"),
    ],
)
def test_a_file_edited_by_hand_is_refused(
    path: list[Any], new: Any, why: str, folder: Path
) -> None:
    """Keeps out a figure of differences that nobody has computed, and a traceback."""
    file = keep(folder)
    file.write_text(json.dumps(spoilt(json.loads(file.read_text()), path, new)))
    with pytest.raises(ValueError, match=why) as error:
        find(folder)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(str(file))


def test_a_metric_without_sums_is_not_compared(tmp_path: Path) -> None:
    """Keeps out an error where a test set shows a score that is not one of sums first."""
    assert find(with_rows(tmp_path / "a", SHARES, "perplexity")) is None
    assert find(with_rows(tmp_path / "b", {"gpt": (0.5, 0.6)})) is None


def test_a_comparison_ends_with_its_differences(tmp_path: Path) -> None:
    """Keeps out a comparison whose rows never meet their test."""
    args = flags(tmp_path, models=["rnn_encdec", "gpt"], seeds=[1, 2])
    compare.compare(toy(), args)
    found = significance.load(tmp_path / significance.FILE)
    (pair,) = found.comparisons[0].pairs
    assert (pair.row, pair.column, pair.n_seeds) == ("gpt", "rnn_encdec", [2, 2])
    assert (tmp_path / "significance-length.svg").exists()
    groups = reading.by_model(reading.load_records(tmp_path))
    means = {
        m: np.mean(reading.scores(g, "length", "accuracy")[:, 0, 0]) for m, g in groups.items()
    }
    assert pair.overall.value == pytest.approx(means["gpt"] - means["rnn_encdec"])


RESULTS = Path(__file__).parents[1] / "results"


@pytest.mark.parametrize(
    "folder", sorted(p.parent for p in RESULTS.glob("*/tables.md")), ids=lambda folder: folder.name
)
def test_committed_differences_are_those_of_the_committed_records(folder: Path) -> None:
    """Keeps out a record that is made again without the differences, and the reverse."""
    found = significance.find(folder, reading.load_by_file(folder))
    assert (found is not None) == (folder / significance.FILE).exists() or has_rows(folder)


def has_rows(folder: Path) -> bool:
    """Return whether the rows are there, from which the differences can be made."""
    return any(folder.glob("*.jsonl"))
