"""Figure 5: the learning rate and the batch size against the region count."""

from __future__ import annotations

from collections.abc import Sequence

from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Chart, Lines, Series
from regionscope_lab.papers.li2025.tables import Effect, Point, effects, group_by
from regionscope_lab.papers.study import Claim, Outcome, Table

_FACTORS = {"lr": ("learning rate", "falls as it grows", -1), "batch_size": ("batch size", "rises as it grows", +1)}


def of_figure5(chosen: Sequence[Point], notes: tuple[str, ...] = ()) -> Outcome:
    """Larger learning rates and smaller batches give fewer regions."""
    groups = group_by(chosen, lambda point: point.network)
    claims, charts, rows = [], list[Chart](), []
    for factor, (words, course, sign) in _FACTORS.items():
        every = {network: effects(members, "regions", factor) for network, members in groups.items()}
        curves = {network: found for network, found in every.items() if found}
        for network, found in curves.items():
            if len(found) > 1:
                claims.append(_claim(f"{network}: region count against {words}", course, sign, found))
            rows += [(network, words, e.level, e.mean, e.error, e.n) for e in found]
        charts += [_chart(words, curves)] if curves else []
    columns = ("network", "factor", "value", "regions", "standard error", "settings")
    return Outcome(
        claims=tuple(claims),
        tables=(Table("Mean region count by learning rate and batch size", columns, tuple(rows)),),
        charts=tuple(charts),
        notes=(
            "A mean runs over all other settings of Table 1, weight decays averaged first, since they hardly matter; "
            "its standard error is that of the deviations from the mean of the runs with the same other settings.",
            *notes,
        ),
    )


def _claim(what: str, course: str, sign: int, found: tuple[Effect, ...]) -> Claim:
    order = [sign * i for i in range(len(found))]
    means, errors = [e.mean for e in found], [e.error for e in found]
    ours = ", ".join(f"{e.mean:.3f} ({e.level:g})" for e in found)
    spread = "± " + ", ".join(f"{error:.3f}" for error in errors)
    return Claim(what, course, ours, verdict.ordering(order, means, errors), spread)


def _chart(words: str, curves: dict[str, tuple[Effect, ...]]) -> Lines:
    return Lines(
        title=f"Region count and {words}",
        x_label=words,
        y_label="regions on a line",
        x_scale="log",
        series=tuple(
            Series.of(network, ((e.level, e.mean, e.error) for e in found)) for network, found in curves.items()
        ),
    )
