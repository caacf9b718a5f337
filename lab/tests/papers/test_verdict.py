"""The rules that grade a result: each can give every grade it names."""

from __future__ import annotations

import json
import math

import pytest

from regionscope.errors import InputError
from regionscope.file_io import plain
from regionscope.measures.correlate import Coefficient
from regionscope_lab.papers import verdict
from regionscope_lab.papers.verdict import Grade, Verdict


@pytest.mark.parametrize(
    ("paper", "value", "interval", "grade"),
    [
        (0.98, 0.93, (0.85, 0.97), Grade.REPRODUCED),
        (0.98, 0.35, (0.01, 0.99), Grade.SAME_TREND),
        (0.90, 0.99, (0.97, 1.0), Grade.REPRODUCED),
        (0.98, 0.6, (0.2, 0.8), Grade.SAME_TREND),
        (0.98, 0.6, (-0.1, 0.99), Grade.INCONCLUSIVE),
        (0.98, 0.3, (-0.1, 0.6), Grade.NOT_REPRODUCED),
        (-0.9, -0.3, (-0.85, 0.1), Grade.INCONCLUSIVE),
        (0.98, math.nan, (math.nan, math.nan), Grade.INCONCLUSIVE),
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
        (-0.18, (-1.0, 1.0), Grade.INCONCLUSIVE),
        (-0.6, (-0.9, 0.1), Grade.INCONCLUSIVE),
        (0.7, (0.5, 0.9), Grade.NOT_REPRODUCED),
        (-0.7, (-0.9, -0.6), Grade.NOT_REPRODUCED),
        (math.nan, (math.nan, math.nan), Grade.INCONCLUSIVE),
    ],
)
def test_a_measure_that_does_not_predict(value: float, interval: tuple[float, float], grade: Grade) -> None:
    assert verdict.uncorrelated(Coefficient(value, interval, 27)).grade is grade


@pytest.mark.parametrize(
    ("ours", "stderr", "grade"),
    [
        ((1.0, 2.0, 3.0), (), Grade.REPRODUCED),
        ((2.0, 1.9, 3.0), (0.2, 0.2, 0.2), Grade.SAME_TREND),  # a step back, be it noise or not, is not monotone
        ((2.0, 1.9, 3.0), (), Grade.SAME_TREND),
        ((3.0, 2.0, 1.0), (0.1, 0.1, 0.1), Grade.NOT_REPRODUCED),
        ((1.0, 1.0, 1.0), (0.1, 0.1, 0.1), Grade.INCONCLUSIVE),
        ((1.0, 1.0, 1.0), (), Grade.NOT_REPRODUCED),  # no effect, and no noise that could hide one
        ((3.0, 2.0, 2.1), (10.0, 10.0, 10.0), Grade.INCONCLUSIVE),
        ((1.0, 2.0, 3.0), (10.0, 10.0, 10.0), Grade.INCONCLUSIVE),
        ((2.0, 1.0, 2.3), (0.1, 0.1, 0.1), Grade.SAME_TREND),
        ((2.0, 9.0, 2.1), (0.1, 0.1, 0.1), Grade.INCONCLUSIVE),  # the rank correlation is 0.5
        ((9.0, 9.4, 2.0), (0.1, 0.1, 5.0), Grade.INCONCLUSIVE),
        ((1.0, 2.0, 3.0), (math.nan, math.nan, math.nan), Grade.INCONCLUSIVE),
        ((1.0, math.nan, 3.0), (), Grade.INCONCLUSIVE),
    ],
)
def test_ordering(ours: tuple[float, ...], stderr: tuple[float, ...], grade: Grade) -> None:
    assert verdict.ordering((10, 20, 30), ours, stderr).grade is grade


def test_monotone_means_monotone() -> None:
    assert verdict.ordering((3, 2, 1), (3.585, 2.74, 2.654), (0.07, 0.05, 0.08)).grade is Grade.REPRODUCED
    assert verdict.ordering((3, 2, 1), (3.585, 2.654, 2.740), (0.07, 0.08, 0.05)).grade is Grade.SAME_TREND


