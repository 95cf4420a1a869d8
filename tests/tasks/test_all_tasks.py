"""The tasks in every size, and the driver that runs all of them."""

import hashlib
import json
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from conftest import RESULTS, ROOT, Run, check_folder
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator
from toys import load_records

from seqmodels import MODELS
from seqmodels.experiments.sweep import make_spec, model_sizes
from seqmodels.models import VARIANTS
from seqmodels.report import figures, style
from seqmodels.utils import files
from tasks import __main__ as everything
from tasks.copy import __main__ as recall
from tasks.next_token import __main__ as next_token
from tasks.translation import __main__ as translation

MEASURED = ["best_state", "controls", "places", "prefixes"]
PAIR = ["rnn_encdec", "bahdanau"]
LSTM, TRANSFORMER = ["lstm_seq2seq", "lstm_seq2seq_forward"], ["transformer"]
WRONG = [*TRANSFORMER, "transformer_no_bos", "transformer_wrong_axis"]
slow = pytest.mark.slow
RUNS = [
    ("copy --bits", ["rnn_encdec_32", "bahdanau_2"], [1, 2, 3, 4], [], "bits most-bits"),
    ("bottleneck --best-state 3", PAIR, [1, 11], MEASURED, "best-state prefixes"),
    ("translation --preset ladder", [*LSTM, "lstm_seq2seq_dot_fed"], [1, 6, 11, 16], [], "rungs"),
    pytest.param("mistakes", WRONG, [1, 11], ["losses"], "mistakes", marks=slow),
    pytest.param("copy", [*MODELS], [4, 8, 16], [], "score-copy score-reverse", marks=slow),
]
"""Tasks, models, where buckets of the first test set begin, analyses, and figures."""


@pytest.mark.parametrize(("name", "models", "lows", "analyses", "drawn"), RUNS)
def test_tasks_run(name, models, lows, analyses, drawn, run: Run, tmp_path: Path) -> None:
    name, *flags = name.split()
    module = import_module(f"tasks.{name}.__main__")
    assert run(module, *flags, "--models", *models, "--out", tmp_path) == 0
    for made in check_folder(tmp_path, models):
        assert [bucket.low for bucket in made.tests[0].buckets] == lows
        assert [*made.analyses] == analyses
    assert {f"{name}.svg" for name in drawn.split()} <= {path.name for path in tmp_path.iterdir()}


DATA = {
    "copy": "04f2a8ac", "copy --bits": "631b4d85", "memory": "40afa60f", "bottleneck": "afcff6bc",
    "memory --preset again": "8a1e4867", "memory --preset hops": "3d7ee5d3",
    "memory --preset cups-5": "51af63b0", "next_token": "f86ac39d", "translation": "c3691c2f",
    "translation --preset ladder": "900b29d1", "translation --preset parts": "3f18173f",
    "translation --preset constants": "3f18173f", "translation --preset positions": "69367609",
}  # fmt: skip
"""The digest of each task's data."""
RECORDED = {
    "copy": "recall", "memory": "lookup", "memory --preset again": "lookup-again",
    "memory --preset cups-5": "tracking-5", "memory --preset hops": "lookup-hops",
    "translation --preset ladder": "ladder", "translation --preset constants": "constants",
    "translation --preset positions": "positions", "copy --bits": "bits-optimised",
}  # fmt: skip
"""The folders of records that were made with the recipes as they are."""


@pytest.mark.parametrize("command", DATA)
def test_the_data_of_a_task_stay(command: str) -> None:
    """What is trained and tested on, in the size of smoke: its draws, and what is known of it."""
    name, *flags = command.split()
    module = import_module(f"tasks.{name}.__main__")
    task = module.make_task(module.PARSER.parse([*flags, "--size", "smoke", "--tokens", "77"]))
    assert task.training["tokens"] == 77
    known = [(t.x, t.buckets, t.max_train_length, t.groups, t.baseline) for t in task.tests]
    drawn = [task.train, task.valid, *(test.examples for test in task.tests)]
    text = repr([known, [[*map(tuple, examples)] for examples in drawn], task.alignment_example])
    assert hashlib.sha256(text.encode()).hexdigest()[:8] == DATA[command]
    for made in load_records(RESULTS / RECORDED[command]) if command in RECORDED else []:
        assert (made.task, made.data.name) == (task.name, task.data["name"])
        if not made.arm:
            bases = [base for model, base in task.contrasts if model == made.model]
            assert [*(made.contrasts or ())] == bases, made.model
            for name in task.training.keys() & {"batch_tokens", "n_validations"}:
                assert getattr(made.train_config, name) == task.training[name], made.model
        if recipe := task.recipes.get(made.model):
            changed = [k for k, size in recipe.sizes.items() if made.settings[k] != size]
            assert changed in ([], ["n_positions"]), made.model  # longer texts need more
            assert recipe.lr == made.train_config.lr, made.model
            if "d_model" not in recipe.sizes and command != "copy --bits":
                assert made.n_parameters == pytest.approx(task.n_parameters, rel=0.05)


FIGURES = {
    "heads-gpt": "49f54ee3", "smoothing": "5afedf77", "words": "054a1962", "nouns": "16f280c5",
    "budgets": "974d88aa", "translation-bible-30m": "18eb1bd1", "vector": "a9262583",
    "ladder": "e8da2016", "ladder-bias": "aafa9660", "ladder-transformer": "2fb471a8",
    "bits-optimised": "6426539b", "lookup-width-64": "3259e2e2", "mistakes": "c983af03",
    "bottleneck": "f76678d5", "halves": "b7e2c9b2",
}  # fmt: skip
"""The digest of each folder's figures; it changes with its records."""


