"""From texts and tables to batches of ids."""

SPLITS = ("train", "valid", "test")
TOKENIZERS = ("bpe", "words", "characters", "bytes")
"""The kinds of tokenizers that `tokenizers.make` makes."""
TOKENIZERS_WITH_VOCAB_SIZE = ("bpe", "words")
"""Those that are trained up to a given vocabulary size."""
