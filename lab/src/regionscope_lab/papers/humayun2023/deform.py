"""Figures 18 and 19: how the layers of trained networks deform the neighbourhood of a point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from regionscope.complexity import deformation
from regionscope.types import Estimate
from regionscope_lab.config import Experiment
from regionscope_lab.papers.declaration import Finding, Size, Table
from regionscope_lab.papers.humayun2023.seeds import sign
from regionscope_lab.papers.rules import Graded, by_seed, combined, order_vote
from regionscope_lab.papers.seed_table import Runs, SeedRun, SeedTable
from regionscope_lab.papers.workspace import Place, Workspace, last_model, training_points

_RADII = (0.0014, 0.014, 0.14, 1.4)  # the paper calls those up to 0.014 reliable


_MEMORY = 1 << 30  # bytes; with less a GPU sees one point at a time
_HEAD = "head."  # the last linear layer; as for LC, only convolutions count


def sizes_at(place: Place, run: str, radius: float, points: int, dims: int) -> dict[str, Any]:
    """Mean eccentricity and diameter of the neighbourhood as each convolution receives it, with standard errors."""
    folder = place.run(run)
    inputs, _ = training_points(folder, place.data_root)
    model = last_model(folder).to(place.device)
    deformed = deformation(model, inputs[:points].to(place.device), dims=dims, radius=radius, memory=_MEMORY)
    return {
        name: [
            [one.value, one.stderr]
            for one in (Estimate.of(v) for layer, v in sizes.items() if not layer.startswith(_HEAD))
        ]
        for name, sizes in (("eccentricity", deformed.eccentricity), ("diameter", deformed.diameter))
    }


_SIZES: dict[Size, dict[str, int]] = {
    "smoke": {"points": 4, "dims": 5},
    "desk": {"points": 24, "dims": 20},
    "full": {"points": 1000, "dims": 25},
}


def compute(workspace: Workspace, size: Size, runs: Mapping[str, Sequence[Experiment]]) -> None:
    """The deepest CNNs without batch normalisation, and the ResNets with it."""
    every = [one for mine in runs.values() for one in mine]
    deepest = max(one.network.options.get("depth", 0) for one in every)
    chosen = [
        one
        for one in every
        if one.network.options["bn"] == (one.network.name != "cnn") and one.network.options.get("depth", 0) == deepest
    ]
    asked = [{"run": run.path.name, "radius": r, **_SIZES[size]} for r in _RADII for run in workspace.runs(chosen)]
    workspace.compute_with_place(sizes_at, asked)


_TRUSTED = 0.014  # radius up to which the paper calls neighbourhoods reliable


def _sizes(table: SeedTable, runs: Sequence[SeedRun], kind: str) -> dict[float, list[list[float]]]:
    """Mean size of the neighbourhood by radius, for each seed at the input and after each layer that changes it."""
    found: dict[float, list[list[float]]] = {}
    for run in runs:
        for one in sorted(
            table.answers("humayun2023.deform.sizes_at", run=run.key), key=lambda one: float(one["radius"])
        ):
            course = [value for value, _ in one[kind]]
            changed = [course[0], *course[2:]]  # the first convolution receives the input
            found.setdefault(one["radius"], []).append(changed)
    return found


def _deformation(table: SeedTable, runs: Sequence[SeedRun], number: str) -> tuple[dict[str, Graded], tuple[Table, ...]]:
    claims, tables = {}, []
    for kind in ("eccentricity", "diameter"):
        sizes = _sizes(table, runs, kind)
        largest = sizes[max(sizes)]

        def change(course: Sequence[float]) -> float:
            """The largest change by any layer as a share of the size at the input."""
            return max(abs(value / course[0] - 1) for value in course)

        by_trust = [
            [fmean(change(sizes[r][i]) for r in sizes if (r <= _TRUSTED) is small) for small in (True, False)]
            for i in range(len(runs))
        ]
        below, above = (fmean(pair[i] for pair in by_trust) for i in (0, 1))
        words = f"change of {below:.3g} of the input's size for r <= 0.014, {above:.3g} above"
        claims[f"grows-{kind}"] = by_seed(
            [order_vote(course) for course in largest],
            " to ".join(f"{fmean(one[i] for one in largest):.3g}" for i in (0, -1)),
        )
        claims[f"reduced-{kind}"] = combined(
            [by_seed([sign(course[0] - course[-1]) for course in mine]) for mine in sizes.values()],
            ", ".join(f"{fmean(c[-1] / c[0] for c in mine):.3g} times at r = {r:g}" for r, mine in sizes.items()),
        )
        claims[f"calm-{kind}"] = by_seed([sign(large - small) for small, large in by_trust], words)
        rows = [(r, run.seed, *course) for r, mine in sizes.items() for run, course in zip(runs, mine, strict=True)]
        tables.append(
            Table(
                f"{number}: average {kind} of the neighbourhood",
                ("radius", "seed", *(f"layer {i}" for i in range(len(rows[0]) - 2))),
                tuple(rows),
                detail=True,
            )
        )
    return claims, tuple(tables)


def figure18(table: SeedTable, runs: Runs) -> Finding:
    deepest = max(run["network.options.depth"] for run in runs["cnn"])
    mine = [run for run in runs["cnn"] if run["network.options.depth"] == deepest and not run["network.options.bn"]]
    claims, tables = _deformation(table, mine, "Figure 18")
    return Finding({name: one for name, one in claims.items() if not name.startswith("reduced")}, tables)


def figure19(table: SeedTable, runs: Runs) -> Finding:
    mine = [run for run in runs["resnet"] if run["network.options.bn"]]
    claims, tables = _deformation(table, mine, "Figure 19")
    return Finding({name: one for name, one in claims.items() if not name.startswith("grows")}, tables)
