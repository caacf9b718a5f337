"""Where to look: bounded pieces of an affine subspace of the input space, with coordinates of their own."""

from __future__ import annotations

import copy
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from regionscope.checks import check_shape, read_device
from regionscope.errors import InputError, SliceError
from regionscope.formatting import size_name
from regionscope.geometry.points import (
    PointLike,
    check_distinct,
    check_rank,
    orthonormal_frame,
    read_numbers,
    read_point,
    read_points,
    read_radius,
    rounding_of_differences,
    spacing,
)
from regionscope.inputs import Inputs, read_examples
from regionscope.tolerance import OUTSIDE_DISTANCE, RANK_RATIO, SINGLE_PRECISION_DISTANCE


class Projection(NamedTuple):
    """Inputs seen from a slice: coordinates (n, k) of their nearest points, and distances (n,) to these points."""

    coords: Tensor
    distances: Tensor

    def __repr__(self) -> str:
        n, k = self.coords.shape
        nearest = f", nearest={float(self.distances.min()):.4g}" if n else ""
        return f"Projection(n={n}, dim={k}{nearest})"


@runtime_checkable
class Slice(Protocol):
    """A k-dimensional convex domain of coordinates c and the affine map c -> origin + c @ basis into the inputs.

    Attributes:
        origin: (*input_shape,) float64, the input at coordinates 0.
        basis: (k, *input_shape) float64, the input-space direction of each coordinate.
        corners: (m, k) float64; k = 1: ascending, k = 2: counter-clockwise.
        halfspaces: A (h, k) and b (h,) with domain = {c : A c <= b}.
        size: length, area or volume of the slice, measured in input space.
        scale: sqrt(det(B B^T)) of the flattened basis B: a size in coordinates times scale is a size in input space.
    """

    @property
    def origin(self) -> Tensor: ...
    @property
    def basis(self) -> Tensor: ...
    @property
    def dim(self) -> int: ...
    @property
    def input_shape(self) -> tuple[int, ...]: ...
    @property
    def corners(self) -> Tensor: ...
    @property
    def halfspaces(self) -> tuple[Tensor, Tensor]: ...
    @property
    def size(self) -> float: ...
    @property
    def scale(self) -> float: ...
    def embed(self, coords: PointLike, *, dtype: torch.dtype | None = None) -> Tensor: ...
    def project(self, inputs: Inputs) -> Projection: ...
    def contains(self, coords: PointLike, *, margin: float | Tensor = ...) -> Tensor: ...
    def to(self, device: torch.device | str) -> Self: ...


class _Domain(ABC):
    """What all slices share. Values are frozen: attributes are set once, in the constructor."""

    _parts: ClassVar[tuple[str, ...]] = ("origin", "basis")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen. Build a new one instead of setting {name!r}.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen. Keep {name!r}, or build a new one.")

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_parts(cls, **parts: Tensor | float) -> Self:
        """The slice with exactly these attributes, those of ``vars(slice)``; nothing is computed again or rounded.

        For reading a stored slice back bit for bit. The parts are trusted, since they came from a slice.
        """
        expected = sorted(cls._parts)
        if sorted(parts) != expected:
            raise SliceError(
                f"Expected {', '.join(expected)} for a {cls.__name__}, got {sorted(parts)}. Pass these parts."
            )
        slice = cls.__new__(cls)
        slice._set(**parts)
        return slice

    def __repr__(self) -> str:
        size = f"{size_name(self.dim)}={self.size:.6g}"
        return f"{type(self).__name__}(dim={self.dim}, input_shape={self.input_shape}, {size})"

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of coordinates k."""

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input, without a batch axis."""

    @property
    @abstractmethod
    def size(self) -> float:
        """Length, area or volume of the slice in input space."""

    @property
    @abstractmethod
    def corners(self) -> Tensor:
        """Corners of the domain (m, k), in coordinates."""

    @property
    @abstractmethod
    def halfspaces(self) -> tuple[Tensor, Tensor]:
        """A (h, k) and b (h,) such that A c <= b holds for the coordinates c of the domain, and for no others."""

    def contains(self, coords: PointLike, *, margin: float | Tensor = OUTSIDE_DISTANCE) -> Tensor:
        """Whether each of the coordinates (n, k) lies in the slice (n,).

        margin: how far beyond a side they may lie, as a share of the width of the slice there; one number, or (n, 1).

        >>> Segment([0.0], [2.0]).contains([[0.5], [1.5]]).tolist()
        [True, False]
        """
        c = self._read_coords(coords)
        normals, bounds, corners = (part.to(c.device) for part in (*self.halfspaces, self.corners))
        heights = corners @ normals.T
        return (c @ normals.T <= bounds + margin * (heights.amax(0) - heights.amin(0))).all(1)

    def _read_coords(self, coords: PointLike) -> Tensor:
        read = coords if isinstance(coords, Tensor) else read_point(coords, "coordinates")
        if read.ndim != 2 or read.shape[1] != self.dim:
            raise SliceError(f"Expected coordinates of shape (v, {self.dim}), got {tuple(read.shape)}. Reshape them.")
        return read.to(torch.float64)

    def to(self, device: torch.device | str) -> Self:
        """The same slice with its tensors on ``device``."""
        device = read_device(device)
        moved = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                object.__setattr__(moved, name, value.to(device))
        return moved


