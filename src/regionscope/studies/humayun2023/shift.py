"""Figure 17 and the zero-bias check of appendix C: random networks, no training."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from regionscope.measures import local_complexity
from regionscope.studies import verdict
from regionscope.studies.charts import Lines, Series
from regionscope.studies.study import Claim, Outcome, Size, Study, Table
from regionscope.studies.workspace import Workspace

__all__ = ["FIGURE17", "shift_claims", "shifted", "zero_bias"]

_INPUTS = 784
_DIMS = (2, 10, 25, 50, 100, 200)
_RADII = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
_SHIFTS = tuple(range(11))
_FIXED_RADIUS, _FIXED_DIMS = 5.0, 20  # left and right part of the figure
_RIGHT_RADII = (0.5, 1.0, 2.0, 5.0, 10.0)
_SEEDS: dict[Size, tuple[int, ...]] = {"smoke": (0, 1), "desk": (0, 1, 2, 3, 4), "full": (0, 1, 2, 3, 4)}
_LINEAR: dict[Size, tuple[int, int]] = {"smoke": (5, 40), "desk": (50, 400), "full": (50, 400)}
_DEPTH, _WIDTH = 18, 100

Counts = Mapping[float, list[float]]


def zero_bias(depth: int, width: int, seed: int) -> dict[str, Any]:
    """Share of units that fold at the origin of a linear network without bias, by dimension and radius."""
    model = _stack(depth, width, bias=False, activation=None, seed=seed)
    origin = torch.zeros(1, _INPUTS)
    shares = [
        [
            int(local_complexity(model, origin, dims=dims, radius=radius, linear_outputs=True).total) / (depth * width)
            for radius in _RADII
        ]
        for dims in _DIMS
    ]
    return {"shares": shares}


def shifted(seed: int) -> dict[str, Any]:
    """LC at [s]^d for growing s, by the number of directions and by radius."""
    model = _stack(_DEPTH, _WIDTH, bias=True, activation=nn.LeakyReLU(0.01), seed=seed)
    centres = torch.tensor(_SHIFTS, dtype=torch.float32)[:, None].expand(-1, _INPUTS)
    by_dims = [local_complexity(model, centres, dims=dims, radius=_FIXED_RADIUS).total.tolist() for dims in _DIMS]
    by_radius = [
        local_complexity(model, centres, dims=_FIXED_DIMS, radius=radius).total.tolist() for radius in _RIGHT_RADII
    ]
    return {"by_dims": by_dims, "by_radius": by_radius}


def _stack(depth: int, width: int, *, bias: bool, activation: nn.Module | None, seed: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for i in range(depth):
            layers.append(nn.Linear(_INPUTS if i == 0 else width, width, bias=bias))
            layers += [activation] if activation is not None else []
    return nn.Sequential(*layers)


def shift_claims(by_dims: Counts, by_radius: Counts) -> tuple[Claim, ...]:
    """Mean counts at each shift, by P and by r."""
    every = {**{f"P = {p:g}": v for p, v in by_dims.items()}, **{f"r = {r:g}": v for r, v in by_radius.items()}}
    rising = [name for name, values in every.items() if values[-1] >= values[0]]
    means = {p: sum(values) / len(values) for p, values in by_dims.items()}
    dims = list(means)
    gains = [(means[b] - means[a]) / (b - a) for a, b in pairwise(dims)]
    radii = list(by_radius)
    level = [sum(by_radius[r]) / len(by_radius[r]) for r in radii]
    change = [(by_radius[r][0] - by_radius[r][-1]) / by_radius[r][0] for r in radii]
    return (
        Claim("LC at the largest shift is below that at the origin", "in all settings",
              f"in {len(every) - len(rising)} of {len(every)}", verdict.holds(len(rising), len(every))),
        Claim("LC gained for each further direction, P from 2 to 200", "less and less (saturation)",
              ", ".join(f"{gain:.3g}" for gain in gains),
              verdict.ordering(list(range(len(gains), 0, -1)), gains)),
        Claim("mean LC by radius", "more with radius", ", ".join(f"{v:.4g}" for v in level),
              verdict.ordering(radii, level)),
        Claim("share of LC lost over the shift, by radius", "less with radius", ", ".join(f"{v:.2f}" for v in change),
              verdict.ordering([-r for r in radii], change)),
    )  # fmt: skip


def _analyse(workspace: Workspace, size: Size) -> Outcome:
    depth, width = _LINEAR[size]
    zero = workspace.compute(zero_bias, [{"depth": depth, "width": width, "seed": 0}])[0]["shares"]
    found = workspace.compute(shifted, [{"seed": seed} for seed in _SEEDS[size]])
    by_dims = {float(p): _mean([one["by_dims"][i] for one in found]) for i, p in enumerate(_DIMS)}
    by_radius = {r: _mean([one["by_radius"][i] for one in found]) for i, r in enumerate(_RIGHT_RADII)}
    least = min(min(row) for row in zero)
    rows = tuple((dims, *row) for dims, row in zip(_DIMS, zero, strict=True))
    columns = ("P", *(f"r = {radius:g}" for radius in _RADII))
    return Outcome(
        claims=(
            Claim("linear network without bias: share of units found to fold at the origin", "1 in all trials",
                  f"at least {least:.4f}", verdict.agrees(1.0, least, within=1e-6)),
            *shift_claims(by_dims, by_radius),
        ),
        tables=(Table(f"Share of the {depth * width:,} units that fold at the origin", columns, rows),),
        charts=(
            _chart(f"Figure 17, left: r = {_FIXED_RADIUS:g}", {f"P = {p:g}": v for p, v in by_dims.items()}),
            _chart(f"Figure 17, right: P = {_FIXED_DIMS}", {f"r = {r:g}": v for r, v in by_radius.items()}),
        ),
        notes=("With ReLU between the layers of the network without bias not all units are found, since deep layers "
               "see the neighbourhood only through the units before them; the paper's toy is linear.",),
    )  # fmt: skip


def _mean(lists: list[list[float]]) -> list[float]:
    return [sum(values) / len(values) for values in zip(*lists, strict=True)]


def _chart(title: str, curves: Mapping[str, list[float]]) -> Lines:
    x = tuple(map(float, _SHIFTS))
    series = tuple(Series(label=label, x=x, y=tuple(values)) for label, values in curves.items())
    return Lines(title=title, x_label="shift s to the centre [s]^d", y_label="local complexity", series=series)


FIGURE17 = Study(
    name="humayun2023-figure17",
    paper="humayun2023",
    source="Figure 17, appendix C",
    claim="In a random network local complexity falls with the distance from the origin, saturates with the number of "
    "directions, and grows with the radius; without bias every unit is found at the origin.",
    analyse=_analyse,
    scaled={
        "smoke": "5 layers of 40 in place of 50 of 400 for the check without bias.",
        "desk": "Nothing is scaled down.",
    },
)
