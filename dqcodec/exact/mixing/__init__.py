"""Context mixing, alone and with a model."""
