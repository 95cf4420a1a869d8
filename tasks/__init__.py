"""Hold the programs of the repository, which are run from a clone and never installed."""
