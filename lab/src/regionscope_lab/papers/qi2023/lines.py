"""Figure 3: linear regions along lines from the origin, over the number of neurons."""

from __future__ import annotations

import math

from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Lines
from regionscope_lab.papers.papers import read_study
from regionscope_lab.papers.qi2023.read import Course, course, curves
from regionscope_lab.papers.qi2023.settings import DEPTH, DISCLOSED, moons, toy_grid
from regionscope_lab.papers.study import Claim, Outcome, Size, Table
from regionscope_lab.papers.workspace import Workspace

RANGE = 1.5  # largest by smallest value that still counts as a constant range


def judge(ratios: dict[int, Course], length: float) -> tuple[Claim, ...]:
    """For each width: whether the ratio stays in a constant range, and how near to 1; ``length``: of a line, mean."""
    claims: list[Claim] = []
    for width, one in ratios.items():
        network, means = str([width] * DEPTH), one.means
        level, low = sum(means) / len(means), min(means)
        reach = max(means) / low if low > 0 else math.inf
        spread = f"sd {max(one.deviations):.3f} at most"
        claims += [
            Claim(
                f"{network}: regions / neurons over training, largest / smallest",
                "within a constant range",
                f"{reach:.2f}: {means[0]:.3f} at epoch {one.epochs[0]}, {means[-1]:.3f} at epoch {one.epochs[-1]}, "
                f"{low:.3f} to {max(means):.3f} on the way",
                verdict.near(1.0, reach, factor=RANGE),
                spread,
            ),
            Claim(
                f"{network}: regions / neurons, mean over epochs",
                "does not significantly deviate from 1",
                f"{level:.3f}",
                verdict.near(1.0, level),
                spread,
            ),
            Claim(
                f"{network}: regions / (neurons x length of the line), mean over epochs",
                "about 1 (equation 27)",
                f"{level / length:.3f}",
                verdict.shown(),
                f"sd {max(one.deviations) / length:.3f} at most",
            ),
        ]
    return tuple(claims)


def _analyse(workspace: Workspace, size: Size) -> Outcome:
    grid = toy_grid(size)
    runs = workspace.runs(moons(size))
    n = len(grid.seeds)
    length = float(runs[0].split(workspace.data_root).train.inputs.norm(dim=1).mean())
    ratios = {}
    for i, width in enumerate(grid.widths):
        counts = course(runs[i * n : (i + 1) * n], "lines")
        ratios[width] = Course(counts.epochs, counts.values / (DEPTH * width))
    chart = Lines(
        title="Figure 3: linear regions along lines from the origin",
        x_label="epoch",
        y_label="linear regions / neurons",
        series=curves({str([width] * DEPTH): one for width, one in ratios.items()}),
    )
    return Outcome(
        claims=judge(ratios, length),
        tables=(
            table("Regions / neurons, mean over seeds", ratios, 1.0),
            table(f"Regions / (neurons x {length:.2f}), per unit of length, mean over seeds", ratios, length),
        ),
        charts=(chart,),
        notes=(
            f"Each value is the mean over {grid.lines} lines from the origin to random training points of two moons; "
            "the paper names neither the data nor the number of lines.",
            "Equation 27 of the paper is E[P] = |S| j for P regions on a line of length |S| and j neurons. The mean "
            "distance of a training point from the origin, which is the expected length of a line, is "
            f"{length:.2f}, and no line is longer than 1.41: the level of the ratio depends on the scale of the data, "
            "its constancy does not.",
            DISCLOSED,
            "sd: standard deviation over seeds; the bands of the chart show it as well.",
        ),
    )


def table(title: str, ratios: dict[int, Course], length: float) -> Table:
    """Regions / neurons of each network at some epochs, divided by ``length``."""
    epochs = next(iter(ratios.values())).epochs
    shown = [i for i, epoch in enumerate(epochs) if epoch in (0, 10, 20, 50, 100)]
    rows = tuple(
        (str([width] * DEPTH), *(f"{one.means[i] / length:.3f} (sd {one.deviations[i] / length:.3f})" for i in shown))
        for width, one in ratios.items()
    )
    return Table(title, ("network", *(f"epoch {epochs[i]}" for i in shown)), rows)


FIGURE3 = read_study("qi2023-figure3", experiments=moons, analyse=_analyse)
