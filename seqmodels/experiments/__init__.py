"""Run recipes and compare them."""
