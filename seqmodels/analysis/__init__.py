"""Analyses of what models produce, through the interface only."""
