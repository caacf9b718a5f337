"""Lemmas 6.4 and 6.5 and the chain of Theorem 6.3 of Li et al. 2025, with both sides and the slack, while training."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.checks import check_instance, check_positive, read_integer
from regionscope.errors import InputError
from regionscope_lab.shallow.two_layer import (
    TwoLayer,
    active_units,
    check_data,
    descend,
    loss_and_gradient,
    region_counts,
    sharpness,
)

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
    pairs, i = j counted as one region; sampled pairs stand for those with i != j. sharpness_times_rate: lambda_max *
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


def check_bounds(
    network: TwoLayer, x: Tensor, y: Tensor, *, rate: float, step: int = 0, pairs: Tensor | None = None
) -> BoundRow:
    """Evaluate every inequality of section 6 at one network. pairs: (m, 2), by default all; see ``region_counts``.

    Cost: one walk over the segments and a Lanczos run.
    """
    check_data(network, x, y)
    check_positive(rate=rate)
    if pairs is not None:
        check_instance("pairs", pairs, Tensor, advice="Pass a tensor (m, 2) of indices of points")
    n = len(x)
    if n < 2:
        raise InputError(f"Expected at least two training points, got {n}. Pass more rows of x.")
    pairs, counts = region_counts(network, x, pairs)
    active = active_units(network, x).to(torch.float64)
    right = active[pairs[:, 0]] + active[pairs[:, 1]] + 2
    slack = right - counts
    worst = int(slack.argmin())
    apart = pairs[:, 0] != pairs[:, 1]
    between = float(counts[apart].double().mean()) if bool(apart.any()) else 1.0
    mean_regions = (n + (n * n - n) * between) / (n * n)
    top = sharpness(network, x)
    radius = float(x.norm(dim=1).min())
    middle = 2 * float((active + 1).mean())
    loss, _ = loss_and_gradient(network, x, y)
    # With sampled pairs, the mean over pairs on the left is compared with the same pairs on the right.
    sampled = _mean_over_pairs(right[apart], active, n) if bool(apart.any()) else middle
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
        first=Inequality(mean_regions, sampled),
        second=Inequality(middle, 2 * n / radius**2 * top + 2),
        at_edge=Inequality(mean_regions, 2 * n / radius**2 * (2 / rate) + 2),
    )


def _mean_over_pairs(right: Tensor, active: Tensor, n: int) -> float:
    """Mean of N(x_i) + N(x_j) + 2 over ordered pairs, those with i != j from the pairs at hand."""
    same = float((2 * active + 2).sum())
    return (same + (n * n - n) * float(right.mean())) / (n * n)


def train_and_check(
    network: TwoLayer, x: Tensor, y: Tensor, *, rate: float, steps: int, record: int = 20, pairs: Tensor | None = None
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
            rows.append(check_bounds(network, x, y, rate=rate, step=step, pairs=pairs))
            if math.isinf(rows[-1].loss):
                break
    return rows, network
