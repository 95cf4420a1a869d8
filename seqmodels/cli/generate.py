"""Continue one text with a trained run."""

from __future__ import annotations

import argparse

from seqmodels.cli.arguments import Add, add_run, add_text, read_text, warn_unknown
from seqmodels.utils.terminal import non_negative, positive

MAX_NEW_TOKENS = 10_000
"""Maximum tokens to generate."""


def add_arguments(arg: Add) -> None:
    """Add the arguments of the command."""
    add_run(arg)
    add_text(arg, "it is continued")
    arg("--length", type=positive, default=100, metavar="N", help="tokens; default: 100")
    arg("--temperature", type=float, default=0.8, metavar="X",
        help="0 takes the most likely token; default: 0.8")  # fmt: skip
    arg("--top-k", type=positive, metavar="K", help="sample from the K most likely tokens alone")
    arg("--top-p", type=float, default=1.0, metavar="P",
        help="sample from the fewest tokens whose probabilities reach P; default: 1")  # fmt: skip
    arg("--seed", type=non_negative, default=1, metavar="N", help="default: 1")


def run(args: argparse.Namespace) -> None:
    """Print a text, as the run reads it, followed by its continuation."""
    from seqmodels.inference import load

    if args.length > MAX_NEW_TOKENS:
        raise ValueError(f"--length {args.length}: at most {MAX_NEW_TOKENS:,}")
    run, text = load(args.run), "\n".join(read_text(args.text))
    if text:
        choice = args.temperature, args.top_k, args.top_p, args.seed
        print(run.generate(text, args.length, *choice))
        warn_unknown([run.encode(text)])
