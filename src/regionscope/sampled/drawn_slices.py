"""Drawing slices: hulls of random inputs, random directions from an input, lines from the origin to an input.

Slice i depends on (seed, i) alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from regionscope.checks import check_positive, read_integer, read_number, read_seed
from regionscope.errors import InputError, SliceError
from regionscope.formatting import counted
from regionscope.geometry import Segment, Simplex, Slice
from regionscope.geometry.haar import haar_frames
from regionscope.geometry.slices import read_slices
from regionscope.inputs import Examples, Inputs, read_examples, stacked

_ATTEMPTS = 100
_DEFAULT_SLICES = 100  # slices drawn from a sampler without a limit
_PAIRS_FOR_LENGTH = 256


@runtime_checkable
class SliceSampler(Protocol):
    """Draws slices of one dimension, numbered from 0."""

    @property
    def dim(self) -> int: ...
    @property
    def seed(self) -> int | None: ...
    @property
    def limit(self) -> int | None:
        """Number of slices; None for an unlimited number."""
        ...

    def draw(self, i: int) -> Slice: ...


@dataclass(frozen=True, eq=False)
class DrawnSlices:
    """Slices through inputs.

    limit: number of slices; None for any number.
    """

    inputs: Inputs | Examples
    _: KW_ONLY
    seed: int = 0
    limit: int | None = None

    @cached_property
    def _examples(self) -> Examples:
        return read_examples(self.inputs)

    def _check(self) -> None:
        read_seed(self.seed)
        if self.limit is not None:
            read_integer("limit", self.limit)

    def _random_input(self, generator: torch.Generator) -> Tensor:
        """A random input."""
        return _item(self._examples, int(torch.randint(len(self._examples), (1,), generator=generator, device="cpu")))


@dataclass(frozen=True, eq=False)
class Hulls(DrawnSlices):
    """The convex hull of dim + 1 inputs drawn without replacement. Li et al. 2025, Definition 4.4.

    inputs: a tensor, an array, a Dataset or a DataLoader; only the inputs that are drawn are loaded.
    alpha: (lo, hi) other than (0, 1) stretches the hull: x_0 + sum alpha_i (x_i - x_0) with every alpha_i >= lo and
        sum alpha_i <= hi. In 1-D that is lo <= alpha <= hi (Table 6 of the paper).

    A draw that has lost a dimension (equal inputs, for instance) is repeated; 100 such draws in a row raise an error.
    The random numbers come from a local CPU generator, so a slice does not depend on batch size, device or number of
    slices. limit: number of slices that ``region_count(model, slices=Hulls(...))`` draws.
    """

    _: KW_ONLY
    dim: int = 1
    alpha: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        read_integer("dim", self.dim)
        self._check()
        if len(self._examples) < self.dim + 1:
            raise InputError(
                f"Expected at least {self.dim + 1} inputs for slices of dimension {self.dim}, got "
                f"{counted(len(self._examples), 'input')}. Pass more inputs or lower dim=."
            )
        if not isinstance(self.alpha, Sequence) or len(self.alpha) != 2:
            raise InputError(
                f"Expected alpha to be a pair of numbers, got {self.alpha!r}. Write (0.0, 1.0), for example."
            )
        lo, hi = (read_number("alpha", end) for end in self.alpha)
        object.__setattr__(self, "alpha", (lo, hi))
        if not (hi > self.dim * lo and hi > lo):
            raise InputError(
                f"Expected alpha to be two numbers lo < hi with dim * lo < hi, got {lo} and {hi}. "
                "Lower the first, or raise the second."
            )

    def draw(self, i: int) -> Slice:
        """Slice number i."""
        generator = _generator(self.seed, i)
        for _ in range(_ATTEMPTS):
            chosen = _without_replacement(len(self._examples), self.dim + 1, generator)
            points = stacked([_item(self._examples, j) for j in chosen], "input", chosen)
            try:
                return _stretched(points, self.alpha)
            except SliceError as reason:
                if self.dim > points[0].numel() or not bool(torch.isfinite(points).all()):
                    raise
                lost = reason
        raise SliceError(
            f"Expected inputs that span slices of dimension {self.dim}, got none in {_ATTEMPTS} draws. Lower dim, or "
            f"pass inputs that differ. The last draw said: {lost}"
        ) from lost


@dataclass(frozen=True, eq=False)
class RandomDirections(DrawnSlices):
    """One input and ``dim`` random orthonormal directions of a fixed length ("Random" in Table 8 of Li et al. 2025).

    In 1-D: the segment from x to x + length * u, with u uniform on the unit sphere. In k-D: the simplex of x and
    x + length * u_1, ..., x + length * u_k, with Haar-distributed directions: each of them is uniform on the sphere.

    length: by default the mean distance of 256 random pairs of inputs, so that the slices are about as long as hulls.
    inputs, limit: as in ``Hulls``.
    """

    _: KW_ONLY
    dim: int = 1
    length: float | None = None

    def __post_init__(self) -> None:
        read_integer("dim", self.dim)
        self._check()
        least = 2 if self.length is None else 1
        if len(self._examples) < least:
            raise InputError(
                f"Expected at least {counted(least, 'input')}, got {len(self._examples)}. "
                "Pass more inputs, or lower dim=."
            )
        if self.length is not None:
            check_positive(length=self.length)

    @cached_property
    def reach(self) -> float:
        """The length in use."""
        if self.length is not None:
            return self.length
        generator = _generator(self.seed, -1)
        pairs = [_without_replacement(len(self._examples), 2, generator) for _ in range(_PAIRS_FOR_LENGTH)]
        mean = sum(float((_item(self._examples, a) - _item(self._examples, b)).norm()) for a, b in pairs) / len(pairs)
        if mean == 0.0:
            raise InputError("Expected different inputs to derive length from, got equal ones. Pass length.")
        return mean

    def draw(self, i: int) -> Slice:
        """Slice number i."""
        generator = _generator(self.seed, i)
        start = self._random_input(generator)
        d = start.numel()
        if self.dim > d:
            raise SliceError(f"Expected dim of at most {d} for inputs of {d} entries, got {self.dim}. Lower dim.")
        normal = torch.randn(d, self.dim, generator=generator, dtype=torch.float64, device="cpu")
        directions = haar_frames(normal) if self.dim > 1 else (normal / normal.norm()).T
        ends = start + self.reach * directions.reshape(self.dim, *start.shape)
        return _stretched(torch.cat([start[None], ends]), (0.0, 1.0))


@dataclass(frozen=True, eq=False)
class LinesFromOrigin(DrawnSlices):
    """The segment from the origin to a random input. Qi & Wei 2023, Figure 3, after Hanin & Rolnick 2019.

    An input equal to the origin is drawn again; 100 such draws in a row raise an error. inputs, limit: as in ``Hulls``.
    """

    dim = 1

    def __post_init__(self) -> None:
        self._check()
        if len(self._examples) < 1:
            raise InputError("Expected at least one input, got 0. Pass one input or more.")

    def draw(self, i: int) -> Slice:
        """Slice number i."""
        generator = _generator(self.seed, i)
        for _ in range(_ATTEMPTS):
            end = self._random_input(generator)
            if bool(end.any()):
                return Segment(torch.zeros_like(end), end)
        raise SliceError(
            f"Expected inputs other than the origin, got only the origin in {_ATTEMPTS} draws. Pass other inputs."
        )


@dataclass(frozen=True)
class GivenSlices:
    """A given list of slices, in order."""

    slices: Sequence[Slice]

    seed = None  # nothing is drawn

    def __post_init__(self) -> None:
        shapes = sorted({slice.input_shape for slice in read_slices(self.slices)})
        if len(shapes) > 1:
            raise InputError(f"Expected slices of one input shape, got {shapes}. Call once for each shape.")

    @property
    def dim(self) -> int:
        return self.slices[0].dim

    @property
    def limit(self) -> int:
        return len(self.slices)

    def draw(self, i: int) -> Slice:
        return self.slices[i]


Slices = int | Sequence[Slice] | SliceSampler
"""The slices of a measure: their number, a list of them, or what draws them."""


def inputs_to_slice(inputs: Inputs | None, slices: Slices) -> Inputs | Examples | None:
    """The inputs to draw slices through: those that are given, or those of the sampler."""
    if isinstance(slices, str):
        raise not_slices(slices)
    first = inputs[0] if isinstance(inputs, Sequence) and len(inputs) else inputs
    if isinstance(first, Slice | SliceSampler):
        how = "slices=[...]" if isinstance(first, Slice) else "it as slices=..."
        raise InputError(f"Expected inputs to draw slices through, got {type(first).__name__}. Pass {how}.")
    if isinstance(slices, Sequence) or not isinstance(slices, SliceSampler):
        return inputs
    if inputs is not None:
        raise InputError(
            f"Expected either inputs or slices={type(slices).__name__}(...), got both. Leave the inputs out: the "
            "sampler has its own."
        )
    return slices.inputs if isinstance(slices, DrawnSlices) else None


def given_sampler(sampler: SliceSampler, inputs: Inputs | Examples | None, *, has_options: bool) -> SliceSampler:
    """The sampler, with ``inputs`` (its own, as they are read) in their place.

    has_options: whether options that say how to draw slices were passed beside it, which is an ``InputError``.
    """
    if has_options:
        raise InputError(
            f"Expected no dim, through, alpha, length or seed with slices={type(sampler).__name__}(...), "
            "got at least one of them. Pass them to the sampler."
        )
    return sampler if inputs is None or not isinstance(sampler, DrawnSlices) else replace(sampler, inputs=inputs)


def not_slices(value: object) -> InputError:
    """The error for a value that is passed as ``slices``."""
    return InputError(
        f"Expected slices to be a whole number of at least 1, or a list of slices, got {value!r}. "
        "Pass 100, for example."
    )


def number_of(slices: Slices) -> int:
    """The number of slices to draw; ``over_slices`` draws all slices of a sampler with a limit."""
    if isinstance(slices, Sequence):
        return len(slices)
    return _DEFAULT_SLICES if isinstance(slices, SliceSampler) else slices


def _generator(seed: int, i: int) -> torch.Generator:
    state = np.random.SeedSequence([seed, i + 1]).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state) >> 1)


def _without_replacement(n: int, m: int, generator: torch.Generator) -> list[int]:
    """m different numbers below n, every ordered choice equally likely (Floyd's method: m draws, whatever n is)."""
    chosen: list[int] = []
    for top in range(n - m, n):
        pick = int(torch.randint(top + 1, (1,), generator=generator, device="cpu"))
        chosen.append(top if pick in chosen else pick)
    return [chosen[j] for j in torch.randperm(m, generator=generator, device="cpu").tolist()]


def _item(examples: Examples, i: int) -> Tensor:
    value = examples.input(i).to("cpu", torch.float64)
    if not bool(torch.isfinite(value).all()):
        raise InputError(
            f"Expected finite inputs, got NaN or infinite values in input {i}. Remove or repair this input."
        )
    return value


def _stretched(points: Tensor, alpha: tuple[float, float]) -> Slice:
    lo, hi = alpha
    k = len(points) - 1
    if k == 1:
        segment = Segment(points[0], points[1])
        return segment if alpha == (0.0, 1.0) else segment.extended(lo, hi)
    if alpha == (0.0, 1.0):
        return Simplex(points)
    directions = points[1:] - points[0]
    corner = points[0] + lo * directions.sum(0)
    return Simplex(torch.cat([corner[None], corner + (hi - k * lo) * directions]))
