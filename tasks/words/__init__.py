"""Look inside a word: what its vector holds, layer by layer, and what each layer adds to it."""
