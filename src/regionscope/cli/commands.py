"""The commands. A mistake of the user is one sentence on stderr and exit code 2, never a traceback."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypedDict

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import nn
from typer.core import TyperGroup

from regionscope import plot
from regionscope.cli import options, output
from regionscope.cli.network import note_weights, read_network
from regionscope.errors import InputError, RegionscopeError
from regionscope.geometry import Slice
from regionscope.lab import load
from regionscope.lab import quickstart as first_job
from regionscope.lab.provenance import provenance
from regionscope.lab.train import EpochRow
from regionscope.regions import Partition, decision_regions, linear_regions
from regionscope.version import __version__

__all__ = ["app"]


class _OneSentence(TyperGroup):
    """The only place where an error of the user becomes a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except RegionscopeError as error:
            typer.echo(f"regionscope: {error}", err=True)
            raise typer.Exit(2) from error


app = typer.Typer(cls=_OneSentence, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"regionscope {__version__}")
        raise typer.Exit


@app.callback()
def main(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Exact regions of piecewise-affine PyTorch networks, on slices of their input space."""


@app.command()
def quickstart(
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where the files go.")] = Path("quickstart"),
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="Passes over the data.")] = 100,
    seed: Annotated[int, typer.Option("--seed", min=0, help="For data, weights and batches.")] = 0,
) -> None:
    """Train a 2-[32,32,32]-2 network on two moons and count its regions before and after."""
    console = Console()
    output.check_out(out)
    columns = (TextColumn("Training"), BarColumn(), MofNCompleteColumn(), TextColumn("loss {task.fields[loss]:.4f}"))
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task("training", total=epochs, loss=float("nan"))

        def advance(row: EpochRow) -> None:
            progress.update(task, completed=row.epoch, loss=row.loss)

        result = first_job.quickstart(first_job.QuickstartConfig(epochs=epochs, seed=seed), on_epoch=advance)
    console.print(output.before_and_after(result))
    with output.writing_to(out):
        written = first_job.save(result, out)
    picture = out / "regions.png"
    output.save_figure(plot.quickstart_figure(result), picture)
    for path in (picture, *written):
        typer.echo(f"wrote {path}")


@app.command()
def regions(
    model: options.ModelOption,
    weights: options.WeightsOption = None,
    input_shape: options.ShapeOption = None,
    points: options.PointsOption = None,
    box: options.BoxOption = None,
    json_file: options.JsonOption = None,
    plot_file: options.PlotOption = None,
    memory: options.MemoryOption = None,
    device: options.DeviceOption = "cpu",
    dtype: options.DtypeOption = options.Dtype.float64,
    max_regions: options.LimitOption = None,
) -> None:
    """Count the activation regions and the linear regions of a network on a slice, exactly.

    Example: regionscope regions --model net.py:build --weights net.safetensors --box -1 1 --plot regions.png
    """
    network = read_network(model, weights, device)
    where = _slice(network, points, box, input_shape)
    _check_targets(json_file, plot_file, where)
    limits = _Limits(dtype=dtype.torch, memory=options.read_memory(memory), max_regions=max_regions)
    with output.progress_bar() as progress:
        part = linear_regions(network, where, **limits, progress=progress)
    counts = {f"activation regions after {name}": count for name, count in part.by_layer.items()}
    counts |= {"activation regions": part.n_activation_regions, "linear regions": part.n_linear_regions}
    numbers = {
        "activation_regions": part.n_activation_regions,
        "linear_regions": part.n_linear_regions,
        "activation_regions_after_layer": dict(part.by_layer),
    }
    _report(part, counts, numbers, json_file)
    note_weights(model, weights, json_file)
    if plot_file is not None:
        output.save_figure(plot.regions_figure(part), plot_file)


@app.command()
def decision(
    model: options.ModelOption,
    weights: options.WeightsOption = None,
    input_shape: options.ShapeOption = None,
    points: options.PointsOption = None,
    box: options.BoxOption = None,
    json_file: options.JsonOption = None,
    plot_file: options.PlotOption = None,
    memory: options.MemoryOption = None,
    device: options.DeviceOption = "cpu",
    dtype: options.DtypeOption = options.Dtype.float64,
    max_regions: options.LimitOption = None,
) -> None:
    """Count the decision regions (connected sets of one predicted label) of a network on a slice, exactly.

    Example: regionscope decision --model net.py:build --weights net.safetensors --points triangle.npy --json -
    """
    network = read_network(model, weights, device)
    where = _slice(network, points, box, input_shape)
    _check_targets(json_file, plot_file, where)
    limits = _Limits(dtype=dtype.torch, memory=options.read_memory(memory), max_regions=max_regions)
    with output.progress_bar() as progress:
        dec = decision_regions(network, where, **limits, progress=progress)
    by_label = {str(label): count for label, count in sorted(Counter(dec.labels.tolist()).items())}
    counts = {f"decision regions with label {label}": count for label, count in by_label.items()}
    counts |= {"decision regions": dec.count}
    numbers = {"decision_regions": dec.count, "decision_regions_with_label": by_label}
    _report(dec.partition, counts, numbers, json_file)
    note_weights(model, weights, json_file)
    if plot_file is not None:
        output.save_figure(plot.decision_figure(dec), plot_file)


class _Limits(TypedDict):
    dtype: torch.dtype
    memory: int | None
    max_regions: int | None


def _slice(network: nn.Module, points: Path | None, box: tuple[float, float] | None, shape: str | None) -> Slice:
    input_shape = options.read_shape(shape)
    if points is not None and box is None:
        return load.hull(load.load_points(points, input_shape=input_shape))
    if box is not None and points is None:
        return load.box(*box, input_shape or load.infer_input_shape(network))
    raise InputError("A slice is needed: give either --points FILE or --box LO HI, and not both.")


def _check_targets(json_file: str | None, plot_file: Path | None, where: Slice) -> None:
    if json_file is not None and json_file != "-":
        output.check_folder(Path(json_file))
    if plot_file is not None:
        output.check_plot(plot_file, where.dim)


def _report(part: Partition, counts: dict[str, int], numbers: dict[str, Any], json_file: str | None) -> None:
    where, stats = part.slice, part.stats
    if json_file != "-":
        output.print_counts(f"{where}, {stats.seconds:.3g} s", {**counts, "values snapped to zero": stats.snapped})
    if json_file is not None:
        slice_numbers = {"dim": where.dim, "input_shape": list(where.input_shape), "size": where.size}
        document = {**numbers, "slice": slice_numbers, "stats": asdict(stats), "provenance": provenance()}
        output.write_json(document, json_file)
