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
from regionscope.network import FoldSites, Kink, Maxima, Program, Thresholds, Values

_OUT_OF_REACH = 16.0  # a value reaches no fold that is farther from it than this number of times its variation
_HUGE = 2.0**8  # times the inputs or an earlier layer: some values of a layer as large as that may be out of reach
_FEWEST_POINTS = 8  # fewest probe points that show how much a value varies
_TERMS = 2.0**-5  # share of the size of its terms that a value has at least; times tolerance.zero, 64 units of rounding
_AT_FOLD = 2.0**-4  # share of this that a unit adds at its fold even where it is off: 4 units of rounding
_SHARED = 1 << 14  # random numbers that are drawn once; the rest is drawn in every call


@dataclass(frozen=True)
class LineProbes:
    """What ``zero_tolerances_of`` has computed for one line, and what need not be computed again.

    outputs: blocks (p, c) of the outputs at the probe points. corner_values: those of ``Program.begin`` at the ends.
    """

    outputs: list[Tensor] = field(default_factory=list)
    corner_values: Values = field(default_factory=dict)


@dataclass(frozen=True)
class _Versions:
    """How the rows of a value are divided into three versions, each with one slice after another.

    plain: the values at the ``n_points`` probe points of each slice. moved: at the first ``n_perturbed`` of them, with
    a perturbation just before the layer. drifted: at the same points, with a perturbation before every layer so far.
    """

    n_slices: int
    n_points: int
    n_perturbed: int

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


