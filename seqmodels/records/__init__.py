"""What is kept of a run, its schema, and published figures beside it."""
