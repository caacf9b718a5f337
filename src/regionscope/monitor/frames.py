"""Training frames: the exact regions of a network on one slice at several moments of its training.

What pictures over time need is collected here, once: the slice, the partition at each checkpoint, numbers that follow a
region from frame to frame, the curves, and the data that lie on the slice. Drawing is done elsewhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regionscope.checks import check_class_names
from regionscope.errors import InputError
from regionscope.exact import DecisionRegions, Partition, decision_regions, linear_regions
from regionscope.geometry import Slice
from regionscope.geometry.slices import on_slice
from regionscope.monitor.tracking import follow
from regionscope.network import Program, retrace
from regionscope.types import Progress

_MOST_POINTS = 2000  # of the data, in a picture


@dataclass(frozen=True)
class ModelAtStep:
    """A network at one moment of its training."""

    step: int
    model: nn.Module
    epoch: float | None = None


@dataclass(frozen=True, eq=False)
class Frame:
    """The regions at one moment, on the CPU.

    ids: (r,) a number for each activation region of ``linear``: one for each linear region, kept over the frames as
        far as possible (see ``follow``).
    decision: None where only a partition without the network is there.
    """

    step: int
    epoch: float | None
    linear: Partition
    ids: Tensor
    decision: DecisionRegions | None = None


@dataclass(frozen=True, eq=False)
class TrainingCurve:
    """A number over training: ``values`` and standard errors ``stderr`` (n,) at ``steps`` (n,); NaN where unknown.

    panel: the curves that share an axis, such as "loss" or "accuracy".
    """

    panel: str
    name: str
    steps: Tensor
    values: Tensor
    stderr: Tensor


@dataclass(frozen=True, eq=False)
class TrainingFrames:
    """Everything that a picture of a training shows.

    points: (n, k) slice coordinates of the data that lie on the slice, labels: (n,) their classes.
    class_names: a text for each class. steps_per_epoch: None where steps are all that is known.
    input_names: a name for each input, where the data have them.
    notes: sentences about what was left out.
    """

    title: str
    frames: tuple[Frame, ...]
    curves: tuple[TrainingCurve, ...]
    points: Tensor
    labels: Tensor
    class_names: tuple[str, ...]
    steps_per_epoch: float | None = None
    notes: tuple[str, ...] = ()
    input_names: tuple[str, ...] = ()

    @property
    def slice(self) -> Slice:
        """The slice of all frames."""
        return self.frames[0].linear.slice


def frames_of_models(
    moments: Iterable[ModelAtStep],
    slice: Slice,
    *,
    inputs: Tensor | None = None,
    labels: Tensor | None = None,
    class_names: Sequence[str] | None = None,
    rows: Iterable[Mapping[str, Any]] = (),
    title: str = "",
    notes: Sequence[str] = (),
    n_frames: int | None = None,
    max_regions: int | None = None,
    progress: Progress | None = None,
) -> TrainingFrames:
    """The frames of networks in memory; ``inputs`` (n, *input_shape) with ``labels`` (n,) are drawn on top.

    class_names: one name for each class; numbers by default.
    rows: mappings with step, name, value and perhaps stderr and epoch, such as ``asdict`` of a ``Row``; they become
        curves.
    max_regions: number of regions in a frame at which to stop with ``LimitReached``. progress: called with the finished
        share of the work, 0 to 1. Cost: two exact partitions for each frame, one of them cut further at the decision
        boundary.
    """
    if slice.dim > 2:
        raise InputError(
            f"Expected a slice of dimension 1 or 2, got dimension {slice.dim}. "
            "Pass a Segment, or a Box or Simplex of dimension 2."
        )
    seen: list[tuple[int, float | None, Partition, DecisionRegions]] = []
    total = n_frames or (len(moments) if isinstance(moments, Sequence) else None)
    program: Program | None = None
    points, classes, more = _data_on(slice, inputs, labels)
    names: tuple[str, ...] = ()

    def report(share: float, before: float) -> None:
        if progress is not None and total:
            progress((len(seen) + before + share / 4) / total)

    for moment in moments:
        program = retrace(program, moment.model, slice.input_shape)  # both hold its weights, and share one copy of them
        names = names or _names(class_names, max([program.n_outputs, *(classes + 1).tolist()]))
        linear = linear_regions(program, slice, max_regions=max_regions, progress=partial(report, before=0.0))
        decision = decision_regions(program, slice, max_regions=max_regions, progress=partial(report, before=0.25))
        linear = linear.to("cpu")
        linear.linear_ids  # noqa: B018 - computed here and kept, since it can take longer than the cuts
        seen.append((moment.step, moment.epoch, linear, decision.to("cpu")))
        report(0.0, before=0.0)
    if not seen:
        raise InputError("Expected at least one model, got none. Pass the models of the steps to draw.")
    numbers = follow([linear for _, _, linear, _ in seen])
    shown = [Frame(step, epoch, linear, ids, decision)
             for (step, epoch, linear, decision), ids in zip(seen, numbers, strict=True)]  # fmt: skip
    kept_rows = list(rows)
    return TrainingFrames(
        title, tuple(shown), (*curves_of_rows(kept_rows), *count_curves(shown)), points, classes, names,
        _steps_per_epoch([*kept_rows, *({"step": f.step, "epoch": f.epoch} for f in shown)]), (*notes, *more),
    )  # fmt: skip


def frames_of_partitions(
    parts: Sequence[tuple[int, Partition | DecisionRegions]],
    *,
    title: str = "",
    class_names: Sequence[str] | None = None,
) -> TrainingFrames:
    """One frame for each step and its partition, all of one slice. Pieces cut at the decision boundary stay cut.

    class_names: as in ``frames_of_models``.
    """
    if not parts:
        raise InputError("Expected at least one partition, got none. Pass pairs of a step and a partition.")
    parts = [(step, part.to("cpu")) for step, part in parts]
    linear = [part.partition if isinstance(part, DecisionRegions) else part for _, part in parts]
    slice = linear[0].slice
    if slice.dim > 2:
        raise InputError(
            f"Expected a slice of dimension 1 or 2, got dimension {slice.dim}. "
            "Pass a Segment, or a Box or Simplex of dimension 2."
        )
    corners = [part.slice.embed(part.slice.corners) for part in linear]
    if any(points.shape != corners[0].shape or not torch.equal(points, corners[0]) for points in corners):
        raise InputError("Expected partitions of one slice, got several slices. Write a page for each slice.")
    frames = [
        Frame(step, None, part, ids, whole if isinstance(whole, DecisionRegions) else None)
        for (step, whole), part, ids in zip(parts, linear, follow(linear), strict=True)
    ]
    nothing = torch.zeros((0, slice.dim), dtype=torch.float64, device="cpu")
    names = _names(class_names, linear[0].outputs.shape[1])
    curves = tuple(count_curves(frames)) if len(frames) > 1 else ()
    return TrainingFrames(title, tuple(frames), curves, nothing, torch.zeros(0, dtype=torch.int64, device="cpu"), names)


def thin(n: int, most: int | None) -> list[int]:
    """At most ``most`` of 0 ... n - 1, evenly spread, with the first and the last.

    >>> thin(10, 4)
    [0, 3, 6, 9]
    """
    if most is not None and most < 1:
        raise InputError(f"Expected at least one frame, got {most}. Ask for 1 or more.")
    if most is None or n <= most:
        return list(range(n))
    return [n - 1] if most == 1 else [int(i) for i in np.linspace(0, n - 1, most).round()]


def curves_of_rows(rows: Iterable[Mapping[str, Any]]) -> list[TrainingCurve]:
    """Curves from the rows of a run, in the order of their names' first rows; errors are turned into accuracies."""
    series: dict[str, list[tuple[int, float, float]]] = {}
    for row in rows:
        stderr = row.get("stderr")
        series.setdefault(str(row["name"]), []).append(
            (int(row["step"]), float(row["value"]), math.nan if stderr is None else float(stderr))
        )
    curves = []
    for name, entries in series.items():
        steps, values, stderr = torch.tensor(sorted(entries), dtype=torch.float64, device="cpu").T
        if name.endswith("error"):
            name, values = f"{name.removesuffix('error')}accuracy", 1.0 - values
        curves.append(TrainingCurve(_panel(name), _words(name), steps, values, stderr))
    return curves


