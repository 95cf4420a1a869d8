"""Programs for developers, run from a clone; the wheel does not hold them."""
