"""A user's mistake: one line that names the place, and exit code 2."""

import json
import math
import os
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import RESULTS, Call, check_one_line, copy_records, needs_lesson

from benchmarks import __main__ as benchmarks
from seqmodels.cli import main
from seqmodels.records import io as record

tasks = pytest.importorskip("tasks.__main__")
next_token = pytest.importorskip("tasks.next_token.__main__")
recall = pytest.importorskip("tasks.copy.__main__")
translation = pytest.importorskip("tasks.translation.__main__")

FILES = {
    "src.de": b"ein Satz\nzwei mehr Worte\nund\n",
    "ref.en": b"a sentence\ntwo more words\nand\n",
    "short.en": b"a sentence\n",
    "columns.jsonl": b'{"a": "x", "b": "y", "n": 1}\n' * 3,
    "notes.md": b"# a file of another kind\n",
    "short.txt": b"Once upon a time. " * 20,
    "two/train.qaa": b"a\nb\n", "two/train.qab": b"c\nd\n", "two/valid.qaa": b"e\nf\n",
    "two/valid.qab": b"g\n", "two/test.qaa": b"h\n", "two/test.qab": b"i\n",
    "empty-folder/.keep": b"",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for name, content in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "empty-folder" / ".keep").unlink()
    os.mkfifo(folder / "fifo")
    return folder


CALLS: list[tuple[ModuleType, str, tuple[str, ...]]] = [
    # flags and their values
    (main, "paint", ("'paint'", "models", "plot")),
    (main, "translate bahdanau a --beam 65", ("beam of 65", "64")),
    (main, "translate bahdanu.json a", ("RUN: bahdanu.json: no ", "'bahdanau'")),
    (main, "generate bahdanau a --length 10001", ("--length 10001", "10,000")),
    (main, "generate bahdanau a --top-p 0", ("top-p 0",)),
    (main, "generate bahdanau a --seed -1", ("--seed", "'-1'")),
    (recall, "--mod gpt", ("--mod",)),
    (recall, f"--tokens {'9' * 20}", ("--tokens", "whole number")),
    (recall, "--lr inf", ("--lr", "'inf'")),
    (recall, "--out @/notes.md --size smoke", ("notes.md",)),
    (recall, f"--out @/{'x' * 5_000} --size smoke", ("too long",)),
    (recall, "--data x", ("--data",)),
    (recall, "--models transformer --vary n_hats=3", ("n_hats", "n_heads", "lr", "width")),
    (recall, "--grid", ("--grid", "--vary")),
    (recall, "--models transformer --vary n_heads=two", ("n_heads='two'",)),
    (recall, "--models transformer --vary n_heads=2,,4", ("FIELD=A,B,C",)),
    (translation, "--source de", ("--source", "--data")),
    (translation, "--size full --data x", ("--size full",)),
    (translation, "--data x --tokenizer bert", ("'bert'", "bpe")),
    (translation, "--data @/two --preset parts", ("--preset", "--data")),
    (next_token, "--block 9", ("--block", "--data")),
    (next_token, "--data @/notes.md --block 9", ("--block", "--context 0", "128")),
    (next_token, f"--data @/notes.md --context {'9' * 12}", ("--context 9", "2,048")),
    (next_token, "--data @/notes.md --context 0 --block 4000", ("--block 4000", "2,048")),
    (tasks, "--tokens nan", ("--tokens", "'nan'")),
    (benchmarks, "--only nope", ("nope",)),
    # a similar name
    (main, "translte", ("'translte'", "did you mean 'translate'?")),
    (main, "translate bahdanau a --bem 2", ("--bem 2 (did you mean '--beam'?)",)),
    (main, "exercise bahdanua --hide (5) --out @/x", ("did you mean 'bahdanau'?",)),
    (main, "check bahdanua", ("did you mean 'bahdanau'?",)),
    (main, "translate Bahdanua a", ("Bahdanua.json: no such record (did you mean 'bahdanau'?)",)),
    (main, f"translate {RESULTS}/recall/gpt-sed1 a", ("did you mean 'gpt-seed1'?",)),
    (main, "run coppy", ("did you mean 'copy'?",)),
    (recall, "--siz=smoke", ("did you mean '--size'?",)),
    (recall, "--size smok", ("did you mean 'smoke'?",)),
    (recall, "--models transformer_rotry", ("did you mean 'transformer_rotary'?",)),
    (recall, "--models GPT", ("did you mean 'gpt'?",)),
    (recall, "--models gpt --vary n_laiers=3", ("did you mean 'n_layers'?",)),
    (next_token, "--data @/notes.md --tokenizer caracters", ("did you mean 'characters'?",)),
    (next_token, "--data shakspeare", ("did you mean 'shakespeare'?",)),
    (next_token, "--data multi30k", ("multi30k is a parallel corpus, for translation",)),
    (translation, "--data names", ("names is text, for next_token",)),
    (translation, "--data ", ("'' does not exist",)),
    (translation, "--data multi-30k", ("did you mean 'multi30k'?",)),
    (tasks, "--sedes 1", ("did you mean '--seeds'?",)),
    # no line break and no command for the terminal is printed
    (main, "plot a\nb\x1b\udcff", (r"a b\x1b\udcff does not exist",)),
    (main, "generate bahdanau a --\n\x1b[2J\udcff", (r"-- \x1b[2J\udcff",)),
    # folders to draw and runs to use
    (main, "plot @/nope", ("nope does not exist",)),
    (main, "plot @/fifo", ("fifo",)),
    (main, "translate @/nope/gpt-seed1 a", ("nope/gpt-seed1.json",)),
    (main, "report @ --out @/a.txt", ("a.txt",)),
    (main, "report @ --out @/a.html --maps -1", ("--maps",)),
    (main, "report @", ("--out",)),
    (main, "live @/nope --out @/a.html", ("nope",)),
    (main, "site --runs @/nope --out @/site", ("nope",)),
    (main, "live @ --out @/a.txt", ("a.txt",)),
    (main, "live @ --out @/nope/a.html", ("nope/a.html",)),
    # corpora
    (translation, "--data nowhere", ("nowhere does not exist",)),
    (translation, "--data @/empty-folder", ("empty-folder", "train.de")),
    (translation, "--data a b c", ("3 files",)),
    (translation, "--data @/src.de @/short.en", ("src.de has 3 lines", "short.en has 1")),
    (translation, "--data @/two --tokenizer characters:300", ("characters:300",)),
    (next_token, "--data @/notes.md --column text", ("column",)),
    (next_token, "--data @/columns.jsonl --column c", ("'c'", "'a', 'b'", "--column")),
    (next_token, "--data @/short.txt --context 8", ("short.txt", "64", "--context")),
    (next_token, "--data @/short.txt --context 0 --block 400", ("short.txt", "400", "--block")),
]


