"""Property files, versions 1 and 2."""

from __future__ import annotations

import gzip
from fractions import Fraction
from pathlib import Path

import pytest

import regionscope as rs
from regionscope.verification import Property

ONE = """; a comment
(declare-const X_0 Real)
(declare-const X_1 Real)
(declare-const Y_0 Real)
(declare-const Y_1 Real)
(assert (<= X_0 0.1)) (assert (>= X_0 -1e-3))
(assert (or
    (and (<= X_1 2) (>= X_1 1))
    (and (<= X_1 -1) (>= X_1 -2.5))
))
(assert (or (and (<= Y_0 Y_1)) (and (>= Y_0 (+ (* 2 Y_1) 0.3)) (<= Y_1 7))))
"""
TWO = """(vnnlib-version <2.0>)
(declare-network N
    (declare-input  X float32 [1, 2])
    (declare-output Y float32 [1, 2])
)
(assert (<= X[0,0] 0.1)) (assert (>= X[0,0] -1e-3))
(assert (or (and (<= X[0,1] 2) (>= X[0,1] 1)) (and (<= X[0,1] -1) (>= X[0,1] -2.5))))
(assert (or (<= Y[0,0] Y[0,1]) (and (>= Y[0,0] (+ (* 2 Y[0,1]) 0.3)) (<= Y[0,1] 7))))
"""


def read(text: str, folder: Path) -> Property:
    path = folder / "property.vnnlib"
    path.write_text(text)
    return rs.read_vnnlib(path)


def test_boxes_and_alternatives_with_exact_decimals(tmp_path: Path) -> None:
    found = read(ONE, tmp_path)
    assert (found.n_inputs, found.n_outputs, found.n_free, len(found.cases)) == (2, 2, 2, 2)
    first = found.cases[0]
    assert (first.low, first.high) == ((Fraction(-1, 1000), Fraction(1)), (Fraction(1, 10), Fraction(2)))
    assert first.alternatives[0][0].terms == ((0, Fraction(1)), (1, Fraction(-1)))
    assert first.alternatives[1][0].terms == ((0, Fraction(-1)), (1, Fraction(2)))
    assert first.alternatives[1][0].bound == Fraction(-3, 10)


def test_version_two_says_the_same(tmp_path: Path) -> None:
    assert read(TWO, tmp_path).cases == read(ONE, tmp_path).cases
    assert read(TWO, tmp_path).input_shape == (1, 2)


def test_version_two_as_its_grammar_writes_it(tmp_path: Path) -> None:
    """Equality is ==, a tensor may name its value in the ONNX file, and an index may stand apart."""
    plain = TWO.replace("(assert (<= X[0,0] 0.1)) (assert (>= X[0,0] -1e-3))", "(assert (= X[0,0] 0.1))")
    text = plain.replace("(= X[0,0]", "(== X [0,0]")
    text = text.replace("X float32 [1, 2]", 'X float32 [1, 2] "in (1); x"')
    text = text.replace("Y float32 [1, 2]", 'Y real[1,2] "y"')
    found = read(text + "; the end", tmp_path)
    assert found.cases == read(plain, tmp_path).cases
    assert (found.n_free, found.cases[0].low[0], found.input_shape) == (1, Fraction(1, 10), (1, 2))


def test_holds_is_exact(tmp_path: Path) -> None:
    found = read(ONE, tmp_path)
    tenth = Fraction(1, 10)
    assert found.holds([tenth, Fraction(1)], [Fraction(2), Fraction(2)])
    assert not found.holds([Fraction(0.1), Fraction(1)], [Fraction(2), Fraction(2)])  # the float is above one tenth
    assert not found.holds([tenth, Fraction(0)], [Fraction(2), Fraction(2)])
    assert not found.holds([tenth, Fraction(1)], [Fraction(2), Fraction(1)])


def test_gzipped_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "p.vnnlib.gz").write_bytes(gzip.compress(ONE.encode()))
    assert rs.read_vnnlib(tmp_path / "p.vnnlib.gz").cases == read(ONE, tmp_path).cases


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ONE + "\n(assert (=> Y_0 3))", "line 13: Expected and, or"),
        (ONE + "(assert (<= Y_7 3))", "line 12: .*'Y_7'"),
        (ONE + "(assert (<= (* Y_0 Y_1) 3))", "line 12: .*got a product"),
        (ONE + "(assert (<= (+ X_0 X_1) 3))", "line 12: .* one input"),
        (ONE + "(assert (<= Y_0 X_1))", "line 12: .* one input"),
        (ONE + "(declare-const Z_0 Real)", "line 12: .*Z_0"),
        (ONE + "(declare-const X_0 Real)", "line 12: .*one declaration of X_0"),
        (ONE + "(assert (<= Y_0 1e99999999))", "line 12"),
        (ONE + "(assert (<= Y_0 nan))", "line 12"),
        (ONE + "(assert (<= Y_0 \u0663))", "line 12"),
        (ONE + f"(assert (<= Y_0 {'1' * 5000}))", "line 12: .*a number"),
        (ONE + "(assert (<= Y_0 1e400))", "line 12: .*at most 1e300"),
        (ONE + "(assert (<= (* 1e-200 X_0) 1e200))", "line 12: .*at most 1e100"),
        (ONE + "(assert (<= X_0 1e120))", "line 12: Expected a bound of at most 1e100"),
        (ONE + "(assert (<= Y_0))", "line 12: .*arguments of '<=', got 1"),
        (ONE + "(assert (!= Y_0 1))", "line 12: .*got '!='"),
        (ONE + "(check-sat)", "line 12: .*'check-sat'"),
        (ONE + "(assert (and (<= Y_0 3)", "line 12: .*closing bracket"),
        (ONE + ")", "line 12: .*open bracket"),
        (ONE + "(" * 300, "at most 200 deep"),
        (ONE.replace("(>= X_0 -1e-3)", "(<= X_0 3)"), "input 0"),
        (TWO.replace("Y[0,0] Y", "Y[0,4] Y"), r"line 8: .*got Y\[0,4\]"),
        (TWO.replace("declare-output", "declare-hidden"), "line 4: .*got 'declare-hidden'"),
        (TWO.replace("[1, 2])", '[1, 2] x)', 1), "line 3: Expected .declare-input"),
        (TWO.replace("[1, 2])", '[1, 2] "x)', 1), "line 3: Expected .declare-input"),
        ("", "at least one assertion"),
        ("import torch\n", "Expected a VNN-LIB file, .*got 'import' in line 1 of .*Pass a .vnnlib file"),
    ],
)  # fmt: skip
def test_anything_else_is_an_error_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(rs.InputError, match=message):
        read(text, tmp_path)


def test_a_disjunctive_form_that_explodes_is_refused(tmp_path: Path) -> None:
    many = "\n".join("(assert (or (<= Y_0 1) (<= Y_1 1)))" for _ in range(40))
    with pytest.raises(rs.InputError, match="disjunctive form"):
        read(ONE + many, tmp_path)


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(rs.InputError, match=r"no\.vnnlib: No such file or directory\. Check the path"):
        rs.read_vnnlib(tmp_path / "no.vnnlib")
    (tmp_path / "b.vnnlib").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(rs.InputError, match="Check the path"):
        rs.read_vnnlib(tmp_path / "b.vnnlib")
