"""The rules that grade a result: each can give every grade it names."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

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
        (0.98, 0.6, (0.2, 0.8), Grade.SAME_TREND),
        (0.98, 0.6, (-0.1, 0.99), Grade.INCONCLUSIVE),
        (0.98, 0.3, (-0.1, 0.6), Grade.NOT_REPRODUCED),
        (0.98, math.nan, (math.nan, math.nan), Grade.INCONCLUSIVE),
        (0.98, -0.9, (-0.95, -0.8), Grade.NOT_REPRODUCED),
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


def test_wiggles_of_the_paper_need_not_be_repeated() -> None:
    assert verdict.ordering((10, 60, 55, 90), (10, 50, 60, 90)).grade is Grade.SAME_TREND
    assert verdict.ordering((10, 60, 55, 90), (10, 50, 60, 90), noise=6).grade is Grade.REPRODUCED
    assert verdict.ordering((10, 60, 55, 90), (10, 50, 60, 90), noise=60).grade is Grade.SAME_TREND  # one pair is left
    clear = (1.0, 9.0, 0.0, 0.5, 3.0)  # a clear pair against the order contradicts it
    assert verdict.ordering((1, 2, 3, 4, 5), clear, (0.1,) * 5).grade is Grade.NOT_REPRODUCED
    assert verdict.ordering((1, 2, 3, 4, 5), clear, (0.5, 9.0, 0.5, 0.5, 0.5)).grade is Grade.INCONCLUSIVE
    with pytest.raises(InputError, match="3 and 2"):
        verdict.ordering((1, 2, 3), (1, 2))


YES, NEAR, OPEN, NO = Grade.REPRODUCED, Grade.SAME_TREND, Grade.INCONCLUSIVE, Grade.NOT_REPRODUCED


@pytest.mark.parametrize(
    ("judge", "cases"),
    [
        (lambda larger: verdict.differs(larger, 1.0, 0.2), {2.0: YES, 1.1: OPEN, 0.9: OPEN, 0.5: NO}),
        (lambda larger: verdict.differs(larger, 1.0, 0.0), {1.1: YES, 1.0: NO}),
        (lambda larger: verdict.differs(larger, 1.0, math.nan), {1e6: OPEN, 0.9: OPEN}),  # single values prove nothing
        (verdict.positive, {(0.1, 0.3): YES, (-0.1, 0.3): OPEN, (-0.3, -0.1): NO}),
        (
            lambda clear: verdict.phases(clear, beyond=3.5),
            {(True, True, True): YES, (True, True, False): NEAR, (True, False, False): NO},
        ),
        (lambda ours: verdict.counted(2, ours), {2: YES, 1: NO}),
        (lambda value: verdict.small(value, limit=0.01), {0.01: YES, 0.035: NEAR, 0.2: NO, math.nan: OPEN}),
        (lambda ours: verdict.agrees(100, ours, within=0.01), {101: YES, 104: NEAR, 120: NO}),
        (lambda error: verdict.agrees(100, 100.2, within=0.01, error=error), {0.3: YES, 0.5: NEAR, 3.0: OPEN}),
        (lambda error: verdict.agrees(100, 110.0, within=0.01, error=error), {3.0: OPEN, 2.0: NO}),
        (lambda failures: verdict.holds(failures, 10), {0: YES, 1: NO}),
        (lambda cases: verdict.holds(0, cases), {0: OPEN}),
        (lambda successes: verdict.probable(successes, 40, least=0.9), {40: YES, 30: NO}),
        (lambda cases: verdict.probable(cases, cases, least=0.9), {10: OPEN, 0: OPEN}),
        (lambda ours: verdict.near(1.0, ours), {1.9: YES, 0.5: YES, 0.3: NEAR, 3.9: NEAR, 0.2: NO, 5.0: NO, 0.0: NO}),
    ],
)
def test_each_rule_can_give_each_of_its_grades(judge: Callable[[Any], Verdict], cases: dict[Any, Grade]) -> None:
    assert {case: judge(case).grade for case in cases} == cases


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


def test_the_weakest_claim_decides() -> None:
    good, fair, unclear, bad, shown = (Verdict(grade, "") for grade in Grade)
    assert verdict.overall([good, fair, unclear, bad]) is Grade.NOT_REPRODUCED
    assert verdict.overall([good, fair, unclear]) is Grade.INCONCLUSIVE
    assert verdict.overall([shown, good, fair]) is Grade.SAME_TREND
    assert verdict.overall([shown, good]) is Grade.REPRODUCED
    assert verdict.overall([shown]) is Grade.SHOWN
