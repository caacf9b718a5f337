"""How large the values of a network are on the probe points of slices, and how large the terms that it adds up.

A sum of terms that cancel is smaller than its rounding error, which follows the size of the terms. That size is
estimated by perturbing the values a little: the sum moves in proportion to its terms, whether they cancel or not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cache, reduce

import numpy as np
import torch
from torch import Tensor

from regionscope.geometry import arrays as xp
from regionscope.geometry.arrays import rows_at_a_time
from regionscope.network import Compared, Fold, Maxima, Program, Thresholds, Values
from regionscope.tolerance import SMALLEST_TOLERANCE

_OUT_OF_REACH = 16.0  # a value reaches no fold that is farther from it than this number of times its variation
_HUGE = 2.0**8  # times the inputs or an earlier layer: some values of a layer as large as that may be out of reach
_FEWEST_POINTS = 8  # fewest probe points that show how much a value varies
_TERMS = 2.0**-5  # share of the size of its terms that a value has at least; times tolerance.zero, 64 units of rounding
_AT_FOLD = 2.0**-4  # share of this that a unit adds at its fold even where it is off: 4 units of rounding
_FEW_BYTES = 1 << 17  # of the live values of a row
_TEMPORARIES = 4  # of the size of a block
_FIRST = 1 << 14  # random numbers that are enough for a small network
_PERIOD = 1_000_003  # after which those of a larger one repeat; a prime, unlike the distances of values in one sum
_MOVED, _DRIFTED = _BOTH = (0, 1)  # see ``_Versions``


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
    """How the rows of a value are divided into versions, each with one slice after another.

    plain: the values at the ``n_points`` probe points of each slice, before the perturbed versions.
    kinds: the versions with a perturbation, at the first ``n_perturbed`` points. _MOVED: just before the layer.
        _DRIFTED: before every layer so far.
    straight: whether the points are the corners alone, between which all values are affine so far.
    few: whether a row holds few numbers. NumPy is faster on these, and torch uses all threads on many.
    """

    n_slices: int
    n_points: int
    n_perturbed: int
    few: bool
    straight: bool = False
    kinds: tuple[int, ...] = _BOTH

    def array(self, x: Tensor) -> Tensor:
        """The tensor, as a NumPy array if these are faster."""
        return xp.numpy_on_cpu(x) if self.few else x

    def plain(self, rows: Tensor) -> Tensor:
        """(s, n_points, n) of the flattened rows."""
        return rows[: self.n_slices * self.n_points].reshape(self.n_slices, self.n_points, rows.shape[1])

    def perturbed(self, rows: Tensor) -> Tensor:
        """(kinds, s, n_perturbed, n) of the flattened rows."""
        shape = len(self.kinds), self.n_slices, self.n_perturbed, rows.shape[1]
        return rows[self.n_slices * self.n_points :].reshape(shape)

    def starts(self, rows: Tensor) -> Tensor:
        """(kinds, s, n_perturbed, n): the values that are perturbed next, the plain ones to moved ones and the drifted
        ones to drifted ones.
        """
        if self.kinds == (_DRIFTED,):
            return self.perturbed(rows)
        plain = self.plain(rows)[None, :, : self.n_perturbed]
        return plain if self.kinds == (_MOVED,) else xp.cat([plain, self.perturbed(rows)[1:]])

    def blocks(self, rows: Tensor, n: int) -> list[slice]:
        """Parts of n columns, each with so few numbers that what is computed from them stays in the caches."""
        if self.few:
            return [slice(0, n)]
        step = rows_at_a_time(_TEMPORARIES * len(rows) * rows.element_size(), rows.device)
        return [slice(start, min(start + step, n)) for start in range(0, n, step)]


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
    run, m, n_straight, ran = _Run(program, corners, weights.shape[1], zero, probes), weights.shape[1], None, False
    results = []
    for i, fold in enumerate(program.folds):
        compared = fold.compared(run.live)
        sizes = run.sizes_on_corners(fold, compared) if n_straight is None else run.sizes(fold, compared)
        if sizes is None:
            n_straight, corner_values = i, run.live
            run.go_on_at_all_points(weights, n_perturbed)
            sizes = run.sizes(fold, fold.compared(run.live))
        results.append((xp.numpy_on_cpu(sizes.layer), xp.numpy_on_cpu(sizes.units)))
        if fold.decides:  # changes no value
            break
        run.advance(fold, sizes)
        ran = n_straight is not None
    outputs = program.outputs(run.live)
    if probes is not None:
        probes.n_straight = len(program.folds) if n_straight is None else n_straight
        last = run.live if n_straight is None else corner_values
        probes.corner_values = {name: value[:m] for name, value in last.items()}
        if ran:
            probes.outputs.append(outputs[: len(weights)])
    moved = _moved_and_drifted(run.versions.array(outputs), run.versions, run.perturbations.size)[0]
    size = xp.numpy_on_cpu(xp.largest(moved, 1))
    return [*results, (size, size)], n_straight is None


class _Run:
    """The values of all versions on their way through the network: first at the corners alone, and from the first fold
    that meets a slice on at all points.

    A line that meets no fold needs no drifted values. In a large network they wait until they decide, where a unit is
    close to its fold; then they take all steps so far.
    """

    def __init__(self, program: Program, corners: Tensor, m: int, zero: float, probes: LineProbes | None) -> None:
        """m: corners of a slice."""
        self.program, self.zero, self.steps = program, zero, list[_Step]()
        self.perturbations = _Perturbations(program)
        few = self.perturbations.few
        kinds = _BOTH if probes is None or few else (_MOVED,)
        self.versions = _Versions(len(corners) // m, m, m, few, straight=True, kinds=kinds)
        n = math.prod(program.input_shape)
        changes = xp.as_tensors(self.perturbations.draw(1, n).part((0,), 0, n))
        self.changed = corners * (1 + changes.view(program.input_shape))
        self.live = _values_at_corners(program, corners, self.changed, len(kinds))
        inputs = self.versions.array(corners).reshape(self.versions.n_slices, -1)
        self.usual = xp.largest(abs(inputs), 1)  # size of the inputs, or of the smallest layer so far

    def sizes(self, fold: Fold, compared: Compared) -> _Sizes:
        return _sizes(fold, compared, self.versions, self.usual, self.perturbations.size)

    def sizes_on_corners(self, fold: Fold, compared: Compared) -> _Sizes | None:
        """None if the fold meets a slice, or if rounding hides whether it does."""
        closest = _closest(compared, self.versions)
        if fold.chosen is not None or (closest is not None and bool((closest < 0).any())):
            return None
        sizes = self.sizes(fold, compared)
        is_doubtful = _is_doubtful(compared, self.versions, closest, sizes, self.zero)
        if (is_doubtful or fold.decides) and closest is not None and self.versions.kinds == (_MOVED,):
            self._add_drifted()
            compared = fold.compared(self.live)
            sizes = self.sizes(fold, compared)
            is_doubtful = _is_doubtful(compared, self.versions, closest, sizes, self.zero)
        return None if is_doubtful else sizes

    def _add_drifted(self) -> None:
        if self.steps:
            alone = replace(self.versions, n_points=0, kinds=(_DRIFTED,))
            drifted = self.program.begin(self.changed, n_perturbed=len(self.changed))
            for step in self.steps:
                drifted = step.behind(drifted, step.fold.compared(drifted), alone)
        else:
            drifted = {name: value[-len(self.changed) :] for name, value in self.live.items()}
        self.live = {name: torch.cat([value, drifted[name]]) for name, value in self.live.items()}
        self.versions = replace(self.versions, kinds=_BOTH)

    def go_on_at_all_points(self, weights: Tensor, n_perturbed: int) -> None:
        if self.versions.kinds == (_MOVED,):
            self._add_drifted()
        self.live = _at_all_points(self.live, self.versions, weights, n_perturbed)
        self.versions = _Versions(self.versions.n_slices, len(weights), n_perturbed, self.versions.few)

    def advance(self, fold: Fold, sizes: _Sizes) -> None:
        """All versions behind a fold."""
        self.usual = xp.minimum(self.usual, sizes.layer)
        compared = fold.compared(self.live)
        n_values = sum(value[0].numel() for value in self.live.values() if value.is_floating_point())
        n_compared = len(compared.groups) if isinstance(compared, Maxima) else compared.values.shape[1]
        drawn = self.perturbations.draw(2, n_values + n_compared)
        step = _Step(fold, sizes.in_reach, self.perturbations, drawn, n_values)
        if self.versions.kinds == (_MOVED,):
            self.steps.append(step)
        self.live = step.behind(self.live, compared, self.versions)


def _sizes(fold: Fold, compared: Compared, versions: _Versions, usual: Tensor, perturbation: float) -> _Sizes:
    """usual: (s,) size of the inputs, or of the smallest layer so far. perturbation: relative size of it."""
    compares_outputs = fold.decides
    share = _TERMS if compares_outputs else 1.0
    layers, units, in_reach = [], [], None
    rows = versions.array(compared.values).reshape(len(compared.values), -1)
    for columns in versions.blocks(rows, rows.shape[1]):
        moved, drifted = _moved_and_drifted(rows[:, columns], versions, perturbation, share)
        layers.append(xp.largest(moved, 1))
        if isinstance(compared, Thresholds) and versions.kinds == _BOTH:
            units.append(xp.maximum(moved, drifted))
    layer = reduce(xp.maximum, layers)
    huge = layer > (0.0 if compares_outputs else _HUGE) * usual
    enough = versions.straight or versions.n_points >= _FEWEST_POINTS or isinstance(compared, Maxima)
    if enough and bool(huge.any()):
        in_reach = _in_reach(compared, versions, ~huge)
        if isinstance(compared, Maxima):
            moved = _moved_and_drifted(rows, versions, perturbation, share)[0]
            layer = xp.largest((moved[:, versions.array(compared.groups)] * in_reach).reshape(len(moved), -1), 1)
    return _Sizes(layer, _joined(units) if units else layer, in_reach)


def _moved_and_drifted(
    rows: Tensor, versions: _Versions, perturbation: float, share: float = 1.0
) -> tuple[Tensor, Tensor]:
    """The size of each column, (s, n), by the moved and by the drifted version: at least this share of its largest
    value. Outputs take the small one: where one is large, those of a region where all are constant may still differ.
    """
    plain = versions.plain(rows)
    top = xp.largest(abs(plain), 1) * share
    if not versions.n_perturbed:
        return top, top
    apart = xp.largest(abs(versions.perturbed(rows) - plain[:, : versions.n_perturbed]), 2) * (_TERMS / perturbation)
    return xp.maximum(apart[0], top), xp.maximum(apart[-1], top)


def _joined(parts: list[Tensor]) -> Tensor:
    """The columns of all blocks."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, -1)


