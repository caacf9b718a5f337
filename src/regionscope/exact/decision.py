"""``decision_regions``: the exact regions of equal predicted label, and the boundary between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regionscope.certificate import Certificate, certify, doubts, true_partition
from regionscope.checks import read_path
from regionscope.errors import CheckFailed, InputError
from regionscope.exact.check import warn_of_rounding
from regionscope.exact.linear import exact_regions, on_workers, program_of
from regionscope.exact.partition import Partition
from regionscope.exact.path import in_order, join_legs
from regionscope.exact.questions.export import pandas_table
from regionscope.exact.questions.topology import ClassTopology, topology
from regionscope.exact.storage import array_names, load_arrays, save_arrays
from regionscope.extras import data_frame
from regionscope.formatting import size_name
from regionscope.geometry import Polyline, Slice
from regionscope.geometry import arrays as xp
from regionscope.geometry.bitsets import lowest
from regionscope.geometry.maxima import Candidates, cell_leaders, leaders
from regionscope.geometry.ragged import owners
from regionscope.geometry.slices import read_slices
from regionscope.network import Program, with_decision
from regionscope.network.output import Arguments, Output, select_output
from regionscope.tolerance import EQUAL_OUTPUTS, HIDDEN_SHARE, UNIT, Tolerance
from regionscope.types import IntArray, Progress, Reading

_LABELS = ("piece_labels", "piece_regions", "labels")  # stored beside the arrays of the partition


@dataclass(frozen=True, eq=False)
class DecisionRegions:
    """The exact regions of equal label on a slice.

    partition: the linear regions cut further at the decision boundary, so that every piece has one label; the label is
        the last entry of its pattern.
    piece_labels: (r,) label of each piece. piece_regions: (r,) the decision region it belongs to.
    labels: (count,) label of each decision region.
    legs: on a Polyline, the decision regions of each leg.
    note: sentence about a last softmax, sigmoid, tanh or temperature that was taken off; empty without one.

    A decision region is a connected set of one label. Sets that touch only in a point (in general, in less than a wall)
    count as two. Ties between classes go to the lowest index; a single output is labelled 1 where it is positive, else
    0.
    """

    partition: Partition
    piece_labels: Tensor
    piece_regions: Tensor
    labels: Tensor
    legs: tuple[DecisionRegions, ...] = field(default=(), repr=False)
    note: str = ""

    def __repr__(self) -> str:
        classes = len(self.labels.unique())
        size = f"{size_name(self.partition.dim)}={self.partition.slice.size:.6g}"
        snapped = f", n_snapped={self.partition.n_snapped}" if self.partition.n_snapped else ""
        counts = f"count={len(self.labels)}, classes={classes}{snapped}"
        return f"DecisionRegions(dim={self.partition.dim}, {counts}, {size})"

    def to_pandas(self) -> Any:
        """A pandas DataFrame with one row for each decision region: its label, its size, and the number of pieces.

        Labels of an estimator are its ``classes_``.
        """
        pieces = torch.bincount(self.piece_regions, minlength=len(self.labels))
        columns = {"label": self.labels, "size": self.sizes, "pieces": pieces}
        frame = data_frame({name: column.cpu().numpy() for name, column in columns.items()})
        return frame.assign(label=[self.classes[i] for i in self.labels.tolist()]) if self.classes else frame

    def readings(self) -> tuple[Reading, ...]:
        """The number of decision regions, of signs that rounding hides if any (see ``Partition.n_snapped``), and of
        undecided places if any, with a warning.
        """
        numbers: list[Reading] = [("", len(self.labels), None)]
        if self.partition.n_snapped:
            numbers.append(("snapped", self.partition.n_snapped, None))
        if self.n_undecided:
            numbers.append(warn_of_rounding(self.n_undecided))
        return tuple(numbers)

    @cached_property
    def n_undecided(self) -> int:
        """Number of pieces, and of their labels, that rounding leaves open; see ``Partition.n_undecided``."""
        if self.legs:
            return sum(leg.n_undecided for leg in self.legs)
        return 0 if self._doubts is None else self._doubts.n_open

    @cached_property
    def _doubts(self) -> Certificate | None:
        return doubts(self.partition, self._claims)

    def decided(self) -> DecisionRegions:
        """These regions; or the true ones, see ``Partition.decided``."""
        true = true_partition(self.partition) if self._doubts is not None and self._doubts.refuted else None
        if true is None:
            return self
        part, counts = self.partition.replaced_by(true), true.counts
        piece_labels, regions = (
            torch.from_numpy(ids).to(part.vertices.device) for ids in (counts.labels, counts.decision_ids)
        )
        labels = piece_labels.new_empty(counts.decision).index_copy_(0, regions, piece_labels)
        dec = DecisionRegions(part, piece_labels, regions, labels, note=self.note)
        return self if dec._doubts is not None else replace(dec, partition=part.with_snapped(0))

    @property
    def _claims(self) -> tuple[IntArray, IntArray]:
        return self.piece_labels.cpu().numpy(), self.piece_regions.cpu().numpy()

    @property
    def n_classes(self) -> int:
        """Number of classes of the network, also of those that do not occur; 2 for a network with a single output."""
        return max(2, self.partition.outputs.shape[1])

    @property
    def count(self) -> int:
        """Number of decision regions. Warns where rounding leaves it open (``n_undecided``)."""
        if self.n_undecided:
            warn_of_rounding(self.n_undecided)
        return len(self.labels)

    @property
    def classes(self) -> tuple[Any, ...]:
        """``classes_`` of the scikit-learn estimator, by label; empty for other models and without the network."""
        return () if self.partition.program is None else self.partition.program.classes

    @cached_property
    def sizes(self) -> Tensor:
        """Length, area or volume of each decision region in input space (count,)."""
        return self.partition.sizes.new_zeros(len(self.labels)).index_add_(0, self.piece_regions, self.partition.sizes)

    @cached_property
    def piece_parents(self) -> Tensor:
        """The activation region that each piece lies in (r,), numbered from 0."""
        walls = self.partition.walls
        inner = walls.inner
        drawn = inner[walls.layer[inner] == len(self.partition.by_layer)]
        return xp.components(len(self.partition), walls.regions[drawn])

    @cached_property
    def boundary_walls(self) -> Tensor:
        """Indices of the walls of ``partition`` with different labels on both sides."""
        walls = self.partition.walls
        inner = walls.inner
        labels = self.piece_labels[walls.regions[inner]]
        return inner[labels[:, 0] != labels[:, 1]]

    @property
    def boundary(self) -> Tensor:
        """The decision boundary in slice coordinates: points (e, 1, 1) in 1-D, line segments (e, 2, 2) in 2-D.

        In higher dimensions the facets differ in their number of corners; use ``boundary_walls`` there.
        """
        k = self.partition.dim
        if k > 2:
            raise InputError(
                "Expected a slice of dimension 1 or 2, got 3 or more. Read the boundary facets from "
                "boundary_walls and partition.walls."
            )
        walls = self.partition.walls
        start = walls.offsets[self.boundary_walls]
        index = start[:, None] + torch.arange(k, device=start.device)
        return self.partition.vertices[walls.vertices[index]]

    def volumes(self) -> dict[int, float]:
        """Length, area or volume of each class in input space, by label; they add up to the size of the slice."""
        total = self.sizes.new_zeros(int(self.labels.max()) + 1).index_add_(0, self.labels, self.sizes)
        return {label: float(total[label]) for label in sorted(set(self.labels.tolist()))}

    def topology(self) -> Mapping[int, ClassTopology]:
        """Components, holes, Euler characteristic and boundary length of each class on a plane, by label.

        Exact, from the complex of pieces. The components of all classes add up to ``count``. Cost: proportional to the
        number of pieces and, for each class, to the number of boundary walls.
        """
        part = self.partition
        if part.dim != 2:
            raise InputError(f"Expected a slice of dimension 2, got {part.dim}. Use a plane (a Box of two axes).")
        return topology(part, self.piece_regions, self.labels)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Columns of the exports: those of ``Partition.columns``, and the decision region and label of each piece."""
        decision_columns = {
            "decision_region": self.piece_regions.cpu().numpy(),
            "label": self.piece_labels.cpu().numpy(),
        }
        return self.partition.columns() | decision_columns

    def polygon_table(self) -> Any:
        """A row for each piece, with its label and its corners; see ``Partition.polygon_table``."""
        return pandas_table(self.partition.polygons(), self.columns())

    def to(self, device: torch.device | str) -> DecisionRegions:
        """The same regions with their tensors on ``device``; see ``Partition.to``."""
        part = self.partition.to(device)
        if part is self.partition:
            return self
        legs = tuple(leg.to(device) for leg in self.legs)
        return DecisionRegions(
            part, self.piece_labels.to(device), self.piece_regions.to(device), self.labels.to(device), legs
        )

    def certify(self, *, max_recomputed: int = 10_000) -> Certificate:
        """Whether pieces, labels and decision regions are the true ones; see ``Partition.certify``."""
        return certify(self.partition, self._claims, max_recomputed=max_recomputed)

    def save(self, path: str | Path) -> Path:
        """Write everything but the network to an .npz file."""
        about, arrays = self.partition.to_arrays()
        about["note"] = self.note
        return save_arrays(read_path(path), about, arrays | {name: getattr(self, name) for name in _LABELS})

    @staticmethod
    def load(path: str | Path, program: Program | None = None) -> DecisionRegions:
        """Read what ``save`` wrote. Pass the traced network to use ``partition.patterns`` and ``partition.check``."""
        about, arrays = load_arrays(read_path(path))
        if not arrays.keys() >= {*_LABELS}:
            raise InputError(
                f"Expected decision regions in {path}, got a partition that is not cut at the decision boundary. "
                "Read it with Partition.load, or compute decision_regions."
            )
        part = Partition.from_arrays(about, arrays, program)
        if part.program is not None and len(part.program.folds) == len(part.by_layer):  # as the caller traced it
            part = replace(part, program=with_decision(part.program))
        pieces, regions, labels = (arrays[name] for name in _LABELS)
        return DecisionRegions(part, pieces, regions, labels, note=about.get("note", ""))


