"""Figures 4 and 5 (batch normalisation) and 7 (weight decay): what regularisation does to the phases."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from regionscope_lab.config import Experiment
from regionscope_lab.papers.humayun2023.claims import (
    WithError,
    duration,
    larger,
    ordered,
    peak,
    rise,
    second_descent,
    three_phases,
)
from regionscope_lab.papers.humayun2023.curves import (
    Curve,
    accuracy_chart,
    at_points,
    by_part,
    chart,
    charts,
    fit_note,
    phases_table,
)
from regionscope_lab.papers.humayun2023.settings import cnn, cnn_grid, resnet
from regionscope_lab.papers.papers import grid_study
from regionscope_lab.papers.study import Claim, Outcome, Size, Table
from regionscope_lab.store import RunFolder

_WITH, _WITHOUT = "with BN", "without BN"
RunsByLabel = Mapping[str, tuple[Experiment, ...]]
_Runs = Mapping[str, list[RunFolder]]


def _cnns(size: Size) -> RunsByLabel:
    return {
        f"depth {depth}, {_WITH if bn else _WITHOUT}": cnn(size, depth=depth, bn=bn)
        for depth in cnn_grid(size).depths
        for bn in (False, True)
    }


def _resnets(size: Size) -> RunsByLabel:
    return {_WITH if bn else _WITHOUT: resnet(size, bn=bn) for bn in (False, True)}


def _decays(size: Size) -> RunsByLabel:
    grid = cnn_grid(size)
    return {f"decay {decay:g}": cnn(size, depth=grid.decayed_depth, bn=False, decay=decay) for decay in grid.decays}


def normalisation_claims(what: str, plain: Mapping[str, Curve], normed: Mapping[str, Curve]) -> list[Claim]:
    """Of one network with and without batch normalisation; curves by where LC is measured."""
    level = {part: (_level(normed[part]), _level(plain[part])) for part in plain}
    claims = [three_phases(f"{what}, {_WITHOUT}, train LC", plain["train"])]
    claims += [
        larger(f"{what}, LC at {part} points, mean over the measurements", "more with BN",
               (_WITH, high), (_WITHOUT, low))
        for part, (high, low) in level.items()
    ]  # fmt: skip
    claims.append(
        larger(f"{what}, second descent of train LC as a share of its peak", "BN removes or reduces it",
               (_WITHOUT, second_descent(plain["train"])), (_WITH, second_descent(normed["train"])))
    )  # fmt: skip
    return claims


def _level(curve: Curve) -> tuple[float, float]:
    """Mean over the measurements, which share their points, so that their errors do not average out."""
    return float(np.mean(curve.means)), float(np.mean(curve.pooled))


def _figure4(runs: _Runs, size: Size) -> Outcome:
    curves = {label: by_part(mine) for label, mine in runs.items()}
    depths = cnn_grid(size).depths
    claims = [
        claim
        for depth in depths
        for claim in normalisation_claims(
            f"depth {depth}", curves[f"depth {depth}, {_WITHOUT}"], curves[f"depth {depth}, {_WITH}"]
        )
    ]
    tops = {f"depth {depth}": peak(curves[f"depth {depth}, {_WITHOUT}"]["train"]) for depth in depths}
    claims.append(ordered(f"largest train LC of the ascent, {_WITHOUT}", "more with depth", list(depths), tops))
    claims += [_alike(label, curve) for label, curve in curves.items()]
    return Outcome(
        claims=tuple(claims), tables=(_table(curves),), charts=charts("Figure 4: CNN", runs), notes=(fit_note(runs),)
    )


def _alike(label: str, by_part: Mapping[str, Curve]) -> Claim:
    """Train and test LC can hardly be told apart: their difference is smaller than that to random points."""
    gap, apart = (_distance(by_part["train"], by_part[part]) for part in ("test", "random"))
    return larger(
        f"{label}: distance of train LC to random and to test LC, mean over the measurements",
        "train and test are almost the same throughout training",
        ("random", apart),
        ("test", gap),
    )


def _distance(curve: Curve, other: Curve) -> WithError:
    """Mean over the measurements, whose errors do not average out."""
    gaps = np.abs(np.subtract(curve.means, other.means))
    return float(gaps.mean()), float(np.hypot(curve.pooled, other.pooled).mean())


def _figure5(runs: _Runs, size: Size) -> Outcome:
    curves = {label: by_part(mine) for label, mine in runs.items()}
    claims = normalisation_claims("ResNet18", curves[_WITHOUT], curves[_WITH])
    return Outcome(claims=tuple(claims), tables=(_table(curves),), charts=charts("Figure 5: ResNet18", runs))


def _figure7(runs: _Runs, size: Size) -> Outcome:
    train = at_points(runs, "train")
    falling = list(range(len(runs), 0, -1))
    weak, *_, strong = train
    claims = (
        three_phases(f"train LC, {weak}", train[weak]),
        ordered("second descent of train LC as a share of its peak", "less with weight decay", falling,
                {label: second_descent(curve) for label, curve in train.items()}),
        larger("largest train LC of the ascent", "strong weight decay reduces it",
               (weak, peak(train[weak])), (strong, peak(train[strong]))),
        larger("largest rise of train LC", "strong weight decay reduces it",
               (weak, rise(train[weak])), (strong, rise(train[strong]))),
        larger("duration of the ascent, in powers of ten of steps", "strong weight decay shortens it",
               (weak, duration(train[weak])), (strong, duration(train[strong]))),
    )  # fmt: skip
    return Outcome(
        claims=claims,
        tables=(phases_table("LC at train points", train),),
        charts=(
            chart("Figure 7: weight decay, LC at train points", train),
            chart("Figure 7: weight decay, LC at random points", at_points(runs, "random")),
            accuracy_chart(runs),
        ),
        notes=(
            "The paper does not say which values of weight decay it takes; these are factors of ten of its 0.01.",
            fit_note(runs),
        ),
    )


def _table(curves: Mapping[str, Mapping[str, Curve]]) -> Table:
    return phases_table("LC at train points", {label: curve["train"] for label, curve in curves.items()})


FIGURE4 = grid_study("humayun2023-figure4", _cnns, _figure4)
FIGURE5 = grid_study("humayun2023-figure5", _resnets, _figure5)
FIGURE7 = grid_study("humayun2023-figure7", _decays, _figure7)
