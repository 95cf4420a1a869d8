"""What all tests share: executed shapes, fixed seeds, tiny models.

Every annotation in `seqmodels` is executed while the tests run, shapes included: a tensor that
is not what the signature says stops the test. As for other type checkers, an int is a float.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jaxtyping
import pytest
import torch
from torch import Tensor

assert "seqmodels" not in sys.modules, "the hook must come before the first import of seqmodels"
INT_IS_FLOAT = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
jaxtyping.install_import_hook("seqmodels", INT_IS_FLOAT)

from seqmodels import MODELS, SequenceModel, build  # noqa: E402
from seqmodels.report import figures  # noqa: E402

os.environ["HF_HUB_OFFLINE"] = "1"  # oracles are built from sizes, never downloaded
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it for what is behind &
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored below nohup
torch.set_num_threads(1)  # tiny tensors wait longer for a second thread than they compute

V = 11
"""Tokens in the vocabulary of all tiny models."""

TINY: dict[str, dict[str, Any]] = {
    "rnn_encdec": {"d_model": 16, "d_embed": 12, "d_maxout": 10},
    "bahdanau": {"d_model": 16, "d_embed": 12, "d_maxout": 10, "d_align": 14},
    "lstm_seq2seq": {"d_model": 16, "d_embed": 12, "n_layers": 2},
    "transformer": {"d_model": 16, "d_ff": 24, "n_heads": 2, "n_layers": 2, "dropout": 0.0},
    "gpt": {"d_model": 16, "n_heads": 2, "n_layers": 2, "n_positions": 32, "dropout": 0.0},
}

Tiny = Callable[..., SequenceModel]
Pairs = tuple[Tensor, Tensor, Tensor]


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Share the suite among the cores; run named files here, where a debugger and print work."""
    return 0 if any(".py" in arg for arg in config.args) else None


@pytest.fixture(autouse=True, scope="session")
def _own_caches(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Leave the user's caches as they are."""
    os.environ["SEQMODELS_CACHE"] = str(tmp_path_factory.mktemp("prepared"))
    os.environ["HF_DATASETS_CACHE"] = str(tmp_path_factory.mktemp("datasets"))


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> None:
    torch.manual_seed(20140603)


@pytest.fixture
def data() -> Path:
    """Return the folder of real text, or skip the test."""
    folder = os.environ.get("SEQMODELS_DATA", Path(__file__).parents[1] / "../shared/data")
    if not Path(folder).is_dir():
        pytest.skip(f"no real text at {folder}")
    return Path(folder)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save the time of the figures where a test does not look at them."""
    monkeypatch.setattr(figures, "plot_folder", lambda folder: [])


@pytest.fixture(params=MODELS)
def name(request: pytest.FixtureRequest) -> str:
    """Name each model in turn."""
    return request.param


@pytest.fixture
def fresh() -> Tiny:
    """Build a tiny model as a user gets it: in float32, started as its paper says."""

    def make(name: str, **sizes: Any) -> SequenceModel:
        return build(name, V, **TINY[name] | sizes).eval()

    return make


@pytest.fixture
def tiny(fresh: Tiny) -> Tiny:
    """Build a tiny model in float64, all parameters random: no zero hides a missing connection."""

    def make(name: str, **sizes: Any) -> SequenceModel:
        model = fresh(name, **sizes).double()
        for p in model.parameters():
            torch.nn.init.normal_(p, std=0.4)
        return model

    return make


@pytest.fixture
def pairs() -> Pairs:
    """Draw four sources of 5, 1, 3 and 4 tokens with their mask, and inputs of 6 tokens."""
    n_real = torch.tensor([5, 1, 3, 4]).unsqueeze(1)
    src_mask = torch.arange(5) < n_real
    src = torch.randint(4, V, (4, 5)) * src_mask
    tgt_in = torch.cat([torch.ones(4, 1, dtype=torch.long), torch.randint(4, V, (4, 5))], 1)
    return src, src_mask, tgt_in
