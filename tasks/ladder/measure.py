"""Score the words of targets by their places in them, and count the steps that wait for another."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from seqmodels.data.batches import Example
from seqmodels.interface import PAD, SequenceModel
from seqmodels.models.bahdanau import Bahdanau
from seqmodels.models.transformer import Transformer
from seqmodels.models.variants.bahdanau_to_transformer import RecurrentDecoder, RecurrentTransformer

from ..analyses import Rows, batches_of

N_PLACES = 4
"""Parts of equal length, to the word, into which a target is cut."""


@torch.inference_mode()
def accuracy_by_place(examples: Sequence[Example], model: SequenceModel, _: SequenceModel) -> Rows:
    """Return, for each quarter of the targets, the per cent of its n next tokens that are right.

    Token t of T belongs to quarter ⌊4 t / T⌋.
    """
    n, n_right = torch.zeros(N_PLACES), torch.zeros(N_PLACES)
    for _indices, batch in batches_of(model, examples):
        real = batch.tgt_out != PAD
        right = model(batch.src, batch.src_mask, batch.tgt_in).argmax(-1) == batch.tgt_out
        t = torch.arange(real.shape[1], device=real.device)
        place = N_PLACES * t // real.sum(1, keepdim=True)
        n += torch.bincount(place[real], minlength=N_PLACES).cpu()
        n_right += torch.bincount(place[real & right], minlength=N_PLACES).cpu()
    return [
        {"place": float(k), "n": float(n[k]), "accuracy": 100 * float(n_right[k] / n[k])}
        for k in range(N_PLACES)
    ]


def count_sequential_steps(
    model: SequenceModel, _: SequenceModel, n_source: int, n_target: int
) -> Rows:
    """Return a row with how many layers, or steps of a recurrence, follow one another in training.

    Layers are computed one after the other; a recurrent one takes a step per token of this pair's
    lengths. A model of another kind than Bahdanau's or the Transformer has no row.
    """
    if not isinstance(model, (Bahdanau, Transformer)):
        return []
    encoder = n_source if isinstance(model, (Bahdanau, RecurrentTransformer)) else 1
    decoder = n_target if isinstance(model, (Bahdanau, RecurrentDecoder)) else 1
    steps = getattr(model.config, "n_layers", 1) * (encoder + decoder)
    return [{"n_source": float(n_source), "n_target": float(n_target), "steps": float(steps)}]
