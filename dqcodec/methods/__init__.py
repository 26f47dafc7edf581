"""Layers <-> payloads: by lossless WebP (classical), context mixing, experts, as JPEG, by a
flow, or an autoregressive model.
"""
