"""Anything at all, given to all that reads."""
