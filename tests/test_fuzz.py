"""Anything at all, given to all that reads: the short form of `python -m tools.fuzz`."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seqmodels.comparison import trained
from seqmodels.data import readers, tokenizers
from seqmodels.records import ledger, record
from tools.fuzz.targets import TARGETS, Target, make_run, stubbed

EXAMPLES = {
    "text": 300,
    "parallel": 200,
    "table": 200,
    "tokenizer": 150,
    "record": 60,
    "ledger": 60,
    "run": 100,
    "command": 120,
}


@pytest.fixture(params=TARGETS)
def name(request: pytest.FixtureRequest) -> str:
    """Name each target in turn."""
    return request.param


@pytest.fixture
def target(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    """Prepare a target in a folder of its own."""
    monkeypatch.setattr(sys, "argv", [])
    stubbed(monkeypatch.setattr)
    return TARGETS[name](tmp_path)


def test_valid_inputs_are_taken(target: Target) -> None:
    """Keeps out a target that refuses everything, and so finds nothing."""
    for seed in target.seeds:
        assert target.run(seed), seed[:60]


@pytest.mark.slow
def test_any_input_ends_well(name: str, target: Target) -> None:
    """Keeps out what is neither a value nor one line: a traceback, two lines, no file's name."""
    inputs = st.binary(max_size=120) | st.sampled_from(target.seeds)
    mixed = st.builds(lambda seed, more: seed + more, st.sampled_from(target.seeds), st.binary())
    many = settings(
        max_examples=EXAMPLES[name], deadline=None, derandomize=True, database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )  # fmt: skip

    @many
    @given(inputs | mixed)
    def check(data: bytes) -> None:
        target.run(data)

    check()


def test_a_fault_is_found(name: str, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a target that cannot fail."""

    def broken(*_: object) -> None:
        raise KeyError("planted")

    for module, function in (
        (readers, "_decode_line"), (tokenizers, "load"), (record, "load"), (ledger, "load"),
        (trained, "load"),
    ):  # fmt: skip
        monkeypatch.setattr(module, function, broken)
    with pytest.raises(KeyError, match="planted"):
        target.run(target.seeds[0])


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("rnn_encdec", {"d_model": 0}),
        ("bahdanau", {"d_model": 0}),
        ("transformer", {"d_model": 0}),
        ("transformer", {"n_heads": -1}),
        ("transformer", {"n_heads": True}),
        ("transformer", {"dropout": math.nan}),
        ("gpt", {"n_heads": 0}),
        ("gpt", {"n_heads": -2}),
        ("gpt", {"n_positions": 10**7}),
        ("lstm_seq2seq", {"n_layers": 10**7}),
    ],
)
def test_sizes_of_no_model(name: str, sizes: dict[str, float], tmp_path: Path) -> None:
    """Keeps out tracebacks and full memories that fuzzing has found: sizes of a stranger's."""
    path, *_ = make_run(tmp_path, name)
    made = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(made | {"model_config": made["model_config"] | sizes}))
    with pytest.raises(ValueError, match=f"{name}-seed1.*(a working model|match its record)"):
        trained.load(path)


def test_weights_that_are_not_finite(tmp_path: Path) -> None:
    """Keeps out a traceback in drawing the first token: a weight that is read seldom is enough."""
    _, weights, _ = make_run(tmp_path, "gpt")
    weights.write_bytes(weights.read_bytes()[:-4] + b"\xff\xff\xff\x7f")
    with pytest.raises(ValueError, match=r"gpt-seed1\.safetensors contains non-finite numbers"):
        trained.load(tmp_path / "gpt-seed1")
