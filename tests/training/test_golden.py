"""The golden run: twenty losses of each model."""

import json
from typing import Any

import pytest

from tools import golden


@pytest.mark.parametrize("optimizer", golden.OPTIMIZERS)
def test_the_golden_run_stays(name: str, optimizer: Any) -> None:
    """Threads, CPUs and torch from 2.10 move a loss by 2e-8 of it, a decay of 0.011 by 1e-5."""
    kept = json.loads(golden.PATH.read_text(encoding="utf-8"))[optimizer][name]
    assert golden.losses(golden.trainer_of(name, optimizer)) == pytest.approx(kept, rel=2e-6)
