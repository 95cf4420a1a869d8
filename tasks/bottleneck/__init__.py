"""Measure the bits that training gets through one vector, by its width, and through k vectors."""
