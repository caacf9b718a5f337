"""``local_complexity``: how many units fold the neighbourhood of a point."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from regionscope.checks import whole
from regionscope.complexity.frames import check_dims, draw_frames
from regionscope.complexity.layers import LayerChoice, select, survey
from regionscope.complexity.neighbourhoods import Pass, Shape, count_vertices, passes
from regionscope.complexity.sign_changes import Tally
from regionscope.errors import InputError
from regionscope.geometry.points import read_array
from regionscope.network import home, untouched

__all__ = ["FrameChoice", "LocalComplexity", "Neighbourhoods", "Piece", "local_complexity"]

FrameChoice = Literal["shared", "per-point"] | Tensor


@dataclass(frozen=True, eq=False)
class LocalComplexity:
    """Local complexity of b points.

    total: (b,) units that fold the neighbourhood of each point. by_layer: the same for each layer, in the order of the
        forward pass; they add up to ``total``. units: how many units each layer has (for one input).
    dims, radius: of the neighbourhood.
    """

    total: Tensor
    by_layer: dict[str, Tensor]
    units: dict[str, int]
    dims: int
    radius: float

    def __repr__(self) -> str:
        error = f" ± {self.stderr:.2g}" if len(self) > 1 else ""
        return f"LocalComplexity(points={len(self)}, mean={self.mean:.6g}{error}, units={sum(self.units.values())})"

    def __len__(self) -> int:
        return len(self.total)

    @property
    def mean(self) -> float:
        """Mean over the points."""
        return float(self.total.double().mean())

    @property
    def std(self) -> float:
        """Standard deviation over the points; NaN for a single one."""
        return float(self.total.double().std()) if len(self) > 1 else math.nan

    @property
    def stderr(self) -> float:
        """Standard error of the mean over the points; NaN for a single one."""
        return self.std / math.sqrt(len(self))


def local_complexity(
    model: nn.Module,
    x: Tensor | np.ndarray[Any, Any],
    *,
    dims: int = 25,
    radius: float = 0.005,
    frames: FrameChoice = "shared",
    hull: Shape = "cross-polytope",
    layers: LayerChoice | None = None,
    linear_outputs: bool = False,
    max_pool: bool = False,
    seed: int = 0,
    generator: torch.Generator | None = None,
    memory: int | None = None,
) -> LocalComplexity:
    """LC(x, r) = #{units whose pre-activation takes both signs on the vertices x ± r v_p}, p = 1..P, v_p orthonormal.

    Humayun et al. 2023, section 3.2. Differs: the fold of a unit is where its activation has its kink (ReLU6 has
    two), or else zero; a value of exactly zero has no sign; all points share one frame unless asked otherwise, which
    is faster and keeps curves over training smooth (the same ``seed`` is the same frame). Works for any
    ``nn.Module``, in eval mode and the model's own dtype and device; the model, its gradients, buffers and hooks and
    the random state are as before.

    x: (b, *input_shape). dims, radius: P and r. frames: "shared", "per-point", or orthonormal directions of your own,
        (P, *input_shape) or (b, P, *input_shape), in place of ``dims``; see ``orthonormal_frames``.
    hull: "cross-polytope" (2 P vertices) or "hypercube" (2^P vertices x + r / sqrt(P) sum ± v_p, up to P = 12).
    layers: names, patterns ("features.*") or module types, of the activation or of the layer that feeds it;
        ``layers=nn.Conv2d`` counts convolutions only.
    linear_outputs: also count outputs of linear and convolution layers that no activation follows, at zero.
    max_pool: also count windows of max-pooling whose largest entry changes.
    seed, generator: where the frames come from; a generator gives new ones at each call.
    memory: bytes of live values to stay within, down to one vertex at a time; 16 MiB on a CPU, whose caches like small
        pieces, and 1 GiB on a GPU. The result is the same.

    Cost: one forward pass of 2·P·b inputs; with a shared frame less, as the first linear or convolution layer is
    W x + b ± r W v.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"The model came as {type(model).__name__}; a torch module is needed.")
    where = Neighbourhoods.read(
        model, x, dims=dims, radius=radius, frames=frames, hull=hull, seed=seed, generator=generator
    )
    with untouched(model):
        found = survey(model, where.points[0].reshape(where.shape))
        sites = select(found, layers, max_pool=max_pool, linear_outputs=linear_outputs)
        tally = Tally(model, sites)
        with tally.watching():
            counted = [
                tally.counts(where.points[piece.start : piece.stop], where.passes(piece), where.shape)
                for piece in where.pieces(found.row_bytes, memory)
            ]
    by_layer = {site.name: torch.cat([counts[site.name] for counts in counted]) for site in sites}
    for name, counts in by_layer.items():
        if bool((counts < 0).any()):
            raise InputError(f"'{name}' receives NaN; look for NaN or infinite weights in the layers before it.")
    total = torch.stack(list(by_layer.values())).sum(0)
    return LocalComplexity(total, by_layer, {site.name: site.units for site in sites}, where.dims, radius)


