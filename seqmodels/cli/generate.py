"""Continue one text with a trained run."""

from __future__ import annotations

import argparse
import sys

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
    import torch

    from seqmodels import search
    from seqmodels.experiments.inference import MAX_TEXT_TOKENS, load
    from seqmodels.interface import PAD

    if args.length > MAX_NEW_TOKENS:
        raise ValueError(f"--length {args.length}: at most {MAX_NEW_TOKENS:,}")
    generator = torch.Generator().manual_seed(args.seed)
    choose = search.sampler(generator, args.temperature, args.top_k, args.top_p)
    run = load(args.run)
    model, data = run.model, run.data
    if not (lines := [*read_text(args.text)]):
        return
    text = "\n".join(lines)
    if data.get("context") == 0:
        tokens = run.encode(text)
        if len(tokens) > MAX_TEXT_TOKENS:
            raise ValueError(
                f"the text has {len(tokens)} tokens; at most {MAX_TEXT_TOKENS} are read"
            )
        block = max(1, min(int(data.get("block") or sys.maxsize), model.max_target(1)))
        generated = search.continue_text(model, tokens, args.length, block, choose)
    else:
        tokens = run.encode_source(text, has_source_eos=False)
        src, n = torch.tensor([tokens]), min(args.length, model.max_target(len(tokens)))
        (generated,) = search.generate(model, src, src != PAD, n, choose)
    print(run.tokenizer.decode([*tokens, *generated]))
    warn_unknown([tokens])
