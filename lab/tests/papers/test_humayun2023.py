"""The studies of Humayun et al. 2023: claims that can come out each way, and every study at smoke size."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from regionscope.errors import InputError
from regionscope_lab import sweep
from regionscope_lab.papers.chart_figures import chart_figure
from regionscope_lab.papers.charts import Pictures
from regionscope_lab.papers.humayun2023 import (
    STUDIES,
    claims,
    curves,
    deform,
    depth,
    exact,
    grokking,
    layers,
    partition,
    shift,
)
from regionscope_lab.papers.humayun2023.curves import Curve
from regionscope_lab.papers.humayun2023.regularisation import _alike, normalisation_claims
from regionscope_lab.papers.humayun2023.shape import double_descent, turning_points
from regionscope_lab.papers.study import Claim, Study
from regionscope_lab.papers.verdict import Grade
from regionscope_lab.papers.workspace import Workspace

YES, HALF, OPEN, NO = Grade.REPRODUCED, Grade.SAME_TREND, Grade.INCONCLUSIVE, Grade.NOT_REPRODUCED
DOUBLE = (5.0, 1.0, 2.0, 4.0, 0.5)


def a_curve(values: Sequence[float], error: float = 0.01, seeds: int = 1) -> Curve:
    table = np.tile(np.array(values, dtype=np.float64), (seeds, 1))
    return Curve((0, 1, 10, 100, 1000, 10_000)[: len(values)], table, np.full_like(table, error))


def grades(found: Sequence[Claim]) -> list[Grade]:
    return [claim.verdict.grade for claim in found]


def test_the_error_of_a_mean_curve_is_the_larger_of_points_and_seeds() -> None:
    values = np.array([[1.0, 2.0], [3.0, 2.0]])
    one = Curve((0, 1), values, np.full((2, 2), 0.2))
    assert one.means == (2.0, 2.0)
    assert one.errors[0] == pytest.approx(1.0)  # sqrt(2) / sqrt(2)
    assert one.errors[1] == pytest.approx(math.sqrt(0.08) / 2)
    assert one.pooled == pytest.approx([math.sqrt(0.5)] * 2)
    assert Curve((0, 1), values, np.array([[0.2, 3.0], [0.2, 3.0]])).pooled[1] == pytest.approx(math.sqrt(18) / 2)


def test_changes_along_a_curve_leave_out_the_steady_distance_of_the_seeds() -> None:
    table = np.array([DOUBLE, DOUBLE]) + np.array([[2.0], [-2.0]])
    one = Curve((0, 1, 10, 100, 1000), table, np.full_like(table, 0.01))
    assert one.pooled[0] == pytest.approx(2.0)
    assert one.wobble[0] == pytest.approx(math.sqrt(2e-4) / 2)
    assert one.shape.clear == (True, True, True)
    shaken = Curve(one.steps, table + np.array([[2.0], [-2.0]]) * [1, -1, 1, -1, 1], one.stderrs)
    assert one.wobble[0] < 0.1 < 1.5 < shaken.wobble[0]
    assert shaken.shape.ascent is None


def test_claims_about_an_ascent_say_where_there_is_none() -> None:
    up, down = a_curve(DOUBLE), a_curve((5, 4, 3, 2, 1))
    for value in (claims.peak, claims.start_of_ascent, claims.end_of_ascent, claims.duration, claims.second_descent):
        assert value(up) is not None
        assert value(down) is None
        judged = claims.ordered("", "", [1, 2], {"a": value(up), "b": value(down)})
        assert judged.verdict.grade is NO
        assert "b: no ascent" in judged.ours
        both = claims.larger("", "", ("a", value(up)), ("b", value(down)))
        assert (both.verdict.grade, "no ascent" in both.ours) == (NO, True)
    assert claims.rise(down) == pytest.approx((0.0, 0.01 * math.sqrt(2)))
    assert claims.distance(up, down, down.shape.peak) is None
    assert claims.duration(up) == pytest.approx((2.0, math.hypot(0.25, 0.5)))
    assert "no ascent" in claims.three_phases("", down).ours
    assert "3.5 joint standard errors" in claims.three_phases("", down).verdict.rule
    assert curves.phases_table("", {"": down}).rows[0][2:4] == ("none", "none")


FALLS, STAYS = (5, 4, 3, 2, 1), (5, 1, 2, 4, 4)
HIGH, FAR = (8, 4, 5, 7, 7), (9, 9, 9, 9, 9)
STAGES = {"stage1.block1.before.relu1": a_curve(STAYS), "stage1.block1.branch.relu1": a_curve(DOUBLE)}
KNOWN = a_curve((0.1, 0.5, 1, 1, 1, 1))


def parts(*courses: Sequence[float]) -> dict[str, Curve]:
    return {part: a_curve(course) for part, course in zip(("train", "test", "random"), courses, strict=True)}


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        ([claims.three_phases("", a_curve(one)) for one in (DOUBLE, (1, 2, 5, 3, 1), FALLS)], [YES, HALF, NO]),
        (normalisation_claims("", parts(*[DOUBLE] * 3), parts(*[HIGH] * 3)), [YES] * 5),
        (normalisation_claims("", parts(*[HIGH] * 3), parts(*[DOUBLE] * 3)), [HALF, NO, NO, NO, NO]),
        ([_alike("", parts(DOUBLE, (5, 1, 2, 4, 0.6), FAR))], [YES]),
        ([_alike("", parts(DOUBLE, FAR, (5, 1, 2, 4, 0.6)))], [NO]),
        (
            depth.early("", {str(v): a_curve((0.1, v, 1, 1, 1)) for v in (0.99, 0.95, 0.8)}, a_curve(DOUBLE)),
            [YES, HALF, NO],
        ),
        ([layers.alternation({**STAGES, "stage2.x": a_curve(STAYS)})], [YES]),
        ([layers.alternation({**STAGES, "stage1.block2.before.relu1": a_curve(DOUBLE)})], [NO]),
        (exact.together(a_curve((*DOUBLE, 0.6)), a_curve((*DOUBLE, 0.6))), [YES] * 3),
        (exact.together(a_curve((*DOUBLE, 0.6)), a_curve((1, 5, 2, 1.5, 5, 5.1)))[2:], [NO]),
        ([grokking.delay("", KNOWN, a_curve((0.1, 0.1, 0.1, 0.2, 0.5, 0.9)))], [YES]),
        ([grokking.delay("", KNOWN, a_curve((0.1, 0.5, 0.9, 0.9, 0.9, 0.9)))], [NO]),
        ([grokking.delay("", KNOWN, a_curve((0.1, 0.1, 0.1, 0.1, 0.2, 0.3)))], [NO]),
    ],
)
def test_claims_about_curves_come_out_each_way(made: Sequence[Claim], wanted: list[Grade]) -> None:
    assert grades(made) == wanted


def test_the_gap_is_judged_at_the_peak_and_at_the_end_whatever_its_sign() -> None:
    train = a_curve(DOUBLE)
    there, below, gone = a_curve((0, 0, 0.5, 1, 1)), a_curve((0, 0, -0.5, -1, -1)), a_curve((0, 0, 0, 0, 0))
    auc, under, chance = a_curve((0.5, 0.5, 0.6, 0.7, 0.7)), a_curve((0.5, 0.5, 0.4, 0.3, 0.3)), a_curve((0.5,) * 5)
    assert grades(depth.gap_claims(there, auc, train)) == [YES] * 4
    assert grades(depth.gap_claims(below, under, train)) == [YES] * 4
    assert "train below test" in depth.gap_claims(below, under, train)[0].ours
    assert grades(depth.gap_claims(gone, chance, train)) == [OPEN] * 4
    assert grades(depth.gap_claims(there, auc, a_curve((5, 4, 3, 2, 1)))) == [NO, YES, NO, YES]
    assert depth.use_note(auc, train) == ()
    assert "0.500 and 0.500" in depth.use_note(chance, train)[0]


def test_depth_is_judged_by_rises_gaps_and_accuracy() -> None:
    def tower(*peaks: float) -> dict[str, Curve]:
        return {f"depth {i}": a_curve((5, 1, 2, top, 0.5)) for i, top in enumerate(peaks, 2)}

    flat = {f"depth {i}": a_curve((5, 1, 1, 1, 0.5)) for i in (2, 3)}
    fine, coarse = ({"train": tower(4, 3), "test": flat, "random": flat} for _ in range(2))
    found = {claim.what: claim.verdict.grade for claim in depth.depth_claims(fine, coarse)}
    assert "train LC, r = 0.005, depth 2" not in found  # where the paper has no second descent
    assert found["train LC, r = 0.005, depth 3"] is found["train LC, r = 0.5, depth 2"] is YES
    assert found["largest rise of train LC, r = 0.005"] is found["|train - test| LC at the peak, r = 0.5"] is YES
    assert found["second descent as a share of the peak, depth 2"] is OPEN  # the same at both radii
    other = depth.depth_claims({**fine, "train": tower(3, 4), "random": tower(3, 4)}, coarse)
    assert [claim.verdict.grade for claim in other if claim.what == "largest rise of train LC, r = 0.005"] == [NO]
    assert [claim.verdict.grade for claim in other if claim.what == "largest rise, depth 2"] == [YES, OPEN]


def test_grokking_without_an_ascent_says_so() -> None:
    known, new = a_curve((0.1, 0.5, 1, 1, 1)), a_curve((0.1, 0.1, 0.1, 0.2, 0.9))
    assert grades(grokking.of_depth("", a_curve(DOUBLE), known, new)) == [YES] * 5 + [NO]  # one peak of two
    none = grokking.of_depth("", a_curve((5, 4, 3, 2, 1)), known, new)
    assert grades(none)[1:] == [NO] * 5
    assert ["no ascent" in claim.ours for claim in none[1:5]] == [True] * 4


def test_migration_is_a_rise_and_a_fall_next_to_the_data_and_a_fall_to_the_boundary() -> None:
    near, ratio = {10: (0.5, 0.05), 100: (0.7, 0.05), 1000: (0.2, 0.05)}, {10: (1.0, 0.02), 100: (0.9, 0.02)}
    away = {**ratio, 1000: (0.7, 0.02)}
    back = {**ratio, 1000: (1.1, 0.02)}
    assert grades(partition.migration_claims(near, away, 10, 100)) == [YES] * 4
    assert grades(partition.migration_claims({**near, 10: (0.9, 0.05)}, back, 10, 100)) == [NO, YES, NO, NO]
    lost = {**ratio, 1000: (math.nan, math.nan)}
    assert grades(partition.migration_claims(near, lost, 10, 100))[2:] == [OPEN, OPEN]
    assert grades(partition.migration_claims(near, away, None, None)) == [NO, NO, NO, YES]


def test_layers_are_judged_by_peak_and_gap() -> None:
    flat = (1.0, 1.0, 1.1, 1.2, 1.0)
    train = {"relu1": a_curve(DOUBLE), "relu2": a_curve(flat)}
    test = {"relu1": a_curve((5, 1, 1, 1, 0.5)), "relu2": a_curve(flat)}
    assert grades(layers.layer_claims(train, test)) == [YES] * 4
    swapped = [dict(reversed(one.items())) for one in (train, test)]
    assert grades(layers.layer_claims(*swapped)) == [HALF, NO, NO, NO]


def test_a_meeting_with_random_points_takes_an_ascent_and_two_looks() -> None:
    course = (3, 1, 1.1, 4, 0.5)
    deep, far = {"stage4": a_curve(course)}, {"stage4": a_curve((9, 9, 9, 9, 9))}
    random = {"stage4": a_curve((9, 1, 1.1, 9, 9))}
    assert layers.meeting(deep, deep, random).verdict.grade is YES
    assert layers.meeting(deep, far, random).verdict.grade is NO  # test points do not meet
    assert layers.meeting(deep, deep, {"stage4": a_curve((9, 1, 9, 9, 9))}).verdict.grade is HALF
    assert layers.meeting(deep, deep, {"stage4": a_curve((3, 9, 9, 4, 0.5))}).verdict.grade is NO  # only outside
    for other in ((3, 1, 4, 4, 0.5), (5, 4, 3, 2, 1)):
        one = {"stage4": a_curve(other)}
        assert layers.meeting(one, one, one).verdict.grade is Grade.SHOWN


def test_a_shift_is_judged_in_all_settings() -> None:
    alone = {2.0: [[4.0, 2.0]], 10.0: [[9.0, 7.0]], 25.0: [[10.0, 8.0]]}, {1.0: [[4.0, 1.0]], 5.0: [[9.0, 6.0]]}
    dims, radii = ({setting: seeds * 2 for setting, seeds in one.items()} for one in alone)
    assert grades(shift.shift_claims(dims, radii)) == [YES] * 4
    worse = {**dims, 25.0: [[10.0, 40.0]] * 2}
    assert grades(shift.shift_claims(worse, {1.0: radii[5.0], 5.0: radii[1.0]})) == [NO] * 4
    found = shift.shift_claims({**dims, 2.0: [[4.0, 2.0], [2.0, 4.0]]}, radii)
    assert found[0].verdict.grade is NO  # two seeds against each other
    assert found[2].spread == "± 0, ± 0"
    assert grades(shift.shift_claims(*alone)) == [NO, OPEN, OPEN, OPEN]  # one seed proves nothing


def test_deformation_grows_in_a_cnn_and_shrinks_in_a_resnet() -> None:
    def course(first: float, last: float) -> list[tuple[float, float]]:
        return [(first, 0.001), ((first + last) / 2, 0.001), (last, 0.001)]

    growing = {0.014: course(0.1, 0.2), 1.4: course(1.0, 5.0)}
    shrinking = {0.014: course(0.1, 0.09), 1.4: course(1.0, 0.2)}
    affine = {0.014: course(0.1, 0.5), 1.4: course(1.0, 5.0)}

    def both(one: Mapping[float, list[tuple[float, float]]]) -> deform.Sizes:
        return {"eccentricity": one, "diameter": one}

    calm = [YES, Grade.SHOWN] * 2
    assert grades(deform.cnn_claims(both(growing))) == [YES, YES, *calm]
    assert grades(deform.cnn_claims(both(shrinking))) == [NO, NO, *calm]
    assert grades(deform.resnet_claims(both(shrinking))) == [*[YES] * 4, *calm]
    assert grades(deform.resnet_claims(both(growing))) == [*[NO] * 4, *calm]
    assert grades(deform.cnn_claims(both(affine)))[2:] == [OPEN, Grade.SHOWN] * 2  # the same share at every radius


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("humayun2023"))


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_every_study_runs_at_smoke_size(study: Study, workspace: Workspace) -> None:
    missing = workspace.missing(study.experiments("smoke"))
    if missing:
        assert not sweep.run_sweep(missing, workspace.runs_folder).count("failed")
    outcome = study.analyse(workspace, "smoke")
    assert study.scaled["smoke"]
    assert outcome.claims
    assert outcome.charts
    assert outcome.grade in Grade
    for chart in {type(chart): chart for chart in outcome.charts}.values():  # one of each kind
        figure = chart_figure(chart)  # draws all but pictures, to see where there is room
        if isinstance(chart, Pictures):
            figure.draw_without_rendering()
    again = study.analyse(workspace, "smoke")
    assert json.dumps([claim.ours for claim in again.claims]) == json.dumps([claim.ours for claim in outcome.claims])


def test_a_double_descent_has_its_three_phases_and_their_places() -> None:
    shape = double_descent([0, 1, 10, 100, 1000], DOUBLE, [0.1] * 5)
    assert shape.ascent is not None
    assert shape.second_descent is not None
    assert [change.amount for change in (shape.first_descent, shape.ascent, shape.second_descent)] == [4.0, 3.0, 3.5]
    assert shape.clear == (True, True, True)
    assert (shape.valley, shape.peak) == (1, 3)
    assert shape.turns == (1, 3)
    assert shape.peaks == 1
    assert shape.ascent.error == pytest.approx(0.1 * math.sqrt(2))


@pytest.mark.parametrize(
    ("values", "clear"),
    [
        ((5, 4, 3, 2, 1), (True, False, False)),
        ((1, 2, 3, 4, 5), (False, True, False)),
        ((1, 2, 5, 3, 1), (False, True, True)),
        ((5, 3, 1, 2, 4), (True, True, False)),
        ((5, 4, 4.1, 2, 1), (True, False, False)),
        ((3, 3, 3, 3, 3), (False, False, False)),
    ],
)
def test_phases_that_are_missing_are_not_clear(values: tuple[float, ...], clear: tuple[bool, ...]) -> None:
    shape = double_descent(range(5), values, [0.1] * 5)
    assert shape.clear == clear
    assert (shape.ascent is None) == (not clear[1])


def noisy(course: NDArray[np.float64], draws: np.random.Generator, *, seeds: int = 2, noise: float = 0.1) -> Curve:
    """Seeds with the independent noise of their points, whose mean has this standard error."""
    each = noise * math.sqrt(seeds)
    values = course + draws.normal(0, each, (seeds, len(course)))
    return Curve(tuple(range(len(course))), values, np.full_like(values, each))


def test_noise_after_a_descent_is_seldom_an_ascent_and_a_double_descent_is_found() -> None:
    draws, looks = np.random.default_rng(0), np.arange(40)
    fall = np.where(looks < 13, 5 - 4 * looks / 13, 1.0)
    double = fall + np.exp(-(((looks - 26) / 4) ** 2))
    called = sum(noisy(fall, draws).shape.ascent is not None for _ in range(200))
    found = sum(all(noisy(double, draws).shape.clear) for _ in range(200))
    assert called < 20
    assert found > 190


def test_two_peaks_are_counted_and_small_ones_are_not() -> None:
    shape = double_descent(range(7), [0, 4, 1, 1.1, 1, 3, 0], [0.1] * 7)
    assert shape.turns == (1, 2, 5)
    assert shape.peaks == 2
    assert turning_points([3, 3.05, 3], [0.1] * 3) == ()
    assert double_descent([0, 1, 2], [1, 0, 1], [0.1] * 3).peaks == 0
    assert double_descent([0, 1, 2], [0, 1, 0], [0.1] * 3).peaks == 1


def test_what_is_no_curve_is_refused() -> None:
    with pytest.raises(InputError, match="two or more steps, values and errors"):
        double_descent([0], [1], [0])
    with pytest.raises(InputError, match="NaN"):
        double_descent([0, 1], [1, math.nan], [0, 0])
