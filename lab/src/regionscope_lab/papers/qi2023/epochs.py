"""Tables 2 and 3, Figures 7 to 10: linear regions over training on two moons and on Gaussian quantiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from regionscope_lab.config import Experiment
from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Chart, Lines, Series
from regionscope_lab.papers.papers import read_study
from regionscope_lab.papers.qi2023 import paper
from regionscope_lab.papers.qi2023.compare import (
    beside,
    course_claim,
    growth_claim,
    listed,
    ratio_claim,
    ratio_of,
    within_seeds,
)
from regionscope_lab.papers.qi2023.pictures import over_epochs
from regionscope_lab.papers.qi2023.read import Course, course, curves
from regionscope_lab.papers.qi2023.settings import DEPTH, DISCLOSED, SEED, moons, quantiles, toy_grid
from regionscope_lab.papers.study import Claim, Outcome, Size
from regionscope_lab.papers.workspace import Workspace

Printed = Mapping[int, Sequence[int]]
_SETTLED = 10  # the epoch from which on the counts of Table 3 stay


def judge(printed: Printed, counts: Mapping[int, Course], *, settles: bool = False) -> tuple[Claim, ...]:
    """Counts by width against a table of the paper, at the epochs that both have.

    settles: whether the counts grow up to epoch 10 and stay from there on; each part is judged by itself.
    """
    claims = [
        claim for width, one in counts.items() for claim in _of_network(width, _at(printed[width], one), one, settles)
    ]
    last = [_at(printed[width], one)[-1] for width, one in counts.items()]
    means = [one.means[-1] for one in counts.values()]
    errors = [one.errors[-1] for one in counts.values()]
    return (
        *claims,
        Claim(
            "wider networks have more regions, last epoch",
            listed(last),
            listed(means),
            verdict.ordering(last, means, errors),  # the paper's steps are far larger than what a run does by chance
            f"sd {listed([one.deviations[-1] for one in counts.values()])}",
        ),
        within_seeds({str([w] * DEPTH): (_at(printed[w], one), one) for w, one in counts.items()}),
    )


def _of_network(width: int, printed: Sequence[int], ours: Course, settles: bool) -> list[Claim]:
    network = str([width] * DEPTH)
    first, last = ours.epochs[0], ours.epochs[-1]
    claims = [
        Claim(
            f"{network}, epoch 0, seed {SEED}",
            f"{printed[0]:,}",
            f"{ours.first_seed[0]:,.0f}",
            verdict.agrees(printed[0], ours.first_seed[0], within=0.01),
        ),
        course_claim(f"{network}, epochs {', '.join(map(str, ours.epochs))}", printed, ours),
        _growth(network, printed, ours, first, last),
    ]
    if settles and first < _SETTLED < last and _SETTLED in ours.epochs:
        ratio = ratio_of(ours.at(last), ours.at(_SETTLED))
        theirs = printed[-1] / printed[ours.epochs.index(_SETTLED)]
        what = f"{network}, epoch {last} / epoch {_SETTLED}: stays"
        claims += [
            _growth(network, printed, ours, first, _SETTLED),
            ratio_claim(what, theirs, ratio, verdict.stays(ratio.interval)),
        ]
    return claims


def _growth(network: str, printed: Sequence[int], ours: Course, early: int, late: int) -> Claim:
    """From one epoch to another."""
    theirs = printed[ours.epochs.index(late)] / printed[ours.epochs.index(early)]
    return growth_claim(f"{network}, epoch {late} / epoch {early}", theirs, ratio_of(ours.at(late), ours.at(early)))


def _at(printed: Sequence[int], ours: Course) -> list[int]:
    return [printed[paper.EPOCHS.index(epoch)] for epoch in ours.epochs]


def _analysis(
    printed: Printed,
    experiments: Callable[[Size], tuple[Experiment, ...]],
    figures: tuple[int, int],
    data: str,
    read_off: str,
    *,
    settles: bool = False,
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
            beside(f"{[width] * DEPTH} on {data}", _at(printed[width], one), one) for width, one in counts.items()
        )
        charts: tuple[Chart, ...] = (*_curves(printed, counts, errors, f"Figure {figures[0]}: {data}"), *pictures)
        claims = judge(printed, counts, settles=settles)
        return Outcome(claims=claims, tables=tables, charts=charts, notes=(read_off, *_NOTES))

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
    ours = curves({str([width] * DEPTH): one for width, one in counts.items()})
    right = curves({str([width] * DEPTH): Course(one.epochs, 1 - one.values) for width, one in errors.items()})
    return (
        Lines(
            title=title, x_label="epoch", y_label="linear regions", series=(*ours, *theirs), x_scale="symlog",
            y_scale="log",
        ),
        Lines(title=f"{title}, accuracy", x_label="epoch", y_label="training accuracy", series=right, x_scale="symlog"),
    )  # fmt: skip


_NOTES = (
    DISCLOSED,
    "In the tables of the paper the counts of one and the same network at epoch 0 differ by up to 3 (206 and 207, 1151 "
    "to 1154, 4112 and 4113); ours are exact. The order of the paper's batches is not known, so that later epochs can "
    "only agree in their course.",
    "The paper's counts are taken as those of one run. Two of them are compared only where they differ by more than "
    "twice the standard deviation of one of our runs about the mean course (the number in the rule of each row); our "
    "standard errors are paired over seeds, since the same seeds are at every epoch. Ratios are geometric means of "
    "each seed's own ratio, with Student's 95% interval of that mean.",
    "sd: standard deviation over seeds; the bands of the charts show it as well.",
)
_READ_OFF = (
    "The claim is read off {table}: the text of the paper does not say it. It says that the linear regions 'are "
    "continuously optimized until they effectively capture the distribution of the data' (Section 4.3). {own}"
)

TABLE2 = read_study(
    "qi2023-table2",
    experiments=moons,
    analyse=_analysis(
        paper.MOONS,
        moons,
        (7, 9),
        "two moons",
        _READ_OFF.format(
            table="Table 2",
            own="The growth is not larger in wider networks: the paper's last counts are 2.27, 1.50 and 1.72 times its "
            "first, from the narrowest network to the widest.",
        ),
    ),
)
TABLE3 = read_study(
    "qi2023-table3",
    experiments=quantiles,
    analyse=_analysis(
        paper.QUANTILES,
        quantiles,
        (8, 10),
        "Gaussian quantiles",
        _READ_OFF.format(
            table="Table 3",
            own="There epoch 10 has 2.00, 1.77 and 2.14 times the count of epoch 0, and epoch 100 has 1.05, 1.22 and "
            "0.97 times that of epoch 10, from the narrowest network to the widest.",
        ),
        settles=True,
    ),
)
