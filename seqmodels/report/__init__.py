"""Figures, tables and sentences, from records alone. No torch."""
