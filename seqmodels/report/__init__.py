"""Figures and tables computed from records only. No torch."""
