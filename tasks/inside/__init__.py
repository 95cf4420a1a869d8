"""Look inside trained models: their heads, their words and their scores, on given weights."""
