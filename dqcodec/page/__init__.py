"""The page of `dqcodec inspect`: where the bits of a file went, as numbers, maps and HTML."""
