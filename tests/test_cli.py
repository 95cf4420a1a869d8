"""The console command: its subcommands, its exit codes, what it imports, and the doctor."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn
from xml.etree import ElementTree

import pytest
import torch
from checks import check_one_line
from conftest import Call

from seqmodels import MODELS, search
from seqmodels.cli import doctor, main
from seqmodels.data import tokenizers
from seqmodels.evaluation import evaluate
from seqmodels.models import PAPERS
from seqmodels.report import alignment
from seqmodels.utils import terminal
from seqmodels.utils.files import WriteError

ROOT = Path(__file__).parents[1]
SENTENCE = "the cat needed the dog ."


def test_models_are_listed_in_order(call: Call) -> None:
    """Keeps out a list without year, paper, size or file, and one that is not a history."""
    code, out, err = call(main, "models")
    assert (code, err) == (0, "")
    head, *lines = out.splitlines()
    assert head.split() == ["name", "year", "label", "paper", "parameters", "file"]
    rows = [line.split() for line in lines[: len(MODELS)]]
    for row, (name, paper) in zip(rows, PAPERS.items(), strict=True):
        assert row[:2] == [name, str(paper.year)]
        assert f"{paper.label} {paper.cite}" in " ".join(row)
        assert int(row[-2].replace(",", "")) > 10_000_000
        assert Path(row[-1]) == ROOT / "seqmodels" / "models" / f"{name}.py"
    assert [row[1] for row in rows] == sorted(row[1] for row in rows)
    assert "124,439,808" in out  # GPT-2 small, as published


def test_records_are_drawn_again(trained: Path, call: Call, tmp_path: Path) -> None:
    """Keeps out figures that need the weights, a model or the data."""
    folder = tmp_path / trained.name  # tables.md is headed by the folder's name
    folder.mkdir()
    for path in (*trained.glob("*-seed1.json"), trained / "significance.json"):
        shutil.copy(path, folder)
    code, out, err = call(main, "plot", folder)
    assert (code, err) == (0, "")
    files = [Path(line) for line in out.splitlines()]
    names = {file.name for file in files}
    assert names >= {"score-length.svg", "curves.svg", "state.svg", "alignment.svg", "tables.md"}
    for file in (file for file in files if file.suffix != ".png"):
        assert file.read_bytes() == (trained / file.name).read_bytes()


@pytest.mark.parametrize("name", ["bahdanau", "gpt"])
def test_an_alignment_is_drawn(
    name: str, trained: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out words at the wrong edge, and a source without the EOS that it was trained with."""
    panels: dict[str, Any] = {}
    draw, tokenizer = alignment.draw_alignment, tokenizers.load(trained / "tokenizer.json")
    monkeypatch.setattr(
        alignment, "draw_alignment", lambda a, path: (panels.update(a), draw(a, path))
    )
    target, path = tokenizer.encode("die Katze sieht"), tmp_path / "alignment.svg"
    monkeypatch.setattr(evaluate, "greedy", lambda *_: [target])
    given = main, "translate", trained / f"{name}-seed1.json", SENTENCE, "--alignment"
    assert call(*given, path) == (0, tokenizer.decode(target) + "\n", "")
    assert ElementTree.parse(path).getroot().tag.endswith("svg")
    assert panels.keys() == {name}
    assert panels[name]["src"] == [*tokenizer.tokens(tokenizer.encode(SENTENCE)), "<eos>"]
    assert panels[name]["tgt"] == tokenizer.tokens(target)
    assert len(panels[name]["alpha"]) == 3
    check_one_line(call(*given, tmp_path / "alignment.doc"), "alignment.doc")


