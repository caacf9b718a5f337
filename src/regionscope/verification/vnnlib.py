"""``read_vnnlib``: a property file as boxes of inputs with linear constraints on the outputs, decimals kept exact.

Version 1 declares constants X_0, X_1, ..., Y_0, ...; version 2 declares one network with one input X and one output Y
and writes X[0,1]. Both become the same ``Property``.
"""

from __future__ import annotations

import gzip
import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import NoReturn

from regionscope.checks import read_path
from regionscope.errors import InputError
from regionscope.verification.property import Atom, Linear, Property, alternatives, conjunction, property_of

_TOKEN = re.compile(r';.*|"[^"]*"|[()]|[^\s()\[\];"]*[ \t]{0,9}\[[^\]\n]*\]|[^\s();"]+|"')
_TENSOR = re.compile(r'(\S+) (\w+)\s*\[\s*(\d{1,9}(\s*,\s*\d{1,9})*)?\s*\]( ".*")?')  # with its name in the ONNX file
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_LARGEST = 2**28  # bytes of a property file
_DIGITS = 1000  # of a number
_COMPARED = {"<=": 1, "<": 1, ">=": -1, ">": -1}
_KNOWN = ("and", "or", "=", "==", *_COMPARED)


def read_vnnlib(path: str | PathLike[str]) -> Property:
    """The property in a ``.vnnlib`` or ``.vnnlib.gz`` file: what a counterexample must satisfy.

    Assertions are conjunctions and disjunctions of linear inequalities, each of which concerns one input or any number
    of outputs. Strict inequalities are taken as closed ones. Numbers are read as exact fractions. Raises ``InputError``
    with the number of the line for anything else.

    Cost: the number of alternatives in disjunctive form.
    """
    where = read_path(path)
    try:
        with gzip.open(where) if where.suffix == ".gz" else where.open("rb") as stream:
            content = stream.read(_LARGEST + 1)
        text = content.decode("utf-8")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"Expected a .vnnlib or .vnnlib.gz file, got {where}: {reason}. Check the path.") from error
    if len(content) > _LARGEST:
        raise InputError(f"Expected a property below 256 MiB, got {where}, which is larger. Split it into several.")
    return _Reader(where).read(text)


@dataclass(frozen=True)
class _Form:
    """A word, or a list in brackets, with its line."""

    line: int
    word: str = ""
    items: tuple[_Form, ...] = ()

    @property
    def head(self) -> str:
        """The first word of a list."""
        return self.items[0].word if self.items else ""


