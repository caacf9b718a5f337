"""Small values that results share, and names of array types."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regionscope.formatting import estimated

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Array = NDArray[Any]

Progress = Callable[[float], None]
"""A function that long work calls with the share that is done, from 0 to 1."""

Reading = tuple[str, float, float | None]
"""Name, value and standard error of a number. The main number of a result has the name ""; None: no standard error."""


@runtime_checkable
class Readable(Protocol):
    """A result that lists its numbers, so that tables and monitors can show any of them in the same way."""

    def readings(self) -> tuple[Reading, ...]:
        """The numbers of this result, the main one first."""
        ...


def repr_of(result: Readable, **first: object) -> str:
    """The repr of a result in one line: ``first``, then its readings, each with its standard error.

    >>> repr_of(Estimate(2.0, 0.5, 3), n=3)
    'Estimate(n=3, value=2 ± 0.5)'
    """
    parts = [f"{name}={value!r}" for name, value in first.items()]
    parts += [f"{name or 'value'}={estimated(value, stderr)}" for name, value, stderr in result.readings()]
    return f"{type(result).__name__}({', '.join(parts)})"


@dataclass(frozen=True)
class Status:
    """Whether the work was finished, and if not, why, in one sentence."""

    complete: bool = True
    reason: str = ""

    def __bool__(self) -> bool:
        return self.complete


@dataclass(frozen=True)
class Stats:
    """What rounding and budgets did to a result.

    snapped: how often rounding hid the sign of a value, so that it was taken for zero, the order of two folds on an
        edge, so that they were taken for one, or the place of a fold. A value on the border of two parts of the work
        may count twice.
    rounding: how near to zero an output of the network counts as zero.
    seconds: wall-clock time of the whole call (of all slices, when several were worked through together).
    """

    snapped: int = 0
    rounding: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class Estimate:
    """The mean of n independent draws. stderr: sample standard deviation / sqrt(n); NaN for a single draw.

    >>> import torch
    >>> print(Estimate.of(torch.tensor([1, 2, 3])))
    2 ± 0.58 (n = 3)
    """

    value: float
    stderr: float
    n: int

    @staticmethod
    def of(draws: Tensor) -> Estimate:
        """The estimate from draws (n,)."""
        n = draws.numel()
        sample = draws.detach().double()
        stderr = float(sample.std()) / math.sqrt(n) if n > 1 else math.nan
        return Estimate(float(sample.mean()) if n else math.nan, stderr, n)

    @property
    def relative_stderr(self) -> float:
        """Standard error / |mean|; 0 where the standard error is 0."""
        if self.stderr == 0.0:
            return 0.0
        return self.stderr / abs(self.value) if self.value else math.inf

    def readings(self) -> tuple[Reading, ...]:
        """The mean, with its standard error."""
        return (("", self.value, self.stderr),)

    def __str__(self) -> str:
        return f"{estimated(self.value, self.stderr)} (n = {self.n})"
