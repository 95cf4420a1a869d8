"""The tasks: all of them at toy size, in every size, and from a seed."""

from __future__ import annotations

import argparse
import itertools
import os
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import Run

from seqmodels import MODELS, build
from seqmodels.cli import compare
from seqmodels.comparison.arm import count_parameters, model_sizes
from seqmodels.comparison.runs import check_same_settings, settings_of, shared_settings
from seqmodels.comparison.task import Task
from seqmodels.data import presets
from seqmodels.data.corpus import SPLITS
from seqmodels.models import VARIANTS
from seqmodels.records import record
from seqmodels.report import figures, reading
from seqmodels.utils import files
from tasks import __main__ as everything
from tasks.next_token import __main__ as next_token
from tasks.recall import __main__ as recall
from tasks.translation import __main__ as translation

DATA = Path(os.environ.get("SEQMODELS_DATA", Path(__file__).parents[1] / "../shared/data"))


def write_nothing_much(folder: Any, **_: object) -> list[Path]:
    """Write empty files in place of a folder's figures and tables."""
    path = Path(getattr(folder, "path", folder))
    return [files.write(path / name, "") for name in ("score-length.svg", "tables.md")]


def test_all_results_are_made_again(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Keeps out a comparison that is left out or made twice, and drawing what has failed."""
    monkeypatch.setitem(next_token.SIZES["smoke"], "max_test", 128)
    monkeypatch.setattr(figures, "plot_folder", write_nothing_much)
    monkeypatch.setenv("SEQMODELS_DATA", str(tmp_path))
    for folder, called in (("bible", {}), ("multi30k", {"test": "test_2016_flickr"})):
        (tmp_path / folder).mkdir()
        for split, code in itertools.product(SPLITS, ("de", "en")):
            path = tmp_path / folder / f"{called.get(split, split)}.{code}"
            path.write_text(f"{split} {code}\n" * 2)
    said = "so he said and went\n" * 2_000
    for name in ("shakespeare", "war-and-peace"):
        path = tmp_path / presets.TEXT[name].local
        path.parent.mkdir()
        path.write_text(f"*** START OF THIS ***\n{said}*** END OF THIS ***\n")
    tiny = {"n_parameters": 300_000}
    for task, name in ((translation, "FROM_ENGLISH"), (translation, "MULTI30K")):
        monkeypatch.setitem(
            task.CORPUS_RECIPES,
            ("multi30k", "en" if "ENGLISH" in name else "de"),
            getattr(task, name)._replace(**tiny),
        )
    out = tmp_path / "results"
    flags = "--models", "lstm_seq2seq", "--seeds", 1, "--out", out
    given = everything, "--full", "--corpora", *flags
    assert run(*given) == 0
    (records,) = zip(*(reading.load_records(path) for path in sorted(out.glob("*/"))), strict=True)
    sources = [
        *["random symbols"] * 2,
        *["symbols said twice"] * 2,
        *["English–German grammar"] * 4,
        *["keys and values"] * 5,
        "stories", "shakespeare", "war-and-peace",
        *["English–German grammar"] * 2, "random symbols", *["bible de→en"] * 2,
        *["English–German grammar"] * 2, "multi30k de→en, lower-cased",
        "multi30k en→de, lower-cased",
    ]  # fmt: skip
    assert [made["data"]["name"] for made in records] == sources
    drawn = (out / "README.md").read_text()
    folders = sorted(path.name for path in out.glob("*/"))
    assert re.findall("## (.*)", drawn) == [*folders, "widths-lookup"]
    capsys.readouterr()
    assert run(*given) == 0
    n_comparisons = len([*everything.BUILTIN, *everything.FULL, *everything.CORPORA])
    assert capsys.readouterr().out.count("recorded in") == n_comparisons
    (out / "README.md").unlink()
    assert run(*given, "--layers", 3) == 2
    assert not (out / "README.md").exists()


@pytest.mark.parametrize(
    ("task", "size"),
    [(task, size) for task in (recall, translation, next_token) for size in task.SIZES],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_every_size_can_be_built(task: ModuleType, size: str) -> None:
    """Keeps out a size whose test has no example, whose GPT has too few positions, or no width."""
    sizes = task.SIZES[size]
    few = {k: min(n, 40) if k in ("n_train", "n_valid") else n for k, n in sizes.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(task.SIZES, size, few)
        given = {"size": size, "tokens": None, "context": 128, "no_source_eos": False}
        make_task = getattr(task, "builtin_task", task.make_task)
        made = make_task(argparse.Namespace(**given))
    longest = 0
    for examples in (made.train, made.valid, *(test.examples for test in made.tests)):
        assert examples
        longest = max(longest, *(len(e.src) + len(e.tgt) for e in examples))
    assert longest <= made.recipes["gpt"].sizes["n_positions"]
    assert made.recipes.keys() - VARIANTS.keys() == MODELS.keys()
    assert [model_sizes(name, made)["vocab_size"] for name in MODELS]  # a width for each
    for test in made.tests:
        assert len(test.x) == len(test.examples)
        assert all(any(low <= x <= high for low, high in test.buckets) for x in test.x)


@pytest.mark.usefixtures("undrawn")
def test_one_seed_gives_one_result(run: Run, tmp_path: Path) -> None:
    """Keeps out chance: the same command writes the same hypotheses, byte by byte."""
    models = ["transformer", "rnn_encdec"]
    for out in ("one", "two"):
        assert run(recall, "--models", *models, "--out", tmp_path / out, "--seeds", 3) == 0
    for name in models:
        one, two = (tmp_path / out / f"{name}-seed3.json" for out in ("one", "two"))
        assert one.with_suffix(".jsonl").read_bytes() == two.with_suffix(".jsonl").read_bytes()
        first, second = record.load(one), record.load(two)
        for key in ("tests", "alignment", "model_config", "train_config", "data", "n_parameters"):
            assert first[key] == second[key]
        timeless = [[p | {"seconds": 0} for p in r["curve"]] for r in (first, second)]
        assert timeless[0] == timeless[1]


@pytest.mark.usefixtures("undrawn")
def test_seeds_differ(run: Run, tmp_path: Path) -> None:
    """Keeps out several seeds that are the same run, and a spread of zero."""
    flags = "--models", "rnn_encdec", "--seeds", 1, 2, "--out", tmp_path
    assert run(recall, *flags) == 0
    one, two = reading.load_records(tmp_path)
    assert (one["seed"], two["seed"]) == (1, 2)
    assert one["data"] == two["data"]
    assert one["tests"][0]["overall"]["nats"] != two["tests"][0]["overall"]["nats"]


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real text at {DATA}")
@pytest.mark.parametrize(("name", "module", "flags"), everything.CORPORA, ids=lambda x: x[:30])
def test_committed_records_are_accepted(
    name: str, module: str, flags: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out real text that is prepared in another way than for the committed records."""
    monkeypatch.setenv("SEQMODELS_DATA", str(DATA))
    made: list[Task] = []
    task = import_module(f"tasks.{module}.__main__")
    monkeypatch.setattr(compare, "compare_and_report", lambda task, args: made.append(task))
    with pytest.raises(SystemExit):
        task.main(flags.split())
    for path in (Path(__file__).parents[1] / "results" / name).glob("*-seed*.json"):
        check_same_settings(path, settings_of(record.load(path)), shared_settings(made[0]))


def test_the_paper_sizes_are_not_built(run: Run) -> None:
    """Keeps out a recipe that leaves a size to the paper: a laptop would train 100 M."""
    for task, n in ((recall, 500_000), (translation, 1_000_000), (next_token, 1_000_000)):
        for name, recipe in task.RECIPES.items():
            model = build(name, 100, d_model=64, **recipe.sizes)
            assert count_parameters(model) < n


def test_the_driver_trains_the_models_of_the_records_by_width() -> None:
    """Keeps out a figure by width that the driver makes with other models than its records."""
    by_width = [one for one in everything.FULL if one[0].startswith("lookup-width-")]
    assert len(by_width) == 4
    for name, task, own_flags in by_width:
        found = (Path(__file__).parents[1] / "results" / name).glob("*-seed*.json")
        trained = {path.name.split("-seed")[0] for path in found}
        args = import_module(f"tasks.{task}.__main__").PARSER.parse_args(own_flags.split())
        assert {*args.models} == trained
        assert name == f"lookup-width-{args.width}"
