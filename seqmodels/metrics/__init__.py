"""What is measured: one table of metrics, their scores and their intervals. No torch."""