def list_drawn(ax: Axes) -> list[Any]:
    """Return the numbers of what is drawn and of titles, and texts inside and along the axes."""
    areas = [area.get_array() for area in ax.collections]
    areas += [path.vertices for area in ax.collections for path in area.get_paths()[:99]]
    drawn = [line.get_xydata() for line in ax.lines] + [bar.get_bbox() for bar in ax.patches]
    numbers = [np.round(np.ma.filled(x, 0), 3).tolist() for x in (*drawn, *areas) if x is not None]
    named = [axis for axis in (ax.xaxis, ax.yaxis) if isinstance(axis.major.locator, FixedLocator)]
    texts = [*ax.texts, *(label for axis in named for label in axis.get_ticklabels())]
    title = re.findall(r"[\d.]+", ax.get_title("left"))
    return [numbers, title, [text.get_text() for text in texts]]


@pytest.mark.parametrize("folder", FIGURES)
def test_the_figures_of_a_folder_stay(folder: str) -> None:
    records = load_records(RESULTS / folder)
    with style.context():
        drawn = [each(records) for each in figures.drawings_of(records[0].task, "FIGURES")]
    shown = [(name, *map(list_drawn, it.axes)) for own in drawn for name, it in own.items()]
    assert shown
    assert hashlib.sha256(repr(shown).encode()).hexdigest()[:8] == FIGURES[folder]


def test_each_folder_of_results_has_its_command_and_precision() -> None:
    text, found, listed = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8"), {}, {}
    for folder, _, flags in (*everything.BUILTIN, *everything.FULL, *everything.CORPORA):
        listed.setdefault(folder, set()).add("bfloat16" if "bfloat16" in flags else "float32")
    for path in RESULTS.glob("*/*-seed*.json"):
        precision = json.loads(path.read_text(encoding="utf-8"))["train_config"]["precision"]
        found.setdefault(path.parent.name, set()).add(precision)
    own = found.keys() - {*re.findall(r"`([\w-]+)`", text)}
    assert {k: listed.get(k) for k in own} == {k: found[k] for k in own}


def test_a_flag_replaces_a_comparisons_own(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    passed, out = [], tmp_path / "results"
    monkeypatch.setattr(everything, "run", lambda *given: passed.append(given[2]))
    monkeypatch.setattr(figures, "plot_results", lambda folder: [folder / "all.svg"])
    own = "--vary lr=1,2 --set d_model=8 --frozen OUT/first"
    forwarded = ["--vary", "lr=3", "--set", "warmup=0.1"]
    everything.run_all(out, [("kept", "bottleneck", own)], forwarded)
    left = ["--set", "d_model=8", "--frozen", f"{out}/first", *forwarded]
    assert passed == [[*left, "--out", f"{out}/kept"]]
    assert capsys.readouterr().out.splitlines()[-1] == f"{out}/all.svg"


def write_short_files(folder: Any, *_: object) -> list[Path]:
    path = Path(getattr(folder, "path", folder))
    return [files.write(path / name, "](curves.svg)") for name in ("score-length.svg", "tables.md")]


def test_the_driver_runs_choices(run: Run, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(figures, "plot_folder", write_short_files)
    parts = {"BUILTIN": ("keys", "copy", ""), "FULL": ("more", "copy", "--seeds 4")}
    for part, comparison in (parts | {"CORPORA": ("text", "nothing", "")}).items():
        monkeypatch.setattr(everything, part, [comparison])
    given = everything, "--models", "lstm_seq2seq", "--out", tmp_path / "results"
    assert run(*given) == 0
    assert sorted(path.name for path in tmp_path.glob("results/*/")) == ["keys"]
    assert run(*given, "--full") == 0
    found = sorted(f"{p.parent.name}/{p.stem}" for p in tmp_path.glob("results/*/*-seed*.json"))
    assert found == ["keys/lstm_seq2seq-seed1", "more/lstm_seq2seq-seed4"]
    assert capsys.readouterr().out.count("recorded in") == 1
    assert run(*given, "--layers", 3) == 2


@pytest.mark.parametrize("task", [recall, translation, next_token], ids=lambda task: task.__name__)
def test_every_size_can_be_built(task: ModuleType) -> None:
    fitted = {}
    for size, numbers in task.SIZES.items():
        few = {k: min(n, 40) if k in ("n_train", "n_valid") else n for k, n in numbers.items()}
        few |= {"per_bucket": 5} if task is translation else {}
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(task.SIZES, size, few)
            args = task.PARSER.parse_args(["--size", size])
            built = task.make_task(args)
            if size == "smoke":  # no chance in the data
                assert task.make_task(args).data == built.data
        longest = 0
        for examples in (built.train, built.valid, *(test.examples for test in built.tests)):
            assert examples
            longest = max(longest, *(len(e.src) + len(e.tgt) for e in examples))
        assert longest <= built.recipes["gpt"].sizes["n_positions"]
        assert built.recipes.keys() - VARIANTS.keys() == MODELS.keys()
        fitted[built.n_parameters] = built
        for test in built.tests:
            assert len(test.x) == len(test.examples)
            assert all(any(low <= x <= high for low, high in test.buckets) for x in test.x)
    for built in fitted.values():
        assert all(model_sizes(make_spec(name), built) for name in MODELS)  # a width for each
