"""The method classical."""

BLOCK = 2048  # pixels a side of one WebP stream: bounds the encoder's memory, about 25 bytes a pixel; WebP's own limit is 16383
FRAMING_BYTES = 25
# Channels of a layer -> of WebP, and of WebP's RGBA -> of the layer.
TO_WEBP = {1: [0, 0, 0], 2: [0, 0, 0, 1], 3: [0, 1, 2], 4: [0, 1, 2, 3]}
FROM_WEBP = {1: [0], 2: [0, 3], 3: [0, 1, 2], 4: [0, 1, 2, 3]}
