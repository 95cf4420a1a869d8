"""Continue a text: see how far back a model can look for what it needs."""
