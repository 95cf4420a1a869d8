"""A task and a training that take no time, and what is made up and compared besides."""

import itertools
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from seqmodels import EOS, MODELS, SequenceModel, build
from seqmodels.data import SPLITS, tokenizers
from seqmodels.data.batches import Example
from seqmodels.data.text import Corpus, Pair
from seqmodels.experiments import task
from seqmodels.experiments.sweep import Options
from seqmodels.records.schema import Record
from seqmodels.report.load import load_folder
from seqmodels.training import loop
from seqmodels.training.checkpoint import Checkpoint
from seqmodels.training.config import TrainConfig
from seqmodels.training.trainer import Trainer
from tools.sizes import sizes_of

TOKENIZER = tokenizers.Words([*"abcdefg"])


def read_pairs(opened: Corpus, *splits: str) -> list[Pair]:
    """Return the pairs of some splits, or of all, in their order."""
    return [pair for split, pair in opened.pairs() if split in (splits or SPLITS)]


def read(opened: Corpus, *splits: str) -> str:
    """Return the running text of some splits, or of all."""
    return "".join(piece for split in splits or SPLITS for piece in opened.splits[split]())


def toy(**changes: Any) -> task.Task:
    """Return a task that takes no time: say the letters again."""
    rng = random.Random(1)

    def draw(n: int) -> Example:
        src = TOKENIZER.encode(" ".join(rng.choice("abcdefg") for _ in range(n)))
        return Example(src, [*src, EOS])

    examples = [draw(2 + i % 7) for i in range(60)]
    test = examples[:13]
    sizes = {
        "d_embed": 8, "d_maxout": 8, "d_align": 8, "d_ff": 32, "n_heads": 2, "n_layers": 1,
        "n_positions": 64,
    }  # fmt: skip
    scored = task.TestSet(
        name="length", axis="source length (letters)", unit="letters", primary_metric="accuracy",
        examples=test, x=[len(e.src) for e in test], buckets=[(1, 4), (5, 9)], max_train_length=8,
    )  # fmt: skip
    fields = {
        "name": "again",
        "data": {"name": "letters", "sha256": "0" * 64, "n_train": 47, "n_test": 13},
        "tokenizer": TOKENIZER,
        "train": examples[13:],
        "valid": examples[5:13],
        "tests": [scored],
        "recipes": {name: task.Recipe(sizes_of(name, **sizes), 1e-2) for name in MODELS},
        "training": {"tokens": 200, "batch_tokens": 100, "n_validations": 2},
        "n_parameters": 400_000,
        "alignment_example": task.AlignmentExample(test[3], [(0, 0)]),
    }
    return task.Task(**fields | changes)


def planted_gpt(W_q: Tensor) -> SequenceModel:
    """Return a GPT whose only head compares positions: its queries are the rows of W_q (64,64)."""
    model: Any = build(
        "gpt", 500, d_model=64, n_heads=1, n_layers=1, n_positions=64, dropout=0.0
    ).eval()
    model.embedding.weight.data.zero_()
    model.positions.weight.data = torch.eye(64)
    W_qkv = model.decoder[0].self_attention.W_qkv
    W_qkv.weight.data = torch.cat([W_q, 3 * torch.eye(64), torch.zeros(64, 64)])
    return model


def options(out: Path, **changes: Any) -> Options:
    given = {"models": list(MODELS), "device": "cpu", "precision": "float32"}
    return Options(out=out, **given | changes)


def load_records(folder: Path) -> list[Record]:
    """Read all records of a folder."""
    return [*load_folder(folder).records.values()]


def contents(folder: Path) -> dict[str, bytes]:
    """Return what a folder holds, but for the note of who uses it."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


V = 11
"""Tokens in the vocabulary of all tiny models."""
CFG = TrainConfig(tokens=600, lr=1e-2, batch_tokens=60, n_validations=3)


def draw_examples(n: int, longest: int, seed: int = 1) -> list[Example]:
    """Draw sources of skewed lengths, and targets about as long."""
    rng = random.Random(seed)

    def one() -> Example:
        n_src = min(longest, max(1, round(rng.lognormvariate(2.7, 0.6))))
        n_tgt = min(longest, max(1, round(n_src * rng.uniform(0.8, 1.3))))
        src, tgt = ([rng.randrange(4, V) for _ in range(k)] for k in (n_src, n_tgt - 1))
        return Example(src, [*tgt, EOS])

    return [one() for _ in range(n)]


def examples(n: int = 60) -> list[Example]:
    """Draw sources of up to six letters, each to be copied."""
    rng = random.Random(1)
    texts = [[rng.randrange(4, V) for _ in range(rng.randint(1, 6))] for _ in range(n)]
    return [Example(text, [*text, EOS]) for text in texts]


def finish(one: Trainer, save: Any = lambda: None, is_due: Any = lambda: False) -> dict[str, Any]:
    checkpoint = Mock(spec=Checkpoint, is_due=is_due, save=lambda *_: save())
    curve = loop.train(one, examples()[10:], examples()[:10], checkpoint)
    points = [{k: v for k, v in point.items() if k != "seconds"} for point in curve]
    return {"weights": {k: v.clone() for k, v in one.model.state_dict().items()}, "curve": points}


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one["curve"] == other["curve"]
    assert same(one["weights"], other["weights"])


@contextmanager
def stopped_after(n_steps: int) -> Iterator[None]:
    """Send Ctrl-C after so many steps of whatever is trained here, and expect it to arrive."""
    training_step, steps = loop.training_step, itertools.count(1)

    def step(*given: Any) -> None:
        training_step(*given)
        if next(steps) == n_steps:
            signal.raise_signal(signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "training_step", step)
        with pytest.raises(KeyboardInterrupt):
            yield
