"""The commands: what they print, and the one line that a mistake gets."""

from __future__ import annotations

import fnmatch
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.error import URLError
from xml.etree import ElementTree

import datasets
import pytest
import torch

from seqmodels import MODELS
from seqmodels.catalog import CATALOG
from seqmodels.commands import main
from seqmodels.comparison import compare
from seqmodels.comparison.runs import Run
from seqmodels.data import presets
from seqmodels.evaluation import metrics
from seqmodels.records import record
from seqmodels.report import alignment, figures
from seqmodels.utils import terminal
from tasks import next_token, recall, translation

ROOT = Path(__file__).parents[1]
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs a command and returns its exit code, stdout and stderr."""
    monkeypatch.setattr(metrics, "N_BOOTSTRAP", 20)

    def run(program: ModuleType, *argv: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", [program.__name__, *map(str, argv)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            program.main()
        return stopped.value.code or 0, *capsys.readouterr()

    return run


def check_one_line(result: tuple[int, str, str], *words: str, code: int = 2) -> None:
    """Check that a mistake got one line with these words on stderr, and the exit code."""
    found, _, err = result
    assert found == code, err
    assert err.endswith("\n")
    assert len(err.splitlines()) == 1, err
    for word in words:
        assert word in err


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train three toy runs: two attend, one does not."""
    out = tmp_path_factory.mktemp("trained")
    given = ["--models", "bahdanau", "lstm_seq2seq", "gpt", "--size", "smoke", "--tokens", "400"]
    toy = {"n_train": 60, "n_valid": 6, "trained_to": 10, "tested_to": 10, "per_bin": 3}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "N_BOOTSTRAP", 20)
        patch.setitem(translation.SIZES, "smoke", toy)
        patch.setattr(sys, "argv", ["translation", *given, "--device", "cpu", "--out", str(out)])
        with pytest.raises(SystemExit) as stopped:
            translation.main()
    assert stopped.value.code == 0
    return out


@pytest.fixture(scope="module")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train two toy runs that go on with a text, in blocks of 12 tokens."""
    out = tmp_path_factory.mktemp("plain")
    (out / "said.txt").write_text("".join(f"so he said {i % 7} and went\n" for i in range(200)))
    given = ["--data", str(out / "said.txt"), "--context", "0", "--block", "12", "--tokens", "200"]
    given += ["--models", "lstm_seq2seq", "gpt", "--parameters", "300000", "--out", str(out)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "N_BOOTSTRAP", 20)
        patch.setattr(figures, "plot_folder", lambda folder: [])
        patch.setattr(sys, "argv", ["next_token", *given, "--device", "cpu"])
        with pytest.raises(SystemExit) as stopped:
            next_token.main()
    assert stopped.value.code == 0
    return out


SENTENCE = "the cat needed the dog ."

# --------------------------------------------------------------------------------------- seqmodels


def test_models_are_listed_in_order(call: Call) -> None:
    """Keeps out a list without year, paper, size or file, and one that is not a history."""
    code, out, err = call(main, "models")
    assert (code, err) == (0, "")
    head, *lines = out.splitlines()
    assert head.split() == ["name", "year", "label", "paper", "parameters", "file"]
    rows = [line.split() for line in lines[: len(MODELS)]]
    assert [row[0] for row in rows] == list(MODELS)
    for row, (name, entry) in zip(rows, CATALOG.items(), strict=True):
        assert row[1] == str(entry.year)
        assert f"{entry.label} {entry.paper}" in " ".join(row)
        assert int(row[-2].replace(",", "")) > 10_000_000
        assert Path(row[-1]) == ROOT / "seqmodels" / "models" / f"{name}.py"
    years = [int(row[1]) for row in rows]
    assert years == sorted(years)
    assert "124,439,808" in out  # GPT-2 small, as published


def test_records_are_drawn_again(trained: Path, call: Call, tmp_path: Path) -> None:
    """Keeps out figures that need the weights, a model or the data."""
    for path in trained.glob("*-seed1.json"):
        shutil.copy(path, tmp_path)
    code, out, err = call(main, "plot", tmp_path)
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
    check_one_line(result, "whole source is in one vector", "choose bahdanau")
    assert not path.exists()


def test_an_empty_translation_has_no_alignment(
    trained: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a traceback where a badly trained run writes nothing at all."""
    from seqmodels.evaluation import evaluate

    monkeypatch.setattr(evaluate, "greedy", lambda *_: [[]])
    path = tmp_path / "looked.svg"
    result = call(main, "translate", trained / "bahdanau-seed1", SENTENCE, "--alignment", path)
    check_one_line(result, "wrote nothing")


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
        assert (code, err) == (0, "3 of 6 words are unknown to this run: read as ⁇\n")
        assert len(out.splitlines()) == 1


