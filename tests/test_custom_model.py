"""A model of one's own: one class and one entry in the list, and everything knows it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from checks import check_folder
from conftest import Call, Run
from torch import Tensor, nn

from seqmodels import SequenceModel, models, unroll
from seqmodels.models import Paper
from seqmodels.records import record
from tasks.next_token import __main__ as next_token
from tasks.recall import __main__ as recall
from tasks.translation import __main__ as translation


@dataclass(frozen=True, kw_only=True)
class Config:
    vocab_size: int
    d_model: int = 32

    def source_floats(self, n: int) -> int:
        return self.d_model


PAPER = Config(vocab_size=100)


class State(NamedTuple):
    c: Tensor
    s: Tensor


class Toy(SequenceModel):
    """Reads a bag of words, writes with a recurrent layer."""

    config_type = Config

    def __init__(self, cfg: Config):
        super().__init__(cfg)
        self.embed = nn.Embedding(cfg.vocab_size, cfg.d_model)
        self.unit = nn.GRUCell(2 * cfg.d_model, cfg.d_model)
        self.output = nn.Linear(cfg.d_model, cfg.vocab_size)

    def encode(self, src: Tensor, src_mask: Tensor) -> State:
        real = src_mask.unsqueeze(2)
        c = (self.embed(src) * real).sum(1) / real.sum(1)
        return State(c, torch.zeros_like(c))

    def step(self, y: Tensor, state: State) -> tuple[Tensor, State]:
        s = self.unit(torch.cat([self.embed(y), state.c], 1), state.s)
        return self.output(s), State(state.c, s)

    def forward(self, src: Tensor, src_mask: Tensor, tgt_in: Tensor) -> Tensor:
        return unroll(self, self.encode(src, src_mask), tgt_in)[0]


TOY = Paper(
    label="Bag of words", year=2026, cite="Nobody", home="test_custom_model:Toy", memory="vector"
)


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    """Add the model, and take it away again."""
    models.register("toy", TOY)
    yield
    del models.PAPERS["toy"]


@pytest.mark.parametrize(
    ("task", "flags"),
    [(translation, ["toy", "bahdanau"]), (recall, ["toy"]), (next_token, ["toy", "--context", 8])],
)
def test_it_runs_in_every_task(task, flags: list[object], run: Run, tmp_path: Path) -> None:
    """Keeps out a list of models somewhere else, and a task that fails for want of a recipe."""
    assert run(task, "--out", tmp_path, "--models", *flags) == 0
    records = check_folder(tmp_path, ["toy"] if "bahdanau" not in flags else ["bahdanau", "toy"])
    (toy,) = [r for r in records if r["model"] == "toy"]
    assert [event["kind"] for event in toy["events"]] == ["recipe"]
    assert toy["events"][0]["what"].startswith("no recipe of its own: default sizes")
    assert toy["train_config"]["lr"] == 8e-3
    assert not any(event["kind"] == "recipe" for r in records for event in r["events"] if r != toy)
    for name in ("tables.md", "curves.svg", "state.svg"):
        assert "Bag of words" in (tmp_path / name).read_text(encoding="utf-8")
    assert record.load(tmp_path / "toy-seed1.json")["alignment"] is None


def test_what_it_lacks_is_said_before_training(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out an hour of training that cannot be recorded: a Config without its count."""
    monkeypatch.delattr(Config, "source_floats")
    code, _, err = call(recall, "--size", "smoke", "--models", "toy", "--out", tmp_path)
    assert (code, [*tmp_path.glob("toy*")]) == (2, [])
    assert "toy: its Config lacks the method source_floats(n)" in err
