"""Figure 3 (depth), Figure 13 (GELU) and the gap between train and test points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regionscope.lab.config import Experiment
from regionscope.lab.store import RunFolder
from regionscope.studies import verdict
from regionscope.studies.humayun2023.claims import difference, larger, ordered, rise, second_descent, three_phases
from regionscope.studies.humayun2023.curves import (
    Curve,
    accuracy,
    accuracy_chart,
    at_points,
    chart,
    charts,
    curve,
    phases_table,
)
from regionscope.studies.humayun2023.scaled import DENSE
from regionscope.studies.humayun2023.settings import COARSE, FINE, mlp, mlp_grid
from regionscope.studies.study import Claim, Outcome, Size, Study
from regionscope.studies.workspace import Workspace

__all__ = ["FIGURE3", "FIGURE13", "GAP", "gap_claims"]

_CLOSE = 0.05  # share of its largest value within which an accuracy counts as reached


def _by_depth(size: Size) -> dict[str, tuple[Experiment, ...]]:
    return {f"depth {depth}": mlp(size, depth=depth) for depth in mlp_grid(size).depths}


def _gelu(size: Size) -> dict[str, tuple[Experiment, ...]]:
    return {f"depth {depth}": mlp(size, depth=depth, activation="gelu") for depth in mlp_grid(size).gelu_depths}


def _figure3(workspace: Workspace, size: Size) -> Outcome:
    runs = {label: workspace.runs(mine) for label, mine in _by_depth(size).items()}
    fine, coarse = (
        {part: {label: curve(mine, f"{name}.{part}") for label, mine in runs.items()} for part in ("train", "test")}
        for name in ("lc", "coarse")
    )
    train, test = fine["train"], fine["test"]
    falling = list(range(len(runs), 0, -1))
    claims = [three_phases(f"train LC, r = {FINE:g}, {label}", one) for label, one in train.items()]
    claims += [three_phases(f"train LC, r = {COARSE:g}, {label}", one) for label, one in coarse["train"].items()]
    claims += [
        larger(f"ascent, {label}", "sharp at train points, not at test points",
               ("train", *rise(train[label])), ("test", *rise(test[label])))
        for label in runs
    ]  # fmt: skip
    claims += [
        ordered(f"train minus test LC at the peak, r = {radius:g}", "less with depth", falling,
                {label: difference(a, b[label], a.shape.peak) for label, a in one.items()})
        for radius, one, b in ((FINE, train, test), (COARSE, coarse["train"], coarse["test"]))
    ]  # fmt: skip
    claims += [_early(label, mine, train[label]) for label, mine in runs.items()]
    shallow = next(iter(runs))
    claims += [
        larger(f"second descent as a share of the peak, {shallow}", "there at the coarse radius, not at the fine one",
               (f"r = {COARSE:g}", *second_descent(coarse["train"][shallow])),
               (f"r = {FINE:g}", *second_descent(train[shallow])))
    ]  # fmt: skip
    return Outcome(
        claims=tuple(claims),
        tables=(
            phases_table(f"LC at train points, r = {FINE:g}", train),
            phases_table(f"LC at train points, r = {COARSE:g}", coarse["train"]),
        ),
        charts=(
            chart(f"Figure 3: LC at train (solid) and test points, r = {FINE:g}", train, test),
            chart(f"Figure 3: LC at train (solid) and test points, r = {COARSE:g}", coarse["train"],
                  coarse["test"]),
            chart(f"LC at random points, r = {FINE:g}", at_points(runs, "random")),
            accuracy_chart(runs),
        ),
    )  # fmt: skip


def _early(label: str, runs: Sequence[RunFolder], train: Curve) -> Claim:
    """Accuracy peaks during the first descent."""
    known = accuracy(runs, "test")
    there, best = known.means[known.at(train.steps[train.shape.valley])], max(known.means)
    return Claim(
        f"test accuracy where the first descent ends, {label}",
        "at its peak",
        f"{there:.3f} of at most {best:.3f}",
        verdict.agrees(1.0, there / best, within=_CLOSE),
    )


def _figure13(workspace: Workspace, size: Size) -> Outcome:
    runs = {label: workspace.runs(mine) for label, mine in _gelu(size).items()}
    train = at_points(runs, "train")
    return Outcome(
        claims=tuple(three_phases(f"train LC, {label}", one) for label, one in train.items()),
        tables=(phases_table("LC at train points", train),),
        charts=charts("Figure 13: GELU", runs),
        notes=("The fold of a GELU unit is where its pre-activation is zero.",),
    )


def gap_claims(gap: Curve, auc: Curve, train: Curve) -> tuple[Claim, ...]:
    """The gap at the peak and at the end, and how well LC tells train points from test points at the peak."""
    shape = train.shape
    places = {"at the peak": gap.at(train.steps[shape.peak]), "at the end of training": len(gap.steps) - 1}
    claims = [
        larger(f"train minus test LC {when}", "clear", ("gap", gap.means[i], gap.errors[i]), ("none", 0.0, 0.0))
        for when, i in places.items()
    ]
    i = places["at the peak"]
    return (
        *claims,
        larger("LC as a score of membership at the peak", "train and test points can be told apart",
               ("AUC", auc.means[i], auc.errors[i]), ("chance", 0.5, 0.0)),
    )  # fmt: skip


def _gap(workspace: Workspace, size: Size) -> Outcome:
    runs = workspace.runs(mlp(size, depth=4))
    gap, auc, train = curve(runs, "gap"), curve(runs, "gap.auc"), curve(runs, "lc.train")
    curves: Mapping[str, Curve] = {part: curve(runs, f"lc.{part}") for part in ("train", "test", "random")}
    return Outcome(
        claims=gap_claims(gap, auc, train),
        tables=(phases_table("LC by where it is measured", curves),),
        charts=(
            chart("LC at train, test and random points", curves),
            chart("LC at train points minus LC at test points", {"": gap}, y="gap"),
            chart("How well LC tells train points from test points", {"": auc}, y="area under the ROC curve"),
        ),
    )


FIGURE3 = Study(
    name="humayun2023-figure3",
    paper="humayun2023",
    source="Figure 3, section 4.2",
    claim="Local complexity at training points falls, rises and falls again; the deeper the network, the smaller the "
    "ascent and the difference between train and test points.",
    experiments=lambda size: tuple(one for mine in _by_depth(size).values() for one in mine),
    analyse=_figure3,
    scaled=DENSE,
)
FIGURE13 = Study(
    name="humayun2023-figure13",
    paper="humayun2023",
    source="Figure 13",
    claim="Networks with GELU show the double descent, too.",
    experiments=lambda size: tuple(one for mine in _gelu(size).values() for one in mine),
    analyse=_figure13,
    scaled=DENSE,
)
GAP = Study(
    name="humayun2023-gap",
    paper="humayun2023",
    source="Section 4.2, train and test points",
    claim="During the ascent and the second descent local complexity at train points is clearly above that at test "
    "points, which makes membership inference possible.",
    experiments=lambda size: mlp(size, depth=4),
    analyse=_gap,
    scaled=DENSE,
)
