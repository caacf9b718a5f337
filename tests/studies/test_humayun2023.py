"""The studies of Humayun et al. 2023: shapes, claims that can come out each way, and every study at smoke size."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from regionscope.errors import InputError
from regionscope.lab import sweep
from regionscope.lab.experiment import check
from regionscope.plot.charts import chart_figure
from regionscope.studies.humayun2023 import (
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
from regionscope.studies.humayun2023.curves import Curve
from regionscope.studies.humayun2023.regularisation import normalisation_claims
from regionscope.studies.humayun2023.settings import FINE, imagenet, mlp, mlp_grid
from regionscope.studies.humayun2023.shape import double_descent, turning_points
from regionscope.studies.study import SIZES, Claim, Study
from regionscope.studies.verdict import Grade
from regionscope.studies.workspace import Workspace

YES, HALF, NO = Grade.REPRODUCED, Grade.SAME_TREND, Grade.NOT_REPRODUCED
DOUBLE = (5.0, 1.0, 2.0, 4.0, 0.5)


def a_curve(values: Sequence[float], error: float = 0.01, seeds: int = 1) -> Curve:
    table = np.tile(np.array(values, dtype=np.float64), (seeds, 1))
    return Curve((0, 1, 10, 100, 1000, 10_000)[: len(values)], table, np.full_like(table, error))


def grades(found: Sequence[Claim]) -> list[Grade]:
    return [claim.verdict.grade for claim in found]


# Shapes


def test_a_double_descent_has_its_three_phases_and_their_places() -> None:
    shape = double_descent([0, 1, 10, 100, 1000], DOUBLE, [0.1] * 5)
    assert [change.amount for change in shape.phases] == [4.0, 3.0, 3.5]
    assert [change.clear for change in shape.phases] == [True] * 3
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
    assert tuple(change.clear for change in shape.phases) == clear


def test_a_rise_within_the_noise_is_no_ascent_and_the_descent_is_one() -> None:
    shape = double_descent(range(5), DOUBLE, [1.5] * 5)
    assert [change.clear for change in shape.phases] == [True, False, False]
    assert shape.first_descent.amount == 4.5
    assert shape.turns == ()


def test_two_peaks_are_counted_and_small_ones_are_not() -> None:
    shape = double_descent(range(7), [0, 4, 1, 1.1, 1, 3, 0], [0.1] * 7)
    assert shape.turns == (1, 2, 5)
    assert shape.peaks == 2
    assert turning_points([3, 3.05, 3], [0.1] * 3) == ()
    assert double_descent([0, 1, 2], [1, 0, 1], [0.1] * 3).peaks == 0
    assert double_descent([0, 1, 2], [0, 1, 0], [0.1] * 3).peaks == 1


def test_what_is_no_curve_is_refused() -> None:
    with pytest.raises(InputError, match="two or more of each"):
        double_descent([0], [1], [0])
    with pytest.raises(InputError, match="NaN"):
        double_descent([0, 1], [1, math.nan], [0, 0])


# Curves and claims


def test_the_error_of_a_mean_curve_is_the_larger_of_points_and_seeds() -> None:
    values = np.array([[1.0, 2.0], [3.0, 2.0]])
    one = Curve((0, 1), values, np.full((2, 2), 0.2))
    assert one.means == (2.0, 2.0)
    assert one.errors[0] == pytest.approx(1.0)  # sqrt(2) / sqrt(2)
    assert one.errors[1] == pytest.approx(math.sqrt(0.08) / 2)


def test_three_phases_can_come_out_each_way() -> None:
    courses = (DOUBLE, (1, 2, 5, 3, 1), (5, 4, 3, 2, 1))
    assert grades([claims.three_phases("", a_curve(one)) for one in courses]) == [YES, HALF, NO]


def test_batch_normalisation_is_judged_by_level_and_second_descent() -> None:
    def parts(values: Sequence[float]) -> dict[str, Curve]:
        return {part: a_curve(values) for part in ("train", "test", "random")}

    high = [value + 3 for value in (5, 1, 2, 4, 4)]
    assert grades(normalisation_claims("", parts(DOUBLE), parts(high))) == [YES] * 5
    assert grades(normalisation_claims("", parts(high), parts(DOUBLE))) == [HALF, NO, NO, NO, NO]


def test_the_gap_is_judged_at_the_peak_and_at_the_end() -> None:
    train = a_curve(DOUBLE)
    there, gone = a_curve((0, 0, 0.5, 1, 1)), a_curve((0, 0, 0, 0, 0))
    auc, chance = a_curve((0.5, 0.5, 0.6, 0.7, 0.7)), a_curve((0.5,) * 5)
    assert grades(depth.gap_claims(there, auc, train)) == [YES] * 3
    assert grades(depth.gap_claims(gone, chance, train)) == [NO] * 3


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


def test_migration_is_a_fall_of_both_numbers() -> None:
    near, ratio = {0: (1.0, 0.05), 100: (0.7, 0.05), 1000: (0.2, 0.05)}, {0: (1.0, 0.02), 100: (0.9, 0.02)}
    away = {**ratio, 1000: (0.7, 0.02)}
    back = {**ratio, 1000: (1.1, 0.02)}
    assert grades(partition.migration_claims(near, away, 100)) == [YES, YES, YES]
    assert grades(partition.migration_claims(near, back, 100)) == [YES, NO, NO]
    lost = {**ratio, 1000: (math.nan, math.nan)}
    assert grades(partition.migration_claims(near, lost, 100))[1:] == [NO, NO]


def test_exact_counts_move_with_local_complexity_or_not() -> None:
    values = (5.0, 1.0, 2.0, 4.0, 0.5, 0.6)
    other = (1.0, 5.0, 2.0, 1.5, 5.0, 5.1)
    assert grades(exact.together(a_curve(values), a_curve(values))) == [YES] * 3
    assert grades(exact.together(a_curve(values), a_curve(other)))[2] is NO


def test_layers_are_judged_by_peak_and_gap() -> None:
    flat = (1.0, 1.0, 1.1, 1.2, 1.0)
    train = {"relu1": a_curve(DOUBLE), "relu2": a_curve(flat)}
    test = {"relu1": a_curve((5, 1, 1, 1, 0.5)), "relu2": a_curve(flat)}
    assert grades(layers.layer_claims(train, test)) == [YES] * 3
    swapped = [dict(reversed(one.items())) for one in (train, test)]
    assert grades(layers.layer_claims(*swapped)) == [HALF, NO, NO]


def test_the_second_descent_alternates_in_the_first_stage_or_not() -> None:
    falls, stays = a_curve(DOUBLE), a_curve((5, 1, 2, 4, 4))
    one = {"stage1.block1.before.relu1": stays, "stage1.block1.branch.relu1": falls, "stage2.x": stays}
    assert layers.alternation(one).verdict.grade is YES
    assert layers.alternation({**one, "stage1.block2.before.relu1": falls}).verdict.grade is NO
    deep = {"stage4": a_curve((3, 1, 2, 4, 0.5))}
    assert layers.meeting(deep, {"stage4": a_curve((9, 1, 9, 9, 9))}).verdict.grade is YES
    assert layers.meeting(deep, {"stage4": a_curve((9, 9, 9, 9, 0.5))}).verdict.grade is NO  # only after the peak


def test_a_shift_is_judged_in_all_settings() -> None:
    dims = {2.0: [4.0, 2.0], 10.0: [9.0, 7.0], 25.0: [10.0, 8.0]}
    radii = {1.0: [4.0, 1.0], 5.0: [9.0, 6.0]}
    assert grades(shift.shift_claims(dims, radii)) == [YES] * 4
    worse = {**dims, 25.0: [10.0, 40.0]}
    assert grades(shift.shift_claims(worse, {1.0: [9.0, 6.0], 5.0: [4.0, 1.0]})) == [NO] * 4


def test_deformation_grows_in_a_cnn_and_shrinks_in_a_resnet() -> None:
    def course(first: float, last: float) -> list[tuple[float, float]]:
        return [(first, 0.001), ((first + last) / 2, 0.001), (last, 0.001)]

    growing = {0.014: course(0.1, 0.2), 1.4: course(1.0, 5.0)}
    shrinking = {0.014: course(0.1, 0.05), 1.4: course(1.0, 0.2)}
    assert grades(deform.cnn_claims(growing)) == [YES, YES]
    assert grades(deform.cnn_claims(shrinking)) == [NO, YES]
    assert grades(deform.resnet_claims(shrinking)) == [YES] * 3
    assert grades(deform.resnet_claims(growing)) == [NO, NO, YES]


# Runs


def test_studies_share_the_runs_of_the_usual_network() -> None:
    keys = {study.name: {one.key for one in study.experiments("desk")} for study in STUDIES}
    base = {one.key for one in mlp("desk", depth=4)}
    assert base == keys["humayun2023-figure1"] == keys["humayun2023-migration"] == keys["humayun2023-gap"]
    assert base < keys["humayun2023-figure3"]
    assert keys["humayun2023-figure14"] <= keys["humayun2023-figure3"] & keys["humayun2023-figure10"]
    assert keys["humayun2023-figure18"] < keys["humayun2023-figure7"]


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


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_every_experiment_of_every_size_can_be_made(study: Study) -> None:
    for size in SIZES:
        for experiment in study.experiments(size):
            check(experiment)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("humayun2023"))


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_every_study_runs_at_smoke_size(study: Study, workspace: Workspace, tmp_path: Path) -> None:
    missing = workspace.missing(study.experiments("smoke"))
    if missing:
        assert not sweep.run_sweep(missing, workspace.runs_folder).count("failed")
    outcome = study.analyse(workspace, "smoke")
    assert study.scaled["smoke"]
    assert outcome.claims
    assert outcome.charts
    assert outcome.grade in Grade
    for chart in outcome.charts:
        chart_figure(chart).savefig(tmp_path / "figure.png", dpi=20)
    again = study.analyse(workspace, "smoke")
    assert json.dumps([claim.ours for claim in again.claims]) == json.dumps([claim.ours for claim in outcome.claims])


def test_dashed_curves_have_the_colour_of_what_they_are_compared_with() -> None:
    pairs = {"depth 2": a_curve(DOUBLE), "depth 3": a_curve((1, 2, 3, 4, 5))}
    drawn = chart_figure(curves.chart("", pairs, pairs)).axes[0].lines
    colours = [line.get_color() for line in drawn]
    assert colours[:2] == colours[2:]
    assert len(set(colours)) == 2
    assert [line.get_linestyle() for line in drawn] == ["-", "-", "--", "--"]
