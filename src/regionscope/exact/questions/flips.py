"""``flips`` and ``first_flip``: the points of a line where the predicted class changes, exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from regionscope.checks import check_memory, check_positive, check_progress
from regionscope.errors import InputError, LimitReached
from regionscope.exact.decision import DecisionRegions, decision_regions
from regionscope.exact.linear import program_of
from regionscope.exact.questions.paths import gradients
from regionscope.extras import data_frame
from regionscope.geometry import Polyline, Segment, Slice
from regionscope.geometry.points import PointLike, read_point
from regionscope.network import Program, select_output
from regionscope.network.output import Arguments, Output
from regionscope.tolerance import SHORTEST_WINDOW
from regionscope.types import Progress, Reading

_SHOWN = 4  # flips in a repr
_WINDOW = 64  # number of pieces that first_flip aims to build at a time
_FIRST_SHARE = 1 / 64  # share of the distance that it builds first
_GROWTH = 2.0


@dataclass(frozen=True, eq=False)
class Flips:
    """Points where the class changes along a line, in order.

    coords: (n,) slice coordinates. points: (n, *input_shape) inputs. before, after: (n,) the classes on both sides.
    slope: (n,) slope of the margin (output of the class after minus that of the class before) just after the flip, per
        unit of length in input space; slope_before: (n,) just before it. They differ if the network folds at the flip.
        Neither is negative, up to rounding. note: as in ``DecisionRegions``; slopes are of what remains.
    """

    coords: Tensor
    points: Tensor
    before: Tensor
    after: Tensor
    slope: Tensor
    slope_before: Tensor
    note: str = ""

    def __repr__(self) -> str:
        rows = zip(self.before.tolist(), self.after.tolist(), self.coords.tolist(), strict=True)
        shown = [f"{before}→{after} at {coord:.4g}" for before, after, coord in islice(rows, _SHOWN)]
        return f"Flips({', '.join([f'n={len(self)}', *shown, *(['...'] if len(self) > _SHOWN else [])])})"

    def to_pandas(self) -> Any:
        """A pandas DataFrame with one row for each flip: where it is, the classes and the slopes on both sides."""
        names = ("coords", "before", "after", "slope", "slope_before")
        return data_frame({name: getattr(self, name).cpu().numpy() for name in names})

    def __len__(self) -> int:
        return len(self.coords)

    def readings(self) -> tuple[Reading, ...]:
        """The number of flips."""
        return (("", len(self), None),)


@dataclass(frozen=True, eq=False)
class Flip:
    """The first point of a ray where the class changes.

    distance: from the start of the ray, in input space. point: the input there (*input_shape,). before, after: the
    classes. slope, slope_before: of the margin, as in ``Flips``.
    searched: distance up to which linear pieces were built, shortly after the flip. pieces: number of these pieces.
    note: as in ``Flips``.
    """

    distance: float
    point: Tensor
    before: int
    after: int
    slope: float
    slope_before: float
    searched: float
    pieces: int
    note: str = ""

    def __repr__(self) -> str:
        where = f"distance={self.distance:.4g}, before={self.before}, after={self.after}, slope={self.slope:.4g}"
        return f"Flip({where}, searched={self.searched:.4g}, pieces={self.pieces})"

    def readings(self) -> tuple[Reading, ...]:
        """The distance."""
        return (("", self.distance, None),)


def flips(
    model: nn.Module | Program,
    slice: Slice,
    *,
    memory: int | None = None,
    progress: Progress | None = None,
    output: Output | None = None,
    args: Arguments = (),
) -> Flips:
    """All points of a segment where the predicted class changes, with the classes before and after.

    slice: a Segment, a Polyline, or another slice of dimension 1. Classes, ties and the other arguments as in
    ``decision_regions``.
    Cost: ``decision_regions`` on the segment.

    >>> two = nn.Linear(1, 2)
    >>> _ = two.load_state_dict({"weight": torch.tensor([[-1.0], [1.0]]), "bias": torch.tensor([0.0, -1.0])})
    >>> found = flips(two, Segment([0.0], [1.0]))
    >>> found.coords.tolist(), found.before.tolist(), found.after.tolist(), found.slope.tolist()
    ([0.5], [0], [1], [2.0])
    """
    is_slice = hasattr(type(slice), "embed")  # isinstance would compute every property of the protocol
    if not is_slice or slice.dim != 1:
        got = f"dimension {slice.dim}" if is_slice else type(slice).__name__
        raise InputError(f"Expected a slice of dimension 1, got {got}. Pass a Segment.")
    program = program_of(select_output(model, output, args), [slice], order_only=True)
    dec = decision_regions(program, slice, memory=memory, progress=progress)
    return flips_of(dec)


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Pieces of one label in order along a line: where each starts, a point inside it, its label, (n,) each."""

    start: Tensor
    middle: Tensor
    label: Tensor

    @staticmethod
    def of(dec: DecisionRegions) -> _Pieces:
        part = dec.partition
        middle = part.interior[:, 0]
        order = middle.argsort()
        start = part.vertices[part.corners, 0].reshape(-1, 2).amin(1)
        return _Pieces(start[order], middle[order], dec.piece_labels[order])

    def after(self, other: _Pieces | None) -> _Pieces:
        """These pieces with the last one of ``other`` in front."""
        if other is None:
            return self
        names = self.__dataclass_fields__
        return _Pieces(*(torch.cat([getattr(other, name)[-1:], getattr(self, name)]) for name in names))


