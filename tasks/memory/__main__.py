"""Memories: values by their keys, and balls under cups that are swapped.

Question
    A source lists pairs of a key and a value, and the target asks for values by their keys
    (multi-query associative recall: Arora et al. 2023, Zoology, arXiv:2312.04927). Which model
    finds the value of a key, among how many pairs, and at what width? With --preset cups-3, a
    source puts balls under three cups and swaps cups: which model still knows where each ball is,
    after how many moves? Two cups are parity; five, the word problem of the permutations S5, which
    no model of a fixed depth without recurrence solves at all lengths, unless TC0 = NC1 (Merrill et
    al. 2024, arXiv:2404.08819).

    python -m tasks.memory                     look-up at equal parameters
    python -m tasks.memory --set d_model=64    equal widths
    python -m tasks.memory --pairs 32          up to 32 pairs in training and 64 in test
    python -m tasks.memory --preset again      keys are given again: their last values are asked for
    python -m tasks.memory --preset hops       the value of a key is a key, whose value is asked for
    python -m tasks.memory --preset cups-3     three cups, trained on up to 8 moves; or cups-2, -5

    9 minutes on two cores. A model that knows the values of a source, but not their keys, is right
    once in n times with n pairs; one that knows nothing of the moves finds all balls once in n!
    times. docs/results.md has the scores.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from seqmodels.models import PAPERS
from seqmodels.utils.terminal import positive

from ..flags import Preset, TaskParser, run

if TYPE_CHECKING:
    from seqmodels.experiments.task import Task

CUPS = {f"cups-{n}": n for n in (2, 3, 5)}


MODELS = [*PAPERS, "transformer_rotary"]


def check_flags(args: argparse.Namespace) -> Preset | None:
    """Return the preset and its models; raise ValueError for look-ups that cannot be drawn."""
    if args.pairs % 4:
        raise ValueError(f"--pairs {args.pairs}: give a multiple of 4")
    if args.preset in CUPS and args.pairs != 8:
        raise ValueError(f"--pairs is of look-ups, not of --preset {args.preset}")
    models = [*PAPERS] if args.preset in CUPS else MODELS
    return (f"memory-{args.preset}", models) if args.preset else None


PARSER = TaskParser("tasks.memory", __doc__, MODELS, ["smoke", "laptop"], check_flags)
PARSER.add_argument("--preset", choices=["again", "hops", *CUPS],
                    help="keys with several values, values of values, or cups; in "
                         "runs/memory-PRESET-SIZE")  # fmt: skip
PARSER.add_argument("--pairs", type=positive, default=8, metavar="N",
                    help="most pairs in training, a multiple of 4; test has up to twice as many "
                         "(default: 8)")  # fmt: skip


def make_task(args: argparse.Namespace) -> Task:
    """Return the task of looking up values, or of following balls."""
    from . import lookup, tracking

    if args.preset in CUPS:
        return tracking.make_task(args, CUPS[args.preset])
    return lookup.make_task(args)


if __name__ == "__main__":
    run(PARSER, make_task)