class _AffineSlice(_Domain):
    """A domain in coordinates c, mapped into the inputs by c -> origin + c @ basis."""

    origin: Tensor
    basis: Tensor

    @property
    def dim(self) -> int:
        """Number of coordinates k."""
        return self.basis.shape[0]

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input, without a batch axis."""
        return tuple(self.origin.shape)

    @property
    def scale(self) -> float:
        """Input-space measure of a unit cube of coordinates."""
        if self.dim == 1:
            return float(torch.linalg.vector_norm(self.basis))
        return float(torch.linalg.svdvals(self.basis.flatten(1)).prod())

    @property
    def size(self) -> float:
        """Length, area or volume of the slice in input space."""
        return self.scale * self._coordinate_size()

    @abstractmethod
    def _coordinate_size(self) -> float:
        """Measure of the domain in its own coordinates."""

    def embed(self, coords: PointLike, *, dtype: torch.dtype | None = None) -> Tensor:
        """Inputs (v, *input_shape) = origin + coords @ basis of coordinates (v, k).

        Computed in float64 on the device of ``coords``; ``dtype`` casts the result. Cost: one (v, k) by (k, d) product.
        """
        c = self._read_coords(coords)
        flat = torch.addmm(self.origin.flatten().to(c.device), c, self.basis.flatten(1).to(c.device))
        return flat.reshape(len(c), *self.input_shape).to(dtype or torch.float64)

    def project(self, inputs: Inputs) -> Projection:
        """Coordinates (n, k) and distances (n,) of inputs (n, *input_shape) in input space.

        The coordinates are those of the nearest point of the affine subspace, so that ``embed`` takes them back to the
        input where the distance is 0. A point may lie outside the slice; see ``contains``. Computed in
        float64 on the device of the inputs. Cost: one least-squares solution with n right-hand sides.

        >>> coords, distances = Box([0.0, 0.0, 0.0], [[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]]).project([[4.0, 1.0, 5.0]])
        >>> coords.tolist(), distances.tolist()
        ([[2.0, 1.0]], [5.0])
        """
        x = read_examples(inputs).all()
        if tuple(x.shape[1:]) != self.input_shape:
            expected = ", ".join(["n", *map(str, self.input_shape)])
            fits = math.prod(x.shape[1:]) == math.prod(self.input_shape)
            advice = "Reshape them." if fits else "Pass inputs of the network that the slice was made for."
            raise SliceError(f"Expected inputs of shape ({expected}), got {tuple(x.shape)}. {advice}")
        offsets = x.to(torch.float64).flatten(1) - self.origin.flatten().to(x.device)
        basis = self.basis.flatten(1).to(x.device)
        orthonormal, upper = torch.linalg.qr(basis.T)
        coords = torch.linalg.solve_triangular(upper, (offsets @ orthonormal).T, upper=True).T
        return Projection(coords.contiguous(), (offsets - coords @ basis).norm(dim=1))


class Segment(_AffineSlice):
    """The hull of two inputs: a + alpha (b - a) for alpha in [0, 1].

    >>> Segment([0.0, 0.0], [3.0, 4.0]).size
    5.0
    """

    lo: float
    hi: float
    _parts: ClassVar[tuple[str, ...]] = ("origin", "basis", "lo", "hi")

    def __init__(self, a: PointLike, b: PointLike) -> None:
        points = read_points([a, b], "point", least=2)
        check_distinct(points)
        self._set(origin=points[0], basis=points[1:] - points[0], lo=0.0, hi=1.0)

    def extended(self, lo: float, hi: float) -> Segment:
        """The same line and the same coordinate, with alpha in [lo, hi]; [0, 1] is the hull of the two inputs."""
        lo, hi = read_numbers([lo, hi], "the pair of ends").tolist()
        if not lo < hi:
            raise SliceError(f"Expected ends alpha with lo < hi, got {lo} and {hi}. Pass the smaller one first.")
        other = copy.copy(self)
        other._set(lo=lo, hi=hi)
        return other

    @property
    def corners(self) -> Tensor:
        """The two ends, ascending: (2, 1)."""
        return self.origin.new_tensor([[self.lo], [self.hi]])

    @property
    def halfspaces(self) -> tuple[Tensor, Tensor]:
        """-alpha <= -lo and alpha <= hi."""
        return self.origin.new_tensor([[-1.0], [1.0]]), self.origin.new_tensor([-self.lo, self.hi])

    def _coordinate_size(self) -> float:
        return self.hi - self.lo


class Simplex(_AffineSlice):
    """The hull of k + 1 inputs x_0..x_k: x_0 + sum alpha_i (x_i - x_0), alpha_i >= 0, sum alpha_i <= 1.

    Two points give a segment with the coordinate of ``Segment``, three points a triangle.

    >>> Simplex([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]).size
    2.0
    """

    def __init__(self, points: Sequence[PointLike] | Tensor | np.ndarray[Any, Any]) -> None:
        read = read_points(points, "point", least=2)
        check_distinct(read)
        directions = read[1:] - read[0]
        check_rank(directions, f"the {len(read)} points", rounding=rounding_of_differences(read, spacing(points)))
        self._set(origin=read[0], basis=directions)

    @property
    def corners(self) -> Tensor:
        """The origin of the coordinates, then each unit vector: (k + 1, k)."""
        k = self.dim
        return torch.cat([self.origin.new_zeros(1, k), torch.eye(k, dtype=torch.float64, device=self.origin.device)])

    @property
    def halfspaces(self) -> tuple[Tensor, Tensor]:
        """-alpha_i <= 0 for each i, and sum alpha_i <= 1."""
        k = self.dim
        minus = -torch.eye(k, dtype=torch.float64, device=self.origin.device)
        return torch.cat([minus, self.origin.new_ones(1, k)]), self.origin.new_tensor([0.0] * k + [1.0])

    def _coordinate_size(self) -> float:
        return 1.0 / math.factorial(self.dim)


class Polygon(_AffineSlice):
    """A convex polygon in a plane of the input space, from its corners in any order.

    Coordinates are lengths: from the first point, along the axes of inputs of two numbers, and otherwise along an
    orthonormal frame of the plane (see ``Box.through``).

    >>> Polygon([[0.0, 0.0], [2.0, 0.0], [3.0, 1.0], [0.0, 2.0]]).size
    4.0
    """

    outline: Tensor
    _parts: ClassVar[tuple[str, ...]] = ("origin", "basis", "outline")

    def __init__(self, points: Sequence[PointLike] | Tensor | np.ndarray[Any, Any]) -> None:
        read = read_points(points, "point", least=3)
        check_distinct(read)
        flat = read.flatten(1)
        rounding = rounding_of_differences(flat, spacing(points))
        frame = orthonormal_frame(flat, 2, rounding, advice="Pass points of one plane that are not all on a line.")
        coords = (flat - flat[0]) @ frame.T
        offsets = coords - coords.mean(0)
        order = torch.atan2(offsets[:, 1], offsets[:, 0]).argsort()
        sides = coords[order].roll(-1, 0) - coords[order]
        sines = _cross(sides.roll(1, 0), sides) / (sides.norm(dim=1) * sides.roll(1, 0).norm(dim=1))
        if float(sines.min()) <= RANK_RATIO:
            raise SliceError(
                f"Expected the corners of a convex polygon, got point {int(order[sines.argmin()])}, which is not a "
                "corner of the hull of all points. Leave it out, or use several convex polygons."
            )
        self._set(origin=read[0], basis=frame.reshape(2, *read.shape[1:]), outline=coords[order])

    @property
    def corners(self) -> Tensor:
        """The corners, counter-clockwise: (m, 2)."""
        return self.outline

    @property
    def halfspaces(self) -> tuple[Tensor, Tensor]:
        """One for each side, in the order of the corners where the sides start."""
        after = self.outline.roll(-1, 0)
        normals = torch.stack([after[:, 1] - self.outline[:, 1], self.outline[:, 0] - after[:, 0]], 1)
        return normals, torch.maximum((normals * self.outline).sum(1), (normals * after).sum(1))

    def _coordinate_size(self) -> float:
        offsets = self.outline - self.outline[0]
        return float(_cross(offsets, offsets.roll(-1, 0)).sum()) / 2


def _cross(a: Tensor, b: Tensor) -> Tensor:
    """The area between vectors of the plane (n, 2): positive where b lies on the left of a."""
    return a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]


class Polyline(_Domain):
    """The path through n inputs in order; the point at i + alpha is ``points[i] + alpha (points[i + 1] - points[i])``.

    Its straight pieces are its ``legs``. Two points give a path with the coordinate of ``Segment``.

    >>> Polyline([[0.0, 0.0], [3.0, 4.0], [3.0, 0.0]]).size
    9.0
    """

    points: Tensor
    _parts: ClassVar[tuple[str, ...]] = ("points",)

    def __init__(self, points: Sequence[PointLike] | Tensor | np.ndarray[Any, Any]) -> None:
        read = read_points(points, "point", least=2)
        for i in range(len(read) - 1):
            if float((read[i + 1] - read[i]).norm()) <= RANK_RATIO * float(
                torch.maximum(*map(torch.norm, read[i : i + 2]))
            ):
                raise SliceError(
                    f"Expected neighbouring points that differ, got the same point at {i} and {i + 1}. Remove one."
                )
        self._set(points=read)

    @property
    def legs(self) -> tuple[Segment, ...]:
        """The segments from each point to the next."""
        return tuple(Segment(a, b) for a, b in pairwise(self.points))

    @property
    def dim(self) -> int:
        """1."""
        return 1

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input, without a batch axis."""
        return tuple(self.points.shape[1:])

    @property
    def size(self) -> float:
        """Length of the path in input space."""
        return float(self.points.diff(dim=0).flatten(1).norm(dim=1).sum())

    @property
    def corners(self) -> Tensor:
        """The coordinates of all points, 0 to n - 1: (n, 1)."""
        return torch.arange(len(self.points), dtype=torch.float64, device=self.points.device)[:, None]

    @property
    def halfspaces(self) -> tuple[Tensor, Tensor]:
        """-c <= 0 and c <= n - 1."""
        return self.points.new_tensor([[-1.0], [1.0]]), self.points.new_tensor([0.0, len(self.points) - 1.0])

    @property
    def origin(self) -> Tensor:
        """Raises ``InputError``, like ``basis`` and ``scale``: a path is not one affine map."""
        raise InputError("Expected a straight slice, got a Polyline. Use its legs, one by one or as a list.")

    basis = origin

    @property
    def scale(self) -> float:
        """Raises ``InputError``; see ``origin``."""
        return float(self.origin)

    def embed(self, coords: PointLike, *, dtype: torch.dtype | None = None) -> Tensor:
        """Inputs (v, *input_shape) of coordinates (v, 1), in float64 or ``dtype``."""
        c, points = self._read_coords(coords), self.points
        points = points.to(c.device)
        leg = c[:, 0].floor().long().clamp(0, len(points) - 2)
        alpha = (c[:, 0] - leg).reshape(-1, *[1] * (points.ndim - 1))
        return torch.lerp(points[leg], points[leg + 1], alpha).to(dtype or torch.float64)

    def project(self, inputs: Inputs) -> Projection:
        """Coordinates (n, 1) and distances (n,) of the nearest points of the path. Cost: a projection on each leg."""
        coords, distances = [], []
        for i, leg in enumerate(self.legs):
            alpha = leg.project(inputs).coords.clamp(0, 1)
            coords.append(i + alpha)
            x = read_examples(inputs).all().to(torch.float64)
            distances.append((x - leg.embed(alpha)).flatten(1).norm(dim=1))
        nearest = torch.stack(distances).min(0)
        return Projection(torch.stack(coords)[nearest.indices, torch.arange(len(alpha))], nearest.values)


