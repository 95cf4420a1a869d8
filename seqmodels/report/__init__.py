"""Figures, tables and sentences computed from records only. No torch."""
