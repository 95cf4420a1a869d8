"""Copy random symbols: what is kept in place, and how many bits pass through one vector."""
