"""Small values that results share."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Stats", "Status"]


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

    snapped: how often the sign of a value could not be told from zero, so that a vertex was put on the zero set.
    seconds: wall-clock time of the whole call (of all slices, when several were worked through together).
    """

    snapped: int = 0
    seconds: float = 0.0
