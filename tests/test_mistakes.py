"""The one line that a mistake gets, from every program."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import datasets
import pytest
import torch
from checks import check_one_line, no_network
from conftest import Call
from toy_task import TOY

from seqmodels.cli import main
from seqmodels.data import presets
from seqmodels.records import record
from tasks.next_token import __main__ as next_token
from tasks.recall import __main__ as recall
from tasks.translation import __main__ as translation

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("twice", [["--seeds", "2", "1", "2"], ["--models", "gpt", "gpt"]])
def test_no_run_is_made_twice(twice: list[str], call: Call, tmp_path: Path) -> None:
    """Keeps out two processes that write the same record, checkpoints and weights."""
    result = call(recall, "--out", tmp_path / "out", *twice)
    check_one_line(result, f"{twice[0]}: {twice[-1]} is given twice; give each once")
    assert not (tmp_path / "out").exists()


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
    check_one_line(result, "short.txt is too short", "a window needs 64", "a smaller --context")
    result = call(next_token, "--data", tmp_path / "short.txt", *PLAIN, "--block", 400)
    check_one_line(result, "short.txt is too short: train has", "needs 400", "a smaller --block")


def test_a_column_that_is_not_there(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a bare KeyError, and rows that are not rows; the line says what there is."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hub")
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": "x", "b": "y", "n": 1}\n' * 3)
    result = call(next_token, "--data", path, "--column", "c")
    check_one_line(result, "a.jsonl has no text column 'c', but 'a', 'b'; choose one with --column")
    path.write_text('{"a": "x"\n')
    result = call(next_token, "--data", path, "--limit", 3)
    check_one_line(result, "a.jsonl, line 1: not JSON: Expecting ',' delimiter")


def test_a_context_that_no_story_has(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out an average over no story."""
    toy = {"n_train": 9, "n_valid": 3, "max_test": 32, "per_distance": 3}
    monkeypatch.setitem(next_token.SIZES, "smoke", toy)
    result = call(next_token, "--size", "smoke", "--context", 5000)
    check_one_line(result, "--context 5000: the longest test story allows ")


PLAIN = ["--context", "0"]


