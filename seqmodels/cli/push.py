"""Upload a trained run to the Hugging Face Hub."""

from __future__ import annotations

import argparse
import sys

from seqmodels.cli.arguments import Add, add_run
from seqmodels.utils.imports import import_beside


def add_arguments(arg: Add) -> None:
    """Add the arguments of the command."""
    add_run(arg, "such as runs/NAME/bahdanau-seed1, or bahdanau, a small one of the package")
    arg("repository", metavar="OWNER/NAME", help="made if it does not exist")
    arg("--private", action="store_true", help="make it for yourself alone")


def run(args: argparse.Namespace) -> None:
    """Upload a run to the Hub with a card, a figure and, if they can be made, ONNX graphs."""
    from seqmodels.experiments import hub
    from seqmodels.experiments.inference import find_record, load
    from seqmodels.report import bucket_plots, card, style

    if args.run.startswith("hub:"):
        raise ValueError(f"{args.run} is on the Hub already; name a run on this disk")
    if (record := load(args.run).record) is None:
        raise ValueError(f"{args.run} was trained elsewhere; name a run that was trained here")
    path = find_record(args.run)
    with style.context():
        figure = bucket_plots.draw_scores([record], record.tests[0]).figure
        more = {card.FIGURE: style.render(figure, ".png")}
    try:
        contents, _ = import_beside("lesson.export").contents_of(path, is_half=False)
        more |= {f"onnx/{name}": content for name, content in contents.items()}
    except ModuleNotFoundError as error:
        print(f"without ONNX graphs: {error.name} is not installed", file=sys.stderr)
    text = card.format_card(record, args.repository)
    print(hub.push(path, args.repository, text, more, args.private))
