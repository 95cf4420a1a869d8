"""Change one thing in the Transformer: which of its design choices change the score."""
