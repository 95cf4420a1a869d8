"""Change one thing in the Transformer: which of its design choices matter, and which are noise."""
