"""Layers <-> payloads: by lossless WebP (classical), context mixing, experts, a flow, or an autoregressive model."""
