"""Smooth functions of one number. Each is one record, from which its bounds follow; see ``Curve``.

To add one, write its value and its derivative, give the places where it bends the other way, and name the record in
``rules/curves.py``. ``tests/smooth/test_curves.py`` compares every record with arithmetic on balls.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor

Function = Callable[[Tensor], Tensor]

_SQRT_HALF = math.sqrt(0.5)
_DENSITY = 1 / math.sqrt(2 * math.pi)  # of the normal distribution at 0
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A function of one number that is convex or concave between neighbouring ``knots``.

    value: the function as torch computes it. slope: its derivative.
    knots: ascending; where it turns from convex to concave or back, and where its derivative jumps.
    period: distance of the knots, if they repeat forever from ``knots[0]`` on; 0 if they do not.
    above: the function is defined above this number only. least: no input lies below it, whatever the network does.
    rounding: (a, b, c): ``value`` computes f(x) with an error of at most a + b |x| + c |f(x)| units of rounding
        (2^-53).
    jump: a threshold behind which torch returns another function, and the most by which the two differ.

    Example: ReLU has the knot 0, GELU the knots -sqrt(2) and sqrt(2).
    """

    name: str
    value: Function
    slope: Function
    knots: tuple[float, ...] = ()
    period: float = 0.0
    above: float = -math.inf
    least: float = -math.inf
    rounding: tuple[float, float, float] = (0.0, 0.0, 8.0)
    jump: tuple[float, float] = (math.inf, 0.0)

    def __call__(self, x: Tensor) -> Tensor:
        return self.value(x)


@dataclass(frozen=True)
class Product:
    """A bilinear function of two values, both of which depend on the input; its coefficients are 0 and 1."""

    function: Callable[[Tensor, Tensor], Tensor]

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        return self.function(a, b)


def _gelu_slope(x: Tensor) -> Tensor:
    return 0.5 * torch.erfc(x * -_SQRT_HALF) + x * torch.exp(-0.5 * x * x) * _DENSITY


def _gelu_tanh_slope(x: Tensor) -> Tensor:
    scale = math.sqrt(2 / math.pi)
    inner = scale * (x + 0.044715 * x**3)
    return torch.sigmoid(2 * inner) + 0.5 * x * _tanh_slope(inner) * scale * (1 + 3 * 0.044715 * x * x)


def _silu_slope(x: Tensor) -> Tensor:
    s = torch.sigmoid(x)
    return s + x * s * torch.sigmoid(-x)


def _mish_slope(x: Tensor) -> Tensor:
    height = _softplus(x)
    return torch.tanh(height) + x * _tanh_slope(height) * torch.sigmoid(x)


def _softplus(x: Tensor) -> Tensor:
    return x.clamp(min=0) + torch.log1p(torch.exp(-x.abs()))


def _exponential_unit_slope(x: Tensor, alpha: float, scale: float, rate: float) -> Tensor:
    below = scale * alpha * rate * torch.exp(x.clamp(max=0) * rate)
    return torch.where(x > 0, torch.full_like(x, scale), below)


def _sigmoid_slope(x: Tensor) -> Tensor:
    return torch.sigmoid(x) * torch.sigmoid(-x)


def _tanh_slope(x: Tensor) -> Tensor:
    return 1 / torch.cosh(x.clamp(-300, 300)).square()


def _softsign_slope(x: Tensor) -> Tensor:
    return 1 / (1 + x.abs()).square()


def _hardswish_slope(x: Tensor) -> Tensor:
    middle = (2 * x + 3) / 6
    return torch.where(x < -3, torch.zeros_like(x), torch.where(x > 3, torch.ones_like(x), middle))


def _hardswish(x: Tensor) -> Tensor:
    return x * (x + 3).clamp(0, 6) / 6


def _scaled_sigmoid_slope(x: Tensor, rate: float) -> Tensor:
    return torch.sigmoid(rate * x)


def _minus_sine(x: Tensor) -> Tensor:
    return -torch.sin(x)


def _double(x: Tensor) -> Tensor:
    return 2 * x


def _minus_inverse_square(x: Tensor) -> Tensor:
    return -1 / (x * x)


def _rsqrt_slope(x: Tensor) -> Tensor:
    return -0.5 * torch.rsqrt(x) / x


def _sqrt_slope(x: Tensor) -> Tensor:
    return 0.5 * torch.rsqrt(x)


def _erf_slope(x: Tensor) -> Tensor:
    return 2 / math.sqrt(math.pi) * torch.exp(-x * x)


def _logsigmoid_slope(x: Tensor) -> Tensor:
    return torch.sigmoid(-x)


def _tanhshrink_slope(x: Tensor) -> Tensor:
    return torch.tanh(x).square()


def _power(x: Tensor, exponent: int) -> Tensor:
    return x**exponent


def _power_slope(x: Tensor, exponent: int) -> Tensor:
    return exponent * x ** (exponent - 1)


def _around(knot: float) -> tuple[float, float]:
    return -knot, knot


