"""The line of a run."""

import io
from typing import Any

import pytest
from tqdm import tqdm

from seqmodels.utils import progress
from seqmodels.utils.progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_has_phase_share_and_note(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()

    def draw(**given: Any) -> Any:
        return tqdm(**given, file=terminal, mininterval=0, ncols=100)

    monkeypatch.setattr(progress, "tqdm", draw)
    bar = ProgressBar("gpt, seed 1")
    bar.update("training", 30, 60, "train 2.000")
    bar.update("training", 45, 60, "train 1.000")
    assert "gpt, seed 1: training  75% " in terminal.getvalue()
    assert terminal.getvalue().rstrip().endswith("train 1.000")
    bar.detail = "test set length"
    assert [*bar.track("search", [[1, 2], [3], [4]])] == [[1, 2], [3], [4]]
    assert "gpt, seed 1: search  75% " in terminal.getvalue()
    assert terminal.getvalue().rstrip().endswith("test set length")