@dataclass(frozen=True)
class Piece:
    """Points start..stop, worked through so many vertices at a time."""

    start: int
    stop: int
    vertices: int


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """b points (b, d) and how to build the hull around each; read once, handed out piece by piece."""

    points: Tensor
    shape: tuple[int, ...]
    dims: int
    radius: float
    hull: Shape
    frames: Tensor | None
    generator: torch.Generator

    @staticmethod
    def read(
        model: nn.Module, x: Tensor | np.ndarray[Any, Any], *, dims: int, radius: float, frames: FrameChoice, hull:
            Shape,
        seed: int, generator: torch.Generator | None,
    ) -> Neighbourhoods:  # fmt: skip
        """Check the arguments and bring the points to the model's device and dtype."""
        device, dtype = home(model)
        points = read_array(x).detach().to(device=device, dtype=dtype)
        if points.ndim < 2 or len(points) == 0 or points[0].numel() == 0:
            raise InputError(f"x has shape {tuple(points.shape)}; (b, *input_shape) with at least one point is needed.")
        if not bool(torch.isfinite(points).all()):
            raise InputError("x holds NaN or infinite values; local complexity needs finite inputs.")
        if not (math.isfinite(radius) and radius > 0):
            raise InputError(f"radius is {radius}; a finite number larger than 0 is needed.")
        shape, flat = tuple(points.shape[1:]), points.flatten(1)
        source = generator if generator is not None else torch.Generator().manual_seed(whole("seed", seed, least=0))
        given = _given_frames(frames, len(flat), shape, flat)
        dims = dims if given is None else given.shape[1]
        check_dims(dims, flat.shape[1])
        count_vertices(hull, dims)
        if given is None and frames == "shared":
            given = draw_frames(1, dims, flat.shape[1], source, dtype).to(device)
        return Neighbourhoods(flat, shape, dims, radius, hull, given, source)

    def pieces(self, row_bytes: int, memory: int | None) -> Iterator[Piece]:
        """Cut the points so that a pass over their vertices stays within ``memory`` bytes."""
        if memory is None:
            memory = 16 << 20 if self.points.device.type == "cpu" else 1 << 30
        rows = max(1, whole("memory", memory) // row_bytes)
        m = count_vertices(self.hull, self.dims)
        n = max(1, rows // m)
        for start in range(0, len(self.points), n):
            yield Piece(start, min(start + n, len(self.points)), min(m, max(1, rows)))

    def passes(self, piece: Piece) -> Iterator[Pass]:
        """The vertices around the points of a piece. Call it for all pieces in order: frames may be drawn here."""
        if self.frames is None:
            n, d = piece.stop - piece.start, self.points.shape[1]
            frames = draw_frames(n, self.dims, d, self.generator, self.points.dtype).to(self.points.device)
        else:
            frames = self.frames if len(self.frames) == 1 else self.frames[piece.start : piece.stop]
        return passes(self.hull, self.points[piece.start : piece.stop], frames, self.radius, piece.vertices)


def _given_frames(frames: FrameChoice, b: int, shape: tuple[int, ...], like: Tensor) -> Tensor | None:
    """The user's own directions as (1 or b, P, d); None when they are to be drawn."""
    if not isinstance(frames, Tensor):
        if frames not in ("shared", "per-point"):
            raise InputError(f'frames is {frames!r}; it must be "shared", "per-point" or a tensor of directions.')
        return None
    own = frames.to(like)
    if tuple(own.shape[1:]) == shape and own.ndim == 1 + len(shape):
        own = own[None]
    if tuple(own.shape[2:]) != shape or len(own) not in (1, b):
        raise InputError(
            f"frames has shape {tuple(frames.shape)}; (P, *input_shape) or (b, P, *input_shape) is needed, "
            f"with b = {b} and input_shape = {shape}."
        )
    flat = own.flatten(2)
    some = flat[:: max(1, len(flat) // 8)]  # whoever forgot to make them orthonormal forgot it for all points
    gram = some @ some.transpose(1, 2)
    error = float((gram - torch.eye(gram.shape[1], dtype=gram.dtype, device=gram.device)).abs().max())
    coarsest = max(torch.finfo(kind).eps for kind in (frames.dtype, like.dtype) if kind.is_floating_point)
    if not error < 100 * coarsest * math.sqrt(flat.shape[2]):
        raise InputError(f"The directions in frames are not orthonormal (off by {error:.1e}); use orthonormal_frames.")
    return flat