def test_a_clear_pair_against_the_order_contradicts_it() -> None:
    ours = (1.0, 9.0, 0.0, 0.5, 3.0)
    assert verdict.ordering((1, 2, 3, 4, 5), ours, (0.1,) * 5).grade is Grade.NOT_REPRODUCED
    assert verdict.ordering((1, 2, 3, 4, 5), ours, (0.5, 9.0, 0.5, 0.5, 0.5)).grade is Grade.INCONCLUSIVE


def test_wiggles_of_the_paper_need_not_be_repeated() -> None:
    assert verdict.ordering((10, 60, 55, 90), (10, 50, 60, 90)).grade is Grade.SAME_TREND
    assert verdict.ordering((10, 60, 55, 90), (10, 50, 60, 90), noise=6).grade is Grade.REPRODUCED
    assert verdict.ordering((10, 60, 55, 90), (10, 50, 60, 90), noise=60).grade is Grade.SAME_TREND  # one pair is left


def test_an_ordering_compares_as_many_values_as_the_paper_has() -> None:
    with pytest.raises(InputError, match="3 and 2"):
        verdict.ordering((1, 2, 3), (1, 2))


@pytest.mark.parametrize(
    ("larger", "grade"),
    [
        (2.0, Grade.REPRODUCED),
        (1.1, Grade.INCONCLUSIVE),
        (0.9, Grade.INCONCLUSIVE),
        (0.5, Grade.NOT_REPRODUCED),
    ],
)
def test_a_difference(larger: float, grade: Grade) -> None:
    assert verdict.differs(larger, 1.0, 0.2).grade is grade


def test_a_difference_without_noise_is_there_or_not() -> None:
    assert verdict.differs(1.1, 1.0, 0.0).grade is Grade.REPRODUCED
    assert verdict.differs(1.0, 1.0, 0.0).grade is Grade.NOT_REPRODUCED


@pytest.mark.parametrize("larger", [1e6, 0.9])
def test_single_values_prove_no_difference(larger: float) -> None:
    judged = verdict.differs(larger, 1.0, math.nan)
    assert judged.grade is Grade.INCONCLUSIVE
    assert "a single value has no standard error" in judged.rule
    assert "single" not in verdict.differs(larger, 1.0, 0.0).rule


@pytest.mark.parametrize(
    ("interval", "grade"),
    [((0.1, 0.3), Grade.REPRODUCED), ((-0.1, 0.3), Grade.INCONCLUSIVE), ((-0.3, -0.1), Grade.NOT_REPRODUCED)],
)
def test_a_difference_by_its_interval(interval: tuple[float, float], grade: Grade) -> None:
    assert verdict.positive(interval).grade is grade


@pytest.mark.parametrize(
    ("clear", "grade"),
    [
        ((True, True, True), Grade.REPRODUCED),
        ((True, True, False), Grade.SAME_TREND),
        ((True, False, False), Grade.NOT_REPRODUCED),
    ],
)
def test_phases(clear: tuple[bool, ...], grade: Grade) -> None:
    assert verdict.phases(clear, beyond=3.5).grade is grade


def test_another_number_of_peaks_is_not_a_trend() -> None:
    assert verdict.counted(2, 2).grade is Grade.REPRODUCED
    assert verdict.counted(2, 1).grade is Grade.NOT_REPRODUCED


def test_one_seed_is_never_reproduced_where_errors_decide() -> None:
    reproduced = (
        verdict.differs(2.0, 1.0, 0.1),
        verdict.ordering((1, 2), (1.0, 2.0), (0.1, 0.1)),
        verdict.phases((True, True, True), beyond=3.5),
        verdict.together(2, least=2),
    )
    for judged in reproduced:
        assert judged.grade is Grade.REPRODUCED
        assert verdict.one_seed(judged).grade is Grade.SAME_TREND
        assert "one seed" in verdict.one_seed(judged).rule
    for kept in (verdict.holds(0, 3), verdict.differs(1.0, 2.0, 0.1), verdict.differs(1.0, 1.1, 0.1)):
        assert verdict.one_seed(kept) == kept


