"""What all tests share: executed shapes, fixed seeds, tiny models.

Every annotation in `seqmodels` is executed while the tests run, shapes included: a tensor that
is not what the signature says stops the test. As for other type checkers, an int is a float.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import jaxtyping
import pytest
import torch
from filelock import FileLock
from matplotlib.figure import Figure
from torch import Tensor

assert "seqmodels" not in sys.modules, "the hook must come before the first import of seqmodels"
INT_IS_FLOAT = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
jaxtyping.install_import_hook("seqmodels", INT_IS_FLOAT)

from toys import V, load_records, options, toy  # noqa: E402

from seqmodels import MODELS, SequenceModel, build, models  # noqa: E402
from seqmodels.data import tokenizers  # noqa: E402
from seqmodels.experiments import sweep  # noqa: E402
from seqmodels.experiments.launch import compare  # noqa: E402
from seqmodels.models import INFOS, PAPERS, model_of, paper_of  # noqa: E402
from seqmodels.models.variants import table  # noqa: E402
from seqmodels.records import io as record  # noqa: E402
from seqmodels.records.schema import Record  # noqa: E402
from seqmodels.report import figures, style  # noqa: E402
from seqmodels.utils import files  # noqa: E402
from tools.sizes import sizes_of  # noqa: E402

os.environ["HF_HUB_OFFLINE"] = "1"  # oracles are built from sizes, never downloaded
os.environ.pop("COLUMNS", None)  # which pytest-xdist sets: lines are as wide as without a terminal
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it for what is behind &
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored below nohup
torch.set_num_threads(1)  # tiny tensors wait longer for a second thread than they compute

SMALL = {
    "d_model": 16, "d_embed": 12, "d_maxout": 10, "d_align": 14, "d_ff": 24, "n_heads": 2,
    "n_layers": 2, "n_positions": 32, "d_state": 20, "d_vector": 18, "dropout": 0.0,
}  # fmt: skip
GONE = {info["class_path"] for info in table.GONE.values()}
COMPUTED = [name for name, info in INFOS.items() if info.class_path not in GONE]
"""All models and variants whose class is there."""
TINY = {name: sizes_of(name, **SMALL) for name in COMPUTED}
TINY |= {name: TINY[name] | {"n_heads": 4} for name in ("gpt_grouped", "gpt_2023")}
"""The sizes of each model and variant, of those that it has."""
ATTENDING = [name for name, paper in PAPERS.items() if paper.attends]
GROWING = [name for name in MODELS if PAPERS[name].memory == "grows"]
DECODER_ONLY = [name for name in COMPUTED if model_of(name) in ("gpt", "linear_attention")]
"""Models that read the source as the beginning of the target."""
UNPLACED = "gpt_rotary", "gpt_2023", "gpt_alibi", "gpt_none"
PLACED = [name for name in DECODER_ONLY if name not in UNPLACED]
"""Those of them that have learned positions."""


def n_positions(name: str, n: int) -> dict[str, int]:
    """Return the size that gives a model n positions, if it learns them."""
    return {"n_positions": n} if "n_positions" in TINY[name] else {}


TESTS = Path(__file__).parent
if (TESTS / "lesson").is_dir():  # its fixtures; another conftest.py would hide this one
    sys.path.append(str(TESTS / "lesson"))
    pytest_plugins = ["browser"]
ROOT = TESTS.parent
needs_lesson = pytest.mark.skipif(not (ROOT / "lesson").is_dir(), reason="there is no lesson/")
needs_tasks = pytest.mark.skipif(not (ROOT / "tasks").is_dir(), reason="there is no tasks/")
ABOUT = {
    "lesson": ["tools/test_opening.py"],
    "tasks": [
        "cli/test_error_messages.py", "test_benchmarks.py", "test_reading.py", "tools",
    ],
}  # fmt: skip
"""Modules that import a part which can be deleted, by that part."""
collect_ignore = [path for part, own in ABOUT.items() if not (ROOT / part).is_dir() for path in own]
RESULTS = ROOT / "results"
"""The committed records."""
DATA = Path(os.environ.get("SEQMODELS_DATA", ROOT / "../shared/data"))
"""The folder of real text, before tests change the environment."""

WIDTHS: dict[tuple[Any, ...], int] = {}
"""The widths that were fitted: toy tasks ask for the same ones again and again."""
fit_width = sweep.fit_width


def fit_once(spec: sweep.Spec, sizes: dict[str, Any], n_parameters: int) -> int:
    key = spec.model_type, *sorted(sizes.items()), n_parameters
    if key not in WIDTHS:
        WIDTHS[key] = fit_width(spec, sizes, n_parameters)
    return WIDTHS[key]


sweep.fit_width = fit_once
Tiny = Callable[..., SequenceModel]
Pairs = tuple[Tensor, Tensor, Tensor]
Run = Callable[..., int]
Call = Callable[..., tuple[int, str, str]]


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Share the suite among the cores; run named files here, where a debugger and print work."""
    return 0 if any(".py" in arg for arg in config.args) else None


