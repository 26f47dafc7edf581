"""What a JPEG decoder computes, exactly, and the way back: from its pixels to the coefficients of the JPEG file."""
