"""Differences between the models of a folder: from the sums of its rows, beside its records."""

from __future__ import annotations

import gzip
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

from seqmodels.cli.compare import compare_and_report
from seqmodels.evaluation import intervals
from seqmodels.evaluation.metrics import metric_of
from seqmodels.records import record as records
from seqmodels.records import significance
from seqmodels.records.significance import Significance, holm
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
    return significance.find(folder, reading.load_folder(folder).records)


def keep(folder: Path) -> Path:
    """Write the file and delete the sums; return the file."""
    found = find(folder)
    assert found is not None
    (folder / significance.FILE).write_text(found.text(), encoding="utf-8")
    for path in folder.glob(f"*{records.SUMS_SUFFIX}"):
        path.unlink()
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
    for record in reading.load_records(folder):
        lines = (folder / record["hypotheses"]).read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) | {"group": f"text {i % 15}"} for i, line in enumerate(lines)]
        records.save_sums(records.sums_path(folder, record), record, rows)
    together = find(folder)
    assert alone is not None
    assert together is not None
    one, other = (found.comparisons[0].pairs[0].overall for found in (alone, together))
    assert one.value == other.value
    assert one.p != other.p


def test_the_file_outlives_the_sums(folder: Path, tmp_path: Path) -> None:
    """Keeps out differences that are lost with the sums, which older folders lack."""
    drawn = figures.plot_folder(folder, tmp_path / "out")
    names = {path.name for path in drawn}
    assert {"significance.json", "significance-length.svg", "significance-length.png"} <= names
    kept = json.loads(keep(folder).read_text(encoding="utf-8"))
    for name, checksum in kept["records"].items():
        assert checksum == hashlib.sha256((folder / name).read_bytes()).hexdigest()
    assert len(kept["records"]) == 8
    for path in figures.plot_folder(folder):
        assert path.read_bytes() == (tmp_path / "out" / path.name).read_bytes(), path.name