@pytest.fixture(autouse=True, scope="session")
def _own_caches(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Leave the user's caches as they are."""
    os.environ["SEQMODELS_CACHE"] = str(tmp_path_factory.mktemp("prepared"))
    os.environ["HF_DATASETS_CACHE"] = str(tmp_path_factory.mktemp("datasets"))


VARIANTS = dict(models.VARIANTS)
"""Before any run of an arm, which can add it."""


@pytest.fixture(autouse=True)
def _built_in_variants() -> Iterator[None]:
    """Forget the arms that a test has registered."""
    models.VARIANTS.clear()
    models.VARIANTS.update(VARIANTS)
    yield
    models.VARIANTS.clear()
    models.VARIANTS.update(VARIANTS)


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> None:
    torch.manual_seed(20140603)


@pytest.fixture
def data() -> Path:
    """Return the folder of real text, or skip the test."""
    if not DATA.is_dir():
        pytest.skip(f"no real text at {DATA}")
    return DATA


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save the time of the figures where a test does not look at them."""
    monkeypatch.setattr(figures, "plot_folder", lambda *_, **__: [])


@pytest.fixture(params=MODELS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def fresh() -> Tiny:
    """Build a tiny model as a user gets it: in float32, started as its paper says."""

    def make(name: str, **sizes: Any) -> SequenceModel:
        return build(name, V, **TINY[name] | sizes).eval()

    return make


@pytest.fixture
def tiny(fresh: Tiny) -> Tiny:
    """Build a tiny model in float64, all parameters random: no zero hides a missing connection."""

    def make(name: str, **sizes: Any) -> SequenceModel:
        model = fresh(name, **sizes).double()
        for p in model.parameters():
            torch.nn.init.normal_(p, std=0.1 if name == "transformer_no_norm" else 0.4)
        return model

    return make


@pytest.fixture
def pairs() -> Pairs:
    """Draw four sources of 5, 1, 3 and 4 tokens with their mask, and inputs of 6 tokens."""
    n_real = torch.tensor([5, 1, 3, 4]).unsqueeze(1)
    src_mask = torch.arange(5) < n_real
    src = torch.randint(4, V, (4, 5)) * src_mask
    tgt_in = torch.cat([torch.ones(4, 1, dtype=torch.long), torch.randint(4, V, (4, 5))], 1)
    return src, src_mask, tgt_in


def make_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder that is made once for all processes of the suite."""
    root = factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    with FileLock(root / f"{name}.lock"):
        if not (made := root / f"{name}.made").exists():
            (root / name).mkdir()
            make(root / name)
            made.touch()
    return root / name


# ---------------------------------------------------------------------------- what runs to its end
def shorten_runs(patch: pytest.MonkeyPatch) -> None:
    """Draw a folder without PNGs and without a layout."""
    patch.setattr(Figure, "draw_without_rendering", lambda _: None)
    save = style.save
    patch.setattr(style, "save", lambda figure, path: (
        save(figure, path) if path.suffix == ".svg" else files.write(path, b"Software\0seqmodels")
    ))  # fmt: skip


def exit_code(patch: pytest.MonkeyPatch, program: ModuleType, *argv: object) -> int:
    patch.setattr(sys, "argv", [program.__name__, *map(str, argv)])
    try:
        if hasattr(program, "make_task"):
            import_module("tasks.flags").run(program.PARSER, program.make_task)
            return 0
        return program.main() or 0
    except SystemExit as stopped:
        return stopped.code or 0


@pytest.fixture(scope="session")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_once(tmp_path_factory, "compared", compare_toys)


def compare_toys(out: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        shorten_runs(patch)
        patch.setattr(figures, "plot_folder", lambda *_, **__: [])
        compare(toy(), options(out))


@pytest.fixture
def copied(compared: Path, tmp_path: Path) -> Path:
    """Copy the comparison, times included, to be changed."""
    return Path(shutil.copytree(compared, tmp_path / "copied"))


@pytest.fixture
def recorded_gpt(compared: Path, tmp_path: Path, undrawn: None) -> Path:
    """Copy the comparison's GPT alone, to be changed or forecast."""
    folder = tmp_path / "runs" / "gpt"
    folder.mkdir(parents=True)
    for path in (*compared.glob("gpt-seed1.*"), compared / "vocabulary.json"):
        shutil.copy2(path, folder)
    return folder


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save the time of PNGs where a test does not look at them."""
    shorten_runs(monkeypatch)


def task_of(name: str) -> ModuleType:
    """Return a task's command; the test is skipped where the tasks are missing."""
    return pytest.importorskip(f"tasks.{name}.__main__")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a task's command at toy size and returns its exit code."""
    shorten_runs(monkeypatch)
    for name, sizes in {
        "copy": {"per_length": 2, "max_train": 8, "max_test": 16},
        "translation": {"max_test": 20, "per_bucket": 3},
        "next_token": {"max_test": 32, "per_distance": 4},
    }.items():
        monkeypatch.setitem(task_of(name).SIZES, "smoke", {"n_train": 60, "n_valid": 6} | sizes)
    few = {"n_train": 60, "n_valid": 6, "max_train": 4, "per_length": 3}
    monkeypatch.setitem(task_of("copy").BITS_SIZES, "smoke", few)
    presets = pytest.importorskip("tasks.translation.presets")
    few = {"n_train": 60, "n_valid": 6, "max_train": 10}
    monkeypatch.setitem(presets.SIZES, "smoke", few)
    pairs = pytest.importorskip("tasks.synthetic.pairs")
    monkeypatch.setitem(pairs.SIZES, "smoke", few | {"max_test": 20, "per_bucket": 6})
    for tested in presets.TESTED.values():
        monkeypatch.setitem(tested, "smoke", (20, 6))

    def main(task: ModuleType, *flags: object) -> int:
        given = "--size", "smoke", "--tokens", "200", "--device", "cpu"
        return exit_code(monkeypatch, task, *given, *flags)

    return main


@pytest.fixture
def cached(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Cache what is made in a folder of the test's own, and look for texts nowhere."""
    root = tmp_path_factory.mktemp("caches")
    monkeypatch.setenv("SEQMODELS_CACHE", str(root / "cache"))
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", root / "hub")
    wait = "datasets.config.SLEEP_TIME_ON_THREADS_SHUTDOWN"  # 5 s after each read of a stream
    monkeypatch.setattr(wait, 0.05, raising=False)
    monkeypatch.delenv("SEQMODELS_DATA", raising=False)
    return root / "cache"


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs a command and returns its exit code, stdout and stderr."""

    def run(program: ModuleType, *argv: object) -> tuple[int, str, str]:
        capsys.readouterr()
        return exit_code(monkeypatch, program, *argv), *capsys.readouterr()

    return run


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train three toy runs on short sentences of the grammar: two attend, one does not."""
    return make_once(tmp_path_factory, "trained", train_toys)


def train_toys(out: Path) -> None:
    models = "bahdanau", "lstm_seq2seq", "gpt"
    given = ["--models", *models, "--size", "smoke", "--tokens", 400, "--device", "cpu"]
    toy = {"n_train": 60, "n_valid": 6, "max_train": 10, "max_test": 10, "per_bucket": 3}
    with pytest.MonkeyPatch.context() as patch:
        shorten_runs(patch)
        patch.setitem(task_of("translation").SIZES, "smoke", toy)
        assert exit_code(patch, task_of("translation"), *given, "--out", out) == 0


@pytest.fixture(scope="session")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train two toy runs that go on with a text, in blocks of 12 tokens."""
    out, text = tmp_path_factory.mktemp("plain"), tmp_path_factory.mktemp("text") / "said.txt"
    text.write_text("".join(f"so he said {i % 7} and went\n" for i in range(200)))
    given = ["--data", text, "--context", 0, "--block", 12, "--tokens", 200]
    given += ["--models", "lstm_seq2seq", "gpt", "--set", "n_parameters=300_000", "--device", "cpu"]
    with pytest.MonkeyPatch.context() as patch:
        shorten_runs(patch)
        patch.setattr(figures, "plot_folder", lambda *_, **__: [])
        assert exit_code(patch, task_of("next_token"), *given, "--out", out) == 0
    return out


# ------------------------------------------------------------------------ what several files check
def rows_of(path: Path) -> list[dict[str, Any]]:
    lines = path.with_suffix(".jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line) for line in lines]


def fields_of(path: Path) -> dict[str, Any]:
    """Return the fields of a record in JSON types, to be compared or changed."""
    return json.loads(path.read_text(encoding="utf-8"))


def check_folder(folder: Path, models: Sequence[str]) -> list[Record]:
    records = load_records(folder)
    assert {r.model for r in records} == set(models)
    for made in records:
        path = folder / f"{made.model}-seed{made.seed}.json"
        assert record.load(path) == made
        rows = rows_of(path)
        for test in made.tests:
            own = [row for row in rows if row["set"] == test.name]
            assert sum(b.n for b in test.buckets) == len(own) > 0
            assert test.primary_metric in test.overall
        assert {row["set"] for row in rows} == {test.name for test in made.tests}
        assert len(made.data.sha256) == 64
        assert (made.alignment is not None) <= paper_of(made.model).attends
    drawn = ["curves", *(f"score-{test.name}" for test in records[0].tests)]
    drawn += ["alignment"] * any(r.alignment for r in records)
    for name in drawn:
        assert ElementTree.parse(folder / f"{name}.svg").getroot().tag.endswith("svg")
        assert (folder / f"{name}.png").exists()
    table = (folder / "tables.md").read_text(encoding="utf-8")
    assert all(paper_of(model).label in table for model in models)
    assert f"{records[0].n_parameters / 1e6:.2f}" in table
    n_tokens = tokenizers.load(folder / "vocabulary.json").vocab_size
    assert {r.settings["vocab_size"] for r in records} == {n_tokens}
    return records


def copy_records(trained: Path, to: Path, *suffixes: str, model: str = "") -> Path:
    """Copy a folder's records, of one model or all, and the files with these suffixes."""
    to.mkdir()
    for path in trained.iterdir():
        if path.name.endswith((f"{model}-seed1.json", *suffixes)):
            shutil.copy(path, to)
    return to


def copy_seed(run: Path, folder: Path, seed: int) -> None:
    """Copy a run of the first seed as one of another seed."""
    for suffix in (".json", ".jsonl", ".safetensors"):
        shutil.copy(run.with_suffix(suffix), folder / f"{run.name[:-1]}{seed}{suffix}")
    path = folder / f"{run.name[:-1]}{seed}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"seed": seed}))


def check_one_line(result: tuple[int, str, str], *words: str, code: int = 2) -> None:
    """Check that a mistake got one line with these words on stderr, and the exit code."""
    found, _, err = result
    assert found == code, err
    assert err.endswith("\n")
    assert len(err.splitlines()) == 1, err
    for word in words:
        assert word in err
