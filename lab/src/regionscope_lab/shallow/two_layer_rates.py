"""Section 6 of Li et al. 2025: both sides of every inequality, and region counts against the learning rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.checks import check_instance, check_positive, read_generator, read_integer, read_seed
from regionscope.errors import InputError
from regionscope.inputs import read_array
from regionscope_lab.shallow.two_layer import (
    TwoLayer,
    active_units,
    check_data,
    descend,
    initial_two_layer,
    loss_and_gradient,
    region_counts,
    sharpness,
)
from regionscope_lab.statistics import mean, t_interval

_ROUNDING = 1e-9  # relative: two sides that should be equal may differ by this in float64


@dataclass(frozen=True)
class Inequality:
    """left <= right."""

    left: float
    right: float

    @property
    def slack(self) -> float:
        """right - left."""
        return self.right - self.left

    @property
    def holds(self) -> bool:
        """Whether left <= right, up to rounding."""
        return self.slack >= -_ROUNDING * max(abs(self.left), abs(self.right), 1.0)


@dataclass(frozen=True)
class BoundRow:
    """One recorded step of training.

    lemma_6_4: R(x_a, x_b) <= N(x_a) + N(x_b) + 2 at the pair with the least slack; lemma_6_4_failures: pairs where it
    does not hold. lemma_6_5: (r^2 / N^2) sum N(x_i) <= lambda_max. The chain of Theorem 6.3: first, mean R <= (2/N)
    sum (N(x_i) + 1); second, that <= (2N / r^2) lambda_max + 2. at_edge: mean R against (2N / r^2) (2 / eta) + 2, the
    value of the last term at the edge of stability, a prediction and not a bound. mean_regions: over all ordered
    pairs, i = j counted as one region. sharpness_times_rate: lambda_max *
    eta, near 2 at the edge.
    """

    step: int
    loss: float
    accuracy: float
    sharpness: float
    sharpness_times_rate: float
    mean_active: float
    mean_regions: float
    lemma_6_4: Inequality
    lemma_6_4_failures: int
    lemma_6_5: Inequality
    first: Inequality
    second: Inequality
    at_edge: Inequality

    @property
    def holds(self) -> bool:
        """Whether every proven inequality holds."""
        return not self.lemma_6_4_failures and self.lemma_6_5.holds and self.first.holds and self.second.holds


def check_bounds(network: TwoLayer, x: Tensor, y: Tensor, *, rate: float, step: int = 0) -> BoundRow:
    """Evaluate every inequality of section 6 at one network, over all pairs of points.

    Cost: one walk over the segments and a Lanczos run.
    """
    check_data(network, x, y)
    check_positive(rate=rate)
    n = len(x)
    if n < 2:
        raise InputError(f"Expected at least two training points, got {n}. Pass more rows of x.")
    pairs, counts = region_counts(network, x)
    active = active_units(network, x).to(torch.float64)
    right = active[pairs[:, 0]] + active[pairs[:, 1]] + 2
    slack = right - counts
    worst = int(slack.argmin())
    mean_regions = (n + (n * n - n) * float(counts.double().mean())) / (n * n)
    top = sharpness(network, x)
    radius = float(x.norm(dim=1).min())
    middle = 2 * float((active + 1).mean())
    loss, _ = loss_and_gradient(network, x, y)
    return BoundRow(
        step=step,
        loss=loss,
        accuracy=float((torch.sign(network(x)) == torch.sign(y)).double().mean()),
        sharpness=top,
        sharpness_times_rate=top * rate,
        mean_active=float(active.mean()),
        mean_regions=mean_regions,
        lemma_6_4=Inequality(float(counts[worst]), float(right[worst])),
        lemma_6_4_failures=int((slack < 0).sum()),
        lemma_6_5=Inequality(radius**2 / n**2 * float(active.sum()), top),
        first=Inequality(mean_regions, middle),
        second=Inequality(middle, 2 * n / radius**2 * top + 2),
        at_edge=Inequality(mean_regions, 2 * n / radius**2 * (2 / rate) + 2),
    )


def train_and_check(
    network: TwoLayer, x: Tensor, y: Tensor, *, rate: float, steps: int, record: int = 20
) -> tuple[list[BoundRow], TwoLayer]:
    """Gradient descent with rate eta, and a BoundRow at ``record`` evenly spaced steps, including the first and the
    last.

    If training overflows, the last row is the last finite step.
    """
    read_integer("record", record)
    read_integer("steps", steps, least=0)
    wanted = {round(i * steps / max(record - 1, 1)) for i in range(record)}
    rows: list[BoundRow] = []
    for step, current in enumerate(descend(network, x, y, rate=rate, steps=steps)):
        network = current
        if step in wanted:
            rows.append(check_bounds(network, x, y, rate=rate, step=step))
            if math.isinf(rows[-1].loss):
                break
    return rows, network


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
    seed: int = 0,
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
            network = initial_two_layer(width, x.shape[1], seed=seed + run)
            start.append(rate * sharpness(network, x))
            histories.append(train_and_check(network, x, y, rate=rate, steps=steps, record=record)[0])
        rows.append(_row(rate, start, histories, steps))
    return rows


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
