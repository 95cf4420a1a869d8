"""Pages to open in a browser, each a single file that asks for nothing else."""