@dataclass
class _Reader:
    path: Path
    inputs: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)  # version 2: kind and shape
    declared: list[tuple[str, str]] = field(default_factory=list)
    asserted: list[list[list[Atom]]] = field(default_factory=list)

    def read(self, text: str) -> Property:
        for form in self._forms(text):
            self._statement(form)
        if not self.asserted:
            raise InputError(
                f"Expected at least one assertion, got none in {self.path}. Check that the file is complete."
            )
        n_inputs, n_outputs = (self._count(kind) for kind in ("input", "output"))
        if n_inputs == 0:
            raise InputError(
                f"Expected a declaration of the inputs, got none in {self.path}. "
                "Add declare-const lines for X_0, X_1, and so on."
            )
        shape = next((shape for kind, shape in self.shapes.values() if kind == "input"), None)
        property = property_of(conjunction(self.asserted, str(self.path)), n_inputs, n_outputs, shape, str(self.path))
        return replace(property, declared=tuple(self.declared))

    def _count(self, kind: str) -> int:
        declared = [math.prod(shape) for which, shape in self.shapes.values() if which == kind]
        named = self.inputs if kind == "input" else self.outputs
        if named and sorted(named.values()) != list(range(len(named))):
            raise InputError(
                f"Expected {kind}s numbered from 0 without gaps, got {', '.join(named)} in {self.path}. "
                "Rename the variables."
            )
        return sum(declared) if declared else len(named)

    def _fail(self, line: int, what: str) -> NoReturn:
        raise InputError(f"{self.path}, line {line}: {what[0].upper()}{what[1:]}. Correct this line.")

    # text to nested lists

    def _forms(self, text: str) -> Iterator[_Form]:
        stack: list[tuple[int, list[_Form]]] = []
        for number, line in enumerate(text.split("\n"), 1):
            for word in _TOKEN.findall(line):
                if word[0] == ";":
                    continue
                if word == "(":
                    stack.append((number, []))
                    if len(stack) > 200:
                        self._fail(number, "expected brackets at most 200 deep, got more")
                    continue
                if word == ")":
                    if not stack:
                        self._fail(number, "expected an open bracket before a closing one, got none")
                    began, items = stack.pop()
                    form = _Form(began, items=tuple(items))
                else:
                    form = _Form(number, word)
                if stack:
                    stack[-1][1].append(form)
                elif form.word:
                    raise InputError(
                        f"Expected a VNN-LIB file, whose statements stand in brackets, got {form.word!r} in line "
                        f"{number} of {self.path}. Pass a .vnnlib file, or correct this line."
                    )
                else:
                    yield form
        if stack:
            self._fail(stack[-1][0], "expected a closing bracket for this one, got none")

    # statements

    def _statement(self, form: _Form) -> None:
        if form.head == "declare-const" and len(form.items) == 3:
            self._declare(form)
        elif form.head == "vnnlib-version" and len(form.items) == 2:
            if not re.fullmatch(r"<?[12](\.\d+)?>?", form.items[1].word):
                self._fail(form.line, f"expected version 1 or 2, got {form.items[1].word!r}")
        elif form.head == "declare-network":
            self._declare_network(form)
        elif form.head == "assert" and len(form.items) == 2:
            self.asserted.append(self._formula(form.items[1]))
        else:
            self._fail(form.line, f"expected declare-const, declare-network or assert, got {form.head or 'a list'!r}")

    def _declare(self, form: _Form) -> None:
        name, kind = form.items[1].word, form.items[2].word
        match = re.fullmatch(r"([XY])_(\d{1,9})", name)
        if match is None or kind != "Real":
            self._fail(form.line, f"expected (declare-const X_0 Real) or Y_0, got {name} {kind}")
        named = self.inputs if match[1] == "X" else self.outputs
        if name in named:
            self._fail(form.line, f"expected one declaration of {name}, got two")
        named[name] = int(match[2])

    def _declare_network(self, form: _Form) -> None:
        if self.shapes:
            self._fail(form.line, "expected one network, got several")
        for part in form.items[2:]:
            kind = part.head.removeprefix("declare-")
            match = _TENSOR.fullmatch(" ".join(item.word for item in part.items[1:]))
            if kind not in ("input", "output") or match is None:
                got = part.head or part.word or "a list"
                self._fail(part.line, f"expected (declare-input X float32 [1, 5]) or declare-output, got {got!r}")
            if any(kind == other for other, _ in self.shapes.values()):
                self._fail(part.line, f"expected a network with one {kind}, got several")
            shape = tuple(int(n) for n in match[3].split(",")) if match[3] else ()
            self.shapes[match[1]] = (kind, shape)
            self.declared.append((kind, f"{match[1]} {match[2]} [{','.join(map(str, shape))}]"))

    # formulas

    def _formula(self, form: _Form) -> list[list[Atom]]:
        """Disjunctive form: alternatives, each a list of inequalities."""
        if form.head in ("and", "or") and len(form.items) > 1:
            parts = [self._formula(item) for item in form.items[1:]]
            return alternatives(parts) if form.head == "or" else conjunction(parts, str(self.path))
        if form.head in ("=", "==") and len(form.items) == 3:
            a, b = (self._linear(item) for item in form.items[1:])
            return [[Atom(a - b, form.line), Atom(b - a, form.line)]]
        if form.head in _COMPARED and len(form.items) == 3:
            a, b = (self._linear(item) for item in form.items[1:])
            return [[Atom(a - b if _COMPARED[form.head] > 0 else b - a, form.line)]]
        if form.head in _KNOWN:
            self._fail(form.line, f"expected another number of arguments of {form.head!r}, got {len(form.items) - 1}")
        self._fail(form.line, f"expected {', '.join(_KNOWN)}, got {form.head or form.word or 'a list'!r}")

    def _linear(self, form: _Form) -> Linear:
        if form.word:
            return self._word(form)
        terms = [self._linear(item) for item in form.items[1:]]
        if form.head == "+" and terms:
            return sum(terms[1:], terms[0])
        if form.head == "-" and terms:
            return terms[0] * Fraction(-1) if len(terms) == 1 else terms[0] - sum(terms[2:], terms[1])
        if form.head == "*" and terms:
            product = terms[0]
            for term in terms[1:]:
                if product.terms and term.terms:
                    self._fail(form.line, "expected a linear expression, got a product of two variables")
                product = product * term.constant if not term.terms else term * product.constant
            return product
        self._fail(form.line, f"expected a number, a variable or a sum, got {form.head or 'a list'!r}")

    def _word(self, form: _Form) -> Linear:
        word = form.word
        if len(word) <= _DIGITS and _NUMBER.fullmatch(word):
            return Linear({}, Fraction(word))
        if word in self.inputs:
            return Linear({("X", self.inputs[word]): Fraction(1)}, Fraction(0))
        if word in self.outputs:
            return Linear({("Y", self.outputs[word]): Fraction(1)}, Fraction(0))
        match = re.fullmatch(r"([^\[\]\s]+)\s*(?:\[([\d,\s]*)\])?", word)
        if match is None or match[1] not in self.shapes:
            self._fail(form.line, f"expected a number or a declared variable, got {word[:80]!r}")
        kind, shape = self.shapes[match[1]]
        index = [int(n) for n in (match[2] or "").split(",") if n.strip()]
        if len(index) != len(shape) or any(i >= size for i, size in zip(index, shape, strict=True)):
            self._fail(form.line, f"expected an index of {match[1]} of shape {list(shape)}, got {word}")
        place = 0
        for i, size in zip(index, shape, strict=True):
            place = place * size + i
        return Linear({("X" if kind == "input" else "Y", place): Fraction(1)}, Fraction(0))
