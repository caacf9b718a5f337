"""What a study is: the runs it needs, and how its table and figure come from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, get_args

from regionscope.measures.statistics import t_interval
from regionscope_lab.config import Experiment
from regionscope_lab.papers.charts import Chart
from regionscope_lab.papers.verdict import Grade, Verdict, one_seed, overall, positive

if TYPE_CHECKING:
    from regionscope_lab.papers.workspace import Workspace

Size = Literal["smoke", "desk", "full"]
SIZES: tuple[Size, ...] = get_args(Size)

PAPERS = {
    "transformers": "Beyond the papers: transformers",
    "beyond": "Beyond the papers: penalties and predictors",
}


@dataclass(frozen=True)
class Claim:
    """One line of a report: the paper's value (a number or words), ours, and the verdict.

    spread: how sure ours is, in words that name the kind: "95% [low, high]" is an interval, "±" a standard error,
    "sd" a standard deviation over seeds, "from low to high" a range.
    """

    what: str
    paper: str
    ours: str
    verdict: Verdict
    spread: str = ""


@dataclass(frozen=True)
class Table:
    """Numbers for reading: a heading, column names and rows of the same length."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a study found. summary: main result in words, at the top of the page."""

    claims: tuple[Claim, ...]
    summary: str = ""
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def grade(self) -> Grade:
        return overall([claim.verdict for claim in self.claims])


@dataclass(frozen=True, kw_only=True)
class Study:
    """One table or figure of a paper (or a few that come from the same runs).

    name: such as "li2025-figure4". source: its place in the paper. claim: statement of the paper, in one sentence.
    experiments: runs that the study reads, by size; studies with the same experiment share its run.
    analyse: function that returns the outcome; the workspace gives runs and stores other computed results.
    plan: function that chooses the experiments to train and to report on, given the runs that exist.
    scaled: the reductions against the paper, by size.
    seeded: whether the errors of its claims are over seeds, so that a single seed gives at most same trend.
    """

    name: str
    source: str
    claim: str
    analyse: Callable[[Workspace, Size], Outcome]
    experiments: Callable[[Size], tuple[Experiment, ...]] = lambda size: ()
    plan: Callable[[Workspace, Iterable[Experiment]], tuple[Experiment, ...]] = lambda workspace, wanted: tuple(wanted)
    scaled: dict[Size, str] = field(default_factory=dict)
    seeded: bool = False

    @property
    def paper(self) -> str:
        """The paper, such as "li2025"."""
        return self.name.split("-")[0]

    def planned(self, workspace: Workspace, size: Size) -> tuple[Experiment, ...]:
        """The experiments of the plan."""
        return self.plan(workspace, self.experiments(size))


def positive_over_seeds(what: str, expected: str, values: Iterable[float], said: str) -> Claim:
    """A number that is expected to be positive, one for each seed (NaN: that seed has none). said: its format."""
    known = [value for value in values if not math.isnan(value)]
    centre, low, high = t_interval(known)
    spread = f"95% [{low:{said}}, {high:{said}}], {len(known)} seeds" if len(known) > 1 else ""
    ours = format(centre, said) if known else "no seed"
    return Claim(what, expected, ours, positive((low, high)), spread)


def one_seed_claims(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """The claims of runs that share one seed."""
    return tuple(replace(claim, verdict=one_seed(claim.verdict)) for claim in claims)


def over_seeds(study: Study) -> Study:
    """The study, whose errors are over seeds: with one seed, a claim that is judged on errors is same trend at most.

    Seeds of which a run is missing are left out.
    """

    def analyse(workspace: Workspace, size: Size) -> Outcome:
        wanted = study.experiments(size)
        planned = {experiment.seed for experiment in wanted}
        seeds = workspace.whole_seeds(wanted) or planned
        outcome = study.analyse(workspace.of_seeds(seeds), size)
        if seeds < planned:
            said = f"{len(seeds)} of {len(planned)} planned seeds; the runs of the others are missing or incomplete."
            outcome = replace(outcome, notes=(*outcome.notes, said))
        return replace(outcome, claims=one_seed_claims(outcome.claims)) if len(seeds) == 1 else outcome

    return replace(study, analyse=analyse, seeded=True)
