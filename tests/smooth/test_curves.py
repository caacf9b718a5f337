"""The record of each smooth function, and the bounds that follow from it, against arithmetic on balls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regionscope.network import curves
from regionscope.network.curves import Curve
from regionscope.smooth.bounds import affine_bound, slope_range
from regionscope.smooth.network import RELU
from regionscope.tolerance import UNIT
from smooth.ball_functions import Function, ball, domain, twins

flint = pytest.importorskip("flint")

N_POINTS = 9  # in each interval


@pytest.fixture(autouse=True)
def precision() -> Iterator[None]:
    """Balls of 160 bits."""
    before, flint.ctx.prec = flint.ctx.prec, 160
    yield
    flint.ctx.prec = before


@cache
def records() -> dict[str, tuple[Curve, Function, Function]]:
    return {f"{curve.name}-{i}": (curve, *functions) for i, (curve, functions) in enumerate(twins().items())}


NAMES = list(records())
CONVEX = ("ELU-6", "CELU-8")  # their knot only parts two convex pieces


def intervals(curve: Curve, n: int = 120) -> tuple[Tensor, Tensor]:
    """Intervals of all lengths, around knots, at the rounding level, and of a single point."""
    low, high = domain(curve)
    rng = np.random.default_rng(7)
    center = rng.uniform(low, high, n)
    if curve.knots and not curve.period:
        center[: n // 2] = rng.choice(curve.knots, n // 2) + rng.normal(size=n // 2) * 10.0 ** rng.uniform(
            -9, 0, n // 2
        )
    half = 10.0 ** rng.uniform(-15, 1, n)
    half[:5] = 0.0
    start, stop = np.clip(center - half, low, high), np.clip(center + half, low, high)
    return torch.from_numpy(start), torch.from_numpy(stop)


def violations(
    curve: Curve, value: Function, slope: Function, *, n: int = 120, range_of: Callable[..., Any] = slope_range
) -> int:
    """Number of points at which a bound of the record contradicts the ball of the value or of the derivative."""
    low, high = intervals(curve, n)
    bound, (least, most) = affine_bound(curve, low, high), range_of(curve, low, high)
    wrong = 0
    for i in range(n):
        for x in np.unique(np.linspace(float(low[i]), float(high[i]), N_POINTS)):
            point = ball(float(x))
            inner = ball(float(bound.slope[i])) * point + ball(float(bound.shift[i]))
            wrong += abs(value(point) - inner) > ball(float(bound.error[i]))
            computed = ball(float(curve.value(torch.tensor(x, dtype=torch.float64))))
            wrong += abs(computed - inner) > ball(float(bound.error[i]))
            true = slope(point)
            wrong += true < ball(float(least[i])) or true > ball(float(most[i]))
    return wrong


@pytest.mark.parametrize("name", NAMES)
def test_bounds_hold(name: str) -> None:
    assert violations(*records()[name]) == 0


@pytest.mark.parametrize("name", NAMES)
def test_torch_is_within_the_stated_rounding(name: str) -> None:
    curve, value, slope = records()[name]
    low, high = domain(curve)
    x = torch.from_numpy(np.random.default_rng(1).uniform(low, high, 2000)).requires_grad_()
    if curve.jump[1]:
        x = x.detach().clamp(max=curve.jump[0]).requires_grad_()
    constant, of_input, of_value = curve.rounding
    outputs = curve.value(x)
    (derivatives,) = torch.autograd.grad(outputs.sum(), x)
    for point, output, derivative in zip(x.tolist(), outputs.tolist(), derivatives.tolist(), strict=True):
        exact = value(ball(point))
        allowed = UNIT * (constant + of_input * abs(point) + of_value * abs(exact))
        assert abs(ball(output) - exact) <= allowed
        assert abs(ball(derivative) - slope(ball(point))) < 1e-9 * (1 + abs(derivative))
    torch.testing.assert_close(curve.slope(x.detach()), derivatives, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_bound_is_at_most_a_third_wider_than_the_best_one_on_short_intervals(name: str) -> None:
    curve = records()[name][0]
    low, high = domain(curve)
    center = torch.linspace(low + 0.1, high - 0.1, 501, dtype=torch.float64)
    away = [abs(center - knot) > 0.05 for knot in curve.knots] if not curve.period else []
    for mask in away:
        center = center[mask[: len(center)]] if len(mask) == len(center) else center
    half = 1e-2 * center.abs().clamp(max=1.0)
    bound = affine_bound(curve, center - half, center + half)
    x = center + half * torch.linspace(-1, 1, 201, dtype=torch.float64)[:, None]
    away_from_chord = curve.value(x) - bound.slope * x
    best = (away_from_chord.amax(0) - away_from_chord.amin(0)) / 2
    visible = best > 1e-10
    assert bool((bound.error[visible] < 1.34 * best[visible] + 1e-13).all())


def _scaled_slope(x: Tensor, slope: object, factor: float) -> Tensor:
    return factor * slope(x)


@pytest.mark.parametrize("factor", [0.97, 1.03])
@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_derivative_is_caught(name: str, factor: float) -> None:
    curve, value, slope = records()[name]
    wrong = replace(curve, slope=partial(_scaled_slope, slope=curve.slope, factor=factor))
    assert violations(wrong, value, slope) > 0


def _raised(curve: Curve, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    least, most = slope_range(curve, low, high)
    return least + 0.03 * (most - least), most


def _lowered(curve: Curve, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    least, most = slope_range(curve, low, high)
    return least, most - 0.03 * (most - least)


@pytest.mark.parametrize("mutation", [_raised, _lowered])
@pytest.mark.parametrize("name", NAMES)
def test_a_narrower_range_of_the_derivative_is_caught(name: str, mutation: Callable[..., Any]) -> None:
    assert violations(*records()[name], n=40) == 0
    assert violations(*records()[name], n=40, range_of=mutation) > 0


@pytest.mark.parametrize("name", [name for name in NAMES if records()[name][0].knots and name not in CONVEX])
def test_a_missing_knot_is_caught(name: str) -> None:
    curve, value, slope = records()[name]
    assert violations(replace(curve, knots=(), period=0.0), value, slope, n=600) > 0


def test_where_a_function_is_not_defined_nothing_is_known() -> None:
    low, high = torch.tensor([-1.0, 0.0, 1.0]).double(), torch.tensor([1.0, 1.0, 2.0]).double()
    bound = affine_bound(curves.RECIPROCAL, low, high)
    assert bound.error.tolist()[:2] == [torch.inf, torch.inf]
    assert bound.error[2] < 0.2
    assert slope_range(curves.LOG, low, high)[0].tolist()[:2] == [-torch.inf, -torch.inf]


def test_a_least_input_cuts_the_interval() -> None:
    from_one = curves.at_least(curves.RECIPROCAL, 1.0)
    bound = affine_bound(from_one, torch.tensor([-1.0]).double(), torch.tensor([2.0]).double())
    assert float(bound.error) < 0.2


def test_a_fold_is_bounded_exactly() -> None:
    bound = affine_bound(RELU, torch.tensor([-1.0]).double(), torch.tensor([1.0]).double())
    assert float(bound.slope) == 0.5
    assert float(bound.shift) == pytest.approx(0.25)
    assert float(bound.error) == pytest.approx(0.25)
