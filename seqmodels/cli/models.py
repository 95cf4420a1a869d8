"""List the models."""

from __future__ import annotations

import argparse
import sys

from seqmodels.cli.arguments import Add


def add_models(arg: Add) -> None:
    """Add the arguments of `seqmodels models`."""
    arg("--all", action="store_true", help="also list the variants, a name for each class")


def models(args: argparse.Namespace) -> None:
    """List the models: year, paper, file, parameters."""
    import torch

    from seqmodels.experiments.sweep import count_parameters
    from seqmodels.models import MODELS, PAPERS, list_models, paper_of
    from seqmodels.training.checkpoint import SkipInit

    print(f"{'name':16} {'year':5} {'label':20} {'paper':39} {'parameters':>12}  file")
    for name, model_type in MODELS.items():
        paper, module = PAPERS[name], sys.modules[model_type.__module__]
        with torch.device("meta"), SkipInit():
            n = count_parameters(model_type(getattr(module, paper.config)))
        about = f"{name:16} {paper.year:<5} {paper.label:20} {paper.cite:39} {n:12,}"
        print(f"{about}  {module.__file__}")
    print("\nParameters at the paper's sizes and vocabulary (the first Config in each file).")
    for name in list_models()[len(PAPERS) :] if args.all else ():
        info = paper_of(name)
        print(f"{name:29} varies {info.variant_of:16} {info.class_path}")
