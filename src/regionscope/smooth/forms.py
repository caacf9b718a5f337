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

Outputs are bounded a second time, backwards: ``passed`` is a tensor of zeros that autograd follows through the same
recursion with the slopes of each cell, so that the gradient of an output with respect to the ``passed`` of an operation
is the factor by which the error of that operation reaches the output. That costs a forward and a backward pass of one
row for each cell and each pair of labels, and no slope is replaced by a mean.

Rounding: the bound holds for real arithmetic and for a float64 forward pass that sums in any order, both of which
differ from the computed form by less than n u sum |terms| / (1 - n u), u = 2^-53, at each sum of n terms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from regionscope.network.curves import Curve
from regionscope.smooth.bounds import affine_bound, slope_range
from regionscope.smooth.operators import AffineStep
from regionscope.tolerance import UNIT

_FACTOR = 4  # sums that are rounded: of the center, the lines, the effects, and of a forward pass
_READS = 64  # operations that read a value at most; so many factors are summed on the way back
_SLACK = 1 + 1e-9  # pays for the rounding of the bounds themselves


@dataclass(frozen=True, eq=False)
class Form:
    """Values (*shape) on the b cells of a cluster.

    lines: (1 + k, b, *shape), the center and the lines. rest: (q, b, *shape), q channels.
    passed: (b, *shape), zeros whose gradient leads back to the errors of all operations before, or None if there are
        none.
    effects: (n, *shape) for each source of n errors. size: (q, b, *shape), a bound of the absolute values, or None.
    has_rest: whether ``rest`` is more than zeros.
    """

    lines: Tensor
    rest: Tensor
    passed: Tensor | None = None
    effects: dict[int, Tensor] = field(default_factory=dict)
    size: Tensor | None = None
    has_rest: bool = True

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
    operations: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def start(self, lines: Tensor, rest: Tensor) -> Form:
        """The form of the inputs."""
        return Form(lines, rest, self._passed(torch.zeros_like(lines[0], requires_grad=True), rest))

    def _passed(self, zeros: Tensor, errors: Tensor) -> Tensor:
        """Note the errors (q, b, *shape) of one operation, by which its result differs from its affine part."""
        self.operations.append((zeros, errors))
        return zeros

    def back(self, out: Form, plus: Tensor, minus: Tensor) -> Tensor:
        """Bounds (q, b) of the errors of outputs ``plus`` minus outputs ``minus`` (b,), from the outputs backwards."""
        assert out.passed is not None
        rows = torch.arange(len(plus), device=plus.device)
        with torch.enable_grad():
            difference = (out.passed[rows, plus] - out.passed[rows, minus]).sum()
        zeros = [zeros for zeros, _ in self.operations]
        factors = torch.autograd.grad(difference, zeros, retain_graph=True, allow_unused=True)
        total = out.rest.new_zeros(out.rest.shape[:2])
        for factor, (_, errors) in zip(factors, self.operations, strict=True):
            if factor is not None:
                total += (factor.abs() * errors).reshape(*total.shape, -1).sum(2)
        return total * _SLACK

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
        size = _on_rows(step.absolute, [self.size(form) for form in forms], 2)
        keeps = not step.terms and all(form.size is not None for form in forms)
        result_size = size if keeps else None
        if step.shift is not None:
            lines[0] += step.shift
            size[0] += step.shift.abs()
        share = _FACTOR * (step.terms + 4) * UNIT * bool(step.terms)
        rest = size * share
        if any(form.has_rest for form in forms):
            rest += _on_rows(step.absolute, [form.rest for form in forms], 2)
        effects = {}
        for source in {source: None for form in forms for source in form.effects}:
            inputs = [_effect(form, source, self.errors[source].shape[2]) for form in forms]
            effects[source] = step.linear(*inputs)
        with torch.enable_grad():
            zeros = [torch.zeros_like(form.lines[0]) if form.passed is None else form.passed for form in forms]
            passed = step.linear(*zeros)
        back = share + (lines[0, 0].numel() + _READS) * UNIT
        return Form(lines, rest * _SLACK, self._passed(passed, size * (back * _SLACK)), effects, result_size)

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
        torch.add(error, size.mul_(slope).abs_().add_(shift.abs()), alpha=_READS * UNIT, out=errors[0])
        if len(radius) > 1:
            least, most = slope_range(curve, low, high)
            change = torch.maximum((most - slope).abs(), (slope - least).abs())
            errors[1:] = change * (form.lines[1:].abs() + radius[1:]) * _SLACK
        return self._with_errors(form, lines, slope, signed, errors)

    def _with_errors(self, form: Form, lines: Tensor, slope: Tensor, signed: Tensor, errors: Tensor) -> Form:
        """The form slope * form + errors, where the errors become a source if they are few enough."""
        assert form.passed is not None
        with torch.enable_grad():
            passed = self._passed(form.passed * slope, errors * _SLACK)
        mean = slope.mean(0)
        away = (slope - mean).abs_().add_(mean.abs(), alpha=4 * UNIT)
        errors.addcmul_(away, signed).addcmul_(slope.abs(), form.rest).mul_(_SLACK)
        effects = {source: effect * mean for source, effect in form.effects.items()}
        size = _size(lines, errors + mean.abs() * signed)
        return self._sourced(lines, errors, passed, effects, size)

    def _sourced(
        self, lines: Tensor, errors: Tensor, passed: Tensor, effects: dict[int, Tensor], size: Tensor | None
    ) -> Form:
        shape = lines.shape[2:]
        n = shape.numel()
        if n > self.most_errors:
            return Form(lines, errors, passed, effects, size)
        source = len(self.errors)
        self.errors[source] = errors.reshape(*errors.shape[:2], n)
        effects[source] = torch.eye(n, dtype=lines.dtype, device=lines.device).reshape(n, *shape)
        return Form(lines, torch.zeros_like(errors), passed, effects, size, has_rest=False)

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
        own = torch.stack(errors)
        mean_a, mean_b = center_a.mean(0, keepdim=True), center_b.mean(0, keepdim=True)
        share = _FACTOR * (2 * a.shape[-1] + 16) * UNIT + (center[0].numel() + _READS) * UNIT
        size_a, size_b = self.size(a)[0] + mean_a.abs(), self.size(b)[0] + mean_b.abs()
        own[0] += share * function(size_a, size_b)
        for q in range(1, len(own)):
            slope_a, slope_b = (x.lines[q].abs() + r[q] for x, r in zip((a, b), radii, strict=True))
            own[q] += share * (function(size_a, slope_b) + function(slope_a, size_b))
        own *= _SLACK
        away_a, away_b = (center_a - mean_a).abs(), (center_b - mean_b).abs()
        total = own + _SLACK * torch.stack([
            function(signed[0][q], away_b) + function(away_a, signed[1][q])
            + function(a.rest[q], center_b.abs()) + function(center_a.abs(), b.rest[q])
            for q in range(len(own))
        ])  # fmt: skip
        assert a.passed is not None
        assert b.passed is not None
        with torch.enable_grad():
            passed = self._passed(function(a.passed, center_b) + function(center_a, b.passed), own)
        effects = {}
        for source in {source: None for form in (a, b) for source in form.effects}:
            n = self.errors[source].shape[2]
            one, other = _effect(a, source, n), _effect(b, source, n)
            effects[source] = function(one, mean_b.expand(n, *b.shape)) + function(mean_a.expand(n, *a.shape), other)
        return self._sourced(torch.stack([center, *lines]), total, passed, effects, None)

    def larger(self, a: Form, b: Form, relu: Curve) -> Form:
        """The form of max(a, b), as b + max(a - b, 0)."""
        shape = torch.broadcast_shapes(a.shape, b.shape)
        a, b = (form if form.shape == shape else self.affine(_wide(form.shape, shape), [form]) for form in (a, b))
        return self.affine(_SUM, [b, self.bend(relu, self.affine(_DIFFERENCE, [a, b]))])


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


def _wide(shape: tuple[int, ...], wanted: torch.Size) -> AffineStep:
    expand = partial(_expanded, ones=(1,) * (len(wanted) - len(shape)) + shape, wanted=wanted)
    return AffineStep(expand, expand, None, 0)


def _expanded(x: Tensor, *, ones: tuple[int, ...], wanted: torch.Size) -> Tensor:
    return x.reshape(-1, *ones).expand(-1, *wanted)


_SUM = AffineStep(torch.add, torch.add, None, 2)
_DIFFERENCE = AffineStep(torch.sub, torch.add, None, 2)
NEGATIVE = AffineStep(torch.neg, torch.clone, None, 0)
