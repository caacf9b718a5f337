"""Do linear regions leave the data for the decision boundary? Fold density against distance, on exact slices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regionscope.checks import read_integer
from regionscope.errors import InputError
from regionscope.exact import DecisionRegions, decision_regions
from regionscope.geometry import Slice
from regionscope.inputs import Inputs, read_examples
from regionscope.network import Program
from regionscope.network.output import Arguments, Output
from regionscope.tolerance import Tolerance
from regionscope.types import Progress, Reading, repr_of

Distance = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class FoldProfile:
    """Fold density as a function of a distance, over s slices and n bins.

    edges: (n + 1,) edges of the bins, in input space; the last bin also holds all larger distances.
    folds: (s, n) length of neuron boundaries (2-D) or number of folds (1-D) in each bin.
    room: (s, n) area or length of the slice in each bin; 0 for a slice in which the distance is not defined.
    fold_distance, room_distance: (s,) sums of distance over the folds and over the slice.
    """

    edges: Tensor
    folds: Tensor
    room: Tensor
    fold_distance: Tensor
    room_distance: Tensor

    def __repr__(self) -> str:
        return repr_of(self, bins=self.folds.shape[1], slices=len(self.folds))

    def readings(self) -> tuple[Reading, ...]:
        """The two statistics of the profile."""
        return ("ratio", self.ratio, self.stderr), ("near", self.near, self.near_stderr)

    @property
    def density(self) -> Tensor:
        """Folds per area (or length) in each bin, all slices together (n,); NaN in bins that no slice reaches."""
        return self.folds.sum(0) / self.room.sum(0)

    @property
    def ratio(self) -> float:
        """Mean distance of a fold / mean distance of a uniform point of the slices.

        1 means that the folds are spread evenly, below 1 that they are near the points or the boundary. NaN without
        folds.
        """
        return float(self._ratio(self._rows.sum(0)))

    @property
    def stderr(self) -> float:
        """Standard error of ``ratio`` over the slices, by the jackknife; NaN with fewer than two slices in it."""
        return self._jackknife(self._ratio)

    @property
    def near(self) -> float:
        """Fold density in the nearest bin / fold density of the whole slices; 0 if no fold is near."""
        return float(self._near(self._rows.sum(0)))

    @property
    def near_stderr(self) -> float:
        """Standard error of ``near`` over the slices, by the jackknife; NaN with fewer than two slices in it."""
        return self._jackknife(self._near)

    @property
    def _rows(self) -> Tensor:
        """What the statistics add up, a row (2 n + 2,) for each slice in which the distance is defined."""
        kept = self.room.sum(1) > 0
        columns = (self.folds, self.room, self.fold_distance[:, None], self.room_distance[:, None])
        return torch.cat(columns, 1)[kept]

    def _ratio(self, sums: Tensor) -> Tensor:
        """From sums (..., 2 n + 2) over slices."""
        n = self.folds.shape[1]
        folds, room, fold_distance, room_distance = sums.split([n, n, 1, 1], -1)
        of_folds: Tensor = fold_distance[..., 0] / folds.sum(-1)
        of_room: Tensor = room_distance[..., 0] / room.sum(-1)
        return of_folds / of_room

    def _near(self, sums: Tensor) -> Tensor:
        n = self.folds.shape[1]
        folds, room = sums[..., :n], sums[..., n : 2 * n]
        return folds[..., 0] / room[..., 0] / (folds.sum(-1) / room.sum(-1))

    def _jackknife(self, statistic: Callable[[Tensor], Tensor]) -> float:
        rows = self._rows
        s = len(rows)
        if s < 2:
            return math.nan
        left_out = statistic(_without_each(rows))
        return math.sqrt((s - 1) / s * float((left_out - left_out.mean()).square().sum()))


@dataclass(frozen=True, eq=False)
class Migration:
    """Density of folds at one training step.

    During migration ``to_data.near`` and ``to_boundary.ratio`` fall, while ``to_data.ratio`` and ``to_boundary.near``
    rise.

    to_data: density against the distance to the nearest data point, in input space. to_boundary: density against the
        distance to the decision boundary inside the slice. n_folds: number of pieces of neuron boundary (or folds) on
        all slices.
    """

    to_data: FoldProfile
    to_boundary: FoldProfile
    n_folds: int

    def __repr__(self) -> str:
        return repr_of(self)

    def readings(self) -> tuple[Reading, ...]:
        """The statistics of both profiles, and the number of folds."""
        profiles = (("to_data", self.to_data), ("to_boundary", self.to_boundary))
        readings = tuple(
            (f"{name}.{what}", value, error) for name, profile in profiles for what, value, error in profile.readings()
        )
        return (*readings, ("folds", float(self.n_folds), None))


def fold_migration(
    model: nn.Module | Program,
    slice: Slice | Sequence[Slice],
    inputs: Inputs,
    *,
    bins: int = 16,
    resolution: int = 128,
    max_regions: int | None = None,
    memory: int | None = None,
    tolerance: Tolerance | None = None,
    progress: Progress | None = None,
    output: Output | None = None,
    args: Arguments = (),
) -> Migration:
    """Fold density on exact slices against the distance to the nearest data point and to the decision boundary.

    Measures the main claim of Humayun et al. 2023 (Figure 1): in the last phase of training, regions move away from the
    data and gather at the decision boundary. Use slices through data points (``Simplex`` or ``Box.through`` three of
    them, ``Segment`` between two), and the same ones at every step. Folds and boundary are exact; lengths and areas are
    sorted into the bins by pieces of size diameter / ``resolution``.

    slice: one slice or a list of slices. inputs: the data points, (n, *input_shape), as a tensor, an array, a Dataset
        or a DataLoader. The options from ``max_regions`` on are those of ``decision_regions``.
    Cost: that of ``decision_regions``, and resolution² points times (data + boundary pieces) distances per slice.
    """
    slices = [slice] if isinstance(slice, Slice) else list(slice)
    decisions = decision_regions(
        model, slices, max_regions=max_regions, memory=memory, tolerance=tolerance, progress=progress,
        output=output, args=args,
    )  # fmt: skip
    return fold_profiles(decisions, inputs, bins=bins, resolution=resolution)


def fold_profiles(
    partitions: Sequence[DecisionRegions], inputs: Inputs, *, bins: int = 16, resolution: int = 128
) -> Migration:
    """Same as ``fold_migration``, for decision regions that you have already computed."""
    if not partitions:
        raise InputError("Expected at least one slice, got none. Add a slice to the list.")
    read_integer("bins", bins)
    read_integer("resolution", resolution, least=2)
    known = read_examples(inputs).all()
    flats = [_Flat.of(decisions, known, resolution) for decisions in partitions]
    reach = max(float(flat.to_data(flat.room).max()) for flat in flats)
    edges = torch.linspace(0.0, reach, bins + 1, dtype=torch.float64, device=flats[0].room.device)
    to_data = _profile([(flat, flat.to_data) for flat in flats], edges)
    to_boundary = _profile([(flat, flat.to_boundary) for flat in flats], edges)
    return Migration(to_data, to_boundary, sum(flat.n_folds for flat in flats))


def _without_each(rows: Tensor) -> Tensor:
    """(s, c): for each row the sum of all others: of those before it and of those after it, so that nothing cancels.

    >>> _without_each(torch.tensor([[1.0], [2.0], [4.0]])).tolist()
    [[6.0], [5.0], [3.0]]
    """
    none = torch.zeros_like(rows[:1])
    before = torch.cat([none, rows[:-1].cumsum(0)])
    after = torch.cat([none, rows.flip(0)[:-1].cumsum(0)]).flip(0)
    return before + after


def _profile(measured: Sequence[tuple[_Flat, Distance]], edges: Tensor) -> FoldProfile:
    folds, room, sums = [], [], []
    for flat, distance in measured:
        of_folds, of_room = distance(flat.folds), distance(flat.room)
        if not bool(torch.isfinite(of_room).all()):  # no boundary in this slice
            folds.append(edges.new_zeros(len(edges) - 1))
            room.append(folds[-1])
            sums.append(edges.new_zeros(2))
            continue
        folds.append(_binned(of_folds, flat.fold_weights, edges))
        room.append(_binned(of_room, flat.room_weights, edges))
        sums.append(torch.stack([(of_folds * flat.fold_weights).sum(), (of_room * flat.room_weights).sum()]))
    totals = torch.stack(sums)
    return FoldProfile(edges, torch.stack(folds), torch.stack(room), totals[:, 0], totals[:, 1])


def _binned(distance: Tensor, weights: Tensor, edges: Tensor) -> Tensor:
    n = len(edges) - 1
    bins_of_distances = (torch.searchsorted(edges, distance, right=True) - 1).clamp(0, n - 1)
    return edges.new_zeros(n).index_add_(0, bins_of_distances, weights)


@dataclass(frozen=True, eq=False)
class _Flat:
    """A slice in Euclidean coordinates: points on its folds and in its room, each with a weight, and what is near."""

    folds: Tensor
    fold_weights: Tensor
    room: Tensor
    room_weights: Tensor
    data: Tensor
    off: Tensor
    boundary: Tensor
    n_folds: int

    @staticmethod
    def of(dec: DecisionRegions, data: Tensor, resolution: int) -> _Flat:
        part = dec.partition
        k = part.dim
        if k > 2:
            raise InputError(
                f"Expected a slice of dimension 1 or 2, got dimension {k}. "
                "Pass a Segment, or a Box or Simplex of dimension 2."
            )
        if tuple(data.shape[1:]) != part.slice.input_shape or len(data) == 0:
            raise InputError(
                f"Expected inputs of shape (n, *{part.slice.input_shape}) with n >= 1, got {tuple(data.shape)}. "
                "Pass a batch of inputs of the network."
            )
        device = part.vertices.device
        basis = part.slice.basis.flatten(1).to(device)
        orthonormal, upper = torch.linalg.qr(basis.T)
        lower = upper.T  # c @ lower are Euclidean coordinates
        offset = data.to(device=device, dtype=torch.float64).flatten(1) - part.slice.origin.flatten().to(device)
        coords = offset @ orthonormal
        off = (offset.square().sum(1) - coords.square().sum(1)).clamp_min(0)
        walls = part.walls
        inner = walls.inner
        drawn = inner[(walls.layer[inner] >= 0) & (walls.layer[inner] < len(part.by_layer))]
        ends = part.vertices[walls.vertices[walls.offsets[drawn][:, None] + torch.arange(k, device=device)]] @ lower
        corners = part.slice.corners.to(device) @ lower
        step = float(torch.cdist(corners, corners).max()) / resolution
        folds, weights = _pieces(ends, step)
        room = _room(part.slice, resolution).to(device) @ lower
        share = torch.full((len(room),), part.slice.size / len(room), dtype=torch.float64, device=device)
        return _Flat(folds, weights, room, share, coords, off, dec.boundary @ lower, len(drawn))

    def to_data(self, points: Tensor) -> Tensor:
        """Distance in input space to the nearest data point."""

        def nearest(part: Tensor) -> Tensor:
            distance = torch.cdist(part, self.data, compute_mode="donot_use_mm_for_euclid_dist")  # cancels nothing
            return distance.square_().add_(self.off).amin(1)

        return _nearest(points, nearest, len(self.data)).sqrt()

    def to_boundary(self, points: Tensor) -> Tensor:
        """Distance inside the slice to the decision boundary; infinite where there is none."""
        if len(self.boundary) == 0:
            return points.new_full((len(points),), math.inf)
        start = self.boundary[:, 0]
        along = self.boundary[:, -1] - start  # a single point in 1-D
        length = _square(along).clamp_min(torch.finfo(torch.float64).tiny)

        def nearest(part: Tensor) -> Tensor:
            from_start = part[:, None] - start
            share = ((from_start * along).sum(-1) / length).clamp(0, 1)
            return _square(from_start - share[..., None] * along).amin(1)

        return _nearest(points, nearest, len(self.boundary)).sqrt()


def _square(vectors: Tensor) -> Tensor:
    return vectors.square().sum(-1)


def _nearest(points: Tensor, squared: Distance, others: int) -> Tensor:
    """Squared distances of all points, worked through so that some 4 million pairs are held at a time."""
    parts = [squared(part) for part in points.split(max(1, (4 << 20) // max(1, others)))]
    return torch.cat(parts) if parts else points.new_zeros(0)


def _pieces(ends: Tensor, step: float) -> tuple[Tensor, Tensor]:
    """Midpoints and lengths of pieces not longer than ``step``; points (w, 1, 1) have weight 1."""
    if ends.shape[1] == 1:
        return ends[:, 0], ends.new_ones(len(ends))
    along = ends[:, 1] - ends[:, 0]
    length = along.norm(dim=1)
    n = (length / step).ceil().long().clamp_min(1)
    of = torch.repeat_interleave(torch.arange(len(n), device=n.device), n)
    place = torch.arange(len(of), device=n.device) - (n.cumsum(0) - n)[of]
    return ends[of, 0] + ((place + 0.5) / n[of])[:, None] * along[of], length[of] / n[of]


def _room(slice: Slice, resolution: int) -> Tensor:
    """Coordinates (n, k) of the centres of an even grid, where they lie in the domain."""
    corners = slice.corners.cpu()
    low, high = corners.amin(0), corners.amax(0)
    n = resolution if slice.dim == 2 else resolution * 8
    steps = (torch.arange(n, dtype=torch.float64, device="cpu") + 0.5) / n
    grid = torch.cartesian_prod(*[low[i] + (high[i] - low[i]) * steps for i in range(slice.dim)]).reshape(-1, slice.dim)
    return grid[slice.contains(grid)]