@pytest.mark.parametrize(("program", "flags", "words"), CALLS, ids=lambda value: str(value)[:40])
@pytest.mark.usefixtures("cached")
def test_a_mistake_gets_one_line(
    program: ModuleType, flags: str, words: tuple, call: Call, folder: Path
) -> None:
    result = call(program, *flags.replace("@", str(folder)).split(" "))
    check_one_line(result, *words)
    assert program is not main or result[1] == ""


def test_a_text_that_is_too_long_is_refused_at_the_limit(trained: Path, call: Call) -> None:
    n = record.load(trained / "gpt-seed1.json").size("n_positions")
    for command, most in (("translate", n - 2), ("generate", n - 1)):  # a source ends with EOS
        for n_words in (most + 1, most):
            text = " ".join(["the"] * n_words)
            result = call(main, command, trained / "gpt-seed1", text)
            if n_words > most:
                check_one_line(result, f"{n_words} tokens", f"at most {most}")
            else:
                assert result[0] == 0
    for text in ("the " * 2_500_000, "x" * 10_000_000 + " the" * 2_000):
        check_one_line(call(main, "translate", trained / "bahdanau-seed1", text), "at most 2000")
    check_one_line(call(main, "translate", trained / "gpt-seed1", "a\udcff"), "character 2")


def copy_run(
    trained: Path, to: Path, name: str = "gpt", model: str | None = None, **changes: Any
) -> Path:
    """Copy a run without its checksum, and change its record."""
    for path in (*trained.glob(f"{name}-seed1.*"), trained / "tokenizer.json"):
        shutil.copy(path, to)
    path = to / f"{name}-seed1.json"
    content = json.loads(path.read_text("utf-8")) | {"weights_sha256": None}
    content |= {"model": model or content["model"]}
    content["model_config"] |= changes
    path.write_text(json.dumps(content))
    return to / f"{name}-seed1"


def check_refusal(result: tuple[int, str, str], *words: str) -> None:
    """Check the last line; the one before may say that weights without checksum are not checked."""
    code, out, err = result
    *notes, line = err.splitlines()
    assert all("no checksum of the weights" in note for note in notes)
    check_one_line((code, out, f"{line}\n"), *words)


