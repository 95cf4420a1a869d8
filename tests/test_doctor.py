"""The doctor: what each fault prints, and that none of them stops the report."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch

from seqmodels import MODELS
from seqmodels.cli import doctor, main

Report = Callable[[], tuple[int, dict[str, str], str]]


@pytest.fixture
def examine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Report:
    """Return a function that runs the command in an empty folder: exit code, lines, last line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["seqmodels", "doctor"])

    def run() -> tuple[int, dict[str, str], str]:
        with pytest.raises(SystemExit) as stopped:
            main.main()
        out, err = capsys.readouterr()
        assert err == ""
        assert max(map(len, out.splitlines())) < 80
        lines, _, last = out.replace("\n" + " " * 16, " ").rstrip().rpartition("\n\n")
        found = {text[:16].strip(): text[16:] for text in lines.split("\n")}
        assert [path.name for path in tmp_path.iterdir() if path.name != "runs"] == []
        return stopped.value.code or 0, found, last

    return run


@pytest.fixture
def untried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save the time of the models where a test does not look at them."""
    monkeypatch.setattr(doctor, "try_model", lambda name: "works")


def test_a_healthy_report_is_whole(examine: Report) -> None:
    """Keeps out a report without a part, one that leaves files, and a fault where there is none."""
    code, found, last = examine()
    needed = [n.partition(">")[0] for n in metadata.requires("seqmodels") if "extra" not in n]
    labels = ["python", "seqmodels", *(n.partition("<")[0] for n in needed), "memory", "encoding"]
    labels += ["this folder", "runs", "imports", "processor", "cuda", "matmul"]
    assert list(found) == [*labels, *MODELS, "hub", "encodings"]
    assert (code, last) == (0, "Everything that the default commands need works."), found
    assert "WRONG" not in str(found)
    assert metadata.version("torch") in found["torch"]
    assert all(found[name].startswith("works: loss 2.") for name in MODELS if name != "transformer")
    assert "HF_HUB_OFFLINE is set" in found["hub"]  # tests ask nobody


@pytest.mark.usefixtures("untried")
def test_packages_that_are_missing_or_too_old(
    examine: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a version that nobody compares, and a fault for tools that only tests need."""
    lines = ["numpy>=99", "torch<99,>=2", "to-be-found>=1", 'ruff>=99; extra == "dev"']
    monkeypatch.setattr(metadata, "requires", lambda name: lines)
    code, found, last = examine()
    assert found["numpy"].startswith("WRONG: ")
    assert found["numpy"].endswith("is not supported; pip install 'numpy>=99'")
    assert found["to-be-found"] == "WRONG: not installed; pip install 'to-be-found>=1'"
    assert "WRONG" not in found["torch"]
    assert "ruff" not in found
    assert (code, last.partition(": ")[2]) == (1, "numpy, to-be-found.")


def test_without_torch_there_is_a_report(tmp_path: Path) -> None:
    """Keeps out a traceback where torch, which all else here imports, is what is broken."""
    program = "import sys; sys.modules['torch'] = None; sys.argv[1:] = ['doctor']\n"
    program += "from seqmodels.cli.main import main; main()"
    env = os.environ | {"PYTHONPATH": str(Path(doctor.__file__).parents[1])}
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path, env=env, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert "\nimports         WRONG: ModuleNotFoundError: " in done.stdout
    assert "\nnumpy         " in done.stdout
    assert done.stdout.endswith("\nNeeded by the default commands, but wrong: imports.\n")


