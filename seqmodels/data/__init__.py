"""From texts and tables to batches of ids."""
