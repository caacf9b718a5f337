"""``stream_regions``: exact regions handed over part by part, so that any number of them fits in memory.

The engine works depth first: it divides the cells of the partition after some layer into groups, and carries each group
through all later layers. A region never crosses a border between groups, since such a border is a fold. So each region
is finished exactly once, in one part, and ``linear_regions`` would only put the parts together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor, nn

from regionscope.errors import InputError
from regionscope.exact.affine_maps import AffineMaps, affine_maps
from regionscope.exact.linear import check_covers, exact_regions, program_of
from regionscope.exact.region_batch import RegionBatch
from regionscope.geometry import Slice
from regionscope.geometry.ragged import mean_of_rows
from regionscope.geometry.slices import read_slices
from regionscope.inputs import read_array
from regionscope.network import Program
from regionscope.network.output import Arguments, Output, select_output
from regionscope.tolerance import Tolerance
from regionscope.types import Progress, Reading, Stats, repr_of


@dataclass(frozen=True, eq=False)
class FinishedRegions:
    """A part of the activation regions of a slice, each of them complete; see ``stream_regions``.

    slice, vertices, outputs, corners, offsets, sizes: as in ``Partition``, for these regions alone.
    """

    slice: Slice
    vertices: Tensor
    outputs: Tensor
    corners: Tensor
    offsets: Tensor
    sizes: Tensor

    def __len__(self) -> int:
        return len(self.sizes)

    def __repr__(self) -> str:
        return f"FinishedRegions(dim={self.slice.dim}, n_activation_regions={len(self)})"

    @cached_property
    def interior(self) -> Tensor:
        """A point inside each region, the mean of its corners (r, k)."""
        return mean_of_rows(self.vertices[self.corners], self.offsets)

    @cached_property
    def maps(self) -> AffineMaps:
        """The affine map of each region on the slice: ``outputs = constant + coords @ slope``."""
        return affine_maps(self.vertices, self.outputs, self.corners, self.offsets)


@dataclass(frozen=True, eq=False)
class RegionTotals:
    """Result of ``stream_regions``.

    n_activation_regions: number of activation regions of the slice. by_layer: their number after each fold.
    size: sum of their sizes in input space, the size of the slice up to rounding.
    n_parts, largest_part: number of parts passed to ``consume``, and of regions in the largest one.
    """

    slice: Slice
    n_activation_regions: int
    by_layer: dict[str, int]
    size: float
    n_parts: int
    largest_part: int
    stats: Stats

    def __repr__(self) -> str:
        return repr_of(self, dim=self.slice.dim)

    def readings(self) -> tuple[Reading, ...]:
        """The number of activation regions, and of signs that rounding hides if any."""
        snapped: tuple[Reading, ...] = (("snapped", self.stats.snapped, None),) if self.stats.snapped else ()
        return ("activation", self.n_activation_regions, None), *snapped


@dataclass(frozen=True, eq=False)
class SizeHistogram:
    """Histogram of region sizes. Pass it as ``consume`` to ``stream_regions``, and read ``counts`` afterwards.

    edges: ascending sizes in input space. counts: (len(edges) + 1,) number of regions below the first edge, from each
    edge up to the next, and from the last edge on; each call adds to them in place.

    >>> from regionscope.geometry import Segment
    >>> histogram = SizeHistogram([0.5, 2.0])
    >>> _ = stream_regions(nn.ReLU(), Segment([-1.0], [3.0]), consume=histogram)  # lengths 1 and 3
    >>> histogram.counts.tolist()
    [0, 1, 1]
    """

    edges: Sequence[float]
    counts: Tensor = field(init=False)

    def __post_init__(self) -> None:
        bounds = read_array(self.edges, "edges, a list of numbers").to("cpu", torch.float64)
        if bounds.ndim != 1 or len(bounds) == 0 or not bool((bounds.diff() > 0).all() & (bounds == bounds).all()):
            raise InputError(f"Expected ascending edges of a histogram, got {self.edges!r}. Try [1e-9, 1e-6, 1e-3].")
        object.__setattr__(self, "edges", bounds.tolist())
        object.__setattr__(self, "counts", torch.zeros(len(bounds) + 1, dtype=torch.int64, device="cpu"))

    def __repr__(self) -> str:
        return f"SizeHistogram(regions={int(self.counts.sum())}, edges={self.edges}, counts={self.counts.tolist()})"

    def __call__(self, regions: FinishedRegions) -> None:
        """Count these regions."""
        edges = torch.tensor(self.edges, dtype=torch.float64, device=regions.sizes.device)
        place = torch.bucketize(regions.sizes, edges, right=True)
        self.counts.add_(torch.bincount(place, minlength=len(self.counts)).cpu())


def stream_regions(
    model: nn.Module | Program,
    slice: Slice,
    *,
    consume: Callable[[FinishedRegions], object] | None = None,
    max_regions: int | None = None,
    memory: int | None = None,
    tolerance: Tolerance | None = None,
    progress: Progress | None = None,
    output: Output | None = None,
    args: Arguments = (),
) -> RegionTotals:
    """Count the activation regions of a slice without storing them, and pass them to ``consume`` part by part.

    The regions are those of ``linear_regions``, each in exactly one part. Only one part is held at a time, so you can
    count tens of millions of regions. Neighbours with equal maps are not joined: they may lie in different parts.

    slice: a slice of any dimension. consume: function called with each finished part, a ``FinishedRegions``, or a
    ``SizeHistogram``; None counts only.
    memory: bytes of working memory (2 GiB by default, on a GPU half of its free memory).
    Other arguments as in ``linear_regions``. Reaching a limit raises ``LimitReached``, after some parts were passed on.

    Cost: that of ``linear_regions`` without joining the parts.

    >>> from regionscope.geometry import Segment
    >>> stream_regions(nn.ReLU(), Segment([-1.0], [3.0])).n_activation_regions
    2
    """
    slices = read_slices(slice)
    if len(slices) > 1:
        raise InputError(f"Expected one slice, got {len(slices)}. Call once for each slice.")
    slice = slices[0]
    if consume is not None and not callable(consume):
        raise InputError(f"Expected a function of FinishedRegions, got {type(consume).__name__}. Pass a function.")
    program, scale = program_of(select_output(model, output, args), [slice]), slice.scale
    program.require_continuous("stream_regions()")
    counts: list[int] = []
    size = 0.0

    def take(part: RegionBatch) -> None:
        nonlocal size
        sizes = part.sizes * scale
        counts.append(len(sizes))
        size += float(sizes.sum())
        if consume is not None:
            consume(FinishedRegions(slice, part.coords, part.outputs, part.corners, part.offsets, sizes))

    result = exact_regions(
        program, [slice], max_regions=max_regions, on_limit="raise", memory=memory, tolerance=tolerance,
        progress=progress, consume=take,
    )  # fmt: skip
    check_covers(slice, size)
    stats = Stats(int(result.snapped[0]), float(result.rounding[0]), result.seconds)
    return RegionTotals(slice, sum(counts), result.by_layer[0], size, len(counts), max(counts), stats)
