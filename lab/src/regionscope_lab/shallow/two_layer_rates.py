"""The trend of Theorem 6.3 of Li et al. 2025: region counts and sharpness against the learning rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.checks import check_instance, check_positive, read_generator, read_integer, read_seed
from regionscope.inputs import read_array
from regionscope.measures.statistics import mean, t_interval
from regionscope_lab.shallow.two_layer import initial_two_layer, sharpness
from regionscope_lab.shallow.two_layer_bounds import BoundRow, train_and_check


@dataclass(frozen=True)
class RateRow:
    """Runs with one learning rate, over several initialisations.

    steps: of gradient descent. edge: eta lambda_max at the start, mean over the runs (above 2, descent is unstable
    there). lost: runs that overflowed, ended with more loss than at the start, or whose units all died; they are left
    out of the means. regions, low, high: mean region count at the end and its 95% interval (Student's t). sharpness:
    mean of eta lambda_max over the last half of the recorded steps. active: mean number of active units at the end.
    loss, accuracy: at the end, means. least_slack: smallest relative slack (right - left) / right of lemma 6.4, lemma
    6.5 and the two steps of the chain, over all recorded steps of all runs. failures: recorded steps at which a proven
    inequality fails. values: mean region count at the end of each run, NaN for a lost one.
    """

    rate: float
    steps: int
    edge: float
    runs: int
    lost: int
    regions: float
    low: float
    high: float
    sharpness: float
    active: float
    loss: float
    accuracy: float
    least_slack: dict[str, float]
    failures: int
    values: tuple[float, ...]


@dataclass(frozen=True)
class Trend:
    """Change of the mean region count for each doubling of the learning rate, with its 95% interval over runs.

    runs: those that were lost at no rate; each run is one initialisation seen at every rate, so its own line is fitted.
    """

    slope: float
    low: float
    high: float
    runs: int


def random_sphere(n: int, d: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """n random points on the unit sphere of R^d (so r = 1) with random labels +-1."""
    read_integer("n", n, least=2)
    read_integer("d", d)
    generator = read_generator(None, seed)
    x = torch.randn((n, d), generator=generator, dtype=torch.float64, device="cpu")
    y = torch.randint(0, 2, (n,), generator=generator, device="cpu").to(torch.float64) * 2 - 1
    return x / x.norm(dim=1, keepdim=True), y


def alternating_line(n: int) -> tuple[Tensor, Tensor]:
    """n evenly spaced points (t, 1), t in [-1, 1], with alternating labels: the worst case named by Li et al. 2025."""
    read_integer("n", n, least=2)
    t = torch.linspace(-1, 1, n, dtype=torch.float64, device="cpu")
    y = 1 - 2 * (torch.arange(n, device="cpu") % 2).to(torch.float64)
    return torch.stack([t, torch.ones_like(t)], 1), y


def regions_vs_learning_rate(
    x: Tensor, y: Tensor, rates: Sequence[float], *, width: int, runs: int = 5, time: float, record: int = 9,
    scale: float = 1.0, seed: int = 0,
) -> list[RateRow]:  # fmt: skip
    """Train ``runs`` networks for each learning rate, check every inequality along the way, and average the ends.

    time: eta times the number of steps, the same for every rate, so that small rates train equally long. Run i starts
    from the same weights at every rate. Cost: runs * (sum of the steps + len(rates) * record walks over all segments).
    """
    check_positive(time=time)
    read_integer("runs", runs)
    read_seed(seed)
    check_instance("x", x, Tensor, advice="Pass a tensor of float64 with a row for each point")
    rows = []
    for rate in read_array(rates, "rates, a list of numbers").flatten().tolist():
        check_positive(rate=rate)
        histories, start = [], []
        steps = max(1, round(time / rate))
        for run in range(runs):
            network = initial_two_layer(width, x.shape[1], scale=scale, seed=seed + run)
            start.append(rate * sharpness(network, x))
            histories.append(train_and_check(network, x, y, rate=rate, steps=steps, record=record)[0])
        rows.append(_row(rate, start, histories, steps))
    return rows


def rate_trend(rows: Sequence[RateRow], *, edge: float = 0.0) -> Trend:
    """The trend of Theorem 6.3 over the rates with late eta lambda_max of at least ``edge``: see ``Trend``.

    edge: 0 takes every rate; 1.5 only those at which descent works at the edge of stability, the premise of the theorem
    (Assumption 6.2).
    """
    chosen = [row for row in rows if row.sharpness >= edge and row.lost < row.runs]
    counts = torch.tensor([row.values for row in chosen], dtype=torch.float64, device="cpu")
    if len(chosen) < 2:
        return Trend(math.nan, math.nan, math.nan, 0)
    counts = counts[:, torch.isfinite(counts).all(0)]
    logs = torch.log2(torch.tensor([row.rate for row in chosen], dtype=torch.float64, device="cpu"))
    logs = logs - logs.mean()
    slopes = (logs[:, None] * counts).sum(0) / logs.square().sum()
    return Trend(*t_interval(slopes.tolist()), len(slopes))


def _trained(history: list[BoundRow], steps: int) -> bool:
    first, last = history[0], history[-1]
    return last.step == steps and last.loss <= first.loss and last.mean_active > 0


def _row(rate: float, start: list[float], histories: list[list[BoundRow]], steps: int) -> RateRow:
    trained = [h for h in histories if _trained(h, steps)]
    late = [row.sharpness_times_rate for h in trained for row in h[len(h) // 2 :]]
    everything = [row for h in histories for row in h]
    ends = [h[-1] for h in trained]
    regions, low, high = t_interval([row.mean_regions for row in ends])
    return RateRow(
        rate=rate,
        steps=steps,
        edge=sum(start) / len(start),
        runs=len(histories),
        lost=len(histories) - len(trained),
        regions=regions,
        low=low,
        high=high,
        sharpness=mean(late),
        active=mean([row.mean_active for row in ends]),
        loss=mean([row.loss for row in ends]),
        accuracy=mean([row.accuracy for row in ends]),
        least_slack={
            name: min(_relative(row, name) for row in everything)
            for name in ("lemma_6_4", "lemma_6_5", "first", "second")
        },
        failures=sum(not row.holds for row in everything),
        values=tuple(h[-1].mean_regions if _trained(h, steps) else math.nan for h in histories),
    )


def _relative(row: BoundRow, name: str) -> float:
    value = getattr(row, name)
    return float(value.slack / max(abs(value.right), 1e-300))
