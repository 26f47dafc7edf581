"""Constants of the method classical."""

# side of a block, pixels: it bounds the encoder's memory, about 25 bytes a pixel. WebP's own limit is 16383
BLOCK = 2048
FRAMING_BYTES = 25  # RIFF and VP8L headers and the size, which are left out
# For each number of channels: which of them WebP gets, and which of WebP's RGBA are the layer's.
TO_WEBP = {1: [0, 0, 0], 2: [0, 0, 0, 1], 3: [0, 1, 2], 4: [0, 1, 2, 3]}
FROM_WEBP = {1: [0], 2: [0, 3], 3: [0, 1, 2], 4: [0, 1, 2, 3]}
