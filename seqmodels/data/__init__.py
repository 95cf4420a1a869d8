"""From texts and tables to batches of ids."""

SPLITS = ("train", "valid", "test")
TOKENIZERS = ("bpe", "words", "spaces", "characters", "bytes")
"""The kinds of tokenizers that `tokenizers.make` makes."""
TOKENIZERS_WITH_VOCAB_SIZE = ("bpe", "words", "spaces")
"""Those that are trained up to a given vocabulary size."""
