"""Train the Transformer with mistakes that are made in writing it, one at a time."""
