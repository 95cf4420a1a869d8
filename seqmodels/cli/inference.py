"""Use a trained run: translate, and generate."""

from __future__ import annotations

import argparse
import os
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from seqmodels.cli.arguments import Add, add_run, add_text, read_text, warn_unknown
from seqmodels.utils.files import claim_file
from seqmodels.utils.terminal import non_negative, positive

if TYPE_CHECKING:
    from seqmodels.inference import TrainedModel


MAX_DRAWN_TOKENS = 100
"""Maximum tokens in a drawn alignment: the figure has a cell per pair of tokens."""
LINES_AT_ONCE = 500
"""Lines of a file that are translated together; a pipe is answered line by line."""


def add_translate(arg: Add) -> None:
    """Add the arguments of `seqmodels translate`."""
    add_run(arg)
    add_text(arg, "its lines are translated one by one")
    arg("--beam", type=positive, default=1, metavar="K", help="default: 1, greedy")
    arg("--length-penalty", type=float, default=1.0, metavar="A",
        help="the best has the highest log-probability / length^A; default: 1")  # fmt: skip
    arg("--alignment", type=Path, metavar="FILE.svg", help="draw the attention to the source")


def translate(args: argparse.Namespace) -> None:
    """Translate lines with a trained run."""
    from tqdm import tqdm

    from seqmodels.inference import load

    if args.beam == 1 and args.length_penalty != 1:
        raise ValueError("--length-penalty chooses from a beam; give --beam 2 or more")
    if args.alignment:
        if args.text == "-" or "\n" in args.text or not args.text.strip():
            raise ValueError("--alignment draws one sentence; give one")
        claim_file(args.alignment)
    run = load(args.run)
    if args.alignment:
        if (n := len(run.encode(args.text))) > MAX_DRAWN_TOKENS:
            raise ValueError(f"--alignment draws {MAX_DRAWN_TOKENS} tokens at most; these are {n}")
        draw_translation(run, args)
    rest = read_text(args.text)
    sources, n = list[list[int]](), LINES_AT_ONCE if os.path.isfile(0) else 1
    with tqdm(unit=" lines", disable=None if args.text == "-" else True) as bar:
        while chunk := [run.encode_line(line) for line in islice(rest, n)]:
            bar.update(len(chunk))
            for tokens in run.search(chunk, args.beam, args.length_penalty):
                print(run.tokenizer.decode(tokens), flush=True)
            sources += chunk
    warn_unknown(sources)


def draw_translation(run: TrainedModel, args: argparse.Namespace) -> None:
    """Draw how a text's translation attends to it."""
    from seqmodels.records.schema import Alignment
    from seqmodels.report.alignment import draw_alignment
    from seqmodels.report.style import line_styles_for

    (target,) = run.search([run.encode_source(args.text)], args.beam, args.length_penalty)
    src, tgt, weights = run.align(args.text, target)
    panel = Alignment(src=src, tgt=tgt, alpha=weights.tolist(), gold=None)
    (look,) = line_styles_for({run.record.model: [run.record]}).values()
    draw_alignment((look, panel), args.alignment)


def add_generate(arg: Add) -> None:
    """Add the arguments of `seqmodels generate`."""
    add_run(arg)
    add_text(arg, "it is continued")
    arg("--length", type=positive, default=100, metavar="N", help="tokens; default: 100")
    arg("--temperature", type=float, default=0.8, metavar="X",
        help="0 takes the most likely token; default: 0.8")  # fmt: skip
    arg("--top-k", type=positive, metavar="K", help="sample from the K most likely tokens alone")
    arg("--top-p", type=float, default=1.0, metavar="P",
        help="sample from the fewest tokens whose probabilities reach P; default: 1")  # fmt: skip
    arg("--seed", type=non_negative, default=1, metavar="N", help="default: 1")


def generate(args: argparse.Namespace) -> None:
    """Continue one text with a trained run."""
    from seqmodels.inference import load

    run, text = load(args.run), "\n".join(read_text(args.text))
    print(run.generate(text, args.length, args.temperature, args.top_k, args.top_p, args.seed))
    warn_unknown([run.encode(text)])