class Box(_AffineSlice):
    """center + sum c_i directions_i with |c_i| <= radius_i; ``radius`` is one number, or one for each direction.

    The directions need not be orthogonal, nor of length one.

    >>> Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 1.0).size
    4.0
    """

    radius: Tensor
    _parts: ClassVar[tuple[str, ...]] = ("origin", "basis", "radius")

    def __init__(
        self,
        center: PointLike,
        directions: Sequence[PointLike] | Tensor | np.ndarray[Any, Any],
        radius: float | Sequence[float] | Tensor | np.ndarray[Any, Any] = 1.0,
    ) -> None:
        basis = read_points(directions, "direction", least=1)
        origin = read_point(center, "the center")
        if origin.shape != basis.shape[1:]:
            raise SliceError(
                f"Expected directions of shape (k, {', '.join(map(str, origin.shape))}) for a center of shape "
                f"{tuple(origin.shape)}, got {tuple(basis.shape)}. Reshape them."
            )
        device = origin.device if origin.device.type != "cpu" else basis.device
        origin, basis = origin.to(device), basis.to(device)
        radii = read_radius(radius, len(basis)).to(device)
        reach = basis * radii.reshape(-1, *[1] * origin.ndim)
        check_rank(reach, "the directions, scaled by their radii,", rounding=spacing(directions) * reach.abs())
        varied = origin[(basis != 0).any(0)]
        if float(reach.flatten(1).norm(dim=1).min()) <= RANK_RATIO * float(varied.norm()):
            raise SliceError(
                f"Expected a radius larger than {RANK_RATIO:g} of the norm of the center (of the entries that vary), "
                "got a smaller one, for which rounding merges the corners. Pass a larger radius."
            )
        self._set(origin=origin, basis=basis, radius=radii)

    @staticmethod
    def between(
        low: float | PointLike, high: float | PointLike, input_shape: Sequence[int], margin: float = 0.0
    ) -> Box:
        """All inputs x of this shape with low <= x <= high in every entry; the directions are the axes of input space.

        ``low`` and ``high`` are one number, or one for each entry; ``margin`` adds that share of the extent on each
        side.

        >>> Box.between([0.0, -1.0], 1.0, (2,)).size
        2.0
        """
        _check_margin(margin)
        shape = check_shape(input_shape)
        d = math.prod(shape)
        ends = [read_numbers(low, "low"), read_numbers(high, "high")]
        for name, values in zip(("low", "high"), ends, strict=True):
            if values.shape not in ((1,), (d,)):
                raise SliceError(f"Expected one number or {d} for {name}, got {len(values)}. Pass one for all entries.")
        device = next((values.device for values in ends if values.device.type != "cpu"), ends[0].device)
        a, b = (values.to(device).expand(d) for values in ends)
        if not bool((a < b).all()):
            raise SliceError(
                "Expected low < high in every entry of an input, got low >= high in some. "
                "Swap the two, or leave out the entries that do not vary."
            )
        axes = torch.eye(d, dtype=torch.float64, device=device).reshape(d, *shape)
        return Box(((a + b) / 2).reshape(shape), axes, (b - a) * (0.5 + margin))

    @staticmethod
    def through(
        points: Sequence[PointLike] | Tensor | np.ndarray[Any, Any], margin: float = 0.0, *, dim: int | None = None
    ) -> Box:
        """The smallest box, in an orthonormal frame of the affine span of the points, that holds them all.

        ``margin`` adds that share of the box's extent on every side. n points of d numbers each must span min(n - 1, d)
        dimensions, or ``dim`` where it is given. The frame: the axes of the input space when the points span all of it;
        Gram-Schmidt on x_1 - x_0, x_2 - x_0, ... for dim + 1 points; principal axes otherwise.

        >>> Box.through([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]], margin=0.5).size
        8.0
        """
        read = read_points(points, "point", least=2)
        _check_margin(margin)
        flat = read.flatten(1)
        frame = orthonormal_frame(flat, dim, rounding_of_differences(flat, spacing(points)))
        coords = (flat - flat[0]) @ frame.T
        low, high = coords.amin(0), coords.amax(0)
        center = flat[0] + (low + high) / 2 @ frame
        radius = (high - low) * (0.5 + margin)
        shape = read.shape[1:]
        return Box(center.reshape(shape), frame.reshape(-1, *shape), radius)

    @property
    def corners(self) -> Tensor:
        """All 2^k corners (2^k, k); k = 1 ascending, k = 2 counter-clockwise, else in binary order."""
        signs = list(itertools.product([-1.0, 1.0], repeat=self.dim))
        if self.dim == 2:
            signs = [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)]
        return self.origin.new_tensor(signs) * self.radius

    @property
    def halfspaces(self) -> tuple[Tensor, Tensor]:
        """c_i <= radius_i and -c_i <= radius_i for each i."""
        eye = torch.eye(self.dim, dtype=torch.float64, device=self.origin.device)
        return torch.cat([eye, -eye]), torch.cat([self.radius, self.radius])

    def _coordinate_size(self) -> float:
        return float((2 * self.radius).prod())


