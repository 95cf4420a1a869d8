"""Copy and reverse random symbols: nothing can be guessed from language."""
