"""Ask what the heads of attention do: where each looks, and what the model loses without it."""
