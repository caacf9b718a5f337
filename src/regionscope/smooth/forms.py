"""Affine forms: every value of a network on many cells at once, as an affine function of the cell's coordinates.

On each cell of a *cluster*, for coordinates t with |t_i| <= 1, a value is

    center + sum_i t_i * line_i + sum_s effect_s @ error_s + rest.

``error_s`` holds the unknown errors of the s-th nonlinearity, one for each unit, each bounded by a number of the cell.
``effect_s`` is the matrix by which they reach this value. All cells of a cluster share it: it is made with the mean
slopes of the cluster, and what the slopes of a cell differ from these is added to its errors. So errors of one unit
that reach another on several ways may cancel, at a cost per cell of one matrix product, as if every error were a symbol
of its own. ``rest`` is what is bounded without signs, first of all rounding.

Derivatives along the cell's directions obey the same recursion: the derivative of a value is ``line_i`` plus an error.
They are further *channels* of the bounds: channel 0 bounds values, channel i the derivative along direction i.

Rounding: the bound holds for real arithmetic and for a float64 forward pass that sums in any order, both of which
differ from the computed form by less than n u sum |terms| / (1 - n u), u = 2^-53, at each sum of n terms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from regionscope.network.curves import Curve
from regionscope.smooth.bounds import affine_bound, slope_range
from regionscope.smooth.operators import AffineStep
from regionscope.tolerance import UNIT

_FACTOR = 4  # sums that are rounded: of the center, the lines, the effects, and of a forward pass
_SLACK = 1 + 1e-9  # pays for the rounding of the bounds themselves


@dataclass(frozen=True, eq=False)
class Form:
    """Values (*shape) on the b cells of a cluster.

    lines: (1 + k, b, *shape), the center and the lines. rest: (q, b, *shape), q channels.
    effects: (n, *shape) for each source of n errors. size: (q, b, *shape), a bound of the absolute values, or None.
    """

    lines: Tensor
    rest: Tensor
    effects: dict[int, Tensor] = field(default_factory=dict)
    size: Tensor | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one row."""
        return tuple(self.lines.shape[2:])


