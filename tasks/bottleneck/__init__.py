"""Which component limits long sentences: the encoder, the vector or the decoder."""

FRESH = "rnn_encdec_fresh"
"""The model whose encoder is that of a trained run, with a decoder of its own."""
