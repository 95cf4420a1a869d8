"""What a task hands over: its data, its test sets, and how each model is trained for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from seqmodels.catalog import CATALOG
from seqmodels.data.batches import Example
from seqmodels.data.tokenizers import Tokenizer


@dataclass(frozen=True, kw_only=True)
class TestSet:
    """Examples with one number each, along which their scores are drawn."""

    name: str
    axis: str
    """What the number is, with its unit."""
    headline: str
    """The score that the figure shows."""
    examples: Sequence[Example]
    x: Sequence[int]
    bins: Sequence[tuple[int, int]]
    trained_to: int | None = None
    """Longest x in training."""
    is_generated: bool = True
    """Write targets freely, too; else they are scored teacher-forced only."""
    beam: int | None = None
    """Width of the search; None: the task's."""
    texts: Sequence[tuple[str, str]] | None = None
    """Source and target of each example as they are, where decoding does not give them back."""
    groups: Sequence[int] | None = None
    """The group of each example; those of one group share text. None: each is on its own."""
    grouped_by: str = ""
    """What the groups are, in the plural."""
    baseline: Sequence[float] | None = None
    """How often each target is found, from 0 to 1, without what the test asks for."""
    baseline_name: str = ""
    """What knowledge that takes."""


class Recipe(NamedTuple):
    """Sizes of one model, but for its width, and how it is trained."""

    sizes: Mapping[str, Any]
    rate: float
    """Peak learning rate; the task says which were tried."""


class Shown(NamedTuple):
    """The one example whose alignment is drawn, with its gold links where they are known."""

    example: Example
    links: Sequence[tuple[int, int]] | None


DEFAULT_RATES = {"fixed": 8e-3, "grows": 2e-3}
"""Peak learning rates that suit most recipes of these kinds of state."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """All that the harness needs to know; it never asks which task it is."""

    name: str
    data: Mapping[str, Any]
    """Name, sha256 and counts, as the record shows them."""
    tokenizer: Tokenizer
    train: Sequence[Example]
    valid: Sequence[Example]
    tests: Sequence[TestSet]
    recipes: Mapping[str, Recipe]
    training: Mapping[str, Any]
    """Fields of TrainConfig that all models share: the budget above all."""
    n_parameters: int
    """Size of every model, to 5 %."""
    beam: int = 1
    bleu_tokenize: str = "13a"
    """sacreBLEU's tokenizer, for BLEU."""
    shown: Shown | None = None

    def recipe(self, name: str) -> Recipe:
        """Return a model's recipe; a model without one gets the defaults for its kind of state."""
        return self.recipes.get(name) or Recipe({}, DEFAULT_RATES[CATALOG[name].state])
