"""Write pages and graphs: the lesson, live models, a report, ONNX."""

from __future__ import annotations

import argparse
from pathlib import Path

from seqmodels.cli.arguments import Add, add_model, add_run, folder, page
from seqmodels.utils.files import check_folder, claim_file
from seqmodels.utils.imports import import_beside
from seqmodels.utils.terminal import non_negative


def add_site(arg: Add) -> None:
    """Add the arguments of `seqmodels site`."""
    arg("--out", type=Path, required=True, metavar="DIR", help="folder for the pages")
    arg("--live", type=folder, metavar="FOLDER",
        help="add a page in which the models of this folder run")  # fmt: skip
    arg("--single-file", action="store_true",
        help="keep the models in that page, which then opens from a disk")  # fmt: skip
    arg("--train", action="store_true", help="add a page that trains three models")


def site(args: argparse.Namespace) -> None:
    """Write the lesson: papers, equations, code, results."""
    build = import_beside("lesson.build").build
    print(build(args.out, args.live, args.single_file, args.train)[0])


def add_live(arg: Add) -> None:
    """Add the arguments of `seqmodels live`."""
    arg("folder", type=folder, metavar="FOLDER", help="folder of runs, with weights")
    arg("--out", type=page, required=True, metavar="FILE.html", help="the page")
    add_model(arg)


def live(args: argparse.Namespace) -> None:
    """Write a page in which trained models run."""
    claim_file(args.out)
    print(import_beside("lesson.live").write(args.folder, args.out))


MAPS = 24
"""Examples that have attention maps, unless another number is given."""


def add_report(arg: Add) -> None:
    """Add the arguments of `seqmodels report`."""
    arg("folder", type=folder, metavar="FOLDER", help="folder of records")
    arg("--out", type=page, required=True, metavar="FILE.html", help="write the page to this file")
    add_model(arg)
    arg("--maps", type=non_negative, default=MAPS, metavar="N",
        help=f"examples with attention maps; default: {MAPS}")  # fmt: skip


def report(args: argparse.Namespace) -> None:
    """Write a page that links scores, sentences, attention."""
    claim_file(args.out)
    print(import_beside("lesson.report").write(args.folder, args.out, args.maps))


def add_export(arg: Add) -> None:
    """Add the arguments of `seqmodels export`."""
    add_run(arg)
    arg("--out", type=Path, required=True, metavar="DIR", help="folder for the files")
    arg("--half", action="store_true", help="round the weights to float16")


def export(args: argparse.Namespace) -> None:
    """Write a trained run as ONNX graphs."""
    onnx = import_beside("lesson.export")
    check_folder(args.out, "export")
    paths, check = onnx.export(args.run, args.out, args.half)
    print(*paths, sep="\n")
    print(
        f"checked with onnxruntime over {check.n_tokens} tokens: logits differ from the model's by "
        f"at most {check.difference:.0e} of the largest, weights of attention by "
        f"{check.attention_difference:.0e}"
    )
