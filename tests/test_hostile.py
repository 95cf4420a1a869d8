"""What no command may answer with a traceback: other systems, closed streams, hostile calls."""

from __future__ import annotations

import argparse
import errno
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from checks import no_network
from toy_task import flags, toy

from benchmarks import __main__ as benchmarks_main
from seqmodels import build
from seqmodels.cli import main
from seqmodels.comparison import compare
from seqmodels.data import presets, tokenizers
from seqmodels.evaluation import external, intervals, metrics
from seqmodels.records import record
from seqmodels.report import systems
from seqmodels.training import checkpoint
from seqmodels.utils import files, terminal
from tasks import __main__ as tasks_main
from tasks.next_token import __main__ as next_token
from tasks.recall import __main__ as recall
from tasks.translation import __main__ as translation
from tools import hostile, survival

ROOT = Path(__file__).parents[1]

WINDOWS = """
import os, signal, sys
import filelock, portalocker, psutil  # these know Windows
import multiprocessing.reduction
from tqdm import tqdm

sys.modules["fcntl"] = sys.modules["resource"] = None
absent = {os: ["pread", "pwrite", "killpg", "fork", "O_NOFOLLOW", "set_blocking"]}
absent |= {signal: ["SIGHUP", "SIGKILL", "SIGPIPE"], multiprocessing.reduction: ["DupFd"]}
for module, names in absent.items():
    for name in names:
        delattr(module, name)
open_any = os.open

def open_file(path, *how, **more):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", path)
    return open_any(path, *how, **more)

os.open = open_file
"""
"""Take away what Windows lacks."""
IMPORTS = """
import importlib, pkgutil, benchmarks, seqmodels, tasks
for package in (seqmodels, tasks, benchmarks):
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
"""
SMOKE = """
from tasks.translation import __main__ as translation
flags = "--size smoke --models lstm_seq2seq --tokens 500 --device cpu --out".split()
translation.main([*flags, "OUT"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", [IMPORTS, SMOKE], ids=["imports", "smoke"])
def test_it_runs_without_what_windows_lacks(program: str, tmp_path: Path) -> None:
    """Keeps out modules, flags and signals that exist on POSIX alone: nothing could start."""
    text = WINDOWS + program.replace("OUT", str(tmp_path / "out"))
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert program is not SMOKE or (tmp_path / "out" / "lstm_seq2seq-seed1.json").exists()


def test_peak_memory_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a record without its memory where the system is not Linux: Windows knows a peak."""

    def absent(self: Path) -> str:
        raise FileNotFoundError(2, "No such file or directory", str(self))

    monkeypatch.setattr(Path, "read_text", absent)
    assert record.peak_memory_bytes("cpu") == pytest.approx(
        psutil.Process().memory_info().rss, rel=0.1
    )
    told = types.SimpleNamespace(rss=1, peak_wset=7)
    monkeypatch.setattr(psutil.Process, "memory_info", lambda self: told)
    assert record.peak_memory_bytes("cpu") == 7


# --------------------------------------------------------------------------------------- streams

PRINTS = "from seqmodels.utils.terminal import run_cli; run_cli('seqmodels', lambda: print({}))"