@pytest.mark.parametrize(
    ("program", "argv", "words"),
    [
        (recall, ["--models", "bert"], ["--models", "'bert'", "rnn_encdec"]),
        (recall, ["--layers", "3"], ["unrecognized arguments: --layers"]),
        (recall, ["--mod", "gpt"], ["unrecognized arguments: --mod"]),
        (recall, ["--data", "x"], ["unrecognized arguments: --data"]),
        (recall, ["--size", "huge"], ["'huge'", "smoke", "laptop"]),
        (recall, ["--size", "full"], ["'full'", "smoke", "laptop"]),
        (translation, ["--size", "full", "--data", "x"], ["--size full is for the built-in"]),
        (translation, ["--source", "de"], ["--source needs --data"]),
        (translation, ["--source", ""], ["--source needs --data"]),
        (translation, ["--vocab", "300"], ["--vocab needs --data"]),
        (translation, ["--data", "nowhere"], ["nowhere does not exist; it is not a known corpus"]),
        (translation, ["--data", __file__], ["test_mistakes.py is neither a table", "give two"]),
        (translation, ["--data", str(ROOT / "tasks")], ["tasks has no train.xx"]),
        (translation, ["--data", "a", "b", "c"], ["3 files were given"]),
        (translation, ["--data", "x", "y"], ["x does not exist; give the path of a UTF-8"]),
        (translation, ["--data", "x", "--tokenizer", "bert"], ["'bert'", "bpe"]),
        (translation, ["--data", "x", "--limit", "0"], ["--limit"]),
        (next_token, ["--data", "nowhere"], ["nowhere does not exist"]),
        (next_token, ["--data", "nobody/nothing"], ["nobody/nothing cannot", "without a network"]),
        (next_token, ["--data", "names"], ["names.txt cannot be fetched", "to use names without"]),
        (next_token, ["--data", __file__, "/"], ["/ cannot be read: Is a directory"]),
        (next_token, ["--data", __file__, "a.csv"], ["a.csv is a table; several files must"]),
        (next_token, ["--data", __file__, "--limit", "9"], ["a limit applies only to a table"]),
        (next_token, ["--data", __file__, "--column", "a"], ["a column applies only to a table"]),
        (next_token, ["--data", __file__, "--tokenizer", "x"], ["--tokenizer", "'x'", "bytes"]),
        (next_token, ["--data", __file__, "--block", "9"], ["--context 0; the context is 128"]),
        (next_token, ["--data", __file__, *PLAIN, "--block", "4000"], ["--block 4000: at most"]),
        (next_token, ["--data", __file__, *PLAIN, "--stride", "65"], ["the block of 64"]),
        (next_token, ["--block", "9"], ["--block needs --data; the built-in stories have fixed"]),
        *((next_token, [flag, "0"], [flag, "'0'"]) for flag in ("--block", "--stride")),
        (next_token, ["--context", "-1"], ["--context: '-1' is not a whole number"]),
        (next_token, ["--context", "nan"], ["--context", "nan"]),
        (next_token, ["--data", "/dev/zero"], ["/dev/zero is not a regular file"]),
        (next_token, ["--data", "x\ny\x1b\udcff"], [r"x y\x1b\udcff does not exist"]),
        *((recall, ["--tokens", n], ["--tokens", n]) for n in ("0", "-3", "nan", "1.5", "many")),
        *((recall, [flag, "9" * 20], [flag, "to 4,611,"]) for flag in ("--tokens", "--seeds")),
        *((recall, ["--lr", n], ["--lr", n]) for n in ("0", "-1", "nan", "inf", "fast")),
        *((recall, ["--seeds", n], ["--seeds", n]) for n in ("-1", "nan", "1.5", "one")),
        (recall, ["--out", __file__, "--size", "smoke"], [f"--out {__file__} is not a folder"]),
        (main, ["paint"], ["'paint'", "models", "plot"]),
        (main, ["plot", "nowhere"], ["nowhere does not exist"]),
        (main, ["plot", __file__], ["test_mistakes.py cannot be read: Not a directory"]),
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
    assert "tokenizing" in result[1] or result[1] == ""  # what is read is said before it is counted


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
        ("translate", ["a", "--beam", "9" * 30], ["--beam", "from 1 to 4,611,686,018,427,387,904"]),
        ("generate", ["a", "--length", "10001"], ["--length 10001: at most 10,000"]),
        ("generate", ["a", "--temperature", "1e-300"], ["--temperature 1e-300 is not between"]),
        ("generate", ["a", "--temperature", "1e39"], ["--temperature 1e+39 is not between"]),
        ("generate", ["a", "--seed", "9" * 30], ["--seed", "is not a whole number"]),
        ("generate", ["a", "--seed", "-1"], ["--seed: '-1' is not a whole number"]),
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


def test_runs_that_lack_a_part(trained: Path, call: Call, tmp_path: Path) -> None:
    """Keeps out a traceback for results that were shared without weights, or changed by hand."""
    run = tmp_path / "gpt-seed1"
    shutil.copy(trained / "gpt-seed1.json", tmp_path)
    check_one_line(call(main, "translate", run, "a"), "weights", "are missing; train it again")
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
    check_one_line(call(main, "translate", run, "a"), "does not match its record", "n_wings")
    shutil.copy(trained / "gpt-seed1.safetensors", tmp_path)
    del made["model_config"]["n_wings"]
    (tmp_path / "gpt-seed1.json").write_text(json.dumps(made | {"weights_sha256": None}))
    code, _, err = call(main, "translate", run, "a")
    assert code == 0
    assert "no checksum of the weights" in err


def test_a_rate_that_is_too_high(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a traceback, or a record of nothing, where training diverges."""
    monkeypatch.setitem(recall.SIZES, "smoke", TOY)
    flags = ["--size", "smoke", "--models", "rnn_encdec", "--tokens", 3000, "--lr", 1e30]
    result = call(recall, *flags, "--device", "cpu", "--out", tmp_path)
    check_one_line(result, "training diverged", "use an lr below")
    assert not list(tmp_path.glob("*-seed*.json"))
