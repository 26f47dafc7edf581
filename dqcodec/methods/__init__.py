"""How pixels become a payload: by lossless WebP (classical), by a trained flow or autoregressive model (learned)."""
