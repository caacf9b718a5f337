"""Table 3: region count, gap and their correlation while the networks train."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from regionscope.errors import InputError
from regionscope.measures.statistics import error_of_interval
from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Lines, Series
from regionscope_lab.papers.li2025 import paper
from regionscope_lab.papers.li2025.claims import signed, undefined
from regionscope_lab.papers.li2025.tables import Moment, evolution
from regionscope_lab.papers.study import Claim, Outcome, Table
from regionscope_lab.store import RunFolder

_LAST = max(paper.EVOLUTION)
_SAME_START = ("With one seed all runs start from the same weights, so the count at the start is that of one network.",)


def of_table3(runs: Sequence[RunFolder], notes: tuple[str, ...] = ()) -> Outcome:
    """The correlation is low early in training and rises."""
    moments = evolution(runs)
    if len(moments) < 3:
        raise InputError(
            f"Expected regions_path at 3 or more shared steps, got {len(moments)}. "
            "Train with: regionscope-lab paper run"
        )
    start, end = moments[0], moments[-1]
    return Outcome(
        claims=(
            Claim(
                "region count, start and end", "1.13, 3.26", f"{start.regions:.2f}, {end.regions:.2f}",
                verdict.differs(end.regions, start.regions, float(np.hypot(end.error, start.error))),
                f"± {start.error:.2f}, {end.error:.2f}",
            ),
            _end(end),
            *_course(moments),
        ),
        tables=(_table(moments),),
        charts=(
            _lines("Region count while training", "regions on a line", [(m, m.regions, m.error) for m in moments]),
            _lines(
                "Gap while training", "generalisation gap, %",
                [(m, m.gap, m.gap_error) for m in moments if m.gap is not None],
            ),
            _correlations(moments),
        ),
        notes=(
            f"Runs have different numbers of epochs here and in the paper ({_LAST}), so moments are compared at the "
            "same share of the training; the paper's values between its rows are interpolated.",
            *(_SAME_START if len({run.experiment.seed for run in runs}) == 1 else ()),
            *notes,
        ),
    )  # fmt: skip


def _end(end: Moment) -> Claim:
    value = undefined() if end.found is None else end.found.pearson
    spread = "" if end.found is None else f"95% [{value.interval[0]:+.2f}, {value.interval[1]:+.2f}]"
    return Claim("correlation at the end", "0.98", signed(end.found), verdict.correlation(0.98, value), spread)


def _course(moments: Sequence[Moment]) -> list[Claim]:
    """Do gap and correlation rise as in the paper?"""
    first = min(epoch for epoch, row in paper.EVOLUTION.items() if row[2] is not None) / _LAST
    compared = [m for m in moments if m.found is not None and m.gap is not None and m.share >= first]
    claims = []
    if len(compared) >= 2:
        found = [m.found.pearson for m in compared if m.found is not None]
        errors = [error_of_interval(*each.interval) for each in found]
        claims.append(
            Claim(
                "course of the correlation",
                "-0.53 at 10% of the training, rising to 0.98",
                ", ".join(f"{c.value:+.2f} ({m.share:.0%})" for m, c in zip(compared, found, strict=True)),
                verdict.ordering(_paper(compared, 2), [c.value for c in found], errors),
                f"± {max(errors):.2f} at most",
            )
        )
        gaps = [m.gap for m in compared if m.gap is not None]
        claims.append(
            Claim(
                "course of the gap",
                "11.2% at 10% of the training, rising to 31.6%; 7.3% at 20%",
                ", ".join(f"{gap:.1f}% ({m.share:.0%})" for m, gap in zip(compared, gaps, strict=True)),
                verdict.ordering(_paper(compared, 1), gaps, [m.gap_error for m in compared]),
            )
        )
    return claims


def _paper(moments: Sequence[Moment], column: int) -> list[float]:
    """A column of Table 3 at the same shares of training."""
    known = {epoch / _LAST: value for epoch, row in paper.EVOLUTION.items() if (value := row[column]) is not None}
    return [float(value) for value in np.interp([m.share for m in moments], list(known), list(known.values()))]


def _table(moments: Sequence[Moment]) -> Table:
    rows = tuple(
        (
            m.epoch,
            f"{m.share:.0%}",
            m.regions,
            math.nan if m.gap is None else m.gap,
            math.nan if m.found is None else str(m.found.pearson),
            m.n,
        )
        for m in moments
    )
    return Table("Evolution (Table 3)", ("epoch", "share", "regions", "gap, %", "correlation [95%]", "settings"), rows)


def _correlations(moments: Sequence[Moment]) -> Lines:
    known = [(m.epoch, m.found.pearson) for m in moments if m.found is not None]
    series = Series(
        label="", x=tuple(epoch for epoch, _ in known), y=tuple(found.value for _, found in known),
        interval=tuple(found.interval for _, found in known),
    )  # fmt: skip
    title = "Correlation of region count and gap while training"
    return Lines(title=title, x_label="epoch", y_label="correlation", series=(series,))


def _lines(title: str, label: str, values: Sequence[tuple[Moment, float, float]]) -> Lines:
    """Values with their standard errors."""
    series = Series.of("", ((m.epoch, y, error) for m, y, error in values))
    return Lines(title=title, x_label="epoch", y_label=label, series=(series,))