def test_a_short_text_is_asked_for_and_given(trained: Path, call: Call) -> None:
    """Keeps out more tokens than were asked for, or than the positions hold."""
    for length in (1, 3, 10_000):
        code, out, _ = call(main, "generate", trained / "gpt-seed1", "the", "--length", length)
        assert code == 0
        assert len(out.split()) <= 1 + length


CONSOLE = ["-c", "from seqmodels.commands.main import main; main()"]
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


@pytest.mark.parametrize("twice", [["--seeds", "2", "1", "2"], ["--models", "gpt", "gpt"]])
def test_no_run_is_made_twice(twice: list[str], call: Call, tmp_path: Path) -> None:
    """Keeps out two processes that write the same record, checkpoints and weights."""
    result = call(recall, "--out", tmp_path / "out", *twice)
    check_one_line(result, f"{twice[0]}: {twice[-1]} is given twice; give each once")
    assert not (tmp_path / "out").exists()


COMMANDS = ["models", "doctor", "plot", "score", "translate", "generate"]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_have_help(command: str, call: Call) -> None:
    """Keeps out a help that fails: a lone % in a line of help is enough."""
    code, out, err = call(main, command, "--help")
    assert (code, err) == (0, "")
    assert out.startswith("usage: ")


# ------------------------------------------------------------------------------------- bad input


@pytest.fixture
def spoken(tmp_path: Path) -> Path:
    """Write a small parallel corpus."""
    folder = tmp_path / "spoken"
    folder.mkdir()
    for split in ("train", "valid", "test"):
        for code in ("qaa", "qab"):
            (folder / f"{split}.{code}").write_text(f"a {code}\nb {code}\n")
    return folder


def test_lines_that_do_not_pair(spoken: Path, call: Call) -> None:
    """Keeps out sentences beside the translations of others."""
    (spoken / "valid.qab").write_text("a\n")
    result = call(translation, "--data", spoken)
    check_one_line(result, "valid.qaa has 2 lines", "valid.qab has 1")


def test_a_missing_split(spoken: Path, call: Call) -> None:
    """Keeps out a bare FileNotFoundError: the line says which files are needed."""
    (spoken / "test.qab").unlink()
    check_one_line(call(translation, "--data", spoken), "has no test.qab", "needed: train.qaa")


def test_an_empty_file(spoken: Path, call: Call) -> None:
    """Keeps out a division by zero, in both tasks that read files."""
    (spoken / "train.qab").write_text("")
    check_one_line(call(translation, "--data", spoken), "train.qab is empty")
    check_one_line(call(next_token, "--data", spoken / "train.qab"), "train.qab is empty")


def test_a_file_that_is_not_utf_8(spoken: Path, call: Call) -> None:
    """Keeps out an error without the line that must be mended."""
    (spoken / "train.qab").write_bytes("ä\nö\n".encode("latin-1"))
    check_one_line(call(translation, "--data", spoken), "train.qab, line 1: not UTF-8")
    (spoken / "text.txt").write_bytes(b"a\nb\n\xe4\n")
    check_one_line(call(next_token, "--data", spoken / "text.txt"), "text.txt, line 3: not UTF-8")


def test_lines_that_are_all_too_long(spoken: Path, call: Call) -> None:
    """Keeps out training on nothing: every pair was left out for its length."""
    for code in ("qaa", "qab"):
        (spoken / f"valid.{code}").write_text(" ".join([code, *map(str, range(900))]))
    check_one_line(call(translation, "--data", spoken), "no pair of valid is left", "more than 200")