def _values_at_corners(program: Program, corners: Tensor, changed: Tensor, kinds: int) -> Values:
    """The plain values before the first fold, at the corners, and some copies of those of ``changed`` corners."""
    n = len(corners)
    if n > 2:
        both = program.begin(torch.cat([corners, changed]), n_perturbed=n)
        return {name: torch.cat([value, *[value[n:]] * (kinds - 1)]) for name, value in both.items()}
    # MKL multiplies two rows by a matrix twice in a third of the time that it takes for four
    first, second = program.begin(corners), program.begin(changed, n_perturbed=n)
    return {name: torch.cat([value, *[second[name]] * kinds]) for name, value in first.items()}


def _at_all_points(live: Values, corners: _Versions, weights: Tensor, n_perturbed: int) -> Values:
    """All versions of the values at the probe points, combined from those at the corners."""

    def combined(value: Tensor) -> Tensor:
        versions = value.reshape(3, corners.n_slices, corners.n_points, math.prod(value.shape[1:]))
        shares = weights, weights[:n_perturbed], weights[:n_perturbed]
        mixed = [share.to(value.dtype) @ rows for share, rows in zip(shares, versions, strict=True)]
        return torch.cat([rows.view(rows.shape[0] * rows.shape[1], *value.shape[1:]) for rows in mixed])

    return {name: combined(value) for name, value in live.items()}


