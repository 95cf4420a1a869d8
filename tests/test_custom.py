"""A model, a metric and a task of one's own: everything knows them."""

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Call, Run, check_folder, rows_of
from sacrebleu.metrics import TER

import tasks
from seqmodels import models
from seqmodels.cli.compare import compare_and_report
from seqmodels.evaluation import metrics
from seqmodels.records.record import load as load_record
from seqmodels.report import figures
from tasks import __main__ as everything
from tasks.next_token import __main__ as next_token
from tasks.recall import __main__ as recall
from tasks.translation import __main__ as translation


# ------------------------------------------------------------------------------------------ A model
@pytest.fixture(autouse=True)
def _registered(tmp_path_factory: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Add the two models of the tutorial, as it says, and take them away again."""
    text = (ROOT / "docs" / "your-model.md").read_text(encoding="utf-8")
    bag, program, attending, entry = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    folder = tmp_path_factory.mktemp("own")
    (folder / "bag.py").write_text(bag, encoding="utf-8")
    (folder / "attending.py").write_text(attending, encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    exec(program.partition("from tasks")[0] + entry, {})
    yield
    for name in ("bag", "attending"):
        del models.PAPERS[name]
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("task", "flags"),
    [(translation, ["attending"]), (recall, ["bag"]), (next_token, ["bag", "--context", 8])],
)
def test_it_runs_in_every_task(task, flags: list[object], run: Run, tmp_path: Path) -> None:
    """Keeps out a list of models somewhere else, and a task that fails for want of a recipe."""
    name, *_ = flags
    assert run(task, "--out", tmp_path, "--models", "bahdanau", *flags) == 0
    other, own = check_folder(tmp_path, ["bahdanau", name])
    assert [event["kind"] for event in own["events"]] == ["recipe"]
    assert own["events"][0]["what"].startswith("no recipe of its own: default sizes")
    assert own["train_config"]["lr"] == {"bag": 8e-3, "attending": 2e-3}[name]
    assert not [event for event in other["events"] if event["kind"] == "recipe"]
    for file in ("tables.md", "curves.svg", "state.svg"):
        assert models.PAPERS[name].label in (tmp_path / file).read_text(encoding="utf-8")
    assert (own["alignment"] is not None) == (name == "attending")


def test_what_it_lacks_is_said_at_once(call: Call, tmp_path: Path, monkeypatch: Any) -> None:
    """Keeps out an hour of training that cannot be recorded: a Config without its count."""
    monkeypatch.delattr(import_module("bag").Config, "source_floats")
    code, _, err = call(recall, "--size", "smoke", "--models", "bag", "--out", tmp_path)
    assert (code, [*tmp_path.glob("bag*")]) == (2, [])
    assert "bag: its Config lacks the method source_floats(n)" in err


# ------------------------------------------------------------------------------ A metric and a task
ONE = ["--size", "smoke", "--tokens", "300", "--models", "lstm_seq2seq"]

pytestmark = pytest.mark.usefixtures("few_draws")


def test_a_metric_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a second list of metrics, and an interval for percentages above 100."""
    line = metrics.Metric(
        label="TER", digits=2, better="lower",
        sacrebleu=lambda tokenize, is_lowercase=False, references=None: TER(
            case_sensitive=not is_lowercase, references=references
        ),
        of_sums=lambda sums: 100 * sums[..., 0] / sums[..., 1],
    )  # fmt: skip
    monkeypatch.setitem(metrics.METRICS, "ter", line)
    args = translation.PARSER.parse_args([*ONE, "--out", str(tmp_path)])
    task = translation.builtin_task(args)
    (test,) = task.tests
    compare_and_report(replace(task, tests=[replace(test, primary_metric="ter")]), args)
    record = load_record(tmp_path / "lstm_seq2seq-seed1.json")
    rows = rows_of(tmp_path / "lstm_seq2seq-seed1")
    theirs = TER(case_sensitive=True).corpus_score(
        [row["hyp"] for row in rows], [[row["ref"] for row in rows]]
    )
    found = record["tests"][0]["overall"]["ter"]
    assert found["value"] == pytest.approx(theirs.score, rel=1e-12)
    assert found["low"] < found["value"] < found["high"]
    assert record["signatures"]["ter"].startswith("nrefs:1|case:mixed|tok:tercom")
    assert record["intervals"]["ter"] == "BCa bootstrap"
    tables = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert f"{found['value']:.2f} [{found['low']:.2f}, {found['high']:.2f}]" in tables
    figure = (tmp_path / "score-length.svg").read_text(encoding="utf-8")
    assert "TER by source length" in figure
    rows = [{"hyp": "a b c d e f g", "ref": "x"}] * 12  # seven edits for one word, in every draw
    found = metrics.compute_scores(rows)["ter"]
    assert found == {"value": 700.0, "low": 700.0, "high": 700.0}


TASK = '''
"""Say letters again."""
from dataclasses import replace
from functools import partial
from tasks.echo.figure import FIGURES
from tasks.flags import TaskParser, run
from toys import toy
PARSER = TaskParser("tasks.echo", __doc__)
def make_task(args):
    task = toy(name="echo", figures=FIGURES, n_parameters=1_000_000)
    test = replace(task.tests[0], name="letters", noun="numbers")
    return replace(task, tests=[test], recipes={"transformer": task.recipes["transformer"]})
main = partial(run, PARSER, make_task)
'''
FIGURE = """
from matplotlib.figure import Figure
def draw(records):
    figure = Figure()
    figure.text(0, 0, f"{len(records)} models say again")
    return {"again": figure}
FIGURES = [draw]
"""


def test_a_task_is_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a list of tasks in the harness, the records, the figures or the driver."""
    (tmp_path / "echo").mkdir()
    (tmp_path / "echo" / "__main__.py").write_text(TASK, encoding="utf-8")
    (tmp_path / "echo" / "figure.py").write_text(FIGURE, encoding="utf-8")
    monkeypatch.setattr(tasks, "__path__", [*tasks.__path__, str(tmp_path)])
    monkeypatch.setattr(figures, "TASKS", tmp_path)
    monkeypatch.setattr("torch.get_num_threads", lambda: 1)  # in this process, which knows the task
    todo = [("echo", "echo", "--models transformer bahdanau")]
    everything.run_all(tmp_path / "out", todo, [])
    record = load_record(tmp_path / "out" / "echo" / "bahdanau-seed1.json")
    assert (record["task"], record["tests"][0]["noun"]) == ("echo", "numbers")
    assert "recipe" in {event["kind"] for event in record["events"]}
    assert (tmp_path / "out" / "echo" / "score-letters.svg").exists()
    own = (tmp_path / "out" / "echo" / "again.svg").read_text(encoding="utf-8")
    assert "2 models say again" in own
    tables = (tmp_path / "out" / "echo" / "tables.md").read_text(encoding="utf-8")
    assert "### letters: symbol accuracy (%)" in tables
    assert "number n of numbers" in tables
    assert "echo" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
