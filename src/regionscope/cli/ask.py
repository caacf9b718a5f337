"""``regionscope ask``: exact answers about a network on one slice."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from torch import nn

from regionscope import plot
from regionscope.cli import options, output
from regionscope.cli.network import note_weights, read_network
from regionscope.cli.regions import Limits, check_targets, limit_advice, read_slice
from regionscope.errors import InputError
from regionscope.exact import DecisionRegions, Partition, decision_regions, linear_regions
from regionscope.exact.questions.flips import flips_of
from regionscope.geometry import Slice
from regionscope.lab.provenance import provenance
from regionscope.writing import counted

ask = typer.Typer(
    no_args_is_help=True, help="Compute extremes, flips, Lipschitz constants or topology from an exact partition."
)

_QUESTION = "Question"
_SHOWN = 20  # flips in the table; the JSON has all of them
IndexOption = Annotated[
    int | None, options.option("--index", metavar="I", least=0, panel=_QUESTION, help="Index of the output value.")
]
MinusOption = Annotated[
    int | None,
    options.option("--minus", metavar="J", least=0, panel=_QUESTION, help="Index of an output value to subtract."),
]
NormOption = Annotated[
    str, options.option("--norm", metavar="P", panel=_QUESTION, help="Norm of inputs and outputs: 1, 2 or inf.")
]


@ask.command()
def extremes(
    model: options.ModelOption, weights: options.WeightsOption = None, output_name: options.OutputOption = None,
    input_shape: options.ShapeOption = None,
    points: options.PointsOption = None, box: options.BoxOption = None, index: IndexOption = None,
    minus: MinusOption = None, json_file: options.JsonOption = None, plot_file: options.PlotOption = None,
    memory: options.MemoryOption = None, device: options.DeviceOption = "cpu",
    max_regions: options.LimitOption = None,
) -> None:  # fmt: skip
    """Find the smallest and the largest value of an output, or of the difference of two, on a slice.

    Example: regionscope ask extremes --model net.py:build --box -1 1 --index 0 --minus 1 --plot extremes.png
    """
    network, where = _network(model, weights, device, output_name, points, box, input_shape, json_file, plot_file)
    limits = Limits(memory=options.read_memory(memory), max_regions=max_regions)
    part = _partition(network, where, limits)
    found = part.extremes(_chosen(index, minus, part.outputs.shape[1]))
    rows = {"smallest value": found.min, "largest value": found.max}
    numbers = {
        "min": found.min,
        "max": found.max,
        "argmin": found.argmin.tolist(),
        "argmax": found.argmax.tolist(),
        "coords_of_min": found.coords_of_min.tolist(),
        "coords_of_max": found.coords_of_max.tolist(),
    }
    _report(part, rows, numbers, json_file)
    note_weights(model, weights, json_file)
    if plot_file is not None:
        output.save_plot(plot.extremes_figure(part, found), plot_file)


@ask.command()
def lipschitz(
    model: options.ModelOption, weights: options.WeightsOption = None, output_name: options.OutputOption = None,
    input_shape: options.ShapeOption = None,
    points: options.PointsOption = None, box: options.BoxOption = None, norm: NormOption = "2",
    index: IndexOption = None, minus: MinusOption = None, json_file: options.JsonOption = None,
    plot_file: options.PlotOption = None, memory: options.MemoryOption = None, device: options.DeviceOption = "cpu",
    max_regions: options.LimitOption = None,
) -> None:  # fmt: skip
    """Compute the Lipschitz constant of a network on a slice, a lower bound for that of the network itself.

    Without --index all outputs count together. Example: regionscope ask lipschitz --model net.py:build --box -1 1
    """
    if norm not in ("1", "2", "inf"):
        raise InputError(f"Expected --norm 1, 2 or inf, got {norm}.")
    network, where = _network(model, weights, device, output_name, points, box, input_shape, json_file, plot_file)
    limits = Limits(memory=options.read_memory(memory), max_regions=max_regions)
    part = _partition(network, where, limits)
    every = index is None and minus is None
    chosen = None if every else _chosen(index, minus, part.outputs.shape[1])
    found = part.lipschitz(norm=math.inf if norm == "inf" else int(norm), output=chosen)
    numbers = {"lipschitz": found.value, "norm": norm, "point": found.point.tolist(), "coords": found.coords.tolist()}
    _report(part, {f"Lipschitz constant, norm {norm}": found.value}, numbers, json_file)
    note_weights(model, weights, json_file)
    if plot_file is not None:
        output.save_plot(plot.lipschitz_figure(part, found), plot_file)


@ask.command()
def flips(
    model: options.ModelOption, weights: options.WeightsOption = None, output_name: options.OutputOption = None,
    input_shape: options.ShapeOption = None,
    points: options.PointsOption = None, box: options.BoxOption = None, json_file: options.JsonOption = None,
    plot_file: options.PlotOption = None, memory: options.MemoryOption = None, device: options.DeviceOption = "cpu",
    max_regions: options.LimitOption = None,
) -> None:  # fmt: skip
    """List every point of a segment where the predicted class changes, with the slope of the margin.

    Example: regionscope ask flips --model net.py:build --points two_inputs.npy --json flips.json
    """
    network, where = _network(model, weights, device, output_name, points, box, input_shape, json_file, plot_file)
    _must_have(where, 1, "flips")
    limits = Limits(memory=options.read_memory(memory), max_regions=max_regions)
    dec = _decision(network, where, limits)
    found = flips_of(dec)
    rows = zip(*(column.tolist() for column in (found.coords, found.before, found.after, found.slope)), strict=True)
    listed = [{"coord": at, "before": a, "after": b, "slope": slope} for at, a, b, slope in rows]
    table: dict[str, float] = {"flips": len(found)}
    for one in listed[:_SHOWN]:
        table[f"from {one['before']} to {one['after']} at {one['coord']:.6g}, slope"] = one["slope"]
    _report(dec.partition, table, {"flips": listed}, json_file)
    note_weights(model, weights, json_file)
    if plot_file is not None:
        output.save_plot(plot.flips_figure(dec, found), plot_file)


@ask.command()
def topology(
    model: options.ModelOption, weights: options.WeightsOption = None, output_name: options.OutputOption = None,
    input_shape: options.ShapeOption = None,
    points: options.PointsOption = None, box: options.BoxOption = None, json_file: options.JsonOption = None,
    plot_file: options.PlotOption = None, memory: options.MemoryOption = None, device: options.DeviceOption = "cpu",
    max_regions: options.LimitOption = None,
) -> None:  # fmt: skip
    """Count the components and holes of each class on a plane, and measure the length of its boundary.

    Example: regionscope ask topology --model net.py:build --box -1 1 --plot topology.png
    """
    network, where = _network(model, weights, device, output_name, points, box, input_shape, json_file, plot_file)
    _must_have(where, 2, "topology")
    limits = Limits(memory=options.read_memory(memory), max_regions=max_regions)
    dec = _decision(network, where, limits)
    found, volumes = dec.topology(), dec.volumes()
    rows: dict[str, float] = {}
    for label, one in found.items():
        rows |= {
            f"class {label}: components": one.components,
            f"class {label}: holes": one.holes,
            f"class {label}: boundary length": one.boundary_length,
            f"class {label}: area": volumes[label],
        }
    numbers = {
        "classes": {label: asdict(one) | {"euler": one.euler, "area": volumes[label]} for label, one in found.items()},
        "decision_regions": dec.count,
    }
    _report(dec.partition, rows, numbers, json_file)
    note_weights(model, weights, json_file)
    if plot_file is not None:
        output.save_plot(plot.topology_figure(dec, found), plot_file)


def _network(
    model: str, weights: Path | None, device: str, output_name: str | None, points: Path | None,
    box: tuple[float, float] | None,
    shape: str | None, json_file: str | None, plot_file: Path | None,
) -> tuple[nn.Module, Slice]:  # fmt: skip
    network = read_network(model, weights, device, output_name)
    where = read_slice(network, points, box, shape)
    check_targets(json_file, plot_file, where)
    return network, where


def _partition(network: nn.Module, where: Slice, limits: Limits) -> Partition:
    with limit_advice(), output.progress_bar() as progress:
        return linear_regions(network, where, **limits, progress=progress)


def _decision(network: nn.Module, where: Slice, limits: Limits) -> DecisionRegions:
    with limit_advice(), output.progress_bar() as progress:
        return decision_regions(network, where, **limits, progress=progress)


def _chosen(index: int | None, minus: int | None, c: int) -> int | tuple[int, int]:
    """What --index and --minus ask for; the only output needs no index."""
    if index is None and c > 1:
        raise InputError(f"Expected --index I, since the network has {c} outputs, got none.")
    first = index or 0
    return first if minus is None else (first, minus)


def _must_have(where: Slice, dim: int, question: str) -> None:
    if where.dim != dim:
        way = "--points with 2 rows" if dim == 1 else "--points with 3 rows, or --box for a network with 2 inputs"
        raise InputError(f"Expected a slice of dimension {dim} for {question}, got dimension {where.dim}. Pass {way}.")


def _report(part: Partition, rows: dict[str, float], numbers: dict[str, Any], json_file: str | None) -> None:
    where, stats = part.slice, part.stats
    if json_file != "-":
        output.print_counts(f"{where}, {counted(len(part), 'region')}, {stats.seconds:.3g} s", rows)
    if json_file is not None:
        about = {"dim": where.dim, "input_shape": list(where.input_shape), "size": where.size}
        document = {**numbers, "regions": len(part), "slice": about, "stats": asdict(stats), "provenance": provenance()}
        output.write_json(document, json_file)
