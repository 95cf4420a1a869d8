"""Measure how much one vector holds: bits carried against its width, and k vectors against all."""
