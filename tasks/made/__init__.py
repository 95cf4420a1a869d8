"""Data made here: sentence pairs by a grammar, and stories that need a word again."""
