"""When to measure: schedules in words and in Python."""

from __future__ import annotations

import pytest

from regionscope.errors import InputError
from regionscope.monitor import Monitor, Schedule, every, log_spaced, parse_schedule
from small_training import weight


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        ("end", (100,)),
        ("start", (0, 100)),
        ("start and end", (0, 100)),
        ("every 5 epochs", (0, 50, 100)),
        ("every epoch", (0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)),
        ("every 40 steps", (0, 40, 80, 100)),
        ("log 1 1000 4", (1, 10, 100)),
        ("start and log 1 10 2 and every 60 steps", (0, 1, 10, 60, 100)),
        ("steps 3 7", (3, 7, 100)),
    ],
)
def test_words(words: str, steps: tuple[int, ...]) -> None:
    schedule = parse_schedule(words)
    assert schedule.steps(100, per_epoch=10) == steps
    assert parse_schedule(str(schedule)) == schedule
    inside = [step for step in range(100) if schedule.includes(step, per_epoch=10)]
    assert inside == [step for step in steps if step < 100]


@pytest.mark.parametrize("words", ["", "sometimes", "every", "every 0 steps", "every -1 steps", "log 1 2", "log 5 2 3"])
def test_words_that_are_none(words: str) -> None:
    with pytest.raises(InputError):
        parse_schedule(words)


def test_schedules_in_python() -> None:
    assert log_spaced(1, 1000, 4) == Schedule(points=(1, 10, 100, 1000))
    dense = log_spaced(1, 10, 100).points
    assert dense == tuple(range(1, 11))
    assert every(2, "epochs") == parse_schedule("every 2 epochs")
    for wrong in (lambda: every(0), lambda: every(1.5), lambda: every(True), lambda: every(2, "days")):
        with pytest.raises(InputError, match="every"):
            wrong()
    for a, b, points in ((0, 10, 3), (5, 4, 3), (1, 10, 1), (1, 10, 2.5), (1.5, 10, 3)):
        with pytest.raises(InputError, match=f"whole numbers 1 <= a .*got a = {a}, b = {b} and points = {points}"):
            log_spaced(a, b, points)
    assert str(Schedule(points=(5, 0))) == "start and steps 5 and end"
    with pytest.raises(InputError, match=r"Write every[(]n[)], log_spaced[(]a, b, points[)]"):
        Monitor({"weight": weight}, [1, 2, 3])
    with pytest.raises(InputError, match="steps_per_epoch"):
        every(2, "epochs").includes(4)
