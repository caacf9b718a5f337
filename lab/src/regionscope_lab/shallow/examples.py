"""Two small experiments of Safran, Vardi and Lee 2022: Example 1, and the message of Theorem 3.2."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from regionscope.checks import check_instance, read_device, read_integer, read_number
from regionscope.inputs import read_array
from regionscope_lab.shallow.flow import gradient_flows
from regionscope_lab.shallow.losses import log_threshold
from regionscope_lab.shallow.network import Network, initial_theta
from regionscope_lab.shallow.state import ENDS, OPTIONS_ADVICE, FlowOptions, Flows
from regionscope_lab.shallow.teachers import Sample, alternating_teacher, sample
from regionscope_lab.shallow.theorems import largest_sigma_o
from regionscope_lab.statistics import wilson


@dataclass(frozen=True)
class Example1:
    """Width 2 on the points -4 and 4, both labelled 1.

    start: theta(0) = theta*, a KKT point with |theta*|^2 = 2 at margin 1. better: theta', which has the margin 1 with
    |theta'|^2 = 1.
    """

    sample: Sample
    start: Network
    better: Network


def example_1() -> Example1:
    """Example 1: gradient flow from ``start`` keeps its direction, although it is not a global optimum."""
    data = Sample(
        torch.tensor([-4.0, 4.0], dtype=torch.float64, device="cpu"), torch.ones(2, dtype=torch.float64, device="cpu")
    )
    start = Network([0.0, 0.0], [1.0, 0.0], [1.0, 0.0])
    return Example1(data, start, Network([0.5, -0.5], [0.0, 0.0], [0.5, 0.5]))


@dataclass(frozen=True)
class WidthRow:
    """Runs of one width k = floor(alpha r).

    success: share of runs that classified every training point (L < l(0) / n); low, high: its 95% interval (Wilson), in
    which a run that used up its steps counts as a failure for ``low`` and as a success for ``high``. unfinished: runs
    that used up their steps.
    """

    alpha: float
    width: int
    runs: int
    success: float
    low: float
    high: float
    unfinished: int


def success_vs_width(
    r: int, alphas: Sequence[float], *, n: int = 60, runs: int = 64, seed: int = 0,
    options: FlowOptions | None = None, device: torch.device | str = "cpu",
) -> list[WidthRow]:  # fmt: skip
    """Share of runs in which gradient flow classifies all points of an alternating teacher with r switches, by width.

    Theorem 3.2 says that some over-parameterisation is needed: width below 1.3 r fails for some teacher. Its
    construction is in an appendix that we do not have; here the teacher alternates evenly, and every run has its own
    initialisation (Assumption 2.1 with sigma_h = 1, and sigma_o as in Theorem 3.1 with delta = 0.1) on one sample.

    All widths are one batch: narrow networks get units w = b = v = 0, which never move. device: where they run.
    """
    options = options or FlowOptions(max_steps=10_000, stall=1e-5, rest=1e-4)
    check_instance("options", options, FlowOptions, advice=OPTIONS_ADVICE)
    read_integer("n", n)
    read_integer("runs", runs)
    alphas = [read_number("an alpha", alpha) for alpha in read_array(alphas, "alphas, a list of numbers").flatten()]
    options = replace(options, max_log_loss=log_threshold(n, options.loss) + 1e-9)
    teacher = alternating_teacher(r, radius=1.0)
    data = sample(teacher, n, seed=seed)
    widths = [max(1, math.floor(round(alpha * r, 9))) for alpha in alphas]  # 1.15 * 100 is below 115 in float64
    starts = []
    for i, k in enumerate(widths):
        deviation = largest_sigma_o(k, theorem="3.1", sigma_h=1.0, R=1.0)
        theta = initial_theta(runs, k, sigma_h=1.0, sigma_o=deviation, seed=seed + 1 + i)
        starts.append(torch.nn.functional.pad(theta, (0, max(widths) - k)))
    theta, x, y = (values.to(read_device(device)) for values in (torch.cat(starts), data.x, data.y))
    end = gradient_flows(theta, x, y, options).to("cpu")
    ends = [end.take(torch.arange(i * runs, (i + 1) * runs, device="cpu")) for i in range(len(widths))]
    return [_width_row(alpha, k, part) for alpha, k, part in zip(alphas, widths, ends, strict=True)]


def _width_row(alpha: float, k: int, end: Flows) -> WidthRow:
    runs = len(end.F)
    won = int(torch.isfinite(end.log_t0).sum())
    unfinished = int((end.end == ENDS.index("steps")).sum())
    low, high = wilson(won, runs)[0], wilson(won + unfinished, runs)[1]
    return WidthRow(alpha, k, runs, won / runs, low, high, unfinished)
