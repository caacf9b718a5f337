"""A univariate network in pieces: exact breakpoints, sign changes, linear regions, and how many of them matter."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.checks import check_instance, check_positive
from regionscope.inputs import read_array
from regionscope.tolerance import Tolerance
from regionscope.types import Reading
from regionscope_lab.shallow.network import Network

_EXACT = Tolerance.of(torch.float64)
_AT_ONCE = 1 << 22  # numbers of a block of pieces and units
_CHOSEN = 0.1  # the tolerance at which effective regions are counted


@dataclass(frozen=True)
class Breakpoints:
    """Places where the slope of N changes, ascending, and by how much: (m,) each."""

    at: Tensor
    jump: Tensor

    def __len__(self) -> int:
        return len(self.at)

    def inside(self, radius: float) -> Breakpoints:
        """Those in the open interval (-radius, radius)."""
        if radius != math.inf:
            check_positive(radius=radius)
        keep = self.at.abs() < radius
        return Breakpoints(self.at[keep], self.jump[keep])


def breakpoints(network: Network) -> Breakpoints:
    """The breakpoints -b_j / w_j of N on the whole line; the slope jumps there by v_j |w_j|.

    Folds closer together than rounding count as one breakpoint with the sum of their jumps; if the jumps cancel, there
    is none. Cost: one sort.
    """
    places, weight = fold_places(network)
    real = places.jump.abs() > _EXACT.slope * weight
    return Breakpoints(places.at[real], places.jump[real])


def fold_places(network: Network) -> tuple[Breakpoints, Tensor]:
    """The breakpoints and the places where jumps cancel, and the sum of the sizes of the jumps at each: (m,)."""
    check_instance("network", network, Network, advice="Write Network(w, b, v)")
    jumps = network.v * network.w.abs()
    live = (jumps != 0) & (network.b / network.w).isfinite()
    places, order = (-network.b[live] / network.w[live]).sort()
    jump = jumps[live][order]
    if len(places) == 0:
        return Breakpoints(places, jump), jump
    apart = places.diff() > _EXACT.zero * torch.maximum(
        places[:-1].abs(), places[1:].abs()
    )  # the rounding of b / w is relative
    group = torch.nn.functional.pad(apart.long().cumsum(0), (1, 0))
    m = int(group[-1]) + 1
    total = places.new_zeros(m).index_add_(0, group, jump)
    weight = places.new_zeros(m).index_add_(0, group, jump.abs())
    place = places.new_zeros(m).index_add_(0, group, places * jump.abs()) / weight
    return Breakpoints(place, total), weight


def n_linear_regions(network: Network, *, radius: float = math.inf) -> int:
    """Linear regions of N on (-radius, radius), by default on the whole line.

    >>> n_linear_regions(Network([1.0, -1.0], [0.0, 0.0], [1.0, 1.0]))  # |x|
    2
    """
    return 1 + len(breakpoints(network).inside(radius))


def unit_shares(network: Network) -> Tensor:
    """|v_j| |(w_j, b_j)| / |theta|^2 (k,): the weight of each unit; they add up to at most 1/2."""
    total = network.theta.square().sum()
    return network.v.abs() * torch.hypot(network.w, network.b) / total.clamp(min=torch.finfo(torch.float64).tiny)


@dataclass(frozen=True)
class Plateau:
    """A count that stays the same between two tolerances."""

    count: int
    first: float
    last: float

    @property
    def decades(self) -> float:
        """Its length in powers of ten: how much the count does *not* depend on the tolerance."""
        return math.log10(self.last / self.first)


@dataclass(frozen=True)
class EffectiveRegions:
    """Linear regions that are left when small units are pruned and coinciding ones merged.

    on_line, on_inside: the count at the chosen tolerance, on the line and on (-R, R), and the plateau about it: how far
    the tolerance may be changed without changing the count. tolerances, line, inside: (m,) the counts over a range.
    """

    on_line: Plateau
    on_inside: Plateau
    tolerances: Tensor
    line: Tensor
    inside: Tensor

    def readings(self) -> tuple[Reading, ...]:
        """The count on the line, and that on (-R, R)."""
        return ("", self.on_line.count, None), ("inside", self.on_inside.count, None)


def effective_regions(network: Network, *, radius: float) -> EffectiveRegions:
    """The effective number of linear regions, that of ``reduced``, at a tolerance of 0.1 and over a range (1e-6 to 1).

    If units vanish in the limit, the number is constant over a long range of tolerances. Cost: one sort for each
    tolerance.
    """
    check_instance("network", network, Network, advice="Write Network(w, b, v)")
    check_positive(radius=radius)
    values = torch.logspace(-6, 0, 61, dtype=torch.float64, device="cpu")
    values = torch.cat([values, values.new_tensor([_CHOSEN])]).unique()
    counts = [_reduced_counts(network, e, radius) for e in values.tolist()]
    line, inside = (torch.tensor(column, device="cpu") for column in zip(*counts, strict=True))
    chosen = int((values - _CHOSEN).abs().argmin())
    return EffectiveRegions(_plateau(line, values, chosen), _plateau(inside, values, chosen), values, line, inside)


def _reduced_counts(network: Network, tolerance: float, radius: float) -> tuple[int, int]:
    small = reduced(network, tolerance=tolerance, radius=radius)
    if small is None:
        return 1, 1
    kept = breakpoints(small)
    return 1 + len(kept), 1 + len(kept.inside(radius))


def _plateau(counts: Tensor, tolerances: Tensor, chosen: int) -> Plateau:
    """The run of equal counts about ``chosen``."""
    same = (counts == counts[chosen]).tolist()
    first = last = chosen
    while first > 0 and same[first - 1]:
        first -= 1
    while last + 1 < len(same) and same[last + 1]:
        last += 1
    return Plateau(int(counts[chosen]), float(tolerances[first]), float(tolerances[last]))


def reduced(network: Network, *, tolerance: float, radius: float) -> Network | None:
    """The network of the units that matter: small ones left out, coinciding ones joined. None when nothing is left.

    Units with a share |v_j| |(w_j, b_j)| / |theta|^2 below ``tolerance`` times the mean share are left out (the mean is
    1 / (2k) late in a flow, and less before). Units with one sign of v whose directions (R w, b) lie within an angle of
    ``tolerance`` become one unit with (w, b) = sum |v_j| (w_j, b_j) and v = +-1. Angles, so that folds on their way to
    infinity can meet; one sign, since only such units approach each other along a flow (they obey one linear equation).
    """
    share = unit_shares(network)
    keep = share >= tolerance * share.mean()
    parts = []
    for sign in (1.0, -1.0):
        mine = keep & (network.v * sign > 0)
        if bool(mine.any()):
            plane = network.theta[:2, mine] * network.v[mine].abs()
            group = _arcs(torch.atan2(plane[1], plane[0] * radius), tolerance)
            joined = plane.new_zeros((2, int(group.max()) + 1)).index_add_(1, group, plane)
            parts.append(torch.cat([joined, torch.full_like(joined[:1], sign)]))
    return Network.of(torch.cat(parts, 1)) if parts else None


def _arcs(angle: Tensor, width: float) -> Tensor:
    """Groups (m,) of angles on the circle, each at most ``width`` wide, filled in order from behind the widest gap."""
    ordered, order = angle.sort()
    gaps = torch.cat([ordered[:1] + 2 * math.pi - ordered[-1:], ordered.diff()])
    first = int(gaps.argmax())
    turned = torch.cat([ordered[first:], ordered[:first] + 2 * math.pi])
    group, start, number = torch.zeros_like(order), 0, 0
    while start < len(turned):
        stop = max(start + 1, int(torch.searchsorted(turned, turned[start] + width, right=True)))
        group[start:stop] = number
        start, number = stop, number + 1
    return torch.empty_like(order).index_copy_(0, torch.cat([order[first:], order[:first]]), group)


def minimum_regions(labels: Tensor) -> int:
    """The fewest linear regions of any network that classifies points with these labels (sorted by x).

    Each switch needs a zero of N between two points, and a linear piece has at most one zero. So the minimum is the
    number of switches, and at least 1.
    """
    return max(1, int((read_array(labels, "labels of numbers").flatten().diff() != 0).sum()))


def end_values(network: Network, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """N at both ends of the pieces between nodes (m + 1,), of which no piece has a fold inside: (m, 2), and rounding.

    The values are those of the linear function on the piece: a unit whose fold is at an end counts only on its own
    side, where it may be very steep. Values of at most ``rounding`` (m, 2) cannot be told from 0.
    """
    w, b, v = network.theta
    sizes = torch.stack([(v * w).abs(), (v * b).abs()], 1)
    ends = torch.stack([nodes[:-1], nodes[1:]], 1)
    values, rounding = torch.empty_like(ends), torch.empty_like(ends)
    for part in torch.arange(len(ends)).split(max(1, _AT_ONCE // network.width)):
        active = (ends[part].mean(1, keepdim=True) * w + b > 0).double()
        for side in range(2):
            values[part, side] = ((ends[part, side, None] * w + b) * active) @ v
        slope, constant = (active @ sizes).split(1, 1)
        rounding[part] = _EXACT.zero * (ends[part].abs() * slope + constant)
    return values, rounding


def sign_pieces(network: Network, radius: float) -> tuple[Tensor, Tensor]:
    """Intervals of [-radius, radius] on which N has one sign: ends (m + 1,) and signs (m,) in {-1, 0, 1}.

    Exact: N is linear between its breakpoints, and a zero is found in each piece. What counts as zero is the rounding
    of the terms of that piece. Neighbours with equal sign are one.
    """
    last = torch.tensor([radius], dtype=torch.float64, device="cpu")
    nodes = torch.cat([-last, fold_places(network)[0].inside(radius).at, last])
    values, rounding = end_values(network, nodes)
    a, b = torch.where(values.abs() <= rounding, 0.0, values).unbind(1)
    cross = a.sign() * b.sign() < 0
    zeros = (nodes[:-1] + (nodes[1:] - nodes[:-1]) * (a / torch.where(cross, a - b, 1.0)))[cross]
    starts, order = torch.cat([nodes[:-1], zeros]).sort(stable=True)
    signs = torch.cat([torch.where(a != 0, a, b).sign(), b.sign()[cross]]).long()[order]
    long = torch.cat([starts, last]).diff() > 0
    starts, signs = starts[long], signs[long]
    change = torch.nn.functional.pad(signs.diff() != 0, (1, 0), value=True)
    return torch.cat([starts[change], last]), signs[change]
