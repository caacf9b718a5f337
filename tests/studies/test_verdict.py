"""The rules that grade a result: each can give every grade it names."""

from __future__ import annotations

import math

import pytest

from regionscope.measures.correlate import Coefficient
from regionscope.studies import verdict
from regionscope.studies.verdict import Grade, Verdict


@pytest.mark.parametrize(
    ("paper", "value", "interval", "grade"),
    [
        (0.98, 0.93, (0.85, 0.97), Grade.REPRODUCED),
        (0.98, 0.35, (0.01, 0.99), Grade.SAME_TREND),
        (0.90, 0.99, (0.97, 1.0), Grade.REPRODUCED),
        (0.98, 0.6, (0.2, 0.8), Grade.SAME_TREND),
        (0.98, 0.6, (-0.1, 0.99), Grade.NOT_REPRODUCED),
        (0.98, -0.9, (-0.95, -0.8), Grade.NOT_REPRODUCED),
        (-0.9, -0.85, (-0.95, -0.6), Grade.REPRODUCED),
        (-0.9, 0.85, (0.6, 0.95), Grade.NOT_REPRODUCED),
        (-0.9, -0.4, (-0.7, -0.1), Grade.SAME_TREND),
    ],
)
def test_correlation(paper: float, value: float, interval: tuple[float, float], grade: Grade) -> None:
    assert verdict.correlation(paper, Coefficient(value, interval, 27)).grade is grade


@pytest.mark.parametrize(
    ("value", "interval", "grade"),
    [
        (0.2, (0.1, 0.3), Grade.REPRODUCED),
        (-0.18, (-1.0, 1.0), Grade.SAME_TREND),
        (-0.6, (-0.9, 0.1), Grade.NOT_REPRODUCED),
        (0.7, (0.5, 0.9), Grade.NOT_REPRODUCED),
    ],
)
def test_a_measure_that_does_not_predict(value: float, interval: tuple[float, float], grade: Grade) -> None:
    assert verdict.uncorrelated(Coefficient(value, interval, 27)).grade is grade


@pytest.mark.parametrize(
    ("ours", "spread", "grade"),
    [
        ((1.0, 2.0, 3.0), (), Grade.REPRODUCED),
        ((2.0, 1.9, 3.0), (0.2, 0.2, 0.2), Grade.REPRODUCED),
        ((2.0, 1.9, 3.0), (), Grade.SAME_TREND),
        ((3.0, 2.0, 1.0), (0.1, 0.1, 0.1), Grade.NOT_REPRODUCED),
        ((1.0, 1.0, 1.0), (0.1, 0.1, 0.1), Grade.NOT_REPRODUCED),
        ((3.0, 2.0, 2.1), (10.0, 10.0, 10.0), Grade.NOT_REPRODUCED),
        ((1.0, 2.0, 3.0), (10.0, 10.0, 10.0), Grade.SAME_TREND),
        ((1.0, 2.0, 3.0), (math.nan, math.nan, math.nan), Grade.SAME_TREND),
        ((1.0, math.nan, 3.0), (), Grade.NOT_REPRODUCED),
    ],
)
def test_ordering(ours: tuple[float, ...], spread: tuple[float, ...], grade: Grade) -> None:
    assert verdict.ordering((10, 20, 30), ours, spread).grade is grade


def test_a_step_back_is_noise_below_one_error_only() -> None:
    assert verdict.ordering((3, 2, 1), (3.58, 2.61, 2.64), (0.04,) * 3).grade is Grade.REPRODUCED
    assert verdict.ordering((3, 2, 1), (3.58, 2.61, 2.71), (0.04,) * 3).grade is Grade.SAME_TREND


def test_wiggles_of_the_paper_need_not_be_repeated() -> None:
    assert verdict.ordering((10, 60, 55, 90), (10, 50, 60, 90)).grade is Grade.SAME_TREND
    assert verdict.ordering((10, 60, 55, 90), (10, 50, 60, 90), noise=6).grade is Grade.REPRODUCED


def test_an_ordering_compares_as_many_values_as_the_paper_has() -> None:
    with pytest.raises(ValueError, match="3 and 2"):
        verdict.ordering((1, 2, 3), (1, 2))


@pytest.mark.parametrize(
    ("larger", "grade"), [(2.0, Grade.REPRODUCED), (1.1, Grade.SAME_TREND), (0.9, Grade.NOT_REPRODUCED)]
)
def test_a_difference(larger: float, grade: Grade) -> None:
    assert verdict.differs(larger, 1.0, 0.2).grade is grade


@pytest.mark.parametrize(("larger", "grade"), [(1e6, Grade.SAME_TREND), (0.9, Grade.NOT_REPRODUCED)])
def test_single_values_prove_no_difference(larger: float, grade: Grade) -> None:
    judged = verdict.differs(larger, 1.0, math.nan)
    assert judged.grade is grade
    assert "a single value has no standard error" in judged.rule
    assert "single" not in verdict.differs(larger, 1.0, 0.0).rule


def test_an_order_of_single_values_is_a_trend_at_most() -> None:
    for unknown in ((math.nan,) * 3, (0.0, math.nan, 0.0)):
        judged = verdict.ordering((10, 20, 30), (1, 2000, 3_000_000), unknown)
        assert judged.grade is Grade.SAME_TREND
        assert "a single value has no standard error" in judged.rule
        assert verdict.ordering((10, 20, 30), (3, 2, 1), unknown).grade is Grade.NOT_REPRODUCED


@pytest.mark.parametrize(
    ("ours", "grade"), [(101, Grade.REPRODUCED), (104, Grade.SAME_TREND), (120, Grade.NOT_REPRODUCED)]
)
def test_a_number_without_chance(ours: float, grade: Grade) -> None:
    assert verdict.agrees(100, ours, within=0.01).grade is grade


def test_a_theorem_holds_in_every_case_or_does_not() -> None:
    assert verdict.holds(0, 10).grade is Grade.REPRODUCED
    assert verdict.holds(1, 10).grade is Grade.NOT_REPRODUCED
    assert verdict.holds(0, 0).grade is Grade.NOT_REPRODUCED


def test_the_weakest_claim_decides() -> None:
    good, fair, bad, shown = (Verdict(grade, "") for grade in Grade)
    assert verdict.overall([good, fair, bad]) is Grade.NOT_REPRODUCED
    assert verdict.overall([shown, good, fair]) is Grade.SAME_TREND
    assert verdict.overall([shown, good]) is Grade.REPRODUCED
    assert verdict.overall([shown]) is Grade.SHOWN


@pytest.mark.parametrize(
    ("ours", "grade"),
    [
        (1.9, Grade.REPRODUCED), (0.5, Grade.REPRODUCED), (0.3, Grade.SAME_TREND), (3.9, Grade.SAME_TREND),
        (0.2, Grade.NOT_REPRODUCED), (5.0, Grade.NOT_REPRODUCED), (0.0, Grade.NOT_REPRODUCED),
    ],
)  # fmt: skip
def test_an_order_of_magnitude(ours: float, grade: Grade) -> None:
    assert verdict.near(1.0, ours).grade is grade