def flips_of(dec: DecisionRegions) -> Flips:
    """The flips of decision regions on a line that still have their network."""
    assert dec.partition.program is not None
    return _flips_between(dec.partition.program, dec.partition.slice, _Pieces.of(dec))


def _flips_between(program: Program, slice: Slice, pieces: _Pieces) -> Flips:
    """The flips between neighbouring pieces. Cost: a forward and a backward pass at two points for each flip."""
    changes = (pieces.label[1:] != pieces.label[:-1]).nonzero()[:, 0]
    coords = pieces.start[changes + 1]
    before, after = pieces.label[changes], pieces.label[changes + 1]
    c = program.n_outputs
    if c == 1:
        weights = (2.0 * after - 1)[:, None].double()
    else:
        weights = torch.eye(c, dtype=torch.float64, device=coords.device)[after]
        weights[torch.arange(len(changes), device=coords.device), before] -= 1
    slope_before, slope = (
        (gradients(program, slice.embed(pieces.middle[some, None]), weights) * _along(slice, pieces.middle[some])).sum(
            1
        )
        for some in (changes, changes + 1)
    )
    return Flips(coords, slice.embed(coords[:, None]), before, after, slope, slope_before, program.note)


def _along(slice: Slice, coords: Tensor) -> Tensor:
    """The unit vector along a line, or along a path at each of the coordinates: (1, d) or (n, d)."""
    directions = slice.points.diff(dim=0)[coords.long()] if isinstance(slice, Polyline) else slice.basis
    flat: Tensor = directions.flatten(1).to(coords.device)
    return torch.nn.functional.normalize(flat, dim=1)


def first_flip(
    model: nn.Module | Program,
    point: PointLike,
    direction: PointLike,
    *,
    max_distance: float,
    memory: int | None = None,
    progress: Progress | None = None,
    output: Output | None = None,
    args: Arguments = (),
) -> Flip | None:
    """The first point on the ray from ``point`` along ``direction`` where the predicted class changes, exactly.

    direction: direction of any length; distances are measured in input space. max_distance: end of the search.
    memory, output, args: as in ``linear_regions``. Returns None if the class does not change before that distance. If
    ``point`` lies on the boundary of two classes, the ray starts in the class just after it.

    The ray is built in windows of about 64 linear pieces, starting at ``point``, and the search stops after the window
    with the flip. A window is at most twice as long as the one before. Cost: ``decision_regions`` on these windows.
    """
    check_memory(memory)
    check_progress(progress)
    start, along = read_point(point, "the point"), read_point(direction, "the direction")
    if start.shape != along.shape:
        raise InputError(
            f"Expected a direction of shape {tuple(start.shape)}, that of the point, got {tuple(along.shape)}. "
            "Reshape the direction."
        )
    length = float(along.norm())
    if not (length > 0 and math.isfinite(length)):
        raise InputError(
            f"Expected a direction with a finite length above 0, got {length}. "
            "Pass a direction other than 0 without NaN."
        )
    check_positive(max_distance=max_distance)
    ray = Segment(start, start + along / length)
    program = program_of(select_output(model, output, args), [ray], order_only=True)
    done, window, count = 0.0, _FIRST_SHARE * max_distance, 0
    last: _Pieces | None = None
    while done < max_distance:
        end = max_distance if done + 1.01 * window > max_distance else done + window
        limit = 4 * _WINDOW if end - done > SHORTEST_WINDOW * max_distance else None
        try:
            dec = decision_regions(program, ray.extended(done, end), max_regions=limit, memory=memory)
        except LimitReached:
            window = (end - done) / 4
            continue
        count += len(dec.partition)
        pieces = _Pieces.of(dec)
        flips = _flips_between(program, ray, pieces.after(last))
        if len(flips):
            distance, slopes = float(flips.coords[0]), (float(flips.slope[0]), float(flips.slope_before[0]))
            return Flip(
                distance, flips.points[0], int(flips.before[0]), int(flips.after[0]), *slopes, end, count, program.note
            )
        last, done = pieces, end
        window *= min(_GROWTH, max(1 / _GROWTH, _WINDOW / len(dec.partition)))
        if progress is not None:
            progress(done / max_distance)
    return None
