"""The flows that Theorem 4.2 and Corollary 5.1 read, and their sizes: studies that ask for the same ones share them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from scipy.optimize import brentq

from regionscope_lab import shallow
from regionscope_lab.config import Experiment
from regionscope_lab.papers.declaration import Size
from regionscope_lab.papers.workspace import Place, Workspace
from regionscope_lab.shallow.state import ENDS

RADIUS = 1.0
DELTA = 0.1  # for the standard deviation of the second layer, as in Theorem 2.3
INITIAL = 1000  # seeds of the initial weights begin here, those of the samples at 0


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


def compute(workspace: Workspace, size: Size, runs: Mapping[str, Sequence[Experiment]]) -> None:
    """Late flows for Theorem 2.3, Theorem 4.2 and Corollary 5.1."""
    share = 0.2 if size == "smoke" else 4.0
    late = {"smoke": ((1, 2), 3, 20, 1e2), "desk": ((1, 2), 30, 1000, 1e6), "full": ((1, 2, 3, 4), 30, 10_000, 1e7)}[
        size
    ]
    teachers, n, width, most = late
    flows = [{"r": r, "width": width, "n": n, "seeds": 1, "max_log_loss": most} for r in reversed(teachers)]
    cells = {(2, 3), (2, 4)} if size == "smoke" else {(r, 100) for r in range(1, 9)}
    cells |= set() if size == "smoke" else {(r, points) for r in (2, 4) for points in (12, 25, 50, 100, 200)}
    flows += [
        {"r": r, "width": math.ceil(share * shallow.region_bound(r)), "n": points, "seeds": 5, "max_log_loss": 1e6}
        for r, points in sorted(cells)
    ]
    workspace.compute_with_place(late_flows, flows)


def error_bound(r: int, n: int, *, delta: float = DELTA) -> float:
    """The epsilon with n = (r log(1 / epsilon) + log(1 / delta)) / epsilon: Corollary 5.1 with C0 = 1; at most 1.

    >>> round(error_bound(2, 100), 3)
    0.075
    """
    if n <= math.log(1 / delta):
        return 1.0

    def excess(epsilon: float) -> float:
        return n * epsilon - r * math.log(1 / epsilon) - math.log(1 / delta)

    return float(brentq(excess, 1e-300, 1.0))


def joined(answers: Sequence[Mapping[str, Any]], *names: str) -> dict[tuple[Any, ...], dict[str, list[float]]]:
    """Lists of all flows by setting."""
    groups: dict[tuple[Any, ...], dict[str, list[float]]] = {}
    for one in answers:
        lists = groups.setdefault(tuple(one[name] for name in names), {})
        for name, value in one.items():
            if isinstance(value, list):
                lists.setdefault(name, []).extend(math.inf if v is None else float(v) for v in value)
    return dict(sorted(groups.items()))
