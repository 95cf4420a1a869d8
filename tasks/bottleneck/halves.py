"""Train the encoder without the decoder, or the decoder without the encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from seqmodels.data.batches import Example
from seqmodels.experiments.task import Task
from seqmodels.inference import load
from seqmodels.interface import BOS, SequenceModel
from seqmodels.models import ancestors
from seqmodels.models.variants.fresh import FreshDecoder
from seqmodels.search import unroll

from . import FRESH
from .latent import complete_state


def find_run(folder: Path, names: Sequence[str], seed: int) -> Path:
    """Return the run of a model or its base, no fresh decoder's; raise ValueError without one."""
    runs = [folder / f"{model}-seed{seed}" for model in names if not model.startswith(FRESH)]
    for run in runs:
        if run.with_suffix(".safetensors").exists():
            return run
    raise ValueError(f"--frozen: {folder} has no weights of {runs[-1].name}")


def freeze_half(model: SequenceModel, names: Sequence[str], seed: int, folder: Path) -> None:
    """Load the encoder of a fresh decoder, or the decoder of any other model, and freeze it.

    What both halves use, such as a shared embedding, is the decoder's. Other weights that have the
    same names and shapes are loaded as well, but learn. Raises ValueError if a run has others.
    """
    run = find_run(folder, names, seed)
    trained, own = load(run).model.state_dict(), model.state_dict()
    frozen = list_decoder_parameters(model)
    if isinstance(model, FreshDecoder):
        trained["embed_source.weight"] = trained["embed.weight"]
        frozen = [k for k in trained if k.startswith(("encoder.", "V.", "embed_source."))]
        if model.config.is_fresh:
            trained = {name: trained[name] for name in frozen}
    shared = {k: w for k, w in trained.items() if k in own and own[k].shape == w.shape}
    model.load_state_dict(shared, strict=False)
    for name in frozen:
        if name not in shared:
            raise ValueError(f"{run} lacks {name}, which stays as it is in {names[0]}")
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


def with_frozen_half(task: Task, folder: Path, models: Sequence[str], seeds: Sequence[int]) -> Task:
    """Return the task for models one half of which is that of a folder's runs, at their width."""
    recipes = dict(task.recipes)
    for name in models:
        first, *_ = (find_run(folder, ancestors(name), seed) for seed in seeds)
        width = load(first).model.config.d_model
        sizes = {**task.recipe(name).sizes, "d_model": width}
        sizes |= {"d_vector": width} if name == FRESH else {}
        recipes[name] = task.recipe(name)._replace(sizes=sizes)
    data = {**task.data, "frozen": f"one half, from {folder.resolve().name}"}
    begin = partial(freeze_half, folder=folder)
    return replace(task, data=data, recipes=recipes, begin=begin)


def to_autoencoder(task: Task) -> Task:
    """Return the task of generating the target from the target; nothing else is measured."""

    def copy_targets(examples: Sequence[Example]) -> list[Example]:
        return [Example(example.tgt, example.tgt) for example in examples]

    tests = [replace(test, examples=copy_targets(test.examples)) for test in task.tests]
    data = {**task.data, "source": "the target"}
    train, valid = copy_targets(task.train), copy_targets(task.valid)
    return replace(
        task, data=data, train=train, valid=valid, tests=tests, measure={}, alignment_example=None
    )
