"""Section 6.2: Lemmas 6.4 and 6.5 and Theorem 6.3, with both sides computed while two-layer networks train."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from regionscope_lab.config import Experiment
from regionscope_lab.papers.declaration import Size
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.shallow.two_layer import initial_two_layer, sharpness
from regionscope_lab.shallow.two_layer_rates import (
    alternating_line,
    random_sphere,
    regions_vs_learning_rate,
)

_SHARES = (0.1, 0.3, 0.6, 1.0, 1.3, 1.6)  # learning rates, times 2 / sharpness at the start


def descend_with(
    *, data: str, n: int, dim: int, width: int, share: float, runs: int, steps: int, record: int
) -> dict[str, Any]:
    """Gradient descent with one learning rate, ``share`` of 2 / sharpness at the start; every inequality is checked.

    All rates descend for the same time, rate x steps.
    """
    x, y = alternating_line(n) if data == "line" else random_sphere(n, dim, seed=0)
    edge = 2 / sharpness(initial_two_layer(width, x.shape[1], seed=0), x)
    (row,) = regions_vs_learning_rate(x, y, [share * edge], width=width, runs=runs, time=steps * edge, record=record)
    return asdict(row) | {"checked": runs * record}


_SIZES: dict[Size, dict[str, Any]] = {  # steps: at the rate 2 / sharpness
    "smoke": {"width": 16, "runs": 2, "steps": 40, "record": 3},
    "desk": {"width": 60, "runs": 8, "steps": 400, "record": 9},
    "full": {"width": 200, "runs": 50, "steps": 5000, "record": 21},
}
_POINTS: dict[Size, tuple[int, int]] = {"smoke": (6, 6), "desk": (8, 12), "full": (16, 32)}


def compute(workspace: Workspace, size: Size, runs: Mapping[str, Sequence[Experiment]]) -> None:
    """Every learning rate on points of a line and of a sphere."""
    line, sphere = _POINTS[size]
    asked = [
        {"data": data, "n": n, "dim": dim, "share": share, **_SIZES[size]}
        for data, n, dim in (("line", line, 2), ("sphere", sphere, 5))
        for share in ((0.3, 1.0) if size == "smoke" else _SHARES)
    ]
    workspace.compute(descend_with, asked)
