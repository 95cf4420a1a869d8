"""Make the next batch while the present one is trained on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

T = TypeVar("T")


@contextmanager
def ahead(items: Iterator[T], device: torch.device) -> Iterator[Iterator[T]]:
    """Yield an iterator of the same items, of which a thread makes one in advance.

    What is raised there is raised where the item is asked for. The thread ends with the context.
    """
    set_up = (torch.cuda.set_device, (device,)) if device.type == "cuda" else (None, ())
    with ThreadPoolExecutor(1, "prefetch", *set_up) as pool:
        yield made_by(pool, items)


def made_by(pool: ThreadPoolExecutor, items: Iterator[T]) -> Iterator[T]:
    """Yield what the pool's one thread makes: the next item is begun before one is given."""
    coming = pool.submit(next, items, None)
    while (item := coming.result()) is not None:
        coming = pool.submit(next, items, None)
        yield item