def test_a_text_that_is_too_short(tmp_path: Path, call: Call) -> None:
    """Keeps out a test of no window; the line says how many tokens are needed."""
    (tmp_path / "short.txt").write_text("Once upon a time. " * 20)
    result = call(next_token, "--data", tmp_path / "short.txt", "--context", 8)
    check_one_line(result, "short.txt is too short", "a window takes 64", "less --context")
    result = call(next_token, "--data", tmp_path / "short.txt", *PLAIN, "--block", 400)
    check_one_line(result, "short.txt is too short: train has", "takes 400", "less --block")


def test_a_column_that_is_not_there(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a bare KeyError, and rows that are no rows; the line says what there is."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hub")
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": "x", "b": "y", "n": 1}\n' * 3)
    result = call(next_token, "--data", path, "--column", "c")
    check_one_line(result, "a.jsonl has no column 'c' of texts, but 'a', 'b'; --column names one")
    path.write_text('{"a": "x"\n')
    result = call(next_token, "--data", path, "--limit", 3)
    check_one_line(result, "a.jsonl, line 1: not JSON: Expecting ',' delimiter")


def test_a_context_that_no_story_has(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out an average over no story."""
    toy = {"n_train": 9, "n_valid": 3, "tested_to": 32, "per_distance": 3}
    monkeypatch.setitem(next_token.SIZES, "smoke", toy)
    result = call(next_token, "--size", "smoke", "--context", 5000)
    check_one_line(result, "--context 5000: the longest test story allows ")


PLAIN = ["--context", "0"]


def no_network(address: str, timeout: float) -> None:
    """Fail as a machine without network does."""
    raise URLError("no route")


@pytest.mark.parametrize(
    ("program", "argv", "words"),
    [
        (recall, ["--models", "bert"], ["--models", "'bert'", "rnn_encdec"]),
        (recall, ["--layers", "3"], ["unrecognized arguments: --layers"]),
        (recall, ["--mod", "gpt"], ["unrecognized arguments: --mod"]),
        (recall, ["--data", "x"], ["unrecognized arguments: --data"]),
        (recall, ["--size", "huge"], ["'huge'", "smoke", "laptop"]),
        (translation, ["--source", "de"], ["--source goes with --data"]),
        (translation, ["--source", ""], ["--source goes with --data"]),
        (translation, ["--vocab", "300"], ["--vocab goes with --data"]),
        (translation, ["--data", "nowhere"], ["nowhere does not exist; it is no preset"]),
        (translation, ["--data", __file__], ["test_cli.py is one file; both sides in one"]),
        (translation, ["--data", str(ROOT / "tasks")], ["tasks has no train.xx"]),
        (translation, ["--data", "a", "b", "c"], ["3 files are given"]),
        (translation, ["--data", "x", "y"], ["x does not exist; give the path of a UTF-8"]),
        (translation, ["--data", "x", "--tokenizer", "bert"], ["'bert'", "bpe"]),
        (translation, ["--data", "x", "--limit", "0"], ["--limit"]),
        (next_token, ["--data", "nowhere"], ["nowhere does not exist"]),
        (next_token, ["--data", "nobody/nothing"], ["nobody/nothing cannot", "without network"]),
        (next_token, ["--data", "names"], ["names.txt cannot be fetched", "to have names without"]),
        (next_token, ["--data", __file__, "/"], ["/ cannot be read: Is a directory"]),
        (next_token, ["--data", __file__, "a.csv"], ["a.csv is one of several files"]),
        (next_token, ["--data", __file__, "--limit", "9"], ["a limit goes with a table"]),
        (next_token, ["--data", __file__, "--column", "a"], ["a column goes with a table"]),
        (next_token, ["--data", __file__, "--tokenizer", "x"], ["--tokenizer", "'x'", "bytes"]),
        (next_token, ["--data", __file__, "--block", "9"], ["--context 0; the context is 128"]),
        (next_token, ["--data", __file__, *PLAIN, "--block", "4000"], ["--block 4000: at most"]),
        (next_token, ["--data", __file__, *PLAIN, "--stride", "65"], ["the block of 64"]),
        (next_token, ["--block", "9"], ["--block goes with --data; the stories are made here"]),
        *((next_token, [flag, "0"], [flag, "above zero"]) for flag in ("--block", "--stride")),
        (next_token, ["--context", "-1"], ["--context: -1 is below zero"]),
        (next_token, ["--context", "nan"], ["--context", "nan"]),
        (next_token, ["--data", "/dev/zero"], ["/dev/zero is no plain file"]),
        (next_token, ["--data", "x\ny\x1b\udcff"], [r"x y\x1b\udcff does not exist"]),
        *((recall, ["--tokens", n], ["--tokens", n]) for n in ("0", "-3", "nan", "1.5", "many")),
        *((recall, [flag, "9" * 20], [flag, "above 4,611"]) for flag in ("--tokens", "--seeds")),
        *((recall, ["--rate", n], ["--rate", n]) for n in ("0", "-1", "nan", "inf", "fast")),
        *((recall, ["--seeds", n], ["--seeds", n]) for n in ("-1", "nan", "1.5", "one")),
        (recall, ["--out", __file__, "--size", "smoke"], [f"--out {__file__} is a file"]),
        (main, ["paint"], ["'paint'", "models", "plot"]),
        (main, ["plot", "nowhere"], ["nowhere does not exist"]),
        (main, ["plot", __file__], ["test_cli.py cannot be read: Not a directory"]),
        (main, ["plot", str(ROOT / "tests")], ["tests holds no record"]),
        (main, ["translate", "nowhere/gpt-seed1", "a"], ["nowhere/gpt-seed1.json: no such record"]),
        (main, ["translate", "", "a"], ["empty name"]),
        (main, ["generate", "nowhere/gpt-seed1", "a"], ["no such record", "name a RUN"]),
        *((main, ["translate", "x", "a", "--beam", n], ["--beam", n]) for n in ("0", "nan")),
        *((main, ["generate", "x", "a", "--temperature", n], [n]) for n in ("0", "nan", "inf")),
    ],
)  # fmt: skip
def test_a_mistake_gets_one_line(
    program: ModuleType,
    argv: list[str],
    words: list[str],
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Keeps out tracebacks, and values that are silently replaced by a default."""
    monkeypatch.delenv("SEQMODELS_DATA", raising=False)
    monkeypatch.setattr(presets, "urlopen", no_network)
    result = call(program, *argv)
    check_one_line(result, *words)
    assert result[1] == ""


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_device_that_is_not_there(call: Call, tmp_path: Path) -> None:
    """Keeps out a comparison that runs on the CPU where a GPU was asked for."""
    result = call(recall, "--device", "cuda", "--size", "smoke", "--out", tmp_path / "out")
    check_one_line(result, "no CUDA device", "use --device cpu")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_may_not_be_written(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a traceback where the person has no right to write."""

    def refuse(self: Path, *_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    result = call(recall, "--size", "smoke", "--out", tmp_path / "theirs")
    check_one_line(result, "Permission denied", "theirs")


def test_a_text_longer_than_the_positions(trained: Path, call: Call) -> None:
    """Keeps out an index error in the embedding: the line says how many tokens are allowed."""
    n = record.load(trained / "gpt-seed1.json")["model_config"]["n_positions"]
    long = " ".join(["the"] * (n + 5))
    for name in ("translate", "generate"):
        result = call(main, name, trained / "gpt-seed1", long)
        most = n - 2 if name == "translate" else n - 1  # a source ends with EOS
        check_one_line(result, f"the text has {n + 5} tokens", f"reads at most {most}")
    longest = " ".join(["the"] * (n - 2))
    assert call(main, "translate", trained / "gpt-seed1", longest)[0] == 0


@pytest.mark.parametrize("name", ["bahdanau", "lstm_seq2seq"])
def test_a_text_of_ten_megabytes(name: str, trained: Path, call: Call) -> None:
    """Keeps out hours, or a full memory, with a model that has no longest text."""
    for text in ("the " * 2_500_000, "x" * 10_000_000 + " the" * 2_000):
        result = call(main, "translate", trained / f"{name}-seed1", text)
        check_one_line(result, " tokens; this model reads at most 2000")
    result = call(
        main, "translate", trained / f"{name}-seed1", "the " * 101, "--alignment", "a.svg"
    )
    check_one_line(result, "--alignment: the text has 101 tokens; at most 100 are drawn")


@pytest.mark.parametrize(
    ("command", "flags", "words"),
    [
        ("translate", ["a\udcff"], ["the text is not UTF-8: character 2"]),
        ("translate", ["a", "--beam", "65"], ["--beam 65: at most 64"]),
        ("translate", ["a", "--beam", "9" * 30], ["--beam", "is above 4,611,686,018,427,387,904"]),
        ("generate", ["a", "--length", "10001"], ["--length 10001: at most 10,000"]),
        ("generate", ["a", "--temperature", "1e-300"], ["--temperature 1e-300 is not within"]),
        ("generate", ["a", "--temperature", "1e39"], ["--temperature 1e+39 is not within"]),
        ("generate", ["a", "--seed", "9" * 30], ["--seed", "is above"]),
        ("generate", ["a", "--seed", "-1"], ["--seed", "-1 is below zero"]),
        ("generate", ["a", "--\n\x1b[2J\udcff"], [r"unrecognized arguments: -- \x1b[2J\udcff"]),
    ],
)
def test_values_with_which_no_command_ends(
    command: str, flags: list[str], words: list[str], trained: Path, call: Call
) -> None:
    """Keeps out a full memory, an overflow in torch, and messages of several lines."""
    check_one_line(call(main, command, trained / "gpt-seed1", *flags), *words)


def test_a_tokenizer_of_another_run(trained: Path, call: Call, tmp_path: Path) -> None:
    """Keeps out ids beyond the embedding, and words that mean others."""
    for path in trained.glob("gpt-seed1.*"):
        shutil.copy(path, tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"kind": "words", "words": ["the"]}')
    result = call(main, "translate", tmp_path / "gpt-seed1", "the")
    check_one_line(result, "has a vocabulary of ", "the tokenizer beside it 5; one of them")


def test_a_picture_of_another_kind(trained: Path, call: Call, tmp_path: Path) -> None:
    """Keeps out a traceback of the figure library for an unknown ending."""
    run, path = trained / "gpt-seed1", tmp_path / "looked.doc"
    code, out, err = call(main, "translate", run, SENTENCE, "--alignment", path)
    check_one_line((code, out, err), "looked.doc" if out.strip() else "wrote nothing")


def test_runs_that_lack_a_part(trained: Path, call: Call, tmp_path: Path) -> None:
    """Keeps out a traceback for results that were shared without weights, or changed by hand."""
    run = tmp_path / "gpt-seed1"
    shutil.copy(trained / "gpt-seed1.json", tmp_path)
    check_one_line(call(main, "translate", run, "a"), "weights", "not here; train it again")
    shutil.copy(trained / "gpt-seed1.safetensors", tmp_path)
    check_one_line(call(main, "translate", run, "a"), "tokenizer.json cannot be read")
    shutil.copy(trained / "tokenizer.json", tmp_path)
    shutil.copy(trained / "bahdanau-seed1.safetensors", tmp_path / "gpt-seed1.safetensors")
    check_one_line(call(main, "translate", run, "a"), "is damaged or belongs to another run")
    made = json.loads((tmp_path / "gpt-seed1.json").read_text())
    made["model_config"]["n_wings"] = 2
    (tmp_path / "gpt-seed1.json").write_text(json.dumps(made))
    check_one_line(call(main, "translate", run, "a"), "is damaged or belongs to another run")
    (tmp_path / "gpt-seed1.json").write_text(json.dumps(made | {"weights_sha256": None}))
    check_one_line(call(main, "translate", run, "a"), "does not fit its record", "n_wings")
    shutil.copy(trained / "gpt-seed1.safetensors", tmp_path)
    del made["model_config"]["n_wings"]
    (tmp_path / "gpt-seed1.json").write_text(json.dumps(made | {"weights_sha256": None}))
    code, _, err = call(main, "translate", run, "a")
    assert code == 0
    assert "no checksum of the weights recorded" in err


def test_a_rate_that_is_too_high(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a traceback, or a record of nothing, where training diverges."""
    monkeypatch.setitem(recall.SIZES, "smoke", TOY)
    flags = ["--size", "smoke", "--models", "rnn_encdec", "--tokens", 3000, "--rate", 1e30]
    result = call(recall, *flags, "--device", "cpu", "--out", tmp_path)
    check_one_line(result, "the loss is lost", "lower rate")
    assert not list(tmp_path.glob("*-seed*.json"))


@pytest.mark.parametrize("error", [ValueError("a\nb\n  c"), OSError("a\r\nb c")])
def test_an_error_of_many_lines_is_one(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out messages of other libraries that fill the screen."""

    def fail() -> None:
        raise error

    with pytest.raises(SystemExit) as stopped:
        terminal.guard("task", fail)
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "task: a b c\n"


def test_our_own_mistakes_keep_their_traceback() -> None:
    """Keeps out a bug that is reported as if the person had made it."""

    def fail() -> None:
        raise KeyError("ours")

    with pytest.raises(KeyError):
        terminal.guard("task", fail)


def test_a_message_takes_the_place_of_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a message in the middle of a progress bar, and escapes in a file."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, expected in ((Terminal(), "\r\x1b[Ktask: no\n"), (io.StringIO(), "task: no\n")):
        monkeypatch.setattr(sys, "stderr", stream)
        assert terminal.fail("task", "no", 2) == 2
        assert stream.getvalue() == expected


# ---------------------------------------------------------------------------------------- Ctrl-C

TOY = {"n_train": 60, "n_valid": 6, "per_length": 2, "trained_to": 8, "tested_to": 8}


@pytest.mark.usefixtures("undrawn")
def test_finished_runs_are_kept(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a stop that costs what was done; the same command goes on with the rest."""
    monkeypatch.setitem(recall.SIZES, "smoke", TOY)
    flags = ["--size", "smoke", "--models", "gpt", "rnn_encdec", "--tokens", 200, "--out", tmp_path]
    run_one = compare.run_one

    def stop_at_rnn(one: Run) -> dict[str, Any]:
        if one.name == "rnn_encdec":
            raise KeyboardInterrupt
        return run_one(one)

    monkeypatch.setattr(compare, "run_one", stop_at_rnn)
    check_one_line(call(recall, *flags), "stopped; the same command goes on", code=130)
    kept = tmp_path / "gpt-seed1.json"
    assert [path.name for path in tmp_path.glob("*-seed*.json")] == [kept.name]
    before = kept.stat().st_mtime_ns
    monkeypatch.setattr(compare, "run_one", run_one)
    code, out, _ = call(recall, *flags)
    assert code == 0
    assert "gpt, seed 1: recorded in" in out
    assert kept.stat().st_mtime_ns == before
    assert (tmp_path / "rnn_encdec-seed1.json").exists()


@pytest.mark.slow
def test_ctrl_c_in_training(tmp_path: Path) -> None:
    """Keeps out a traceback on Ctrl-C, from the real command in the middle of its training."""
    command = [sys.executable, "-m", "tasks.recall", "--size", "smoke", "--models", "rnn_encdec"]
    command += ["--tokens", "100_000_000", "--device", "cpu", "--out", str(tmp_path)]
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env=env, **pipes) as program:
        try:
            assert "training on 100,000,000 tokens" in program.stdout.readline()
            program.send_signal(signal.SIGINT)
            out, err = program.communicate(timeout=60)
        finally:
            program.kill()
    check_one_line((program.returncode, out, err), "recall: stopped", code=130)
    assert not list(tmp_path.glob(".*.part"))


# ------------------------------------------------------------------------------------- packaging


def test_only_one_name_is_installed() -> None:
    """Keeps out a top-level `tasks` or `tests` in everybody's site-packages."""
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = setup["tool"]["setuptools"]["packages"]["find"]["include"]
    folders = [path.name for path in ROOT.iterdir() if path.is_dir() and path.name.isidentifier()]
    found = [n for n in folders if any(fnmatch.fnmatchcase(n, pattern) for pattern in patterns)]
    assert found == ["seqmodels"]
    assert setup["project"]["scripts"] == {"seqmodels": "seqmodels.commands.main:main"}


@pytest.mark.slow
def test_the_wheel_holds_the_library(tmp_path: Path) -> None:
    """Keeps out a wheel without the models, and one with more than the library."""
    pytest.importorskip("setuptools", minversion="77")
    copy = tmp_path / "clone"
    left_out = shutil.ignore_patterns(".*", "runs", "__pycache__", "*.egg-info", "build", "results")
    shutil.copytree(ROOT, copy, ignore=left_out)
    program = "from setuptools import build_meta; build_meta.build_wheel('..')"
    subprocess.run([sys.executable, "-c", program], cwd=copy, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"seqmodels"}
    library = {path.relative_to(ROOT).as_posix() for path in (ROOT / "seqmodels").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == library


PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("tasks/*.py"))]
PROGRAMS = {"seqmodels": main, "recall": recall, "translation": translation}
PROGRAMS |= {"next_token": next_token}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_the_commands_that_are_named_exist(page: Path, call: Call) -> None:
    """Keeps out a page that names a task, a subcommand or a flag that is no more."""
    text = page.read_text(encoding="utf-8")
    for task, rest in re.findall(r"python -m tasks\.(\w+)((?: +[^\s`#]+)*)", text):
        program = PROGRAMS.get(task)
        if program is None:  # a maker of data that can be run by itself
            assert (ROOT / "tasks" / f"{task}.py").exists()
            continue
        help_text = call(program, "--help")[1]
        assert {flag for flag in re.findall(r"--[\w-]+", rest) if flag not in help_text} == set()
    for name, rest in re.findall(r"(?:^|`) *seqmodels (\w+)([^`\n#]*)", text, re.MULTILINE):
        code, help_text, _ = call(main, name, "--help")
        assert code == 0, name
        assert {flag for flag in re.findall(r"--[\w-]+", rest) if flag not in help_text} == set()


def slow_pair(out: Path) -> tuple[list[str], dict[str, Any]]:
    """Return a command that trains two models at once for hours, and how to start it."""
    command = [sys.executable, "-m", "tasks.recall", "--size", "smoke"]
    command += ["--models", "rnn_encdec", "lstm_seq2seq", "--tokens", "100_000_000"]
    command += ["--device", "cpu", "--out", str(out)]
    env = os.environ | {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "PYTHONUNBUFFERED": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return command, {"cwd": ROOT, "env": env, **pipes}


def children(pid: int) -> list[int]:
    """Return the processes that train for a command: those of its children that are workers."""
    found = subprocess.run(["pgrep", "-P", str(pid), "-f", "spawn_main"], capture_output=True)
    return [int(line) for line in found.stdout.split()]


def is_running(pid: int) -> bool:
    """Return whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pgrep") is None, reason="pgrep tells what processes run")
@pytest.mark.parametrize(
    ("signals", "code", "message"),
    [
        ("parent", 130, "recall: stopped; the same command goes on"),
        ("child", 2, "recall: a process that trained was killed"),
        ("lost parent", -9, None),
    ],
)
def test_two_at_once_are_stopped(
    tmp_path: Path, signals: str, code: int, message: str | None
) -> None:
    """Keeps out tracebacks, a wait without end, and processes that train on for nobody."""
    command, how = slow_pair(tmp_path)
    with subprocess.Popen(command, **how) as program:
        try:
            begun = {program.stdout.readline().partition(",")[0] for _ in range(2)}
            assert begun == {"rnn_encdec", "lstm_seq2seq"}
            workers = children(program.pid)
            assert len(workers) == 2
            if signals == "child":
                os.kill(workers[0], signal.SIGKILL)
            else:
                program.send_signal(signal.SIGINT if signals == "parent" else signal.SIGKILL)
            out, err = program.communicate(timeout=60)
        finally:
            program.kill()
    assert program.returncode == code
    if message:
        check_one_line((program.returncode, out, err), message, code=code)
    assert not [pid for pid in workers if is_running(pid)]
