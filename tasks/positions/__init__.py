"""Translate longer sentences than any in training: what becomes of a Transformer's positions."""
