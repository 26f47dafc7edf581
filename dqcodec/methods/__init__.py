"""How layers become payloads: by lossless WebP (classical), by context mixing, by a trained flow or autoregressive model."""