def test_alignments_that_cannot_be_drawn(
    trained: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a traceback or an empty figure, and one that is too large to draw."""
    path = tmp_path / "alignment.svg"

    def draw(name: str, text: str) -> tuple[int, str, str]:
        return call(main, "translate", trained / f"{name}-seed1", text, "--alignment", path)

    check_one_line(draw("lstm_seq2seq", SENTENCE), "one vector")
    monkeypatch.setattr(evaluate, "greedy", lambda *_: [[]])
    check_one_line(draw("bahdanau", SENTENCE), "generated nothing")
    check_one_line(draw("bahdanau", "cat " * 101), "101 tokens", "100")
    assert not path.exists()


def test_a_text_is_continued(trained: Path, call: Call) -> None:
    """Keeps out a seed or a length that is not used, and a text that is lost."""
    run = trained / "gpt-seed1"
    code, out, err = call(main, "generate", run, "the cat", "--length", 12, "--seed", 1)
    assert (code, err) == (0, "")
    assert out.startswith("the cat")
    assert call(main, "generate", run, "the cat", "--length", 12) == (0, out, "")
    others = {
        call(main, "generate", run, "the cat", "--length", 12, "--seed", n)[1] for n in range(2, 5)
    }
    assert len(others | {out}) > 1


@pytest.mark.parametrize("name", ["gpt", "lstm_seq2seq"])
def test_a_language_model_continues_in_blocks(
    name: str, language_model: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a text as source where none was trained on, and an end where a block is full."""
    calls = []
    sample_from_prefix = search.sample_from_prefix

    def sample(model: Any, prefix: torch.Tensor, max_len: int, *given: Any) -> list[list[int]]:
        calls.append((prefix[0].tolist(), max_len))
        return sample_from_prefix(model, prefix, max_len, *given)

    monkeypatch.setattr(search, "sample_from_prefix", sample)
    tokenizer = tokenizers.load(language_model / "tokenizer.json")
    given = main, "generate", language_model / f"{name}-seed1"
    for text in ("so he said", "so he said 5 and went\n" * 9, ""):
        calls.clear()
        tokens = tokenizer.encode(text)
        code, out, err = call(*given, text, "--length", 20)
        assert (code, err) == (0, "")
        assert out.startswith(text)
        assert len(out) > len(text) + 1
        assert calls[0][0] == (tokens if len(tokens) < 12 else tokens[-6:])
        assert all(len(prefix) == 6 for prefix, _ in calls[1:])
        assert sum(n - len(prefix) for prefix, n in calls) == 20
        assert max(n for _, n in calls) <= 12
    check_one_line(call(*given, "so he said " * 900), "at most 2000")


def test_unknown_words_are_counted(trained: Path, call: Call) -> None:
    """Keeps out a translation of another sentence than was given, without a word."""
    for command in ("translate", "generate"):
        code, out, err = call(main, command, trained / "gpt-seed1", "the cat \x1b qqq \0 dog")
        assert (code, len(out.splitlines())) == (0, 1)
        assert err.startswith("3 of 6 words ")


SLOW_TO_IMPORT = {"torch", "numpy", "matplotlib", "datasets", "sacrebleu", "tokenizers", "pydantic"}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["seqmodels.cli.main", "score", "--help"], 0),
        (["tasks.translation", "--source", "de"], 2),
    ],
)
def test_help_and_mistakes_import_little(arguments: list[str], code: int) -> None:
    """Keeps out an import that makes help, or an answer to a typo, take seconds."""
    command = [sys.executable, "-X", "importtime", "-m", *arguments]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == code, process.stderr[-2_000:]
    imported = {line.split("|")[-1].strip().split(".")[0] for line in process.stderr.splitlines()}
    assert "seqmodels" in imported
    assert not imported & SLOW_TO_IMPORT


def test_every_command_has_help(call: Call) -> None:
    """Keeps out a help that fails, as by a lone %, and a version that is typed twice."""
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert call(main, "--version") == (0, f"seqmodels {setup['project']['version']}\n", "")
    code, out, err = call(main)
    assert (code, err) == (0, "")
    assert out == call(main, "--help")[1]
    commands = re.findall(r"^ {4}(\w+)", out, re.MULTILINE)
    assert {"models", "doctor", "plot", "status", "report", "site", "score", "translate"} < {
        *commands
    }
    for command in commands:
        code, out, err = call(main, command, "--help")
        assert (code, err, out[:7]) == (0, "", "usage: ")


