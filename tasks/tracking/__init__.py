"""Follow balls under cups that are swapped: which models keep track of a state, and how far."""
