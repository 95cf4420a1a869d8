"""The table of contents, in order of history: see `seqmodels.catalog`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from seqmodels.catalog import CATALOG, entries, entry_of

if TYPE_CHECKING:
    from seqmodels.interface import SequenceModel


class _Models(Mapping[str, "type[SequenceModel]"]):
    """The catalog's models by name, each imported when it is first asked for.

    Variants are found by name as well, but are not counted or listed.
    """

    def __getitem__(self, name: str) -> type[SequenceModel]:
        module, _, kind = entries()[name].home.partition(":")
        return getattr(import_module(module), kind)

    def __iter__(self) -> Iterator[str]:
        return iter(CATALOG)

    def __len__(self) -> int:
        return len(CATALOG)


MODELS = _Models()


def build(name: str, vocab_size: int, **sizes: Any) -> SequenceModel:
    """Build a model or a variant; sizes left out are the paper's.

    Raises ValueError for an unknown name, TypeError for a size that the model's Config lacks.
    """
    sizes = {**entry_of(name).sizes, **sizes}
    kind = MODELS[name]
    return kind(kind.config_type(vocab_size=vocab_size, **sizes))
