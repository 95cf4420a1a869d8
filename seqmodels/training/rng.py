"""Random generators: seeds, and the states that a checkpoint keeps."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


def seed_all(seed: int) -> None:
    """Seed every random generator."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def seed_shard(seed: int, step: int, shard: int) -> None:
    """Seed torch's generators for one share of a batch, in whatever process it is."""
    seeds = np.random.SeedSequence([seed, step, shard])
    torch.manual_seed(int(seeds.generate_state(1, np.uint64)[0]))


def rng_states() -> dict[str, Any]:
    """Return the state of every random generator that training may draw from."""
    version, words, gauss = random.getstate()
    numpy = np.random.get_state(legacy=False)
    return {
        "python": [version, list(words), gauss],
        "numpy": {**numpy, "state": {**numpy["state"], "key": numpy["state"]["key"].tolist()}},
        "torch": torch.get_rng_state().numpy().tobytes().hex(),
        "cuda": [state.numpy().tobytes().hex() for state in cuda_rng_states()],
    }


def cuda_rng_states() -> list[Tensor]:
    """Return the states of the GPUs' generators."""
    return torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []


def set_rng_states(states: Any) -> None:
    """Restore the random generators.

    Raises ValueError for an invalid state.
    """
    try:
        version, words, gauss = states["python"]
        random.setstate((version, tuple(words), gauss))
        np.random.set_state(states["numpy"])
        cuda = states["cuda"][: torch.cuda.device_count()]
        set_torch_rng_states(bytes_tensor(states["torch"]), [bytes_tensor(state) for state in cuda])
    except (TypeError, ValueError, KeyError, RuntimeError, IndexError, OverflowError) as error:
        raise ValueError(f"invalid state of a random generator: {error}") from None


def set_torch_rng_states(cpu: Tensor, cuda: Sequence[Tensor]) -> None:
    """Restore torch's generators."""
    torch.set_rng_state(cpu)
    for i, state in enumerate(cuda):
        torch.cuda.set_rng_state(state, i)


def bytes_tensor(text: str) -> Tensor:
    """Return the bytes that a string of hexadecimal digits encodes."""
    return torch.tensor(list(bytes.fromhex(text)), dtype=torch.uint8)
