"""Constants of interlaced flows. What they share with autoregressive models is in frozen.autoregressive."""

PLACES = ((1, 1), (0, 1), (1, 0))  # (row, column) in a block of 2 x 2, in the order of coding; (0, 0) is known before
# (rows down, columns to the right) of the pixels that are known before each place, the nearest first
NEIGHBOURS = (
    (
        (-1, -1), (-1, 1), (1, -1), (1, 1), (-1, -3), (-1, 3), (1, -3), (1, 3),
        (-3, -1), (-3, 1), (3, -1), (3, 1), (-3, -3), (-3, 3), (3, -3), (3, 3),
    ),
    (
        (0, -1), (0, 1), (-1, 0), (1, 0), (-1, -2), (-1, 2), (1, -2), (1, 2),
        (-2, -1), (-2, 1), (2, -1), (2, 1), (0, -3), (0, 3), (-3, 0), (3, 0),
    ),
    (
        (0, -1), (0, 1), (-1, 0), (1, 0), (-1, -1), (-1, 1), (1, -1), (1, 1),
        (-1, -2), (-1, 2), (1, -2), (1, 2), (-2, -1), (-2, 1), (2, -1), (2, 1),
    ),
)  # fmt: skip
MEAN_NEIGHBOURS = 4  # the nearest ones give the local mean
SPREAD_WEIGHTS = (2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1)  # of the nearest ones in the local spread, in sixteenths
REACH = 3  # the largest distance of a neighbour, rows or columns

# u given x
CELL_BITS = 4  # a bin is cut into 2^4 cells
CELL_TOTAL_BITS = 16  # slots of the cells of a bin together
