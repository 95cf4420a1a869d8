"""Define a task: its data, its test sets, and a recipe for each model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from seqmodels.models import Fields, ancestors, paper_of

if TYPE_CHECKING:  # a recipe needs no torch
    from seqmodels.data.batches import Example
    from seqmodels.data.tokenizers import Tokenizer
    from seqmodels.interface import SequenceModel
    from seqmodels.records.schema import Kind
    from seqmodels.utils.terminal import ProgressBar


@dataclass(frozen=True, kw_only=True)
class TestSet:
    """Examples, each with a number x against which scores are plotted."""

    name: str
    axis: str
    """Label of the x axis, with its unit; it is only drawn."""
    unit: str
    """Plural noun for what x counts, such as words."""
    primary_metric: str
    """The metric that figures and tables show: a key of METRICS, or FILE.py:NAME of a function of a
    hypothesis and its reference, whose mean is the score."""
    examples: Sequence[Example]
    x: Sequence[int]
    buckets: Sequence[tuple[int, int]]
    """Ranges of x, both ends included, that are scored together."""
    max_train_length: int | None = None
    """Longest x in training."""
    kind: Kind = "length"
    """What x is; see Kind."""
    noun: str = "examples"
    """What the examples are called, in the plural."""
    is_generated: bool = True
    """Whether to also score free-running targets; otherwise, scores are teacher-forced only."""
    beam: int | None = None
    """Width of the search; None: the task's."""
    texts: Sequence[tuple[str, str]] | None = None
    """Original source and target texts, where decoding would not reproduce them."""
    groups: Sequence[int] | None = None
    """Group of each example; examples of a group share text. None: each forms its own group."""
    grouped_by: str = ""
    """Plural noun for the groups."""
    baseline: Sequence[float] | None = None
    """Accuracy, from 0 to 1, on each example without the ability that is tested."""
    baseline_name: str = ""
    """Description of that baseline."""
    adapt: Callable[[SequenceModel, ProgressBar], SequenceModel] | None = None
    """Returns the model that is scored on this set in place of the trained one, on its device."""


class Recipe(NamedTuple):
    """Sizes of one model, usually without its width, and its learning rate."""

    sizes: Fields
    lr: float
    """Peak learning rate of AdamW; the README of the task lists those that were tried."""
    muon_lr: float = 8e-3
    """Peak learning rate of Muon, if the task is trained with it."""


class AlignmentExample(NamedTuple):
    """The example whose alignment is drawn, with its gold links if known."""

    example: Example
    links: Sequence[tuple[int, int]] | None


Rows = list[dict[str, int | float | str]]
"""Rows of named values, as the record has them in `analyses`."""
Measurement = Callable[["SequenceModel", "SequenceModel"], Rows]
"""Measures a trained model, given the same model before its first step as well; returns rows of
named values for the record. It has to be a function of a module, or a `partial` of one: runs are
sent to other processes."""

DEFAULT_LR = {"vector": 8e-3, "fixed": 8e-3, "grows": 2e-3}
"""Peak learning rates that suit most recipes, by kind of memory."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """Everything the harness needs to know about a task; it never asks which one it is."""

    name: str
    data: Fields
    """Name, sha256 and counts, as the record shows them."""
    tokenizer: Tokenizer
    train: Sequence[Example]
    valid: Sequence[Example]
    tests: Sequence[TestSet]
    recipes: Mapping[str, Recipe]
    training: Fields
    """Fields of TrainConfig that all models share: the budget above all."""
    n_parameters: int
    """Size of every model, within 5 %, unless its recipe has a width (d_model)."""
    vary: Mapping[str, Sequence[Fields]] = field(default_factory=dict)
    """Changes with each of which a model is trained as well, unless --models or --vary is given."""
    beam: int = 1
    bleu_tokenize: str = "13a"
    """sacreBLEU's tokenizer for BLEU."""
    alignment_example: AlignmentExample | None = None
    contrasts: Sequence[tuple[str, str]] = ()
    """Pairs of models whose difference is tested; a model in none of them is compared with all."""
    measure: Mapping[str, Measurement] = field(default_factory=dict)
    """What is measured of a trained model besides its scores, by name: the record's `analyses`."""
    begin: Callable[[SequenceModel, Sequence[str], int], None] | None = None
    """Changes a model before its training: its weights, or what is frozen. It is given its name and
    those of the models that it varies, itself first, and its seed."""

    def recipe(self, name: str) -> Recipe:
        """Return a model's recipe; a variant without one gets that of the model that it varies.

        Otherwise, a model without one gets the defaults for its kind of memory.
        """
        own = [self.recipes[n] for n in ancestors(name) if n in self.recipes]
        return own[0] if own else Recipe({}, DEFAULT_LR[paper_of(name).memory])
