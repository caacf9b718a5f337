"""``region_count``: the mean number of decision regions on random slices, for any classifier, with its error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import astuple, dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regionscope.checks import one_of, unknown_name
from regionscope.cluster import open_shards
from regionscope.errors import InputError, NotPiecewiseAffine
from regionscope.exact.decision import decision_regions
from regionscope.exact.linear import linear_regions, program_of
from regionscope.extras import data_frame
from regionscope.formatting import estimated
from regionscope.geometry import Slice
from regionscope.inputs import Examples, Inputs, read_examples
from regionscope.measures.over_slices import bootstrap_interval, over_slices
from regionscope.network import Program
from regionscope.network.embedded import embedded
from regionscope.network.estimator import is_estimator
from regionscope.network.output import Arguments, Output, select_output
from regionscope.network.token_ids import takes_tokens
from regionscope.sampled.drawn_slices import (
    GivenSlices,
    Hulls,
    LinesFromOrigin,
    RandomDirections,
    Slices,
    SliceSampler,
    given_sampler,
    inputs_to_slice,
    number_of,
)
from regionscope.sampled.grid import RefinedCounts, grid_counts, lattice_for, refined_counts
from regionscope.sampled.labels import Labeller, open_labeller
from regionscope.types import Estimate, Progress, Reading, Status

Method = Literal["grid", "refined", "exact"]
Pieces = Literal["linear", "activation"]
_SLICES_PER_CALL = 64  # slices that are counted in one call, for each thread of a cluster


class SliceCounter:
    """Counts the regions of blocks of slices.

    plain, settled: for refined counts, the counts on the plain grid and whether each slice settled, block by block.
    """

    def __init__(
        self, count: Callable[[Sequence[Slice]], Tensor | RefinedCounts], labeller: Labeller | None, threads: int = 1
    ) -> None:
        self.count, self._labeller = count, labeller
        self.slices_per_call = threads * _SLICES_PER_CALL
        self.plain: list[Tensor] = []
        self.settled: list[Tensor] = []

    def __call__(self, block: Sequence[Slice]) -> Tensor:
        result = self.count(block)
        if isinstance(result, Tensor):
            return result
        self.plain.append(result.plain)
        self.settled.append(result.settled)
        return result.counts

    @property
    def model_seconds(self) -> float:
        return 0.0 if self._labeller is None else self._labeller.seconds

    @property
    def status(self) -> Status:
        """Whether the counts of all slices settled."""
        n = sum(len(block) for block in self.settled)
        unsettled = n - sum(int(block.sum()) for block in self.settled)
        if not unsettled:
            return Status()
        reason = f"the counts of {unsettled} of {n} slices still changed at the finest lattice; raise max_points"
        return Status(complete=False, reason=reason)


@contextmanager
def open_counter(
    model: Any, inputs: Examples | None, first: Slice, *, method: Method, grid: int | None, batch_size: int | None,
    memory: int | None, max_points: int,
) -> Iterator[SliceCounter]:  # fmt: skip
    """The counter of a method; the model is in eval mode while it is open."""
    if method == "exact":
        for name, value in (("grid", grid), ("batch_size", batch_size)):
            if value is not None:
                raise InputError(
                    f'Expected {name}=None with method="exact", which has no lattice and computes in float64, got '
                    f'{value}. Leave it out, or use method="grid" or "refined".'
                )
        yield SliceCounter(_exact(model, first, memory), None)
        return
    one_of("method", method, ("grid", "refined", "exact"))
    count: Callable[..., Tensor | RefinedCounts] = partial(refined_counts, max_points=max_points)
    count = grid_counts if method == "grid" else count
    with open_labeller(
        model, inputs, first.input_shape, batch_size=batch_size, memory=memory, widened=True
    ) as labeller:
        yield SliceCounter(partial(count, labeller, grid=grid), labeller)


Opener = Callable[[Slice], AbstractContextManager[SliceCounter]]


@contextmanager
def open_counter_on(dask: str, model: Any, opener: Opener) -> Iterator[SliceCounter]:
    """A counter that shares each block among the workers of a cluster."""
    with open_shards(partial(_count_shard, opener), _joined, model, dask) as shards:
        yield SliceCounter(shards, None, shards.threads)


@contextmanager
def open_linear_counter(
    model: nn.Module | Program, program: Program, pieces: Pieces, memory: int | None, dask: str | None
) -> Iterator[SliceCounter]:
    """A counter of linear or activation regions, exact; the workers of a cluster trace the model themselves."""
    if dask is None:
        yield SliceCounter(partial(_linear_counts, program, pieces, memory), None)
        return
    with open_shards(partial(_linear_counts, model, pieces, memory), torch.cat, model, dask) as shards:
        yield SliceCounter(shards, None, shards.threads)


def _count_shard(opener: Opener, shard: Sequence[Slice]) -> Tensor | RefinedCounts:
    with opener(shard[0]) as counter:
        return _joined([counter.count(shard[i : i + _SLICES_PER_CALL]) for i in range(0, len(shard), _SLICES_PER_CALL)])


def _joined(parts: Sequence[Tensor | RefinedCounts]) -> Tensor | RefinedCounts:
    refined = [part for part in parts if isinstance(part, RefinedCounts)]
    if refined:
        return RefinedCounts(*(torch.cat(parts) for parts in zip(*map(astuple, refined), strict=True)))
    return torch.cat([part for part in parts if isinstance(part, Tensor)])


def _exact(model: Any, first: Slice, memory: int | None) -> Callable[[Sequence[Slice]], Tensor]:
    if not isinstance(model, nn.Module | Program) and not is_estimator(model):
        raise InputError(
            f'Expected a torch module for method "exact", got {type(model).__name__}. Use "grid" or "refined".'
        )
    try:
        program = model if isinstance(model, Program) else program_of(model, [first])
    except NotPiecewiseAffine as error:
        raise NotPiecewiseAffine(f'{error} For region_count, pass method="refined" or "grid".') from error

    def count(block: Sequence[Slice]) -> Tensor:
        return torch.tensor([dec.count for dec in decision_regions(program, block, memory=memory)], device="cpu")

    return count


def _linear_counts(model: nn.Module | Program, pieces: Pieces, memory: int | None, block: Sequence[Slice]) -> Tensor:
    parts = linear_regions(model, block, memory=memory)
    counts = [part.n_linear_regions if pieces == "linear" else part.n_activation_regions for part in parts]
    return torch.tensor(counts, device="cpu")


Through = Literal["inputs", "direction", "origin"]


@dataclass(frozen=True, eq=False)
class RegionCount:
    """The mean number of regions over n slices, with error estimates.

    counts: (n,) int64, number of regions of each slice, in the order of drawing. dim: dimension of the slices.
    method: "grid" (too low or too high where the lattice is too coarse), "refined" (can miss thin regions) or "exact".
    grid: points along each axis of the (first) lattice; None for exact counts.
    plain_counts: (n,) counts of the first lattice if it was refined, else None.
    seed: seed of the slices and of the bootstrap; None if you passed the slices.
    seconds: duration of the call; model_seconds: the part spent in the model (0 for exact counts).
    status: whether every count converged and the requested precision was reached.
    pieces: what was counted: "decision" regions, or "linear" or "activation" regions (``linear_region_count``).
    """

    counts: Tensor
    dim: int
    method: Method
    grid: int | None
    seed: int | None
    seconds: float
    model_seconds: float = 0.0
    plain_counts: Tensor | None = None
    status: Status = Status()  # noqa: RUF009 - frozen, and the same for all
    pieces: Literal["decision", "linear", "activation"] = "decision"

    def __repr__(self) -> str:
        low, high = (estimated(end, None) for end in self.interval)
        mean = estimated(self.value, self.stderr) + (f", 95% [{low}, {high}]" if self.n > 1 else "")
        counted = f"method={self.method!r}" if self.pieces == "decision" else f"pieces={self.pieces!r}"
        state = "" if self.status else ", incomplete"
        return f"RegionCount({mean}, n={self.n}, dim={self.dim}, {counted}{state})"

    def to_pandas(self) -> Any:
        """A pandas DataFrame with one row for each slice: its count, and that of the first lattice if refined."""
        plain = {} if self.plain_counts is None else {"plain_count": self.plain_counts.cpu().numpy()}
        return data_frame({"count": self.counts.cpu().numpy(), **plain})

    def readings(self) -> tuple[Reading, ...]:
        """The mean number of regions."""
        return (("", self.value, self.stderr),)

    @property
    def value(self) -> float:
        """Mean number of regions: the estimate of R_d."""
        return self.estimate.value

    @property
    def stderr(self) -> float:
        """Standard error of the mean over slices (NaN for one slice)."""
        return self.estimate.stderr

    @property
    def n(self) -> int:
        """Number of slices."""
        return len(self.counts)

    @cached_property
    def estimate(self) -> Estimate:
        """Mean, standard error and n."""
        return Estimate.of(self.counts)

    @cached_property
    def interval(self) -> tuple[float, float]:
        """95% bootstrap interval of the mean, over slices (NaN for one slice)."""
        return bootstrap_interval(self.counts, seed=self.seed)

    @cached_property
    def grid_bias(self) -> Estimate | None:
        """Mean of (plain grid - refined) over the slices: estimates the error of the plain grid. None unless refined.

        Refined counts miss thin regions too, so on lines the grid misses at least this many. Exact counts have no bias.
        """
        return None if self.plain_counts is None else Estimate.of(self.plain_counts - self.counts)


def region_count(
    model: Any, inputs: Inputs | None = None, *, dim: int = 1, slices: Slices = 100,
    grid: int | None = None, method: Method = "grid",
    through: Through = "inputs", alpha: tuple[float, float] = (0.0, 1.0), length: float | None = None,
    until: float | None = None, max_slices: int = 100_000, seed: int = 0,
    batch_size: int | None = None, memory: int | None = None,
    max_points: int = 100_000, progress: Progress | None = None, output: Output | None = None,
    args: Arguments = (), position: int = -1, attention_mask: Any = None, dask: str | None = None,
) -> RegionCount:  # fmt: skip
    """R_d: the mean number of connected regions of one predicted label on slices through d + 1 random inputs.

    Li et al. 2025, Definition 4.4. ``through="inputs"``: hulls of dim + 1 inputs drawn without replacement, stretched
    to ``alpha`` (see ``Hulls``). ``through="direction"``: one input and a random direction of fixed ``length`` (see
    ``RandomDirections``). ``through="origin"``: the line from the origin to one input (see ``LinesFromOrigin``), where
    dim = 1.
    inputs: a tensor, an array, a Dataset or a DataLoader; only the inputs that are drawn are loaded. Integers count as
        real numbers of the same value: scale pixels from 0 to 255 as in training.
    slices: number of slices, a list of slices, or a sampler such as ``Hulls(inputs, dim=2, limit=50)``, which takes the
        place of ``inputs``, ``dim``, ``through``, ``alpha``, ``length`` and ``seed``; without a limit it draws 100.
    until: relative standard error at which to stop drawing slices.

    model: an ``nn.Module`` (run in eval mode, on a private copy), a function or an estimator; see ``open_labeller``.
        A module in half precision runs in float32, where its weights are the same numbers.
    method: "grid" counts face-connected pieces on a lattice of ``grid`` points along each axis (200 in 1-D, 30 in 2-D,
        for more see ``default_grid``); "refined" halves the spacing until the count of a slice is stable, up to
        ``max_points`` points; "exact" takes the decision regions of a piecewise-affine ``nn.Module``. A refined count
        stops when two successive lattices agree, so it can miss thin regions, and ``status`` does not say so: on lines,
        ``grid_bias`` is a lower bound of what the grid misses. "exact" gives the true counts; ``grid=800`` in 1-D is a
        cheap check.
    output, args: the part of the model's output that holds the logits, and its further arguments; see
        ``select_output``.
    position, attention_mask: for token ids (n, t) as inputs: the regions are those of the next token at ``position``,
        on slices through the embeddings of the sequences; see ``embedded``. -1 is the last real token.
    dask: address of a Dask cluster ("tcp://host:8786" or "local:4") whose workers share the slices; the counts are the
        same. Needs the extra ``dask``. The model is sent to the workers.
    Cost: a forward pass over slices * lattice points in batches that fit ``memory``; exact: see ``decision_regions``.
    """
    points = inputs_to_slice(inputs, slices)
    if points is not None and takes_tokens(model, points):
        view = embedded(model, points, position=position, attention_mask=attention_mask, output=output, args=args)
        model, points = view.model, view.inputs
    elif position != -1 or attention_mask is not None:
        raise InputError(
            "Expected position and attention_mask with token ids, got them with inputs that are not ids. "
            "Leave both out."
        )
    else:
        model = select_output(model, output, args)
    examples = None if points is None else read_examples(points)
    sampler = slice_sampler(examples, dim=dim, slices=slices, through=through, alpha=alpha, length=length, seed=seed)
    first = sampler.draw(0)
    listed = sampler.slices if isinstance(sampler, GivenSlices) else [first]  # all, whatever the blocks they come in
    points_per_axis = grid if method == "exact" else lattice_for(listed, grid).grid
    opener = partial(
        open_counter, model, examples if dask is None else None, method=method, grid=points_per_axis,
        batch_size=batch_size, memory=memory, max_points=max_points,
    )  # fmt: skip
    with opener(first) if dask is None else open_counter_on(dask, model, opener) as counter:
        results = over_slices(
            counter, sampler, slices=number_of(slices), until=until, max_slices=max_slices,
            slices_per_call=counter.slices_per_call, progress=progress,
        )  # fmt: skip
    return RegionCount(
        counts=results.values,
        dim=sampler.dim,
        method=method,
        grid=points_per_axis,
        seed=sampler.seed,
        seconds=results.seconds,
        model_seconds=counter.model_seconds,
        plain_counts=torch.cat(counter.plain) if counter.plain else None,
        status=_combined_status(results.status, counter.status),
    )


def linear_region_count(
    model: nn.Module | Program, inputs: Inputs | None = None, *, dim: int = 1, slices: Slices = 100,
    pieces: Pieces = "linear", through: Through = "inputs",
    alpha: tuple[float, float] = (0.0, 1.0), length: float | None = None, until: float | None = None,
    max_slices: int = 100_000, seed: int = 0, memory: int | None = None,
    progress: Progress | None = None, output: Output | None = None, args: Arguments = (),
    dask: str | None = None,
) -> RegionCount:  # fmt: skip
    """The mean exact number of linear (or activation) regions on random slices, with its standard error.

    Arguments as in ``region_count``; with the same seed, both functions use the same slices.
    Cost: see ``linear_regions``.
    """
    examples = None if (points := inputs_to_slice(inputs, slices)) is None else read_examples(points)
    sampler = slice_sampler(examples, dim=dim, slices=slices, through=through, alpha=alpha, length=length, seed=seed)
    model = select_output(model, output, args)
    program = model if isinstance(model, Program) else program_of(model, [sampler.draw(0)])
    one_of("pieces", pieces, ("linear", "activation"))
    with open_linear_counter(model, program, pieces, memory, dask) as counter:
        results = over_slices(
            counter, sampler, slices=number_of(slices), until=until, max_slices=max_slices,
            slices_per_call=counter.slices_per_call, progress=progress,
        )  # fmt: skip
    return RegionCount(
        results.values, sampler.dim, "exact", None, sampler.seed, results.seconds, status=results.status, pieces=pieces
    )


def slice_sampler(
    inputs: Inputs | Examples | None,
    *,
    dim: int = 1,
    slices: Slices = 100,
    through: Through = "inputs",
    alpha: tuple[float, float] = (0.0, 1.0),
    length: float | None = None,
    seed: int = 0,
) -> SliceSampler:
    """The sampler that ``region_count`` uses for these arguments."""
    if isinstance(slices, Sequence):
        return GivenSlices(list(slices))
    if isinstance(slices, SliceSampler):
        has_options = (dim, through, alpha, length, seed) != (1, "inputs", (0.0, 1.0), None, 0)
        return given_sampler(slices, inputs, has_options=has_options)
    if inputs is None:
        raise InputError("Expected inputs to draw slices through, got None. Pass inputs, or slices=[...].")
    if through == "inputs":
        if length is not None:
            raise InputError(
                'Expected length only with through="direction", got it with another. For hulls of inputs, pass alpha.'
            )
        return Hulls(inputs, dim=dim, seed=seed, alpha=alpha)
    if through == "direction":
        if alpha != (0.0, 1.0):
            raise InputError(
                'Expected alpha only with through="inputs", got it with another. For random directions, pass length.'
            )
        return RandomDirections(inputs, dim=dim, seed=seed, length=length)
    if through == "origin":
        if dim != 1 or alpha != (0.0, 1.0) or length is not None:
            raise InputError(
                'Expected dim=1 and neither alpha nor length with through="origin", whose lines end at an input. '
                "Leave the other options out."
            )
        return LinesFromOrigin(inputs, seed=seed)
    raise unknown_name("a valid through", through, ("inputs", "direction", "origin"))


def _combined_status(first: Status, second: Status) -> Status:
    if first and second:
        return first
    return replace(first, complete=False, reason=" and ".join(s.reason for s in (first, second) if not s))
