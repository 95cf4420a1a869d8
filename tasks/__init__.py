"""The programs of this repository, one per question."""
