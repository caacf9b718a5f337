"""Figure 3 (depth), Figure 13 (GELU) and the gap between train and test points."""

from __future__ import annotations

from collections.abc import Mapping

from regionscope_lab.config import Experiment
from regionscope_lab.papers import verdict
from regionscope_lab.papers.humayun2023.claims import (
    NO_ASCENT,
    WithError,
    distance,
    larger,
    ordered,
    rise,
    second_descent,
    steepness,
    three_phases,
)
from regionscope_lab.papers.humayun2023.curves import (
    Curve,
    accuracy,
    accuracy_chart,
    at_points,
    by_part,
    chart,
    charts,
    phases_table,
    read_curve,
)
from regionscope_lab.papers.humayun2023.settings import COARSE, FINE, mlp, mlp_grid
from regionscope_lab.papers.papers import grid_study, read_study
from regionscope_lab.papers.study import Claim, Outcome, Size
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.store import RunFolder

CurvesByLabel = Mapping[str, Curve]

_REACHED_WITHIN = 0.02  # share of its largest value within which an accuracy counts as reached
SHARPNESS = (  # the paper does not define the sharpness of an ascent
    ("largest rise", "less sharp with depth; sharpness read as height", rise),
    ("largest rise for each power of ten of steps", "less sharp with depth; sharpness read as steepness", steepness),
)
_UNINFORMATIVE_AUC = 0.1  # an area under the ROC curve this near to 0.5 says nothing about membership


def _by_depth(size: Size) -> dict[str, tuple[Experiment, ...]]:
    return {f"depth {depth}": mlp(size, depth=depth) for depth in mlp_grid(size).depths}


def _gelu(size: Size) -> dict[str, tuple[Experiment, ...]]:
    return {f"depth {depth}": mlp(size, depth=depth, activation="gelu") for depth in mlp_grid(size).gelu_depths}


def _figure3(runs: Mapping[str, list[RunFolder]], size: Size) -> Outcome:
    fine, coarse = (
        {
            part: {label: read_curve(mine, f"{name}.{part}") for label, mine in runs.items()}
            for part in ("train", "test", "random")
        }
        for name in ("lc", "coarse")
    )
    train, test = fine["train"], fine["test"]
    more = {label: {part: accuracy(mine, part) for part in ("train", "test")} for label, mine in runs.items()}
    claims = depth_claims(fine, coarse)
    claims += [claim for label, known in more.items() for claim in early(label, known, train[label])]
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
            chart(f"LC at random points, r = {FINE:g}", fine["random"]),
            accuracy_chart(runs),
        ),
    )  # fmt: skip


def depth_claims(fine: Mapping[str, CurvesByLabel], coarse: Mapping[str, CurvesByLabel]) -> list[Claim]:
    """Of LC at both radii, by where it is measured and by depth, the shallowest first."""
    train, labels = fine["train"], list(fine["train"])
    shallow, *deeper = labels
    falling = list(range(len(labels), 0, -1))
    both = ((FINE, fine), (COARSE, coarse))
    claims = [three_phases(f"train LC, r = {FINE:g}, {label}", train[label]) for label in deeper]
    claims += [three_phases(f"train LC, r = {COARSE:g}, {label}", curve) for label, curve in coarse["train"].items()]
    claims += [
        ordered(f"{what} of train LC, r = {radius:g}", paper, falling,
                {label: reading(curve) for label, curve in found["train"].items()})
        for radius, found in both
        for what, paper, reading in SHARPNESS
    ]  # fmt: skip
    claims += [
        larger(f"largest rise, {label}", f"sharp at train points, not at {part} points",
               ("train", rise(train[label])), (part, rise(fine[part][label])))
        for part in ("test", "random")
        for label in labels
    ]  # fmt: skip
    claims += [
        ordered(f"|train - test| LC at the peak, r = {radius:g}", "less with depth", falling,
                {label: distance(curve, found["test"][label], curve.shape.peak)
                 for label, curve in found["train"].items()})
        for radius, found in both
    ]  # fmt: skip
    claims.append(
        larger(f"second descent as a share of the peak, {shallow}", "there at the coarse radius, not at the fine one",
               (f"r = {COARSE:g}", second_descent(coarse["train"][shallow])),
               (f"r = {FINE:g}", second_descent(train[shallow])))
    )  # fmt: skip
    return claims


