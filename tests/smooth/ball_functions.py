"""The smooth functions and their derivatives in arithmetic on balls (python-flint), written from their definitions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from regionscope.network import curves
from regionscope.network.curves import Curve

Ball = Any
Function = Callable[[Ball], Ball]


def ball(x: float | str) -> Ball:
    """A number as a ball: of radius 0 for a float, around decimal digits for a string."""
    from flint import arb

    return arb(x)


def _pi() -> Ball:
    from flint import arb

    return arb.pi()


def _normal(x: Ball) -> Ball:
    return (1 + (x / ball(2).sqrt()).erf()) / 2


def _density(x: Ball) -> Ball:
    return (-x * x / 2).exp() / (2 * _pi()).sqrt()


def _sigmoid(x: Ball) -> Ball:
    return 1 / (1 + (-x).exp())


def _inner(x: Ball) -> Ball:
    return (2 / _pi()).sqrt() * (x + ball(44715) / 1_000_000 * x**3)


def _softplus(x: Ball) -> Ball:
    return (1 + x.exp()).log()


def _unit(alpha: Ball, scale: Ball, rate: Ball) -> tuple[Function, Function]:
    def value(x: Ball) -> Ball:
        return scale * x if x > 0 else scale * alpha * ((rate * x).exp() - 1)

    def slope(x: Ball) -> Ball:
        return scale if x > 0 else scale * alpha * rate * (rate * x).exp()

    return value, slope


def _tanh_slope(x: Ball) -> Ball:
    return 1 / x.cosh() ** 2


def twins() -> dict[Curve, tuple[Function, Function]]:
    """Value and derivative of each record."""
    scale, alpha = map(ball, ("1.0507009873554804934193349852946", "1.6732632423543772848170429916717"))
    return {
        curves.GELU: (lambda x: x * _normal(x), lambda x: _normal(x) + x * _density(x)),
        curves.GELU_TANH: (
            lambda x: x / 2 * (1 + _inner(x).tanh()),
            lambda x: (
                (1 + _inner(x).tanh()) / 2
                + x / 2 * _tanh_slope(_inner(x)) * (2 / _pi()).sqrt() * (1 + 3 * ball(44715) / 1_000_000 * x * x)
            ),
        ),
        curves.SILU: (lambda x: x * _sigmoid(x), lambda x: _sigmoid(x) + x * _sigmoid(x) * _sigmoid(-x)),
        curves.MISH: (
            lambda x: x * _softplus(x).tanh(),
            lambda x: _softplus(x).tanh() + x * _tanh_slope(_softplus(x)) * _sigmoid(x),
        ),
        curves.softplus(1.0, 20.0): (_softplus, _sigmoid),
        curves.softplus(3.0, 2.0): (lambda x: _softplus(3 * x) / 3, lambda x: _sigmoid(3 * x)),
        curves.elu(1.0): _unit(ball(1), ball(1), ball(1)),
        curves.elu(2.5): _unit(ball(2.5), ball(1), ball(1)),
        curves.celu(0.5): _unit(ball(0.5), ball(1), ball(2)),
        curves.SELU: _unit(alpha, scale, ball(1)),
        curves.SIGMOID: (_sigmoid, lambda x: _sigmoid(x) * _sigmoid(-x)),
        curves.TANH: (lambda x: x.tanh(), _tanh_slope),
        curves.SOFTSIGN: (lambda x: x / (1 + abs(x)), lambda x: 1 / (1 + abs(x)) ** 2),
        curves.HARDSWISH: (_hardswish, _hardswish_slope),
        curves.SINE: (lambda x: x.sin(), lambda x: x.cos()),
        curves.COSINE: (lambda x: x.cos(), lambda x: -x.sin()),
        curves.EXP: (lambda x: x.exp(), lambda x: x.exp()),
        curves.SQUARE: (lambda x: x * x, lambda x: 2 * x),
        curves.SQRT: (lambda x: x.sqrt(), lambda x: 1 / (2 * x.sqrt())),
        curves.RSQRT: (lambda x: 1 / x.sqrt(), lambda x: -1 / (2 * x * x.sqrt())),
        curves.RECIPROCAL: (lambda x: 1 / x, lambda x: -1 / (x * x)),
        curves.LOG: (lambda x: x.log(), lambda x: 1 / x),
        curves.ERF: (lambda x: x.erf(), lambda x: 2 / _pi().sqrt() * (-x * x).exp()),
        curves.LOGSIGMOID: (lambda x: -_softplus(-x), lambda x: _sigmoid(-x)),
        curves.TANHSHRINK: (lambda x: x - x.tanh(), lambda x: x.tanh() ** 2),
        curves.power(3): (lambda x: x**3, lambda x: 3 * x * x),
    }


def _hardswish(x: Ball) -> Ball:
    return ball(0) if x < -3 else x if x > 3 else x * (x + 3) / 6


def _hardswish_slope(x: Ball) -> Ball:
    return ball(0) if x < -3 else ball(1) if x > 3 else (2 * x + 3) / 6


def domain(curve: Curve) -> tuple[float, float]:
    """The inputs on which a record is tested."""
    if curve.above > -math.inf:
        return 1e-3, 30.0
    return (-30.0, 30.0) if curve is not curves.EXP else (-30.0, 8.0)
