"""Figure 2: layer by layer, neurons cut the regions of the layers before."""

from __future__ import annotations

import math
from itertools import pairwise

from regionscope.formatting import counted
from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Lines, Picture, Pictures
from regionscope_lab.papers.papers import read_study
from regionscope_lab.papers.qi2023.pictures import model_at_epoch, regions_of
from regionscope_lab.papers.qi2023.read import Course, course
from regionscope_lab.papers.qi2023.settings import DEPTH, DISCLOSED, LAYERED_WIDTH, SEED, layered, toy_grid
from regionscope_lab.papers.study import Claim, Outcome, Size, Table
from regionscope_lab.papers.workspace import Workspace


def judge(layers: list[Course]) -> tuple[Claim, ...]:
    """Whether every layer adds regions at the last epoch, for all seeds, and the first makes no more than lines can."""
    last = [layer.values[:, -1] for layer in layers]
    steps = list(pairwise(last))
    failures = sum(int((after <= before).sum()) for before, after in steps)
    cases = sum(len(after) for _, after in steps)
    most = 1 + LAYERED_WIDTH + math.comb(LAYERED_WIDTH, 2)
    first = layers[0].values
    return (
        Claim(
            "every layer adds regions",
            "yes, in the figure",
            f"in {cases - failures} of {cases} cases: " + " < ".join(f"{layer.means[-1]:.0f}" for layer in layers),
            verdict.holds(failures, cases),
            "sd " + ", ".join(f"{layer.deviations[-1]:.0f}" for layer in layers),
        ),
        Claim(
            f"check: an arrangement of {LAYERED_WIDTH} lines has at most 1 + {LAYERED_WIDTH} + C({LAYERED_WIDTH}, 2) = "
            f"{most} regions",
            "",
            f"the first layer has {first.max():.0f} at most, at all epochs and seeds: "
            + ("within the bound" if first.max() <= most else "ABOVE THE BOUND"),
            verdict.shown(),
        ),
    )


def _analyse(workspace: Workspace, size: Size) -> Outcome:
    grid = toy_grid(size)
    runs = workspace.runs(layered(size))
    names = [f"relu{i}" for i in range(1, DEPTH + 1)]
    layers = [course(runs, f"linear_regions.layer.{name}", grid.epochs) for name in names]
    last = grid.epochs[-1]
    part, _ = regions_of(model_at_epoch(runs[0], last))
    pictures = tuple(
        Picture(f"after {name}: {counted(count, 'region')}", part, layer=name) for name, count in part.by_layer.items()
    )
    rows: tuple[tuple[str | float, ...], ...] = tuple(
        (name, *(round(value, 1) for value in layer.means)) for name, layer in zip(names, layers, strict=True)
    )
    network = str([LAYERED_WIDTH] * DEPTH)
    return Outcome(
        claims=judge(layers),
        tables=(Table("Regions after each layer, by epoch (means)", ("layer", *map(str, grid.epochs)), rows),),
        charts=(
            Pictures(title=f"Figure 2: {network}, epoch {last}, seed {SEED}", columns=DEPTH, pictures=pictures),
            Lines(
                title=f"Regions after each layer of {network}", x_label="epoch", y_label="linear regions",
                series=tuple(layer.series(f"after {name}") for name, layer in zip(names, layers, strict=True)),
                x_scale="symlog",
            ),
        ),
        notes=(
            "The paper does not name the data of its Figure 2, and its text has no counts of it; these runs are on two "
            "moons.",
            "A layer only cuts regions and never joins them, so counts cannot fall from layer to layer. The test is "
            "whether every layer adds some.",
            DISCLOSED,
            "sd: standard deviation over seeds; the bands of the chart show it as well.",
        ),
    )  # fmt: skip


FIGURE2 = read_study("qi2023-figure2", experiments=layered, analyse=_analyse)
