"""Trained models in a page: they translate what a reader types, without a server."""
