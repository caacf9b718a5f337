"""Modular addition: does local complexity of a transformer fall when it groks?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regionscope.measures.statistics import mean
from regionscope_lab.config import Experiment
from regionscope_lab.papers import verdict
from regionscope_lab.papers.papers import grid_study
from regionscope_lab.papers.study import Claim, Outcome, Size, Table, positive_over_seeds
from regionscope_lab.papers.transformers.curves import Curve, accuracy, accuracy_chart, chart, read_curve
from regionscope_lab.papers.transformers.settings import FINE, RADIUS, sums
from regionscope_lab.store import RunFolder

MEMORISED, UNSOLVED, SOLVED = 0.99, 0.5, 0.95  # accuracies: train at least, test at most, test at least
_LAST = "position.2"  # MLP units at "=": with one layer, those at a and b cannot change the output
_MAIN = "weight decay 1"
_CONTROLS = {"weight decay 0": "without weight decay", "random labels": "with random labels"}
_Runs = Mapping[str, Sequence[RunFolder]]


@dataclass(frozen=True)
class Phases:
    """Looks of one run: from ``memorised`` to ``before`` it knows its training data only, from ``solved`` on all."""

    memorised: int
    before: int
    solved: int

    def means(self, values: NDArray[np.float64]) -> tuple[float, float]:
        """The means over the looks before and after."""
        return float(values[self.memorised : self.before + 1].mean()), float(values[self.solved :].mean())

    def fall(self, values: NDArray[np.float64]) -> float:
        """By which share the mean after is smaller than the mean before; NaN where that is 0."""
        before, after = self.means(values)
        return 1 - after / before if before > 0 else math.nan


def phases(train: Sequence[float], test: Sequence[float]) -> Phases | None:
    """The phases of a run by its accuracies at each look; None where it does not grok.

    It groks if test accuracy reaches 95%, and train accuracy reached 99% while test accuracy was at 50% or less.

    >>> phases([0.1, 1.0, 1.0, 1.0, 1.0], [0.0, 0.1, 0.2, 0.7, 1.0])
    Phases(memorised=1, before=2, solved=4)
    """
    memorised = next((i for i, value in enumerate(train) if value >= MEMORISED), None)
    solved = next((i for i, value in enumerate(test) if value >= SOLVED), None)
    if memorised is None or solved is None:
        return None
    low = [i for i in range(memorised, solved) if test[i] <= UNSOLVED]
    return Phases(memorised, low[-1], solved) if low else None


def _grid(size: Size) -> dict[str, tuple[Experiment, ...]]:
    kinds = {_MAIN: sums(size), "weight decay 0": sums(size, decay=0.0)}
    return {**kinds, "random labels": sums(size, random_labels=True)}


def _outcome(runs: _Runs, size: Size) -> Outcome:
    known, new = (accuracy(runs[_MAIN], part) for part in ("train", "test"))
    found = [phases(*pair) for pair in zip(known.values.tolist(), new.values.tolist(), strict=True)]
    train, test = (
        {label: read_curve(mine, f"lc.{part}.{_LAST}") for label, mine in runs.items()} for part in ("train", "test")
    )
    return Outcome(
        summary=_summary(train, found),
        claims=claims_of(found, new, train, test[_MAIN], read_curve(runs[_MAIN], f"fine.train.{_LAST}")),
        tables=(_table(train, found), _ends(runs)),
        charts=(
            accuracy_chart(runs),
            chart('LC of the MLP at "=", at train (solid) and test points', train, test),
            chart("Test accuracy by seed, weight decay 1", _by_seed(new), y="test accuracy"),
            chart("LC at train points by seed, weight decay 1", _by_seed(train[_MAIN])),
            chart(
                "Norm of the weights", {label: read_curve(mine, "norm.l2") for label, mine in runs.items()}, y="l2 norm"
            ),
        ),
        notes=(
            f"LC counts the units of the MLP at the token = whose pre-activation changes its sign within {RADIUS:g} "
            "times the root mean square distance of the embedded sequences from their mean, on 25 shared directions. "
            "The radius is relative, since weight decay shrinks the embeddings.",
            f"Before: measurements from a train accuracy of {MEMORISED:.0%} to the last one with a test accuracy of at "
            f"most {UNSOLVED:.0%}. After: measurements from a test accuracy of {SOLVED:.0%} to the end. A fall is the "
            "share by which the mean after is smaller than the mean before; intervals are over seeds (Student's t). "
            "Controls are read at the same steps as the run with the same seed that groks.",
        ),
    )


def _by_seed(curve: Curve) -> dict[str, Curve]:
    rows = range(len(curve.values))
    return {f"seed {i}": Curve(curve.steps, curve.values[i : i + 1], curve.stderrs[i : i + 1]) for i in rows}


def _summary(train: Mapping[str, Curve], found: Sequence[Phases | None]) -> str:
    """The mean falls; empty where no seed groks."""
    falls = {label: mean([fall for fall in _fall(one, found) if not math.isnan(fall)]) for label, one in train.items()}
    if math.isnan(falls[_MAIN]):
        return ""
    said = " and ".join(f"{100 * falls[label]:+.0f}% {words}" for label, words in _CONTROLS.items())
    return (
        f"Local complexity at train points falls by {falls[_MAIN]:.0%} from before to after grokking, the mean over "
        f"{sum(one is not None for one in found)} of {len(found)} seeds. Over the same steps the fall is {said}."
    )


def claims_of(
    found: Sequence[Phases | None], new: Curve, train: Mapping[str, Curve], test: Curve, fine: Curve
) -> tuple[Claim, ...]:
    """new: test accuracy. train: LC at train points of all kinds of runs; test, fine: that of the runs that grok at
    test points, and at train points with the smaller radius."""
    main = train[_MAIN]
    return (
        _groks(found),
        _falls("LC at train points", main, found),
        _falls("LC at test points", test, found),
        _falls(f"LC at train points, radius {FINE:g}", fine, found),
        _opposed(main, new, found),
        *(_more(label, main, train[label], found) for label in _CONTROLS),
    )


def _groks(found: Sequence[Phases | None]) -> Claim:
    failed = sum(one is None for one in found)
    said = f"{len(found) - failed} of {len(found)} seeds"
    return Claim("groks", "every seed", said, verdict.holds(failed, len(found)))


def _falls(what: str, curve: Curve, found: Sequence[Phases | None]) -> Claim:
    return positive_over_seeds(f"{what}: fall from before to after", "falls", _fall(curve, found), ".1%")


def _fall(curve: Curve, found: Sequence[Phases | None]) -> list[float]:
    """By seed; NaN where it does not grok."""
    return [math.nan if seed is None else seed.fall(row) for seed, row in zip(found, curve.values, strict=True)]


def _opposed(lc: Curve, test: Curve, found: Sequence[Phases | None]) -> Claim:
    """LC falls when test accuracy rises, not only in the long run."""
    from scipy.stats import spearmanr  # takes longer to import than all of regionscope

    values = []
    for seed, mine, known in zip(found, lc.values, test.values, strict=True):
        after = slice(0 if seed is None else seed.memorised, None)
        defined = seed is not None and len(set(mine[after])) > 1 and len(set(known[after])) > 1
        values.append(-float(spearmanr(mine[after], known[after]).statistic) if defined else math.nan)
    what = "LC at train points and test accuracy from memorisation on: minus their rank correlation over the steps"
    return positive_over_seeds(what, "positive", values, "+.2f")


def _more(label: str, main: Curve, control: Curve, found: Sequence[Phases | None]) -> Claim:
    pairs = zip(_fall(main, found), _fall(control, found), strict=True)
    what = f"LC at train points: fall minus that {_CONTROLS[label]}"
    return positive_over_seeds(what, "positive", [one - other for one, other in pairs], "+.1%")


def _table(train: Mapping[str, Curve], found: Sequence[Phases | None]) -> Table:
    columns = ("seed", "step of 99% train accuracy", "last step of 50% test accuracy", "step of 95% test accuracy",
               "LC before", "LC after", *(f"fall, {label}" for label in train))  # fmt: skip
    rows: list[tuple[str | float | int, ...]] = []
    for i, one in enumerate(found):
        if one is None:
            rows.append((i, *["does not grok"] * 3, *[math.nan] * (2 + len(train))))
            continue
        falls = [one.fall(each.values[i]) for each in train.values()]
        steps = [train[_MAIN].steps[place] for place in (one.memorised, one.before, one.solved)]
        rows.append((i, *steps, *one.means(train[_MAIN].values[i]), *falls))
    return Table("Phases by seed", columns, tuple(rows))


def _ends(runs: _Runs) -> Table:
    columns = ("runs", "train accuracy at the end", "test accuracy at the end")
    ends = {label: [accuracy(mine, part).means[-1] for part in ("train", "test")] for label, mine in runs.items()}
    rows = tuple((label, train, test) for label, (train, test) in ends.items())
    return Table("Accuracy, mean over seeds", columns, rows)


GROKKING = grid_study("transformers-grokking", _grid, _outcome)
