"""Train one model: what a batch changes, the loop over batches, checkpoints."""
