"""Run one recipe, or set several against each other."""
