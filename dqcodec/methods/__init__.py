"""Ways to carry pixels in bytes: `classical` (WebP) and `flow` (a learned model). Each has `encode` and `decode`."""
