"""Translate sentences: see how the score falls with length, and what attention gains."""
