"""Table 1, Figures 4 and 5: random labels, from 200 to 10,000 points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regionscope.formatting import counted
from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Lines, Picture, Pictures, Series
from regionscope_lab.papers.papers import read_study
from regionscope_lab.papers.qi2023 import paper
from regionscope_lab.papers.qi2023.compare import beside, course_claim, larger, listed, ratio_of, within_seeds
from regionscope_lab.papers.qi2023.pictures import model_at_epoch, regions_of
from regionscope_lab.papers.qi2023.read import Course, course, curves
from regionscope_lab.papers.qi2023.settings import SEED, random, random_grid
from regionscope_lab.papers.study import Claim, Outcome, Size, Table
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.store import RunFolder

_COLLAPSE = (30, 100)  # epochs at which the paper's counts of 10,000 points have fallen: 353 and 79 of 1152


def judge(counts: Mapping[int, Course], errors: Mapping[int, Course]) -> tuple[Claim, ...]:
    """Counts by number of points against Table 1, at the epochs that both have; ``errors``: of the training."""
    return (
        _first_epoch(counts),
        *(
            course_claim(f"{n:,} points, epochs {listed(one.epochs)}", paper.random(n, one.epochs), one)
            for n, one in counts.items()
        ),
        _by_points(counts),
        _fall(counts),
        _accuracy(errors),
        within_seeds({str(n): (paper.random(n, one.epochs), one) for n, one in counts.items()}),
    )


def _first_epoch(counts: Mapping[int, Course]) -> Claim:
    printed = [paper.random(n, one.epochs)[0] for n, one in counts.items()]
    ours = next(iter(counts.values())).first_seed[0]
    return Claim(
        f"epoch 0, seed {SEED}",
        f"{min(printed)} to {max(printed)}",
        f"{ours:.0f}",
        verdict.agrees(min(printed), ours, within=0.01),
    )


def _printed_last(counts: Mapping[int, Course]) -> list[int]:
    """The paper's counts at the last epoch, by number of points."""
    return [paper.random(n, one.epochs)[-1] for n, one in counts.items()]


def _by_points(counts: Mapping[int, Course]) -> Claim:
    """The order of the counts at the last epoch, over the numbers of points."""
    sizes, last, printed = list(counts), next(iter(counts.values())).epochs[-1], _printed_last(counts)
    means, stderr = [one.means[-1] for one in counts.values()], [one.errors[-1] for one in counts.values()]
    deviations = [one.deviations[-1] for one in counts.values()]
    noise = 2 * (sum(value**2 for value in deviations) / len(deviations)) ** 0.5
    return Claim(
        f"epoch {last}, by points {listed(sizes)}",
        listed(printed),
        listed(means),
        verdict.ordering(printed, means, stderr, noise=noise),
        f"sd {listed(deviations)}",
    )


def _fall(counts: Mapping[int, Course]) -> Claim:
    """At the last epoch: the largest count over the numbers of points, and that of the most points."""
    n, most_points = list(counts.items())[-1]
    last, printed = most_points.epochs[-1], _printed_last(counts)
    peak = max(counts.values(), key=lambda one: one.means[-1])
    fall = ratio_of(peak.at(last), most_points.at(last))
    return Claim(
        f"epoch {last}: {n:,} points have fewer regions than the maximum over the numbers of points",
        f"{max(printed):,} > {printed[-1]:,}, a factor of {max(printed) / printed[-1]:.1f}",
        f"{peak.means[-1]:.0f} > {most_points.means[-1]:.0f}, a factor of {fall.value:.1f}",
        verdict.grows(max(printed) / printed[-1], fall.value, fall.interval),
        f"factor {fall.words}",
    )


def _accuracy(errors: Mapping[int, Course]) -> Claim:
    """At the last epoch: the training accuracy with the fewest and with the most points."""
    (few, of_few), *_, (many, of_many) = errors.items()
    last = of_few.epochs[-1]
    harder, difference = larger(of_many.at(last), of_few.at(last))
    return Claim(
        f"epoch {last}: the training accuracy is lower with {many:,} points than with {few:,}",
        "falls (Figure 4)",
        f"{1 - of_many.means[-1]:.2f} < {1 - of_few.means[-1]:.2f}",
        harder,
        difference,
    )


