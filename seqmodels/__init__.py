"""Five papers, five files, one harness."""

from seqmodels.interface import BOS, EOS, PAD, UNK, Batch, SequenceModel, select_rows, unroll
from seqmodels.models import MODELS, build

__all__ = [
    "BOS",
    "EOS",
    "MODELS",
    "PAD",
    "UNK",
    "Batch",
    "SequenceModel",
    "build",
    "select_rows",
    "unroll",
]
