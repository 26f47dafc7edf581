"""Constants of networks, for flows and autoregressive models."""

LEAK = 0.125  # slope of the activation below zero