def _analyse(workspace: Workspace, size: Size) -> Outcome:
    grid = random_grid(size)
    runs = workspace.runs(random(size))
    k = len(grid.seeds)
    by_size = {n: runs[i * k : (i + 1) * k] for i, n in enumerate(grid.sizes)}
    counts = {n: course(mine, "linear_regions", grid.epochs) for n, mine in by_size.items()}
    errors = {n: course(mine, "error_rate", grid.epochs) for n, mine in by_size.items()}
    return Outcome(
        claims=judge(counts, errors),
        tables=(
            *(beside(f"{n:,} points", paper.random(n, one.epochs), one) for n, one in counts.items()),
            _right(errors),
        ),
        charts=(*_curves(counts, errors), _pictures([mine[0] for mine in by_size.values()], grid.epochs[-1])),
        notes=_notes(counts),
    )


def _notes(counts: Mapping[int, Course]) -> tuple[str, ...]:
    many, ours = list(counts.items())[-1]
    theirs = dict(zip(ours.epochs, paper.random(many, ours.epochs), strict=True))
    early = [epoch for epoch in _COLLAPSE if epoch in theirs]
    collapse = (
        f"The fewer epochs do not explain the difference: the paper's collapse lies inside them. With {many:,} points "
        "it has "
        + ", ".join(f"{theirs[epoch]} regions at epoch {epoch}" for epoch in early)
        + "; here there are "
        + ", ".join(f"{ours.at(epoch).mean():.0f} at epoch {epoch}" for epoch in early)
        + " on average over seeds."
    )
    return (
        "The paper's random points and its seeds are not known; here each seed has its own points, labels, weights and "
        f"order of batches. The weights of seed {SEED} were chosen because their exact count before training is the "
        "paper's.",
        *((collapse,) if early else ()),
        "The paper's counts are taken as those of one run. Two of them are compared only where they differ by more "
        "than twice the standard deviation of one of our runs: over epochs, about the mean course (paired over seeds, "
        "as the same seeds are at every epoch), over numbers of points, about their mean. Intervals are Student's 95% "
        f"intervals of the mean over {len(ours.values)} seeds.",
        "sd: standard deviation over seeds, in the tables; more than three curves are drawn without it.",
    )


def _right(errors: Mapping[int, Course]) -> Table:
    """Accuracy with its standard deviation, which the chart leaves out."""
    epochs = next(iter(errors.values())).epochs
    rows = tuple(
        (f"{n:,}", *(f"{1 - mean:.3f} (sd {sd:.3f})" for mean, sd in zip(one.means, one.deviations, strict=True)))
        for n, one in errors.items()
    )
    return Table("Training accuracy, mean over seeds", ("points", *(f"epoch {epoch}" for epoch in epochs)), rows)


def _curves(counts: Mapping[int, Course], errors: Mapping[int, Course]) -> tuple[Lines, ...]:
    theirs = tuple(
        Series(label=f"{n:,} points", x=one.places, y=tuple(map(float, paper.random(n, one.epochs))))
        for n, one in counts.items()
    )
    ours = curves({f"{n:,} points": one for n, one in counts.items()})
    right = curves({f"{n:,} points": Course(one.epochs, 1 - one.values) for n, one in errors.items()})
    seeds = len(next(iter(counts.values())).values)
    regions = tuple(
        Lines(
            title=f"Figure 4: {title}", x_label="epoch", y_label="linear regions", series=series, x_scale="symlog",
            y_scale="log",
        )
        for title, series in ((f"ours, mean of {seeds} seeds", ours), ("the paper's Table 1", theirs))
    )  # fmt: skip
    title = f"Figure 4: accuracy, ours, mean of {seeds} seeds"
    return (*regions, Lines(title=title, x_label="epoch", y_label="training accuracy", series=right, x_scale="symlog"))


def _pictures(runs: Sequence[RunFolder], epoch: int) -> Pictures:
    """Figure 5: the points, the linear regions and the decision regions, a column for each number of points."""
    data = [run.split().train for run in runs]
    regions = [regions_of(model_at_epoch(run, epoch)) for run in runs]
    return Pictures(
        title=f"Figure 5: epoch {epoch}, seed {SEED}",
        columns=len(runs),
        inches=1.9,
        pictures=(
            *(Picture(f"{len(one.inputs):,} points", None, points=one.inputs, labels=one.labels) for one in data),
            *(Picture(counted(one.n_linear_regions, "linear region"), one) for one, _ in regions),
            *(Picture(counted(one.count, "decision region"), one, "decision") for _, one in regions),
        ),
    )


TABLE1 = read_study("qi2023-table1", experiments=random, analyse=_analyse)
