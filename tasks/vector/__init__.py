"""Ask what a model keeps of a sentence, and what its decoder knows is left to say."""