@pytest.mark.usefixtures("untried")
@pytest.mark.parametrize("is_made", [True, False])
def test_folders_that_cannot_be_written_to(
    is_made: bool, examine: Report, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Keeps out a run that is lost at its end; where runs is made already, nothing else is."""
    opened = os.open

    def refuse(path: Any, *how: Any, **more: Any) -> int:
        if "doctor" in str(path) and "runs" not in str(path):
            raise PermissionError(13, "Permission denied")
        return opened(path, *how, **more)

    if is_made:
        (tmp_path / "runs").mkdir()
    monkeypatch.setattr(os, "open", refuse)
    code, found, last = examine()
    assert found["this folder"].startswith("WRONG: .seqmodels-doctor could not be written: Perm")
    assert found["runs"].startswith("writable" if is_made else "does not exist yet")
    assert (code, "this folder" in last) == ((0, False) if is_made else (1, True))
    if is_made:
        (tmp_path / "runs").rmdir()
        (tmp_path / "runs").write_text("")
        code, found, _ = examine()
        assert (code, found["runs"].startswith("WRONG: runs/.seqmodels")) == (1, True)


def test_models_that_do_not_work(examine: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a self-test that finds nothing: each fault is one line, the others still run."""
    step = MODELS["gpt"].step

    def shifted(self: Any, y: Any, state: Any) -> tuple[Any, Any]:
        logits, state = step(self, y, state)
        return logits + 0.5, state

    def broken(self: Any, y: Any, state: Any) -> NoReturn:
        raise RuntimeError("no\nkernel")

    monkeypatch.setattr(MODELS["gpt"], "step", shifted)
    monkeypatch.setattr(MODELS["bahdanau"], "step", broken)
    monkeypatch.setattr(MODELS["lstm_seq2seq"], "forward", lambda self, *batch: self(*batch) * 0)
    code, found, last = examine()
    assert found["gpt"] == "WRONG: forward and step differ by 0.5"
    assert found["bahdanau"] == "WRONG: RuntimeError: no kernel"
    assert found["lstm_seq2seq"].startswith("WRONG: RecursionError: ")
    assert found["transformer"].startswith("works: ")
    assert (code, last.partition(": ")[2]) == (1, "bahdanau, lstm_seq2seq, gpt.")


def test_a_model_that_does_not_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a loss that is printed and never looked at."""
    monkeypatch.setattr(doctor, "RATE", 1e-9)
    with pytest.raises(ValueError, match="it does not learn: loss 2"):
        doctor.try_model("gpt")


@pytest.mark.usefixtures("untried")
def test_without_a_network_nothing_is_wrong(
    examine: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a wait for a host that never answers, and a fault that is none."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr(doctor, "LIMIT_S", 1.0)
    asked = {"hub": ("it can be had", "import time; time.sleep(60)")}
    asked |= {"encodings": ("they can be had", "raise OSError")}
    monkeypatch.setattr(doctor, "ONLINE_CHECKS", asked)
    code, found, last = examine()
    assert code == 0, last
    assert found["hub"].startswith("it cannot be had in 1 s (not needed")
    assert found["encodings"].startswith("they cannot be had in 1 s (not nee")
    monkeypatch.setattr(doctor, "LIMIT_S", 60.0)  # a busy machine takes seconds to start Python
    monkeypatch.setattr(doctor, "ONLINE_CHECKS", {"third": ("one can be had", "")})
    assert examine()[1]["third"].startswith("one can be had (not needed")


def test_cards_and_their_absence_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out "no CUDA" without a reason: a driver that is too old only warns."""

    def warn() -> bool:
        warnings.warn("driver too old", stacklevel=1)
        return False

    monkeypatch.setattr(torch.cuda, "is_available", warn)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert doctor.gpus() == "none: torch was built for CUDA 13.0; driver too old"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert doctor.gpus() == "none: torch was built for CUDA 13.0; no device was found"
    monkeypatch.setattr(torch.version, "cuda", None)
    assert doctor.gpus() == "none: this torch was built without CUDA"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda i: f"Card {i}")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda i: (2**30, 2**34))
    assert doctor.gpus() == "Card 0, 1.0 of 16.0 GiB free; Card 1, 1.0 of 16.0 GiB free"


def test_an_output_that_lacks_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a comparison that trains for minutes and cannot print its table."""
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "ascii"))
    with pytest.raises(ValueError, match="ascii lacks characters; set PYTHONUTF8=1"):
        doctor.encoding()
