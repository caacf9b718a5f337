"""The trend of Theorem 6.3 of Li et al. 2025: region counts and sharpness against the learning rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope.shallow.two_layer import initial_two_layer, sharpness
from regionscope.shallow.two_layer_bounds import BoundRow, train_and_check

__all__ = ["RateRow", "against_rate", "alternating_line", "random_sphere"]


@dataclass(frozen=True)
class RateRow:
    """Runs with one learning rate, over several initialisations.

    edge: eta lambda_max at the start, mean over the runs (above 2, descent is unstable there). regions,
    regions_stderr: mean region count at the end. sharpness: mean of eta lambda_max over the last half of the recorded
    steps. loss, accuracy: at the end, means. diverged: runs that overflowed or whose units all died, left out of the
    means. least_slack: smallest relative slack (right - left) / right of lemma 6.4, lemma 6.5 and the two steps of the
    chain, over all recorded steps of all runs. failures: recorded steps at which a proven inequality fails.
    """

    rate: float
    edge: float
    runs: int
    diverged: int
    regions: float
    regions_stderr: float
    sharpness: float
    loss: float
    accuracy: float
    least_slack: dict[str, float]
    failures: int


def random_sphere(n: int, d: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """n random points on the unit sphere of R^d (so r = 1) with random labels +-1."""
    if n < 2 or d < 1:
        raise InputError(f"At least two points and one dimension are needed; got n = {n} and d = {d}.")
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn((n, d), generator=generator, dtype=torch.float64)
    y = torch.randint(0, 2, (n,), generator=generator).to(torch.float64) * 2 - 1
    return x / x.norm(dim=1, keepdim=True), y


def alternating_line(n: int) -> tuple[Tensor, Tensor]:
    """n evenly spaced points (t, 1), t in [-1, 1], with alternating labels: the worst case that Li et al. name."""
    if n < 2:
        raise InputError(f"At least two points are needed, got {n}.")
    t = torch.linspace(-1, 1, n, dtype=torch.float64)
    y = 1 - 2 * (torch.arange(n) % 2).to(torch.float64)
    return torch.stack([t, torch.ones_like(t)], 1), y


def against_rate(
    x: Tensor, y: Tensor, rates: Sequence[float], *, width: int, runs: int = 5, steps: int = 2000, record: int = 9,
    scale: float = 1.0, seed: int = 0,
) -> list[RateRow]:  # fmt: skip
    """Train ``runs`` networks for each learning rate, check every inequality along the way, and average the ends.

    Cost: runs * len(rates) * (steps of gradient descent + record walks over all segments).
    """
    rows = []
    for rate in rates:
        histories = []
        start = []
        for run in range(runs):
            network = initial_two_layer(width, x.shape[1], scale=scale, seed=seed + run)
            start.append(rate * sharpness(network, x))
            histories.append(train_and_check(network, x, y, rate=rate, steps=steps, record=record)[0])
        rows.append(_row(rate, start, histories, steps))
    return rows


def _row(rate: float, start: list[float], histories: list[list[BoundRow]], steps: int) -> RateRow:
    whole = [h for h in histories if h[-1].step == steps and math.isfinite(h[-1].loss) and h[-1].mean_active > 0]
    ends = torch.tensor(
        [(h[-1].mean_regions, h[-1].loss, h[-1].accuracy) for h in whole] or [(math.nan,) * 3], dtype=torch.float64
    )
    late = [row.sharpness_times_rate for h in whole for row in h[len(h) // 2 :]]
    everything = [row for h in histories for row in h]
    return RateRow(
        rate=rate,
        edge=sum(start) / len(start),
        runs=len(histories),
        diverged=len(histories) - len(whole),
        regions=float(ends[:, 0].mean()),
        regions_stderr=float(ends[:, 0].std()) / math.sqrt(len(ends)) if len(ends) > 1 else math.nan,
        sharpness=sum(late) / len(late) if late else math.nan,
        loss=float(ends[:, 1].mean()),
        accuracy=float(ends[:, 2].mean()),
        least_slack={
            name: min(_relative(row, name) for row in everything)
            for name in ("lemma_6_4", "lemma_6_5", "first", "second")
        },
        failures=sum(not row.holds for row in everything),
    )


def _relative(row: BoundRow, name: str) -> float:
    found = getattr(row, name)
    return float(found.slack / max(abs(found.right), 1e-300))