def holds_decisions(path: Path) -> bool:
    """Whether the file was written by ``DecisionRegions.save``, and not by ``Partition.save``."""
    return {*_LABELS} <= {*array_names(path)}


@overload
def decision_regions(
    model: nn.Module | Program, slice: Slice, *,
    max_regions: int | None = ..., memory: int | None = ..., tolerance: Tolerance | None = ...,
    progress: Progress | None = ..., output: Output | None = ..., args: Arguments = ...,
    jumps: bool = ...,
) -> DecisionRegions: ...  # fmt: skip
@overload
def decision_regions(
    model: nn.Module | Program, slice: Sequence[Slice], *,
    max_regions: int | None = ..., memory: int | None = ..., tolerance: Tolerance | None = ...,
    progress: Progress | None = ..., output: Output | None = ..., args: Arguments = ...,
    jumps: bool = ..., dask: str | None = ...,
) -> list[DecisionRegions]: ...  # fmt: skip
def decision_regions(
    model: nn.Module | Program,
    slice: Slice | Sequence[Slice],
    *,
    max_regions: int | None = None,
    memory: int | None = None,
    tolerance: Tolerance | None = None,
    progress: Progress | None = None,
    output: Output | None = None,
    args: Arguments = (),
    jumps: bool = False,
    dask: str | None = None,
) -> DecisionRegions | list[DecisionRegions]:
    """The exact regions of equal argmax on a slice (or on each of a list of slices).

    Every linear region is cut where its largest output changes, and pieces of one label that share a wall are joined.
    A last softmax, sigmoid, tanh or temperature keeps the order of the outputs: it is taken off, and ``note`` says so.
    Arguments and cost are as in ``linear_regions``, except ``on_limit``: an incomplete partition has no decisions, so
    reaching a limit always raises ``LimitReached``.
    """
    path = slice if isinstance(slice, Polyline) else None
    slices = list(path.legs) if path is not None else read_slices(slice)
    program = program_of(select_output(model, output, args), slices, order_only=True, jumps=jumps)
    if len(program.output_shape) > 1:
        raise InputError(
            f"Expected one output for each class, got outputs of shape {program.output_shape} for an input. "
            "Flatten or pool them first."
        )
    if dask is not None:
        options = {"max_regions": max_regions, "memory": memory, "tolerance": tolerance, "output": output, "args": args}
        options["jumps"] = jumps
        shared = on_workers(decision_regions, model, slice, dask, progress, options)
        return [replace(dec, partition=replace(dec.partition, program=with_decision(program))) for dec in shared]
    result = exact_regions(
        with_decision(program), slices, max_regions=max_regions, on_limit="raise", memory=memory, tolerance=tolerance,
        progress=progress,
    )  # fmt: skip
    results = []
    for part in result.partitions():
        layers = dict(list(part.by_layer.items())[:-1])
        results.append(label_pieces(replace(part, by_layer=layers)).decided())
    if path is not None:
        joined = join_legs(path, [leg.partition for leg in results])
        labels = torch.cat([leg.piece_labels[in_order(leg.partition)[0]] for leg in results])
        return replace(join_pieces(joined, labels), legs=tuple(results))
    return results if isinstance(slice, Sequence) else results[0]


