"""Bits: the stack and the codec algebra. Knows no torch and no model."""