def early(label: str, known: CurvesByLabel, train: Curve) -> list[Claim]:
    """Accuracy on both parts peaks during the first descent of train LC."""
    valley = train.shape.valley
    claims = []
    for part, curve in known.items():
        best = max(curve.means)
        there = None if valley is None else curve.means[curve.at(train.steps[valley])]
        judged = verdict.agrees(1.0, 0.0 if there is None else there / best, within=_REACHED_WITHIN)
        said = NO_ASCENT if there is None else f"{there:.3f} of at most {best:.3f}"
        claims.append(Claim(f"{part} accuracy where the first descent ends, {label}", "at its peak", said, judged))
    return claims


def _figure13(runs: Mapping[str, list[RunFolder]], size: Size) -> Outcome:
    train = at_points(runs, "train")
    return Outcome(
        claims=tuple(three_phases(f"train LC, {label}", curve) for label, curve in train.items()),
        tables=(phases_table("LC at train points", train),),
        charts=charts("Figure 13: GELU", runs),
        notes=("The fold of a GELU unit is where its pre-activation is zero.",),
    )


def gap_claims(gap: Curve, auc: Curve, train: Curve) -> tuple[Claim, ...]:
    """Train minus test LC and how well LC tells them apart, at the peak and at the end, whatever the sign."""
    peak = train.shape.peak
    places = {
        "at the peak": None if peak is None else gap.at(train.steps[peak]),
        "at the end of training": len(gap.steps) - 1,
    }
    differing = [
        larger(f"|train - test| LC {when}", "clear", (_side(gap, i), _from(gap, i, 0.0)), ("none", (0.0, 0.0)))
        for when, i in places.items()
    ]  # fmt: skip
    telling = [
        larger(f"LC as a score of membership {when}, |AUC - 0.5|", "train and test points can be told apart",
               ("AUC" if i is None else f"AUC {auc.means[i]:.3f}", _from(auc, i, 0.5)), ("chance", (0.0, 0.0)))
        for when, i in places.items()
    ]  # fmt: skip
    return (*differing, *telling)


def _from(curve: Curve, place: int | None, level: float) -> WithError | None:
    return None if place is None else (abs(curve.means[place] - level), curve.pooled[place])


def _side(gap: Curve, place: int | None) -> str:
    return "gap" if place is None else f"train {'above' if gap.means[place] > 0 else 'below'} test"


def use_note(auc: Curve, train: Curve) -> tuple[str, ...]:
    """Says so where the scores at the peak and at the end are of no practical use."""
    places = [i for i in (train.shape.peak, len(train.steps) - 1) if i is not None]
    known = [auc.means[auc.at(train.steps[i])] for i in places]
    if max(abs(value - 0.5) for value in known) >= _UNINFORMATIVE_AUC:
        return ()
    said = " and ".join(f"{value:.3f}" for value in known)
    return (f"An area under the ROC curve of {said} is too close to 0.5 to infer membership.",)


def _gap(workspace: Workspace, size: Size) -> Outcome:
    runs = workspace.runs(mlp(size, depth=4))
    gap, auc, curves = read_curve(runs, "gap"), read_curve(runs, "gap.auc"), by_part(runs)
    train = curves["train"]
    return Outcome(
        claims=gap_claims(gap, auc, train),
        tables=(phases_table("LC by where it is measured", curves),),
        charts=(
            chart("LC at train, test and random points", curves),
            chart("LC at train points minus LC at test points", {"": gap}, y="gap"),
            chart("How well LC tells train points from test points", {"": auc}, y="area under the ROC curve"),
        ),
        notes=("The paper does not say which of train and test LC is the larger one.", *use_note(auc, train)),
    )


FIGURE3 = grid_study("humayun2023-figure3", _by_depth, _figure3)
FIGURE13 = grid_study("humayun2023-figure13", _gelu, _figure13)
GAP = read_study("humayun2023-gap", experiments=lambda size: mlp(size, depth=4), analyse=_gap)
