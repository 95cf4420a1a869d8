"""Copy and reverse random symbols: the bottleneck in isolation."""
