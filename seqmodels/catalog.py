"""The five models in order of history, and what every figure, table and list calls them. No torch.

A model's line here is what can be known of it without building it; the rest is in its file. The
kinds of tokenizers are listed here, too: a command line offers both before it imports anything.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One model."""

    label: str
    """Its name for a reader: one name, everywhere."""
    year: int
    paper: str
    module: str
    """Where its class is."""
    attends: bool
    """Whether the target looks back at every word; else the source is handed over as one vector."""


CATALOG = {
    "rnn_encdec": Entry(
        label="RNN encoder–decoder",
        year=2014,
        paper="Cho et al., arXiv:1406.1078",
        module="seqmodels.models.rnn_encdec",
        attends=False,
    ),
    "bahdanau": Entry(
        label="Bahdanau",
        year=2014,
        paper="Bahdanau et al., arXiv:1409.0473",
        module="seqmodels.models.bahdanau",
        attends=True,
    ),
    "lstm_seq2seq": Entry(
        label="LSTM seq2seq",
        year=2014,
        paper="Sutskever et al., arXiv:1409.3215",
        module="seqmodels.models.lstm_seq2seq",
        attends=False,
    ),
    "transformer": Entry(
        label="Transformer",
        year=2017,
        paper="Vaswani et al., arXiv:1706.03762",
        module="seqmodels.models.transformer",
        attends=True,
    ),
    "gpt": Entry(
        label="GPT",
        year=2019,
        paper="Radford et al., OpenAI (GPT-2)",
        module="seqmodels.models.gpt",
        attends=True,
    ),
}

PUBLISHED = ("gpt2", "o200k_base")
"""tiktoken's encodings that may be fetched: those of GPT-2 and of GPT-4o."""
TOKENIZERS = ("bpe", "words", "spaces", "characters", "bytes", *PUBLISHED)
"""The kinds of tokenizers that `text.make` makes."""
SIZED = ("bpe", "words", "spaces")
"""Those whose size is chosen."""
