"""A new metric is one line in the table of metrics, and a new task is one folder."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from sacrebleu.metrics import TER

import tasks
from seqmodels.cli.compare import compare_and_report
from seqmodels.evaluation import metrics
from seqmodels.evaluation.metrics import METRICS, Metric
from seqmodels.records.record import load as load_record
from seqmodels.report import figures
from tasks import __main__ as everything
from tasks.translation import __main__ as translation

ONE = ["--size", "smoke", "--tokens", "300", "--models", "lstm_seq2seq"]

pytestmark = pytest.mark.usefixtures("few_draws")


def make_ter(
    tokenize: str, is_lowercase: bool = False, references: list[list[str]] | None = None
) -> TER:
    """Return sacreBLEU's translation edit rate."""
    return TER(case_sensitive=not is_lowercase, references=references)


@pytest.fixture
def ter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the line."""
    line = Metric(
        label="TER", digits=2, better="lower", sacrebleu=make_ter,
        of_sums=lambda sums: 100 * sums[..., 0] / sums[..., 1],
    )  # fmt: skip
    monkeypatch.setitem(METRICS, "ter", line)


@pytest.mark.usefixtures("ter")
def test_a_metric_is_one_line(tmp_path: Path) -> None:
    """Keeps out a second list of metrics: in record, tables or figures."""
    args = translation.PARSER.parse_args([*ONE, "--out", str(tmp_path)])
    task = translation.builtin_task(args)
    (test,) = task.tests
    compare_and_report(replace(task, tests=[replace(test, primary_metric="ter")]), args)
    record = load_record(tmp_path / "lstm_seq2seq-seed1.json")
    lines = (tmp_path / "lstm_seq2seq-seed1.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
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


@pytest.mark.usefixtures("ter")
def test_a_score_above_100_has_an_interval() -> None:
    """Keeps out an interval for percentages around a score without an upper bound."""
    rows = [{"hyp": "a b c d e f g", "ref": "x"}] * 12  # seven edits for one word, in every draw
    found = metrics.compute_scores(rows)["ter"]
    assert found == {"value": 700.0, "low": 700.0, "high": 700.0}


TASK = '''
"""Say letters again."""

from dataclasses import replace
from functools import partial

from tasks.echo.figure import FIGURES
from tasks.flags import TaskParser, run
from toy_task import toy

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
