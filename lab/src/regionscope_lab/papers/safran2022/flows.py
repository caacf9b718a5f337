"""The flows that Theorem 4.2 and Corollary 5.1 read, and their sizes: studies that ask for the same ones share them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from regionscope_lab import shallow
from regionscope_lab.papers.study import Size
from regionscope_lab.papers.workspace import Place
from regionscope_lab.shallow.state import ENDS

RADIUS = 1.0
DELTA = 0.1  # for the standard deviation of the second layer, as in Theorem 2.3
INITIAL = 1000  # seeds of the initial weights begin here, those of the samples at 0


@dataclass(frozen=True)
class FlowGrid:
    """Teachers of width r, each with flows of width ``share`` (32 r + 67) on n points: one for each seed."""

    teachers: tuple[int, ...]
    points: tuple[int, ...]
    seeds: int
    share: float = 4.0
    max_log_loss: float = 1e6

    def settings(self) -> list[dict[str, Any]]:
        """What to compute, teacher by teacher, and within one by the number of points."""
        return [
            {
                "r": r,
                "width": math.ceil(self.share * shallow.region_bound(r)),
                "n": n,
                "seeds": self.seeds,
                "max_log_loss": self.max_log_loss,
            }
            for r in self.teachers
            for n in self.points
        ]


REGION_GRID: dict[Size, FlowGrid] = {
    "smoke": FlowGrid((1, 2), (4,), 2, 0.2),
    "desk": FlowGrid((1, 2, 3, 4, 5, 6, 7, 8), (100,), 5),
    "full": FlowGrid((1, 2, 3, 4, 5, 6, 7, 8), (200,), 50, 16.0),
}
ERROR_GRID: dict[Size, FlowGrid] = {
    "smoke": FlowGrid((2,), (2, 3, 4), 2, 0.2),
    "desk": FlowGrid((2, 4), (12, 25, 50, 100, 200), 5),
    "full": FlowGrid((2, 4, 8), (12, 25, 50, 100, 200, 400, 800), 50, 16.0),
}


@dataclass(frozen=True, kw_only=True)
class Ends:
    """What was found at the end of the flows of one setting, flow by flow, for those that classified their sample.

    line, inside: effective linear regions on the line and on (-1, 1). exact: linear regions of the network as it is.
    decades: how far the tolerance of ``line`` may change without changing it. within: the tolerance from which on the
    count is at most 32 r + 67 (infinite when there is none). minimum: fewest regions that classify the sample. kkt: KKT
    residual. error: exact test error. converged: whether the direction ended the flow, and not the budget.
    """

    r: int
    n: int
    width: int
    seeds: int
    line: tuple[int, ...]
    inside: tuple[int, ...]
    exact: tuple[int, ...]
    decades: tuple[float, ...]
    within: tuple[float, ...]
    minimum: tuple[int, ...]
    kkt: tuple[float, ...]
    error: tuple[float, ...]
    converged: tuple[bool, ...]

    def __len__(self) -> int:
        return len(self.line)

    @staticmethod
    def of(setting: Mapping[str, Any], answer: Mapping[str, Any]) -> Ends:
        """From a stored answer; a number that was not finite comes back as nothing."""
        known: dict[str, Any] = {name: setting[name] for name in ("r", "n", "width", "seeds")}
        known |= {name: tuple(math.inf if v is None else v for v in values) for name, values in answer.items()}
        return Ends(**known)


def late_flows(place: Place, *, r: int, width: int, n: int, seeds: int, max_log_loss: float) -> dict[str, Any]:
    """Gradient flows on n uniform points of the evenly alternating teacher of width r (r - 1 switches).

    Every seed draws its own sample and its own initial weights (Assumption 2.1 with sigma_h = 1; sigma_o as in Theorem
    2.3). Lists with one entry for each flow that classified its sample.
    """
    teacher = shallow.alternating_teacher(r - 1, radius=RADIUS)
    samples = [shallow.sample(teacher, n, seed=seed) for seed in range(seeds)]
    sigma_o = shallow.largest_sigma_o(width, R=RADIUS, delta=DELTA)
    starts = [
        shallow.initial_theta(1, width, sigma_h=1.0, sigma_o=sigma_o, seed=INITIAL + seed) for seed in range(seeds)
    ]
    x, y = torch.stack([one.x for one in samples]), torch.stack([one.y for one in samples])
    theta, x, y = (values.to(place.device) for values in (torch.cat(starts), x, y))
    end = shallow.gradient_flows(theta, x, y, shallow.FlowOptions(max_log_loss=max_log_loss)).to("cpu")
    answer: dict[str, list[Any]] = {
        name: []
        for name in ("line", "inside", "exact", "decades", "within", "minimum", "kkt", "error", "converged")
    }  # fmt: skip
    for i in torch.isfinite(end.log_t0).nonzero()[:, 0].tolist():
        network = shallow.Network.of(end.theta[i])
        found = shallow.effective_regions(network, radius=RADIUS)
        residual = shallow.kkt_residual(network, samples[i])
        answer["line"].append(found.on_line.count)
        answer["inside"].append(found.on_inside.count)
        answer["exact"].append(shallow.n_linear_regions(network))
        answer["decades"].append(found.on_line.decades)
        answer["within"].append(_within(found.tolerances.tolist(), found.line.tolist(), shallow.region_bound(r)))
        answer["minimum"].append(shallow.minimum_regions(samples[i].y))
        answer["kkt"].append(None if residual is None else residual.residual)
        answer["error"].append(shallow.classification_error(network, teacher))
        answer["converged"].append(ENDS[int(end.end[i])] == "direction")
    return answer


def _within(tolerances: Sequence[float], counts: Sequence[int], bound: int) -> float | None:
    """The smallest tolerance from which on every count is at most ``bound``; None when the last one is not."""
    least = None
    for tolerance, count in zip(reversed(tolerances), reversed(counts), strict=True):
        if count > bound:
            break
        least = tolerance
    return least