def shell(line: str, **variables: str) -> tuple[int, str, str]:
    """Run a line of bash, where $PYTHON is this Python; return the exit code, stdout and stderr."""
    env = os.environ | {"PYTHON": sys.executable} | variables
    done = subprocess.run(["bash", "-c", line], cwd=ROOT, env=env, capture_output=True, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("text", ["'y'", "'y' * 10**6"])
@pytest.mark.parametrize(
    ("stdout", "code", "message"),
    [
        ("> >(exec true)", 1, ""),
        ("> /dev/full", 1, "could not be written: No space left on device\n"),
        (">&-", 2, "is closed; redirect it to /dev/null instead\n"),
    ],
    ids=["reader gone", "full", "closed"],
)
def test_an_output_that_takes_nothing(
    stdout: str, code: int, message: str, text: str, unbuffered: str
) -> None:
    """Keeps out tracebacks, `Exception ignored`, and success where what was asked for is lost."""
    wait = "import time; time.sleep(0.3); " if "true" in stdout else ""
    program = wait + PRINTS.format(text)
    how = {"PROGRAM": program, "PYTHONUNBUFFERED": unbuffered}
    found = shell(f'"$PYTHON" -c "$PROGRAM" {stdout}', **how)
    assert found == (code, "", message and f"seqmodels: standard output {message}")


@pytest.mark.parametrize("stderr", ["2>&-", "2> /dev/full"])
def test_errors_that_nobody_hears(stderr: str) -> None:
    """Keeps out an exit code that says of stderr what was to be said of the command."""
    for program, expected in (
        (PRINTS.format("1"), (0, "1\n")),
        (PRINTS.format("1 / open('/nope')"), (2, "")),
        ("from seqmodels.cli.main import main; main()", (2, "")),
    ):
        program = f"import sys; sys.argv = ['seqmodels', '--nope']; {program}"
        assert shell(f'"$PYTHON" -c "$PROGRAM" {stderr}', PROGRAM=program) == (*expected, "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("flag", ["--help", "--version", "score --help"])
def test_help_that_cannot_be_printed(flag: str, unbuffered: str) -> None:
    """Keeps out `Exception ignored` where argparse prints: it ends before any command begins."""
    program = f"import sys; sys.argv = 'seqmodels {flag}'.split(); "
    program += "from seqmodels.cli.main import main; main()"
    how = {"PROGRAM": program, "PYTHONUNBUFFERED": unbuffered}
    code, out, err = shell('"$PYTHON" -c "$PROGRAM" > /dev/full', **how)
    assert (code, out) == (1, "")
    assert err.startswith("seqmodels")
    assert err.endswith("standard output could not be written: No space left on device\n")
    assert len(err.splitlines()) == 1


def test_a_terminal_gets_no_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out escape sequences that a model has learned, or a stranger has planted."""
    said = "a\x1b[2J\x07b\x9b\tc\nd \u200c–ü"
    assert terminal.for_terminal(said) == said
    monkeypatch.setattr(sys, "stdout", types.SimpleNamespace(isatty=lambda: True))
    assert terminal.for_terminal(said) == "a\\x1b[2J\\x07b\\x9b\tc\nd \u200c–ü"


def test_a_record_gives_a_terminal_no_commands(tmp_path: Path) -> None:
    """Keeps out escape sequences from a record in tables, figures and messages."""
    made = json.loads((ROOT / "results" / "recall" / "gpt-seed1.json").read_text())
    made["data"]["name"] = made["tests"][0]["axis"] = made["signatures"]["bleu"] = "a\x1b[2Jb"
    path = tmp_path / "gpt-seed1.json"
    path.write_text(json.dumps(made))
    assert "\x1b" not in str(record.load(path)) + json.dumps(record.load(path))
    assert record.load(path)["data"]["name"] == "a\\x1b[2Jb"


# --------------------------------------------------------------------------------------- signals


def test_only_what_goes_on_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Keeps out a promise that `score` cannot keep."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as stopped:
        terminal.run_cli("seqmodels", interrupted)
    assert stopped.value.code == 130
    assert capsys.readouterr().err == "seqmodels: stopped\n"


@pytest.mark.parametrize(("is_fresh", "without"), [(False, ""), (True, " without --fresh")])
def test_what_goes_on_says_how(
    is_fresh: bool, without: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out advice to begin again: with --fresh the same command does."""

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(compare, "compare_in", interrupted)
    with pytest.raises(KeyboardInterrupt) as stopped:
        compare.compare(toy(), flags(tmp_path, fresh=is_fresh))
    assert stopped.value.__notes__ == [f"the same command{without} resumes it"]


# ---------------------------------------------------------------------------------------- memory


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no ulimit -v")
@pytest.mark.parametrize("n_kib", [200_000, 500_000])
@pytest.mark.parametrize("call", ["seqmodels.cli.main models", "tasks.recall --size smoke"])
def test_memory_that_is_short_from_the_start(call: str, n_kib: int, tmp_path: Path) -> None:
    """Keeps out the tracebacks of imports that find no memory."""
    run = "from seqmodels.cli.main import main; main()"
    name, *argv = call.split()
    argv = ["-c", run, *argv] if name == "seqmodels.cli.main" else ["-m", name, *argv, "--out"]
    line = f'ulimit -v {n_kib}; exec "$PYTHON" "$@" {tmp_path if "-m" in argv else ""}'
    env = os.environ | {"PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "-c", line, "-", *argv], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert done.returncode == 2, done.stderr
    assert "out of memory" in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


# ----------------------------------------------------------------------------------------- pipes


def test_pipes_are_scored(tmp_path: Path) -> None:
    """Keeps out `is not a regular file` for subwords joined on the way, and a second read."""
    for name, said in {"src": "a b\nc\n", "hyp": "x yz\nw\n"}.items():
        (tmp_path / name).write_text(said)
    pipe = tmp_path / "fifo"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(pipe.write_bytes, b"x yz\nw\n")
        _, ref, hyp = external.read_translations(tmp_path / "src", pipe, [tmp_path / "hyp"])
    assert ref.lines == hyp.lines == ["x yz", "w"]
    for again in (pipe, tmp_path / "." / "fifo"):  # no one waits for a writer
        with pytest.raises(ValueError, match="are the same file; give each file once"):
            external.read_translations(tmp_path / "src", pipe, [again])
    with pytest.raises(ValueError, match="is not a regular file"):
        files.read(pipe)


def test_a_pipe_that_gives_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a full memory, for a pipe that never ends."""
    monkeypatch.setattr(files, "MAX_PIPE_BYTES", 1_000)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(pipe.write_bytes, b"y\n" * 501)
        with pytest.raises(ValueError, match="more than 1,000 bytes"):
            external.read_translations(pipe, tmp_path / "b", [tmp_path / "c"])


def test_a_figure_is_written_before_the_table_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a `| head` that costs score.json: its reader has seen enough before the end."""

    def gone(*_: object, **__: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    for name in ("src", "ref", "hyp"):
        (tmp_path / name).write_text(f"{name} a\nb c\n")
    given = [f"--src={tmp_path / 'src'}", f"--ref={tmp_path / 'ref'}", str(tmp_path / "hyp")]
    monkeypatch.setattr(intervals, "N_BOOTSTRAP", 20)
    monkeypatch.setattr(systems, "translation_table", gone)
    monkeypatch.setattr(sys, "argv", ["seqmodels", "score", *given, f"--out={tmp_path / 'out'}"])
    with pytest.raises(SystemExit) as stopped:
        main.main()
    assert stopped.value.code == 1
    assert {path.suffix for path in (tmp_path / "out").iterdir()} >= {".json", ".svg"}


# --------------------------------------------------------------------------------- numbers, flags


@pytest.mark.parametrize(
    ("text", "n"), [("1e6", 10**6), ("1_000_000", 10**6), ("2.5e5", 250_000), ("7", 7)]
)
def test_counts_as_people_write_them(text: str, n: int) -> None:
    """Keeps out `invalid positive value: '1e6'`."""
    assert terminal.positive(text) == n
    assert isinstance(terminal.positive(text), int)


@pytest.mark.parametrize(
    "text", ["1.5", "1e-999999999", "nan", "", "0", "-1", "-inf", "inf", "1e999999999"]
)
def test_counts_that_are_none(text: str) -> None:
    """Keeps out a fraction that is cut, and an endless power of ten; what was given is named."""
    with pytest.raises(argparse.ArgumentTypeError, match=re.escape(f"{text!r} is not a whole")):
        terminal.positive(text)


@pytest.mark.parametrize("text", ["inf", "nan", "x", "0", "-1"])
def test_numbers_that_are_none(text: str) -> None:
    """Keeps out a rate with which nothing is computed; what was given is named."""
    with pytest.raises(argparse.ArgumentTypeError, match=f"{text!r} is not a finite number"):
        terminal.positive_float(text)


def test_no_flag_is_abbreviated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out flags that one command takes by their beginning, and the others do not."""
    for argv in (["translate", "x", "y", "--bea", "2"], ["score", "--sr", "a", "--ref", "b", "c"]):
        monkeypatch.setattr(sys, "argv", ["seqmodels", *argv])
        with pytest.raises(SystemExit) as stopped:
            main.main()
        assert stopped.value.code == 2
    for page in [*ROOT.glob("tools/**/*.py"), *ROOT.glob("*/*.py")]:
        text = page.read_text(encoding="utf-8")
        assert "argparse.ArgumentParser(" not in text or ("allow_abbrev=False" in text), page


def test_many_full_stops_of_their_own(caplog: pytest.LogCaptureFixture) -> None:
    """Keeps out sacreBLEU's advice about a `force` parameter that no command here has."""
    row = {
        "nats": 1.0,
        "n_tokens": 1,
        "n_bytes": 1,
        "n_correct": 1,
        "exact_match": True,
        "accuracy": 1,
    }
    row |= {"ref": "a b .", "hyp": "a b ."}
    with caplog.at_level(logging.WARNING, "sacrebleu"), suppress(KeyError):
        metrics.scores([row] * 150)
    assert not caplog.records


@pytest.mark.slow
def test_a_home_that_is_read_only() -> None:
    """Keeps out matplotlib's advice about its folders, in front of the answer."""
    env = {k: v for k, v in os.environ.items() if k not in ("MPLCONFIGDIR", "XDG_CONFIG_HOME")}
    env |= {"HOME": "/proc/nowhere", "XDG_CACHE_HOME": "/proc/nowhere"}
    program = "from seqmodels.utils.terminal import run_cli; from seqmodels.report import figures"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_folder_that_may_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out `holds no record` for a folder whose records nobody has seen."""

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "listdir", refuse)
    monkeypatch.setattr(sys, "argv", ["seqmodels", "plot", str(tmp_path)])
    with pytest.raises(SystemExit) as stopped:
        main.main()
    assert stopped.value.code == 2
    assert "cannot be read: Permission denied" in capsys.readouterr().err


# --------------------------------------------------------------------------------- hostile calls


@pytest.fixture(scope="module")
def hostile_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the files of the list."""
    folder = tmp_path_factory.mktemp("hostile")
    for name, content in hostile.TEXTS.items():
        (folder / name).write_bytes(content)
    made = record.load(ROOT / "results" / "recall" / "gpt-seed1.json")
    good = json.dumps(made).encode()  # in the newest schema, whatever is on disk
    tiny = {"d_model": 16, "n_layers": 1, "n_heads": 2, "n_positions": 64, "vocab_size": 20}
    small = made | {"model_config": made["model_config"] | tiny, "weights_sha256": None}
    for name in ("empty-folder", "twice", "two-tasks", "run"):
        (folder / name).mkdir()
    (folder / "loop").symlink_to("loop")
    (folder / "link.en").symlink_to("ref.en")
    os.mkfifo(folder / "fifo")
    for name in ("twice", "two-tasks"):
        (folder / name / "a.json").write_bytes(good)
    (folder / "twice" / "b.json").write_bytes(good)
    other = json.loads(good) | {"task": "other", "seed": 2}
    (folder / "two-tasks" / "b.json").write_text(json.dumps(other))
    for name, (place, value) in hostile.RECORDS.items():
        (folder / f"record-{name}").mkdir()
        content = hostile.edited(made, place, value)
        (folder / f"record-{name}" / "gpt-seed1.json").write_bytes(content)
    contents = {"not-json": b"{", "json-pickle": b"\x80\x04x", "json-latin": b"\xe4"}
    contents |= {"json-deep": b"[" * 100_000, "json-fifo": None, "json-folder": None}
    for name, content in (contents | {"json-loop": None}).items():
        path = folder / name / "gpt-seed1.json"
        path.parent.mkdir()
        if content is not None:
            path.write_bytes(content)
        elif name == "json-loop":
            path.symlink_to(path.name)
        else:
            (os.mkfifo if name == "json-fifo" else os.mkdir)(path)
    run = folder / "run"
    (run / "gpt-seed1.json").write_text(json.dumps(small))
    model = build("gpt", **small["model_config"])
    checkpoint.save_weights(run / "gpt-seed1.safetensors", model.state_dict())
    tokenizers.Words([f"w{i}" for i in range(20 - tokenizers.N_SPECIALS)]).save(
        run / "tokenizer.json"
    )
    for fault in hostile.RUNS:
        shutil.copytree(run, folder / f"run-{fault}")
        hostile.break_run(folder / f"run-{fault}", fault, small)
    return folder


PROGRAMS = {
    "seqmodels": main.main, "translation": translation.main, "recall": recall.main,
    "next_token": next_token.main, "tasks": tasks_main.main, "benchmarks": benchmarks_main.main,
    "survival": survival.main,
}  # fmt: skip


def test_the_list_is_long() -> None:
    """Keeps out a list that shrinks."""
    assert len(hostile.CALLS) >= 250
    assert len({(c.program, *c.argv) for c in hostile.CALLS}) == len(hostile.CALLS)
    assert {c.program for c in hostile.CALLS} == set(PROGRAMS)


def too_long(*_: object) -> None:
    """Raise, from an alarm, what no command catches."""
    raise AssertionError("it hangs")


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_hostile_calls(
    program: str,
    hostile_files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Keeps out tracebacks, hangs, wrong exit codes and messages of several lines."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SEQMODELS_DATA", raising=False)
    monkeypatch.setattr(presets, "urlopen", no_network)
    monkeypatch.setattr(intervals, "N_BOOTSTRAP", 20)
    wrong = []
    for given in (c for c in hostile.CALLS if c.program == program):
        argv = [word.replace("@", str(hostile_files)) for word in given.argv]
        monkeypatch.setattr(sys, "argv", [program, *argv])
        hears = signal.signal(signal.SIGALRM, too_long)
        signal.alarm(120)
        ended: object = "no exit"
        try:
            PROGRAMS[program]()
        except SystemExit as stopped:
            ended = stopped.code or 0
        except BaseException as error:
            ended = repr(error)
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, hears)
        _, err = capfd.readouterr()
        *notes, line = err.splitlines() or [""]
        is_said = all(word in line for word in given.words)
        is_one_line = all(note.endswith("they are not checked") for note in notes)
        is_one_line = (given.code == 0 or is_one_line) and "\x1b" not in err
        if ended != given.code or not is_said or not is_one_line:
            wrong.append(f"{given!r:.200}: {ended}: {err[-300:]!r}")
    assert not wrong, "\n".join(wrong)
