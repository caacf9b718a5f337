"""``regions_at``: the linear region of each input in the full input space, and how far its walls are."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree
from torch import Tensor, nn

from regionscope.checks import check_memory, check_positive, check_progress, is_integer, one_of, read_integer, read_seed
from regionscope.errors import InputError, LimitReached
from regionscope.exact.budget import Budget
from regionscope.exact.questions.attributions import read_logits
from regionscope.extras import data_frame
from regionscope.formatting import counted
from regionscope.geometry.points import PointLike, read_numbers
from regionscope.inputs import Inputs, Labels, read_array, read_examples
from regionscope.network import Program, select_output, with_decision
from regionscope.network.output import Arguments, Output
from regionscope.points.cells import TILT, Cells, Source, cells_at, generic_direction
from regionscope.points.distances import Blocks, Directions, distances, gradients, steps_to_fold
from regionscope.points.halfspaces import HalfSpaces, centre, facets_of, halfspaces_of, sample_cell
from regionscope.points.local_maps import PointMap, point_map
from regionscope.points.neighbours import Neighbours, neighbours_of
from regionscope.points.tangents import Tangents
from regionscope.tolerance import SLOPE_ROUNDING
from regionscope.types import Array, IntArray, Progress, Reading

_SHORT_TRIAL, _TRIAL = 0.1, 1.0  # seconds at least and at most, and in between
_TRIAL_SHARE = 0.05  # share of the time limit, from which the time of all the work is estimated
_AT_ONCE = 100  # a pass of many rows takes at least this part of as many passes of a row
_PROBES = 8  # points at which two affine maps are compared, in as many mixtures of the outputs


@dataclass(frozen=True, eq=False)
class NearestFold:
    """The nearest fold of each of b inputs; of those at the same distance, the first in the order of the network.

    fold: (b,) which one, an index into ``names``; -1 if no fold is in reach. unit: (b,) its unit, as in
    ``Fold.pattern``. candidate: (b,) for a maximum, the candidate of the group that the winner meets, else -1.
    """

    names: tuple[str, ...]
    fold: Tensor
    unit: Tensor
    candidate: Tensor

    def __repr__(self) -> str:
        return f"NearestFold(n={len(self.fold)}, folds={len(self.names)})"

    def __len__(self) -> int:
        return len(self.fold)

    @property
    def modules(self) -> list[str]:
        """The name of the fold of each input; "" if no fold is in reach."""
        return [self.names[k] if k >= 0 else "" for k in self.fold.tolist()]


@dataclass(frozen=True, eq=False)
class PointRegions:
    """The linear regions in which b inputs lie.

    ids: (b,) inputs with one activation pattern (or one affine map) share a number, in order of appearance.
    distance: (b,) to the nearest fold, exact: 0 on a fold, infinite if there is none. next_distance: (b,) to the
        nearest fold that does not pass through the input, within its region; equals ``distance`` off the folds.
    on_fold: (b,) whether the input lies on a fold, up to rounding. Its region is then the one that a small step along
        ``side`` enters.
    labels: (b,) the predicted label. label_distance: (b,) to the nearest input with another label if ``label_exact``
        (b,), else a proven lower bound.
    nearest: which fold is the nearest one. norm: 1, 2 or infinity. seconds: time of the computation.
    """

    ids: Tensor
    distance: Tensor
    next_distance: Tensor
    on_fold: Tensor
    labels: Tensor
    label_distance: Tensor
    label_exact: Tensor
    nearest: NearestFold
    norm: float
    seconds: float
    source: Source = field(repr=False)

    def __repr__(self) -> str:
        shown = f"inputs={len(self)}, regions={self.n_regions}, norm={self.norm:g}"
        median = float(self.distance.median()) if len(self) else math.nan
        return f"PointRegions({shown}, median_distance={median:.4g}, on_fold={int(self.on_fold.sum())})"

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_regions(self) -> int:
        """Number of different regions."""
        return int(self.ids.max()) + 1 if len(self) else 0

    @property
    def side(self) -> Tensor:
        """(*input_shape,): where an input lies on folds, its region is the one in this direction."""
        return generic_direction(self.source.program).cpu()

    def readings(self) -> tuple[Reading, ...]:
        """The number of regions, the median, the 10 % and the 90 % quantile of the distance, and the median distance to
        another label.
        """
        low, high = (float(self.distance.quantile(share, interpolation="nearest")) for share in (0.1, 0.9))
        return (
            ("", self.n_regions, None),
            ("distance", float(self.distance.median()), None),
            ("distance.p10", low, None),
            ("distance.p90", high, None),
            ("label_distance", float(self.label_distance.median()), None),
        )

    def nearest_points(self, which: Sequence[int] | None = None) -> Tensor:
        """(n, *input_shape): the closest points of the nearest folds of inputs ``which``, or of all.

        NaN where no fold is in reach. Cost: a few forward passes and one backward pass for each input.
        """
        which = range(len(self)) if which is None else which
        rows = Blocks.of(self.source.tangents, 1, self._memory(None)).points
        blocks = [self._nearest_points([*which[start : start + rows]]) for start in range(0, len(which), rows)]
        return torch.cat(blocks).cpu()

    def sharing(self, i: int) -> list[tuple[str, int]]:
        """The units, as (module, unit), that change when input i crosses its nearest fold at the closest point.

        Beside the nearest unit, those whose fold is the same, such as copies of the unit, and those that choose between
        values that were zero on one side, such as a max-pool behind a ReLU.
        """
        i, source = self._index(i), self.source
        if self.nearest.fold[i] < 0 or self.on_fold[i]:
            raise InputError(
                f"Expected an input that lies off its nearest fold, got input {i}, which "
                f"{'lies on one' if self.on_fold[i] else 'has none'}. Ask for another input."
            )
        point, closest = source.points([i]), self._nearest_points([i])
        with torch.no_grad():
            generic = generic_direction(source.program)
            outward = torch.nn.functional.normalize((closest - point).flatten(), dim=0).reshape(generic.shape)
            across = cells_at(source.tangents, closest, (outward + TILT * generic)[None])
            sides = zip(source.cells(point).sides, across.sides, self.nearest.names, strict=False)
            return [
                (name, unit)
                for mine, beyond, name in sides
                for unit in (mine.pieces[0] != beyond.pieces[0]).nonzero()[:, 0].tolist()
            ]

    def map(self, i: int, *, memory: int | None = None) -> PointMap:
        """The affine map on the region of input i, in the shapes of inputs and outputs."""
        return point_map(self.source, self._index(i), self._memory(memory))

    def contribution(self, i: int) -> Tensor:
        """(*output_shape, *input_shape): matrix * x, what each entry of input i adds to each output."""
        return self.map(i).matrix * self.source.points([self._index(i)])[0].cpu()

    def halfspaces(self, i: int, *, within: float | None = None, memory: int | None = None) -> HalfSpaces:
        """The region of input i as {y : normals @ y <= offsets}; some of the half-spaces may be redundant.

        within: distance up to which folds are returned, for networks whose half-spaces need too much memory. Their
            distances come first, as in ``regions_at``; then one backward pass for each half-space that is returned.
        """
        source = self.source
        x, available = source.points([self._index(i)]), self._memory(memory)
        with torch.no_grad():
            return halfspaces_of(source.tangents, source.cells(x), x, within=within, norm=self.norm, memory=available)

    def facets(self, i: int) -> HalfSpaces:
        """The half-spaces of input i that are not redundant. Cost: a linear program for each half-space."""
        return facets_of(self.halfspaces(i))

    def inradius(self, i: int) -> float:
        """Radius of the largest ball in the region of input i, in the norm of the distances; may be infinite."""
        return centre(self.halfspaces(i), norm=self.norm)[1]

    def sample(
        self, i: int, n: int, *, within: float | tuple[float | PointLike, float | PointLike], seed: int = 0
    ) -> Tensor:
        """(n, *input_shape) points of the region of input i inside a box, uniform up to the mixing of random walks.

        within: half the width of a cube around the input, or the lowest and the highest corner of a box.
        Each point ends a hit-and-run walk of its own, of 100 + 20 d steps from the centre of the largest ball.
        """
        read_integer("n", n)
        shape = self.source.program.input_shape
        if isinstance(within, tuple):
            low, high = (read_numbers(c, "a corner of the box").expand(math.prod(shape)).numpy() for c in within)
            if not (low <= high).all():
                raise InputError("Expected within= to be the lowest and the highest corner of a box. Swap them.")
        else:
            check_positive(within=within)
            x = self.source.points([self._index(i)])[0].flatten().cpu().numpy()
            low, high = x - within, x + within
        points = sample_cell(self.halfspaces(i), n, low, high, torch.Generator().manual_seed(read_seed(seed)))
        return torch.from_numpy(points).reshape(n, *shape)

    def neighbours(self, i: int) -> Neighbours:
        """The cells on the other side of each facet of the region of input i."""
        return neighbours_of(self.source, self._index(i))

    def table(self, labels: Labels | None = None) -> dict[str, Array]:
        """One row for each region, the one with most inputs first: see ``region_table``."""
        return region_table(self, labels)

    def to_pandas(self, labels: Labels | None = None) -> Any:
        """``table`` as a pandas DataFrame."""
        return data_frame(self.table(labels))

    def _index(self, i: int) -> int:
        if not is_integer(i, least=0) or i >= len(self):
            raise InputError(f"Expected the index of one of {counted(len(self), 'input')}, got {i!r}. Count from 0.")
        return i

    def _memory(self, memory: int | None) -> int:
        check_memory(memory)
        return Budget.of(self.source.program.device, memory, None).memory

    def _nearest_points(self, which: Sequence[int]) -> Tensor:
        source, tangents = self.source, self.source.tangents
        points = source.points(which)
        device, chosen = points.device, torch.tensor(which, device="cpu")
        fold_index, unit, candidate = (
            x[chosen].to(device) for x in (self.nearest.fold, self.nearest.unit, self.nearest.candidate)
        )
        with torch.no_grad():
            cells = source.cells(points)
            term, gap = unit.clone(), torch.zeros(len(which), dtype=points.dtype, device=device)
            for k, (fold, side) in enumerate(zip(tangents.folds, cells.sides, strict=True)):
                mine = (fold_index == k).nonzero()[:, 0]
                if fold.groups is not None:
                    term[mine] = unit[mine] * fold.groups.shape[1] + candidate[mine]
                sign = 1.0 if fold.groups is not None else 2.0 * side.pieces[mine, unit[mine]] - 1
                gap[mine] = side.gap[mine, term[mine]] * sign
            steps = steps_to_fold(gradients(tangents, cells, fold_index, term), gap, source.norm)
        steps[fold_index < 0] = math.nan
        on_fold = self.on_fold[chosen].to(device)
        return points + torch.where(on_fold.reshape(-1, *[1] * (points.ndim - 1)), 0.0, steps)


def regions_at(
    model: nn.Module | Program,
    inputs: Inputs,
    *,
    norm: float = 2,
    merge: Literal["affine"] | None = None,
    memory: int | None = None,
    time_limit: float | None = None,
    progress: Progress | None = None,
    output: Output | None = None,
    args: Arguments = (),
) -> PointRegions:
    """The linear region of each input in the full input space, and the exact distance to its nearest fold.

    On its region an input sees one affine map. Each unit gives a half-space, and the distance to the boundary of their
    intersection is the smallest of |value - threshold| / |gradient|, with the gradient in the dual norm, whether or not
    some half-spaces are redundant. In a maximum it is the winner minus each candidate that is compared with zero.
    Values that are zero on the whole region, such as equal candidates, are no folds.

    model: any network that ``linear_regions`` reads. inputs: (b, *input_shape), as a tensor, an array, a Dataset or a
        DataLoader.
    norm: of the distances, 1, 2 or ``math.inf``.
    merge: "affine" gives one id to all regions with the same affine map, whether or not they touch.
    memory: bytes of live values held at a time, as in ``linear_regions``.
    time_limit: seconds; LimitReached is raised as soon as the work is estimated to take longer, first before it starts.
    progress: called with the finished share of the work, 0 to 1.
    output, args: for a model that returns several tensors or takes further arguments, as in ``linear_regions``.

    Cost: as many forward passes for an input as it has entries, without the operations before the first fold. In the
    2-norm no more than the values before the first fold.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    >>> _ = net[0].load_state_dict({"weight": torch.eye(2), "bias": torch.tensor([0.0, -3.0])})
    >>> at = regions_at(net, torch.tensor([[1.0, 1.0], [2.0, 2.0], [1.0, 4.0]]))
    >>> at.ids.tolist(), at.distance.tolist(), at.nearest.unit.tolist()
    ([0, 0, 1], [1.0, 1.0, 1.0], [0, 1, 0])
    """
    started = time.perf_counter()
    check_memory(memory)
    check_progress(progress)
    if time_limit is not None:
        check_positive(time_limit=time_limit)
    examples = read_examples(inputs)
    if len(examples) == 0:
        raise InputError("Expected at least one input, got 0. Pass one input or more.")
    program = read_logits(select_output(model, output, args), examples.first[None])
    with torch.no_grad():
        source = Source(Tangents(with_decision(program)), examples, read_norm(norm))
        clock = _Clock(started, time_limit, progress, source, Directions.count(source.tangents, source.norm))
        return _measure(source, Budget.of(program.device, memory, None).memory, merge, clock)


def region_table(result: PointRegions, labels: Labels | None) -> dict[str, Array]:
    """One row for each region, those with most inputs first.

    region: its id. inputs: how many lie in it. distance: their mean distance to the nearest fold. predicted: their most
    frequent predicted label. nearest: their most frequent nearest unit, as "module[unit]". With labels also label: the
    most frequent one; labels: how many different ones; accuracy: the share of inputs that are predicted right.
    """
    ids, n = result.ids.numpy(), result.n_regions
    counts = np.bincount(ids, minlength=n)
    order = np.argsort(-counts, kind="stable")
    units = [
        f"{name}[{unit}]" if name else ""
        for name, unit in zip(result.nearest.modules, result.nearest.unit.tolist(), strict=True)
    ]
    predicted = result.labels.numpy()
    columns: dict[str, Array] = {
        "region": np.arange(n),
        "inputs": counts,
        "distance": np.bincount(ids, result.distance.numpy(), minlength=n) / counts,
        "predicted": _most_frequent(ids, predicted)[0],
        "nearest": _most_frequent(ids, np.array(units))[0],
    }
    if labels is not None:
        truth = read_array(labels).cpu().numpy()
        if truth.shape != ids.shape:
            raise InputError(
                f"Expected {len(ids)} labels, one for each input, got shape {truth.shape}. Pass a flat list."
            )
        columns["label"], columns["labels"] = _most_frequent(ids, truth)
        columns["accuracy"] = np.bincount(ids, truth == predicted, minlength=n) / counts
    return {name: column[order] for name, column in columns.items()}


def _most_frequent(ids: IntArray, values: Array) -> tuple[Array, IntArray]:
    """The most frequent value in each region, the lowest one on ties, and how many different ones there are."""
    names, numbers = np.unique(values, return_inverse=True)
    pairs, counts = np.unique(np.column_stack([ids, numbers.reshape(-1)]), axis=0, return_counts=True)
    order = np.lexsort((pairs[:, 1], -counts, pairs[:, 0]))
    first = np.unique(pairs[order, 0], return_index=True)[1]
    return names[pairs[order[first], 1]], np.bincount(pairs[:, 0])


def read_norm(norm: object) -> float:
    """1, 2 or infinity, or an ``InputError``."""
    value = math.inf if norm == "inf" else norm
    if isinstance(value, bool) or value not in (1, 2, math.inf):
        raise InputError(f"Expected norm to be 1, 2 or math.inf, got {norm!r}. Choose one of these.")
    return float(value)


@dataclass(frozen=True, eq=False)
class _Clock:
    """Reports progress, and stops work that will take too long. passes: number of directions of each input."""

    started: float
    limit: float | None
    progress: Progress | None
    source: Source
    passes: int

    def trial(self, most_points: int) -> None:
        """Estimate the time of all the work: from a forward pass, then from 1, 2, 4, ... directions of the first input,
        then from all directions of 2, 4, ... inputs, ``most_points`` at most.

        Their number grows until they take a twentieth of the limit, but at least a tenth of a second and at most one.
        """
        if self.limit is None:
            return
        source, all_passes = self.source, self.passes * len(self.source.examples)
        share = min(_TRIAL, max(_SHORT_TRIAL, _TRIAL_SHARE * self.limit))
        x, began = source.points([0]), self._now()
        source.program(x)
        if (seconds := self._now() - began) > share and seconds * all_passes > _AT_ONCE * self.limit:
            self._check(seconds * all_passes)
        cells, size = source.cells(x), 1
        self._seconds(cells, size)  # a GPU loads its kernels
        while (seconds := self._seconds(cells, size)) < share and size < self.passes:
            size = min(2 * size, self.passes)
        n = 1
        while seconds < share and n < min(most_points, len(source.examples)):
            n = min(2 * n, most_points, len(source.examples))
            began = self._now()
            seconds = self._seconds(source.cells(source.points(range(n))), size)
            if self._now() - began > share:  # with what is computed once for each input
                break
        self._check(seconds / (n * size) * all_passes)

    def tick(self, share: float) -> None:
        """A share of all the work is done."""
        if self.progress is None and self.limit is None:
            return
        seconds = self._now() - self.started
        if self.progress is not None:
            self.progress(min(1.0, share))
        if share < 1 and self.limit is not None and seconds > min(2 * _TRIAL, self.limit):
            self._check(seconds / share)

    def _now(self) -> float:
        if self.source.program.device.type == "cuda":
            torch.cuda.synchronize(self.source.program.device)
        return time.perf_counter()

    def _seconds(self, cells: Cells, size: int) -> float:
        began = self._now()
        n = len(cells.outputs)
        distances(cells, Directions(self.source.tangents, size, None), self.source.norm, Blocks(n, n, size))
        return self._now() - began

    def _check(self, estimate: float) -> None:
        if self.limit is not None and estimate > self.limit:
            raise LimitReached(
                f"Expected work of at most time_limit={self.limit:g} seconds, got an estimate of {estimate:.3g} "
                f"seconds for {counted(len(self.source.examples), 'input')} and {counted(self.passes, 'direction')}. "
                "Raise time_limit= or pass fewer inputs."
            )


def _measure(source: Source, memory: int, merge: str | None, clock: _Clock) -> PointRegions:
    if merge is not None:
        one_of("merge", merge, ("affine",))
    tangents = source.tangents
    clock.trial(Blocks.of(tangents, clock.passes, memory).points)
    directions = Directions.of(tangents, source.norm, memory)
    blocks = Blocks.of(tangents, directions.n, memory)
    n = len(source.examples)
    parts: list[tuple[Tensor, ...]] = []
    keys: list[bytes] = []
    for start in range(0, n, blocks.cells):
        which = range(start, min(start + blocks.cells, n))
        points = source.points(which)
        if not bool(points.isfinite().all()):
            raise InputError("Expected finite inputs, got NaN or infinite entries. Remove them first.")
        cells = source.cells(points)

        def tick(done: float, start: int = start, p: int = len(points)) -> None:
            clock.tick((start + p * done) / n)

        parts.append(_summary(tangents, cells, distances(cells, directions, source.norm, blocks, tick)))
        keys += source.keys(cells)
    columns = [torch.cat(column).cpu() for column in zip(*parts, strict=True)]
    distance, beyond, on_fold, labels, margin, fold_index, unit, candidate = columns
    names = tuple(k.name for k in source.program.folds[:-1])
    ids = _numbered(source, keys, merge, blocks.points)
    return PointRegions(
        ids=ids,
        distance=distance,
        next_distance=beyond,
        on_fold=on_fold,
        labels=labels,
        label_distance=torch.minimum(margin, distance),
        label_exact=margin <= distance,
        nearest=NearestFold(names, fold_index, unit, candidate),
        norm=source.norm,
        seconds=time.perf_counter() - clock.started,
        source=source,
    )


def _summary(tangents: Tangents, cells: Cells, by_fold: list[Tensor]) -> tuple[Tensor, ...]:
    """Of p points: distance, next distance, on a fold, label, distance to the nearest change of the label, and the
    index, unit and candidate of the nearest fold.
    """
    outputs, device = cells.outputs, cells.outputs.device
    p = len(outputs)
    distance, beyond = torch.full((2, p), math.inf, dtype=outputs.dtype, device=device)
    on_fold = torch.zeros(p, dtype=torch.bool, device=device)
    fold_index, unit, candidate = torch.full((3, p), -1, dtype=torch.int64, device=device)
    for k, (fold, side, mine) in enumerate(zip(tangents.folds[:-1], cells.sides[:-1], by_fold[:-1], strict=True)):
        smallest, term = mine.min(1)
        first = smallest < distance
        distance = torch.where(first, smallest, distance)
        beyond = torch.minimum(beyond, torch.where(side.on_fold, math.inf, mine).amin(1))
        on_fold |= side.on_fold.any(1)
        fold_index[first] = k
        m = 1 if fold.groups is None else fold.groups.shape[1]
        unit[first] = (term // m)[first]
        candidate[first] = -1 if fold.groups is None else (term % m)[first]
    labels = outputs.argmax(1) if outputs.shape[1] > 1 else (outputs[:, 0] > 0).long()
    return distance, beyond, on_fold, labels, by_fold[-1].amin(1), fold_index, unit, candidate


def _numbered(source: Source, keys: list[bytes], merge: str | None, rows: int) -> Tensor:
    """(b,) the ids of the patterns with these keys, which ``source`` remembers."""
    numbers: dict[bytes, int] = {}
    ids = torch.tensor([numbers.setdefault(key, len(numbers)) for key in keys], dtype=torch.int64, device="cpu")
    if merge is not None:
        ids = merged_ids(source, ids, rows)
    source.numbers.update(zip(keys, ids.tolist(), strict=True))
    return ids


def merged_ids(source: Source, ids: Tensor, rows: int) -> Tensor:
    """``ids`` (b,) with one number for all regions of the same affine map, in order of appearance.

    Two maps are equal if they are at fixed random points; these are not in the regions, so a map goes beyond its own.
    """
    program = source.program
    first = _first_places(ids)
    generator = torch.Generator().manual_seed(0)
    probes = torch.randn(_PROBES, *program.input_shape, generator=generator, dtype=program.dtype, device="cpu")
    mixing = torch.randn(_PROBES * program.n_outputs, _PROBES, generator=generator, dtype=program.dtype, device="cpu")
    values = []
    for which in first.split(rows):
        points = source.points(which.tolist())
        cells = source.cells(points)
        changes = cells.through(source.tangents, source.tangents.begin(probes.to(points)[None] - points[:, None]))
        values.append((cells.outputs[:, None] + changes).flatten(1).cpu())
    maps = torch.cat(values) @ mixing
    pairs = cKDTree(maps.numpy()).query_pairs(
        SLOPE_ROUNDING * float(maps.abs().max()), p=math.inf, output_type="ndarray"
    )
    graph = coo_array((np.ones(len(pairs)), pairs.T), shape=(len(maps), len(maps)))
    together = torch.from_numpy(connected_components(graph, directed=False)[1]).long()[ids]
    return _first_places(together).argsort().argsort()[together]


def _first_places(ids: Tensor) -> Tensor:
    """(n,) where each of the numbers 0, ..., n - 1 comes first in ``ids``."""
    places = torch.arange(len(ids), device="cpu")
    return torch.full((int(ids.max()) + 1,), len(ids), device="cpu").scatter_reduce(0, ids, places, "amin")
