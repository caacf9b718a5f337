"""What follows from the record of a smooth function: an affine bound and the range of its derivative on an interval.

Between two knots a function is convex or concave. Take g(x) = f(x) - slope * x there:

    convex:  g lies below the larger of its values at the ends, and above any tangent;
    concave: g lies above the smaller of its values at the ends, and below any tangent.

A tangent of a convex g stays below the larger end value, so both cases have the same formula: g lies between the
smallest and the largest of its end values and the two end values of its tangent at the middle. With the slope of the
chord, the bound is at most a term of third order wider than the best one.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regionscope.network.curves import Curve
from regionscope.tolerance import UNIT

_CHORD = 1e-6  # of the size of its ends: the slope of the chord of a shorter interval is lost in rounding
_PERIODS = 2  # an interval of this many distances between knots holds the whole range of a periodic function


class AffineBound(NamedTuple):
    """slope * x + shift - error <= f(x) <= slope * x + shift + error, entry by entry; error is inf if unknown."""

    slope: Tensor
    shift: Tensor
    error: Tensor


def affine_bound(curve: Curve, low: Tensor, high: Tensor) -> AffineBound:
    """A bound of the function on [low, high], also of the value that torch computes there.

    Cost: the function at both ends and the middle, its derivative at the middle; more where knots lie inside.
    """
    low, high, known = _domain(curve, low, high)
    at_low, at_high = curve.value(low), curve.value(high)
    middle = (low + high).mul_(0.5)
    width = high - low
    size = torch.maximum(low.abs(), high.abs())
    slope_there = curve.slope(middle)
    slope = torch.where(width > _CHORD * size, (at_high - at_low).div_(width), slope_there)
    tangent = torch.addcmul(curve.value(middle), slope, middle, value=-1)
    reach = (slope_there - slope).abs_().mul_(width).mul_(0.5)
    least, most = _ends(
        torch.addcmul(at_low, slope, low, value=-1), torch.addcmul(at_high, slope, high, value=-1), tangent, reach
    )
    bent = _bent(curve, low, high)
    if bent is not None:
        inside = bent.flatten().nonzero()[:, 0]
        if len(inside):
            lower, upper = _over_pieces(curve, *(x.reshape(-1)[inside] for x in (low, high, slope)))
            least.view(-1)[inside], most.view(-1)[inside] = lower, upper
    error = _rounding(curve, size, torch.maximum(least.abs(), most.abs()), slope_there, slope, width)
    error.add_(most - least, alpha=0.5)
    if curve.jump[1]:
        error = error + torch.where(high > curve.jump[0] - _margin(curve), 1.01 * curve.jump[1], 0.0)
    shift = (most + least).mul_(0.5)
    unknown = ~torch.isfinite(error) if known is None else ~(known & torch.isfinite(error))
    if bool(unknown.any()):
        slope, shift = slope.masked_fill(unknown, 0.0), shift.masked_fill(unknown, 0.0)
        error = error.masked_fill(unknown, torch.inf)
    return AffineBound(slope, shift, error)


def slope_range(curve: Curve, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Bounds of the derivative on [low, high]; at a knot, of the derivatives on both sides. inf where unknown, and
    where torch's function jumps.

    Between two knots the derivative is monotone, so its extremes are at the ends and at the knots inside.
    """
    low, high, known = _domain(curve, low, high)
    slopes = [curve.slope(low), curve.slope(high)]
    least, most = torch.minimum(*slopes), torch.maximum(*slopes)
    for knot in _knots(curve, low):
        inside = (low <= knot) & (knot <= high)
        for side in (-torch.inf, torch.inf):
            slope = curve.slope(torch.nextafter(knot, torch.full_like(knot, side))).expand_as(low)
            least = torch.where(inside, torch.minimum(least, slope), least)
            most = torch.where(inside, torch.maximum(most, slope), most)
    if curve.period:
        all_of_it = high - low >= _PERIODS * curve.period
        least, most = torch.where(all_of_it, -1.0, least), torch.where(all_of_it, 1.0, most)
    if curve.jump[1]:  # torch goes on with slope 1
        threshold, margin = curve.jump[0], _margin(curve)
        most = torch.where(high > threshold - margin, most.clamp(min=1.0), most)
        jumps = (low < threshold + margin) & (high > threshold - margin)
        least, most = least.masked_fill(jumps, -torch.inf), most.masked_fill(jumps, torch.inf)
    slack = 64 * UNIT * (1 + torch.maximum(least.abs(), most.abs()))
    finite = torch.isfinite(least) & torch.isfinite(most)
    known = finite if known is None else known & finite
    return torch.where(known, least - slack, -torch.inf), torch.where(known, most + slack, torch.inf)


