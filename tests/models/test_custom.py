"""A model and a task of one's own: everything knows them."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Call, Run, check_folder, check_one_line, rows_of

import seqmodels
from seqmodels import models
from seqmodels.cli import main
from seqmodels.contract import CHECKS, list_violations
from seqmodels.models import import_class
from seqmodels.records.io import load as load_record
from seqmodels.report import figures

tasks = pytest.importorskip("tasks")
everything = pytest.importorskip("tasks.__main__")
next_token = pytest.importorskip("tasks.next_token.__main__")
recall = pytest.importorskip("tasks.copy.__main__")
translation = pytest.importorskip("tasks.translation.__main__")

# ------------------------------------------------------------------------------------------ A model
PAGE = (ROOT / "docs" / "your-model.md").read_text(encoding="utf-8")
FILES = [
    *re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S),
    (ROOT / "examples" / "attending.py").read_text(encoding="utf-8"),
]
"""The files of the page, and the example."""
NAMES = "bag", "first", "attending"


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    for name in [name for name, paper in models.PAPERS.items() if ".py:" in paper.class_path]:
        del models.PAPERS[name]
    for name in [name for name in sys.modules if "@" in name or name in NAMES]:
        del sys.modules[name]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "own"
    folder.mkdir()
    for name, text in zip(NAMES, FILES, strict=True):
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.mark.parametrize(
    ("task", "flags"),
    [
        (translation, ["Attending"]), (next_token, ["Bag", "--context", 8]),
        pytest.param(recall, ["Bag"], marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_a_model_of_a_file_runs_in_every_task(
    task, flags: list[Any], own: Path, run: Run, call: Call
) -> None:
    (name, *rest), out = flags, own / "out"
    home = f"{own / name.lower()}.py:{name}"
    assert run(task, "--out", out, "--models", "bahdanau", home, *rest) == 0
    made = {r.model: r for r in check_folder(out, ["bahdanau", name])}
    record = made[name]
    assert [event.kind for event in record.events] == ["recipe"]
    assert record.events[0].what.startswith("no recipe of its own: default sizes")
    assert record.train_config.lr == {"Bag": 8e-3, "Attending": 2e-3}[name]
    assert not [e for e in made["bahdanau"].events if e.kind == "recipe"]
    assert (record.alignment is not None) == (name == "Attending")
    for file in ("tables.md", "curves.svg"):
        assert name in (out / file).read_text(encoding="utf-8")
    del models.PAPERS[name]  # as in another process
    argv = "export" if task is recall else "generate", out / f"{name}-seed1", "a"
    if task is translation:
        argv = "translate", *argv[1:]
    assert call(main, *argv)[0] == 2
    if task is not recall:
        assert call(main, *argv[:2], "--model", home, argv[2])[0] == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [("def f():\n 1 / 0\nf()", r"Zero.*: .* \(line 2\)"), ("x = (", "line 1"),
     ("class Bag: pass", "cannot be built.*config_type"), ("", "has no class 'Bag'"),
     (FILES[0].replace("source_floats", "floats"), r"cannot be built.*source_floats"),
     (FILES[0].replace("nn.GRUCell(2", "nn.GRUCells(2"), r"cannot be built: Attr.*\(line \d+\)"),
     (FILES[0].replace("class Bag(", "class Gpt("), "has no class 'Bag'")],
)  # fmt: skip
def test_what_a_class_lacks_is_said_at_once(text: str, reason: str, own: Path, call: Call) -> None:
    (own / "bag.py").write_text(text)
    code, _, err = call(recall, "--size", "smoke", "--models", f"{own}/bag.py:Bag", "--out", own)
    assert (code, [*own.glob("*.json")]) == (2, [])
    assert re.search(reason, " ".join(err.split()))
    assert "Traceback" not in err


FAULTS = {
    "class and Config": [
        ("vocab_size: int\n    d_model: int = 128", "d_model: int = 128\n    vocab_size: int = 8"),
        ("Bag(SequenceModel)", "Bag(nn.Module)"), ("def source_floats", "def floats"),
    ],
    "logits": [
        ("return torch.stack(logits, 1)", "return torch.stack(logits)"),
        ("return torch.stack(logits, 1)", "return torch.stack(logits, 1).softmax(-1)"),
        ("/ is_word.sum(1)", "/ (is_word.sum(1) - 1)"),
        ("return self.output(s), State", "return self.outputs(s), State"),
    ],
    "State": [
        ("return State(c, torch.zeros_like(c))", "return c, torch.zeros_like(c)"),
        ("s: Tensor", "s: Tensor\n    n: int = 0"),
        ("State(c, torch.zeros_like(c))", "State(c.mT.contiguous().mT, torch.zeros(1, 32).to(c))"),
    ],
    "step = forward": [("logits.append(logits_t)", "logits.append(2 * logits_t)")],
    "no hidden memory": [
        ("s = self.unit(", "self.n = getattr(self, 'n', 0) + 1\n        s = self.unit("),
        ("s = self.unit(", "state.s.add_(1)\n        s = self.unit("),
        ("s = self.unit(", "self.embed.weight.data[0] += 1\n        s = self.unit("),
    ],
    "padding and batch": [
        ("c = (self", "src = src[:1].expand_as(src)\n        c = (self"),
        ("is_word = src_mask.unsqueeze(2)", "is_word = torch.ones_like(src_mask).unsqueeze(2)"),
        ("/ is_word.sum(1)", "/ src.shape[1]"),
    ],
    "future": [("self.embed(y), state.c", "self.embed(0 * y), state.c")],
    "source": [("* is_word).sum(1)", "* is_word)[:, :2].sum(1)"),
               ("/ is_word.sum(1)", "/ (is_word * (src != 1).unsqueeze(2)).sum(1)")],
    "beams": [("config_type = Config", "config_type = Config\n    beam_shared_fields = ('c',)")],
    "length": [("for y in tgt_in.unbind(1):", "for y in tgt_in[:, :40].unbind(1):")],
    "gradients": [("self.output =", "self.spare = nn.Linear(3, 3)\n        self.output ="),
                  ("return self.output(s), State", "return s @ self.output.weight.T, State")],
    "learning": [("return self.output(s), State", "return self.output(s / 9e3), State")],
}  # fmt: skip

SAID = {
    "/ src.shape[1]": "More padding",
    "is_word = torch.ones_like(src_mask).unsqueeze(2)": "What",
}


@pytest.mark.parametrize(
    ("name", "old", "changed"), [(name, *pair) for name, pairs in FAULTS.items() for pair in pairs]
)
def test_a_fault_is_named(name: str, old: str, changed: str, own: Path) -> None:
    assert FILES[0].count(old) == 1
    (own / "bag.py").write_text(FILES[0].replace(old, changed))
    found = list_violations(import_class(f"{own}/bag.py:Bag"))
    prop, fault = next(row for row in found if row[1])
    assert (prop, SAID.get(changed, "") in fault) == (name, True), fault


@pytest.mark.parametrize("name", ["Bag", "Attending"])
def test_the_models_of_the_page_keep_the_contract(name: str, own: Path) -> None:
    found = [*list_violations(import_class(f"{own / name.lower()}.py:{name}"))]
    assert len(found) == len(CHECKS)
    assert [fault for _, fault in found if fault] == []


def test_check_says_what_is_wrong(own: Path, call: Call) -> None:
    for changed, expected in (("logits_t", 0), ("2 * logits_t", 2)):
        text = FILES[0].replace("logits.append(logits_t)", f"logits.append({changed})")
        (own / f"bag{expected}.py").write_text(text)
        code, out, err = call(main, "check", f"{own}/bag{expected}.py:Bag")
        assert err.endswith("Bag: 2 properties do not hold\n" if expected else "")
        lines = out.splitlines()
        assert (code, len(lines)) == (expected, len(CHECKS))
        assert sum(line.endswith(" holds") for line in lines) == len(CHECKS) - expected


def test_a_file_with_one_model_needs_no_class(own: Path, call: Call) -> None:
    one, two = own / "one.py", own / "gpt.py"
    text = "from seqmodels.models.gpt import GPT\nclass Mine(GPT): pass\n"
    one.write_text(f"{text}Same = Mine\n")
    two.write_text(f"{text}class Other(Mine): pass\n")  # a chapter's name, but not its class
    (ends := own / "ends.py").write_text("raise SystemExit(3)\n")
    assert models.find_class(str(one)) == f"{one}:Mine"
    for command in ((main, "check"), (recall, "--size", "smoke", "--models")):
        check_one_line(call(*command, two), "Mine, Other", f"name one: {two}:Other")
        check_one_line(call(*command, own / "nope.py"), "nope.py does not exist")
        check_one_line(call(*command, ends), "ends.py cannot be imported: SystemExit: 3 (line 1)")
    check_one_line(call(main, "check", "./bag:Bag"), "there is no module", "FILE.py:CLASS")


# ------------------------------------------------------------------------------------------- A task
pytestmark = pytest.mark.usefixtures("few_draws")


TASK = '''
"""Say letters again."""
from dataclasses import replace
from tasks.flags import TaskParser
from toys import toy
PARSER = TaskParser("tasks.echo", __doc__)
def make_task(args):
    task = toy(name="echo", n_parameters=1_000_000)
    test = replace(task.tests[0], name="letters", noun="numbers")
    return replace(task, tests=[test], recipes={"transformer": task.recipes["transformer"]})
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
    (tmp_path / "echo").mkdir()
    (tmp_path / "echo" / "__main__.py").write_text(TASK, encoding="utf-8")
    (tmp_path / "echo" / "figure.py").write_text(FIGURE, encoding="utf-8")
    monkeypatch.setattr(tasks, "__path__", [*tasks.__path__, str(tmp_path)])
    monkeypatch.setattr(figures, "TASKS", tmp_path)
    monkeypatch.setattr("torch.get_num_threads", lambda: 1)  # in this process, which knows the task
    todo = [("echo", "echo", "--models transformer bahdanau")]
    everything.run_all(tmp_path / "out", todo, [])
    record = load_record(tmp_path / "out" / "echo" / "bahdanau-seed1.json")
    assert (record.task, record.tests[0].noun) == ("echo", "numbers")
    assert "recipe" in {event.kind for event in record.events}
    own = (tmp_path / "out" / "echo" / "again.svg").read_text(encoding="utf-8")
    assert "2 models say again" in own
    tables = (tmp_path / "out" / "echo" / "tables.md").read_text(encoding="utf-8")
    assert "### letters: symbol accuracy (%)" in tables


MEASURED = """
import os
from toys import toy
def begin(model, names, seed):
    next(model.parameters()).data.fill_(seed)
