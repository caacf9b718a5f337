"""Figure 2 under a hypothesis: that the paper's SGD has no momentum. It states none; the other studies have 0.9."""

from __future__ import annotations

from collections.abc import Sequence

from regionscope_lab.config import Experiment
from regionscope_lab.papers.li2025 import settings
from regionscope_lab.papers.li2025.claims import points_table, scatter
from regionscope_lab.papers.li2025.predictors import claims_of_figure2
from regionscope_lab.papers.li2025.tables import Point, group_by
from regionscope_lab.papers.study import Outcome, Size

_COLUMNS = ("regions", "gap", "train_error", "distance", "margin")
_FEWEST = 3  # settings of a correlation
_USUAL = f"Momentum {settings.MOMENTUM}"


def runs_of_momentum(size: Size) -> tuple[Experiment, ...]:
    """Table 1 with the momentum of the other studies, and the settings of its middle weight decay without momentum."""
    network, data = settings.PRIMARY[size]
    return (
        *settings.grid(size, network, data, seeds=(0,)),
        *settings.grid(size, network, data, momentum=0.0, seeds=(0,)),
    )


def of_momentum(chosen: Sequence[Point], notes: tuple[str, ...] = ()) -> Outcome:
    """The claims of Figure 2 without momentum, over all settings and over those that fit their data."""
    groups = group_by(chosen, lambda point: f"{point.experiment.training.momentum:g}")
    without = groups["0"]
    decays = {point.factors["weight_decay"] for point in without}
    usual = [point for point in groups[f"{settings.MOMENTUM:g}"] if point.factors["weight_decay"] in decays]
    fitted = [point for point in without if point.values.get("train_error", 0.0) < settings.FITTED]
    claims = claims_of_figure2(without, "no momentum: ")
    if _FEWEST <= len(fitted) < len(without):
        claims += claims_of_figure2(fitted, "no momentum, settings that fit: ")
    charts = tuple(
        chart
        for kind, members in (("No momentum", without), (_USUAL, usual))
        for measure, words in (("margin", "mean output margin"), ("regions", "regions on a line"))
        for chart in scatter(f"{kind}: {words} and gap", members, measure, words)
    )
    return Outcome(
        claims=tuple(claims),
        tables=(
            points_table("No momentum", without, _COLUMNS),
            points_table(f"{_USUAL}, the same settings", usual, _COLUMNS),
        ),
        charts=charts,
        notes=(
            "The rule was written down before the runs. The paper trains with SGD and states no momentum; with 0.9 the "
            "grades are those of Figure 2. Without momentum a step is about ten times shorter, so that small learning "
            "rates may not fit their data in this time: a second group of rows leaves those settings out.",
            *notes,
        ),
    )
