"""Which component limits long sentences: the encoder, the vector or the decoder."""
