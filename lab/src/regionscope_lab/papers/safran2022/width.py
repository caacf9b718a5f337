"""Theorem 3.2: how often gradient flow succeeds, against the width of the network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import mean
from typing import Any

from regionscope.measures.statistics import error_of_interval, wilson
from regionscope_lab import shallow
from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Lines, Series
from regionscope_lab.papers.papers import read_study
from regionscope_lab.papers.study import Claim, Outcome, Size, Table
from regionscope_lab.papers.workspace import Place, Workspace

PROBABILITY = 0.25  # of a loss above the bound, at least

_SIZES: dict[Size, dict[str, Any]] = {
    "smoke": {"r": 2, "alphas": (1.0, 8.0), "n": 6, "runs": 3, "samples": 2, "steps": 60},
    "desk": {"r": 6, "alphas": (1.0, 1.3, 1.5, 2.0, 4.0, 8.0, 16.0), "n": 60, "runs": 12, "samples": 2, "steps": 4000},
    "full": {
        "r": 6, "alphas": (1.0, 1.2, 1.3, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0, 64.0), "n": 200, "runs": 64, "samples": 16,
        "steps": 20_000,
    },
}  # fmt: skip


def flows_of_width(place: Place, *, r: int, alpha: float, n: int, runs: int, steps: int, seed: int) -> dict[str, Any]:
    """``runs`` flows of width floor(alpha r) on one sample of an evenly alternating teacher with r switches."""
    options = shallow.FlowOptions(max_steps=steps, stall=1e-5, rest=1e-4)
    (row,) = shallow.success_vs_width(r, [alpha], n=n, runs=runs, seed=seed, options=options, device=place.device)
    return asdict(row)


@dataclass(frozen=True)
class Pooled:
    """The runs of one width over all samples; ``each`` is the share of successes on every sample.

    loss: the mean over the samples of the median loss on each.
    """

    alpha: float
    width: int
    runs: int
    successes: int
    unfinished: int
    loss: float
    bound: float | None
    above: float
    each: tuple[float, ...]

    @staticmethod
    def of(rows: Sequence[Mapping[str, Any]]) -> Pooled:
        """From the stored rows of one alpha, each of one sample."""
        first, runs = rows[0], sum(row["runs"] for row in rows)
        return Pooled(
            alpha=first["alpha"],
            width=first["width"],
            runs=runs,
            successes=sum(round(row["success"] * row["runs"]) for row in rows),
            unfinished=sum(row["unfinished"] for row in rows),
            loss=mean(math.inf if row["loss"] is None else row["loss"] for row in rows),
            bound=first["bound"],
            above=math.nan if first["bound"] is None else sum(row["above_bound"] * row["runs"] for row in rows) / runs,
            each=tuple(row["success"] for row in rows),
        )

    @property
    def share(self) -> float:
        return self.successes / self.runs

    @property
    def interval(self) -> tuple[float, float]:
        """95% (Wilson); a run that used up its steps counts as a failure below and as a success above."""
        low, _ = wilson(self.successes, self.runs)
        return low, wilson(self.successes + self.unfinished, self.runs)[1]

    @property
    def error(self) -> float:
        return error_of_interval(*self.interval)


def of_theorem32(found: Sequence[Pooled]) -> Outcome:
    """The bound where it applies, and whether wide networks succeed more often."""
    claims = [_bounded(one) for one in found if one.bound is not None]
    narrow, wide = found[0], found[-1]
    claims.append(
        Claim(
            f"success at width {wide.width} ({wide.alpha:g}r) and {narrow.width} ({narrow.alpha:g}r)",
            "over-parameterisation is needed",
            f"{wide.share:.2f} and {narrow.share:.2f}",
            verdict.differs(wide.share, narrow.share, math.hypot(wide.error, narrow.error)),
            f"95% {_interval(wide)} and {_interval(narrow)}",
        )
    )
    rows = tuple(
        (one.alpha, one.width, one.runs, one.share, _interval(one), ", ".join(f"{share:.2f}" for share in one.each),
         one.loss, "" if one.bound is None else one.bound, "" if one.bound is None else one.above, one.unfinished)
        for one in found
    )  # fmt: skip
    columns = (
        "alpha",
        "width",
        "runs",
        "success",
        "95%",
        "by sample",
        "loss, mean of sample medians",
        "bound",
        "above it",
        "cut off",
    )
    return Outcome(
        claims=tuple(claims),
        tables=(Table("Flows by width floor(alpha r)", columns, rows),),
        charts=(_chart(found),),
        notes=(
            "The theorem is about a teacher and a distribution of an appendix that we do not have. Here the "
            "teacher changes sign r times, evenly, on uniform points: agreement supports its message and does not "
            "test the theorem itself.",
            "The theorem holds at every time. The population loss is measured at the end of each flow, where "
            "every training point is classified (the loss passes 1/n) or the flow no longer moves. Even wide networks "
            "are above the bound there, so the two shares cannot fall below the paper's. They are shown, not judged.",
        ),
    )


def _bounded(one: Pooled) -> Claim:
    return Claim(
        f"width {one.width} ({one.alpha:g}r): share of flows with population loss of at least {one.bound:.4f}",
        f"at least {PROBABILITY:g}",
        f"{one.above:.2f}",
        verdict.shown(),
        f"mean of the sample medians {one.loss:.2g}, {one.runs} flows",
    )


def _interval(one: Pooled) -> str:
    return "{:.2f} to {:.2f}".format(*one.interval)


def _chart(found: Sequence[Pooled]) -> Lines:
    known = [one for one in found if one.bound is not None]
    return Lines(
        title="Theorem 3.2: success of gradient flow against the width",
        x_label="alpha = width / r",
        y_label="share of flows",
        x_scale="log",
        series=(
            Series(
                label="every training point classified",
                x=tuple(one.alpha for one in found),
                y=tuple(one.share for one in found),
                interval=tuple(one.interval for one in found),
            ),
            Series.of("loss above the bound of the theorem", ((one.alpha, one.above) for one in known)),
        ),
        levels=(("the theorem: at least 0.25 above its bound", PROBABILITY),),
    )


def _analyse(workspace: Workspace, size: Size) -> Outcome:
    chosen = dict(_SIZES[size])
    alphas, samples, steps = chosen.pop("alphas"), chosen.pop("samples"), chosen.pop("steps")
    asked = [{**chosen, "alpha": alpha, "steps": steps, "seed": seed} for alpha in alphas for seed in range(samples)]
    rows = workspace.compute_with_place(flows_of_width, asked)
    return of_theorem32([Pooled.of(rows[i : i + samples]) for i in range(0, len(rows), samples)])


THEOREM32 = read_study("safran2022-theorem32", analyse=_analyse)
