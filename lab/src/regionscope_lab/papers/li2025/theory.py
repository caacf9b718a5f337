"""Section 6.2: Lemmas 6.4 and 6.5 and Theorem 6.3, with both sides computed while two-layer networks train."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch

from regionscope_lab.config import Experiment
from regionscope_lab.papers.declaration import Size
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.shallow.two_layer import TwoLayer, descend, initial_two_layer, sharpness
from regionscope_lab.shallow.two_layer_rates import (
    alternating_line,
    check_bounds,
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


def zigzag(n: int) -> TwoLayer:
    """A network of n units whose sign is that of the labels of ``alternating_line(n)``, for even n.

    It is odd and linear around 0, and turns back a quarter of a gap beyond each point but the last on either side. Each
    unit is active on the side of its fold that has fewer points, or half of them.
    """
    gap = 2 / (n - 1)
    folds = gap * (torch.arange(n // 2 - 1, dtype=torch.float64, device="cpu") + 0.75)
    sizes = torch.full_like(folds, 4 / gap)
    sizes[:1] = 10 / (3 * gap)  # from the slope 4 / (3 gap) through 0 to -2 / gap
    side = torch.stack([torch.ones_like(folds), -folds], 1) * sizes[:, None]
    middle = torch.tensor([[4 / (3 * gap), 0.0]], dtype=torch.float64, device="cpu")
    right = torch.cat([middle, side])
    signs = torch.ones(n // 2, dtype=torch.float64, device="cpu")
    signs[1::2] = -1
    signs *= 1 if n % 4 == 0 else -1
    return TwoLayer(torch.cat([right, right * torch.tensor([-1.0, 1.0])]), torch.cat([signs, -signs]))


def on_a_line(*, n: int, seed: int | None, steps: int) -> dict[str, Any]:
    """Both sides of Theorem 6.3 where labels alternate along a line: of ``zigzag`` (no seed), or of a network of 4 n
    units after gradient descent with the rate 2 / sharpness of its start.
    """
    x, y = alternating_line(n)
    network = zigzag(n) if seed is None else initial_two_layer(4 * n, 2, seed=seed)
    rate = 2 / sharpness(network, x)
    for current in descend(network, x, y, rate=rate, steps=steps):
        network = current
    row = check_bounds(network, x, y, rate=rate)
    return {
        "regions": row.mean_regions, "sharpness": row.sharpness, "radius": float(x.norm(dim=1).min()),
        "accuracy": row.accuracy,
    }  # fmt: skip


_SIZES: dict[Size, dict[str, Any]] = {  # steps: at the rate 2 / sharpness
    "smoke": {"width": 16, "runs": 2, "steps": 40, "record": 3},
    "desk": {"width": 60, "runs": 8, "steps": 400, "record": 9},
    "full": {"width": 200, "runs": 50, "steps": 5000, "record": 21},
}
_POINTS: dict[Size, tuple[int, int]] = {"smoke": (6, 6), "desk": (8, 12), "full": (16, 32)}


def compute(workspace: Workspace, size: Size, runs: Mapping[str, Sequence[Experiment]]) -> None:
    """Every learning rate on points of a line and of a sphere; lines with several numbers of points."""
    line, sphere = _POINTS[size]
    asked = [
        {"data": data, "n": n, "dim": dim, "share": share, **_SIZES[size]}
        for data, n, dim in (("line", line, 2), ("sphere", sphere, 5))
        for share in ((0.3, 1.0) if size == "smoke" else _SHARES)
    ]
    workspace.compute(descend_with, asked)
    built, trained, starts, steps = (
        ((4, 8), (4,), 1, 20) if size == "smoke" else ((8, 16, 32, 64, 128), (8, 16, 32), 5, 20_000)
    )
    cells: list[dict[str, Any]] = [{"n": n, "seed": None, "steps": 0} for n in built]
    cells += [{"n": n, "seed": seed, "steps": steps} for n in trained for seed in range(starts)]
    workspace.compute(on_a_line, cells)
