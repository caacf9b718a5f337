"""``regionscope complexity``: local complexity of a checkpoint at data points and at random points."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Column, Table
from torch import Tensor

from regionscope.cli import load, options
from regionscope.cli.job import NetworkJob, with_job
from regionscope.cli.options import option
from regionscope.complexity.complexity_gap import ComplexityGap, complexity_gap
from regionscope.complexity.history import Level
from regionscope.complexity.local_complexity import LocalComplexity, local_complexity
from regionscope.complexity.measure_points import uniform_points
from regionscope.formatting import counted, estimated
from regionscope.plot.complexity import layers_figure

_POINTS, _HULL = "Points", "Neighbourhood"
_FEW = 1.0  # folds at a point: too few to show a change

_DEFAULT = options.defaults(local_complexity)

DataOption = Annotated[
    Path | None, option("--data FILE", f"Training points, taken as they are: {options.ROWS}.", _POINTS)
]
TestOption = Annotated[
    Path | None, option("--test FILE", "File with test points, to report the train/test gap.", _POINTS)
]
RandomOption = Annotated[
    int, option("--random N", "Number of points drawn uniformly from the domain.", _POINTS, least=0)
]
DomainOption = Annotated[
    tuple[float, float] | None,
    option(
        "--domain LO HI",
        "Domain of the random points; by default 0 1.",
        _POINTS,
    ),
]
DimsOption = Annotated[
    int | None,
    option("--dims P", "Number of directions; by default 25, or the input dimension if it is smaller.", _HULL, least=1),
]
RadiusOption = Annotated[float, option("--radius", "Distance r of the vertices from the point.", _HULL)]
LayersOption = Annotated[
    list[str] | None, option("--layers NAME", "Name or pattern of the layers to count; can be repeated.", _HULL)
]
SeedOption = Annotated[
    int | None,
    option(
        "--seed",
        "Seed for directions and random points; by default 0.",
        _HULL,
        least=0,
    ),
]


@with_job
def complexity(
    job: NetworkJob, data: DataOption = None, test: TestOption = None, random: RandomOption = 0,
    domain: DomainOption = None, dims: DimsOption = _DEFAULT["dims"],
    radius: RadiusOption = _DEFAULT["radius"],
    layers: LayersOption = _DEFAULT["layers"],
    seed: SeedOption = None,
) -> None:  # fmt: skip
    """Count the units that fold the neighbourhood of each point, for any network.

    Example: regionscope complexity --model net.py:build --weights net.safetensors --data train.npy --test test.npy
    """
    network = job.network()
    job.check_targets(1)
    if seed is None:
        seed = _DEFAULT["seed"] if job.stored_seed is None else job.stored_seed
    points = _points(job, data, test, random, domain, seed)
    start = time.perf_counter()
    with job.explaining(network, points["train"]):
        complexities = {
            name: local_complexity(
                network, inputs, dims=dims, radius=radius, layers=layers or None,
                seed=seed,
            )
            for name, inputs in points.items()
        }  # fmt: skip
    seconds = time.perf_counter() - start
    gap = complexity_gap(complexities["train"], complexities["test"]) if "test" in complexities else None
    if not job.as_json:
        _print(complexities, gap, seconds)
    job.write(_numbers(complexities, gap, seconds))
    job.draw(layers_figure, complexities)


def _points(
    job: NetworkJob, data: Path | None, test: Path | None, random: int, domain: tuple[float, float] | None, seed: int
) -> dict[str, Tensor]:
    """The sets of points by name: those of the files, or those that are stored with the network."""
    least = 1 if test is None else 2  # a gap has an error from two points on
    points = job.stored_points(seed) or {"train": job.inputs(data, least=least)}
    if test is not None:
        points["test"] = torch.from_numpy(load.load_points(test, input_shape=job.shape))
    if random:
        points["random"] = uniform_points(random, points["train"].shape[1:], domain=domain or job.domain, seed=seed)
    return points


def _print(complexities: dict[str, LocalComplexity], gap: ComplexityGap | None, seconds: float) -> None:
    first = next(iter(complexities.values()))
    names = ("units", *(f"{name} ({len(result):,})" for name, result in complexities.items()))
    title = f"Local complexity in {counted(first.dims, 'direction')} of radius {first.radius:g}, {seconds:.3g} s"
    table = Table("layer", *(Column(name, justify="right") for name in names))
    for layer, units in first.units.items():
        means = [result.layer_means[layer] for result in complexities.values()]
        table.add_row(layer, f"{units:,}", *(estimated(mean.value, mean.stderr) for mean in means))
    table.add_section()
    total = f"{sum(first.units.values()):,}"
    table.add_row("all", total, *(estimated(result.mean, result.stderr) for result in complexities.values()))
    console = Console()
    console.print(title, highlight=False)
    console.print(table)
    if gap is not None:
        typer.echo(
            f"train - test: {gap.value:+.4g} ± {gap.stderr:.2g} ({gap.z:+.1f} standard errors); "
            f"membership AUC {gap.auc:.3f} ± {gap.auc_stderr:.2g}"
        )
    if first.radius == _DEFAULT["radius"] and first.mean < _FEW:
        few = "Few units fold" if first.mean else "No unit folds"
        typer.echo(
            f"{few} at the default radius of {first.radius:g}, and more at larger ones. Choose a radius for your data "
            "with --radius."
        )


def _numbers(complexities: dict[str, LocalComplexity], gap: ComplexityGap | None, seconds: float) -> dict[str, Any]:
    first = next(iter(complexities.values()))
    sets = {
        name: {
            "points": len(result),
            **asdict(Level.of(result)),
            "total": result.total.tolist(),
        }
        for name, result in complexities.items()
    }
    between = None
    if gap is not None:
        between = {"value": gap.value, "stderr": gap.stderr, "auc": gap.auc, "auc_stderr": gap.auc_stderr}
    return {
        "dims": first.dims,
        "radius": first.radius,
        "units": first.units,
        "local_complexity": sets,
        "train_test_gap": between,
        "seconds": round(seconds, 6),
    }
