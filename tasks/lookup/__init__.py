"""Look up values by their keys: which models find one of many pairs, and at what width."""
