"""Look into trained models through the interface alone."""
