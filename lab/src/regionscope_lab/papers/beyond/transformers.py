"""Modular addition with a transformer of one layer, and Li's correlation for a GPT, a ViT and a ConvNeXt."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from regionscope.types import FloatArray
from regionscope_lab.papers.declaration import Finding, Table
from regionscope_lab.papers.figures import Figure, Series
from regionscope_lab.papers.li2025.settings_table import TABLE2, means_table, scatter, settings_of
from regionscope_lab.papers.rules import ABOVE_ZERO, Graded, correlated, every_case, in_range, over_seeds
from regionscope_lab.papers.seed_table import Runs, SeedRun, SeedTable

MEMORISED, UNSOLVED, SOLVED = 0.99, 0.5, 0.95  # accuracies: train at least, test at most, test at least
_LAST = "position.2"  # MLP units at "=": with one layer, those at a and b cannot change the output
_COUNTS = {"lines": "regions", "refined": "regions_refined", "test": "regions_test", "planes": "regions_2d"}
_COMPARED = {"norm of the weights": "norm.l2", "mean output margin": "margin"}


@dataclass(frozen=True)
class Phases:
    """Looks of one run: from ``memorised`` to ``before`` it knows its training data only, from ``solved`` on all."""

    memorised: int
    before: int
    solved: int

    def fall(self, values: FloatArray) -> float:
        """By which share the mean after is smaller than the mean before; NaN where that is 0."""
        before, after = float(values[self.memorised : self.before + 1].mean()), float(values[self.solved :].mean())
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


def grokking(table: SeedTable, runs: Runs) -> Finding:
    main, decay, random = (runs[name] for name in ("weight decay 1", "weight decay 0", "random labels"))
    known = [phases(*((1 - run.curve(f"error.{part}").values).tolist() for part in ("train", "test"))) for run in main]

    def falls(mine: Sequence[SeedRun], name: str = "lc.train") -> list[float]:
        """By seed, at the steps of the run that groks; NaN where it does not."""
        values = [run.curve(f"{name}.{_LAST}").values for run in mine]
        return [math.nan if one is None else one.fall(curve) for one, curve in zip(known, values, strict=True)]

    def positive(values: Sequence[float], unit: str = ".1%") -> Graded:
        return in_range(over_seeds(values), *ABOVE_ZERO, said=unit)

    fall = falls(main)
    others = {"without weight decay": falls(decay), "with random labels": falls(random)}
    rows = [
        (run.seed, *(["does not grok"] * 3 if one is None else
                     [run.curve("lc.train." + _LAST).steps[i] for i in (one.memorised, one.before, one.solved)]),
         fall[i], *(values[i] for values in others.values()))
        for i, (run, one) in enumerate(zip(main, known, strict=True))
    ]  # fmt: skip
    steps = ("step of 99% train accuracy", "last step of 50% test accuracy", "step of 95% test accuracy")
    columns = ("seed", *steps, "fall", *(f"fall {words}" for words in others))
    failed = sum(one is None for one in known)
    return Finding(
        {
            "groks": every_case(failed, len(known)),
            "train": positive(fall),
            "test": positive(falls(main, "lc.test")),
            "fine": positive(falls(main, "fine.train")),
            "opposed": positive([_opposed(run, one) for run, one in zip(main, known, strict=True)], "+.2f"),
            **{
                name: positive([a - b for a, b in zip(fall, values, strict=True)])
                for name, values in zip(("decay", "random"), others.values(), strict=True)
            },
        },
        (Table("Phases by seed", columns, tuple(rows)),),
        (
            Figure(
                title='LC of the MLP at "=" at train points',
                x_label="step",
                y_label="local complexity",
                log_x=True,
                series=[
                    Series(name, curve.steps, curve.values.tolist())
                    for name, mine in runs.items()
                    for curve in (run.curve(f"lc.train.{_LAST}") for run in mine)
                ],
            ),
        ),
    )


def _opposed(run: SeedRun, one: Phases | None) -> float:
    """Minus the rank correlation of LC and test accuracy over the steps from memorisation on."""
    from scipy.stats import spearmanr  # takes longer to import than all of regionscope

    start = slice(0 if one is None else one.memorised, None)
    lc, right = run.curve(f"lc.train.{_LAST}").values[start], (1 - run.curve("error.test").values)[start]
    defined = one is not None and np.ptp(lc) > 0 and np.ptp(right) > 0
    return -float(spearmanr(lc, right).statistic) if defined else math.nan


def _networks(name: str) -> Callable[[SeedTable, Runs], Finding]:
    """What grades the correlations of one network."""

    def find(table: SeedTable, runs: Runs) -> Finding:
        mine = [_with_loss_gap(run) for run in runs[name] if run.result["status"] == "finished"]
        rows = [(words, correlated(math.nan, settings_of(mine, measure)).ours) for words, measure in _COMPARED.items()]
        rows.append(
            ("regions, with the gap of the loss", correlated(math.nan, settings_of(mine, target="loss_gap")).ours)
        )
        return Finding(
            {
                claim: correlated(TABLE2["resnet18"][0], settings_of(mine, measure))
                for claim, measure in _COUNTS.items()
            },
            (
                Table("Other correlations with the gap", ("measure", "ours"), tuple(rows)),
                means_table("Settings", mine, ("regions", "gap", "train_error", *_COMPARED.values())),
            ),
            (scatter("Region count and generalisation gap", {name: mine}),),
        )

    return find


def _with_loss_gap(run: SeedRun) -> SeedRun:
    known = run.result.get("measures", {})
    pair = [known.get(f"loss.{part}", {}).get("value") for part in ("test", "train")]
    if None in pair:
        return run
    measures = {**known, "loss_gap": {"value": pair[0] - pair[1]}}
    return replace(run, result={**run.result, "measures": measures})


next_token, vision, convnext = _networks("gpt"), _networks("vit"), _networks("convnext")
