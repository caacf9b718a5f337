"""Linear inequalities with exact fractions, and their disjunctive form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from regionscope.errors import InputError

Variable = tuple[str, int]
"""("X", i) for input i or ("Y", i) for output i."""
_MOST = 200_000  # inequalities in disjunctive form


@dataclass(frozen=True)
class Linear:
    """sum of terms[v] * v over variables v, plus a constant."""

    terms: dict[Variable, Fraction]
    constant: Fraction

    def __add__(self, other: Linear) -> Linear:
        terms = dict(self.terms)
        for variable, factor in other.terms.items():
            terms[variable] = terms.get(variable, Fraction(0)) + factor
        return Linear({v: f for v, f in terms.items() if f}, self.constant + other.constant)

    def __mul__(self, factor: Fraction) -> Linear:
        return Linear({v: f * factor for v, f in self.terms.items() if f * factor}, self.constant * factor)

    def __sub__(self, other: Linear) -> Linear:
        return self + other * Fraction(-1)


@dataclass(frozen=True)
class Atom:
    """The inequality ``form <= 0``, and the line it stands on."""

    form: Linear
    line: int


def alternatives(parts: Sequence[list[list[Atom]]]) -> list[list[Atom]]:
    """At least one of the parts holds."""
    return [each for part in parts for each in part]


def conjunction(parts: Sequence[list[list[Atom]]], where: str) -> list[list[Atom]]:
    """All parts hold: every choice of one alternative from each."""
    found: list[list[Atom]] = [[]]
    for part in parts:
        if len(part) > 1 and sum(map(len, found)) * len(part) + len(found) * sum(map(len, part)) > _MOST:
            raise InputError(
                f"Expected at most {_MOST} inequalities in disjunctive form, got more in {where}. "
                "Split the property into several files."
            )
        if len(part) == 1:
            for left in found:
                left.extend(part[0])
        else:
            found = [[*left, *right] for left in found for right in part]
    return found
