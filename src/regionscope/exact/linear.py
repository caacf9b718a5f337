"""``linear_regions``: the exact partition of slices into regions on which a network is affine."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn

from regionscope.checks import check_instance, check_memory, check_progress, one_of, read_integer
from regionscope.cluster import open_shards
from regionscope.errors import CheckFailed, InputError, LimitReached, SliceError
from regionscope.exact.budget import Budget, Keep, Record, TooManyRegions, rising
from regionscope.exact.check import check_sample
from regionscope.exact.line import partition_lines
from regionscope.exact.magnitudes import LineProbes
from regionscope.exact.partition import Partition
from regionscope.exact.path import PathPartition, join_legs
from regionscope.exact.plane import partition_planes
from regionscope.exact.polytopes import partition_cells
from regionscope.exact.region_batch import RegionBatch
from regionscope.exact.space import partition_space
from regionscope.exact.zero_tolerance import zero_tolerances_of
from regionscope.geometry import Polyline, Slice
from regionscope.geometry.slices import read_slices
from regionscope.network import Program, full_precision, trace
from regionscope.network.output import Arguments, Output, select_output
from regionscope.tolerance import LOST_SHARE, Tolerance
from regionscope.types import Progress, Stats, Status

Consume = Callable[[RegionBatch], None]


@overload
def linear_regions(
    model: nn.Module | Program, slice: Polyline, *,
    max_regions: int | None = ..., on_limit: Literal["raise", "return"] = ..., memory: int | None = ...,
    tolerance: Tolerance | None = ..., progress: Progress | None = ..., output: Output | None = ...,
    args: Arguments = ..., jumps: bool = ...,
) -> PathPartition: ...  # fmt: skip
@overload
def linear_regions(
    model: nn.Module | Program, slice: Slice, *,
    max_regions: int | None = ..., on_limit: Literal["raise", "return"] = ..., memory: int | None = ...,
    tolerance: Tolerance | None = ..., progress: Progress | None = ..., output: Output | None = ...,
    args: Arguments = ..., jumps: bool = ...,
) -> Partition: ...  # fmt: skip
@overload
def linear_regions(
    model: nn.Module | Program, slice: Sequence[Slice], *,
    max_regions: int | None = ..., on_limit: Literal["raise", "return"] = ..., memory: int | None = ...,
    tolerance: Tolerance | None = ..., progress: Progress | None = ..., output: Output | None = ...,
    args: Arguments = ..., jumps: bool = ..., dask: str | None = ...,
) -> list[Partition]: ...  # fmt: skip
def linear_regions(
    model: nn.Module | Program,
    slice: Slice | Sequence[Slice],
    *,
    max_regions: int | None = None,
    on_limit: Literal["raise", "return"] = "raise",
    memory: int | None = None,
    tolerance: Tolerance | None = None,
    progress: Progress | None = None,
    output: Output | None = None,
    args: Arguments = (),
    jumps: bool = False,
    dask: str | None = None,
) -> Partition | list[Partition]:
    """The exact partition of a slice into activation regions, and with it into linear regions.

    The network is interpreted on the vertices of the current partition; at every fold each region is cut along
    the zero sets of the units that change sign in it, and every live value is interpolated to the new vertices.
    Slices of dimension 1 to 3 work for networks of any size, higher dimensions for small networks. The module is read,
    never run or changed.
    The computation is in float64, whatever the dtype of the weights.

    model: any ``nn.Module`` that torch.fx can trace and that is piecewise affine, or one already read by ``trace``.
    slice: a Segment, Simplex, Box or Polygon, or a list of slices of the same dimension, computed together; or one
        Polyline, whose result is a ``PathPartition``.
    max_regions, on_limit: stop when a slice has more regions; "raise" LimitReached, or "return" the partition after the
        last fold that fits, with the reason in ``status``.
    memory: bytes of live values held at a time (2 GiB by default, on a GPU half of its free memory). Larger partitions
        are computed in pieces, with the same result. In 3 dimensions all regions of one slice are held at once; in more
        dimensions there is no limit.
    progress: called with the finished share of the work, 0 to 1.
    output, args: for a model that returns several tensors or takes further arguments: the part of its output to use (a
        name, an index or a function), and the arguments after the input; see ``select_output``.

    jumps: whether the network may jump between its pieces (comparisons, ``sign``, ``round``, hard shrinkage, ``topk``
        and ``argmax`` that choose entries), on slices of dimension 1 and 2. Regions then have vertices of their own,
        walls have ``Partition.jumps``, and what needs a continuous function is refused.
    dask: address of a Dask cluster ("tcp://host:8786" or "local:4") whose workers share a list of slices; the result is
        the same. Needs the extra ``dask``. The model is sent to the workers.

    Cost: about one forward pass over the final vertices.
    """
    path = slice if isinstance(slice, Polyline) else None
    slices = list(path.legs) if path is not None else read_slices(slice)
    program = program_of(select_output(model, output, args), slices, jumps=jumps)
    if dask is not None:
        if on_limit != "raise":
            raise InputError(f'Expected on_limit="raise" with dask, got {on_limit!r}. Leave one of them out.')
        options = {
            "max_regions": max_regions,
            "memory": memory,
            "tolerance": tolerance,
            "output": output,
            "args": args,
            "jumps": jumps,
        }
        shared = on_workers(linear_regions, model, slice, dask, progress, options)
        return [replace(part, program=program) for part in shared]
    try:
        result = exact_regions(
            program, slices, max_regions=max_regions, on_limit=on_limit, memory=memory, tolerance=tolerance,
            progress=progress,
        )  # fmt: skip
    except LimitReached as limit:
        limit.add_note('Pass on_limit="return" for the regions of the layers before it.')
        raise
    parts = [part.decided() for part in result.partitions()]
    if path is not None:
        return join_legs(path, parts)
    return parts if isinstance(slice, Sequence) else parts[0]


@dataclass(frozen=True)
class BatchResult:
    """The regions of all slices of one call, before ``partitions`` divides them by slice."""

    program: Program
    slices: Sequence[Slice]
    regions: RegionBatch
    rounding: Tensor
    by_layer: list[dict[str, int]]
    snapped: Tensor
    tolerance: Tolerance
    status: Status
    seconds: float

    def partitions(self) -> list[Partition]:
        """One Partition for each slice."""
        parts = self.regions.by_slice(len(self.slices))
        covered = torch.stack([part.sizes.sum() for part in parts]).tolist()
        rounding, snapped = self.rounding.tolist(), self.snapped.tolist()
        partitions = []
        for i, (slice, part) in enumerate(zip(self.slices, parts, strict=True)):
            scale = slice.scale
            check_covers(slice, covered[i] * scale)
            partitions.append(
                Partition(
                    slice=slice,
                    vertices=part.coords,
                    outputs=part.outputs,
                    corners=part.corners,
                    offsets=part.offsets,
                    sizes=part.sizes * scale,
                    walls=part.walls,
                    by_layer=self.by_layer[i],
                    tolerance=self.tolerance,
                    stats=Stats(snapped[i], rounding[i], self.seconds),
                    status=self.status,
                    program=self.program,
                )
            )
        return partitions


def check_covers(slice: Slice, total: float) -> None:
    """Raise unless regions of this total size cover the slice; without this check lost regions would not be noticed."""
    size = slice.size
    if not abs(total - size) <= LOST_SHARE * size:
        raise CheckFailed(
            f"Expected regions that cover the slice, got regions that add up to {total / size:.6f} of the slice. "
            "This is a fault of regionscope, not of the network. Move the slice a little, and report the case."
        )


def on_workers(
    instrument: Callable[..., Any], model: nn.Module | Program, slice: Slice | Sequence[Slice], dask: str,
    progress: Progress | None, options: dict[str, Any],
) -> list[Any]:  # fmt: skip
    """The results of an instrument on a list of slices, computed by the workers of a cluster, without their network."""
    if not isinstance(slice, Sequence):
        raise InputError(f"Expected a list of slices with dask, got one {type(slice).__name__}. Leave dask out.")
    work: Callable[[list[Slice]], list[Any]] = partial(instrument, model, **options)
    with open_shards(work, lambda parts: [batch for part in parts for batch in part], model, dask) as shards:
        return shards(slice, progress)


def program_of(
    model: nn.Module | Program, slices: Sequence[Slice], *, order_only: bool = False, jumps: bool = False
) -> Program:
    """The network in float64; one that was read in float32 keeps its constants, rounded as they are.

    order_only, jumps: see ``trace``.
    """
    if isinstance(model, Program):
        program = model.in_float64()
    else:
        points = partial(_few_points, slices[0])
        program = trace(model, one_shape(slices), points=points, order_only=order_only, jumps=jumps)
    if program.jumps and slices[0].dim > 2:
        raise InputError(
            f"Expected a slice of dimension 1 or 2 for a network that jumps, got dimension {slices[0].dim}. Pass a "
            "Segment or a plane."
        )
    return program


def _few_points(slice: Slice) -> Tensor:
    """(4, *input_shape): two corners of the slice and two points inside it."""
    corners = slice.corners.cpu()
    weights = torch.rand(
        2, len(corners), generator=torch.Generator("cpu").manual_seed(0), dtype=corners.dtype, device="cpu"
    )
    inside = weights / weights.sum(1, keepdim=True) @ corners
    return slice.embed(torch.cat([corners[:1], inside, corners[-1:]]).to(slice.corners.device))


def exact_regions(
    program: Program, slices: Sequence[Slice], *, max_regions: int | None, on_limit: Literal["raise", "return"],
    memory: int | None, tolerance: Tolerance | None, progress: Progress | None, deadline: float = math.inf,
    consume: Consume | None = None,
) -> BatchResult:  # fmt: skip
    """Check the arguments, and cut all slices together. deadline: time.monotonic() at which LimitReached is raised.

    consume: for ``on_limit="raise"``; see ``cut_slices``.
    """
    started = time.perf_counter()
    _check_options(max_regions, on_limit, memory)
    check_shapes(program, slices)
    if tolerance is None:
        tolerance = Tolerance.of(program.dtype)
    check_instance("tolerance", tolerance, Tolerance, advice="Write Tolerance(zero=1e-9, slope=1e-9)")
    check_progress(progress)
    with torch.no_grad(), nullcontext() if program.dtype == torch.float64 else full_precision():
        budget = Budget.of(program.device, memory, max_regions)
        report = None if progress is None else rising(progress)
        new_record = partial(Record.start, n_slices=len(slices), progress=report, deadline=deadline)
        result = _cut_within_limits(
            program, slices, tolerance, budget, on_limit=on_limit, new_record=new_record, consume=consume,
            started=started,
        )  # fmt: skip
        if report is not None:
            report(1.0)
        return result


def _cut_within_limits(
    program: Program,
    slices: Sequence[Slice],
    tolerance: Tolerance,
    budget: Budget,
    *,
    on_limit: str,
    new_record: Callable[[int], Record],
    consume: Consume | None,
    started: float,
) -> BatchResult:
    """Cut at all folds; at a limit either raise, or start again with the folds that fit.

    new_record: makes the record of a number of folds. started: time.perf_counter() when the call began.
    """
    on_line = len(slices) == 1 and slices[0].dim == 1 and consume is None and not program.jumps
    probes = LineProbes() if on_line else None
    zero_tolerances = zero_tolerances_of(program, slices, tolerance, budget, probes)
    probe_outputs = probes.outputs if probes is not None else ()
    n_folds, status = len(program.folds), Status()

    def check_and_consume(part: RegionBatch) -> None:
        check_sample(program, slices, part, zero_tolerances[-1], budget, probe_outputs)
        if consume is not None:
            consume(part)

    while True:
        shortened = program.shortened(n_folds)
        record = new_record(n_folds)
        try:
            parts = cut_slices(
                shortened, slices, zero_tolerances, budget, record,
                consume=None if consume is None else check_and_consume, probes=probes,
            )  # fmt: skip
            if status and consume is None:  # the regions of an unfinished partition have no affine map to check
                check_and_consume(parts)
            break
        except TooManyRegions as limit:
            name = program.folds[limit.fold].name
            reason = f"there are more than max_regions={budget.max_regions} regions after '{name}'"
            if on_limit == "raise":
                raise LimitReached(
                    f"Expected at most max_regions={budget.max_regions} regions, got more after '{name}'. "
                    "Raise max_regions= or use a smaller slice."
                ) from None
            n_folds, status = limit.fold, Status(complete=False, reason=reason)
            if probes is not None:  # which know nothing of the folds that they passed
                probes, zero_tolerances = None, zero_tolerances_of(program, slices, tolerance, budget)
    names = [fold.name for fold in shortened.folds]
    by_layer = [dict(zip(names, counts, strict=True)) for counts in record.counts.T.tolist()]
    seconds = time.perf_counter() - started
    return BatchResult(
        program, slices, parts, zero_tolerances[-1], by_layer, record.snapped, tolerance, status, seconds
    )


def cut_slices(
    program: Program, slices: Sequence[Slice], zero_tolerances: Sequence[Tensor], budget: Budget, record: Record, *,
    keep: Keep | None = None, consume: Consume | None = None, probes: LineProbes | None = None,
) -> RegionBatch:  # fmt: skip
    """Cut by the method for the dimension of the slices. keep: for dimensions from 2 on, see ``Keep``.

    consume: called with each part of the regions when it is finished; then the parts are not put together, and the
    result is the last one. probes: for dimension 1, see ``partition_lines``.
    """
    how = program, slices, zero_tolerances, budget, record
    of_space: Callable[[Any], RegionBatch] = partial(RegionBatch.of_space, program=program)

    def handed_over(batch_of: Callable[[Any], RegionBatch]) -> Callable[[Any], None] | None:
        return None if consume is None else lambda part: consume(batch_of(part))

    if slices[0].dim == 1:
        return RegionBatch.of_lines(partition_lines(*how, consume=handed_over(RegionBatch.of_lines), probes=probes))
    if slices[0].dim == 2:
        of_mesh: Callable[[Any], RegionBatch] = partial(RegionBatch.of_mesh, jumps=program.jumps)
        return of_mesh(partition_planes(*how, keep=keep, consume=handed_over(of_mesh)))
    if slices[0].dim == 3:
        return of_space(partition_space(*how, keep, handed_over(of_space)))
    return of_space(partition_cells(*how, keep, handed_over(of_space)))


def check_shapes(program: Program, slices: Sequence[Slice]) -> None:
    """Raise unless the slices consist of inputs of the network."""
    for slice in slices:
        if slice.input_shape != program.input_shape:
            raise SliceError(
                f"Expected a slice in inputs of shape {program.input_shape}, for which the network was read, got "
                f"{slice.input_shape}. "
                "Read the network again for this shape, or pass the module itself."
            )


def one_shape(slices: Sequence[Slice]) -> tuple[int, ...]:
    shapes = {slice.input_shape for slice in slices}
    if len(shapes) > 1:
        raise SliceError(
            f"Expected slices in inputs of one shape, got {sorted(shapes)}. Call the function once for each shape."
        )
    return next(iter(shapes))


def _check_options(max_regions: int | None, on_limit: str, memory: int | None) -> None:
    if max_regions is not None:
        read_integer("max_regions", max_regions)
    one_of("on_limit", on_limit, ("raise", "return"))
    check_memory(memory)
