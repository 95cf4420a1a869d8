"""Draw."""

FIGURES = ()
