"""Theorems 2.3 and 3.1 end to end: gradient flow at the widths and initial scales that they ask for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from regionscope.measures.statistics import mean
from regionscope_lab import shallow
from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Lines, Series
from regionscope_lab.papers.papers import read_study
from regionscope_lab.papers.safran2022.flows import DELTA, INITIAL, RADIUS, Ends, late_flows
from regionscope_lab.papers.safran2022.generalisation import error_bound
from regionscope_lab.papers.study import Claim, Outcome, Size, Table
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.shallow.theorems import Requirements

_DENSITY = 1 / (2 * RADIUS)  # C of Assumption 2.2, for uniform points
_STEP_ERROR = 0.01  # tolerated error of an output in one step, while outputs are of order 1
_LATE_LOG_LOSS = 1e4  # -log L at which flows at the scale of the theorem of Theorem 2.3 end
_TEST_POINTS = 2000  # evenly spaced test points: exact errors take as long as the square of the width


@dataclass(frozen=True)
class TheoremGrid:
    """Teachers of width r, points, flows for each setting (``together`` in one computation), more widths."""

    teachers: tuple[int, ...]
    points: int
    flows: int
    together: int
    widths: tuple[int, ...]


GRIDS: dict[Size, TheoremGrid] = {
    "smoke": TheoremGrid((1,), 4, 1, 1, (100,)),
    "desk": TheoremGrid((1, 2), 10, 10, 5, (10_000,)),
    "full": TheoremGrid((1, 2, 3, 4), 30, 40, 4, (10_000, 100_000)),
}
LATE_GRIDS: dict[Size, tuple[tuple[int, ...], int, int, float]] = {  # teachers, points, width, largest -log L
    "smoke": ((1, 2), 3, 20, 1e2),
    "desk": ((1, 2), 30, 1000, 1e6),
    "full": ((1, 2, 3, 4), 30, 10_000, 1e7),
}


def asked(theorem: str, r: int, n: int, width: int = 1) -> Requirements:
    """What the theorem requires for a teacher of width r with evenly spaced switches, n points and this width."""
    rho = shallow.alternating_teacher(r - 1, radius=RADIUS).rho
    if theorem == "3.1":
        return shallow.theorem_3_1(r, rho, RADIUS, _DENSITY, k=width, n=n, delta=DELTA)
    eps = error_bound(r, n, delta=DELTA / 2)
    return shallow.theorem_2_3(r, rho, RADIUS, _DENSITY, k=width, n=n, eps=eps, delta=DELTA)


def flows_as_asked(*, theorem: str, r: int, n: int, width: int, first: int, flows: int) -> dict[str, Any]:
    """Flows with the sigma_h and sigma_o that the theorem requires at this width, until the loss is 1 / (2n) (Theorem
    3.1) or -log L = 10,000 (Theorem 2.3): lists with one entry for each flow.

    The hidden weights are larger than the output weights by about width x sigma_h^2, up to 1e25: the tolerated error of
    a step is set for the output weights.
    """
    teacher = shallow.alternating_teacher(r - 1, radius=RADIUS)
    sigma_h = asked(theorem, r, n, width).sigma_h
    sigma_o = shallow.largest_sigma_o(width, theorem=theorem, sigma_h=sigma_h, R=RADIUS, delta=DELTA)
    seeds = range(first, first + flows)
    samples = [shallow.sample(teacher, n, seed=seed) for seed in seeds]
    starts = torch.cat([
        shallow.initial_theta(1, width, sigma_h=sigma_h, sigma_o=sigma_o, seed=INITIAL + seed) for seed in seeds
    ])  # fmt: skip
    options = shallow.FlowOptions(
        max_log_loss=math.log(2 * n) if theorem == "3.1" else _LATE_LOG_LOSS,
        rtol=_STEP_ERROR / (width * sigma_h**2),
        max_steps=2000,
    )
    x, y = torch.stack([one.x for one in samples]), torch.stack([one.y for one in samples])
    end = shallow.gradient_flows(starts, x, y, options)
    networks = [shallow.Network.of(theta) for theta in end.theta]
    hidden = (end.theta[:, :2] - starts[:, :2]).flatten(1).norm(dim=1) / starts[:, :2].flatten(1).norm(dim=1)
    return {
        "log_loss": end.F.tolist(),
        "steps": end.steps.tolist(),
        "hidden": hidden.tolist(),
        "output": (end.theta[:, 2].norm(dim=1) / end.theta[:, :2].flatten(1).norm(dim=1)).tolist(),
        "error": [_test_error(network, teacher) for network in networks],
        "regions": [shallow.n_linear_regions(network) for network in networks],
    }


def _test_error(network: shallow.Network, teacher: shallow.Teacher) -> float:
    """Share of evenly spaced points with a wrong sign."""
    blocks = torch.linspace(-RADIUS, RADIUS, _TEST_POINTS, dtype=torch.float64).split(100)
    return sum(int(((network(x) > 0) != (teacher.network(x) > 0)).sum()) for x in blocks) / _TEST_POINTS


@dataclass(frozen=True)
class FlowStage:
    """Flows of one setting at the scale of the theorem; ``k``, ``sigma_h``: what it requires at this width."""

    theorem: str
    r: int
    n: int
    width: int
    k: float
    sigma_h: float
    log_loss: tuple[float, ...]
    error: tuple[float, ...]
    regions: tuple[int, ...]
    hidden: float
    output: float
    steps: int

    @staticmethod
    def of(setting: Mapping[str, Any], answers: Sequence[Mapping[str, Any]]) -> FlowStage:
        """From the stored answers of one setting."""
        theorem, r, n, width = (setting[name] for name in ("theorem", "r", "n", "width"))
        need = asked(theorem, r, n, width)
        joined = {name: [value for one in answers for value in one[name]] for name in answers[0]}
        return FlowStage(
            theorem, r, n, width, need.k, need.sigma_h, tuple(joined["log_loss"]), tuple(joined["error"]),
            tuple(joined["regions"]), max(joined["hidden"]), max(joined["output"]), max(joined["steps"]),
        )  # fmt: skip

    @property
    def wide_enough(self) -> bool:
        return self.width >= self.k

    @property
    def reached(self) -> int:
        """Flows with a loss of at most 1 / (2n) (Theorem 3.1), or below 1 / n (Theorem 2.3)."""
        goal = math.log(2 * self.n) if self.theorem == "3.1" else math.log(self.n)
        return sum(value >= goal for value in self.log_loss)


def of_theorem23(stages: Sequence[FlowStage]) -> Outcome:
    """How often the first stage succeeds, and what can be said about the limit."""
    main = [one for one in stages if one.theorem == "2.3"]
    columns = (
        "theorem", "r", "n", "width", "required width", "required sigma_h", "flows", "reached", "hidden weights moved",
        "output / hidden weights", "mean test error", "linear regions", "steps",
    )  # fmt: skip
    rows = tuple(
        (one.theorem, one.r, one.n, one.width, math.ceil(one.k), f"{one.sigma_h:.1e}", len(one.log_loss), one.reached,
         f"{one.hidden:.0e}", f"{one.output:.0e}", mean(one.error), mean(one.regions), one.steps)
        for one in stages
    )  # fmt: skip
    turns = max((one.width * one.sigma_h**2 for one in main), default=math.nan)
    return Outcome(
        claims=(*map(_first_stage, stages), *map(_limit, main)),
        tables=(Table("Flows at the scale of the theorem", columns, rows),),
        charts=(_chart(stages),),
        notes=(
            "The teacher of width r changes sign r - 1 times, evenly, so that rho = 2 / r; points are uniform on "
            f"[-1, 1] and delta = {DELTA:g}. Every flow has its own sample and initial weights. A flow is integrated "
            f"with an error of at most {_STEP_ERROR:g} in any output during a step of the first stage; test errors are "
            f"from {_TEST_POINTS:,} evenly spaced points.",
            "At the scale of the theorem the hidden weights do not move in double precision before the loss is small: "
            "the first stage is that of a linear model on random features, as in the proof. The direction of the "
            "weights turns when output weights have grown to the size of hidden ones, at -log L of order width x "
            f"sigma_h², which is {turns:.0e} here. Double precision cannot tell margins of that size apart, so the "
            "limit of Theorem 2.3 cannot be computed at the scale that it requires. The page "
            "safran2022-theorem23-late follows flows of smaller scale to the end.",
        ),
    )


def _first_stage(one: FlowStage) -> Claim:
    cases, enough = len(one.log_loss), one.wide_enough
    goal = "at most 1 / (2n)" if one.theorem == "3.1" else "below 1 / n"
    width = f"width {one.width:,}" if enough else f"width {one.width:,} (below the required {math.ceil(one.k):,})"
    return Claim(
        f"Theorem {one.theorem}, r = {one.r}, {width}: flows that reach a loss {goal}",
        f"a share of at least {1 - DELTA:g}",
        f"{one.reached} of {cases}",
        verdict.probable(one.reached, cases, least=1 - DELTA) if enough else verdict.shown(),
        f"sigma_h = {one.sigma_h:.1e}, n = {one.n}",
    )


def _limit(one: FlowStage) -> Claim:
    return Claim(
        f"Theorem 2.3, r = {one.r}, width {one.width:,}: linear regions in the limit, at the scale of the theorem",
        f"at most 32r + 67 = {shallow.region_bound(one.r)}",
        f"no direction has converged at -log L = {min(one.log_loss):,.0f}; the networks have "
        f"{mean(one.regions):,.0f} linear regions so far",
        verdict.holds(0, 0),
        f"output weights / hidden weights: {one.output:.0e} at most",
    )


def of_late(late: Sequence[Ends]) -> Outcome:
    """The conclusions of Theorem 2.3 for flows with sigma_h = 1."""
    columns = ("r", "n", "width", "flows", "converged", "effective regions", "exact regions", "KKT", "largest error")
    rows = tuple(
        (one.r, one.n, one.width, one.seeds, sum(one.converged), max(one.line, default=0), max(one.exact, default=0),
         max(one.kkt, default=math.nan), max(one.error, default=math.nan))
        for one in late
    )  # fmt: skip
    known = [one for one in late if len(one)]
    x = tuple(float(one.r) for one in known)
    series = (
        Series(label="effective", x=x, y=tuple(float(max(one.line)) for one in known)),
        Series(label="bound 32r + 67", x=x, y=tuple(float(shallow.region_bound(one.r)) for one in known)),
        Series(label="exact, at the end of the flow", x=x, y=tuple(float(max(one.exact)) for one in known)),
    )
    title = "Theorem 2.3 with sigma_h = 1: linear regions of late flows"
    return Outcome(
        claims=tuple(claim for one in late for claim in _late(one)),
        tables=(Table("Late flows with sigma_h = 1", columns, rows),),
        charts=(Lines(title=title, x_label="width r of the teacher", y_label="linear regions", y_scale="log",
                      series=series),) if known else (),
        notes=(
            "Theorem 2.3 requires a sigma_h at which its limit cannot be computed (see safran2022-theorem23). With "
            "sigma_h = 1 the late phase can be followed. The theorem does not cover this scale; Theorem 4.2 does, "
            "for any initial weights, once the loss is below 1 / n.",
            "The paper does not name its constant C0; test errors stand beside the error of Theorem 2.3 with C0 = 1, "
            "and are shown.",
            "Effective regions are those of the page of Theorem 4.2, at a tolerance of 0.1; the spread says from which "
            "tolerance on their number is within the bound.",
        ),
    )  # fmt: skip


def _late(one: Ends) -> tuple[Claim, ...]:
    start = f"Theorem 2.3, r = {one.r}, width {one.width:,}, sigma_h = 1 (smaller than required): "
    bound, ended = shallow.region_bound(one.r), sum(one.converged)
    epsilon = error_bound(one.r, one.n, delta=DELTA / 2)
    return (
        Claim(
            f"{start}flows that classify every point and converge in direction",
            "all",
            f"{ended} of {one.seeds}",
            verdict.holds(0, ended if ended == one.seeds else 0),  # a budget that runs out refutes nothing
        ),
        Claim(
            f"{start}effective linear regions",
            f"at most 32r + 67 = {bound}",
            f"{max(one.line)} at most" if one.line else "no flow",
            verdict.holds(sum(count > bound for count in one.line), len(one)),
            f"within the bound from a tolerance of {max(one.within):.0e} on" if one.line else "",
        ),
        Claim(
            f"{start}test error",
            f"at most {epsilon:.3f} (C0 = 1)",
            f"{max(one.error):.4f} at most" if one.error else "no flow",
            verdict.shown(),
        ),
    )


def _chart(stages: Sequence[FlowStage]) -> Lines:
    first = [one for one in stages if one.theorem == "3.1"]
    return Lines(
        title="Theorem 3.1: flows at the scale of the theorem",
        x_label="width",
        y_label="share with a loss of at most 1 / (2n)",
        x_scale="log",
        series=tuple(
            Series.of(f"r = {r}", ((float(one.width), one.reached / len(one.log_loss)) for one in first if one.r == r))
            for r in dict.fromkeys(one.r for one in first)
        ),
        levels=(("guaranteed from the required width on", 1 - DELTA),),
    )


def _analyse(workspace: Workspace, size: Size) -> Outcome:
    grid = GRIDS[size]
    cells: list[dict[str, Any]] = []
    for r in grid.teachers:
        for theorem in ("3.1", "2.3"):
            width = math.ceil(asked(theorem, r, grid.points).k)
            widths = sorted({width, *grid.widths}) if theorem == "3.1" else [width]
            cells += [{"theorem": theorem, "r": r, "n": grid.points, "width": width} for width in widths]
    firsts = range(0, grid.flows, grid.together)
    settings = [{**cell, "first": first, "flows": grid.together} for cell in cells for first in firsts]
    answers = workspace.compute(flows_as_asked, settings[::-1])[::-1]  # the widest first
    each = len(firsts)
    return of_theorem23([FlowStage.of(cell, answers[i * each : (i + 1) * each]) for i, cell in enumerate(cells)])


def _analyse_late(workspace: Workspace, size: Size) -> Outcome:
    teachers, n, width, most = LATE_GRIDS[size]
    settings = [{"r": r, "width": width, "n": n, "seeds": 1, "max_log_loss": most} for r in reversed(teachers)]
    ends = zip(settings, workspace.compute_with_place(late_flows, settings), strict=True)
    return of_late([Ends.of(setting, end) for setting, end in ends][::-1])


THEOREM23 = read_study("safran2022-theorem23", analyse=_analyse)
LATE = read_study("safran2022-theorem23-late", analyse=_analyse_late)
