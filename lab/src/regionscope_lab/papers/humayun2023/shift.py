"""Figure 17 and the zero-bias check of appendix C: random networks, no training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from regionscope.complexity import local_complexity
from regionscope.measures.statistics import mean, standard_error
from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Lines, Series
from regionscope_lab.papers.humayun2023.claims import WithError
from regionscope_lab.papers.humayun2023.curves import plus_minus
from regionscope_lab.papers.papers import read_study
from regionscope_lab.papers.study import Claim, Outcome, Size, Table
from regionscope_lab.papers.workspace import Workspace

_INPUTS = 784
DIMS = (2, 10, 25, 50, 100, 200)
RADII = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
SHIFTS = tuple(range(11))
_FIXED_RADIUS, _FIXED_DIMS = 5.0, 20  # left and right part of the figure
RIGHT_RADII = (0.5, 1.0, 2.0, 5.0, 10.0)
_SEEDS: dict[Size, tuple[int, ...]] = {"smoke": (0, 1), "desk": (0, 1, 2, 3, 4), "full": (0, 1, 2, 3, 4)}
_LINEAR: dict[Size, tuple[int, int]] = {"smoke": (5, 40), "desk": (50, 400), "full": (50, 400)}
_DEPTH, _WIDTH = 18, 100

CountsByShift = Mapping[float, Sequence[Sequence[float]]]  # by P or r: for each seed the counts at all shifts


def zero_bias(depth: int, width: int, seed: int) -> dict[str, Any]:
    """Share of units that fold at the origin of a linear network without bias, by dimension and radius."""
    model = _stack(depth, width, bias=False, activation=None, seed=seed)
    origin = torch.zeros(1, _INPUTS)
    shares = [
        [
            int(local_complexity(model, origin, dims=dims, radius=radius, linear_outputs=True).total) / (depth * width)
            for radius in RADII
        ]
        for dims in DIMS
    ]
    return {"shares": shares}


def shifted(seed: int) -> dict[str, Any]:
    """LC at [s]^d for growing s, by the number of directions and by radius."""
    model = _stack(_DEPTH, _WIDTH, bias=True, activation=nn.LeakyReLU(0.01), seed=seed)
    centres = torch.tensor(SHIFTS, dtype=torch.float32)[:, None].expand(-1, _INPUTS)
    by_dims = [local_complexity(model, centres, dims=dims, radius=_FIXED_RADIUS).total.tolist() for dims in DIMS]
    by_radius = [
        local_complexity(model, centres, dims=_FIXED_DIMS, radius=radius).total.tolist() for radius in RIGHT_RADII
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


def shift_claims(by_dims: CountsByShift, by_radius: CountsByShift) -> tuple[Claim, ...]:
    """Counts at each shift and seed, by P and by r; errors are those over the seeds."""
    every = [*by_dims.values(), *by_radius.values()]
    falls = [_over_seeds([one[0] - one[-1] for one in seeds]) for seeds in every]
    rising = sum(not fall > 2 * error for fall, error in falls)  # also where the error is not known
    gains = [
        _over_seeds([(sum(b) - sum(a)) / len(a) / (q - p) for a, b in zip(by_dims[p], by_dims[q], strict=True)])
        for p, q in pairwise(by_dims)
    ]
    radii = list(by_radius)
    level = [_over_seeds([sum(one) / len(one) for one in by_radius[r]]) for r in radii]
    change = [_over_seeds([(one[0] - one[-1]) / one[0] for one in by_radius[r]]) for r in radii]
    return (
        Claim("LC at the largest shift is below that at the origin", "in all settings",
              f"by more than two standard errors in {len(every) - rising} of {len(every)}",
              verdict.holds(rising, len(every))),
        _order("LC gained for each further direction, P from 2 to 200", "less and less (saturation)",
               list(range(len(gains), 0, -1)), gains),
        _order("mean LC by radius", "more with radius", radii, level),
        _order("share of LC lost over the shift, by radius", "less with radius", [-r for r in radii], change),
    )  # fmt: skip


def _order(what: str, paper: str, ranks: Sequence[float], found: Sequence[WithError]) -> Claim:
    values, errors = [value for value, _ in found], [error for _, error in found]
    said, spread = ", ".join(f"{v:.3g}" for v in values), ", ".join(map(plus_minus, errors))
    return Claim(what, paper, said, verdict.ordering(ranks, values, errors), spread)


def _over_seeds(values: Sequence[float]) -> WithError:
    """Mean and standard error."""
    return mean(values), standard_error(values)


def _analyse(workspace: Workspace, size: Size) -> Outcome:
    depth, width = _LINEAR[size]
    zero = workspace.compute(zero_bias, [{"depth": depth, "width": width, "seed": 0}])[0]["shares"]
    found = workspace.compute(shifted, [{"seed": seed} for seed in _SEEDS[size]])
    by_dims = {float(p): [one["by_dims"][i] for one in found] for i, p in enumerate(DIMS)}
    by_radius = {r: [one["by_radius"][i] for one in found] for i, r in enumerate(RIGHT_RADII)}
    least = min(min(row) for row in zero)
    rows = tuple((dims, *row) for dims, row in zip(DIMS, zero, strict=True))
    columns = ("P", *(f"r = {radius:g}" for radius in RADII))
    return Outcome(
        claims=(
            Claim("linear network without bias: share of units found to fold at the origin", "1 in all trials",
                  f"at least {least:.4f}", verdict.agrees(1.0, least, within=1e-6)),
            *shift_claims(by_dims, by_radius),
        ),
        tables=(Table(f"Share of the {depth * width:,} units that fold at the origin", columns, rows),),
        charts=(
            _chart(f"Figure 17, left: r = {_FIXED_RADIUS:g}", by_dims, "P"),
            _chart(f"Figure 17, right: P = {_FIXED_DIMS}", by_radius, "r"),
        ),
        notes=("With ReLU between the layers of the network without bias not all units are found, since deep layers "
               "see the neighbourhood only through the units before them; the paper's toy is linear.",
               f"Bands and ± are standard errors over {len(found)} random networks.",
               f"The paper does not name the radii of the right part; {RIGHT_RADII[0]:g} to {RIGHT_RADII[-1]:g} "
               "are our choice."),
    )  # fmt: skip


def _chart(title: str, curves: CountsByShift, name: str) -> Lines:
    series = []
    for setting, seeds in curves.items():
        points = ((float(s), *_over_seeds(counts)) for s, counts in zip(SHIFTS, zip(*seeds, strict=True), strict=True))
        series.append(Series.of(f"{name} = {setting:g}", points))
    return Lines(title=title, x_label="shift s to the centre [s]^d", y_label="local complexity", series=tuple(series))


FIGURE17 = read_study("humayun2023-figure17", analyse=_analyse)
