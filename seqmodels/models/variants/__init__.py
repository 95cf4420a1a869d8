"""Variants of the models, beside the files that follow the papers: one question, one switch."""
