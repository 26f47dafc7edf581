"""Layers <-> payloads: by lossless WebP (classical), context mixing, a flow, or an autoregressive model."""
