"""A task that takes no time, its flags, and what is made up and compared besides."""

import argparse
import random
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seqmodels import EOS, MODELS
from seqmodels.comparison import task
from seqmodels.data import tokenizers
from seqmodels.data.batches import Example
from seqmodels.evaluation import evaluate
from tools.sizes import sizes_of

TOKENIZER = tokenizers.Words([*"abcdefg"])


def toy(**changes: Any) -> task.Task:
    """Return a task that takes no time: say the letters again."""
    rng = random.Random(1)

    def draw(n: int) -> Example:
        src = TOKENIZER.encode(" ".join(rng.choice("abcdefg") for _ in range(n)))
        return Example(src, [*src, EOS])

    examples = [draw(2 + i % 7) for i in range(60)]
    test = examples[:12]
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
        "data": {"name": "letters", "sha256": "0" * 64, "n_train": 48, "n_test": 12},
        "tokenizer": TOKENIZER,
        "train": examples[12:],
        "valid": test,
        "tests": [scored],
        "recipes": {name: task.Recipe(sizes_of(name, **sizes), 1e-2) for name in MODELS},
        "training": {"tokens": 200, "batch_tokens": 100, "n_validations": 2},
        "n_parameters": 400_000,
        "alignment_example": task.AlignmentExample(test[3], [(0, 0)]),
    }
    return task.Task(**fields | changes)


def flags(out: Path, **changes: Any) -> argparse.Namespace:
    """Return the parsed flags of a task."""
    given = {"models": list(MODELS), "seeds": [1], "lr": None, "device": "cpu", "size": "smoke"}
    given |= {"precision": "float32", "fresh": False, "checkpoint_every": 30.0}
    given |= {"tensorboard": False, "shards": 1, "dry_run": False}
    given |= {"launcher": None, "address": None, "vary": []}
    return argparse.Namespace(out=out, data=None, **given | changes)


def contents(folder: Path) -> dict[str, bytes]:
    """Return what a folder holds, but for the note of who uses it."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Tell whether two models have the same bits."""
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def scored_rows(n: int = 12, seed: int = 1) -> list[dict[str, Any]]:
    """Make rows as a comparison makes them; a third of the hypotheses is nonsense."""
    rng = random.Random(seed)
    rows = []
    for i in range(n):
        ref = [rng.choice(("alte", "Hund", "sieht", "den", "Baum")) for _ in range(4 + i % 5)]
        hyp = ["xyz"] if i % 3 == 0 else [w if rng.random() < 0.8 else "der" for w in ref]
        tgt = list(range(len(ref)))
        rows.append(
            {
                "set": "length", "x": len(ref), "nats": 2.0 * len(ref), "n_tokens": len(ref) + 1,
                "n_correct": 2, "n_bytes": 1 + len(" ".join(ref)), "ref": " ".join(ref),
                "hyp": " ".join(hyp), **evaluate.compare_tokens(tgt[: len(hyp)], tgt),
            }
        )  # fmt: skip
    return rows
