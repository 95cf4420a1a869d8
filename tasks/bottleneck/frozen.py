"""Train an encoder for a decoder that is trained already, and stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from seqmodels.experiments.task import Task
from seqmodels.inference import load
from seqmodels.interface import BOS, SequenceModel
from seqmodels.models import ancestors
from seqmodels.search import unroll

from .latent import complete_state


def find_run(folder: Path, names: Sequence[str], seed: int) -> Path:
    """Return the run of a model, or of one that it varies; raise ValueError if there is none."""
    runs = [folder / f"{model}-seed{seed}" for model in names]
    for run in runs:
        if run.with_suffix(".safetensors").exists():
            return run
    raise ValueError(f"--decoder: {folder} has no weights of {runs[-1].name}")


def freeze_decoder(model: SequenceModel, names: Sequence[str], seed: int, folder: Path) -> None:
    """Load the weights that have the same names and shapes, then freeze the decoder's.

    Raises ValueError if the decoder has others.
    """
    run = find_run(folder, names, seed)
    trained, own = load(run).model.state_dict(), model.state_dict()
    shared = {k: w for k, w in trained.items() if k in own and own[k].shape == w.shape}
    model.load_state_dict(shared, strict=False)
    for name in list_decoder_parameters(model):
        if name not in shared:
            raise ValueError(f"{run} lacks {name} of the decoder of {names[0]}")
        model.get_parameter(name).requires_grad_(False)


def list_decoder_parameters(model: SequenceModel) -> list[str]:
    """Return the names of the parameters that are used after a source has been read.

    An embedding that encoder and decoder share is one of them.
    """
    src = torch.full((1, 2), BOS)
    with torch.no_grad():
        state = model.encode(src, src == BOS)
    logits, _ = unroll(model, complete_state(model, state), src)
    names, parameters = zip(*model.named_parameters(), strict=True)
    gradients = torch.autograd.grad(logits.sum(), parameters, allow_unused=True)
    return [name for name, g in zip(names, gradients, strict=True) if g is not None]


def with_frozen_decoder(
    task: Task, folder: Path, models: Sequence[str], seeds: Sequence[int]
) -> Task:
    """Return the task for models whose decoders are those of a folder's runs, at their width."""
    recipes = dict(task.recipes)
    for name in models:
        first, *_ = (find_run(folder, ancestors(name), seed) for seed in seeds)
        sizes = {**task.recipe(name).sizes, "d_model": load(first).model.config.d_model}
        recipes[name] = task.recipe(name)._replace(sizes=sizes)
    data = {**task.data, "decoder": f"frozen, from {folder.resolve().name}"}
    begin = partial(freeze_decoder, folder=folder)
    return replace(task, data=data, recipes=recipes, begin=begin)
