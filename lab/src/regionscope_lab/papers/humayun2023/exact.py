"""Figure 14: local complexity against exact counts of linear regions over training."""

from __future__ import annotations

from typing import Any

import torch

from regionscope.complexity import local_complexity, orthonormal_frames
from regionscope.exact import linear_regions
from regionscope.geometry import Box
from regionscope.measures.correlate import correlate
from regionscope.types import Estimate
from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Lines, Scatter, Series
from regionscope_lab.papers.humayun2023.claims import three_phases
from regionscope_lab.papers.humayun2023.curves import Curve
from regionscope_lab.papers.humayun2023.settings import mlp
from regionscope_lab.papers.papers import read_study
from regionscope_lab.papers.stored import model_at, stored_steps, training_points
from regionscope_lab.papers.study import Claim, Outcome, Size
from regionscope_lab.papers.workspace import Place, Workspace

_DIMS = 25
_POINTS: dict[Size, int] = {"smoke": 6, "desk": 60, "full": 500}
_RADII: dict[Size, float] = {"smoke": 0.5, "desk": 0.05, "full": 0.001}


def counts_at(place: Place, run: str, step: int, points: int, radius: float) -> dict[str, Any]:
    """Exact linear regions on a small square around training points, and LC around the same points."""
    folder = place.run(run)
    inputs, _ = training_points(folder, place.data_root)
    chosen = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(0))[:points]
    around = inputs[chosen]
    plane = orthonormal_frames(tuple(around.shape[1:]), dims=2, seed=0)
    model = model_at(folder, step)
    squares = linear_regions(model, [Box(point, plane, radius) for point in around])
    exact = Estimate.of(torch.tensor([part.n_linear_regions for part in squares]))
    found = local_complexity(model, around, dims=min(_DIMS, around[0].numel()), radius=radius)
    return {"exact": exact.value, "exact_error": exact.stderr, "lc": found.mean, "lc_error": found.stderr}


def together(lc: Curve, exact: Curve) -> tuple[Claim, ...]:
    """Both fall, rise and fall, and they do it together."""
    found = correlate(lc.means, exact.means).pearson
    low, high = found.interval
    return (
        three_phases("local complexity", lc),
        three_phases("exact linear regions", exact),
        Claim(
            "correlation of the two over training",
            "similar trend",
            f"{found.value:+.2f}",
            verdict.correlation(0.9, found),
            f"95% [{low:+.2f}, {high:+.2f}]",
        ),
    )


def _analyse(workspace: Workspace, size: Size) -> Outcome:
    runs = workspace.runs(mlp(size, depth=3))
    steps = stored_steps(runs[0])
    settings = [
        {"run": run.path.name, "step": step, "points": _POINTS[size], "radius": _RADII[size]}
        for run in runs
        for step in steps
    ]
    answers = workspace.compute_with_place(counts_at, settings)
    rows = [answers[i : i + len(steps)] for i in range(0, len(answers), len(steps))]
    lc, exact = (_curve(steps, rows, name) for name in ("lc", "exact"))
    pairs = Series(label="", x=lc.means, y=exact.means)
    return Outcome(
        claims=together(lc, exact),
        charts=(
            Lines(
                title="Figure 14: relative to the largest", x_label="step", y_label="share of the largest value",
                series=(_relative("local complexity", lc), _relative("exact linear regions - 1", exact, less=1.0)),
                x_scale="symlog",
            ),
            Scatter.fitted(
                title="Figure 14: one point for each step", x_label="local complexity",
                y_label="exact linear regions", series=(pairs,),
            ),
        ),
        notes=(
            f"Squares 2 r wide in two random directions and cross-polytopes in {_DIMS}, r = {_RADII[size]:g}, around "
            f"{_POINTS[size]} training points. The paper gives no correlation; the rule asks for 0.9.",
        ),
    )  # fmt: skip


def _curve(steps: tuple[int, ...], rows: list[list[dict[str, Any]]], name: str) -> Curve:
    values, errors = (
        torch.tensor([[one[key] for one in line] for line in rows], dtype=torch.float64).numpy()
        for key in (name, f"{name}_error")
    )
    return Curve(steps, values, errors)


def _relative(label: str, curve: Curve, *, less: float = 0.0) -> Series:
    most = max(max(curve.means) - less, 1e-12)
    points = zip(curve.steps, curve.means, curve.errors, strict=True)
    return Series.of(label, ((float(step), (value - less) / most, error / most) for step, value, error in points))


FIGURE14 = read_study("humayun2023-figure14", experiments=lambda size: mlp(size, depth=3), analyse=_analyse)