# ------------------------------------------------------------------------------------- The terminal


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Keeps out messages that fill the screen, and a bug of our own without its traceback."""

    def run(error: Exception) -> Any:
        def fail() -> None:
            raise error

        with pytest.raises(SystemExit) as stopped:
            terminal.run_cli("task", fail)
        return stopped.value.code, capsys.readouterr().err

    for error, code in (
        (ValueError("a\nb\n c"), 2),
        (OSError("a\r\nb c"), 2),
        (WriteError("a b c"), 1),
    ):
        assert run(error) == (code, "task: a b c\n")
    with pytest.raises(KeyError):
        run(KeyError("ours"))


# --------------------------------------------------------------------------------------- The doctor

Examine = Callable[[], tuple[int, dict[str, str], list[str]]]


@pytest.fixture
def examine(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Examine:
    """Return a function that runs the command in an empty folder: code, findings, wrong ones."""
    monkeypatch.chdir(tmp_path)

    def run() -> tuple[int, dict[str, str], list[str]]:
        code, out, err = call(main, "doctor")
        assert err == ""
        lines, _, last = out.replace("\n" + " " * 17, " ").rstrip().rpartition("\n\n")
        assert list(tmp_path.iterdir()) == []
        wrong = last.rstrip(".").partition(": ")[2]
        findings = {line[:16].strip(): line[17:] for line in lines.split("\n")}
        return code, findings, wrong.split("; ") if wrong else []

    return run


def test_a_healthy_report_is_complete(examine: Examine) -> None:
    """Keeps out a report without a part, one that leaves files, and a fault where there is none."""
    code, findings, wrong = examine()
    needed = [re.split("[<>]", n)[0] for n in metadata.requires("seqmodels") if "extra" not in n]
    labels = ["python", "seqmodels", *needed, "onnx", "ray", "submitit", "machine", "runs", "cache"]
    assert {*labels, *MODELS} <= findings.keys()
    assert not {"ruff", "joeynmt"} & findings.keys()
    assert (code, wrong) == (0, []), findings
    assert findings["torch"] == metadata.version("torch")
    assert all(findings[name].startswith("works: loss ") for name in MODELS)


def test_packages_with_faults(examine: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a version that nobody compares, and a fault for an extra that is not there."""
    lines = ["numpy>=99", "torch<99,>=2", "to-be-found>=1", 'ruff>=99; extra == "dev"']
    lines += ['not-there>=1; extra == "ray"']
    monkeypatch.setattr(metadata, "requires", lambda name: lines)
    monkeypatch.setattr(doctor, "check_model", lambda name: "works")
    code, findings, wrong = examine()
    assert metadata.version("numpy") in findings["numpy"]
    assert "pip install 'numpy>=99'" in findings["numpy"]
    assert findings["to-be-found"].startswith("WRONG: ")
    assert findings["torch"] == metadata.version("torch")
    assert findings["not-there"].startswith("not installed")
    assert "ruff" not in findings
    assert (code, sorted(wrong)) == (1, ["numpy", "to-be-found"])


def test_models_with_faults(examine: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a self-test that finds nothing: each fault is one line, the others still run."""
    step = MODELS["gpt"].step

    def shifted(self: Any, y: Any, state: Any) -> tuple[Any, Any]:
        logits, state = step(self, y, state)
        return logits + 0.5, state

    def broken(self: Any, y: Any, state: Any) -> NoReturn:
        raise RuntimeError("no\nkernel")

    monkeypatch.setattr(MODELS["gpt"], "step", shifted)
    monkeypatch.setattr(MODELS["bahdanau"], "step", broken)
    code, findings, wrong = examine()
    assert findings["gpt"] == "WRONG: forward and step differ by 0.5"
    assert findings["bahdanau"] == "WRONG: RuntimeError: no kernel"
    assert findings["transformer"].startswith("works: ")
    assert (code, wrong) == (1, ["bahdanau", "gpt"])
    monkeypatch.setattr(doctor, "LR", 1e-9)
    with pytest.raises(ValueError, match="does not learn"):
        doctor.check_model("lstm_seq2seq")