def label_pieces(part: Partition) -> DecisionRegions:
    """Labels of pieces that are cut at the decision boundary, and their connected components."""
    _check_leads(part.outputs)
    return join_pieces(part, labels_of(part.outputs, part.corners, part.offsets, part.stats.rounding))


def join_pieces(part: Partition, piece_labels: Tensor) -> DecisionRegions:
    """The connected components of pieces with these labels (r,)."""
    pairs = part.neighbours
    same = piece_labels[pairs[:, 0]] == piece_labels[pairs[:, 1]]
    piece_regions = xp.components(len(part), pairs[same])
    count = int(piece_regions.max()) + 1
    labels = piece_labels.new_empty(count).index_copy_(0, piece_regions, piece_labels)
    note = part.program.note if part.program else ""
    return DecisionRegions(part, piece_labels, piece_regions, labels, note=note)


def _check_leads(outputs: Tensor) -> None:
    """Raise where rounding of what the leading outputs (v, c) have in common hides a part of their differences."""
    if outputs.shape[1] < 2:
        return
    first, second = outputs.topk(2, dim=1).values.unbind(1)
    largest, lead = float(first.abs().max()), float((first - second).max())
    if lead > EQUAL_OUTPUTS * UNIT * largest and Tolerance.of(torch.float64).zero * largest > HIDDEN_SHARE * lead:
        raise CheckFailed(
            f"Expected outputs that differ by far more than their rounding, got outputs of up to {largest:.3g}, of "
            f"which the largest leads by at most {lead:.3g} on the slice. Subtract one number from all of them: labels "
            "stay the same."
        )


