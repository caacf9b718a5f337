"""The only place where an epsilon of the exact engine lives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from regionscope.checks import read_number
from regionscope.errors import InputError

# relative to the size of a cell or a slice
FLAT = 1e-12  # nearer points lie on it, and thinner ones are flat
COVERAGE_ERROR = 1e-9  # largest error of the sum of all region sizes, for ``Partition.check``
LOST_SHARE = 1e-6  # largest error of that sum before the computation itself fails
OUTSIDE_DISTANCE = 1e-9  # by which rounding may move a point out of its region
RANK_RATIO = 1e-10  # of the largest singular value or norm: directions or points that differ by less are equal
MOST_MOVED = 2.0**-12  # a fold that its zero tolerance, 2,048 units of rounding, moves farther has no place
SINGLE_PRECISION_DISTANCE = 1e-6  # of the norm of an input: a single-precision input nearer to a slice lies on it

# relative to values
UNIT = 2.0**-53  # largest relative error of one operation in float64
EQUAL_OUTPUTS = 16  # roundings of the largest output: outputs that differ by no more are equal
HIDDEN_SHARE = 1e-3  # of the largest difference of two outputs: the most that rounding may hide
SLOPE_ROUNDING = 1e-9  # smaller relative differences of slopes are decided by derivatives
NORM_ERROR = 1e-9  # relative error of a norm that needs no second computation
SHORTEST_WINDOW = 1e-9  # of the distance that ``first_flip`` searches: shorter windows may hold any number of pieces

# absolute
SMALLEST_TOLERANCE = torch.finfo(torch.float64).tiny  # zero tolerance of a unit that is zero on all probe points
TINY = 1e-300  # takes the place of 0 in a denominator
FITS = (1e-36, 1e6)  # zero tolerances of a layer for which neither its values nor their products are too small or large


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Thresholds below which a value counts as zero, relative to the size of the values.

    zero: a pre-activation ``u`` of a fold has no sign when ``|u| <= zero * s``, where ``s`` is the largest
        absolute value of that unit on fixed probe points of the slice. The vertex is then snapped:
        it lies on the unit's zero set. Rounding in a forward pass stays well below this.
    slope: relative accuracy of the affine maps that ``Partition.check`` requires.
    """

    zero: float
    slope: float

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if read_number(f"{name} of a Tolerance", value) < 0:
                raise InputError(
                    f"Expected {name} of a Tolerance to be at least 0, got {value!r}. Set 1e-9, for example."
                )

    @staticmethod
    @cache
    def of(dtype: torch.dtype) -> Tolerance:
        """The default for values of ``dtype``. Exact functions always compute in float64.

        >>> Tolerance.of(torch.float64).zero < 1e-12
        True
        """
        eps = torch.finfo(dtype).eps
        if dtype == torch.float64:
            return Tolerance(zero=2048 * eps, slope=1e-9)
        return Tolerance(zero=4 * eps, slope=1e-4)
