"""Files, locks, the terminal."""
