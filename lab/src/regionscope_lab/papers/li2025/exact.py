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
from regionscope.sampled.components import count_components
from regionscope_lab.config import Experiment
from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Bars, Lines, Series
from regionscope_lab.papers.li2025.cifar10 import runs_of_cifar10
from regionscope_lab.papers.stored import last_model, training_points
from regionscope_lab.papers.study import Claim, Outcome, Size, Table
from regionscope_lab.papers.workspace import Place, Workspace

_GRID = 200
_FINE_ENOUGH = 0.01  # the paper's counts with 200 and with 500 points on a line agree to the third digit
_SEGMENTS: dict[Size, int] = {"smoke": 4, "desk": 20, "full": 20}
_FLOOR_VERTICES, _FLOOR_BATCH = 1 << 13, 2048  # vertices on which the floor is timed, and how many at a time

Answer = Mapping[str, Any]
Answered = TypeVar("Answered")


def runs_of_exact(size: Size) -> tuple[Experiment, ...]:
    """One run of the sweep of ``li2025-cifar10``: the middle setting of Table 1."""
    first = [one for one in runs_of_cifar10(size) if one.seed == 0]
    return (first[len(first) // 2],)


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
    return int(count_components(labels.cpu().numpy(), dim=1))


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


def exact(workspace: Workspace, size: Size) -> Outcome:
    run = workspace.runs(runs_of_exact(size))[0]
    asked = [{"run": run.path.name, "line": i} for i in range(_SEGMENTS[size])]
    return of_segments(list(workspace.compute_with_place(on_segment, asked)), run.experiment.label)


def of_segments(answers: Sequence[Answer], label: str) -> Outcome:
    """answers: what ``on_segment`` returned for each line."""
    regions, grid = fmean(one["regions"] for one in answers), fmean(one["grid"] for one in answers)
    missed = [one["regions"] - one["grid"] for one in answers]
    claims = (
        Claim(
            f"regions on a line: grid of {_GRID} points / exact",
            "1 (Table 4: 2.78 with 200 and with 500 points)",
            f"{grid:.2f} / {regions:.2f} = {grid / regions:.3f}",
            verdict.agrees(1.0, grid / regions, within=_FINE_ENOUGH),
            f"{len(answers)} lines, {sum(missed)} of {sum(one['regions'] for one in answers)} regions missed",
        ),
        _shown("linear pieces on a line", [one["pieces"][-1] for one in answers], "{:,.0f}"),
        _shown("linear pieces for each decision region",
               [one["pieces"][-1] / one["regions"] for one in answers], "{:,.0f}"),
        _shown("seconds over those of a forward pass over the final vertices",
               [one["seconds"] / one["floor"] for one in answers], "{:.2f}"),
    )  # fmt: skip
    return Outcome(
        claims=claims,
        tables=(_table(answers),),
        charts=(_by_layer(answers), _side_by_side(answers)),
        notes=(
            f"The network: {label}. Lines join two random training points. Everything is computed in float64, the "
            "forward pass that the seconds are compared with too.",
            "The computation can take less time than a forward pass over the final vertices, since the first layers "
            "run on fewer vertices.",
        ),
    )


def _shown(what: str, values: Sequence[float], form: str) -> Claim:
    spread = f"from {form.format(min(values))} to {form.format(max(values))}"
    return Claim(what, "", form.format(fmean(values)), verdict.shown(), spread)


def _table(answers: Sequence[Answer]) -> Table:
    columns = (
        "line", "pieces", "regions", f"grid of {_GRID}", "missed", "median piece", "shortest piece", "seconds", "floor",
        "ratio", "GiB",
    )  # fmt: skip
    rows: tuple[tuple[str | float | int, ...], ...] = tuple(
        (
            " - ".join(map(str, one["ends"])), one["pieces"][-1], one["regions"], one["grid"],
            one["regions"] - one["grid"], one["median"], one["shortest"], one["seconds"], one["floor"],
            one["seconds"] / one["floor"], "" if one["gib"] is None else one["gib"],
        )
        for one in answers
    )  # fmt: skip
    return Table("Lines", columns, rows)


def _by_layer(answers: Sequence[Answer]) -> Lines:
    layers = list(zip(*(one["pieces"] for one in answers), strict=True))
    x = tuple(float(i) for i in range(1, len(layers) + 1))
    return Lines(
        title="Linear pieces on a line after each nonlinearity", x_label="nonlinearity",
        y_label=f"pieces (lines: {len(answers)}, mean)",
        series=(Series(label="pieces", x=x, y=tuple(fmean(layer) for layer in layers)),),
    )  # fmt: skip


def _side_by_side(answers: Sequence[Answer]) -> Bars:
    series = tuple(
        Series(label=label, x=(), y=tuple(float(one[name]) for one in answers))
        for label, name in (("exact", "regions"), (f"grid of {_GRID}", "grid"))
    )
    return Bars(
        title="Decision regions on every line", x_label="line", y_label="regions",
        names=tuple(str(i) for i in range(len(answers))), series=series,
    )  # fmt: skip
