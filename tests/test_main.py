"""The console command: what each of its commands prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from checks import check_one_line
from conftest import Call

from seqmodels import MODELS
from seqmodels.cli import main
from seqmodels.models import PAPERS
from seqmodels.report import alignment

ROOT = Path(__file__).parents[1]
SENTENCE = "the cat needed the dog ."


def test_models_are_listed_in_order(call: Call) -> None:
    """Keeps out a list without year, paper, size or file, and one that is not a history."""
    code, out, err = call(main, "models")
    assert (code, err) == (0, "")
    head, *lines = out.splitlines()
    assert head.split() == ["name", "year", "label", "paper", "parameters", "file"]
    rows = [line.split() for line in lines[: len(MODELS)]]
    assert [row[0] for row in rows] == list(MODELS)
    for row, (name, entry) in zip(rows, PAPERS.items(), strict=True):
        assert row[1] == str(entry.year)
        assert f"{entry.label} {entry.cite}" in " ".join(row)
        assert int(row[-2].replace(",", "")) > 10_000_000
        assert Path(row[-1]) == ROOT / "seqmodels" / "models" / f"{name}.py"
    years = [int(row[1]) for row in rows]
    assert years == sorted(years)
    assert "124,439,808" in out  # GPT-2 small, as published


def test_records_are_drawn_again(trained: Path, call: Call, tmp_path: Path) -> None:
    """Keeps out figures that need the weights, a model or the data."""
    copied = tmp_path / trained.name  # tables.md is headed by the folder's name
    copied.mkdir()
    for path in (*trained.glob("*-seed1.json"), trained / "significance.json"):
        shutil.copy(path, copied)
    code, out, err = call(main, "plot", copied)
    assert (code, err) == (0, "")
    files = [Path(line) for line in out.splitlines()]
    names = {file.name for file in files}
    assert names >= {"score-length.svg", "curves.svg", "state.svg", "alignment.svg", "tables.md"}
    for file in files:
        assert file.read_bytes() == (trained / file.name).read_bytes()


def test_a_sentence_is_translated(trained: Path, call: Call) -> None:
    """Keeps out a run that can be scored and not used; with or without .json, wide or greedy."""
    code, out, err = call(main, "translate", trained / "bahdanau-seed1", SENTENCE)
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == 1
    again = call(main, "translate", trained / "bahdanau-seed1.json", SENTENCE, "--beam", 1)
    assert again == (0, out, "")
    code, wide, err = call(main, "translate", trained / "lstm_seq2seq-seed1", SENTENCE, "--beam", 4)
    assert (code, err, len(wide.splitlines())) == (0, "", 1)


@pytest.mark.parametrize("name", ["bahdanau", "gpt"])
def test_an_alignment_is_drawn(
    name: str, trained: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out words at the wrong edge, and a source without the EOS that it was trained with."""
    from seqmodels.data import tokenizers
    from seqmodels.evaluation import evaluate

    drawn: dict[str, Any] = {}
    draw = alignment.draw_alignment
    monkeypatch.setattr(
        alignment, "draw_alignment", lambda a, path: (drawn.update(a), draw(a, path))
    )
    tokenizer = tokenizers.load(trained / "tokenizer.json")
    written = tokenizer.encode("die Katze sieht")
    monkeypatch.setattr(evaluate, "greedy", lambda *_: [written])
    path = tmp_path / "looked.svg"
    code, out, err = call(
        main, "translate", trained / f"{name}-seed1", SENTENCE, "--alignment", path
    )
    assert (code, out, err) == (0, tokenizer.decode(written) + "\n", "")
    assert ElementTree.parse(path).getroot().tag.endswith("svg")
    assert drawn.keys() == {name}
    assert drawn[name]["src"] == [*tokenizer.tokens(tokenizer.encode(SENTENCE)), "<eos>"]
    assert drawn[name]["tgt"] == tokenizer.tokens(written)
    assert len(drawn[name]["alpha"]) == 3


def test_one_vector_has_no_alignment_to_draw(trained: Path, call: Call, tmp_path: Path) -> None:
    """Keeps out an empty figure, or a traceback, for a model that does not attend."""
    path = tmp_path / "looked.svg"
    result = call(main, "translate", trained / "lstm_seq2seq-seed1", SENTENCE, "--alignment", path)
    check_one_line(result, "whole source is in one vector", "choose a model that attends")
    assert not path.exists()