PICKLE = b"csys\nexit\n(S'a pickle was read'\ntR."
BROKEN = [
    *((name, PICKLE) for name in ("gpt-seed1.json", "gpt-seed1.safetensors", "tokenizer.json")),
    ("gpt-seed1.safetensors", (10**10).to_bytes(8, "little") + b"{}"),
    ("gpt-seed1.json", b"[1]"),
    ("gpt-seed1.safetensors", None),
    ("tokenizer.json", None),
    ("tokenizer.json", b'{"kind": "words", "words": ["the"]}'),
]


@pytest.mark.parametrize(("name", "content"), BROKEN, ids=lambda value: str(value)[:30])
def test_a_broken_file_of_a_run_is_refused(
    name: str, content: Any, trained: Path, call: Call, tmp_path: Path
) -> None:
    run = copy_run(trained, tmp_path)
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    check_refusal(call(main, "translate", run, "a"), str(tmp_path))


def test_sizes_that_no_model_has_are_refused(trained: Path, call: Call, tmp_path: Path) -> None:
    for name, changes in (
        ("bahdanau", {"d_model": 0}),
        ("gpt", {"n_heads": 7}),
        ("gpt", {"n_heads": 0}),
        ("gpt", {"n_wings": 2}),
        ("gpt", {"dropout": math.nan}),
        ("lstm_seq2seq", {"n_layers": 10**7}),
        ("lstm_seq2seq", {"vocab_size": 10**9}),
        ("lstm_seq2seq", {"vocab_size": "8"}),
        ("lstm_seq2seq", {"model": "os.system"}),
    ):
        run = copy_run(trained, tmp_path, name, **changes)
        check_refusal(call(main, "translate", run, "a"), run.name)


def test_weights_must_be_finite_and_those_of_the_record(
    trained: Path, call: Call, tmp_path: Path
) -> None:
    run = copy_run(trained, tmp_path)
    code, _, err = call(main, "translate", run, "a")
    assert code == 0
    assert "no checksum of the weights" in err
    weights = run.with_suffix(".safetensors")
    good = weights.read_bytes()
    weights.write_bytes(good[:-4] + b"\xff\xff\xff\x7f")
    check_refusal(call(main, "translate", run, "a"), weights.name, "finite")
    weights.write_bytes(good[:-7])
    check_refusal(call(main, "translate", run, "a"), weights.name)
    shutil.copy(trained / "gpt-seed1.json", tmp_path)
    shutil.copy(trained / "bahdanau-seed1.safetensors", weights)
    check_one_line(call(main, "translate", run, "a"), weights.name, "belongs to another run")


# -------------------------------------------------------------------------- Whose files they are
def kept(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


@needs_lesson
@pytest.mark.parametrize(("program", "flags"), [
    (recall, "--size smoke --out @"),
    (translation, "--data @/nowhere --out @"),
    (main, "export results/translation-live/gpt-seed1 --out @"),
    (main, "exercise bahdanau --hide (5) --out @"),
    (main, "site --out @"),
    (main, "plot @"),
    (main, "plot @/src"),
    (main, "report @/recall --out @/page.html"),
    (main, "live results/translation-live --out @/page.html"),
    (main, "translate results/translation-live/bahdanau-seed1 cat --alignment @/cat.svg"),
    (tasks, "--out @"),
])  # fmt: skip
def test_what_is_the_users_is_neither_written_nor_removed(
    program: ModuleType, flags: str, call: Call, tmp_path: Path
) -> None:
    for name in ("recall", "src"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tsconfig.json").write_text("{ // another program's\n}")
    shutil.copy(RESULTS / "recall" / "gpt-seed1.json", tmp_path / "recall")
    for name in ("tokenizer.json", "manifest.json", ".lock", ".notes.part", "README.md",
                 "index.html", "page.html", "cat.svg"):  # fmt: skip
        (tmp_path / name).write_text("my notes on `seqmodels`\n")
    before, words = kept(tmp_path), flags.replace("@", str(tmp_path)).split(" ")
    check_one_line(call(program, *words), str(tmp_path), "no record" if "src" in flags else "name")
    assert kept(tmp_path) == before


@needs_lesson
def test_what_is_ours_is_written_again(call: Call, trained: Path, tmp_path: Path) -> None:
    folder = copy_records(trained, tmp_path / trained.name)
    draw = main, "translate", trained / "bahdanau-seed1", "cat", "--alignment", tmp_path / "a.svg"
    report = main, "report", folder, "--maps", 0, "--out", tmp_path / "a.html"
    for command in (draw, report, (main, "plot", folder)):
        assert [call(*command)[0] for _ in range(2)] == [0, 0]
    (folder / ".seqmodels").write_text("exercise\n")  # it is not: it has records
    assert call(main, "plot", folder)[0] == 0