def _margin(curve: Curve) -> float:
    """How near to the jump rounding may decide."""
    return 1e-9 * (1 + abs(curve.jump[0]))


def _domain(curve: Curve, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """The interval without what no input reaches, and where the function is defined on all of it (None: everywhere)."""
    if max(curve.above, curve.least) == -torch.inf:
        return low, high, None
    low, high = low.clamp(min=curve.least), high.clamp(min=curve.least)
    known = torch.isfinite(low) & torch.isfinite(high) & (low > curve.above)
    safe = max(curve.above, curve.least, 0.0) + 1
    return torch.where(known, low, safe), torch.where(known, high, safe), known


def _knots(curve: Curve, low: Tensor) -> list[Tensor]:
    """Every knot that may lie above ``low``, or those that follow it if they repeat."""
    if not curve.period:
        return [low.new_tensor(knot) for knot in curve.knots]
    first = torch.ceil((low - curve.knots[0]) / curve.period - 1e-9)
    return [curve.knots[0] + (first + i) * curve.period for i in range(_PERIODS + 1)]


def _bent(curve: Curve, low: Tensor, high: Tensor) -> Tensor | None:
    """Where a knot lies inside the interval."""
    bent = None
    for knot in _knots(curve, low)[: 1 if curve.period else None]:
        inside = (low < knot) & (knot < high)
        bent = inside if bent is None else bent | inside
    return bent


def _ends(start: Tensor, stop: Tensor, tangent: Tensor, reach: Tensor) -> tuple[Tensor, Tensor]:
    least = torch.minimum(torch.minimum(start, stop), tangent - reach)
    return least, torch.maximum(torch.maximum(start, stop), tangent + reach)


def _over_pieces(curve: Curve, low: Tensor, high: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    """The smallest and the largest value of g, piece by piece between the knots."""
    start, at_start = low, curve.value(low) - slope * low
    least, most = at_start, at_start
    for knot in (*_knots(curve, low), high):
        stop = torch.minimum(torch.maximum(knot, low), high)
        at_stop = curve.value(stop) - slope * stop
        middle = (start + stop) / 2
        reach = (curve.slope(middle) - slope).abs() * ((stop - start) / 2)
        lower, upper = _ends(at_start, at_stop, curve.value(middle) - slope * middle, reach)
        least, most = torch.minimum(least, lower), torch.maximum(most, upper)
        start, at_start = stop, at_stop
    if curve.period:
        whole = high - low >= _PERIODS * curve.period
        size = slope.abs() * torch.maximum(low.abs(), high.abs())
        least, most = torch.where(whole, -1 - size, least), torch.where(whole, 1 + size, most)
    return least, most


def _rounding(curve: Curve, size: Tensor, height: Tensor, slope_there: Tensor, slope: Tensor, width: Tensor) -> Tensor:
    """For the function as torch computes it, here and in a forward pass, and for the arithmetic of the bound.

    height: the largest absolute value of g at the ends and of its tangent.
    """
    constant, of_input, of_value = curve.rounding
    steep = slope.abs()
    total = (slope_there.abs() + steep).add_(1).mul_(width).mul_(64)
    total.addcmul_(size, steep.mul_(2 * of_value + 16).add_(2 * of_input))
    return total.add_(height, alpha=2 * of_value + 16).add_(2 * constant).mul_(UNIT)