@dataclass(eq=False)
class Cluster:
    """The errors of the cells that are bounded together.

    errors: (q, b, n) bounds of the errors of each source. most_errors: a nonlinearity with more units bounds its errors
        without signs.
    """

    most_errors: int
    errors: dict[int, Tensor] = field(default_factory=dict)

    def signed(self, form: Form) -> Tensor:
        """Bounds (q, b, *shape) of what the sources add to a value."""
        channels, rows = form.rest.shape[:2]
        flat = form.rest.new_zeros(channels * rows, form.rest[0, 0].numel())
        for source, effect in form.effects.items():
            flat.addmm_(self.errors[source].reshape(channels * rows, -1), effect.reshape(len(effect), -1).abs())
        return flat.mul_(_SLACK).reshape(form.rest.shape)

    def radius(self, form: Form) -> Tensor:
        """Bounds (q, b, *shape) of the difference between a value, or a derivative, and its affine function."""
        return self.signed(form) + form.rest

    def size(self, form: Form) -> Tensor:
        """Bounds (q, b, *shape) of the absolute values and derivatives."""
        return _size(form.lines, self.radius(form)) if form.size is None else form.size

    def affine(self, step: AffineStep, forms: Sequence[Form]) -> Form:
        """The form behind an affine step."""
        lines = _on_rows(step.linear, [form.lines for form in forms], 2)
        if step.shift is not None:
            lines[0] += step.shift
        if step.terms:
            share = _FACTOR * (step.terms + 4) * UNIT
            sizes = [share * self.size(form) for form in forms]
            rests = [form.rest + size for form, size in zip(forms, sizes, strict=True)]
        else:
            share, rests = 0.0, [form.rest for form in forms]
        rest = _on_rows(step.absolute, rests, 2)
        if step.terms:
            rest *= _SLACK
            if step.shift is not None:
                rest[0] += share * step.shift.abs()
        effects = {}
        for source in {source: None for form in forms for source in form.effects}:
            inputs = [_effect(form, source, self.errors[source].shape[2]) for form in forms]
            effects[source] = step.linear(*inputs)
        size = None
        if not step.terms and all(form.size is not None for form in forms):
            size = _on_rows(step.absolute, [form.size for form in forms if form.size is not None], 2)
        return Form(lines, rest, effects, size)

    def bend(self, curve: Curve, form: Form) -> Form:
        """The form behind a function of one number, applied entry by entry."""
        signed = self.signed(form)
        radius = signed + form.rest
        center = form.lines[0]
        reach = (form.lines[1:].abs().sum(0) + radius[0]).mul_(_SLACK).add_(center.abs(), alpha=4 * UNIT)
        low, high = center - reach, center + reach
        slope, shift, error = affine_bound(curve, low, high)
        lines = form.lines * slope
        lines[0] += shift
        errors = torch.empty_like(radius)
        size = torch.maximum(low.abs(), high.abs())
        torch.add(error, size.mul_(slope).abs_().add_(shift.abs()), alpha=8 * UNIT, out=errors[0])
        if len(radius) > 1:
            least, most = slope_range(curve, low, high)
            change = torch.maximum((most - slope).abs(), (slope - least).abs())
            errors[1:] = change * (form.lines[1:].abs() + radius[1:]) * _SLACK
        return self._with_errors(form, lines, slope, signed, errors)

    def _with_errors(self, form: Form, lines: Tensor, slope: Tensor, signed: Tensor, errors: Tensor) -> Form:
        """The form slope * form + errors, where the errors become a source if they are few enough."""
        mean = slope.mean(0)
        away = (slope - mean).abs_().add_(mean.abs(), alpha=4 * UNIT)
        errors.addcmul_(away, signed).addcmul_(slope.abs(), form.rest).mul_(_SLACK)
        effects = {source: effect * mean for source, effect in form.effects.items()}
        size = _size(lines, errors + mean.abs() * signed)
        return self._sourced(lines, errors, effects, size)

    def _sourced(self, lines: Tensor, errors: Tensor, effects: dict[int, Tensor], size: Tensor | None) -> Form:
        shape = lines.shape[2:]
        n = shape.numel()
        if n > self.most_errors:
            return Form(lines, errors, effects, size)
        source = len(self.errors)
        self.errors[source] = errors.reshape(*errors.shape[:2], n)
        effects[source] = torch.eye(n, dtype=lines.dtype, device=lines.device).reshape(n, *shape)
        return Form(lines, torch.zeros_like(errors), effects, size)

    def product(self, function: Callable[[Tensor, Tensor], Tensor], a: Form, b: Form) -> Form:
        """The form of a bilinear function of two values, with coefficients 0 and 1."""
        signed = self.signed(a), self.signed(b)
        radii = signed[0] + a.rest, signed[1] + b.rest
        (center_a, *lines_a), (center_b, *lines_b) = a.lines, b.lines
        reach_a, reach_b = (x.lines[1:].abs().sum(0) + r[0] for x, r in zip((a, b), radii, strict=True))
        center = function(center_a, center_b)
        lines = [function(x, center_b) + function(center_a, y) for x, y in zip(lines_a, lines_b, strict=True)]
        errors = [function(reach_a, reach_b)]
        for x, y in zip(lines_a, lines_b, strict=True):  # x y t^2 lies between 0 and x y
            center = center + function(x, y) / 2
            errors[0] = errors[0] - function(x.abs(), y.abs()) / 2
        for i, (x, y) in enumerate(zip(lines_a, lines_b, strict=True), start=1):
            if i < len(radii[0]):
                errors.append(function(reach_a, y.abs() + radii[1][i]) + function(x.abs() + radii[0][i], reach_b))
        total = torch.stack(errors)
        mean_a, mean_b = center_a.mean(0, keepdim=True), center_b.mean(0, keepdim=True)
        away_a, away_b = (center_a - mean_a).abs(), (center_b - mean_b).abs()
        total = total + torch.stack([
            function(signed[0][q], away_b) + function(away_a, signed[1][q])
            + function(a.rest[q], center_b.abs()) + function(center_a.abs(), b.rest[q])
            for q in range(len(total))
        ])  # fmt: skip
        share = _FACTOR * (2 * a.shape[-1] + 16) * UNIT
        size_a, size_b = self.size(a)[0] + mean_a.abs(), self.size(b)[0] + mean_b.abs()
        rounding = share * function(size_a, size_b)
        total = total * _SLACK
        total[0] += rounding
        for q in range(1, len(total)):
            slope_a, slope_b = (x.lines[q].abs() + r[q] for x, r in zip((a, b), radii, strict=True))
            total[q] += share * (function(size_a, slope_b) + function(slope_a, size_b))
        effects = {}
        for source in {source: None for form in (a, b) for source in form.effects}:
            n = self.errors[source].shape[2]
            one, other = _effect(a, source, n), _effect(b, source, n)
            effects[source] = function(one, mean_b.expand(n, *b.shape)) + function(mean_a.expand(n, *a.shape), other)
        return self._sourced(torch.stack([center, *lines]), total, effects, None)

    def larger(self, a: Form, b: Form, relu: Curve) -> Form:
        """The form of max(a, b), as b + max(a - b, 0)."""
        shape = torch.broadcast_shapes(a.shape, b.shape)
        a, b = (_broadcast(form, shape) for form in (a, b))
        return self.affine(_SUM, [b, self.bend(relu, self.affine(_DIFFERENCE, [a, b]))])


def negative(form: Form) -> Form:
    """The form of -x."""
    effects = {source: -effect for source, effect in form.effects.items()}
    return Form(-form.lines, form.rest, effects, form.size)


def _size(lines: Tensor, radius: Tensor) -> Tensor:
    size = radius.clone()
    size[0] += lines.abs().sum(0)
    if len(size) > 1:
        size[1:] += lines[1:].abs()
    return size


def _effect(form: Form, source: int, n: int) -> Tensor:
    effect = form.effects.get(source)
    return form.lines.new_zeros((1, *form.shape)).expand(n, *form.shape) if effect is None else effect


def _on_rows(function: Callable[..., Tensor], values: Sequence[Tensor], leading: int) -> Tensor:
    """A function of rows on tensors with several leading dimensions."""
    first = values[0].shape[:leading]
    out = function(*(value.reshape(-1, *value.shape[leading:]) for value in values))
    return out.reshape(*first, *out.shape[1:])


def _broadcast(form: Form, shape: torch.Size) -> Form:
    if form.shape == tuple(shape):
        return form

    def wide(x: Tensor, leading: int) -> Tensor:
        ones = (1,) * (len(shape) - (x.dim() - leading))
        return x.reshape(*x.shape[:leading], *ones, *x.shape[leading:]).expand(*x.shape[:leading], *shape)

    effects = {source: wide(effect, 1) for source, effect in form.effects.items()}
    size = None if form.size is None else wide(form.size, 2)
    return replace(form, lines=wide(form.lines, 2), rest=wide(form.rest, 2), effects=effects, size=size)


_SUM = AffineStep(torch.add, torch.add, None, 2)
_DIFFERENCE = AffineStep(torch.sub, torch.add, None, 2)
