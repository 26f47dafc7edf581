"""Bits: the stack, the codecs that push to it and pop from it, and bits-back. Knows no torch; a model here is a codec."""
