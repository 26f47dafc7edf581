"""Networks of both kinds of models."""

LEAK = 0.125  # slope of the activation below zero
