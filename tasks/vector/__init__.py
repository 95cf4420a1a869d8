"""Ask what one vector still holds of a sentence, and what a decoder knows is left to say."""
