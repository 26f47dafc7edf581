"""What a JPEG decoder computes, exactly, and the way back: from its pixels to the coefficients of the JPEG file.

    decoding.py: levels -> times table: coefficients -> inverse transform: samples -> upsampling: planes -> colours: pixels

A level is a coefficient in steps of the quantisation table. The way back, recovery.py, which only an encoder needs:

    pixels -> planes Y, Cb, Cr                    lattice.py    colours that a decoder makes come from one Y, Cb, Cr
    where blocks begin                            grid.py       there most coefficients are 0
    planes of chroma -> its samples               chroma.py     how they were upsampled, and the samples before
    samples of blocks -> table                    tables.py     the likeliest steps
    samples, bounds of pixels -> levels           component.py, fitting.py    those that give the pixels, by rounding.py

blocks.py cuts planes into blocks. Bounds of a pixel are open where it is clamped to 0 or 255. Y and chroma bound each
other, so that blocks which do not fit are fitted again.
"""
