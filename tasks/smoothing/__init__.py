"""Ask in what sense attention is kernel smoothing, and with what bandwidth."""
