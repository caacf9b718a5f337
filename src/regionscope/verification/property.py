"""A property: boxes of inputs, and what the outputs of a counterexample must satisfy there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from regionscope.checks import is_integer
from regionscope.errors import InputError

# Linear inequalities with exact fractions, and their disjunctive form.

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
    return [rows for part in parts for rows in part]


def conjunction(parts: Sequence[list[list[Atom]]], where: str) -> list[list[Atom]]:
    """All parts hold: every choice of one alternative from each."""
    disjuncts: list[list[Atom]] = [[]]
    for part in parts:
        if len(part) > 1 and sum(map(len, disjuncts)) * len(part) + len(disjuncts) * sum(map(len, part)) > _MOST:
            raise InputError(
                f"Expected at most {_MOST} inequalities in disjunctive form, got more in {where}. "
                "Split the property into several files."
            )
        if len(part) == 1:
            for left in disjuncts:
                left.extend(part[0])
        else:
            disjuncts = [[*left, *right] for left in disjuncts for right in part]
    return disjuncts


_LARGEST = Fraction(10) ** 300  # of a number: float64 ends at 1.8e308
_FARTHEST = Fraction(10) ** 100  # of an input, as of the points of a slice


@dataclass(frozen=True)
class Constraint:
    """sum of factor * y_i over ``terms`` (i, factor) <= bound, for outputs y."""

    terms: tuple[tuple[int, Fraction], ...]
    bound: Fraction


@dataclass(frozen=True)
class Case:
    """Inputs with low <= x <= high, at which all constraints of one alternative hold."""

    low: tuple[Fraction, ...]
    high: tuple[Fraction, ...]
    alternatives: tuple[tuple[Constraint, ...], ...]

    def __repr__(self) -> str:
        return f"Case(inputs={len(self.low)}, free={len(self.free)}, alternatives={len(self.alternatives)})"

    @property
    def free(self) -> tuple[int, ...]:
        """Inputs that may vary."""
        return tuple(i for i, (a, b) in enumerate(zip(self.low, self.high, strict=True)) if a < b)

    def holds(self, inputs: Sequence[Fraction], outputs: Sequence[Fraction], *, free_only: bool = False) -> bool:
        """Whether these numbers fit the case, in exact arithmetic.

        free_only: whether fixed inputs may differ from their values, as decimals do after rounding.
        """
        places = self.free if free_only else range(len(self.low))
        return all(self.low[i] <= inputs[i] <= self.high[i] for i in places) and any(
            all(sum(f * outputs[i] for i, f in row.terms) <= row.bound for row in rows) for rows in self.alternatives
        )


@dataclass(frozen=True)
class Property:
    """The conditions on a counterexample: an input in the box of one case, and outputs that satisfy one of its
    alternatives.

    input_shape: shape of the network's input with its batch dimension, where the file declares it (version 2).
    declared: for a file of version 2, each tensor as "input" or "output" with its declaration, such as "X float32
        [1,5]".
    """

    n_inputs: int
    n_outputs: int
    cases: tuple[Case, ...]
    input_shape: tuple[int, ...] | None
    source: str
    declared: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        sizes = f"inputs={self.n_inputs}, outputs={self.n_outputs}, cases={len(self.cases)}, free={self.n_free}"
        return f"Property({sizes}, source={self.source!r})"

    @property
    def n_free(self) -> int:
        """Largest number of inputs that vary in one case."""
        return max((len(case.free) for case in self.cases), default=0)

    def fixed(self, values: Mapping[int, float | str | Fraction]) -> Property:
        """The same property on a slice: input i has the value ``values[i]``; cases that do not allow it are left out.

        Pass decimals as text to keep them exact: ``fixed({2: "0.1"})``. Raises ``InputError`` if no case allows the
        values; a property without any case stays as it is.
        """
        try:
            wanted = {i: Fraction(value) for i, value in values.items()}
        except (ValueError, OverflowError, ZeroDivisionError, TypeError, AttributeError) as error:
            raise InputError(
                f'Expected a finite number for each fixed input, got {values}. Write a dict such as {{2: "0.1"}}.'
            ) from error
        if not all(is_integer(i, least=0) and i < self.n_inputs for i in wanted):
            raise InputError(
                f"Expected inputs from 0 to {self.n_inputs - 1}, got {[*wanted]}. Count the inputs from 0."
            )
        cases = tuple(
            replace(
                case,
                low=tuple(wanted.get(i, end) for i, end in enumerate(case.low)),
                high=tuple(wanted.get(i, end) for i, end in enumerate(case.high)),
            )
            for case in self.cases
            if all(case.low[i] <= value <= case.high[i] for i, value in wanted.items())
        )
        if self.cases and not cases:
            raise InputError(self._outside(wanted))
        return replace(self, cases=cases)

    def _outside(self, wanted: Mapping[int, Fraction]) -> str:
        """Why no case has these values."""
        for i, value in wanted.items():
            ends = dict.fromkeys((case.low[i], case.high[i]) for case in self.cases)  # each pair once, in order
            if not any(low <= value <= high for low, high in ends):
                ranges = " or ".join(f"between {_decimal(low)} and {_decimal(high)}" for low, high in [*ends][:3])
                more = f" or in {len(ends) - 3} other ranges" if len(ends) > 3 else ""
                rounded = _decimal(value) in [_decimal(end) for pair in ends for end in pair]
                advice = "Write it as text, since its float64 value is rounded" if rounded else "Fix it inside the box"
                return f"Expected a value of X_{i} {ranges}{more}, got {_decimal(value)}. {advice}."
        got = ", ".join(f"X_{i} = {_decimal(value)}" for i, value in wanted.items())
        return f"Expected values that lie in one of the {len(self.cases)} boxes together, got {got}. Fix fewer inputs."

    def holds(self, inputs: Sequence[Fraction], outputs: Sequence[Fraction]) -> bool:
        """Whether these numbers are a counterexample, in exact arithmetic."""
        return any(case.holds(inputs, outputs) for case in self.cases)


def _decimal(number: Fraction) -> str:
    """A number as the shortest decimal with its float64 value."""
    return repr(float(max(-_LARGEST, min(number, _LARGEST)))).removesuffix(".0")


def property_of(
    disjuncts: list[list[Atom]], n_inputs: int, n_outputs: int, input_shape: tuple[int, ...] | None, source: str
) -> Property:
    """Sort the inequalities of each alternative into a box and constraints; alternatives with one box become a case."""
    boxes: dict[tuple[tuple[Fraction, ...], tuple[Fraction, ...]], list[tuple[Constraint, ...]]] = {}
    for atoms in disjuncts:
        low: list[Fraction | None] = [None] * n_inputs
        high: list[Fraction | None] = [None] * n_inputs
        rows = [row for atom in atoms if (row := _sorted(atom, low, high, source)) is not None]
        ends = [
            (a, b) if a is not None and b is not None else _open(i, source)
            for i, (a, b) in enumerate(zip(low, high, strict=True))
        ]
        if all(a <= b for a, b in ends) and all(row.terms or row.bound >= 0 for row in rows):
            box = tuple(a for a, _ in ends), tuple(b for _, b in ends)
            boxes.setdefault(box, []).append(tuple(row for row in rows if row.terms))
    cases = tuple(Case(low, high, tuple(rows)) for (low, high), rows in boxes.items())
    return Property(n_inputs, n_outputs, cases, input_shape, source)


def _sorted(atom: Atom, low: list[Fraction | None], high: list[Fraction | None], source: str) -> Constraint | None:
    """Tighten the box by an inequality about one input, or return one about outputs."""
    variables = list(atom.form.terms.items())
    if any(abs(number) > _LARGEST for number in (atom.form.constant, *atom.form.terms.values())):
        raise InputError(
            f"{source}, line {atom.line}: Expected numbers of at most 1e300, got a larger one. Write a smaller one."
        )
    if all(kind == "Y" for (kind, _), _ in variables):
        return Constraint(tuple(sorted((i, f) for (_, i), f in variables)), -atom.form.constant)
    if len(variables) > 1:
        raise InputError(
            f"{source}, line {atom.line}: Expected an inequality that bounds one input by a number, got another one. "
            "Write the input set as bounds, such as (<= X_0 1.0)."
        )
    ((_, i), factor) = variables[0]
    bound = -atom.form.constant / factor
    if abs(bound) > _FARTHEST:
        raise InputError(
            f"{source}, line {atom.line}: Expected a bound of at most 1e100, got a larger one. Write a smaller one."
        )
    if factor > 0:
        old = high[i]
        high[i] = bound if old is None else min(old, bound)
    else:
        old = low[i]
        low[i] = bound if old is None else max(old, bound)
    return None


def _open(i: int, source: str) -> tuple[Fraction, Fraction]:
    raise InputError(
        f"{source}: Expected a lower and an upper bound for every input in every case, got none for input {i}. "
        "Add both bounds to the file."
    )
