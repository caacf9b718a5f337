"""The only place where an epsilon of the exact engine lives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from regionscope.checks import read_number
from regionscope.errors import InputError

FLAT = 1e-12  # of the size of a cell or slice: what is nearer lies on it, what is thinner is flat
SLIVER = 1e-14  # of the square of a cell's size: a piece of less area is none
COVER = 1e-9  # of the size of a slice: by so much the sum of its regions may be off
LOST = 1e-6  # of the size of a slice: if more is missing, something went wrong
WITHIN = 1e-9  # of the extent of a slice: so far outside a region a point may seem to lie by rounding
RANK = 1e-10  # of the largest singular value of a slice: if the smallest is below, the slice has lost a dimension
NEAR = 1e-6  # of the norm of an input in single precision: so far from a slice it still lies on it
UNIT = 2.0**-53  # largest relative error of one operation in float64
EQUAL = 16  # times the rounding of the largest output: outputs that differ by no more are equal
HIDDEN = 1e-3  # of the largest difference of two outputs: rounding may hide no more of it
LEAST = torch.finfo(torch.float64).tiny  # the zero tolerance of a unit that is zero on all probe points
TINY = 1e-300  # in place of 0 where something is divided by it
ROUNDED = 1e-9  # of a slope: smaller differences are left to the derivatives
ACCURATE = 1e-9  # relative error of a norm that needs no second look
SHORTEST = 1e-9  # of the distance: shorter windows hold all their pieces
FITS = (1e-36, 1e6)  # what counts as zero in a layer: there values and their products are neither tiny nor huge


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Thresholds below which a value counts as zero, relative to the size of the values.

    zero: a pre-activation ``u`` of a nonlinearity has no sign when ``|u| <= zero * s``, where ``s`` is the largest
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