def labels_of(outputs: Tensor, corners: Tensor, offsets: Tensor, zero_tolerance: float) -> Tensor:
    """The label of every piece: the lowest candidate that leads at all its corners, within the tolerance."""
    of, n = owners(offsets, len(corners)), len(offsets) - 1
    if outputs.shape[1] == 1:
        lowest_value, highest = extremes_at_corners(outputs[:, 0], corners, offsets)
        above = highest > -lowest_value  # a crossing may come out on either side of 0
        return ((highest > zero_tolerance) & above).long()
    groups = torch.arange(outputs.shape[1], device=outputs.device)[None]
    tolerance = torch.full((len(outputs),), zero_tolerance, dtype=torch.float64, device=outputs.device)
    common = cell_leaders(leaders(Candidates(outputs, groups, tolerance)), corners, offsets)
    labels = lowest(common[:, 0])
    unclear = (labels < 0).nonzero()[:, 0]  # thinner than rounding: no candidate leads at every corner
    if len(unclear):
        total = outputs.new_zeros((n, outputs.shape[1])).index_add_(0, of, outputs[corners])
        labels[unclear] = total[unclear].argmax(1)
    return labels


def extremes_at_corners(values: Tensor, corners: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """The smallest and the largest of the values (v,) at the corners of each piece."""
    of, at_corners = owners(offsets, len(corners)), values[corners]
    start = values.new_zeros(len(offsets) - 1)
    low = start.scatter_reduce(0, of, at_corners, "amin", include_self=False)
    return low, start.scatter_reduce(0, of, at_corners, "amax", include_self=False)