GELU = Curve(name="GELU", value=F.gelu, slope=_gelu_slope, knots=_around(math.sqrt(2)), rounding=(0.0, 16.0, 0.0))
GELU_TANH = Curve(
    name="GELU(approximate='tanh')",
    value=partial(F.gelu, approximate="tanh"),
    slope=_gelu_tanh_slope,
    knots=_around(1.4185040087908283555),
    rounding=(0.0, 32.0, 0.0),
)
SILU = Curve(
    name="SiLU", value=F.silu, slope=_silu_slope, knots=_around(2.3993572805154676678), rounding=(0.0, 0.0, 16.0)
)
MISH = Curve(
    name="Mish",
    value=F.mish,
    slope=_mish_slope,
    knots=(-2.25637639636079312, 1.4905711794854284593),
    rounding=(0.0, 16.0, 0.0),
)
SIGMOID = Curve(name="Sigmoid", value=torch.sigmoid, slope=_sigmoid_slope, knots=(0.0,))
TANH = Curve(name="Tanh", value=torch.tanh, slope=_tanh_slope, knots=(0.0,))
SOFTSIGN = Curve(name="Softsign", value=F.softsign, slope=_softsign_slope, knots=(0.0,))
HARDSWISH = Curve(
    name="Hardswish", value=_hardswish, slope=_hardswish_slope, knots=_around(3.0), rounding=(0.0, 0.0, 8.0)
)
SINE = Curve(name="sin", value=torch.sin, slope=torch.cos, knots=(0.0,), period=math.pi, rounding=(4.0, 0.0, 0.0))
COSINE = Curve(
    name="cos", value=torch.cos, slope=_minus_sine, knots=(math.pi / 2,), period=math.pi, rounding=(4.0, 0.0, 0.0)
)
EXP = Curve(name="exp", value=torch.exp, slope=torch.exp)
SQUARE = Curve(name="square", value=torch.square, slope=_double)
SQRT = Curve(name="sqrt", value=torch.sqrt, slope=_sqrt_slope, above=0.0)
RSQRT = Curve(name="rsqrt", value=torch.rsqrt, slope=_rsqrt_slope, above=0.0)
RECIPROCAL = Curve(name="reciprocal", value=torch.reciprocal, slope=_minus_inverse_square, above=0.0)
LOG = Curve(name="log", value=torch.log, slope=torch.reciprocal, above=0.0, rounding=(2.0, 0.0, 8.0))
ERF = Curve(name="erf", value=torch.erf, slope=_erf_slope, knots=(0.0,))
LOGSIGMOID = Curve(name="LogSigmoid", value=F.logsigmoid, slope=_logsigmoid_slope, rounding=(4.0, 0.0, 16.0))
TANHSHRINK = Curve(
    name="Tanhshrink", value=F.tanhshrink, slope=_tanhshrink_slope, knots=(0.0,), rounding=(8.0, 4.0, 0.0)
)


@cache
def softplus(beta: float, threshold: float) -> Curve:
    """log(1 + exp(beta x)) / beta; torch returns x where beta x > threshold."""
    return Curve(
        name="Softplus",
        value=partial(F.softplus, beta=beta, threshold=threshold),
        slope=partial(_scaled_sigmoid_slope, rate=beta),
        rounding=(8.0 / beta, 4.0, 8.0),
        jump=(threshold / beta, math.exp(-threshold) / beta),
    )


@cache
def exponential_unit(name: str, alpha: float, scale: float, rate: float, function: Function) -> Curve:
    """scale * x above 0, scale * alpha * (exp(rate * x) - 1) below."""
    slope = partial(_exponential_unit_slope, alpha=alpha, scale=scale, rate=rate)
    return Curve(name=name, value=function, slope=slope, knots=(0.0,), rounding=(0.0, 8.0 * scale, 16.0))


@cache
def elu(alpha: float) -> Curve:
    """ELU: x above 0, alpha (exp(x) - 1) below."""
    return exponential_unit("ELU", alpha, 1.0, 1.0, partial(F.elu, alpha=alpha))


@cache
def celu(alpha: float) -> Curve:
    """CELU: x above 0, alpha (exp(x / alpha) - 1) below."""
    return exponential_unit("CELU", alpha, 1.0, 1 / alpha, partial(F.celu, alpha=alpha))


@cache
def at_least(curve: Curve, least: float) -> Curve:
    """The same function of values that never lie below ``least``."""
    return replace(curve, least=least)


@cache
def power(exponent: int) -> Curve:
    """x ** exponent for an integer of at least 2."""
    knots = (0.0,) if exponent % 2 else ()
    value, slope = (partial(function, exponent=exponent) for function in (_power, _power_slope))
    return Curve(name=f"x**{exponent}", value=value, slope=slope, knots=knots, rounding=(0.0, 0.0, 4.0 * exponent))


SELU = exponential_unit("SELU", _SELU_ALPHA, _SELU_SCALE, 1.0, F.selu)
