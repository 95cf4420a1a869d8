"""A user's mistake: one line that names the place, and exit code 2."""

import json
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import RESULTS, Call, check_one_line, copy_records, fields_of, needs_lesson

from benchmarks import __main__ as benchmarks
from seqmodels.cli import main

tasks = pytest.importorskip("tasks.__main__")
next_token = pytest.importorskip("tasks.next_token.__main__")
copy = pytest.importorskip("tasks.copy.__main__")
translation = pytest.importorskip("tasks.translation.__main__")

FILES = {
    "src.de": "ein Satz\nzwei mehr Worte\nund\n",
    "short.en": "a sentence\n",
    "notes.md": "# a file of another kind\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for name, content in FILES.items():
        (folder / name).write_text(content)
    return folder


CALLS: list[tuple[ModuleType, str, tuple[str, ...]]] = [
    # flags and their values
    (main, "paint", ("'paint'", "models", "plot")),
    (main, "generate bahdanau a --top-p 0", ("top-p 0",)),
    (main, "generate bahdanau a --seed -1", ("--seed", "'-1'")),
    (main, "generate bahdanau a --length 0", ("--length", "'0'")),
    (main, "translate bahdanau a --length-penalty 2", ("give --beam 2 or more",)),
    (main, "translate bahdanau a\nb --alignment @/a.svg", ("draws one sentence",)),
    (main, "translate bahdanau @/src.de", ("src.de is a file; to read it, give: < ",)),
    (main, "exercise gpt --mistake --out @/e", ("is for the transformer; give gpt with --hide",)),
    (copy, "--mod gpt", ("--mod", "(--help shows all flags)")),
    (copy, "--tokens 0", ("--tokens", "'0'")),
    (copy, "--set lr=inf", ("lr='inf'",)),
    (copy, "--lr 0.1", ("give --set lr=R",)),
    (copy, "--epochs 3", ("give --tokens N",)),
    (copy, "--out @/notes.md --size smoke", ("--out ", "notes.md is not a folder")),
    (copy, "--models transformer --vary n_heads=two", ("n_heads='two'",)),
    (translation, "--source de", ("--source", "--data")),
    (next_token, "--block 9", ("--block", "--data")),
    (next_token, "--data @/src.de --block 9", ("--block needs --context 0",)),
    (next_token, "--data @/src.de --context 2049", ("--context 2049", "2,048")),
    (next_token, "--data @/src.de --context 0 --block 2049", ("--block 2049", "2,048")),
    (next_token, "--data @/src.de --context 2048 --tokenizer characters", ("2080", "--context")),
    (copy, "--size full", ("--size full needs --bits",)),
    (copy, "--best-state 3", ("--best-state needs --bits",)),
    (translation, "--data @/src.de @/src.de --size full", ("--size full", "--tokens")),
    (translation, "--data @/src.de @/src.de --preset ladder", ("--preset is for",)),
    (benchmarks, "--only nope", ("nope",)),
    # a similar name
    (main, "translate bahdanau a --bem 2", ("--bem 2 (did you mean '--beam'?)",)),
    (main, "translate bahdanau -Hallo", ("-Hallo (give -- before a text that begins with -)",)),
    (main, "translate mamba2 a", ("the package has no small model of it", "mamba2")),
    (main, "translate Bahdanua a", ("Bahdanua.json: no such record (did you mean 'bahdanau'?)",)),
    (next_token, "--data shakspeare", ("did you mean 'shakespeare'?",)),
    # no line break and no command for the terminal is printed
    (main, "plot a\nb\x1b\udcff", (r"a b\x1b\udcff does not exist",)),
    # folders to draw and runs to use
    (main, "plot @/nope", ("nope does not exist",)),
    (main, "plot @/notes.md", ("notes.md cannot be read: Not a directory",)),
    (main, "report @ --out @/a.txt", ("a.txt",)),
    (main, "report @ --out @/a.html", ("no record",)),
    (main, "live @ --out @/nope/a.html", ("nope/a.html",)),
    # corpora
    (translation, "--data nowhere", ("nowhere",)),
    (translation, "--data @/src.de @/short.en", ("src.de", "short.en")),
]


@pytest.mark.parametrize(("program", "flags", "words"), CALLS, ids=lambda value: str(value)[:40])
@pytest.mark.usefixtures("cached")
def test_a_mistake_gets_one_line(
    program: ModuleType, flags: str, words: tuple, call: Call, folder: Path
) -> None:
    result = call(program, *flags.replace("@", str(folder)).split(" "))
    check_one_line(result, *words)
    assert program is not main or result[1] == ""


def copy_run(trained: Path, to: Path) -> Path:
    """Copy a run without its checksum."""
    for path in (*trained.glob("gpt-seed1.*"), trained / "vocabulary.json"):
        shutil.copy(path, to)
    path = to / "gpt-seed1.json"
    path.write_text(json.dumps(fields_of(path) | {"weights_sha256": None}))
    return path.with_suffix("")


def check_refusal(result: tuple[int, str, str], *words: str) -> None:
    """Check the last line; the one before may say that weights without checksum are not checked."""
    code, out, err = result
    *notes, line = err.splitlines()
    assert all("no checksum of the weights" in note for note in notes)
    check_one_line((code, out, f"{line}\n"), *words)


PICKLE = b"csys\nexit\n(S'a pickle was read'\ntR."
BROKEN = [
    *((name, PICKLE) for name in ("gpt-seed1.json", "gpt-seed1.safetensors", "vocabulary.json")),
    ("gpt-seed1.safetensors", (10**10).to_bytes(8, "little") + b"{}"),
    ("gpt-seed1.json", b"[1]"),
    ("gpt-seed1.safetensors", None),
    ("vocabulary.json", None),
    ("vocabulary.json", b'{"kind": "words", "words": ["the"]}'),
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


def test_weights_must_be_those_of_the_record(trained: Path, call: Call, tmp_path: Path) -> None:
    run = copy_run(trained, tmp_path)
    assert call(main, "translate", run, "a")[0] == 0
    weights = run.with_suffix(".safetensors")
    good = weights.read_bytes()
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
    (copy, "--size smoke --out @"),
    (translation, "--data @/nowhere --out @"),
    (main, "export results/translation-live/gpt-seed1 --out @"),
    (main, "exercise bahdanau --hide (5) --out @"),
    (main, "site --out @"),
    (main, "plot @/src"),
    (main, "report @/recall --out @/page.html"),
    (main, "live results/translation-live --out @/page.html"),
    (main, "translate results/translation-live/bahdanau-seed1 cat --alignment @/cat.svg"),
    (tasks, "--out @/docs"),
])  # fmt: skip
def test_what_is_the_users_is_neither_written_nor_removed(
    program: ModuleType, flags: str, call: Call, tmp_path: Path
) -> None:
    for name in ("docs", "recall", "src"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tsconfig.json").write_text("{ // another program's\n}")
    shutil.copy(RESULTS / "recall" / "gpt-seed1.json", tmp_path / "recall")
    for name in ("vocabulary.json", "manifest.json", ".lock", ".notes.part", "README.md",
                 "index.html", "page.html", "cat.svg"):  # fmt: skip
        (tmp_path / name).write_text("my notes on `seqmodels`\n")
    before, words = kept(tmp_path), flags.replace("@", str(tmp_path)).split(" ")
    check_one_line(call(program, *words), str(tmp_path), "no record" if "src" in flags else "name")
    assert kept(tmp_path) == before


@needs_lesson
@pytest.mark.usefixtures("few_draws")
def test_what_is_ours_is_written_again(call: Call, trained: Path, tmp_path: Path) -> None:
    folder = copy_records(trained, tmp_path / trained.name, model="bahdanau")
    draw = main, "translate", trained / "bahdanau-seed1", "cat", "--alignment", tmp_path / "a.svg"
    report = main, "report", folder, "--maps", 0, "--out", tmp_path / "a.html"
    for command in (draw, report, (main, "plot", folder)):
        assert [call(*command)[0] for _ in range(2)] == [0, 0]
    (folder / ".seqmodels").write_text("exercise\n")  # it is not: it has records
    assert call(main, "plot", folder)[0] == 0
    (folder / "curves.png").write_bytes(b"my own")
    before = kept(folder)
    check_one_line(call(main, "plot", folder), "curves.png", "move it")
    assert kept(folder) == before
