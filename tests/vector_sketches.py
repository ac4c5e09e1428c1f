"""Sketches of short lists of numbers, made without torch."""

import math

from ddpcheck.measures.sketch import Sketch

# Any signs do; these are four of the rows of a Hadamard matrix of order 8.
SIGNS = ((1, 1, 1, 1), (1, -1, 1, -1), (1, 1, -1, -1), (1, -1, -1, 1))


def sketched(*values: float) -> Sketch:
    """Return the sketch of a vector of at most four numbers."""
    projections = (sum(s * v for s, v in zip(row, values, strict=False)) for row in SIGNS)
    return Sketch(repr(values), math.hypot(*values), tuple(projections))
