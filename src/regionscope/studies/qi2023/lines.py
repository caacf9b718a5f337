"""Figure 3: linear regions along lines from the origin, over the number of neurons."""

from __future__ import annotations

from regionscope.studies import verdict
from regionscope.studies.charts import Lines
from regionscope.studies.qi2023.read import Course, course
from regionscope.studies.qi2023.settings import DEPTH, moons, toy_grid
from regionscope.studies.study import Claim, Outcome, Size, Study, Table
from regionscope.studies.workspace import Workspace

__all__ = ["FIGURE3", "judge"]


def judge(ratios: dict[int, Course]) -> tuple[Claim, ...]:
    """For each width: whether the ratio stays in a constant range, and how near to 1."""
    claims: list[Claim] = []
    for width, one in ratios.items():
        network, means = str([width] * DEPTH), one.means
        spread = f"{max(one.deviations):.3f} at most"
        claims += [
            Claim(
                f"{network}: regions / neurons over training",
                "within a constant range",
                f"{min(means):.3f} to {max(means):.3f}",
                verdict.steady(means),
                spread,
            ),
            Claim(
                f"{network}: regions / neurons, mean over epochs",
                "does not significantly deviate from 1",
                f"{sum(means) / len(means):.3f}",
                verdict.near(1.0, sum(means) / len(means)),
                spread,
            ),
        ]
    return tuple(claims)


def _analyse(workspace: Workspace, size: Size) -> Outcome:
    grid = toy_grid(size)
    runs = workspace.runs(moons(size))
    n = len(grid.seeds)
    ratios = {}
    for i, width in enumerate(grid.widths):
        counts = course(runs[i * n : (i + 1) * n], "lines")
        ratios[width] = Course(counts.epochs, counts.values / (DEPTH * width))
    shown = [i for i, epoch in enumerate(next(iter(ratios.values())).epochs) if epoch in (0, 10, 20, 50, 100)]
    epochs = next(iter(ratios.values())).epochs
    rows = tuple(
        (str([width] * DEPTH), *(f"{one.means[i]:.3f} ± {one.deviations[i]:.3f}" for i in shown))
        for width, one in ratios.items()
    )
    chart = Lines(
        title="Figure 3: linear regions along lines from the origin",
        x_label="epoch",
        y_label="linear regions / neurons",
        series=tuple(one.series(str([width] * DEPTH)) for width, one in ratios.items()),
    )
    heading = ("network", *(f"epoch {epochs[i]}" for i in shown))
    return Outcome(
        claims=judge(ratios),
        tables=(Table("Regions / neurons, mean and standard deviation over seeds", heading, rows),),
        charts=(chart,),
        notes=(
            f"Each value is the mean over {grid.lines} lines from the origin to random training points of two moons; "
            "the paper names neither the data nor the number of lines.",
            "A line here is at most 1.41 long; the expected count grows with its length, so that the level of the "
            "ratio depends on the scale of the data, and its constancy does not.",
        ),
    )


FIGURE3 = Study(
    name="qi2023-figure3",
    paper="qi2023",
    source="Figure 3",
    claim="Along a line the number of linear regions stays near the number of neurons during training.",
    experiments=moons,
    analyse=_analyse,
    scaled={"smoke": "96 points, widths 16 and 32, 5 epochs, 2 seeds, 8 lines.", "desk": "Nothing is scaled down."},
)
