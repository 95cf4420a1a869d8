"""The table of contents, in order of history."""

from __future__ import annotations

from typing import Any

from seqmodels.interface import SequenceModel
from seqmodels.models.bahdanau import Bahdanau
from seqmodels.models.gpt import GPT
from seqmodels.models.lstm_seq2seq import LSTMSeq2Seq
from seqmodels.models.rnn_encdec import RNNEncDec
from seqmodels.models.transformer import Transformer

MODELS: dict[str, type[SequenceModel]] = {
    "rnn_encdec": RNNEncDec,
    "bahdanau": Bahdanau,
    "lstm_seq2seq": LSTMSeq2Seq,
    "transformer": Transformer,
    "gpt": GPT,
}


def build(name: str, vocab_size: int, **sizes: Any) -> SequenceModel:
    """Build a model; sizes left out are the paper's.

    Raises ValueError for an unknown name, TypeError for a size that the model's Config lacks.
    """
    if name not in MODELS:
        raise ValueError(f"unknown model {name!r}; choose from {', '.join(MODELS)}")
    return MODELS[name](MODELS[name].config_type(vocab_size=vocab_size, **sizes))
