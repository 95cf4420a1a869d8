"""Measure how far back a model reaches: why recurrence forgets and attention does not."""
