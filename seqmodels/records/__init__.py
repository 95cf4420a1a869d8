"""The record of a run and its schema, and the significance of differences between records."""
