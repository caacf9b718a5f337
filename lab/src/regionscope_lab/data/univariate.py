"""Points on a line with the labels of a teacher network: the setting of Safran, Vardi and Lee 2022 as a data set."""

from __future__ import annotations

from collections.abc import Sequence

from regionscope_lab.data.dataset import Dataset, DataSplit, derived_seed
from regionscope_lab.shallow import Teacher, alternating_teacher, random_teacher, sample, teacher_from_switches


def univariate(
    n: int = 100,
    *,
    teacher_width: int = 3,
    switches: int | Sequence[float] | None = None,
    radius: float = 1.0,
    seed: int = 0,
) -> Dataset:
    """n uniform points of [-radius, radius], ascending, with label 1 where the teacher is positive and 0 elsewhere.

    The teacher is random with ``teacher_width`` units, or changes its sign at the given ``switches``, or at that number
    of evenly spaced ones. Teacher and points are those of ``regionscope-lab shallow flow`` with the same seed.
    """
    return _draw(_teacher(teacher_width, switches, radius, seed), n, seed + 1)


def univariate_split(
    n_train: int,
    n_test: int,
    *,
    teacher_width: int = 3,
    switches: int | Sequence[float] | None = None,
    radius: float = 1.0,
    seed: int = 0,
) -> DataSplit:
    """``univariate`` to train on, and other points with the labels of the same teacher."""
    teacher = _teacher(teacher_width, switches, radius, seed)
    return DataSplit(_draw(teacher, n_train, seed + 1), _draw(teacher, n_test, derived_seed(seed, "test")))


def _teacher(width: int, switches: int | Sequence[float] | None, radius: float, seed: int) -> Teacher:
    if isinstance(switches, int):
        return alternating_teacher(switches, radius=radius)
    if switches is not None or width == 1:
        return teacher_from_switches(switches or [], radius=radius)
    return random_teacher(width, radius=radius, seed=seed)


def _draw(teacher: Teacher, n: int, seed: int) -> Dataset:
    drawn = sample(teacher, n, seed=seed)
    return Dataset("univariate", drawn.x.float()[:, None], (drawn.y > 0).long(), 2)
