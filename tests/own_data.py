"""Tasks on a person's own data."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from seqmodels.cli import compare
from seqmodels.comparison.task import Task
from tasks.next_token import __main__ as next_token
from tasks.translation import __main__ as translation


def from_folder(folder: Path, *flags: str) -> Task:
    """Return the task on a folder of parallel text, or on a corpus by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "compare_and_report", lambda task, args: made.append(task))
        made: list[Task] = []
        with pytest.raises(SystemExit) as stopped:
            translation.main(["--data", str(folder), "--size", "smoke", "--tokens", "1", *flags])
    if stopped.value.code:
        raise stopped.value
    return made[0]


def from_text(*paths: Path, **flags: Any) -> Task:
    """Return the task on a text of your own."""
    given = dict.fromkeys(next_token.OWN_DATA_FLAGS) | {
        "context": None,
        "tokens": 1,
        "size": "smoke",
    }
    return next_token.corpus_task(argparse.Namespace(data=[*map(str, paths)], **given | flags))
