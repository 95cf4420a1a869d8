"""A model of one's own: one class and one line in the catalog, and everything knows it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from checks import check_folder
from conftest import Run
from torch import Tensor, nn

from seqmodels import SequenceModel, catalog
from seqmodels.cli import doctor, main
from seqmodels.records import record
from tasks.next_token import __main__ as next_token
from tasks.recall import __main__ as recall
from tasks.translation import __main__ as translation


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes."""

    vocab_size: int
    """Tokens."""
    d_model: int = 32
    """Width."""


PAPER = Config(vocab_size=100)


class State(NamedTuple):
    """The mean of the source's words, and what was written."""

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
        state, logits = self.encode(src, src_mask), []
        for y in tgt_in.unbind(1):
            logits_t, state = self.step(y, state)
            logits.append(logits_t)
        return torch.stack(logits, 1)


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    """Add the model, and take it away again."""
    catalog.register("toy", catalog.Entry(
        label="Bag of words", year=2026, paper="Nobody", home="test_sixth:Toy", state="fixed",
        handed_over="d_model", colour="#808080", marker="P",
    ))  # fmt: skip
    yield
    del catalog.CATALOG["toy"]


@pytest.mark.parametrize(
    ("task", "flags"), [(translation, []), (recall, []), (next_token, ["--context", 8])]
)
def test_it_runs_in_every_task(task, flags: list[object], run: Run, tmp_path: Path) -> None:
    """Keeps out a list of models somewhere else, and a task that fails for want of a recipe."""
    assert run(task, "--models", "toy", "bahdanau", "--out", tmp_path, *flags) == 0
    records = check_folder(tmp_path, ["bahdanau", "toy"])
    (toy,) = [r for r in records if r["model"] == "toy"]
    assert [event["kind"] for event in toy["events"]] == ["recipe"]
    assert toy["events"][0]["what"].startswith("no recipe of its own: default sizes")
    assert toy["train_config"]["lr"] == 8e-3
    assert not any(event["kind"] == "recipe" for r in records for event in r["events"] if r != toy)
    for name in ("tables.md", "curves.svg", "state.svg"):
        assert "Bag of words" in (tmp_path / name).read_text(encoding="utf-8")
    assert record.load(tmp_path / "toy-seed1.json")["alignment"] is None


def test_the_commands_know_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out a model that is in no list, and one that nobody has examined."""
    monkeypatch.setattr(sys, "argv", ["seqmodels", "models"])
    with pytest.raises(SystemExit, match="0"):
        main.main()
    (line,) = [row for row in capsys.readouterr().out.splitlines() if row.startswith("toy ")]
    assert line.split()[1:5] == ["2026", "Bag", "of", "words"]
    assert line.endswith("test_sixth.py")
    assert doctor.try_model("toy").startswith("works: loss ")
