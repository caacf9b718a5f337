"""The difference of local complexity between points a network was trained on and points it was not."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from regionscope.complexity.local_complexity import LocalComplexity
from regionscope.errors import InputError
from regionscope.inputs import read_array
from regionscope.types import FloatArray, Reading


@dataclass(frozen=True)
class ComplexityGap:
    """Difference of local complexity between train and test points.

    value: mean LC at train points minus mean LC at test points. stderr: its standard error, from the variance over
        points.
    auc: probability that a random train point has a larger LC than a random test point (ties count half); 0.5 means
        that LC carries no information about membership. auc_stderr: its standard error. n_train, n_test: number of
        points.
    """

    value: float
    stderr: float
    auc: float
    auc_stderr: float
    n_train: int
    n_test: int

    def readings(self) -> tuple[Reading, ...]:
        """The gap and the area under the curve."""
        return ("", self.value, self.stderr), ("auc", self.auc, self.auc_stderr)

    @property
    def z(self) -> float:
        """The gap divided by its standard error (0 if both are 0)."""
        if self.stderr > 0:
            return self.value / self.stderr
        return 0.0 if self.value == 0 else math.copysign(math.inf, self.value)


def complexity_gap(train: LocalComplexity | Tensor, test: LocalComplexity | Tensor) -> ComplexityGap:
    """The train/test gap of local complexity, with its error.

    Humayun et al. 2023, section 4.2, observe such a gap during the ascent and the second descent and relate it to
    membership inference. Error of the gap: sqrt(s²_train / n + s²_test / m). The AUC is the Mann-Whitney statistic,
    with the error of DeLong et al. 1988. For one layer, pass its entry of ``by_layer``. Cost: sorting.

    >>> import torch
    >>> gap = complexity_gap(torch.tensor([2, 3, 4]), torch.tensor([1, 2, 3]))
    >>> gap.value, round(gap.auc, 3)
    (1.0, 0.778)
    """
    inside, outside = _values(train, "train"), _values(test, "test")
    n, m = len(inside), len(outside)
    variance = inside.var(ddof=1) / n + outside.var(ddof=1) / m
    # For each train point the share of test points below it, and for each test point the share of train points above.
    below = _share_below(inside, outside)
    above = 1 - _share_below(outside, inside)
    auc_variance = below.var(ddof=1) / n + above.var(ddof=1) / m
    return ComplexityGap(
        value=float(inside.mean() - outside.mean()),
        stderr=math.sqrt(variance),
        auc=float(below.mean()),
        auc_stderr=math.sqrt(auc_variance),
        n_train=n,
        n_test=m,
    )


def _share_below(values: FloatArray, others: FloatArray) -> FloatArray:
    """For each value, the share of the others below it; an equal one counts half."""
    ordered = np.sort(others)
    return (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / (2 * len(others))


def _values(complexity: LocalComplexity | Tensor, name: str) -> FloatArray:
    counts = complexity.total if isinstance(complexity, LocalComplexity) else read_array(complexity)
    if counts.ndim != 1 or len(counts) < 2:
        raise InputError(
            f"Expected counts (b,) of at least two points as {name}, got shape {tuple(counts.shape)}. "
            "Pass one number for each point."
        )
    values: FloatArray = counts.double().cpu().numpy()
    if not bool(np.isfinite(values).all()):
        raise InputError(
            f"Expected finite counts as {name}, got NaN or infinite values. Remove them; by_position is NaN at padding."
        )
    return values