def count_curves(frames: Sequence[Frame]) -> list[TrainingCurve]:
    """How many regions the slice has at each frame; activation regions only where they differ from linear ones."""
    linear = [frame.linear.n_linear_regions for frame in frames]
    activation = [frame.linear.n_activation_regions for frame in frames]
    counts = [("linear regions", "linear regions", linear)]
    if activation != linear:
        counts.append(("linear regions", "activation regions", activation))
    if all(frame.decision is not None for frame in frames):
        counts_of_labels = [frame.decision.count for frame in frames if frame.decision is not None]
        counts.append(("decision regions", "decision regions", counts_of_labels))
    steps = torch.tensor([frame.step for frame in frames], dtype=torch.float64, device="cpu")
    unknown = torch.full_like(steps, math.nan)
    return [
        TrainingCurve(panel, name, steps, torch.tensor(values, dtype=torch.float64, device="cpu"), unknown)
        for panel, name, values in counts
    ]


def _names(class_names: Sequence[str] | None, n_outputs: int) -> tuple[str, ...]:
    """The names, one for each class, or numbers; a single output has two classes."""
    n = max(2, n_outputs)
    return tuple(str(i) for i in range(n)) if class_names is None else check_class_names(class_names, n)


def _words(name: str) -> str:
    """The name of a measure in words: "linear_regions.activation" is the number of activation regions."""
    words = re.sub(r"(?<!\d)\.|\.(?!\d)", ", ", name.replace("_", " "), count=1)  # but not the point of a number
    return "activation regions" if words == "linear regions, activation" else words


def _panel(name: str) -> str:
    for panel in ("loss", "accuracy"):
        if name.endswith(panel):
            return panel
    if "complexity" in name or name == "lc" or name.startswith(("lc_", "lc.", "lc ")):
        return "local complexity"
    return "region counts" if "region" in name else name.split(".")[0].replace("_", " ")


def _steps_per_epoch(rows: Iterable[Mapping[str, Any]]) -> float | None:
    known = [(row["step"], row["epoch"]) for row in rows if row.get("epoch") and row["step"] > 0]
    if not known:
        return None
    step, epoch = max(known)
    return float(step / epoch)


def _data_on(slice: Slice, inputs: Tensor | None, labels: Tensor | None) -> tuple[Tensor, Tensor, list[str]]:
    if inputs is None or labels is None:
        return (
            torch.zeros((0, slice.dim), dtype=torch.float64, device="cpu"),
            torch.zeros(0, dtype=torch.int64, device="cpu"),
            [],
        )
    coords, on = on_slice(slice.to("cpu"), inputs.cpu())
    coords, labels = coords[on], labels.cpu()[on]
    chosen = thin(len(coords), _MOST_POINTS)
    note = f"{len(chosen):,} of {len(coords):,} data points are drawn."
    return coords[chosen], labels[chosen], [note] if len(chosen) < len(coords) else []
