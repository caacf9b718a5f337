"""Tables 4, 5 and 6, and finer counts: does it matter how regions are counted?"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from regionscope.lab.config import Experiment
from regionscope.studies import verdict
from regionscope.studies.charts import Lines, Series
from regionscope.studies.li2025 import paper, settings
from regionscope.studies.li2025.claims import correlation_claim, interval, points_table, scatter, signed
from regionscope.studies.li2025.predictors import runs_of_primary
from regionscope.studies.li2025.tables import Point, correlation, difference_of, left_out, points
from regionscope.studies.study import Claim, Outcome, Size, Table
from regionscope.studies.workspace import Workspace

__all__ = ["of_refined", "of_table4", "of_table5", "of_table6", "runs_of_tables4_and_5", "table4", "table5", "table6"]

_FINE_ENOUGH = 0.01  # two counts whose ratio is this near to the paper's agree
_SURE_ENOUGH = 0.05  # the same for different numbers of slices


def runs_of_tables4_and_5(size: Size) -> tuple[Experiment, ...]:
    return settings.counting_runs(size)


def table4(workspace: Workspace, size: Size) -> Outcome:
    lines, sides, _ = settings.resolutions(size)
    return of_table4(points(workspace.runs(settings.counting_runs(size))), lines, sides)


def of_table4(chosen: Sequence[Point], lines: Sequence[int], sides: Sequence[int]) -> Outcome:
    """200 points on a line and 30 x 30 on a plane are enough."""
    one = chosen[0]
    counts = {n: one.values[f"grid_{n}"] for n in lines}
    planes = {n: one.values[f"grid_{n}x{n}"] for n in sides}
    claims = (
        _ratio("lines: count with 200 points / with the most", counts, 200, paper.GRIDS_1D, _FINE_ENOUGH, one.seeds),
        _ratio("planes: count with 30 x 30 / with the most", planes, 30, paper.GRIDS_2D, _FINE_ENOUGH, one.seeds),
    )
    return Outcome(
        claims=claims,
        tables=(
            _counts("Table 4, lines", "points", counts, paper.GRIDS_1D, [one.deviations[f"grid_{n}"] for n in lines]),
            _counts(
                "Table 4, planes", "points along a side", planes, paper.GRIDS_2D,
                [one.deviations[f"grid_{n}x{n}"] for n in sides],
            ),
        ),
        charts=(
            _curve("Region count on lines by points", "points", counts),
            _curve("Region count on planes by points along a side", "points along a side", planes),
        ),
        notes=(
            f"All grids count on the same slices. {paper.COUNTS_DIFFER}",
        ),
    )  # fmt: skip


def table5(workspace: Workspace, size: Size) -> Outcome:
    samples = settings.resolutions(size)[2]
    return of_table5(points(workspace.runs(settings.counting_runs(size))), samples)


def of_table5(chosen: Sequence[Point], samples: Sequence[int]) -> Outcome:
    """100 slices are enough."""
    one = chosen[0]
    counts = {n: one.values[f"samples_{n}"] for n in samples}
    enough = samples[len(samples) // 2]
    spread = [one.deviations[f"samples_{n}"] for n in samples]
    return Outcome(
        claims=(
            _ratio(
                f"count with {enough} slices / with {samples[-1]}", counts, enough, paper.SAMPLES, _SURE_ENOUGH,
                one.seeds,
            ),
        ),
        tables=(_counts("Table 5", "slices", counts, paper.SAMPLES, spread),),
        charts=(_curve("Region count by number of slices", "slices", counts, spread),),
        notes=("The first slices of a longer list are those of a shorter one.",),
    )  # fmt: skip


def table6(workspace: Workspace, size: Size) -> Outcome:
    runs = workspace.runs(runs_of_primary(size))
    return of_table6(points(runs), left_out(runs))


def of_table6(chosen: Sequence[Point], notes: tuple[str, ...] = ()) -> Outcome:
    """Longer lines cross more regions and correlate as well."""
    names = {span: "regions" if span == (0, 1) else f"regions_from_{span[0]}_to_{span[1]}" for span in paper.RANGES}
    counts = [fmean(one.values[name] for one in chosen) for name in names.values()]
    errors = [0.0] + [difference_of(chosen, name, "regions")[1] for name in list(names.values())[1:]]
    order = verdict.ordering([count for count, _ in paper.RANGES.values()], counts, errors)
    claims = [
        Claim(
            "mean count by range",
            ", ".join(f"{count:.2f}" for count, _ in paper.RANGES.values()),
            ", ".join(f"{count:.2f}" for count in counts),
            order,
            f"± {max(errors):.2f} at most, paired",
        )
    ]
    for span, name in names.items():
        value = paper.RANGES[span][1]
        what = f"alpha from {span[0]} to {span[1]}: regions against gap"
        claims.append(correlation_claim(what, (value, f"{value:.2f}"), chosen, name))
    rows = tuple(
        (f"[{low}, {high}]", paper.RANGES[low, high][0], count, signed(correlation(chosen, names[low, high])))
        for (low, high), count in zip(names, counts, strict=True)
    )
    return Outcome(
        claims=tuple(claims),
        tables=(Table("Table 6", ("range of alpha", "paper's count", "count", "correlation"), rows),),
        charts=scatter("Region count on lines from -3 to 4, and gap", chosen, names[-3, 4], "regions on a line"),
        notes=("Each line has 200 points, whatever its length.", paper.COUNTS_DIFFER, *notes),
    )


def of_refined(chosen: Sequence[Point], notes: tuple[str, ...] = ()) -> Outcome:
    """The refined count beside the plain grid on the same lines: what the grid misses, and which goes with the gap."""
    missed, error, n = difference_of(chosen, "regions_refined", "regions")
    plain, fine = correlation(chosen, "regions"), correlation(chosen, "regions_refined")
    claims = (
        Claim(
            "regions that the grid misses, per line",
            "",
            f"{missed:+.4f}",
            verdict.shown(),
            f"± {error:.4f}, {n} settings",
        ),
        Claim("plain grid: correlation with the gap", "", signed(plain), verdict.shown(), interval(plain)),
        Claim("refined: correlation with the gap", "", signed(fine), verdict.shown(), interval(fine)),
    )
    return Outcome(
        claims=claims,
        tables=(points_table("Plain and refined counts", chosen, ("regions", "regions_refined", "gap")),),
        charts=scatter("Refined region count and gap", chosen, "regions_refined", "regions on a line, refined"),
        notes=notes,
    )


def _ratio(what: str, counts: dict[int, float], at: int, printed: dict[int, float], within: float, seeds: int) -> Claim:
    """A count over that with the most points, beside the same ratio in the paper."""
    most, top = max(counts), max(printed)
    wanted = printed[min(printed, key=lambda n: abs(n - at))] / printed[top]
    ours = counts[at] / counts[most]
    return Claim(what, f"{wanted:.3f}", f"{ours:.3f}", verdict.agrees(wanted, ours, within=within), f"{seeds} seeds")


def _counts(
    title: str, label: str, counts: dict[int, float], printed: dict[int, float], spread: Sequence[float]
) -> Table:
    rows = tuple(
        (n, f"{printed[n]:.2f}" if n in printed else "", count, deviation)
        for (n, count), deviation in zip(counts.items(), spread, strict=True)
    )
    return Table(title, (label, "paper", "regions", "sd over seeds"), rows)


def _curve(title: str, label: str, counts: dict[int, float], spread: Sequence[float] = ()) -> Lines:
    series = Series(label="", x=tuple(map(float, counts)), y=tuple(counts.values()), spread=tuple(spread))
    return Lines(title=title, x_label=label, y_label="regions", series=(series,))