def _check_margin(margin: float) -> None:
    if read_numbers([margin], "margin").tolist()[0] < 0:
        raise SliceError(f"Expected margin of at least 0, a share of the extent of the box, got {margin}. Pass 0.1.")


# One slice or a list of them, as functions take them.


def read_slices(slice: Slice | Sequence[Slice]) -> list[Slice]:
    """One straight slice or several of one dimension, as a list; ``InputError`` for anything else."""
    slices = list(slice) if isinstance(slice, Sequence) else [slice]
    if not slices:
        raise InputError("Expected at least one Segment, Simplex or Box, got an empty list. Add a slice to the list.")
    if any(isinstance(item, Polyline) for item in slices):
        raise InputError("Expected straight slices, got a Polyline. Pass its legs, or one Polyline to linear_regions.")
    for item in slices:
        if not hasattr(type(item), "embed"):  # isinstance would compute every property of the protocol
            raise InputError(
                f"Expected a Segment, Simplex or Box, got {type(item).__name__}. "
                "Build one from inputs, such as Segment(a, b) or Box.through([a, b, c])."
            )
    dims = sorted({slice.dim for slice in slices})
    if len(dims) > 1:
        raise InputError(f"Expected slices of one dimension, got {dims}. Call once for each dimension.")
    return slices


