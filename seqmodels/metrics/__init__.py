"""One table of metrics, and their scores and intervals. No torch."""
