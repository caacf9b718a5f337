"""The result of an exact partition: convex regions of one slice, with their vertices, walls, sizes and maps."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regionscope.certificate import Certificate, TruePartition, certify, doubts, true_partition
from regionscope.checks import check_instance, one_of, read_device, read_path
from regionscope.errors import CheckFailed, InputError, LimitReached
from regionscope.exact.affine_maps import AffineMaps, affine_maps, maps_at, with_derivatives
from regionscope.exact.check import check_coverage, check_decided, check_maps, check_network, warn_of_rounding
from regionscope.exact.questions.export import dual_graph, pandas_table
from regionscope.exact.questions.extremes import Extremes, extremes
from regionscope.exact.questions.lipschitz import Lipschitz, lipschitz
from regionscope.exact.questions.output_weights import Target, output_weights
from regionscope.exact.questions.wall_units import WallUnits, wall_units
from regionscope.exact.region_batch import Walls
from regionscope.exact.slope_jumps import compare, slopes_at
from regionscope.exact.storage import load_arrays, read_tolerance, save_arrays, slice_from_json, slice_to_json
from regionscope.extras import data_frame
from regionscope.formatting import counted, size_name
from regionscope.geometry import Slice
from regionscope.geometry import arrays as xp
from regionscope.geometry.ragged import gather_rows, mean_of_rows, owners
from regionscope.network import Program, patterns
from regionscope.tolerance import Tolerance
from regionscope.types import Reading, Stats, Status

_BYTES = 1 << 26  # of live values, where the network is evaluated on many regions
_ARRAYS = ("vertices", "outputs", "corners", "offsets", "sizes")
_WALLS = tuple(field.name for field in fields(Walls))
_COMPARED = ("wall_same", "wall_undecided")
_STORED = {*_ARRAYS, *_COMPARED, *(f"wall_{name}" for name in _WALLS)}


@dataclass(frozen=True, eq=False)
class Partition:
    """The exact partition of a slice into regions on which every fold keeps its side.

    slice: the slice. vertices: (v, k) float64 slice coordinates, each corner once. outputs: (v, c) of the
        network there.
    corners, offsets: the vertices of region i are ``corners[offsets[i]:offsets[i + 1]]``, counter-clockwise in 2-D.
    sizes: (r,) length, area or volume in input space; they add up to ``slice.size``.
    walls: faces between regions. by_layer: regions after each fold, in order.
    status: whether the computation finished; an unfinished partition holds the regions of the layers in ``by_layer``
        only.
    compared: for a stored partition, whether the maps on both sides of each inner wall are equal, or undecided.

    A pickled copy (sent to another process, for example) has no network, like one read by ``load``.
    """

    slice: Slice
    vertices: Tensor
    outputs: Tensor
    corners: Tensor
    offsets: Tensor
    sizes: Tensor
    walls: Walls
    by_layer: dict[str, int]
    tolerance: Tolerance
    stats: Stats = field(default_factory=Stats)
    status: Status = field(default_factory=Status)
    program: Program | None = field(default=None, repr=False)
    compared: tuple[Tensor, Tensor] | None = field(default=None, repr=False)

    def readings(self) -> tuple[Reading, ...]:
        """The numbers of linear and activation regions; of hidden signs and undecided places if any, with a warning."""
        snapped = [("snapped", self.n_snapped, None)] if self.n_snapped else []
        undecided = [warn_of_rounding(self.n_undecided)] if self.n_undecided else []
        return ("", self._n_linear, None), ("activation", self._n_activation, None), *snapped, *undecided

    def __repr__(self) -> str:
        """Computes nothing: the number of linear regions is shown once it is known."""
        regions = f"n_activation_regions={self._n_activation}"
        if not self.status:
            return f"Partition(dim={self.dim}, {regions}, incomplete)"
        if "linear_ids" in vars(self):
            regions = f"n_linear_regions={self._n_linear}, {regions}"
        if vars(self).get("n_undecided"):
            regions += f", n_undecided={self.n_undecided}"
        if self.n_snapped:
            regions += f", n_snapped={self.n_snapped}"
        return f"Partition(dim={self.dim}, {regions}, {size_name(self.dim)}={self.slice.size:.6g})"

    def to_pandas(self) -> Any:
        """A pandas DataFrame with one row for each activation region: linear region, size, corners, a point inside."""
        columns: dict[str, Any] = {"linear_region": self.linear_ids} if self.status else {}
        columns |= {"size": self.sizes, "corners": self.offsets.diff()}
        columns |= {f"coordinate_{i + 1}": self.interior[:, i] for i in range(self.dim)}
        return data_frame({name: column.cpu().numpy() for name, column in columns.items()})

    def __getstate__(self) -> dict[str, Any]:
        state = {field.name: getattr(self, field.name) for field in fields(self)}
        compared = self._compared if self.status else None  # needs the network, which is made of functions
        return state | {"program": None, "compared": compared}

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def dim(self) -> int:
        """Dimension k of the slice."""
        return self.slice.dim

    @property
    def layers(self) -> tuple[str, ...]:
        """The folds of ``by_layer`` with their kinds, such as "1 (ReLU)"; names alone without the network."""
        kinds = {} if self.program is None else {fold.name: fold.kind for fold in self.program.folds}
        return tuple(
            name if (kind := kinds.get(name, "")).lower() in name.lower() else f"{name} ({kind})"
            for name in self.by_layer
        )

    @property
    def n_activation_regions(self) -> int:
        """Number of distinct activation patterns on the slice (each is one convex region).

        Warns where rounding leaves it open.
        """
        if self._doubts is not None:
            warn_of_rounding(self._doubts.n_open)
        return self._n_activation

    @property
    def _n_activation(self) -> int:
        return len(self)

    @property
    def n_linear_regions(self) -> int:
        """Number of connected pieces of one affine map: neighbours whose maps are equal on the slice count as one.

        Warns where rounding leaves it open (``n_undecided``).
        """
        if self.n_undecided:
            warn_of_rounding(self.n_undecided)
        return self._n_linear

    @property
    def _n_linear(self) -> int:
        return int(self.linear_ids.max()) + 1 if len(self) else 0

    @cached_property
    def linear_ids(self) -> Tensor:
        """The linear region that each activation region belongs to (r,)."""
        same, _ = self._compared
        return xp.components(len(self), self.walls.regions[self.walls.inner][same])

    @cached_property
    def n_undecided(self) -> int:
        """Number of walls, regions and signs that rounding leaves open.

        Walls count at which no unit changes its piece; they are taken for walls between different maps. Where signs are
        hidden and the network is small (inputs times units at most 2 million), integers decide: lines and planes of up
        to 2,000 regions are computed again if they are wrong, and of others the regions count that ``certify`` refutes.
        In larger networks all hidden signs count.
        """
        return int(self._compared[1].sum()) + (0 if self._doubts is None else self._doubts.n_open)

    @cached_property
    def _doubts(self) -> Certificate | None:
        return doubts(self)

    def decided(self) -> Partition:
        """This partition, or the true one from integers if rounding made it wrong and float64 can hold the true one."""
        true = true_partition(self) if self._doubts is not None and self._doubts.refuted else None
        if true is None:
            return self
        part = self.replaced_by(true)
        return self if part._doubts is not None else part.with_snapped(0)

    def with_snapped(self, snapped: int) -> Partition:
        """The same partition with another number of hidden signs."""
        return replace(self, stats=replace(self.stats, snapped=snapped))

    def replaced_by(self, true: TruePartition) -> Partition:
        """The same partition with the arrays and counts of the true one; its signs stay doubtful."""
        claim, device = true.claim, self.vertices.device
        inner = (claim.wall_regions >= 0).all(1)
        sides = true.counts.linear_ids[claim.wall_regions[inner]]
        arrays = (claim.wall_vertices, claim.wall_offsets, claim.wall_regions, claim.wall_layer)
        vertices, outputs, corners, offsets, sizes, same, *walls = (
            torch.from_numpy(array).to(device)
            for array in (claim.vertices, true.outputs, claim.corners, claim.offsets, true.sizes,
                          sides[:, 0] == sides[:, 1], *arrays)
        )  # fmt: skip
        return replace(
            self.with_snapped(max(1, self.n_snapped)), vertices=vertices, outputs=outputs, corners=corners,
            offsets=offsets, sizes=sizes * self.slice.scale, walls=Walls(*walls), by_layer=true.counts.by_layer,
            compared=(same, torch.zeros_like(same)),
        )  # fmt: skip

    @property
    def n_snapped(self) -> int:
        """Number of places where rounding hides the sign of a value, which counts as zero then, or the place of a fold.

        If it is 0, rounding affects no sign. Otherwise the values may be exactly zero, as for units that are copies of
        each other or for zero biases; then the counts are right. If they are not zero, folds that lie very close
        together count as one, and there may be more regions (see ``n_undecided``). The threshold is
        ``tolerance.zero`` times the largest value of the unit.
        """
        return self.stats.snapped

    @property
    def n_jumps(self) -> int:
        """Number of walls on which the outputs jump by more than rounding; 0 without ``jumps=True``."""
        return int((self.jumps > self._least_jump).sum())

    @property
    def is_split(self) -> bool:
        """Whether the regions share no vertex, as for a network that jumps."""
        return len(self.vertices) == len(self.corners)

    @cached_property
    def jumps(self) -> Tensor:
        """The largest norm of the jump of the outputs on each wall (w,); 0 on the border and without a jump.

        On a wall itself, the network has the value of one side, or another one (``sign`` is 0 there).
        """
        if self.dim > 1 and not self.is_split:
            return torch.zeros(len(self.walls.layer), dtype=torch.float64, device=self.vertices.device)
        if self.dim > 1:  # an affine function has its largest norm at an end of the wall
            inner = self.walls.inner
            index, offsets = gather_rows(self.walls.offsets, inner)
            places, wall = self.vertices[self.walls.vertices[index]], owners(offsets, len(index))
            a, b = (self._extended(side[wall], places) for side in self.walls.regions[inner].unbind(1))
            largest = places.new_zeros(len(inner)).scatter_reduce(0, wall, (a - b).norm(dim=1), "amax")
            return places.new_zeros(len(self.walls.layer)).index_copy_(0, inner, largest)
        ends = self.corners.reshape(-1, 2)
        first, last = ends.gather(1, self.vertices[ends, 0].argsort(dim=1)).unbind(1)
        a, b = self.walls.regions.unbind(1)
        forwards = self.interior[a, 0] < self.interior[b, 0]
        before, behind = torch.where(forwards, a, b), torch.where(forwards, b, a)
        apart = (self.outputs[last[before]] - self.outputs[first[behind]]).double().norm(dim=1)
        return torch.where((self.walls.regions >= 0).all(1), apart, 0.0)

    def _extended(self, regions: Tensor, places: Tensor) -> Tensor:
        """The outputs (n, c) that the maps of these regions (n,) have at points (n, k) on their border."""
        start = self.corners[self.offsets[regions]]  # nearer than the origin, which counts in thin regions
        steps = ((places - self.vertices[start])[:, None] @ self._corner_maps.slope[regions])[:, 0]
        return self.outputs[start].double() + steps

    @property
    def _least_jump(self) -> float:
        """What rounding may leave of a jump that is none."""
        return self.stats.rounding + self.tolerance.slope * float(self.outputs.abs().max())

    @cached_property
    def _compared(self) -> tuple[Tensor, Tensor]:
        """For each inner wall: whether the maps on both sides are equal, and whether that is undecided."""
        self._require_complete()
        if self.compared is not None:
            return self.compared
        walls, inner = self.walls, self.walls.inner
        same = walls.layer[inner] == len(self.by_layer)  # a decision boundary folds nothing
        undecided, folds = torch.zeros_like(same), ~same
        if bool(folds.any()):
            pairs = walls.regions[inner[folds]]
            same[folds], undecided[folds] = compare(self._network(), self, self._corner_maps, pairs)
            if self._network().jumps:  # which derivatives do not show
                jumped = self.jumps[inner] > self._least_jump
                same, undecided = same & ~jumped, undecided & ~jumped
        return same, undecided

    @cached_property
    def _corner_maps(self) -> AffineMaps:
        self._require_complete()
        return affine_maps(self.vertices, self.outputs, self.corners, self.offsets)

    @cached_property
    def maps(self) -> AffineMaps:
        """The affine map of each region: ``outputs = constant + coords @ slope``; of thin ones from derivatives."""
        if self.program is None:
            return self._corner_maps
        middle = mean_of_rows(self.outputs[self.corners].double(), self.offsets)
        return with_derivatives(self._corner_maps, self.interior, middle, partial(slopes_at, self.program, self))

    def slivers(self, share: float = 1e-9) -> Tensor:
        """Indices (n,) of the regions that are smaller than this share of the slice."""
        return (self.sizes < share * self.slice.size).nonzero()[:, 0]

    @cached_property
    def interior(self) -> Tensor:
        """A point inside each region, the mean of its corners (r, k)."""
        return mean_of_rows(self.vertices[self.corners], self.offsets)

    @property
    def neighbours(self) -> Tensor:
        """Pairs of regions that share a wall (n, 2)."""
        return self.walls.regions[self.walls.inner]

    def layer_ids(self, layer: str) -> Tensor:
        """The activation region after ``layer`` (a name in ``by_layer``) that each region lies in (r,), from 0.

        Regions are joined across the walls that later layers add. Their number is ``by_layer[layer]``.
        """
        names = list(self.by_layer)
        one_of("layer of this partition", layer, names)
        inner = self.walls.inner
        later = inner[self.walls.layer[inner] > names.index(layer)]
        return xp.components(len(self), self.walls.regions[later])

    def polygons(self) -> list[NDArray[np.float64]]:
        """The corners of each region as an array (m, k), in slice coordinates."""
        points = self.vertices[self.corners].cpu().numpy()
        return np.split(points, self.offsets[1:-1].cpu().numpy())

    def patterns(self, regions: Tensor | None = None) -> Tensor:
        """Activation pattern of the regions (all, or those listed): (r, units), on which piece each unit is.

        For ReLU and similar functions, 1 where the unit is above its threshold, else 0. For maxima, the index of the
        largest candidate. Cost: one forward pass over the interior points, about 64 MiB at a time.
        """
        program = self._network()
        points = self.interior if regions is None else self.interior[regions]
        pieces = torch.empty((len(points), program.n_units), dtype=torch.int16, device=points.device)
        rows = max(1, _BYTES // max(1, program.row_bytes))
        for into, part in zip(pieces.split(rows), points.split(rows), strict=True):
            into.copy_(patterns(program, self.slice.embed(part, dtype=program.dtype)))
        return pieces

    def wall_units(self) -> WallUnits:
        """The units that fold at each wall, with the name of their layer and, on a line, in order along it.

        Cost: two forward passes for each wall.
        """
        return wall_units(self, self._network())

    def input_maps(self, regions: Tensor) -> tuple[Tensor, Tensor]:
        """The affine maps of the listed regions in input space: Jacobians (r, c, *input_shape) and constants (r, c).

        Outputs = constant + sum(Jacobian * input). Cost: c backward passes over r interior points, about 64 MiB of live
        values at a time.
        """
        program = self._network()
        rows = max(1, _BYTES // max(1, program.row_bytes * (1 + len(program.folds))))
        blocks = [self.slice.embed(points, dtype=program.dtype) for points in self.interior[regions].split(rows)]
        jacobians, constants = zip(*[maps_at(program, inputs) for inputs in blocks], strict=True)
        return torch.cat(jacobians).to(self.vertices.device), torch.cat(constants).to(self.vertices.device)

    def extremes(self, target: Target | None = None) -> Extremes:
        """The smallest and the largest value of a linear function of the outputs, on the slice and on each region.

        target: the index of an output, a pair (i, j) for output i minus output j, or c floats; not needed for a network
            with one output. Both values are attained at vertices. Cost: one pass over the vertices.
        """
        self._require_complete()
        (chosen,) = output_weights(target, 1, self.outputs.shape[1])
        return extremes(self.slice, self.vertices, self.outputs, self.corners, self.offsets, chosen)

    def lipschitz(self, *, norm: float = 2, target: Target | None = None) -> Lipschitz:
        """The exact Lipschitz constant of the network restricted to the slice, and where it is attained.

        It is a lower bound for the constant of the network itself, whose gradient also has components outside the
        slice.

        norm: norm of inputs and outputs, 1, 2 or inf, taken in input space. target: as in ``extremes``; all outputs
            together by default. Cost: proportional to the number of regions; a few very thin regions are passed through
            the network again.
        """
        weights = None if target is None else output_weights(target, 1, self.outputs.shape[1])[0]
        if self.program is not None:
            self.program.require_continuous("lipschitz()")
        return lipschitz(
            self.slice, self.maps, self.interior, norm=norm, weights=weights, rounding=self.stats.rounding,
            derivatives=lambda rows: slopes_at(self._network(), self, rows),
        )  # fmt: skip

    def graph(self) -> Any:
        """The dual graph as a symmetric SciPy ``csr_array`` (r, r) of int8: 1 where two regions share a wall."""
        return dual_graph(len(self), self.neighbours.cpu().numpy())

    def columns(self) -> dict[str, NDArray[Any]]:
        """Columns of the exports, by name: the size of each region in input space and its linear region."""
        return {"size": self.sizes.cpu().numpy(), "linear_region": self.linear_ids.cpu().numpy()}

    def polygon_table(self) -> Any:
        """A ``pandas.DataFrame`` with a row for each region: its ``columns`` and its ``corners`` (m, k)."""
        return pandas_table(self.polygons(), self.columns())

    def to(self, device: torch.device | str) -> Partition:
        """The same partition with its tensors on ``device``. The network is not moved."""
        if self.vertices.device == (device := read_device(device)):
            return self
        return replace(
            self,
            slice=self.slice.to(device),
            vertices=self.vertices.to(device),
            outputs=self.outputs.to(device),
            corners=self.corners.to(device),
            offsets=self.offsets.to(device),
            sizes=self.sizes.to(device),
            walls=self.walls.to(device),
            compared=self.compared and (self.compared[0].to(device), self.compared[1].to(device)),
        )

    def check(self) -> None:
        """Raise CheckFailed with the reason unless the partition passes these checks.

        Coverage: no region has a negative size and the sizes add up to that of the slice. Continuity: the map of every
        region meets the shared outputs at all its corners. Truth: map and network agree at every interior point.
        Activation: no two regions have the same pattern there, except regions thinner than rounding. Rounding:
        ``n_undecided`` is 0. Raises ``InputError`` if the partition has no network (pass it to ``load``). Cost: one
        forward pass over the regions.
        """
        if not self.status:
            raise CheckFailed(f"Expected a finished partition, but {self.status.reason}. Raise max_regions.")
        program = self._network()
        check_coverage(self.sizes, self.slice.size)
        corners, rounding, accuracy = self.corners, self.stats.rounding, self.tolerance.slope
        check_maps(self.maps, owners(self.offsets), self.vertices[corners], self.outputs[corners], rounding, accuracy)
        check_network(program, self.slice, self.interior, self.maps, rounding, accuracy)
        check_decided(self.n_undecided, self._doubts)

    def certify(self, *, max_recomputed: int = 10_000) -> Certificate:
        """Certify that this is the true partition of ``program``, whose constants are taken as exact float64 numbers.

        Signs that a bound of the rounding error leaves open are computed with integers; no tolerance is involved.
        max_recomputed: largest number of regions to compute in integers; if more are needed, the result is "not
        certified". In 4 or more dimensions all regions are computed in integers. Cost: one forward pass of the
        vertices, some array operations for each near sign, and a few milliseconds for each region computed in integers;
        with ``pip install 'regionscope[certify]'`` (python-flint) down to a third of that.
        """
        return certify(self, max_recomputed=max_recomputed)

    def save(self, path: str | Path) -> Path:
        """Write everything but the network to an .npz file."""
        return save_arrays(read_path(path), *self.to_arrays())

    @staticmethod
    def load(path: str | Path, program: Program | None = None) -> Partition:
        """Read a partition written by ``save``. Pass the traced network to use ``patterns`` and ``check``."""
        about, arrays = load_arrays(read_path(path))
        if not arrays.keys() <= _STORED:
            raise InputError(
                f"Expected a partition in {path}, got decision regions. Read it with DecisionRegions.load."
            )
        return Partition.from_arrays(about, arrays, program)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The content that ``save`` writes: slice, counts and tolerance as JSON, and the arrays by name."""
        about = {"slice": slice_to_json(self.slice), "by_layer": self.by_layer}
        about |= {name: asdict(getattr(self, name)) for name in ("tolerance", "stats", "status")}
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        if self.status:
            arrays |= dict(zip(_COMPARED, self._compared, strict=True))
        return about, arrays | {f"wall_{name}": getattr(self.walls, name) for name in _WALLS}

    @staticmethod
    def from_arrays(about: dict[str, Any], arrays: dict[str, Tensor], program: Program | None) -> Partition:
        """The partition that ``to_arrays`` returned these arrays for; other arrays are ignored."""
        slice, outputs = slice_from_json(about["slice"]), arrays["outputs"].shape[1]
        if program is not None:
            check_instance("program", program, Program, advice="Read the network with trace(model, input_shape)")
            if (program.input_shape, program.n_outputs) != (slice.input_shape, outputs):
                raise InputError(
                    f"Expected the network of the partition, with inputs of shape {slice.input_shape} and "
                    f"{counted(outputs, 'output')}, got one with inputs of shape {program.input_shape} and "
                    f"{counted(program.n_outputs, 'output')}. Pass the model that the partition was computed from."
                )
        return Partition(
            slice=slice,
            **{name: arrays[name] for name in _ARRAYS},
            walls=Walls(**{name: arrays[f"wall_{name}"] for name in _WALLS}),
            by_layer=about["by_layer"],
            tolerance=read_tolerance(about),
            stats=Stats(**about["stats"]),
            status=Status(**about["status"]),
            program=program and program.in_float64(),
            compared=(arrays[_COMPARED[0]], arrays[_COMPARED[1]]) if _COMPARED[0] in arrays else None,
        )

    def region(self, i: int) -> Tensor:
        """Vertices of region i (m, k) in slice coordinates."""
        if not 0 <= i < len(self):
            raise InputError(f"Expected an index from 0 to {len(self) - 1}, got {int(i)}. Pass that of a region.")
        return self.vertices[self.corners[self.offsets[i] : self.offsets[i + 1]]]

    def _network(self) -> Program:
        self._require_complete()
        if self.program is None:
            raise InputError(
                "Expected a partition with its network, got one that was loaded from a file. Pass the network: "
                "Partition.load(path, program=trace(model, input_shape))."
            )
        return self.program

    def _require_complete(self) -> None:
        if not self.status:
            raise LimitReached(f"Expected a finished partition, but {self.status.reason}. Raise max_regions.")
