"""Write a trained run as ONNX graphs."""

from __future__ import annotations

import argparse
from pathlib import Path

from seqmodels.cli.arguments import Add, add_run
from seqmodels.utils.files import check_folder
from seqmodels.utils.imports import import_beside


def add_arguments(arg: Add) -> None:
    """Add the arguments of the command."""
    add_run(arg)
    arg("--out", type=Path, required=True, metavar="DIR", help="folder for the files")
    arg("--half", action="store_true", help="round the weights to float16")


def run(args: argparse.Namespace) -> None:
    """Write a run as ONNX graphs."""
    onnx = import_beside("lesson.export")
    check_folder(args.out, "export")
    paths, check = onnx.export(args.run, args.out, args.half)
    print(*paths, sep="\n")
    print(
        f"checked with onnxruntime over {check.n_tokens} tokens: logits differ from the model's by "
        f"at most {check.difference:.0e} of the largest, weights of attention by "
        f"{check.attention_difference:.0e}"
    )
