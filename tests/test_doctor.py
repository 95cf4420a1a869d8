"""The doctor: what each fault prints, and that none of them stops the report."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

import pytest

from seqmodels import MODELS
from seqmodels.cli import doctor, main
from seqmodels.utils.files import WriteError

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
        lines, _, last = out.replace("\n" + " " * 17, " ").rstrip().rpartition("\n\n")
        found = {text[:16].strip(): text[17:] for text in lines.split("\n")}
        assert list(tmp_path.iterdir()) == []
        return stopped.value.code or 0, found, last

    return run


@pytest.fixture
def untried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save the time of the models where a test does not look at them."""
    monkeypatch.setattr(doctor, "check_model", lambda name: "works")


def test_a_healthy_report_is_whole(examine: Report) -> None:
    """Keeps out a report without a part, one that leaves files, and a fault where there is none."""
    code, found, last = examine()
    needed = [re.split("[<>]", n)[0] for n in metadata.requires("seqmodels") if "extra" not in n]
    labels = ["python", "seqmodels", *needed, "onnx", "ray", "submitit", "machine", "runs", "cache"]
    assert {*labels, *MODELS} <= found.keys()
    assert not {"ruff", "joeynmt"} & found.keys()
    assert (code, last) == (0, "Everything that the default commands need works."), found
    assert found["torch"] == metadata.version("torch")
    assert all(found[name].startswith("works: loss 2.") for name in MODELS if name != "transformer")


@pytest.mark.usefixtures("untried")
def test_packages_that_are_missing_or_too_old(
    examine: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a version that nobody compares, and a fault for what is optional."""
    lines = ["numpy>=99", "torch<99,>=2", "to-be-found>=1", 'ruff>=99; extra == "dev"']
    lines += ['not-there>=1; extra == "ray"', 'pytest>=99; extra == "ray"']
    monkeypatch.setattr(metadata, "requires", lambda name: lines)
    code, found, last = examine()
    assert found["numpy"] == (
        f"WRONG: {metadata.version('numpy')} is not supported; pip install 'numpy>=99'"
    )
    assert found["to-be-found"] == "WRONG: not installed; pip install 'to-be-found>=1'"
    assert found["torch"] == metadata.version("torch")
    assert found["not-there"] == "not installed (optional; pip install 'not-there>=1')"
    assert "ruff" not in found
    assert (code, last.partition(": ")[2]) == (1, "numpy; to-be-found; pytest.")


def test_without_torch_there_is_a_report(tmp_path: Path) -> None:
    """Keeps out a traceback where torch, which all else here imports, is what is broken."""
    program = "import sys; sys.modules['torch'] = None; sys.argv[1:] = ['doctor']\n"
    program += "from seqmodels.cli.main import main; main()"
    env = os.environ | {"PYTHONPATH": str(Path(doctor.__file__).parents[2])}
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path, env=env, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert "\nnumpy         " in done.stdout
    assert "wrong: imports (ModuleNotFoundError: " in done.stdout.splitlines()[-1]


@pytest.mark.usefixtures("untried")
@pytest.mark.parametrize("label", ["runs", "cache"])
def test_folders_that_cannot_be_written_to(
    label: str, examine: Report, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Keeps out a run that is lost at its end."""
    write, cache = doctor.files.write, tmp_path.parent / "cache" / "seqmodels"
    monkeypatch.setenv("SEQMODELS_CACHE", str(cache))

    def refuse(path: Path, content: str) -> Path:
        if (tmp_path.resolve() in path.resolve().parents) == (label == "runs"):
            raise WriteError(f"{path} could not be written: Permission denied")
        return write(path, content)

    monkeypatch.setattr(doctor.files, "write", refuse)
    code, found, last = examine()
    assert found[label].startswith("WRONG: ")
    assert "Permission denied" in found[label]
    assert (code, last.partition(": ")[2]) == (1, f"{label}.")


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
    assert (code, last.partition(": ")[2]) == (1, "bahdanau; lstm_seq2seq; gpt.")


def test_a_model_that_does_not_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a loss that is printed and never looked at."""
    monkeypatch.setattr(doctor, "LR", 1e-9)
    with pytest.raises(ValueError, match="it does not learn: loss 2"):
        doctor.check_model("gpt")
