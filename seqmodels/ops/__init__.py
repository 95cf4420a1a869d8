"""What makes the chapters fast without being in them; docstrings say what is computed."""
