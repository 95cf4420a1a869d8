"""The compiled forward pass of a step: the same numbers, for batches of all shapes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from test_world import run
from toy_task import flags, toy

from seqmodels import MODELS
from seqmodels.comparison import compare
from seqmodels.comparison.runs import Run
from seqmodels.training import compiled
from seqmodels.training.trainer import loss_of

WHOLE = ["transformer", "gpt"]
"""Models that are compiled as a whole."""


def found(out: Path, backend: str, *names: str) -> dict[str, Any]:
    """Return what compiling.py writes."""
    done = run([sys.executable, "tests/compiling.py", backend, str(out / "found.pt"), *names])
    assert done.returncode == 0, done.stderr
    there: dict[str, Any] = torch.load(out / "found.pt")
    assert [*there] == [*names]
    return there


def assert_equal(there: dict[str, Any]) -> None:
    """Compare losses and weights after twelve steps with those of the same model, not compiled."""
    for (losses, weights, _), (compiled_losses, compiled_weights, n_graphs) in there.values():
        assert len(losses) == 12
        assert compiled_losses == pytest.approx(losses, rel=1e-5)
        for key, tensor in weights.items():
            torch.testing.assert_close(compiled_weights[key], tensor, rtol=1e-4, atol=1e-5)
        assert 2 <= n_graphs <= 4  # two to check, and not one for each of 12 shapes


def test_every_model_is_compiled_or_refused(tmp_path: Path) -> None:
    """Keeps out other dropout, a graph for each shape, and minutes of compiling for nothing."""
    there = found(tmp_path, "eager", *MODELS)
    refused = {name: there.pop(name) for name in MODELS if isinstance(there[name], str)}
    assert [*there] == WHOLE
    assert_equal(there)
    assert "torch cannot compile this model" in refused.pop("linear_attention")
    assert all("a loop over time" in why for why in refused.values())


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "names"), [("aot_eager", WHOLE), ("inductor", ["gpt"])])
def test_compilers_agree(backend: str, names: list[str], tmp_path: Path) -> None:
    """Keeps out gradients or dropout that a compiler changes."""
    assert_equal(found(tmp_path, backend, *names))


def test_the_flag_reaches_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undrawn: None
) -> None:
    """Keeps out a flag that changes nothing, and one that a record does not tell of."""
    calls: list[Any] = []

    def counted(*given: Any) -> torch.Tensor:
        calls.append(given[0])
        return loss_of(*given)

    monkeypatch.setattr(compiled, "compiled", lambda model: counted)
    run_all = compare.run_all
    runs: list[Run] = []
    monkeypatch.setattr(
        compare, "run_all", lambda todo, *given: runs.extend(todo) or run_all(todo, *given)
    )
    compare.compare(toy(), flags(tmp_path, models=["gpt"], compile=True))
    assert calls
    assert '"compiled": true' in (tmp_path / "gpt-seed1.json").read_text()
    assert "compiled" not in runs[0].settings()


def test_it_is_refused_with_shared_weights(capsys: pytest.CaptureFixture[str]) -> None:
    """Keeps out a traceback from the compiler."""
    from tasks.flags import parse_task

    with pytest.raises(SystemExit):
        parse_task("recall", None, ["--compile", "--fsdp"])
    assert "--compile cannot be given with --fsdp" in capsys.readouterr().err