def _distance(plain: Tensor, at: tuple[float, ...]) -> Tensor:
    """How far the values (s, m, n) at all corners of a slice are from a threshold (s, n), negative if they are on both
    sides.
    """
    low, high = -xp.largest(-plain, 1), xp.largest(plain, 1)
    return reduce(xp.minimum, (xp.maximum(low - threshold, threshold - high) for threshold in at))


def _closest(compared: Compared, corners: _Versions) -> Tensor | None:
    """The smallest distance of a unit to its threshold (s,); None for maxima."""
    if not isinstance(compared, Thresholds):
        return None
    rows = corners.array(compared.values)
    blocks = (corners.plain(rows[:, columns]) for columns in corners.blocks(rows, rows.shape[1]))
    return reduce(xp.minimum, (-xp.largest(-_distance(plain, compared.at), 1) for plain in blocks))


def _is_doubtful(compared: Compared, corners: _Versions, closest: Tensor | None, sizes: _Sizes, zero: float) -> bool:
    """Whether a value is so near to a threshold at a corner that rounding hides its side; of a maximum, whether no
    candidate leads at all corners, or one lags so little that rounding hides it. closest: from ``_closest``.
    """
    if closest is not None and not bool((closest <= zero_tolerance_of(sizes.layer, sizes.layer, zero)).any()):
        return False
    if isinstance(compared, Thresholds):
        if corners.kinds == (_MOVED,):
            return True
        rows = corners.array(compared.values)
        for columns in corners.blocks(rows, rows.shape[1]):
            distance = _distance(corners.plain(rows[:, columns]), compared.at)
            tolerance = zero_tolerance_of(sizes.layer, sizes.units[:, columns], zero)
            if bool(((distance <= tolerance) & (tolerance > SMALLEST_TOLERANCE)).any()):
                return True
        return False
    tolerance = zero_tolerance_of(sizes.layer, sizes.units, zero)[:, None, None, None]
    groups = corners.array(compared.groups)
    for some in corners.blocks(groups.T, len(groups)):
        candidates = _candidates(compared, corners, groups[some])
        top = xp.largest(candidates, 3)[..., None]
        lag = top - candidates
        ties = lag <= tolerance
        if not bool(ties.all(1).any(-1).all()):  # no candidate leads at all corners
            return True
        hidden = ties & (lag > 0)
        if bool(hidden.any()) and bool((hidden & ~((candidates == 0) & (top <= tolerance))).any()):
            return True
    return False


