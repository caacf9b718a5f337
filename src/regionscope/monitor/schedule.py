"""Schedules: steps at which something is measured or stored.

Step s is the moment after s optimiser steps; step 0 is before training.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from regionscope.checks import is_integer, one_of, read_integer
from regionscope.errors import InputError

Unit = Literal["steps", "epochs"]

WORDS = '"end", "start", "every 5 epochs", "every 100 steps", "log 1 10000 50", or several of them joined by "and"'


@dataclass(frozen=True)
class Schedule:
    """Chosen steps, and multiples of some numbers of steps or epochs. The last step of training is always included.

    >>> (every(4) | Schedule(points=(1,))).steps(10, per_epoch=5)
    (0, 1, 4, 8, 10)
    """

    points: tuple[int, ...] = ()
    periods: tuple[int, ...] = ()
    epoch_periods: tuple[int, ...] = ()

    def __or__(self, other: Schedule) -> Schedule:
        """The steps of both schedules."""
        return Schedule(
            tuple(sorted({*self.points, *other.points})),
            tuple(sorted({*self.periods, *other.periods})),
            tuple(sorted({*self.epoch_periods, *other.epoch_periods})),
        )

    def steps(self, total: int, *, per_epoch: int) -> tuple[int, ...]:
        """The chosen steps of a training of ``total`` steps, ascending; the last one is ``total``."""
        chosen = {step for step in self.points if step <= total} | {total}
        for period in (*self.periods, *(period * per_epoch for period in self.epoch_periods)):
            chosen.update(range(0, total + 1, period))
        return tuple(sorted(chosen))

    def includes(self, step: int, *, per_epoch: int | None = None) -> bool:
        """Whether ``step`` is chosen, if the last step is not known."""
        if self.epoch_periods and per_epoch is None:
            raise InputError(
                f'Expected steps_per_epoch for the schedule "{self}", which counts epochs, got None. Pass '
                "Monitor(..., steps_per_epoch=...), or count epochs yourself: when=every(1) and monitor(epoch, model)."
            )
        periods = (*self.periods, *(period * (per_epoch or 1) for period in self.epoch_periods))
        return step in self._chosen or any(step % period == 0 for period in periods)

    @cached_property
    def _chosen(self) -> frozenset[int]:
        return frozenset(self.points)

    def __str__(self) -> str:
        """In words that ``parse_schedule`` reads."""
        rest = [point for point in self.points if point]
        parts = [
            *(["start"] if 0 in self.points else []),
            *(f"every {n} steps" for n in self.periods),
            *(f"every {n} epochs" for n in self.epoch_periods),
            *([f"steps {' '.join(map(str, rest))}"] if rest else []),
        ]
        return " and ".join([*parts, "end"])


def every(n: int, unit: Unit = "steps") -> Schedule:
    """Schedule of all multiples of n steps (or epochs), including 0, and the end.

    >>> every(30).steps(100, per_epoch=10)
    (0, 30, 60, 90, 100)
    """
    read_integer("n of every()", n)
    one_of("unit of every()", unit, ("steps", "epochs"))
    return Schedule(periods=(n,)) if unit == "steps" else Schedule(epoch_periods=(n,))


def log_spaced(a: int, b: int, points: int) -> Schedule:
    """Schedule of ``points`` steps from a to b at equal ratios, rounded and without repeats, and the end.

    >>> log_spaced(1, 1000, 4).points
    (1, 10, 100, 1000)
    """
    if not (is_integer(a) and is_integer(b, least=a) and is_integer(points, least=2)):
        raise InputError(
            f"Expected whole numbers 1 <= a <= b and at least 2 points, got a = {a}, b = {b} and points = {points}. "
            "Write log_spaced(1, 1000, 20), for example."
        )
    return Schedule(points=tuple(sorted({round(float(step)) for step in np.geomspace(a, b, points)})))


def parse_schedule(words: str) -> Schedule:
    """Read a schedule in words.

    >>> parse_schedule("start and every 5 epochs").steps(100, per_epoch=10)
    (0, 50, 100)
    """
    chosen = Schedule()
    for part in re.split(r"\s+and\s+|\s*,\s*", words.strip()):
        chosen = chosen | _part(part, words)
    return chosen


def as_schedule(when: Schedule | str) -> Schedule:
    """The schedule itself, or the one that a text describes."""
    if isinstance(when, str):
        return parse_schedule(when)
    if not isinstance(when, Schedule):
        raise InputError(f"Expected a schedule, got {when!r}. Write every(n), log_spaced(a, b, points), or {WORDS}.")
    return when


def _part(part: str, words: str) -> Schedule:
    if part in ("start", "end"):
        return Schedule(points=(0,) if part == "start" else ())
    if match := re.fullmatch(r"every (?:(\d+) )?(step|epoch)s?", part):
        return every(int(match[1] or 1), "steps" if match[2] == "step" else "epochs")
    if match := re.fullmatch(r"log (\d+) (\d+) (\d+)", part):
        return log_spaced(*map(int, match.groups()))
    if match := re.fullmatch(r"steps? (\d+(?: \d+)*)", part):
        return Schedule(points=tuple(sorted({int(step) for step in match[1].split()})))
    raise InputError(f"Expected a schedule, got {words!r}. Write {WORDS}.")
