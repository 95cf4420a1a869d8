"""Measure speed: against an earlier commit, and against the length of the text."""
