"""The report while models are trained: it follows them, and answers this machine alone."""

from __future__ import annotations

import http.client
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Call, Run

from seqmodels.cli import main
from seqmodels.site import serve, unfinished
from seqmodels.training import checkpoint
from tasks.recall import __main__ as recall

Ask = Callable[..., tuple[int, str]]


@pytest.fixture
def unfinished_run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Train a toy run and stop it before it has its record; return its folder."""
    out = tmp_path / "running"
    monkeypatch.setattr(checkpoint.Checkpoints, "remove", lambda self: None)
    flags = "--models", "gpt", "--out", out, "--checkpoint-every", "0.001"
    assert run(recall, *flags) == 0
    for path in out.glob("gpt-seed1.*"):
        if "checkpoint" not in path.name:
            path.unlink()
    return out


@pytest.fixture
def started() -> Iterator[Callable[[Path], Ask]]:
    """Return a function that serves a folder and returns a function that asks for a path."""
    servers: list[serve.Server] = []

    def start(folder: Path) -> Ask:
        server = serve.Server([folder], 0, 0)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def ask(path: str, host: str | None = None) -> tuple[int, str]:
            port = server.server_address[1]
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", path, headers={"Host": host or f"127.0.0.1:{port}"})
            answer = connection.getresponse()
            text = answer.read().decode()
            connection.close()
            return answer.status, text

        return ask

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_unfinished_runs(unfinished_run: Path, compared: Path) -> None:
    """Keeps out a finished run among them, a damaged checkpoint, and another run's curve."""
    (found,) = unfinished.find(unfinished_run)
    latest = checkpoint.Checkpoints(unfinished_run / "gpt-seed1.json").latest()
    assert latest
    assert found["curve"] == latest.state["progress"]["curve"]
    assert (found["model"], found["seed"], found["train_config"]) == ("gpt", 1, {"tokens": 200})
    assert found["n_parameters"] > 10_000
    record = unfinished_run / "gpt-seed1.json"
    shutil.copy(compared / record.name, record)
    assert unfinished.find(unfinished_run) == []
    record.unlink()
    for path in unfinished_run.glob("*.safetensors"):
        path.write_bytes(path.read_bytes()[:-1])
    assert unfinished.find(unfinished_run) == []
    assert unfinished.find(compared) == []


def test_follows_a_run(
    started: Callable[[Path], Ask], unfinished_run: Path, compared: Path
) -> None:
    """Keeps out a page that stays as it was when a record arrives."""
    ask = started(unfinished_run)
    code, text = ask("/")
    assert code == 200
    said = re.findall(r"GPT, seed 1: (\d+) of 200 tokens", text)
    assert said, re.findall("<li>.*|<p>.*", text)
    assert "Where the numbers come from" not in text
    before = ask("/state")
    assert ask("/state") == before
    shutil.copy(compared / "bahdanau-seed1.json", unfinished_run)
    assert ask("/state") != before


def test_before_the_first_point(started: Callable[[Path], Ask], tmp_path: Path) -> None:
    """Keeps out an error before there is anything to show."""
    code, text = started(tmp_path)("/")
    assert code == 200
    assert "No run has reached the first point" in text


def test_answers_this_machine_alone(started: Callable[[Path], Ask], compared: Path) -> None:
    """Keeps out a page elsewhere that asks by another name, and other files."""
    ask = started(compared)
    assert ask("/state", "example.org")[0] == 403
    assert ask("/state", "localhost:1")[0] == 403
    assert ask("/gpt-seed1.json")[0] == 404
    assert ask("/../etc/passwd")[0] == 404
    assert serve.HOST == "127.0.0.1"


def test_what_cannot_be_drawn(started: Callable[[Path], Ask], copied: Path) -> None:
    """Keeps out a server that dies of one wrong file."""
    ask = started(copied)
    (copied / "gpt-seed1.jsonl").write_text("{}\n")
    code, text = ask("/")
    assert code == 500
    assert "line 1: not a row of a run" in text
    assert ask("/state")[0] == 200


def test_mistakes(call: Call, compared: Path, started: Callable[[Path], Ask]) -> None:
    """Keeps out a traceback for a number that is not a port, or a port that is taken."""
    assert "is not a port" in call(main, "report", compared, "--serve", "70000")[2]
    assert "give --out" in call(main, "report", compared, "--serve", "--out", "a.html")[2]
    taken = serve.Server([compared], 0, 0)
    try:
        code, _, err = call(main, "report", compared, "--serve", taken.server_address[1])
        assert code == 2
        assert "cannot be opened: Address already in use; name another" in err
    finally:
        taken.server_close()


def test_ctrl_c_ends_it(call: Call, compared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a traceback on the way out."""

    def stopped(self: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(serve.Server, "serve_forever", stopped)
    code, out, err = call(main, "report", compared, "--serve", "0")
    assert code == 130
    assert out.startswith("http://127.0.0.1:")
    assert "Traceback" not in err
