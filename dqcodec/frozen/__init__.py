"""The named constants of the .dqc format, one module for each method. A change of a number here breaks existing files.

Training uses the same grids, so that it computes the same numbers as the exact programs. Numbers in formulas stay
with the formula. Constants that change only speed or size are beside the code that uses them.
"""