def zero_tolerance_of(layer: Tensor, units: Tensor, zero: float) -> Tensor:
    """How near to zero counts as zero, for the sizes of a layer (s,) and of its units (s, ...)."""
    size = xp.minimum(units, layer.reshape(-1, *[1] * (units.ndim - 1)))
    return (zero * size).clip(min=SMALLEST_TOLERANCE)


def _candidates(compared: Maxima, versions: _Versions, groups: Tensor) -> Tensor:
    """The plain values of each of these groups (s, p, groups, m)."""
    return versions.plain(versions.array(compared.values))[:, :, groups]


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
    candidates = _candidates(compared, versions, versions.array(compared.groups))
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
        self.few = program.row_bytes <= _FEW_BYTES
        self.used, self.memory = 0, torch.empty(0, dtype=program.dtype, device=program.device)

    def draw(self, versions: int, n: int) -> _Drawn:
        """0.5 to 1.5 times ``size``, up or down, for n values of some versions.

        Two terms that cancel would still cancel if both changed by the same share.
        """
        start, self.used = self.used, self.used + versions * n
        table = _shared(_FIRST if self.used <= _FIRST else _PERIOD, self.dtype, self.size, self.device)
        start, rows = start % len(table), None
        if start + versions * n <= len(table):
            rows = table[start : start + versions * n].view(versions, 1, 1, n)
            rows = xp.numpy_on_cpu(rows) if self.few else rows
        return _Drawn(table, start, n, rows)

    def buffer(self, n: int) -> Tensor:
        """(n,) numbers of any value, in the same memory each time: new memory takes longer than what is done in it."""
        if len(self.memory) < n:
            self.memory = torch.empty(n, dtype=self.dtype, device=self.device)
        return self.memory[:n]


