"""The only list of models: in order of history, with their names in all figures, tables and lists.

No torch. A model's entry is what can be known about it without building it; the rest is in its
file. A sixth model is its file and one entry here, or one call of `register`. The kinds of
tokenizers are listed here as well: command lines offer both before they import anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One model."""

    label: str
    """Its display name, the same everywhere."""
    year: int
    paper: str
    home: str
    """Where its class is: MODULE:CLASS."""
    state: Literal["fixed", "grows"]
    """Whether what passes from source to target has a fixed size or grows with the source."""
    handed_over: str
    """Number of floats that pass (per token if it grows), as a product of integers and sizes."""
    colour: str
    """In figures, as #RRGGBB."""
    marker: str
    """In figures, as matplotlib has it."""

    @property
    def attends(self) -> bool:
        """Whether the target looks back at every word."""
        return self.state == "grows"

    def source_bytes(self, sizes: Mapping[str, Any], n_source: int) -> int:
        """Return the float32 bytes that the paper hands over for a source of `n_source` tokens.

        Whatever else an implementation keeps, such as keys and values, is not counted.
        """
        factors = self.handed_over.split(" × ")
        numbers = math.prod(int(f) if f.isdigit() else sizes[f] for f in factors)
        return 4 * numbers * (n_source if self.attends else 1)


CATALOG = {
    "rnn_encdec": Entry(
        label="RNN encoder–decoder",
        year=2014,
        paper="Cho et al., arXiv:1406.1078",
        home="seqmodels.models.rnn_encdec:RNNEncDec",
        state="fixed",
        handed_over="d_model",
        colour="#C98200",
        marker="s",
    ),
    "bahdanau": Entry(
        label="Bahdanau",
        year=2014,
        paper="Bahdanau et al., arXiv:1409.0473",
        home="seqmodels.models.bahdanau:Bahdanau",
        state="grows",
        handed_over="2 × d_model",
        colour="#1B75BC",
        marker="o",
    ),
    "lstm_seq2seq": Entry(
        label="LSTM seq2seq",
        year=2014,
        paper="Sutskever et al., arXiv:1409.3215",
        home="seqmodels.models.lstm_seq2seq:LSTMSeq2Seq",
        state="fixed",
        handed_over="2 × n_layers × d_model",
        colour="#B02A1E",
        marker="D",
    ),
    "transformer": Entry(
        label="Transformer",
        year=2017,
        paper="Vaswani et al., arXiv:1706.03762",
        home="seqmodels.models.transformer:Transformer",
        state="grows",
        handed_over="d_model",
        colour="#009B77",
        marker="^",
    ),
    "gpt": Entry(
        label="GPT",
        year=2019,
        paper="Radford et al., OpenAI (GPT-2)",
        home="seqmodels.models.gpt:GPT",
        state="grows",
        handed_over="n_layers × d_model",
        colour="#3B2A84",
        marker="v",
    ),
}


def register(name: str, entry: Entry) -> None:
    """Add a model to the list.

    Raises ValueError for a name that another model has.
    """
    if CATALOG.setdefault(name, entry) != entry:
        raise ValueError(f"{name} is the name of another model, {CATALOG[name].home}")


def attending() -> list[str]:
    """Return the names of the models that look back at every word of the source."""
    return [name for name, entry in CATALOG.items() if entry.attends]


PUBLISHED = ("gpt2", "o200k_base")
"""tiktoken's encodings that can be downloaded: those of GPT-2 and of GPT-4o."""
TOKENIZERS = ("bpe", "words", "spaces", "characters", "bytes", *PUBLISHED)
"""The kinds of tokenizers that `tokenizers.make` makes."""
SIZED = ("bpe", "words", "spaces")
"""Those whose size can be chosen."""
