"""``regionscope points``: the linear regions of data points, and how far they are from the nearest fold."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import torch
import typer
from torch import Tensor

from regionscope.cli import load, options, output
from regionscope.cli.job import NetworkJob, with_job
from regionscope.cli.options import option
from regionscope.cli.running import work_bar
from regionscope.errors import InputError
from regionscope.points import PointRegions, regions_at

_POINTS = "Points"
_DEFAULT = options.defaults(regions_at)
_TABLES = (".csv",)

DataOption = Annotated[Path | None, option("--data FILE", f"Inputs, taken as they are: {options.ROWS}.", _POINTS)]
LabelsOption = Annotated[
    Path | None, option("--labels FILE", "Their labels, for accuracies: one whole number an input.", _POINTS)
]
NormOption = Annotated[Literal["1", "2", "inf"], option("--norm", "Norm of the distances.", _POINTS)]
MergeOption = Annotated[bool, option("--affine", "Whether regions with the same affine map count as one.", _POINTS)]
TimeOption = Annotated[
    float | None,
    option("--time-limit SECONDS", "Stop as soon as the work is estimated to take longer.", options.WORK, least=0),
]


class PointsJob(NetworkJob):
    """Also writes tables."""

    endings: ClassVar[tuple[str, ...]] = (*NetworkJob.endings, *_TABLES)


@with_job
def points(
    job: PointsJob, data: DataOption = None, labels: LabelsOption = None, norm: NormOption = "2",
    affine: MergeOption = False, time_limit: TimeOption = _DEFAULT["time_limit"],
) -> None:  # fmt: skip
    """Find the linear region of each input in the full input space, and the exact distance to its nearest fold.

    Example: regionscope points --model net.py:build --weights net.safetensors --data test.npy -o table.csv
    """
    network = job.network()
    inputs = job.inputs(data)
    job.check_targets(1)
    truth = None if labels is None else _read_labels(labels, len(inputs))
    with work_bar("Measuring") as bar, job.explaining(network, inputs):
        result = regions_at(
            network, inputs, norm=math.inf if norm == "inf" else int(norm), merge="affine" if affine else None,
            time_limit=time_limit, progress=bar,
        )  # fmt: skip
    if not job.as_json:
        shown: dict[str, float] = {"regions": result.n_regions, "inputs on a fold": int(result.on_fold.sum())}
        shown |= {f"{name} distance": value for name, value in _quantiles(result).items()}
        shown["median distance to another label, at least"] = float(result.label_distance.median())
        output.print_counts(f"Regions of {len(result):,} inputs, {result.seconds:.3g} s", shown)
    table = result.table(truth)
    for path in job.named(_TABLES):
        rows = zip(*(column.tolist() for column in table.values()), strict=True)
        output.write_text(path, "\n".join([",".join(table), *(",".join(map(str, row)) for row in rows)]) + "\n")
        typer.echo(f"wrote {path}", err=True)
    job.write(_numbers(result, {name: column.tolist() for name, column in table.items()}))
    job.draw("distance_figure", result, truth)


def _read_labels(path: Path, n: int) -> Tensor:
    """Whole numbers (n,)."""
    labels = torch.from_numpy(load.load_array(path)).flatten()
    if len(labels) != n or not bool((labels == labels.round()).all()):
        raise InputError(
            f"Expected {n} whole numbers in {str(path)!r}, one for each input, got {len(labels)} numbers. Pass the "
            "labels of the inputs of --data."
        )
    return labels.long()


def _quantiles(result: PointRegions) -> dict[str, float]:
    shares = {"10%": 0.1, "median": 0.5, "90%": 0.9}
    return {name: float(result.distance.quantile(q, interpolation="nearest")) for name, q in shares.items()}


def _numbers(result: PointRegions, table: dict[str, list[Any]]) -> dict[str, Any]:
    return {
        "regions": result.n_regions, "inputs": len(result), "norm": result.norm, "distance": result.distance.tolist(),
        "on_fold": result.on_fold.tolist(), "ids": result.ids.tolist(), "labels": result.labels.tolist(),
        "label_distance": result.label_distance.tolist(), "label_exact": result.label_exact.tolist(),
        "nearest": [
            {"module": module, "unit": unit}
            for module, unit in zip(result.nearest.modules, result.nearest.unit.tolist(), strict=True)
        ],
        "table": table, "seconds": round(result.seconds, 6),
    }  # fmt: skip
