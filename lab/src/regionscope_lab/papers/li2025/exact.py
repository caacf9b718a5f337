"""How far the grid of 200 points is from the exact number of regions on a line, and what those regions are made of."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from regionscope.exact import decision_regions
from regionscope.geometry import Segment
from regionscope.network.call.precision import full_precision
from regionscope_lab.config import Experiment
from regionscope_lab.papers.declaration import Finding, Size, Table
from regionscope_lab.papers.rules import in_range, share
from regionscope_lab.papers.seed_table import Runs, SeedTable
from regionscope_lab.papers.workspace import Place, Workspace, last_model, training_points

_GRID = 200

_FLOOR_VERTICES, _FLOOR_BATCH = 1 << 13, 2048  # vertices on which the floor is timed, and how many at a time
Answered = TypeVar("Answered")


def on_segment(place: Place, run: str, line: int) -> dict[str, Any]:
    """Exact pieces and decision regions between two random training points, and what a grid sees.

    floor: seconds of one forward pass in float64 over the final vertices, from a sample of them.
    """
    folder = place.run(run)
    inputs, _ = training_points(folder, place.data_root)
    ends = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(line))[:2].tolist()
    segment = Segment(inputs[ends[0]], inputs[ends[1]])
    device = torch.device(place.device)
    model = last_model(folder).to(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    seconds, decision = _timed(lambda: decision_regions(model, segment), device)
    gib = torch.cuda.max_memory_allocated(device) / 2**30 if device.type == "cuda" else None
    part = decision.partition
    lengths = part.vertices[:, 0].sort().values.diff()
    return {
        "ends": ends,
        "pieces": list(part.by_layer.values()),
        "regions": decision.count,
        "boundary": sorted(decision.boundary.flatten().tolist()),
        "grid": _on_grid(model, segment, device),
        "shortest": float(lengths.min()),
        "median": float(lengths.median()),
        "seconds": seconds,
        "floor": _floor(model.double(), segment, part.vertices, device),
        "gib": gib,
    }


def _on_grid(model: nn.Module, segment: Segment, device: torch.device) -> int:
    """Regions that the grid sees, in float64, so that a difference comes from its spacing alone."""
    low, high = segment.corners[:, 0].tolist()
    points = segment.embed(torch.linspace(low, high, _GRID, dtype=torch.float64)[:, None]).to(device)
    with torch.no_grad():
        labels = torch.cat([model.double()(some).argmax(1) for some in points.split(100)])
    return 1 + int((labels[1:] != labels[:-1]).sum())


def _floor(model: nn.Module, segment: Segment, vertices: Tensor, device: torch.device) -> float:
    picked = torch.linspace(0, len(vertices) - 1, min(_FLOOR_VERTICES, len(vertices)), device=vertices.device).long()
    inputs = segment.embed(vertices[picked].cpu()).to(device)

    def forward() -> None:
        with torch.no_grad(), full_precision():
            for some in inputs.split(_FLOOR_BATCH):
                model(some)

    forward()  # the first call prepares
    return _timed(forward, device)[0] * len(vertices) / len(picked)


def _timed(work: Callable[[], Answered], device: torch.device) -> tuple[float, Answered]:
    _wait(device)
    start = time.perf_counter()
    result = work()
    _wait(device)
    return time.perf_counter() - start, result


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def compute(workspace: Workspace, size: Size, runs: Mapping[str, Sequence[Experiment]]) -> None:
    """Lines of the middle setting of Table 1, first seed."""
    first = [one for one in runs["resnet18"] if one.seed == 0]
    (run,) = workspace.runs([first[len(first) // 2]])
    lines = 4 if size == "smoke" else 20
    workspace.compute_with_place(on_segment, [{"run": run.path.name, "line": line} for line in range(lines)])


_EXACT = (
    "line", "linear pieces", "decision regions", "on a grid of 200", "seconds",
    "seconds of a forward pass over the vertices",
)  # fmt: skip


def exact(table: SeedTable, runs: Runs) -> Finding:
    lines = sorted(table.answers("li2025.exact.on_segment"), key=lambda one: int(one["line"]))
    seen, there = (sum(one[name] for one in lines) for name in ("grid", "regions"))
    rows = tuple(
        (one["line"], one["pieces"][-1], one["regions"], one["grid"], one["seconds"], one["floor"]) for one in lines
    )
    means: tuple[str | float, ...] = ("mean", *(fmean(float(row[k]) for row in rows) for k in range(1, 6)))
    return Finding(
        {"grid": in_range(share(seen, there), 0.99, 1.0)},
        (
            Table(
                "Lines between training points, one ResNet18",
                _EXACT,
                (*rows, means),
                detail=True,
            ),
            Table("Means over 20 lines between training points, one ResNet18", ("", *_EXACT[1:]), (means,)),
        ),
    )
