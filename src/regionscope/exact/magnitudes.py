"""How large the values of a network are on the probe points of slices, and how large the terms that it adds up.

A sum of terms that cancel is smaller than its rounding error, which follows the size of the terms. That size is
estimated by perturbing the values a little: the sum moves in proportion to its terms, whether they cancel or not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache, reduce

import numpy as np
import torch
from torch import Tensor

from regionscope.geometry import arrays as xp
from regionscope.network import Compared, Fold, Maxima, Program, Thresholds, Values
from regionscope.tolerance import SMALLEST_TOLERANCE

_OUT_OF_REACH = 16.0  # a value reaches no fold that is farther from it than this number of times its variation
_HUGE = 2.0**8  # times the inputs or an earlier layer: some values of a layer as large as that may be out of reach
_FEWEST_POINTS = 8  # fewest probe points that show how much a value varies
_TERMS = 2.0**-5  # share of the size of its terms that a value has at least; times tolerance.zero, 64 units of rounding
_AT_FOLD = 2.0**-4  # share of this that a unit adds at its fold even where it is off: 4 units of rounding
_FEW_BYTES = 1 << 17  # of the live values of a row
_FIRST = 1 << 14  # random numbers that are enough for a small network
_PERIOD = 1_000_003  # after which those of a larger one repeat; a prime, unlike the distances of values in one sum


@dataclass
class LineProbes:
    """What ``zero_tolerances_of`` has computed for one line, and what need not be computed again.

    n_straight: number of folds, the first ones, that do not meet the line.
    corner_values: the values behind them at the ends of the line.
    outputs: blocks (p, c) of the outputs at the probe points, if these ran through a fold.
    """

    n_straight: int = 0
    corner_values: Values = field(default_factory=dict)
    outputs: list[Tensor] = field(default_factory=list)


@dataclass(frozen=True)
class _Versions:
    """How the rows of a value are divided into three versions, each with one slice after another.

    plain: the values at the ``n_points`` probe points of each slice. moved: at the first ``n_perturbed`` of them, with
    a perturbation just before the layer. drifted: at the same points, with a perturbation before every layer so far.
    straight: whether the points are the corners alone, between which all values are affine so far.
    few: whether a row holds few numbers. NumPy is faster on these, and torch uses all threads on many.
    """

    n_slices: int
    n_points: int
    n_perturbed: int
    few: bool
    straight: bool = False

    def array(self, x: Tensor) -> Tensor:
        """The tensor, as a NumPy array if these are faster."""
        return xp.numpy_on_cpu(x) if self.few else x

    def plain(self, rows: Tensor) -> Tensor:
        """(s, n_points, n) of the flattened rows."""
        return rows[: self.n_slices * self.n_points].reshape(self.n_slices, self.n_points, rows.shape[1])

    def perturbed(self, rows: Tensor) -> Tensor:
        """(2, s, n_perturbed, n): the moved and the drifted values."""
        return rows[self.n_slices * self.n_points :].reshape(2, self.n_slices, self.n_perturbed, rows.shape[1])

    def starts(self, rows: Tensor) -> Tensor:
        """(2, s, n_perturbed, n): the values that are perturbed next, the plain ones to moved ones and the drifted ones
        to drifted ones.
        """
        return xp.cat([self.plain(rows)[None, :, : self.n_perturbed], self.perturbed(rows)[1:]])


@dataclass(frozen=True)
class _Sizes:
    """How large the values before a fold are.

    layer: (s,) largest value; units: (s, units) of each of its units, or (s,) where units are compared with each other.
    in_reach: see ``_in_reach``; None for all values.
    """

    layer: Tensor
    units: Tensor
    in_reach: Tensor | None


@np.errstate(all="ignore")
def magnitudes(
    program: Program, corners: Tensor, weights: Tensor, n_perturbed: int, zero: float, probes: LineProbes | None
) -> tuple[list[tuple[Tensor, Tensor]], bool]:
    """The largest value of a layer on the probe points of each slice (s,), and that of its units (s, units), or (s,)
    where units are compared with each other; at each fold, and of the outputs. At least a share of the terms
    that are added up. corners: inputs (s * m, *input_shape); weights: (p, m) of the probe points. zero: of the
    ``Tolerance``.

    The size of these terms is estimated at the first ``n_perturbed`` points, by perturbing all values up or down at
    random, by a relative ``size`` (see ``_Perturbations``): a sum changes by that share of its terms, whether they
    cancel or not. For the layer only the values just before it are perturbed. For a unit those of all layers are, so
    that it is not mistaken for more than rounding. A unit that is off adds its rounding at the fold all the same.

    Up to the first fold that meets a slice, the values are affine and the largest ones are at the corners:
    only the corners run, and the values at the other points are combined from theirs.
    """
    perturbations, m, n_straight, ran = _Perturbations(program), weights.shape[1], len(program.folds), False
    versions = _Versions(len(corners) // m, m, m, program.row_bytes <= _FEW_BYTES, straight=True)
    live = corner_values = _values_at_corners(program, corners, perturbations)
    results, usual = [], xp.largest(abs(versions.array(corners).reshape(versions.n_slices, -1)), 1)
    for i, fold in enumerate(program.folds):
        compared = fold.compared(live)
        distance = _distance(compared, versions) if versions.straight and isinstance(compared, Thresholds) else None
        is_folded = versions.straight and (
            fold.chosen is not None or (distance is not None and bool((distance < 0).any()))
        )
        if not is_folded:
            sizes = _sizes(fold, compared, versions, usual, perturbations.size)
            is_folded = versions.straight and _is_doubtful(compared, versions, distance, sizes, zero)
        if is_folded:
            n_straight, corner_values = i, live
            live = _at_all_points(live, versions, weights, n_perturbed)
            versions = _Versions(versions.n_slices, len(weights), n_perturbed, versions.few)
            compared = fold.compared(live)
            sizes = _sizes(fold, compared, versions, usual, perturbations.size)
        usual = xp.minimum(usual, sizes.layer)
        results.append((xp.numpy_on_cpu(sizes.layer), xp.numpy_on_cpu(sizes.units)))
        if fold.decides:  # changes no value
            break
        live, ran = _behind(fold, live, compared, sizes.in_reach, perturbations, versions), not versions.straight
    outputs = program.outputs(live)
    if probes is not None:
        probes.n_straight = n_straight
        last = live if versions.straight else corner_values
        probes.corner_values = {name: value[:m] for name, value in last.items()}
        if ran:
            probes.outputs.append(outputs[: len(weights)])
    size = xp.numpy_on_cpu(xp.largest(_moved_and_drifted(outputs, versions, perturbations.size)[0], 1))
    return [*results, (size, size)], versions.straight


def _sizes(fold: Fold, compared: Compared, versions: _Versions, usual: Tensor, perturbation: float) -> _Sizes:
    """usual: (s,) size of the inputs, or of the smallest layer so far. perturbation: relative size of it."""
    compares_outputs = fold.decides
    moved, drifted = _moved_and_drifted(compared.values, versions, perturbation, _TERMS if compares_outputs else 1.0)
    layer, in_reach = xp.largest(moved, 1), None
    huge = layer > (0.0 if compares_outputs else _HUGE) * usual
    enough = versions.straight or versions.n_points >= _FEWEST_POINTS or isinstance(compared, Maxima)
    if enough and bool(huge.any()):
        in_reach = _in_reach(compared, versions, ~huge)
        if isinstance(compared, Maxima):
            layer = xp.largest((moved[:, versions.array(compared.groups)] * in_reach).reshape(len(moved), -1), 1)
    return _Sizes(layer, xp.maximum(moved, drifted) if isinstance(compared, Thresholds) else layer, in_reach)


def _moved_and_drifted(
    value: Tensor, versions: _Versions, perturbation: float, share: float = 1.0
) -> tuple[Tensor, Tensor]:
    """The size of each column, (s, n), by the moved and by the drifted version: at least this share of its largest
    value. Outputs take the small one: where one is large, those of a region where all are constant may still differ.
    """
    rows = versions.array(value).reshape(len(value), -1)
    plain = versions.plain(rows)
    top = xp.largest(abs(plain), 1) * share
    if not versions.n_perturbed:
        return top, top
    apart = xp.largest(abs(versions.perturbed(rows) - plain[:, : versions.n_perturbed]), 2) * (_TERMS / perturbation)
    return xp.maximum(apart[0], top), xp.maximum(apart[1], top)


def _values_at_corners(program: Program, corners: Tensor, perturbations: _Perturbations) -> Values:
    """All versions of the values before the first fold, at the corners."""
    changed = corners * (1 + perturbations.draw(math.prod(program.input_shape)).view(program.input_shape))
    n = len(corners)
    if n > 2:
        both = program.begin(torch.cat([corners, changed]), n_perturbed=n)
        return {name: torch.cat([value, value[n:]]) for name, value in both.items()}
    # MKL multiplies two rows by a matrix twice in a third of the time that it takes for four
    first, second = program.begin(corners), program.begin(changed, n_perturbed=n)
    return {name: torch.cat([value, second[name], second[name]]) for name, value in first.items()}


def _at_all_points(live: Values, corners: _Versions, weights: Tensor, n_perturbed: int) -> Values:
    """All versions of the values at the probe points, combined from those at the corners."""

    def combined(value: Tensor) -> Tensor:
        versions = value.reshape(3, corners.n_slices, corners.n_points, -1)
        shares = weights, weights[:n_perturbed], weights[:n_perturbed]
        mixed = [share.to(value.dtype) @ rows for share, rows in zip(shares, versions, strict=True)]
        return torch.cat([rows.view(-1, *value.shape[1:]) for rows in mixed])

    return {name: combined(value) for name, value in live.items()}


def _distance(compared: Thresholds, corners: _Versions) -> Tensor:
    """How far the values at all corners of a slice are from a threshold (s, n), negative if they are on both sides."""
    plain = corners.plain(corners.array(compared.values))
    low, high = -xp.largest(-plain, 1), xp.largest(plain, 1)
    return reduce(xp.minimum, (xp.maximum(low - threshold, threshold - high) for threshold in compared.at))


def _is_doubtful(compared: Compared, corners: _Versions, distance: Tensor | None, sizes: _Sizes, zero: float) -> bool:
    """Whether a value is so near to a threshold at a corner that rounding hides its side; of a maximum, whether no
    candidate leads at all corners, or one lags so little that rounding hides it. distance: from ``_distance``.
    """
    tolerance = zero_tolerance_of(sizes.layer, sizes.units, zero)
    if distance is not None:
        return bool(((distance <= tolerance) & (tolerance > SMALLEST_TOLERANCE)).any())
    assert isinstance(compared, Maxima)
    candidates, tolerance = _candidates(compared, corners), tolerance[:, None, None, None]
    top = xp.largest(candidates, 3)[..., None]
    lag = top - candidates
    off = (candidates == 0) & (top <= tolerance)
    leads = (lag <= tolerance).all(1).any(-1)
    return not bool(leads.all()) or bool(((lag > 0) & (lag <= tolerance) & ~off).any())


def zero_tolerance_of(layer: Tensor, units: Tensor, zero: float) -> Tensor:
    """How near to zero counts as zero, for the sizes of a layer (s,) and of its units (s, ...)."""
    size = xp.minimum(units, layer.reshape(-1, *[1] * (units.ndim - 1)))
    return (zero * size).clip(min=SMALLEST_TOLERANCE)


def _candidates(compared: Maxima, versions: _Versions) -> Tensor:
    """The plain values of each group (s, p, groups, m)."""
    return versions.plain(versions.array(compared.values))[:, :, versions.array(compared.groups)]


def _in_reach(compared: Compared, versions: _Versions, all_of: Tensor) -> Tensor:
    """Whether each value may come to a fold on its slice, from the plain ones. all_of: (s,) slices
    on which the answer is yes for all values.

    (s, n) for values that are compared with thresholds, (s, groups, m) for candidates of a maximum. A value that is
    always much farther from its threshold, or behind the largest one, than it varies is out of reach, such as one that
    is masked by a very negative number: its rounding moves no fold. So are candidates that are all equal, and one that
    no other reaches, if other groups have folds.
    """
    if isinstance(compared, Thresholds):
        values = versions.plain(versions.array(compared.values))
        nearest = reduce(xp.minimum, (-xp.largest(-abs(values - threshold), 1) for threshold in compared.at))
        return (nearest <= _OUT_OF_REACH * _variation(values)) | all_of[:, None]
    candidates = _candidates(compared, versions)
    top = xp.largest(candidates, 3)[..., None]
    lag = top - candidates
    close = -xp.largest(-lag, 1) <= _OUT_OF_REACH * (_variation(candidates) + _variation(top))
    contested = (close & (xp.largest(lag, 1) > 0)).any(-1)
    contested |= ~contested.any(-1)[:, None]
    return (close & contested[..., None]) | all_of[:, None, None]


def _variation(values: Tensor) -> Tensor:
    """The largest value minus the smallest one, over the probe points (s, p, ...)."""
    return xp.largest(values, 1) + xp.largest(-values, 1)


class _Perturbations:
    """Random changes of about ``size``, the square root of the rounding unit; the same ones for the same network."""

    def __init__(self, program: Program) -> None:
        self.size = float(torch.finfo(program.dtype).eps) ** 0.5
        self.dtype, self.device = program.dtype, program.device
        self.used = 0

    def draw(self, n: int) -> Tensor:
        """(n,): 0.5 to 1.5 times ``size``, up or down.

        Two terms that cancel would still cancel if both changed by the same share.
        """
        start, self.used = self.used, self.used + n
        period = _FIRST if self.used <= _FIRST else _PERIOD
        start %= period
        table = _shared(period, self.dtype, self.size, self.device)
        if start + n > period:
            table = table.repeat(-(-(start + n) // period))
        return table[start : start + n]


@cache
def _shared(n: int, dtype: torch.dtype, size: float, device: torch.device) -> Tensor:
    """(n,) changes, drawn once; not to be written to."""
    drawn = torch.empty(n, dtype=dtype, device="cpu").uniform_(-1, 1, generator=torch.Generator().manual_seed(0))
    return drawn.add_(drawn.sign(), alpha=0.5).mul_(size).to(device)


def _behind(
    fold: Fold,
    live: Values,
    compared: Compared,
    in_reach: Tensor | None,
    perturbations: _Perturbations,
    versions: _Versions,
) -> Values:
    """The three versions of the values behind a fold, see ``_Versions``; behind one that jumps, on one piece. The
    perturbed versions before it are lost.
    """
    noise = versions.starts(versions.array(compared.values))
    if isinstance(compared, Maxima):
        noise = abs(noise[..., versions.array(compared.groups)])
    if in_reach is not None:
        noise = noise * in_reach[:, None]
    if isinstance(compared, Maxima):
        noise = xp.largest(noise, -1)
    flat = {name: versions.array(value).reshape(len(value), -1) for name, value in live.items()}
    real = [name for name, value in live.items() if value.is_floating_point()]
    n_changes = 2 * (sum(flat[name].shape[1] for name in real) + noise.shape[-1])
    changes, before, end = versions.array(perturbations.draw(n_changes)).reshape(2, 1, 1, -1), {}, 0
    for name, rows in flat.items():
        perturbed = versions.perturbed(rows)
        perturbed[0] = versions.plain(rows)[:, : versions.n_perturbed]
        if name in real:
            perturbed *= 1 + changes[..., end : end + rows.shape[1]]
            end += rows.shape[1]
        before[name] = xp.as_tensors(rows).view(live[name].shape)
    if fold.chosen is not None:
        pieces = xp.as_tensors(versions.plain(versions.array(fold.pattern(before))))
        moved = pieces[:, : versions.n_perturbed].flatten(0, 1)
        return fold.advance(before, consume=True, pieces=torch.cat([pieces.flatten(0, 1), moved, moved]))
    noise *= changes[..., end:] * _AT_FOLD
    return fold.advance(before, consume=True, noise=xp.as_tensors(noise))
