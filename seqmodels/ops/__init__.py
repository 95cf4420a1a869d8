"""What makes the chapters fast without being in them: each computes what its docstring says."""