@np.errstate(all="ignore")
def magnitudes(
    program: Program, corners: Tensor, weights: Tensor, n_perturbed: int, probes: LineProbes | None
) -> list[tuple[Tensor, Tensor]]:
    """The largest value of a layer on the probe points of each slice (s,), and that of its units (s, units), or (s,)
    where units are compared with each other; at each nonlinearity, and of the outputs. At least a share of the terms
    that are added up. corners: inputs (s * m, *input_shape); weights: (p, m) of the probe points.

    The size of these terms is estimated at the first ``n_perturbed`` points, by perturbing all values up or down at
    random, by a relative ``size`` (see ``_Perturbations``): a sum changes by that share of its terms, whether they
    cancel or not. For the layer only the values just before it are perturbed. For a unit those of all layers are, so
    that it is not mistaken for more than rounding. A unit that is off adds its rounding at the fold all the same.
    """
    perturbations = _Perturbations(program)
    versions = _Versions(len(corners) // weights.shape[1], len(weights), n_perturbed)

    def sizes(value: Tensor) -> tuple[Tensor, Tensor]:
        """Of each column, for the moved and the drifted version: (s, n)."""
        rows = _flat(value)
        plain = versions.plain(rows)
        top = xp.largest(abs(plain), 1)
        if not n_perturbed:
            return top, top
        apart = xp.largest(abs(versions.perturbed(rows) - plain[:, :n_perturbed]), 2) * (_TERMS / perturbations.size)
        return xp.maximum(apart[0], top), xp.maximum(apart[1], top)

    live = _values_at_probes(program, corners, weights, perturbations, versions, probes)
    found, usual = [], xp.largest(abs(xp.numpy_on_cpu(corners).reshape(versions.n_slices, -1)), 1)
    for kink in program.kinks:
        cuts = kink.cuts(live)
        moved, drifted = sizes(cuts.values)
        layer, in_reach = xp.largest(moved, 1), None
        huge = layer > (0.0 if kink.kind == "argmax" else _HUGE) * usual
        if (versions.n_points >= _FEWEST_POINTS or isinstance(cuts, Maxima)) and bool(huge.any()):
            in_reach = _in_reach(cuts, versions.plain(xp.numpy_on_cpu(cuts.values)), ~huge)
            if isinstance(cuts, Maxima):
                layer = xp.largest((moved[:, xp.numpy_on_cpu(cuts.groups)] * in_reach).reshape(len(moved), -1), 1)
        usual = xp.minimum(usual, layer)
        found.append((layer, xp.maximum(moved, drifted) if isinstance(cuts, Thresholds) else layer))
        if kink.kind == "argmax":  # changes no value
            break
        live = _behind(kink, live, cuts, in_reach, perturbations, versions)
    last = program.outputs(live)
    if probes is not None:
        probes.outputs.append(last[: len(weights)])
    outputs = xp.largest(sizes(last)[0], 1)
    return [*found, (outputs, outputs)]


def _values_at_probes(
    program: Program,
    corners: Tensor,
    weights: Tensor,
    perturbations: _Perturbations,
    versions: _Versions,
    probes: LineProbes | None,
) -> Values:
    """All versions of the values before the first nonlinearity, combined from those at the corners."""

    def combined(plain: Tensor, moved: Tensor) -> Tensor:
        pairs = ((weights, plain), (weights[: versions.n_perturbed], moved))
        shape = versions.n_slices, weights.shape[1], -1
        mixed = [(own.to(x.dtype) @ x.reshape(shape)).view(-1, *x.shape[1:]) for own, x in pairs]
        return torch.cat([*mixed, mixed[1]])

    changed = corners * (1 + xp.as_tensors(perturbations.draw(math.prod(program.input_shape)))).view(
        program.input_shape
    )
    if len(corners) > 2:
        both = torch.cat([corners, changed])
        pairs = {name: value.chunk(2) for name, value in program.begin(both, n_perturbed=len(corners)).items()}
    else:  # MKL multiplies two rows by a matrix twice in a third of the time that it takes for four
        first, second = program.begin(corners), program.begin(changed, n_perturbed=len(changed))
        pairs = {name: (value, second[name]) for name, value in first.items()}
        if probes is not None:
            probes.corner_values.update(first)
    return {name: combined(*pair) for name, pair in pairs.items()}


def _in_reach(cuts: FoldSites, values: Tensor, all_of: Tensor) -> Tensor:
    """Whether each value may come to a fold on its slice, from those at the probe points (s, p, n). all_of: (s,) slices
    on which the answer is yes for all values.

    (s, n) for values that are compared with thresholds, (s, groups, m) for candidates of a maximum. A value that is
    always much farther from its threshold, or behind the largest one, than it varies is out of reach, such as one that
    is masked by a very negative number: its rounding moves no fold. So are candidates that are all equal, and one that
    no other reaches, if other groups have folds.
    """
    if isinstance(cuts, Thresholds):
        nearest = reduce(xp.minimum, (-xp.largest(-abs(values - at), 1) for at in cuts.at))
        return (nearest <= _OUT_OF_REACH * _variation(values)) | all_of[:, None]
    candidates = values[:, :, xp.numpy_on_cpu(cuts.groups)]
    top = xp.largest(candidates, 3)[..., None]
    lag = top - candidates
    near = -xp.largest(-lag, 1) <= _OUT_OF_REACH * (_variation(candidates) + _variation(top))
    contested = (near & (xp.largest(lag, 1) > 0)).any(-1)
    contested |= ~contested.any(-1)[:, None]
    return (near & contested[..., None]) | all_of[:, None, None]


def _variation(values: Tensor) -> Tensor:
    """The largest value minus the smallest one, over the probe points (s, p, ...)."""
    return xp.largest(values, 1) + xp.largest(-values, 1)


class _Perturbations:
    """Random changes of about ``size``, the square root of the rounding unit; the same ones for the same network."""

    def __init__(self, program: Program) -> None:
        self.size = float(torch.finfo(program.dtype).eps) ** 0.5
        self.dtype, self.device = program.dtype, program.device
        self.used, self.generator = 0, torch.Generator().manual_seed(1)
        self.shared = xp.numpy_on_cpu(_shared(self.dtype, self.size).to(self.device))

    def draw(self, n: int) -> Tensor:
        """(n,): 0.5 to 1.5 times ``size``, up or down.

        Two terms that cancel would still cancel if both changed by the same share.
        """
        start, self.used = self.used, self.used + n
        if self.used <= _SHARED:
            return self.shared[start : self.used]
        return xp.numpy_on_cpu(_drawn(n, self.dtype, self.size, self.generator).to(self.device))


def _drawn(n: int, dtype: torch.dtype, size: float, generator: torch.Generator) -> Tensor:
    drawn = torch.empty(n, dtype=dtype, device="cpu").uniform_(-1, 1, generator=generator)
    return drawn.add_(drawn.sign(), alpha=0.5).mul_(size)


@cache
def _shared(dtype: torch.dtype, size: float) -> Tensor:
    """The changes of a small network, and the first ones of a larger one; not to be written to."""
    return _drawn(_SHARED, dtype, size, torch.Generator().manual_seed(0))


def _flat(value: Tensor) -> Tensor:
    """(v, n) of values (v, ...)."""
    return xp.numpy_on_cpu(value).reshape(len(value), -1)


def _behind(
    kink: Kink,
    live: Values,
    cuts: FoldSites,
    in_reach: Tensor | None,
    perturbations: _Perturbations,
    versions: _Versions,
) -> Values:
    """The three versions of the values behind a kink, see ``_Versions``."""
    noise = versions.starts(xp.numpy_on_cpu(cuts.values))
    if isinstance(cuts, Maxima):
        noise = abs(noise[..., xp.numpy_on_cpu(cuts.groups)])
    if in_reach is not None:
        noise = noise * in_reach[:, None]
    if isinstance(cuts, Maxima):
        noise = xp.largest(noise, -1)
    flat = {name: _flat(value) for name, value in live.items()}
    real = [name for name, value in live.items() if value.is_floating_point()]
    changes = perturbations.draw(2 * (sum(flat[name].shape[1] for name in real) + noise.shape[-1])).reshape(2, 1, 1, -1)
    before, end = {}, 0
    for name, rows in flat.items():
        found, starts = xp.empty_like(rows), versions.starts(rows)
        versions.plain(found)[:] = versions.plain(rows)
        if name in real:
            starts *= 1 + changes[..., end : end + rows.shape[1]]
            end += rows.shape[1]
        versions.perturbed(found)[:] = starts
        before[name] = xp.as_tensors(found).view(live[name].shape)
    noise *= changes[..., end:] * _AT_FOLD
    return kink.advance(before, consume=True, noise=xp.as_tensors(noise))
