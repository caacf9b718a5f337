"""Figure 1: the partition on a slice through three samples over training, and where the folds go."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from regionscope.complexity import FoldProfile, fold_migration
from regionscope.default_slice import default_slice
from regionscope.exact import decision_regions
from regionscope.geometry import Simplex
from regionscope.geometry.slices import on_slice
from regionscope.measures.statistics import joined
from regionscope_lab.papers.charts import Lines, Picture, Pictures, Series
from regionscope_lab.papers.humayun2023.claims import WithError, larger, three_phases
from regionscope_lab.papers.humayun2023.curves import Curve, accuracy, by_part, chart, phases_table, read_curve
from regionscope_lab.papers.humayun2023.settings import mlp
from regionscope_lab.papers.papers import read_study
from regionscope_lab.papers.stored import model_at, nan_if_missing, nearest, stored_steps, training_points
from regionscope_lab.papers.study import Claim, Outcome, Size, Table
from regionscope_lab.papers.workspace import Place, Workspace
from regionscope_lab.store import RunFolder

_SLICES: dict[Size, int] = {"smoke": 2, "desk": 4, "full": 20}
_MOMENTS: dict[Size, int] = {"smoke": 2, "desk": 2, "full": 20}  # besides start, valley, peak and end
_RESOLUTION: dict[Size, int] = {"smoke": 24, "desk": 64, "full": 128}
_MOST_REGIONS = 500_000


def _figure1(workspace: Workspace, size: Size) -> Outcome:
    runs = workspace.runs(mlp(size, depth=4))
    parts = by_part(runs)
    known = {part: accuracy(runs, part) for part in ("train", "test")}
    return Outcome(
        claims=(three_phases("LC at train points", parts["train"]),),
        tables=(phases_table("LC", parts),),
        charts=(
            _pictures(runs[0], parts["train"], workspace),
            chart("Figure 1: local complexity", parts),
            chart("Accuracy", known, y="accuracy"),
        ),
        notes=(
            "Pictures: linear regions (shades) and decision regions (hues) with the decision boundary, on the "
            "plane through the first training samples of three classes, seed 0.",
        ),
    )


def _pictures(run: RunFolder, train: Curve, workspace: Workspace) -> Pictures:
    shape = train.shape
    steps = [train.steps[i] for i in (0, shape.valley, shape.peak, len(train.steps) - 1) if i is not None]
    inputs, labels = training_points(run, workspace.data_root)
    slice = default_slice(inputs, labels)
    coordinates, lies = on_slice(slice, inputs)
    pictures = []
    for step in sorted({nearest(run, step) for step in steps}):
        found = decision_regions(model_at(run, step), slice, max_regions=_MOST_REGIONS)
        count = found.partition.n_activation_regions
        title = f"step {step:,}\n{count:,} regions"
        pictures.append(Picture(title, found, "neurons", coordinates[lies], labels[lies]))
    return Pictures(
        title="Figure 1: the plane through three training samples", columns=len(pictures), pictures=tuple(pictures)
    )


def folds(place: Place, run: str, step: int, slices: int, resolution: int) -> dict[str, Any]:
    """Where the folds are at a stored step, on triangles between training points."""
    folder = place.run(run)
    inputs, _ = training_points(folder, place.data_root)
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(0))
    triangles = [Simplex(inputs[order[3 * i : 3 * i + 3]]) for i in range(slices)]
    found = fold_migration(model_at(folder, step), triangles, inputs, resolution=resolution, max_regions=_MOST_REGIONS)
    return {"to_data": _profile(found.to_data), "to_boundary": _profile(found.to_boundary)}


def _profile(profile: FoldProfile) -> dict[str, Any]:
    return {
        "near": profile.near,
        "near_error": profile.near_stderr,
        "ratio": profile.ratio,
        "ratio_error": profile.stderr,
        "edges": profile.edges.tolist(),
        "density": profile.density.tolist(),
    }


def _migration(workspace: Workspace, size: Size) -> Outcome:
    runs = workspace.runs(mlp(size, depth=4))
    train = read_curve(runs, "lc.train")
    stored = stored_steps(runs[0])
    every = max(1, len(stored) // _MOMENTS[size])
    valley, peak = (
        None if i is None else nearest(runs[0], train.steps[i]) for i in (train.shape.valley, train.shape.peak)
    )
    turns = [step for step in (0, valley, peak, nearest(runs[0], train.steps[-1])) if step is not None]
    steps = sorted({*stored[::every], *turns})
    options = {"slices": _SLICES[size], "resolution": _RESOLUTION[size]}
    settings = [{"run": run.path.name, "step": step, **options} for run in runs for step in steps]
    answers = workspace.compute_with_place(folds, settings)
    n = len(steps)
    by_step = {step: answers[i::n] for i, step in enumerate(steps)}
    near, ratio = (
        {step: _joined(each, against, what) for step, each in by_step.items()}
        for against, what in (("to_data", "near"), ("to_boundary", "ratio"))
    )
    shown = sorted({0, steps[-1], *(step for step in (valley, peak) if step is not None)})
    return Outcome(
        claims=migration_claims(near, ratio, valley, peak),
        tables=(_table(near, ratio),),
        charts=(
            _over_steps("Folds next to training points", "density of folds / mean density", near),
            _over_steps("Folds and the decision boundary", "mean distance of folds / of uniform points", ratio),
            *(_density(f"Folds by their distance to {what}", against, by_step, shown)
              for against, what in (("to_data", "the nearest training point"), ("to_boundary", "the boundary"))),
        ),
        notes=(
            f"{_SLICES[size]} triangles between training points for each seed; the profiles by distance are those of "
            "seed 0. Valley and peak are those of train LC, at the nearest stored steps.",
        ),
    )  # fmt: skip


def migration_claims(
    near: Mapping[int, WithError], ratio: Mapping[int, WithError], valley: int | None, peak: int | None
) -> tuple[Claim, ...]:
    """From valley to peak of LC the folds gather at the data; then they leave it, and gather at the boundary."""
    last = max(near)
    bottom, top, end = ("peak" if step is None else f"step {step:,}" for step in (valley, peak, last))
    at = {step: (near[step], ratio[step]) for step in (valley, peak) if step is not None}
    low, high = (None if step is None else at[step] for step in (valley, peak))
    return (
        larger("density of folds next to training points over the mean density, ascent",
               "neurons gather around the training points", (top, high and high[0]), (bottom, low and low[0])),
        larger("density of folds next to training points over the mean density, second descent",
               "regions leave the training points", (top, high and high[0]), (end, near[last])),
        larger("distance of folds to the decision boundary over that of uniform points, second descent",
               "regions move to the boundary", (top, high and high[1]), (end, ratio[last])),
        larger("the same at the end, against folds that are spread evenly", "near the boundary",
               ("even", (1.0, 0.0)), (end, ratio[last])),
    )  # fmt: skip


def _joined(answers: Sequence[Mapping[str, Any]], against: str, what: str) -> WithError:
    """Mean over the seeds where it is defined; its error from those over the slices and from the seeds."""
    values = [nan_if_missing(one[against][what]) for one in answers]
    errors = [nan_if_missing(one[against][f"{what}_error"]) for one in answers]
    kept = [(value, error) for value, error in zip(values, errors, strict=True) if not math.isnan(value)]
    return joined([value for value, _ in kept], [error for _, error in kept])


def _table(near: Mapping[int, WithError], ratio: Mapping[int, WithError]) -> Table:
    columns = ("step", "density next to data / mean", "±", "distance to boundary / uniform", "±")
    return Table("Where the folds are", columns, tuple((step, *near[step], *ratio[step]) for step in near))


def _over_steps(title: str, y: str, values: Mapping[int, WithError]) -> Lines:
    known = {step: value for step, value in values.items() if not math.isnan(value[0])}
    series = Series.of("", ((float(step), *value) for step, value in known.items()))
    return Lines(title=title, x_label="step", y_label=y, series=(series,), x_scale="symlog", levels=(("even", 1.0),))


def _density(
    title: str, against: str, by_step: Mapping[int, Sequence[Mapping[str, Any]]], steps: Sequence[int]
) -> Lines:
    """The profile of the first seed at a few steps."""
    series = []
    for step in steps:
        profile = by_step[step][0][against]
        edges, density = profile["edges"], profile["density"]
        points = [
            ((low + high) / 2, value)
            for low, high, value in zip(edges, edges[1:], density, strict=False)
            if value is not None
        ]
        series.append(Series.of(f"step {step:,}", points))
    return Lines(title=title, x_label="distance", y_label="length of folds per area", series=tuple(series))


FIGURE1 = read_study("humayun2023-figure1", experiments=lambda size: mlp(size, depth=4), analyse=_figure1)
MIGRATION = read_study("humayun2023-migration", experiments=lambda size: mlp(size, depth=4), analyse=_migration)
