"""Measure how far back a model reaches: gradients by distance and depth, and what a probe reads."""
