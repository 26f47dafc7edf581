"""Flows and their dequantizers, in integers."""
