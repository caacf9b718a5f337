"""Figures 8 and 9: local complexity while a network groks."""

from __future__ import annotations

import math
from collections.abc import Mapping

from regionscope_lab.config import Experiment
from regionscope_lab.papers import verdict
from regionscope_lab.papers.humayun2023.claims import NO_ASCENT, WithError, larger, ordered, peak
from regionscope_lab.papers.humayun2023.curves import Curve, accuracy, at_points, charts, phases_table
from regionscope_lab.papers.humayun2023.settings import mlp, mlp_grid
from regionscope_lab.papers.papers import grid_study
from regionscope_lab.papers.study import Claim, Outcome, Size
from regionscope_lab.store import RunFolder

WEIGHT_SCALE = 8.0  # of the initial weights
_REACHED_SHARE = 0.9  # share of its final value from which an accuracy counts as reached
_GENERALISES_FROM = 0.5  # test accuracy from which a network generalises


def _grid(size: Size) -> dict[str, tuple[Experiment, ...]]:
    return {f"depth {depth}": mlp(size, depth=depth, scale=WEIGHT_SCALE) for depth in mlp_grid(size).grokking_depths}


def reached(known: Curve) -> int:
    """The first step at which an accuracy has 90% of its largest value."""
    level = _REACHED_SHARE * max(known.means)
    return next(step for step, value in zip(known.steps, known.means, strict=True) if value >= level)


def delay(label: str, train: Curve, test: Curve) -> Claim:
    """Grokking itself: test accuracy comes after more than twice the steps that train accuracy takes."""
    memorised, generalised = reached(train), reached(test)
    came = max(test.means) >= _GENERALISES_FROM
    best = f"largest test accuracy {max(test.means):.2f}"
    return Claim(
        f"{label}: steps to 90% of the largest test accuracy over those to that of train accuracy",
        "many times more",
        f"{generalised:,} / {memorised:,} ({best})"
        if came
        else f"test accuracy stays below {_GENERALISES_FROM:g} ({best})",
        verdict.differs(generalised / max(1, memorised) if came else 0.0, 2.0, 0.0),
    )


def of_depth(label: str, train: Curve, known: Curve, new: Curve) -> list[Claim]:
    """Claims about one network, from its train LC and its accuracy on the train and the test part."""
    shape = train.shape
    ascent, second = shape.ascent, shape.second_descent
    fall = None if ascent is None else (0.0, 0.0) if second is None else (second.amount, second.error)
    return [
        delay(label, known, new),
        larger(f"{label}: ascent of train LC", "from early training on",
               ("ascent", None if ascent is None else (ascent.amount, ascent.error)), ("none", (0.0, 0.0))),
        _memorisation(label, train, known),
        larger(f"{label}: second descent of train LC", "there", ("fall", fall), ("none", (0.0, 0.0))),
        larger(f"{label}: test accuracy gained after the peak of train LC", "generalisation in the second descent",
               ("gain", _gained(train, new)), ("none", (0.0, 0.0))),
        Claim(f"{label}: peaks of train LC beyond the noise", "2", str(shape.peaks), verdict.counted(2, shape.peaks)),
    ]  # fmt: skip


def _memorisation(label: str, train: Curve, known: Curve) -> Claim:
    step, ascent = reached(known), train.shape.ascent
    during = ascent is not None and ascent.first <= train.at(step) <= ascent.last
    return Claim(
        f"{label}: memorisation (step {step:,})",
        "during the ascent",
        NO_ASCENT
        if ascent is None
        else f"ascent from step {train.steps[ascent.first]:,} to {train.steps[ascent.last]:,}",
        verdict.holds(0 if during else 1, 1),
    )


def _gained(train: Curve, new: Curve) -> WithError | None:
    if train.shape.peak is None:
        return None
    i = new.at(train.steps[train.shape.peak])
    return new.means[-1] - new.means[i], math.hypot(new.errors[-1], new.errors[i])


def _figure8(runs: Mapping[str, list[RunFolder]], size: Size) -> Outcome:
    train = at_points(runs, "train")
    claims = [
        claim
        for label, mine in runs.items()
        for claim in of_depth(label, train[label], accuracy(mine, "train"), accuracy(mine, "test"))
    ]
    depths = list(mlp_grid(size).grokking_depths)
    tops = {label: peak(curve) for label, curve in train.items()}
    claims.append(ordered("largest train LC of the ascent", "more with depth", depths, tops))
    return Outcome(
        claims=tuple(claims),
        tables=(phases_table("LC at train points", train),),
        charts=charts("Figures 8 and 9: grokking", runs),
    )


FIGURE8 = grid_study("humayun2023-figure8", _grid, _figure8)