def test_a_stored_claim_is_graded_again_by_its_numbers() -> None:
    every = (
        verdict.correlation(0.98, Coefficient(0.9, (0.8, 0.95), 27)),
        verdict.uncorrelated(Coefficient(math.nan, (math.nan, math.nan), 0)),
        verdict.ordering((3, 2, 1), (3.0, 2.0, 1.0), (0.1, math.nan, 0.1), noise=0.5),
        verdict.differs(1.0, 2.0, math.nan),
        verdict.positive((0.1, 0.2)),
        verdict.grows(2.0, 1.9, (1.5, 2.2)),
        verdict.stays((0.9, 1.1)),
        verdict.phases((True, False, True), beyond=3.5),
        verdict.absent(beyond=3.5),
        verdict.together(1, least=2),
        verdict.agrees(1.0, 1.01, within=0.02),
        verdict.counted(2, 1),
        verdict.holds(0, 5),
        verdict.probable(9, 10, least=0.9),
        verdict.small(0.02, limit=0.01),
        verdict.near(1.0, 3.0),
        verdict.shown(),
    )
    for one in every:
        again = verdict.judge(one.by, json.loads(json.dumps(plain(one.given))))
        assert (again.grade, again.rule, again.by) == (one.grade, one.rule, one.by)
    with pytest.raises(ValueError, match="got 'guess'"):
        verdict.judge("guess", {})


@pytest.mark.parametrize(
    ("value", "grade"),
    [
        (0.01, Grade.REPRODUCED),
        (0.035, Grade.SAME_TREND),
        (0.2, Grade.NOT_REPRODUCED),
        (math.nan, Grade.INCONCLUSIVE),
    ],
)
def test_a_residual(value: float, grade: Grade) -> None:
    assert verdict.small(value, limit=0.01).grade is grade


@pytest.mark.parametrize(
    ("ours", "grade"), [(101, Grade.REPRODUCED), (104, Grade.SAME_TREND), (120, Grade.NOT_REPRODUCED)]
)
def test_a_number_without_chance(ours: float, grade: Grade) -> None:
    assert verdict.agrees(100, ours, within=0.01).grade is grade


@pytest.mark.parametrize(
    ("ours", "error", "grade"),
    [
        (100.2, 0.3, Grade.REPRODUCED),
        (100.2, 0.5, Grade.SAME_TREND),  # up to 1.2% off
        (100.2, 3.0, Grade.INCONCLUSIVE),
        (110.0, 3.0, Grade.INCONCLUSIVE),
        (110.0, 2.0, Grade.NOT_REPRODUCED),
        (100.0, math.nan, Grade.INCONCLUSIVE),
    ],
)
def test_a_number_with_an_error(ours: float, error: float, grade: Grade) -> None:
    assert verdict.agrees(100, ours, within=0.01, error=error).grade is grade


def test_a_theorem_holds_in_every_case_or_does_not() -> None:
    assert verdict.holds(0, 10).grade is Grade.REPRODUCED
    assert verdict.holds(1, 10).grade is Grade.NOT_REPRODUCED
    assert verdict.holds(0, 0).grade is Grade.INCONCLUSIVE


@pytest.mark.parametrize(
    ("successes", "cases", "grade"),
    [
        (40, 40, Grade.REPRODUCED),
        (10, 10, Grade.INCONCLUSIVE),
        (30, 40, Grade.NOT_REPRODUCED),
        (0, 0, Grade.INCONCLUSIVE),
    ],
)
def test_a_promised_probability(successes: int, cases: int, grade: Grade) -> None:
    assert verdict.probable(successes, cases, least=0.9).grade is grade


def test_the_weakest_claim_decides() -> None:
    good, fair, unclear, bad, shown = (Verdict(grade, "") for grade in Grade)
    assert verdict.overall([good, fair, unclear, bad]) is Grade.NOT_REPRODUCED
    assert verdict.overall([good, fair, unclear]) is Grade.INCONCLUSIVE
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
