"""Colour types of PNG files: their names, and the one for a number of samples a pixel."""

NAMES = {0: "gray", 2: "RGB", 3: "palette", 4: "gray and alpha", 6: "RGBA"}
OF_SAMPLES = {1: 0, 2: 4, 3: 2, 4: 6}  # never a palette