def test_an_empty_translation_has_no_alignment(
    trained: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a traceback where a badly trained run writes nothing at all."""
    from seqmodels.evaluation import evaluate

    monkeypatch.setattr(evaluate, "greedy", lambda *_: [[]])
    path = tmp_path / "looked.svg"
    result = call(main, "translate", trained / "bahdanau-seed1", SENTENCE, "--alignment", path)
    check_one_line(result, "generated nothing")


def test_a_text_goes_on(trained: Path, call: Call) -> None:
    """Keeps out a seed that is not used, and a text that is lost; an empty one is allowed."""
    run = trained / "gpt-seed1"
    code, out, err = call(main, "generate", run, "the cat", "--length", 12, "--seed", 1)
    assert (code, err) == (0, "")
    assert out.startswith("the cat")
    assert call(main, "generate", run, "the cat", "--length", 12) == (0, out, "")
    others = {call(main, "generate", run, "the cat", "--seed", n)[1] for n in range(2, 9)}
    assert len(others | {out}) > 1
    assert max(map(len, others)) > len("the cat\n")
    code, out, err = call(main, "generate", run, "", "--length", 12)
    assert (code, err) == (0, "")
    assert len(out.split()) <= 12


@pytest.mark.parametrize("name", ["gpt", "lstm_seq2seq"])
def test_a_language_model_goes_on(
    name: str, language_model: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a text as source where none was trained on, and an end where a block is full."""
    from seqmodels import search
    from seqmodels.data import tokenizers

    asked = []
    sample_from_prefix = search.sample_from_prefix

    def listen(model: Any, begun: torch.Tensor, max_len: int, *how: Any) -> list[list[int]]:
        asked.append((begun[0].tolist(), max_len))
        return sample_from_prefix(model, begun, max_len, *how)

    monkeypatch.setattr(search, "sample_from_prefix", listen)
    tokenizer = tokenizers.load(language_model / "tokenizer.json")
    given = main, "generate", language_model / f"{name}-seed1"
    for said in ("so he said", "so he said 5 and went\n" * 9, ""):
        asked.clear()
        begun, length = tokenizer.encode(said), 20
        code, out, err = call(*given, said, "--length", length)
        assert (code, err) == (0, "")
        assert out.startswith(said)
        assert len(out) > len(said) + 1
        assert asked[0][0] == (begun if len(begun) < 12 else begun[-6:])
        assert all(len(known) == 6 for known, _ in asked[1:])
        assert sum(n - len(known) for known, n in asked) == length
        assert max(n for _, n in asked) <= 12
    check_one_line(call(*given, "so he said " * 900), "tokens; at most 2000 are read")


def test_unknown_words_are_named(trained: Path, call: Call) -> None:
    """Keeps out a translation of another sentence than was given, without a word."""
    for name in ("translate", "generate"):
        code, out, err = call(main, name, trained / "gpt-seed1", "the cat \x1b qqq \0 dog")
        assert (code, err) == (0, "3 of 6 words are unknown to this run and read as ⁇\n")
        assert len(out.splitlines()) == 1


def test_a_short_text_is_asked_for_and_given(trained: Path, call: Call) -> None:
    """Keeps out more tokens than were asked for, or than the positions hold."""
    for length in (1, 3, 10_000):
        code, out, _ = call(main, "generate", trained / "gpt-seed1", "the", "--length", length)
        assert code == 0
        assert len(out.split()) <= 1 + length


def test_a_picture_of_another_kind(trained: Path, call: Call, tmp_path: Path) -> None:
    """Keeps out a traceback of the figure library for an unknown ending."""
    run, path = trained / "gpt-seed1", tmp_path / "looked.doc"
    code, out, err = call(main, "translate", run, SENTENCE, "--alignment", path)
    check_one_line((code, out, err), "looked.doc" if out.strip() else "generated nothing")


CONSOLE = ["-c", "from seqmodels.cli.main import main; main()"]
SLOW_TO_IMPORT = {"torch", "numpy", "matplotlib", "datasets", "sacrebleu", "tokenizers", "pydantic"}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([*CONSOLE], 0),
        ([*CONSOLE, "--version"], 0),
        ([*CONSOLE, "plot", "--help"], 0),
        ([*CONSOLE, "score", "--help"], 0),
        ([*CONSOLE, "nonsense"], 2),
        (["-m", "tasks.translation", "--help"], 0),
        (["-m", "tasks.translation", "--source", "de"], 2),
        (["-m", "tasks.next_token", "--context", "-1"], 2),
        (["-m", "tasks.recall", "--seeds", "1", "1"], 2),
        (["-m", "tasks", "--help"], 0),
        (["-m", "tasks", "--tokenz", "9"], 2),
    ],
    ids=lambda given: " ".join(given[-3:]) if isinstance(given, list) else None,
)
def test_help_and_mistakes_wait_for_nothing(arguments: list[str], code: int) -> None:
    """Keeps out an import that makes help, or the word on a typo, take seconds."""
    since = os.times()
    command = [sys.executable, "-X", "importtime", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == code, done.stderr[-2_000:]
    now = os.times()  # of the processor: a busy machine takes longer, and no more of it
    assert now.children_user + now.children_system < since.children_user + since.children_system + 1
    imported = {line.split("|")[-1].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert "seqmodels" in imported
    assert not imported & SLOW_TO_IMPORT


def test_the_version_is_the_packages(call: Call) -> None:
    """Keeps out a version that is typed in a second place; the bare command shows its help."""
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert call(main, "--version") == (0, f"seqmodels {setup['project']['version']}\n", "")
    code, out, err = call(main)
    assert (code, err) == (0, "")
    assert out == call(main, "--help")[1]
    assert all(command in out for command in COMMANDS)


COMMANDS = ["models", "doctor", "plot", "score", "translate", "generate"]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_have_help(command: str, call: Call) -> None:
    """Keeps out a help that fails: a lone % in a line of help is enough."""
    code, out, err = call(main, command, "--help")
    assert (code, err) == (0, "")
    assert out.startswith("usage: ")
