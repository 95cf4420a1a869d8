"""Synthetic data: sentence pairs from a grammar, and stories that need a word again."""
