"""Autoregressive densities in integers."""