# Between inputs and the coordinates of a slice: which inputs lie on it, and lengths.


def on_slice(slice: Slice, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Coordinates (n, k) of inputs (n, *input_shape), and whether each lies on the slice (n,), up to single precision.

    >>> from regionscope.geometry import Segment
    >>> coords, on = on_slice(Segment([0.0, 0.0], [4.0, 0.0]), [[1.0, 0.0], [1.0, 1.0], [5.0, 0.0]])
    >>> coords.flatten().tolist(), on.tolist()
    ([0.25, 0.25, 1.25], [True, False, False])
    """
    x = read_examples(inputs).all()
    coords, distances = slice.project(x)
    extent = slice.embed(slice.corners).flatten(1).to(x.device)
    extent = (extent - extent[0]).norm(dim=1).max()
    tolerance = SINGLE_PRECISION_DISTANCE * x.double().flatten(1).norm(dim=1).clamp_min(extent)
    return coords, (distances <= tolerance) & slice.contains(coords, margin=(tolerance / extent)[:, None])


def isometry(slice: Slice) -> Tensor:
    """F (k, k) such that |c @ F| is the length in input space of a difference c of coordinates.

    A QR decomposition of the basis: products B B^T would lose directions that are almost parallel.
    """
    upper: Tensor = torch.linalg.qr(slice.basis.flatten(1).T, mode="r").R
    return upper.T
