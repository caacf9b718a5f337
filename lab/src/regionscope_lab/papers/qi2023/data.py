"""Figures 1 and 6: the data, and the linear and decision regions of a trained network."""

from __future__ import annotations

from dataclasses import replace

from regionscope.formatting import counted
from regionscope_lab.config import Experiment
from regionscope_lab.data import Dataset
from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Picture, Pictures
from regionscope_lab.papers.papers import read_study
from regionscope_lab.papers.qi2023 import paper
from regionscope_lab.papers.qi2023.pictures import model_at_epoch, regions_of
from regionscope_lab.papers.qi2023.read import Course, course
from regionscope_lab.papers.qi2023.settings import DISCLOSED, SEED, moons, quantiles, toy_grid
from regionscope_lab.papers.study import Claim, Outcome, Size
from regionscope_lab.papers.workspace import Workspace

_CLASSES = {"two_moons": 2, "gaussian_quantiles": 5}  # Figure 6, 1000 points each
_POINTS = 1000


def _experiments(size: Size) -> tuple[Experiment, ...]:
    """The widest networks, all seeds of two moons and the drawn one of Gaussian quantiles."""
    n = len(toy_grid(size).seeds)
    return (*moons(size)[-n:], quantiles(size)[-n])


def judge(network: str, printed: int, linear: Course, decision: Course) -> tuple[Claim, ...]:
    """Linear and decision regions at the last epoch, over all seeds."""
    counts, cells = linear.values[:, -1], decision.values[:, -1]
    other = int((cells != _CLASSES["two_moons"]).sum())
    return (
        Claim(
            f"linear regions of {network}",
            f"{printed:,} (Table 2)",
            f"{counts.mean():,.0f} on average, {counts.min():,.0f} to {counts.max():,.0f}, {counts[0]:,.0f} with seed "
            f"{SEED}",
            verdict.near(printed, float(counts.mean()), factor=1.25),
            f"sd {linear.deviations[-1]:,.0f}",
        ),
        Claim(
            f"decision regions of {network}",
            "one for each moon (Figure 1c)",
            f"2 with {len(cells) - other} of {len(cells)} seeds; {cells.min():.0f} to {cells.max():.0f}",
            verdict.holds(other, len(cells)),
        ),
    )


def _analyse(workspace: Workspace, size: Size) -> Outcome:
    grid = toy_grid(size)
    *seeds, other = workspace.runs(_experiments(size))
    run, last, width = seeds[0], grid.epochs[-1], grid.widths[-1]
    data, rings = run.split(workspace.data_root).train, other.split(workspace.data_root).train
    linear, decision = regions_of(model_at_epoch(run, last))
    network = f"{[width] * 3}, epoch {last}"
    printed = dict(zip(paper.EPOCHS, paper.MOONS[width], strict=True))[last]
    pictures = (
        Picture("(a) two moons", None, points=data.inputs, labels=data.labels),
        Picture(f"(b) {counted(linear.n_linear_regions, 'linear region')}", linear),
        Picture(f"(c) {counted(decision.count, 'decision region')}", decision, "decision"),
        Picture("both at once", decision, "linear"),
    )
    sets = (
        replace(pictures[0], title="two moons"),
        Picture("Gaussian quantiles", None, points=rings.inputs, labels=rings.labels),
    )
    return Outcome(
        claims=(
            *judge(network, printed, course(seeds, "linear_regions"), course(seeds, "decision_regions")),
            *(_as_described(one) for one in (data, rings)),
        ),
        charts=(
            Pictures(title=f"Figure 1: {network}, seed {SEED}", columns=4, pictures=pictures),
            Pictures(title="Figure 6: the data", columns=2, pictures=sets),
        ),
        notes=(
            "In Figure 1c the paper's white area is near the decision boundary; here the boundary itself is drawn, "
            "exactly, as a black line.",
            "Figure 1 has no count in the text; that of Table 2 is of the same network on the same data. "
            "Points, classes and range describe how the data are made here; they are shown and not judged.",
            DISCLOSED,
            "sd: standard deviation over seeds.",
        ),
    )


def _as_described(data: Dataset) -> Claim:
    """Number of points, classes and range of a data set, beside Figure 6."""
    n, low, high = len(data.inputs), float(data.inputs.min()), float(data.inputs.max())
    return Claim(
        f"{data.name}: points, classes, range",
        f"{_POINTS:,}, {_CLASSES[data.name]}, -1 to 1",
        f"{n:,}, {len(data.labels.unique())}, {low:g} to {high:g}",
        verdict.shown(),
    )


FIGURE1 = read_study("qi2023-figure1", experiments=_experiments, analyse=_analyse)
