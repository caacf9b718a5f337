"""Tables 2 and 3, Figures 7 to 10: linear regions over training on two moons and on Gaussian quantiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from regionscope.lab.config import Experiment
from regionscope.studies import verdict
from regionscope.studies.charts import Chart, Lines, Series
from regionscope.studies.qi2023 import paper
from regionscope.studies.qi2023.compare import beside, listed, within_seeds
from regionscope.studies.qi2023.pictures import over_epochs
from regionscope.studies.qi2023.read import Course, course
from regionscope.studies.qi2023.settings import DEPTH, SEED, moons, quantiles, toy_grid
from regionscope.studies.study import Claim, Outcome, Size, Study
from regionscope.studies.workspace import Workspace

__all__ = ["TABLE2", "TABLE3", "judge"]

Printed = Mapping[int, Sequence[int]]


def judge(printed: Printed, counts: Mapping[int, Course]) -> tuple[Claim, ...]:
    """Counts by width against a table of the paper, at the epochs that both have."""
    claims = [claim for width, one in counts.items() for claim in _of_network(width, _at(printed[width], one), one)]
    last = [_at(printed[width], one)[-1] for width, one in counts.items()]
    means = [one.means[-1] for one in counts.values()]
    errors = [one.errors[-1] for one in counts.values()]
    return (
        *claims,
        Claim(
            "wider networks have more regions, last epoch",
            listed(last),
            listed(means),
            verdict.ordering(last, means, errors),
            listed([one.deviations[-1] for one in counts.values()]),
        ),
        within_seeds({str([w] * DEPTH): (_at(printed[w], one), one) for w, one in counts.items()}),
    )


def _of_network(width: int, printed: Sequence[int], ours: Course) -> list[Claim]:
    network = str([width] * DEPTH)
    grew = verdict.differs(ours.means[-1], ours.means[0], ours.growth_error)
    return [
        Claim(
            f"{network}, epoch 0, seed {SEED}",
            f"{printed[0]:,}",
            f"{ours.first_seed[0]:,.0f}",
            verdict.agrees(printed[0], ours.first_seed[0], within=0.01),
        ),
        Claim(
            f"{network}, epochs {', '.join(map(str, ours.epochs))}",
            listed(printed),
            listed(ours.means),
            verdict.ordering(printed, ours.means, ours.errors),
            listed(ours.deviations),
        ),
        Claim(
            f"{network}, last epoch / first",
            f"{printed[-1] / printed[0]:.2f}",
            f"{ours.means[-1] / ours.means[0]:.2f} (seed {SEED}: {ours.first_seed[-1] / ours.first_seed[0]:.2f})",
            grew if printed[-1] > printed[0] else verdict.shown(),
            f"{ours.growth_error / ours.means[0]:.2f}",
        ),
    ]


def _at(printed: Sequence[int], ours: Course) -> list[int]:
    return [printed[paper.EPOCHS.index(epoch)] for epoch in ours.epochs]


def _analysis(
    printed: Printed, experiments: Callable[[Size], tuple[Experiment, ...]], figures: tuple[int, int], data: str
) -> Callable[[Workspace, Size], Outcome]:
    def analyse(workspace: Workspace, size: Size) -> Outcome:
        grid = toy_grid(size)
        runs = workspace.runs(experiments(size))
        n = len(grid.seeds)
        by_width = {width: runs[i * n : (i + 1) * n] for i, width in enumerate(grid.widths)}
        counts = {width: course(mine, "linear_regions", grid.epochs) for width, mine in by_width.items()}
        errors = {width: course(mine, "error_rate", grid.epochs) for width, mine in by_width.items()}
        pictures = tuple(
            over_epochs(mine[0], grid.epochs, f"Figure {figures[1]}: {[width] * DEPTH} on {data}, seed {SEED}")
            for width, mine in by_width.items()
        )
        tables = tuple(
            beside(f"{[width] * DEPTH} on {data}", "epoch", _at(printed[width], one), one)
            for width, one in counts.items()
        )
        charts: tuple[Chart, ...] = (*_curves(printed, counts, errors, f"Figure {figures[0]}: {data}"), *pictures)
        return Outcome(claims=judge(printed, counts), tables=tables, charts=charts, notes=_NOTES)

    return analyse


def _curves(
    printed: Printed, counts: Mapping[int, Course], errors: Mapping[int, Course], title: str
) -> tuple[Lines, Lines]:
    theirs = tuple(
        Series(
            label=f"{[width] * DEPTH}, paper",
            x=one.places,
            y=tuple(map(float, _at(printed[width], one))),
            beside=str([width] * DEPTH),
        )
        for width, one in counts.items()
    )
    ours = tuple(one.series(str([width] * DEPTH)) for width, one in counts.items())
    right = tuple(Course(one.epochs, 1 - one.values).series(str([width] * DEPTH)) for width, one in errors.items())
    return (
        Lines(
            title=title, x_label="epoch", y_label="linear regions", series=(*ours, *theirs), x_scale="symlog",
            y_scale="log",
        ),
        Lines(title=f"{title}, accuracy", x_label="epoch", y_label="training accuracy", series=right, x_scale="symlog"),
    )  # fmt: skip


_NOTES = (
    "The data have seed 5, as the paper's two moons; the seeds are those of the weights and of the order of batches.",
    f"With the initial weights of seed {SEED} the counts at epoch 0 are exact and the paper's, which differ among "
    "themselves by up to 3 for one and the same network (206 and 207, 1151 to 1154, 4112 and 4113). The order of the "
    "paper's batches is not known, so that later epochs can only agree in their course.",
)
_SMOKE = "96 points, widths 16 and 32, 5 epochs, 2 seeds."
_DESK = "Nothing is scaled down; ten seeds in place of one run."

TABLE2 = Study(
    name="qi2023-table2",
    paper="qi2023",
    source="Table 2, Figures 7 and 9",
    claim="On two moons the number of linear regions grows while the network learns, more so in wider networks.",
    experiments=moons,
    analyse=_analysis(paper.MOONS, moons, (7, 9), "two moons"),
    scaled={"smoke": _SMOKE, "desk": _DESK},
)
TABLE3 = Study(
    name="qi2023-table3",
    paper="qi2023",
    source="Table 3, Figures 8 and 10",
    claim="On Gaussian quantiles the number of linear regions doubles within the first ten epochs and then stays.",
    experiments=quantiles,
    analyse=_analysis(paper.QUANTILES, quantiles, (8, 10), "Gaussian quantiles"),
    scaled={"smoke": _SMOKE, "desk": _DESK},
)
