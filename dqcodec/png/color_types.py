"""The colour types of PNG files: their names and their samples per pixel."""

PALETTE = 3
NAMES = {0: "gray", 2: "RGB", PALETTE: "palette", 4: "gray and alpha", 6: "RGBA"}
SAMPLES = {0: 1, 2: 3, PALETTE: 1, 4: 2, 6: 4}  # per pixel
OF_SAMPLES = {count: color_type for color_type, count in SAMPLES.items() if color_type != PALETTE}
