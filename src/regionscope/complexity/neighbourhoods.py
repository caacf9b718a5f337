"""Neighbourhoods of points: orthonormal frames of random directions, and the hull of vertices that they span.

The vertices of a neighbourhood are x + o_j. ``orthonormal_frames`` draws the directions, ``offsets`` builds the o_j,
and ``Neighbourhoods`` hands out the vertices around many points in chunks that fit into memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal

import torch
from torch import Tensor, nn

from regionscope.checks import (
    check_positive,
    check_shape,
    is_integer,
    read_generator,
    read_integer,
    unknown_name,
)
from regionscope.errors import InputError
from regionscope.geometry.haar import haar_frames
from regionscope.inputs import Inputs, read_examples
from regionscope.network import device_and_dtype

FrameChoice = Literal["shared", "per-point"] | Tensor
_USUAL_DIMS = 25
_MOST_ROUNDED = 0.25  # largest share of the radius by which rounding may move a vertex
_SHARE_FRAMES_FROM = 256  # numbers of an input from which a group of points shares a frame
_POINTS_PER_FRAME = 64  # points of such a group
_SIGN_BITS = 32  # bits of a random number that become signs
_TALL_RATIO = 8  # with at least this ratio of rows to columns, a Gaussian matrix is far from singular


def orthonormal_frames(
    input_shape: Sequence[int],
    *,
    dims: int | None = None,
    points: int | None = None,
    seed: int = 0,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """P = ``dims`` random orthonormal directions (Haar distributed): columns of a Gaussian matrix, made orthonormal.

    dims: by default min(25, d) for inputs of d numbers.
    Returns one frame (P, *input_shape) for all points, or one for each of ``points`` points: (points, P, *input_shape).
    If you pass the same frames as ``frames=`` at every training step, the curve has no noise from the directions. The
    same seed gives the same frames on every device; a ``generator`` gives new ones at each call.

    The frames of several points are independent for d < 256. For larger d, 64 points in a row share one frame, whose d
    coordinates are shifted cyclically by a random number of places and change their signs at random, anew for each
    point. Such a frame is Haar distributed as well, and any two of them are uncorrelated, but those of the 64 points
    are not independent: they have the same entries up to sign and place. A standard error over the points is then too
    small for a model whose first layer acts on each number alone (3 to 5 times, for a 1 x 1 convolution on a constant
    image). With one frame for all points, no standard error contains the choice of the frame.
    Cost: a QR or Cholesky factor of (d, P) for each point or for 64 of them, and a copy of P d numbers for each.

    >>> frame = orthonormal_frames((3, 4), dims=2)
    >>> torch.allclose(frame.flatten(1) @ frame.flatten(1).T, torch.eye(2), atol=1e-6)
    True
    """
    input_shape = check_shape(input_shape)
    d = math.prod(input_shape)
    dims = _dims_of(dims, d)
    _check_dims(dims, d)
    source = read_generator(generator, seed)
    if points is None:
        return _shared_frame(dims, d, source, dtype).reshape(dims, *input_shape)
    return PerPointFrames(dims, d, source, dtype).draw(points).reshape(points, dims, *input_shape)


def _shared_frame(dims: int, d: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    """The next frame (P, d) of the generator, by a QR decomposition: its last bits stay the same for a seed."""
    return haar_frames(_gaussians(1, dims, d, generator, dtype)[0]).contiguous().to(dtype)


@lru_cache(maxsize=2)
def _seeded_frame(dims: int, d: int, seed: int, dtype: torch.dtype) -> Tensor:
    """``_shared_frame`` of a seed, kept for the next calls: for 50,000 numbers it takes as long as some forward passes.
    Not to be written to.
    """
    with torch.inference_mode(False):
        return _shared_frame(dims, d, read_generator(None, seed), dtype)


def _draw_frames(n: int, dims: int, d: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    """The next n frames (n, P, d) of the generator. Drawing 3 and then 4 gives the same frames as drawing 7.

    Tall Gaussian matrices are well conditioned: there, products and a small Cholesky factor replace the QR, and are
    faster, the more so for large d. The frames are the same up to rounding.
    """
    gaussian = _gaussians(n, dims, d, generator, dtype)
    rows = gaussian.transpose(1, 2)
    if d >= _TALL_RATIO * dims:
        frames: Tensor = torch.linalg.solve_triangular(torch.linalg.cholesky(rows @ gaussian), rows, upper=False)
    else:
        frames = haar_frames(gaussian).contiguous()
    return frames.to(dtype)


def _gaussians(n: int, dims: int, d: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    """The next n matrices (n, d, P) of the generator, in float64 or float32: torch factorises no others.

    They are always drawn in float32, one point at a time, so that neither the batch nor the dtype of the model changes
    them.
    """
    drawn = torch.empty(n, d, dims, dtype=torch.float32, device=generator.device)
    for gaussian in drawn:
        gaussian.normal_(generator=generator)
    return drawn.to(dtype if dtype == torch.float64 else torch.float32)


class PerPointFrames:
    """One frame for each point, as in ``orthonormal_frames``."""

    def __init__(self, dims: int, d: int, generator: torch.Generator, dtype: torch.dtype) -> None:
        self.dims, self.d, self.generator, self.dtype = dims, d, generator, dtype
        self._base = torch.empty(0)  # the frame of the present group, of which those of its points are made
        self._left = 0  # points that the group can still take

    def draw(self, n: int, device: torch.device | None = None) -> Tensor:
        """The next n frames (n, P, d). Drawing 3 and then 4 gives the same frames as drawing 7."""
        if self.d < _SHARE_FRAMES_FROM or n == 0:
            return _draw_frames(n, self.dims, self.d, self.generator, self.dtype).to(device)
        frames = torch.empty(n, self.dims, self.d, dtype=self.dtype, device=device or self.generator.device)
        start = 0
        while start < n:
            if self._left == 0:
                self._base = _draw_frames(1, self.dims, self.d, self.generator, self.dtype)[0]
                self._left = _POINTS_PER_FRAME
            part = frames[start : start + self._left]
            self._move_into(part)
            start, self._left = start + len(part), self._left - len(part)
        return frames

    def _move_into(self, frames: Tensor) -> None:
        """Write the frame of the group into each of the ``frames`` (n, P, d), with other signs and places."""
        words = torch.empty(len(frames), -(-self.d // _SIGN_BITS) + 1, dtype=torch.int64, device=self.generator.device)
        words = words.random_(generator=self.generator).to(frames.device)
        bits = words[:, :-1, None].bitwise_right_shift(torch.arange(_SIGN_BITS, device=frames.device)).bitwise_and_(1)
        signs = bits.flatten(1)[:, : self.d].to(self.dtype).mul_(2).sub_(1)
        windows = self._base.to(frames.device).repeat(1, 2).unfold(1, self.d, 1).transpose(0, 1)
        torch.index_select(windows, 0, words[:, -1] % self.d, out=frames)
        frames *= signs[:, None]


def offsets(frames: Tensor, radius: float) -> Tensor:
    """New offsets (2 P, n, d) of the vertices from the point, for frames (n, P, d) of orthonormal directions:
    ± radius · v_p, in the order +v_1 .. +v_P, -v_1 .. -v_P.
    """
    scaled = frames.transpose(0, 1) * radius
    return torch.cat([scaled, -scaled])


@dataclass(frozen=True, eq=False)
class VertexBatch:
    """m vertices around each of n points, and what they were made of: the point, plus and minus steps.

    make: computes the vertices, (m, n, d), once. offsets: (m, 1, d) where they are the same for all points.
    steps: (n, P, d), if the vertices are x + r v_p for all p and then x - r v_p; ``radius`` is r.
    """

    m: int
    make: Callable[[], Tensor]
    offsets: Tensor | None = None
    steps: Tensor | None = None
    radius: float = 0.0

    @property
    def made_of(self) -> Tensor | None:
        return self.offsets if self.steps is None else self.steps


def vertex_batches(points: Tensor, frames: Tensor, radius: float, at_once: int) -> Iterator[VertexBatch]:
    """The vertices around points (n, d) for frames (1 or n, P, d), ``at_once`` of them at a time."""
    dims = frames.shape[1]
    if len(frames) == 1 and len(points) > 1:
        for part in offsets(frames, radius).split(at_once):
            yield VertexBatch(len(part), partial(torch.add, part, points), part)
    elif at_once >= 2 * dims:
        make = partial(_cross_polytopes, points, frames, radius)
        yield VertexBatch(2 * dims, make, steps=frames, radius=radius)
    else:
        for part in offsets(frames, radius).split(at_once):
            yield VertexBatch(len(part), partial(part.add_, points))


def _cross_polytopes(points: Tensor, frames: Tensor, radius: float) -> Tensor:
    """The vertices (2 P, n, d), the largest tensor of all, written once."""
    directions = frames.transpose(0, 1)
    vertices = points.new_empty(2 * len(directions), *points.shape)
    torch.add(points, directions, alpha=radius, out=vertices[: len(directions)])
    torch.sub(points, directions, alpha=radius, out=vertices[len(directions) :])
    return vertices


@dataclass(frozen=True)
class Chunk:
    """Points start..stop. vertices: number of vertices around each of them at a time."""

    start: int
    stop: int
    vertices: int


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """b points (b, d) and how to build the hull around each; read once, handed out chunk by chunk."""

    points: Tensor
    shape: tuple[int, ...]
    dims: int
    radius: float
    frames: Tensor | PerPointFrames

    @staticmethod
    def read(
        model: nn.Module, inputs: Inputs, *, dims: int | None, radius: float, frames: FrameChoice,
        seed: int, generator: torch.Generator | None = None,
    ) -> Neighbourhoods:  # fmt: skip
        """Check the arguments and bring the points to the model's device and dtype."""
        device, dtype = device_and_dtype(model)
        points = _finite_points(inputs, device, dtype)
        check_positive(radius=radius)
        shape, flat = tuple(points.shape[1:]), points.flatten(1)
        _check_resolution(flat, radius)
        source = read_generator(generator, seed)
        given = _given_frames(frames, len(flat), shape, flat)
        dims = _dims_of(dims, flat.shape[1]) if given is None else given.shape[1]
        _check_dims(dims, flat.shape[1])
        if given is None and frames == "shared":
            size = dims, flat.shape[1]
            frame = _seeded_frame(*size, seed, dtype) if generator is None else _shared_frame(*size, source, dtype)
            given = frame.to(device)[None]
        per_point = PerPointFrames(dims, flat.shape[1], source, dtype)
        return Neighbourhoods(flat, shape, dims, radius, per_point if given is None else given)

    def chunks(self, row_bytes: int, memory: int | None) -> Iterator[Chunk]:
        """Cut the points so that a pass over their vertices stays within ``memory`` bytes."""
        if memory is None:
            memory = 28 << 20 if self.points.device.type == "cpu" else 1 << 30
        rows = max(1, read_integer("memory", memory) // row_bytes)
        m = 2 * self.dims
        n = max(1, rows // m)
        for start in range(0, len(self.points), n):
            yield Chunk(start, min(start + n, len(self.points)), min(m, max(1, rows)))

    def vertex_batches(self, chunk: Chunk) -> Iterator[VertexBatch]:
        """The vertices around the points of a chunk. Call it for all chunks in order: frames may be drawn here."""
        if isinstance(self.frames, PerPointFrames):
            frames = self.frames.draw(chunk.stop - chunk.start, self.points.device)
        else:
            frames = self.frames if len(self.frames) == 1 else self.frames[chunk.start : chunk.stop]
        return vertex_batches(self.points[chunk.start : chunk.stop], frames, self.radius, chunk.vertices)


def _finite_points(inputs: Inputs, device: torch.device, dtype: torch.dtype) -> Tensor:
    """The inputs (b, *input_shape) on the device, at least one; NaN and infinite values are an ``InputError``."""
    points = read_examples(inputs).all().to(device=device, dtype=dtype)
    if points.numel() == 0:
        raise InputError(
            f"Expected inputs (b, *input_shape) with at least one point, got shape {tuple(points.shape)}. "
            "Pass one input or more."
        )
    finite = torch.isfinite(points).flatten(1).all(1)
    if not bool(finite.all()):
        first = int((~finite).nonzero()[0])
        raise InputError(
            f"Expected finite inputs, got NaN or infinite values in input {first}. Remove or repair this input."
        )
    return points


def _given_frames(frames: FrameChoice, b: int, shape: tuple[int, ...], like: Tensor) -> Tensor | None:
    """The user's own directions as (1 or b, P, d); None when they are to be drawn."""
    if not isinstance(frames, Tensor):
        if frames not in ("shared", "per-point"):
            raise unknown_name("valid frames", frames, ("shared", "per-point"), more="or pass a tensor of directions")
        return None
    given = frames.to(like)
    if tuple(given.shape[1:]) == shape and given.ndim == 1 + len(shape):
        given = given[None]
    if tuple(given.shape[2:]) != shape or len(given) not in (1, b):
        raise InputError(
            f"Expected frames of shape (P, *input_shape) or (b, P, *input_shape), with b = {b} and input_shape = "
            f"{shape}, got {tuple(frames.shape)}. "
            "Pass P directions, for all inputs or for each."
        )
    flat = given.flatten(2)
    some = flat[:: max(1, len(flat) // 8)]  # frames that are not orthonormal are so at all points, as a rule
    gram = some @ some.transpose(1, 2)
    error = float((gram - torch.eye(gram.shape[1], dtype=gram.dtype, device=gram.device)).abs().max())
    coarsest = max(torch.finfo(kind).eps for kind in (frames.dtype, like.dtype) if kind.is_floating_point)
    if not error < 100 * coarsest * math.sqrt(flat.shape[2]):
        raise InputError(
            f"Expected orthonormal directions in frames, got an error of {error:.1e}. Use orthonormal_frames."
        )
    return flat


def _check_resolution(points: Tensor, radius: float) -> None:
    """Refuse a radius that is lost in the rounding of the vertices: they would be the points (b, d) themselves."""
    norms = torch.linalg.vector_norm(points, dim=1, dtype=torch.promote_types(points.dtype, torch.float32))
    rounding = torch.finfo(points.dtype).eps / 2 * float(norms.max())
    if rounding > _MOST_ROUNDED * radius:
        raise InputError(
            f"Expected a radius of at least {rounding / _MOST_ROUNDED:.2g} for inputs of this size in {points.dtype}, "
            f"got {radius:g}, which rounding hides. Raise radius, or pass the model in a more precise dtype."
        )


def _dims_of(dims: int | None, d: int) -> int:
    """The number of directions; min(25, d) by default."""
    return min(_USUAL_DIMS, d) if dims is None else dims


def _check_dims(dims: int, d: int) -> None:
    """Refuse numbers of directions that an input of d numbers does not have."""
    if not is_integer(dims) or dims > d:
        raise InputError(f"Expected 1 <= dims <= {d} for inputs of {d} entries, got {dims}. Pass such a whole number.")
