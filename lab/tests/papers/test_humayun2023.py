"""The studies of Humayun et al. 2023: claims that can come out each way, and every study at smoke size."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

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
    width,
)
from regionscope_lab.papers.humayun2023.curves import Curve
from regionscope_lab.papers.humayun2023.regularisation import _alike, normalisation_claims
from regionscope_lab.papers.humayun2023.settings import FINE, cnn, imagenet, mlp, mlp_grid, resnet
from regionscope_lab.papers.study import Claim, Size, Study
from regionscope_lab.papers.verdict import Grade
from regionscope_lab.papers.workspace import Workspace

YES, HALF, OPEN, NO = Grade.REPRODUCED, Grade.SAME_TREND, Grade.INCONCLUSIVE, Grade.NOT_REPRODUCED
DOUBLE = (5.0, 1.0, 2.0, 4.0, 0.5)


def a_curve(values: Sequence[float], error: float = 0.01, seeds: int = 1) -> Curve:
    table = np.tile(np.array(values, dtype=np.float64), (seeds, 1))
    return Curve((0, 1, 10, 100, 1000, 10_000)[: len(values)], table, np.full_like(table, error))


def grades(found: Sequence[Claim]) -> list[Grade]:
    return [claim.verdict.grade for claim in found]


# Curves and claims


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


def test_one_large_seed_error_does_not_hide_an_ascent() -> None:
    course = np.array([5.0, 3.0, 1.0, 1.0, 1.6, 1.9, 2.0, 1.0, 0.6, 0.4])
    apart = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 5.0, 1.0, -1.0, 1.0]) * 0.06  # the top is the least sure look
    table = np.stack([course + apart, course - apart])
    one = Curve(tuple(range(10)), table, np.full_like(table, 0.01))
    assert (2.0 - 1.0) / math.hypot(one.errors[2], one.errors[6]) < 3.5
    assert one.shape.clear == (True, True, True)
    assert one.shape.peak == 6


def test_the_last_two_looks_count_once_where_they_are_one() -> None:
    assert curves._apart([0, 1, 4000, 8000, 8036]) == (0, 1, 4000, 8036)
    assert curves._apart([0, 1, 4000, 8000]) == (0, 1, 4000, 8000)
    assert curves._apart([999, 1000]) == (999, 1000)


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


def test_three_phases_can_come_out_each_way() -> None:
    courses = (DOUBLE, (1, 2, 5, 3, 1), (5, 4, 3, 2, 1))
    assert grades([claims.three_phases("", a_curve(one)) for one in courses]) == [YES, HALF, NO]


def test_batch_normalisation_is_judged_by_level_and_second_descent() -> None:
    def parts(values: Sequence[float]) -> dict[str, Curve]:
        return {part: a_curve(values) for part in ("train", "test", "random")}

    high = [value + 3 for value in (5, 1, 2, 4, 4)]
    assert grades(normalisation_claims("", parts(DOUBLE), parts(high))) == [YES] * 5
    assert grades(normalisation_claims("", parts(high), parts(DOUBLE))) == [HALF, NO, NO, NO, NO]
    assert normalisation_claims("", parts((5, 4, 3, 2, 1)), parts(high))[-1].verdict.grade is NO


def test_train_and_test_are_alike_or_not() -> None:
    near, far = a_curve((5, 1, 2, 4, 0.6)), a_curve((9, 9, 9, 9, 9))
    assert _alike("", {"train": a_curve(DOUBLE), "test": near, "random": far}).verdict.grade is YES
    assert _alike("", {"train": a_curve(DOUBLE), "test": far, "random": near}).verdict.grade is NO


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


def test_accuracy_at_the_valley_comes_out_each_way() -> None:
    train = a_curve(DOUBLE)
    known = {str(v): a_curve((0.1, v, 1.0, 1.0, 1.0)) for v in (0.99, 0.95, 0.8)}
    assert grades(depth.early("", known, train)) == [YES, HALF, NO]
    assert grades(depth.early("", known, a_curve((5, 4, 3, 2, 1)))) == [NO] * 3


def test_grokking_needs_a_late_test_accuracy_that_comes() -> None:
    train = a_curve((0.1, 0.5, 1, 1, 1, 1))
    late, early, never = (
        (0.1, 0.1, 0.1, 0.2, 0.5, 0.9),
        (0.1, 0.5, 0.9, 0.9, 0.9, 0.9),
        (0.1, 0.1, 0.1, 0.1, 0.2, 0.3),
    )
    assert grokking.reached(a_curve(late)) == 10_000
    found = [grokking.delay("", train, a_curve(test)) for test in (late, early, never)]
    assert grades(found) == [YES, NO, NO]


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


def test_exact_counts_move_with_local_complexity_or_not() -> None:
    values = (5.0, 1.0, 2.0, 4.0, 0.5, 0.6)
    other = (1.0, 5.0, 2.0, 1.5, 5.0, 5.1)
    assert grades(exact.together(a_curve(values), a_curve(values))) == [YES] * 3
    assert grades(exact.together(a_curve(values), a_curve(other)))[2] is NO


def test_layers_are_judged_by_peak_and_gap() -> None:
    flat = (1.0, 1.0, 1.1, 1.2, 1.0)
    train = {"relu1": a_curve(DOUBLE), "relu2": a_curve(flat)}
    test = {"relu1": a_curve((5, 1, 1, 1, 0.5)), "relu2": a_curve(flat)}
    assert grades(layers.layer_claims(train, test)) == [YES] * 4
    swapped = [dict(reversed(one.items())) for one in (train, test)]
    assert grades(layers.layer_claims(*swapped)) == [HALF, NO, NO, NO]


def test_the_second_descent_alternates_in_the_first_stage_or_not() -> None:
    falls, stays = a_curve(DOUBLE), a_curve((5, 1, 2, 4, 4))
    one = {"stage1.block1.before.relu1": stays, "stage1.block1.branch.relu1": falls, "stage2.x": stays}
    assert layers.alternation(one).verdict.grade is YES
    assert layers.alternation({**one, "stage1.block2.before.relu1": falls}).verdict.grade is NO


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


def test_deformation_is_compared_on_average_over_the_radii_on_each_side() -> None:
    change = {0.0014: 0.5, 0.014: 0.1, 0.14: 0.4, 1.4: 0.9}  # the least above is below the most up to 0.014
    judged, shown = deform.calmer("size", {r: [(r, 0.0), (r * (1 + c), 0.01 * r)] for r, c in change.items()})
    assert judged.verdict.grade is YES
    assert judged.ours == "r > 0.014: 0.65, r <= 0.014: 0.3"
    turned, _ = deform.calmer("size", {r: [(r, 0.0), (r * (2 - c), 0.01 * r)] for r, c in change.items()})
    assert turned.verdict.grade is NO
    assert shown.verdict.grade is Grade.SHOWN


def test_sharpness_has_two_readings() -> None:
    slow, fast = a_curve((5, 1, 2, 3, 4)), a_curve((5, 1, 3, 2, 1))
    assert claims.rise(slow) > claims.rise(fast)
    assert claims.steepness(slow)[0] == pytest.approx(3 / math.log10(1001 / 2))
    assert claims.steepness(fast)[0] == pytest.approx(2 / math.log10(11 / 2))
    assert claims.steepness(fast) > claims.steepness(slow)
    assert claims.steepness(a_curve((5, 4, 3, 2, 1)))[0] == 0.0


def test_sizes_of_seeds_are_joined_with_the_larger_error_and_without_the_input_twice() -> None:
    one, other = [[1.0, 0.1], [1.0, 0.1], [2.0, 0.1]], [[1.0, 0.1], [1.0, 0.1], [4.0, 0.1]]
    found = deform.over_seeds([one, other])
    assert len(found) == 2
    assert found[0] == pytest.approx((1.0, math.sqrt(0.02) / 2))
    assert found[1] == pytest.approx((3.0, 1.0))


def test_the_papers_widths_are_those_that_are_there() -> None:
    assert width._paper_peak((20, 1000)) == "more with width up to 1,000"
    assert width._paper_peak((20, 1000, 2000)) == "more with width up to 1,000, less at 2,000"


# Runs


def test_studies_share_the_runs_of_the_usual_network() -> None:
    keys = {study.name: {one.key for one in study.experiments("desk")} for study in STUDIES}
    base = {one.key for one in mlp("desk", depth=4)}
    assert base == keys["humayun2023-figure1"] == keys["humayun2023-migration"] == keys["humayun2023-gap"]
    assert base < keys["humayun2023-figure3"]
    assert keys["humayun2023-figure14"] <= keys["humayun2023-figure3"] & keys["humayun2023-figure10"]
    assert keys["humayun2023-figure18"] < keys["humayun2023-figure7"]


def test_images_lie_in_the_cube_of_the_random_points() -> None:
    for one in (cnn("full", depth=5, bn=False)[0], resnet("full", bn=True)[0]):
        assert (one.data.normalise, one.data.options) == (False, {"symmetric": True})
        assert next(m for m in one.measures if m.name == "lc").options["domain"] == [-1.0, 1.0]
    assert cnn("full", depth=5, bn=False)[0].network.options["flatten"] is True


@pytest.mark.parametrize("figure", [1, 3, 4, 6, 7, 8, 10, 11, 13, 14, 15, 18])
def test_pages_about_networks_of_a_depth_define_it(figure: int) -> None:
    (study,) = (one for one in STUDIES if one.name == f"humayun2023-figure{figure}")
    assert "Depth is the number of" in study.scaled["desk"]
    assert "Depth is the number of" in study.scaled["full"]


@pytest.mark.parametrize("size", ["desk", "full"])
def test_no_page_gives_the_paper_a_batch_size(size: Size) -> None:
    for study in STUDIES:
        assert "in place of 200" not in study.scaled.get(size, "")


def test_the_full_size_is_the_papers() -> None:
    one = mlp("full", depth=4)[0]
    assert (one.data.name, one.data.n_train, one.data.normalise) == ("mnist", 1000, False)
    assert one.network.options == {"depth": 3, "width": 200, "activation": "relu", "scale": 1.0}
    training = one.training
    assert (training.lr, training.weight_decay, training.loss) == (1e-3, 0.01, "mse")
    assert training.epochs * 5 == 100_000
    assert {measure.options.get("radius") for measure in one.measures} >= {FINE, 0.5}
    assert mlp_grid("full").widths == (20, 100, 500, 1000, 2000)
    assert imagenet("full")[0].network.options == {"stem": "imagenet"}


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


def test_dashed_curves_have_the_colour_of_what_they_are_compared_with() -> None:
    pairs = {"depth 2": a_curve(DOUBLE), "depth 3": a_curve((1, 2, 3, 4, 5))}
    drawn = chart_figure(curves.chart("", pairs, pairs)).axes[0].lines
    colours = [line.get_color() for line in drawn]
    assert colours[:2] == colours[2:]
    assert len(set(colours)) == 2
    assert [line.get_linestyle() for line in drawn] == ["-", "-", "--", "--"]
