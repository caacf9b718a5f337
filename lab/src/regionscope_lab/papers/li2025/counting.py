"""Tables 4, 5 and 6, and finer counts: does it matter how regions are counted?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from regionscope.measures.correlate import Coefficient
from regionscope.measures.statistics import deviation, standard_error
from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Lines, Series
from regionscope_lab.papers.li2025 import paper, settings
from regionscope_lab.papers.li2025.claims import correlation_claim, points_table, scatter, signed
from regionscope_lab.papers.li2025.tables import Point, advantage, correlation, difference_of, points
from regionscope_lab.papers.study import Claim, Outcome, Size, Table
from regionscope_lab.papers.workspace import Workspace

_CountsByLevel = Mapping[int, Sequence[float]]  # how finely -> the count of each seed

_FINE_ENOUGH = 0.01  # two counts whose ratio is this near to the paper's agree
_SURE_ENOUGH = 0.05  # the same for different numbers of slices


def table4(workspace: Workspace, size: Size) -> Outcome:
    lines, sides, _ = settings.resolutions(size)
    return of_table4(_seeds(workspace, size), lines, sides)


def of_table4(seeds: Sequence[Point], lines: Sequence[int], sides: Sequence[int]) -> Outcome:
    """200 points on a line and 30 x 30 on a plane are enough; one point for each seed."""
    counts = {n: [one.values[f"grid_{n}"] for one in seeds] for n in lines}
    planes = {n: [one.values[f"grid_{n}x{n}"] for one in seeds] for n in sides}
    return Outcome(
        claims=(
            _ratio("lines: count with 200 points / with the most", counts, 200, paper.GRIDS_1D, _FINE_ENOUGH),
            _ratio("planes: count with 30 x 30 / with the most", planes, 30, paper.GRIDS_2D, _FINE_ENOUGH, seeds=True),
        ),
        tables=(
            _counts("Table 4, lines", "points", counts, paper.GRIDS_1D),
            _counts("Table 4, planes", "points along a side", planes, paper.GRIDS_2D),
        ),
        charts=(
            _curve("Region count on lines by points", "points", counts),
            _curve("Region count on planes by points along a side", "points along a side", planes),
        ),
        notes=(
            f"All grids count on the same slices. {paper.COUNTS_DIFFER} Table 4 has 2.78 for lines and for planes; a "
            "plane through three points crosses more regions than a line.",
        ),
    )


def table5(workspace: Workspace, size: Size) -> Outcome:
    return of_table5(_seeds(workspace, size), settings.resolutions(size)[2])


def of_table5(seeds: Sequence[Point], samples: Sequence[int]) -> Outcome:
    """100 slices are enough; one point for each seed."""
    counts = {n: [one.values[f"samples_{n}"] for one in seeds] for n in samples}
    enough = samples[len(samples) // 2]
    what = f"count with {enough} slices / with {samples[-1]}"
    return Outcome(
        claims=(_ratio(what, counts, enough, paper.SAMPLES, _SURE_ENOUGH),),
        tables=(_counts("Table 5", "slices", counts, paper.SAMPLES),),
        charts=(_curve("Region count by number of slices", "slices", counts),),
        notes=(
            "The first slices of a longer list are those of a shorter one. The paper's claim is about the mean: “using "
            "100 samples to calculate the average provides a reliable answer”.",
        ),
    )


def _seeds(workspace: Workspace, size: Size) -> list[Point]:
    return [one for run in workspace.ended(settings.counting_runs(size)) for one in points([run])]


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
        notes=(
            "Each line has 200 points, whatever its length, so a longer line has a coarser grid. A longer line "
            "contains the shorter one: where its count on the same lines is smaller, its grid has missed regions.",
            paper.COUNTS_DIFFER,
            *notes,
        ),
    )


def of_refined(chosen: Sequence[Point]) -> Outcome:
    """The refined count beside the plain grid on the same lines: what the grid misses, and which goes with the gap."""
    missed, error, n = difference_of(chosen, "regions_refined", "regions")
    claims = (
        Claim(
            "regions that the grid misses, per line, at least",
            "",
            f"{missed:+.4f}",
            verdict.shown(),
            f"± {error:.4f}, {n} settings",
        ),
        correlation_claim("plain grid: correlation with the gap", None, chosen, "regions"),
        correlation_claim("refined: correlation with the gap", None, chosen, "regions_refined"),
        *_gain(advantage(chosen, "regions_refined", "regions")),
    )
    return Outcome(
        claims=claims,
        tables=(points_table("Plain and refined counts", chosen, ("regions", "regions_refined", "gap")),),
        charts=scatter("Refined region count and gap", chosen, "regions_refined", "regions on a line, refined"),
    )


def _gain(found: Coefficient | None) -> tuple[Claim, ...]:
    if found is None:
        return ()
    low, high = found.interval
    spread = f"95% [{low:+z.3f}, {high:+z.3f}], the same resamples for both"
    return (
        Claim("correlation with the gap, refined minus plain", "", f"{found.value:+z.3f}", verdict.shown(), spread),
    )


def _ratio(
    what: str, counts: _CountsByLevel, at: int, printed: dict[int, float], within: float, *, seeds: bool = False
) -> Claim:
    """A count over that with the most points, beside the same ratio in the paper.

    seeds: whether the spread over seeds counts, too; a mean near the paper's is chance where seeds differ widely.
    """
    most, top = max(counts), max(printed)
    wanted = printed[min(printed, key=lambda n: abs(n - at))] / printed[top]
    ratios = [few / many for few, many in zip(counts[at], counts[most], strict=True)]
    whole = fmean(counts[at]) / fmean(counts[most])
    spread = f"from {min(ratios):.3f} to {max(ratios):.3f} over {len(ratios)} seeds"
    found = verdict.agrees(wanted, whole, within=within, error=standard_error(ratios) if seeds else 0.0)
    return Claim(what, f"{wanted:.3f}", f"{whole:.3f}", found, spread)


def _counts(title: str, label: str, counts: _CountsByLevel, printed: dict[int, float]) -> Table:
    rows = tuple(
        (n, f"{printed[n]:.2f}" if n in printed else "", fmean(values), deviation(values))
        for n, values in counts.items()
    )
    return Table(title, (label, "paper", "regions", "sd over seeds"), rows)


def _curve(title: str, label: str, counts: _CountsByLevel) -> Lines:
    series = Series(
        label="", x=tuple(map(float, counts)), y=tuple(map(fmean, counts.values())),
        std=tuple(map(deviation, counts.values())) if min(map(len, counts.values())) > 1 else (),
    )  # fmt: skip
    return Lines(title=title, x_label=label, y_label="regions, sd over seeds", series=(series,))
