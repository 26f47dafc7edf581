"""What every .dqc file depends on, a module a method: whoever changes a number here breaks all files.

Training takes the grids from here too, so that it computes what the exact programs compute. Knobs that only change speed or
size stand beside the code that they tune.
"""
