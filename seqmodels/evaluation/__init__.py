"""Evaluation of models, and scores of translations from other systems."""
