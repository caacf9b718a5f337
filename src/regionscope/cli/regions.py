"""``regionscope regions`` and ``regionscope decision``: exact counts on one slice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypedDict

import typer
from matplotlib.figure import Figure
from torch import nn

from regionscope import plot
from regionscope.certificate import Certificate
from regionscope.cli import options, output
from regionscope.cli.input_plane import InputPlane, read_plane
from regionscope.cli.network import note_weights, read_network
from regionscope.errors import InputError, LimitReached
from regionscope.exact import Partition, RegionTotals, decision_regions, linear_regions, stream_regions
from regionscope.geometry import Slice
from regionscope.lab import load
from regionscope.lab.provenance import provenance
from regionscope.types import Stats


def regions(
    model: options.ModelOption, weights: options.WeightsOption = None, output_name: options.OutputOption = None,
    input_shape: options.ShapeOption = None,
    points: options.PointsOption = None, box: options.BoxOption = None, vary: options.VaryOption = None,
    ranges: options.RangeOption = None, at: options.AtOption = None, scaling: options.ScalingOption = None,
    json_file: options.JsonOption = None, plot_file: options.PlotOption = None,
    memory: options.MemoryOption = None, device: options.DeviceOption = "cpu",
    max_regions: options.LimitOption = None, certify: options.CertifyOption = False,
    count_only: options.CountOnlyOption = False,
) -> None:  # fmt: skip
    """Count the activation regions and the linear regions of a network on a slice, exactly.

    Example: regionscope regions --model net.py:build --weights net.safetensors --box -1 1 --plot regions.png

    Example: regionscope regions --model net.onnx --vary 0 1 --range 0=-1:1,1=-1:1 --at 2=0,3=0.5
    """
    network = read_network(model, weights, device, output_name)
    plane = read_plane(vary, ranges, at, scaling)
    where = read_slice(network, points, box, input_shape, plane)
    check_targets(json_file, plot_file, where)
    limits = Limits(memory=options.read_memory(memory), max_regions=max_regions)
    if count_only:
        if certify or plot_file is not None:
            raise InputError("Expected --count-only without --certify and --plot, which need all regions at once.")
        with limit_advice(), output.progress_bar() as progress:
            totals = stream_regions(network, where, **limits, progress=progress)
        _report(where, totals.stats, *_activation(totals), json_file, plane)
        note_weights(model, weights, json_file)
        return
    with limit_advice(), output.progress_bar() as progress:
        part = linear_regions(network, where, **limits, progress=progress)
    counts, numbers = _activation(part)
    counts["linear regions"] = part.n_linear_regions
    numbers |= {"linear_regions": part.n_linear_regions, "undecided_walls": part.n_undecided}
    if part.n_undecided:
        counts["walls where rounding hides whether the maps differ"] = part.n_undecided
    certificate = part.certify() if certify else None
    _report(where, part.stats, counts, numbers, json_file, plane, certificate)
    note_weights(model, weights, json_file)
    if plot_file is not None:
        output.save_plot(_labelled(plot.regions_figure(part), plane), plot_file)
    _exit(certificate)


def decision(
    model: options.ModelOption, weights: options.WeightsOption = None, output_name: options.OutputOption = None,
    input_shape: options.ShapeOption = None,
    points: options.PointsOption = None, box: options.BoxOption = None, vary: options.VaryOption = None,
    ranges: options.RangeOption = None, at: options.AtOption = None, scaling: options.ScalingOption = None,
    json_file: options.JsonOption = None, plot_file: options.PlotOption = None,
    memory: options.MemoryOption = None, device: options.DeviceOption = "cpu",
    max_regions: options.LimitOption = None, certify: options.CertifyOption = False,
) -> None:  # fmt: skip
    """Count the decision regions (connected sets of one predicted label) of a network on a slice, exactly.

    Example: regionscope decision --model net.py:build --weights net.safetensors --points triangle.npy --json -
    """
    network = read_network(model, weights, device, output_name)
    plane = read_plane(vary, ranges, at, scaling)
    where = read_slice(network, points, box, input_shape, plane)
    check_targets(json_file, plot_file, where)
    limits = Limits(memory=options.read_memory(memory), max_regions=max_regions)
    with limit_advice(), output.progress_bar() as progress:
        dec = decision_regions(network, where, **limits, progress=progress)
    by_label = {str(label): count for label, count in sorted(Counter(dec.labels.tolist()).items())}
    counts = {f"decision regions with label {label}": count for label, count in by_label.items()}
    counts |= {"decision regions": dec.count}
    numbers = {"decision_regions": dec.count, "decision_regions_with_label": by_label}
    certificate = dec.certify() if certify else None
    _report(where, dec.partition.stats, counts, numbers, json_file, plane, certificate)
    note_weights(model, weights, json_file)
    if plot_file is not None:
        output.save_plot(_labelled(plot.decision_figure(dec), plane), plot_file)
    _exit(certificate)


class Limits(TypedDict):
    """The options of an exact partition that commands share."""

    memory: int | None
    max_regions: int | None


@contextmanager
def limit_advice() -> Iterator[None]:
    """Past --max-regions, advise what the command line has."""
    try:
        yield
    except LimitReached as error:
        what = str(error).split(";")[0].replace("max_regions = ", "--max-regions ")
        raise LimitReached(f"{what}. Raise --max-regions or use a smaller slice.") from error


def read_slice(
    network: nn.Module,
    points: Path | None,
    box: tuple[float, float] | None,
    shape: str | None,
    plane: InputPlane | None = None,
) -> Slice:
    """The slice that --points, --box or --vary names."""
    input_shape = options.read_shape(shape)
    if (points is not None) + (box is not None) + (plane is not None) != 1:
        raise InputError("Expected one slice: give --points FILE or --box LO HI or --vary I J, and not both.")
    if points is not None:
        return load.hull(load.load_points(points, input_shape=input_shape))
    if box is not None:
        return load.box(*box, input_shape or load.infer_input_shape(network))
    assert plane is not None
    return plane.box(input_shape or load.infer_input_shape(network))


def check_targets(json_file: str | None, plot_file: Path | None, where: Slice) -> None:
    """Say before the work, not after it, that a file cannot be written."""
    output.check_json(json_file)
    if plot_file is not None:
        output.check_plot(plot_file, where.dim)


def _labelled(figure: Figure, plane: InputPlane | None) -> Figure:
    """The picture with the names of the two inputs that vary, and what the others are."""
    if plane is not None:
        plane.label(figure.axes[0])
    return figure


def _exit(certificate: Certificate | None) -> None:
    if certificate is not None and not certificate:
        raise typer.Exit(1)


def _activation(found: Partition | RegionTotals) -> tuple[dict[str, int], dict[str, Any]]:
    """The numbers of activation regions, for the screen and for JSON."""
    counts = {f"activation regions after {name}": count for name, count in found.by_layer.items()}
    counts["activation regions"] = found.n_activation_regions
    return counts, {
        "activation_regions": found.n_activation_regions,
        "activation_regions_after_layer": dict(found.by_layer),
    }


def _report(
    where: Slice, stats: Stats, counts: dict[str, int], numbers: dict[str, Any], json_file: str | None,
    plane: InputPlane | None, certificate: Certificate | None = None,
) -> None:  # fmt: skip
    if certificate is not None:
        numbers = {**numbers, "certificate": certificate.summary()}
    if plane is not None:
        numbers = {**numbers, "plane": plane.document()}
        if json_file != "-":
            typer.echo(plane.sentence())
    if json_file != "-":
        output.print_counts(f"{where}, {stats.seconds:.3g} s", {**counts, "values snapped to zero": stats.snapped})
        if certificate is not None:
            typer.echo(str(certificate))
    if json_file is not None:
        slice_numbers = {"dim": where.dim, "input_shape": list(where.input_shape), "size": where.size}
        document = {**numbers, "slice": slice_numbers, "stats": asdict(stats), "provenance": provenance()}
        output.write_json(document, json_file)
