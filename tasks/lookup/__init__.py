"""Look up values by their keys: attention finds one of many, one vector has to hold them all."""