def test_without_sums_and_file_nothing_is_compared(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out an error, or a comparison of some of the seeds."""
    (folder / "gpt-seed2.sums.json.gz").unlink()
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


def test_a_file_of_other_records_is_refused_without_sums(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out stale differences in figures that are up to date."""
    path = keep(folder)
    change(folder, train_s=1.0)
    drawn = figures.plot_folder(folder)
    assert not [p for p in drawn if p.name.startswith("significance")]
    assert capsys.readouterr().err == (
        f"not drawn: {path} was made from other records; it cannot be made anew without "
        "rnn_encdec-seed1.sums.json.gz, so restore the records, or delete it\n"
    )


def test_models_that_came_later_are_left_out_without_sums(folder: Path) -> None:
    """Keeps out losing the differences of five models because a sixth was trained."""
    kept = json.loads(keep(folder).read_text(encoding="utf-8"))
    later = json.loads((folder / "gpt-seed1.json").read_text(encoding="utf-8"))
    later |= {"model": "transformer", "hypotheses": "transformer-seed1.jsonl", "n_parameters": 7}
    (folder / "transformer-seed1.json").write_text(json.dumps(later), encoding="utf-8")
    drawn = figures.plot_folder(folder)
    assert json.loads((folder / significance.FILE).read_text(encoding="utf-8")) == kept
    (matrix,) = [path for path in drawn if path.name == "significance-length.svg"]
    assert "Transformer" not in matrix.read_text(encoding="utf-8")
    assert "Transformer" in (folder / "score-length.svg").read_text(encoding="utf-8")


def test_models_that_came_later_are_compared_with_sums(folder: Path, tmp_path: Path) -> None:
    """Keeps out a matrix that never grows."""
    later = {path: shutil.move(path, tmp_path) for path in folder.glob("gpt-*")}
    before = find(folder)
    assert before is not None
    (folder / significance.FILE).write_text(before.text(), encoding="utf-8")
    for path, moved in later.items():
        shutil.move(moved, path)
    after = find(folder)
    assert after is not None
    assert (len(before.comparisons[0].pairs), len(after.comparisons[0].pairs)) == (1, 3)


def test_models_that_are_gone_are_not_shown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out differences from records that are not there."""
    keep(folder)
    for path in folder.glob("gpt-*"):
        path.unlink()
    figures.plot_folder(folder)
    assert "was made from other records" in capsys.readouterr().err


def test_seeds_that_came_later_are_not_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out a matrix of some of the seeds that the other figures show."""
    keep(folder)
    later = json.loads((folder / "gpt-seed1.json").read_text(encoding="utf-8"))
    later |= {"seed": 9, "hypotheses": "gpt-seed9.jsonl"}
    (folder / "gpt-seed9.json").write_text(json.dumps(later), encoding="utf-8")
    figures.plot_folder(folder)
    assert "was made from other records" in capsys.readouterr().err


SPOILT = "gpt-seed1.sums.json.gz"


def rewrite(folder: Path, **fields: Any) -> None:
    """Change the sums of one run."""
    stored = json.loads(gzip.decompress((folder / SPOILT).read_bytes()))
    stored["tests"]["length"] |= fields
    (folder / SPOILT).write_bytes(gzip.compress(json.dumps(stored).encode()))


def swap(folder: Path) -> None:
    """Exchange the sums of two seeds."""
    one, other = folder / SPOILT, folder / "gpt-seed2.sums.json.gz"
    contents = one.read_bytes(), other.read_bytes()
    one.write_bytes(contents[1])
    other.write_bytes(contents[0])


def others(folder: Path) -> None:
    """Let one run be tested on other examples."""
    rewrite(folder, examples="0" * 64)


def few(folder: Path) -> None:
    """Let one run have fewer lengths than examples."""
    rewrite(folder, x=[1])


def none(folder: Path) -> None:
    """Leave no columns."""
    rewrite(folder, columns=[[1], []])


def cut(folder: Path) -> None:
    """Cut the file of one run short."""
    path = folder / SPOILT
    path.write_bytes(path.read_bytes()[:-20])


def text(folder: Path) -> None:
    """Put text in its place."""
    (folder / SPOILT).write_text("{}")


def large(folder: Path) -> None:
    """Put a file in its place that grows without end when it is unzipped."""
    (folder / SPOILT).write_bytes(gzip.compress(b" " * (records.MAX_SUMS_BYTES + 1), 1))


START = r"gpt-seed1\.sums\.json\.gz"


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (swap, rf"{START} does not hold the sums of its record \(bleu is .*, not .*\)$"),
        (others, rf"{START}: its test examples are not those of the other runs$"),
        (few, rf"{START} does not hold .* \(columns, x and groups differ in length\)$"),
        (none, rf"{START} does not hold .* \(.*\)$"),
        (cut, rf"{START} does not hold .* \(cut short, or longer than .* bytes\)$"),
        (text, rf"{START} does not hold .* \(Error .* incorrect header check\)$"),
        (large, rf"{START} does not hold .* \(cut short, or longer than .* bytes\)$"),
    ],
)
def test_sums_must_be_those_of_the_records(
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
        ([*FIRST, "overall"], {}, "value: Field required"),
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
    compare_and_report(toy(), args)
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
    found = significance.find(folder, reading.load_folder(folder).records)
    assert (found is not None) == (folder / significance.FILE).exists() or has_sums(folder)


def has_sums(folder: Path) -> bool:
    """Return whether the sums are there, from which the differences can be made."""
    return any(folder.glob(f"*{records.SUMS_SUFFIX}"))


def test_sums_come_back(tmp_path: Path) -> None:
    """Keeps out sums that differ from those of the rows, and other texts that look the same."""
    digests = set()
    for metric, share in (("bleu", 0.5), ("exact_match", 0.6), ("nats", 0.7)):
        folder = with_rows(tmp_path / metric, {"gpt": (share,)}, metric)
        (record,) = reading.load_records(folder)
        lines = (folder / record["hypotheses"]).read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        (found,) = records.load_sums(records.sums_path(folder, record), record).values()
        direct = metric_of(metric).terms(rows, "13a")
        assert direct is not None
        assert np.array_equal(found.terms, direct)
        assert list(found.x) == [row["x"] for row in rows]
        digests.add(found.examples)
        other = [row | {"ref": row["ref"] + "!"} for row in rows]
        records.save_sums(tmp_path / "other", record, other)
        stored = json.loads(gzip.decompress((tmp_path / "other").read_bytes()))
        assert stored["tests"]["length"]["examples"] != found.examples
    assert len(digests) == 1  # the same sentences, whatever is measured
