"""The colour types of PNG files: their names, and the type for each number of samples per pixel."""

NAMES = {0: "gray", 2: "RGB", 3: "palette", 4: "gray and alpha", 6: "RGBA"}
OF_SAMPLES = {1: 0, 2: 4, 3: 2, 4: 6}  # samples per pixel -> colour type, not the palette type
