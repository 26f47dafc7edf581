"""Bits: the stack, and codecs made of codecs, as bits-back is. Knows no torch; a model here is what pushes and pops."""
