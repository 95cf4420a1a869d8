"""Scores, their intervals, and scores of texts from elsewhere."""
