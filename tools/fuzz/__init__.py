"""Fuzz every reader with arbitrary bytes."""