@dataclass(frozen=True)
class _Drawn:
    """The changes of n values of some versions, one version after another from ``start`` on in a repeated table.

    rows: (versions, 1, 1, n) all of them, where the table need not be repeated.
    """

    table: Tensor
    start: int
    n: int
    rows: Tensor | None

    def part(self, kinds: tuple[int, ...], first: int, end: int) -> Tensor:
        """(kinds, 1, 1, end - first): those of some values of some versions, which follow each other."""
        if self.rows is not None:
            return self.rows[kinds[0] : kinds[-1] + 1, ..., first:end]
        parts = []
        for kind in kinds:
            start = (self.start + kind * self.n + first) % len(self.table)
            row = self.table[start : start + end - first]
            while len(row) < end - first:
                row = torch.cat([row, self.table[: end - first - len(row)]])
            parts.append(row)
        return torch.stack(parts)[:, None, None]


@cache
def _shared(n: int, dtype: torch.dtype, size: float, device: torch.device) -> Tensor:
    """(n,) changes, drawn once; not to be written to."""
    drawn = torch.empty(n, dtype=dtype, device="cpu").uniform_(-1, 1, generator=torch.Generator().manual_seed(0))
    return drawn.add_(drawn.sign(), alpha=0.5).mul_(size).to(device)


@dataclass(frozen=True)
class _Step:
    """A fold on the way of the perturbed values through the network, which always has the same perturbations.

    drawn: changes of ``n_values`` live values and of the compared ones, for each kind of versions.
    """

    fold: Fold
    in_reach: Tensor | None
    perturbations: _Perturbations
    drawn: _Drawn
    n_values: int

    def behind(self, live: Values, compared: Compared, versions: _Versions) -> Values:
        """All versions of the values behind the fold; behind one that jumps, on one piece. Those before it are lost."""
        noise = None if self.fold.chosen is not None else self._noise(compared, versions)
        before, end = dict[str, Tensor](), 0
        for name, value in live.items():
            rows = versions.array(value).reshape(len(value), -1)
            perturbed = versions.perturbed(rows)
            if value.is_floating_point():
                for columns in versions.blocks(rows, rows.shape[1]):
                    changes = self.drawn.part(versions.kinds, end + columns.start, end + columns.stop)
                    perturbed[..., columns] = versions.starts(rows[:, columns]) * (1 + changes)
                end += rows.shape[1]
            else:
                perturbed[:] = versions.starts(rows)
            before[name] = xp.as_tensors(rows).view(value.shape)
        if noise is None:
            pieces = xp.as_tensors(versions.plain(versions.array(self.fold.pattern(before))))
            moved = pieces[:, : versions.n_perturbed].flatten(0, 1)
            return self.fold.advance(before, consume=True, pieces=torch.cat([pieces.flatten(0, 1), moved, moved]))
        return self.fold.advance(before, consume=True, noise=noise)

    def _noise(self, compared: Compared, versions: _Versions) -> Tensor:
        """The rounding of the units at their fold, for the perturbed versions (kinds, s, n_perturbed, units)."""
        values, groups = versions.array(compared.values), None
        if isinstance(compared, Maxima):
            groups = versions.array(compared.groups)
        n = values.shape[1] if groups is None else len(groups)
        blocks = versions.blocks(values if groups is None else groups.T, n)
        for columns in blocks:
            changes = self.drawn.part(versions.kinds, self.n_values + columns.start, self.n_values + columns.stop)
            if groups is None:
                sizes = versions.starts(values[:, columns])
            else:
                members = versions.starts(values[:, groups[columns].reshape(-1)])
                sizes = abs(members).reshape(*members.shape[:-1], *groups[columns].shape)
            if self.in_reach is not None:
                sizes = sizes * self.in_reach[:, None, columns]
            part = (sizes if groups is None else xp.largest(sizes, -1)) * (changes * _AT_FOLD)
            if len(blocks) == 1:
                return xp.as_tensors(part)
            if columns.start == 0:
                noise = self.perturbations.buffer(part[..., :1].numel() * n).view(*part.shape[:-1], n)
            noise[..., columns] = part
        return noise
