"""``regionscope count``: the mean number of decision regions on random slices through data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
from rich.console import Console
from rich.table import Column, Table

from regionscope.cli import options
from regionscope.cli.job import NetworkJob, with_job
from regionscope.cli.options import option
from regionscope.cli.running import work_bar
from regionscope.formatting import counted, estimated
from regionscope.measures.region_count import Method, RegionCount, Through, region_count, slice_sampler
from regionscope.sampled.grid import LabelMap, label_maps
from regionscope.sampled.labels import open_labeller

_EXAMPLES = 4
_SLICES = "Slices"
_DEFAULT = options.defaults(region_count)


DataOption = Annotated[
    Path | None,
    option("--data FILE", f"Inputs to draw slices through, taken as they are: {options.ROWS}.", _SLICES),
]
DimOption = Annotated[int, option("--dim", "Dimension of the slices.", _SLICES, least=1)]
SlicesOption = Annotated[int, option("--slices", "Number of slices.", _SLICES, least=1)]
GridOption = Annotated[
    int | None,
    option(
        "--grid N",
        "Number of points along each axis; by default 200 in 1-D, 30 in 2-D, fewer in more dimensions.",
        _SLICES,
    ),
]
MethodOption = Annotated[Method, option("--method", "Counting method.", _SLICES)]
UntilOption = Annotated[
    float | None, option("--until SHARE", "Relative standard error at which to stop drawing slices.", _SLICES)
]
ThroughOption = Annotated[
    Through,
    option(
        "--through",
        "Kind of slices: hulls of inputs, random directions from an input, or lines from the origin.",
        _SLICES,
    ),
]
SeedOption = Annotated[
    int | None,
    option("--seed", "Seed for the slices; by default 0.", _SLICES, least=0),
]


@with_job
def count(
    job: NetworkJob, data: DataOption = None, dim: DimOption = _DEFAULT["dim"],
    slices: SlicesOption = _DEFAULT["slices"], grid: GridOption = _DEFAULT["grid"],
    method: MethodOption = _DEFAULT["method"], until: UntilOption = _DEFAULT["until"],
    through: ThroughOption = _DEFAULT["through"], seed: SeedOption = None,
    dask: options.DaskOption = None, class_names: options.ClassNamesOption = None,
) -> None:  # fmt: skip
    """Estimate the mean number of decision regions on random slices through data, for any classifier.

    Example: regionscope count --model net.py:build --weights net.safetensors --data train.npy --dim 1 --slices 100
    """
    network = job.network()
    inputs = job.inputs(data)
    job.check_targets(dim)
    names: Sequence[str] | None = options.read_class_names(class_names)
    classes = job.n_classes
    if names is not None and classes is None:
        with job.explaining(network, inputs):
            classes = _classes(network, inputs)
    names = names if classes is None else job.names_or_known(names, classes)
    if seed is None:
        seed = _DEFAULT["seed"] if job.stored_seed is None else job.stored_seed
    drawing: dict[str, Any] = {"through": through, "seed": seed}
    working: dict[str, Any] = {"until": until, "dask": dask}
    with work_bar("Counting") as bar, job.explaining(network, inputs):
        working["progress"] = bar
        result = region_count(network, inputs, dim=dim, slices=slices, grid=grid, method=method, **drawing, **working)
    if not job.as_json:
        console = Console()
        console.print(_title(result), highlight=False)
        console.print(_table(result))
    job.write(_numbers(result))
    if job.pictures:
        sampler = slice_sampler(inputs, dim=dim, slices=slices, **drawing)
        chosen = [sampler.draw(i) for i in range(min(_EXAMPLES, result.n))]
        examples = _examples(network, inputs, chosen, result.grid)
        source = ", ".join(str(part) for part in (job.model, job.weights) if part is not None)
        job.draw("count_figure", {source: result}, examples, class_names=names)


def _classes(network: torch.nn.Module, inputs: torch.Tensor) -> int | None:
    """Number of classes of the network; None if it returns labels, whose number is not known."""
    with open_labeller(network, inputs, tuple(inputs.shape[1:]), widened=True) as labeller:
        row = inputs[:1].to(dtype=labeller.dtype, device=labeller.device)
        labeller(row)  # says what is wrong with outputs that are neither logits nor labels
        logits = labeller.model(row)
    return max(2, logits.numel()) if logits.is_floating_point() else None


def _examples(network: torch.nn.Module, inputs: torch.Tensor, chosen: Any, grid: int | None) -> list[LabelMap]:
    with open_labeller(network, inputs, chosen[0].input_shape, widened=True) as labeller:
        return label_maps(labeller, chosen, grid)


def _title(result: RegionCount) -> str:
    points = f"{result.grid} points{' along each axis' if result.dim > 1 else ''}"
    how = result.method if result.grid is None else f"{result.method}, {points}"
    return f"Decision regions on {counted(result.n, 'slice')} of dimension {result.dim} ({how})"


def _table(result: RegionCount) -> Table:
    table = Table("", Column("", justify="right"), show_header=False)
    table.add_row("mean", estimated(result.value, None))
    if result.n > 1:
        table.add_row("standard error", f"{result.stderr:.2g}")
        table.add_row("95% interval", " to ".join(estimated(end, None) for end in result.interval))
    table.add_row("fewest, most", f"{int(result.counts.min())}, {int(result.counts.max())}")
    if result.method == "grid" and result.dim > 1:
        table.add_row("error of the lattice", "not included; see --method refined")
    if result.grid_bias is not None:
        table.add_row("bias of the plain grid", f"{result.grid_bias.value:+.3g} ± {result.grid_bias.stderr:.2g}")
    table.add_row("seconds", f"{result.seconds:.3g}")
    if not result.status:
        table.add_row("incomplete", result.status.reason)
    return table


def _numbers(result: RegionCount) -> dict[str, Any]:
    bias = result.grid_bias
    return {
        "mean": result.value, "stderr": result.stderr, "interval_95": list(result.interval), "n": result.n,
        "counts": result.counts.tolist(), "dim": result.dim, "method": result.method, "grid": result.grid,
        "grid_bias": None if bias is None else {"value": bias.value, "stderr": bias.stderr},
        "seed": result.seed, "complete": result.status.complete,
        "reason": result.status.reason, "seconds": round(result.seconds, 6),
    }  # fmt: skip
