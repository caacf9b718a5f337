"""Means over drawn slices: draw until the mean is precise enough, and give its standard error."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regionscope.checks import check_progress, is_integer, read_integer, read_number
from regionscope.errors import InputError
from regionscope.geometry import Slice
from regionscope.sampled.drawn_slices import SliceSampler, not_slices
from regionscope.types import Estimate, Progress, Reading, Status, repr_of

_RESAMPLES = 2000
_LEVEL = 0.95  # of bootstrap intervals
_BYTES_OF_SLICES = 1 << 26
_FEWEST_VALUES = 30  # from which a standard error is trusted


@dataclass(frozen=True)
class SliceValues:
    """One number for each drawn slice: values (n,). ``status`` says whether the wanted precision was reached."""

    values: Tensor
    status: Status
    seconds: float

    def __repr__(self) -> str:
        return repr_of(self, n=len(self.values))

    def readings(self) -> tuple[Reading, ...]:
        """The mean over the slices."""
        return self.estimate.readings()

    @property
    def estimate(self) -> Estimate:
        """The mean, with its standard error."""
        return Estimate.of(self.values)


def over_slices(
    measure: Callable[[Sequence[Slice]], Tensor],
    sampler: SliceSampler,
    *,
    slices: int = 100,
    until: float | None = None,
    max_slices: int = 100_000,
    slices_per_call: int = 64,
    progress: Progress | None = None,
) -> SliceValues:
    """Draw slices, measure each, and stop after ``slices`` of them, or when the mean is precise enough.

    measure: function from slices to one number each (s,), such as a number of regions or of boundary points.
    until: relative standard error (standard error / mean) at which to stop. It is checked after every ``slices``
        slices, from 30 on, since a few slices can agree by chance. If ``max_slices`` is reached first, ``status`` says
        so. Stopping at a precision biases the mean slightly, by the order of 1 / n.
    slices_per_call: largest number of slices that are measured in one call.
    progress: called with the finished share of the work, 0 to 1; with ``until``, the share up to the next check.
    """
    _check(slices, until, max_slices)
    check_progress(progress)
    start = time.perf_counter()
    limit = max_slices if sampler.limit is None else min(max_slices, sampler.limit)
    target = min(slices, limit) if sampler.limit is None else limit
    values: list[Tensor] = []
    done = 0
    while True:
        while done < target:
            block = _draw(sampler, done, target, slices_per_call)
            values.append(measure(block))
            done += len(block)
            if progress is not None:
                progress(done / target)
        values = [torch.cat(values)]
        relative = Estimate.of(values[0]).relative_stderr
        if until is None or (relative <= until and done >= min(_FEWEST_VALUES, limit)):
            status = Status()
            break
        if done >= limit:
            reason = f"the relative standard error is {relative:.3g} after {done} slices, and {until:g} was asked for"
            status = Status(complete=False, reason=reason)
            break
        target = min(done + slices, limit)
    return SliceValues(values[0], status, time.perf_counter() - start)


def bootstrap_interval(values: Tensor, *, seed: int | None) -> tuple[float, float]:
    """95% percentile interval of the mean from 2,000 resamples of ``values`` (n,). Efron & Tibshirani 1993, chapter 13.

    A resample of n values with replacement is a multinomial draw over the distinct values. Cost: 2,000 times their
    number. The interval of a single value is not known: NaN.
    """
    if len(values) < 2:
        return math.nan, math.nan
    distinct, times = np.unique(values.numpy(), return_counts=True)
    n = len(values)
    drawn = np.random.default_rng(seed or 0).multinomial(n, times / n, size=_RESAMPLES)
    means = drawn @ distinct.astype(np.float64) / n
    low, high = np.quantile(means, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return float(low), float(high)


def _draw(sampler: SliceSampler, start: int, stop: int, max_count: int) -> list[Slice]:
    """The next slices to hold at once: 64 MiB of corners, and no more than ``max_count`` slices."""
    first = sampler.draw(start)
    bytes_per_slice = 8 * (first.dim + 1) * math.prod(first.input_shape)
    count = max(1, min(stop - start, max_count, _BYTES_OF_SLICES // bytes_per_slice))
    return [first, *(sampler.draw(i) for i in range(start + 1, start + count))]


def _check(slices: int, until: float | None, max_slices: int) -> None:
    if not is_integer(slices):
        raise not_slices(slices)
    if until is not None and not 0 < read_number("until", until) < 1:
        raise InputError(f"Expected until to be a relative standard error between 0 and 1, got {until}. Try 0.02.")
    read_integer("max_slices", max_slices)