def measure(trained, before):
    return [{"start": next(before.parameters()).mean().item(), "process": os.getpid()}]
def make_task(args):
    return toy(name="own", begin=begin, measure={"own": measure})
"""


def test_functions_of_a_file_run_in_two_processes(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path := tmp_path / "my.own task.py").write_text(MEASURED)
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    given = "--models", "gpt", "--seeds", 3, 7, "--device", "cpu", "--out", tmp_path / "out"
    assert call(main, "run", path, *given)[0] == 0
    (three,), (seven,) = (
        load_record(tmp_path / "out" / f"gpt-seed{seed}.json").analyses["own"] for seed in (3, 7)
    )
    assert (three["start"], seven["start"]) == (3, 7)
    assert len({three["process"], seven["process"], os.getpid()}) == 3


@pytest.mark.usefixtures("few_draws")
def test_a_task_and_a_metric_are_one_file(own: Path, call: Call) -> None:
    (own / "first.py").write_text(FILES[1] + "def characters(a, b):\n    return len(a)\n")
    first = own / "first.py"
    given = main, "run", first, "--models", "gpt", "--device", "cpu", "--tokens", "400", "--out"
    assert call(*given, own / "plain")[0] == 0
    for out, metric, trained in (("a", "last_word", ()), ("b", "characters", (own / "a",))):
        more = ["--metric", f"{first}:{metric}", *(w for p in trained for w in ("--trained", p))]
        code, shown, _ = call(*given, own / out, *more)
        assert (code, f"length: {metric.replace('_', ' ')} by source length" in shown) == (0, True)
        table = seqmodels.Comparison(own / out).to_frame().query(f"metric == '{metric}'")
        rows = rows_of(own / out / "gpt-seed1.jsonl")
        score = {
            "last_word": lambda row: 100 * (row["hyp"].split()[-1:] == [row["ref"]]),
            "characters": lambda row: len(row["hyp"]),
        }[metric]
        for low, value in zip(table.low, table.value, strict=True):
            parts = [score(row) for row in rows if not low >= 0 or row["x"] == low]
            assert value == pytest.approx(sum(parts) / len(parts))
    made = [load_record(own / out / "gpt-seed1.json") for out in ("plain", "a", "b")]
    assert [r.tests[0].primary_metric for r in made] == ["exact_match", "last_word", "characters"]
    assert len({record.weights_sha256 for record in made}) == 1
    check_one_line(call(*given, own / "plain", "--metric", f"{first}:last_word"), "--trained")
    for wrong in ("nothing", "LENGTHS"):
        check_one_line(call(*given, own / "c", "--metric", f"{first}:{wrong}"), wrong, "function")
    check_one_line(call(main, "run", own / "bag.py"), "bag.py has no function make_task")
    check_one_line(call(main, "run", "coppy"), "did you mean 'copy'", "FILE.py")
