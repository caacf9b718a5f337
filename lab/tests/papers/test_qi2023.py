"""The studies of Qi & Wei 2023: their runs, what they read from them, and verdicts that can come out each way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from regionscope.errors import InputError
from regionscope.exact import linear_regions
from regionscope.geometry import Box
from regionscope.monitor import parse_schedule
from regionscope_lab import zoo
from regionscope_lab.papers import verdict
from regionscope_lab.papers.chart_figures import chart_figure
from regionscope_lab.papers.charts import Lines, Pictures
from regionscope_lab.papers.qi2023 import STUDIES, compare, data, epochs, layers, lines, paper, random_labels, settings
from regionscope_lab.papers.qi2023.pictures import model_at_epoch
from regionscope_lab.papers.qi2023.read import Course, course, course_of, curves
from regionscope_lab.papers.study import SIZES, Claim, Outcome, Study
from regionscope_lab.papers.verdict import Grade
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.sweep import run_sweep


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """All runs of all studies at smoke size."""
    folder = Workspace(tmp_path_factory.mktemp("qi2023"))
    wanted = {one.key: one for study in STUDIES for one in study.experiments("smoke")}
    done = run_sweep(list(wanted.values()), folder.runs_folder)
    assert done.count("finished") == len(wanted)
    return folder


@pytest.fixture(scope="module")
def outcomes(place: Workspace) -> list[Outcome]:
    """The outcome of each study at smoke size."""
    return [study.analyse(place, "smoke") for study in STUDIES]


def some_course(values: Sequence[Sequence[float]], at: Sequence[int] | None = None) -> Course:
    return Course(tuple(at or range(len(values[0]))), np.array(values, dtype=float))


def grades(claims: Sequence[Claim]) -> dict[str, Grade]:
    return {claim.what: claim.verdict.grade for claim in claims}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("study", STUDIES, ids=lambda one: one.name)
def test_every_size_counts_at_its_epochs(study: Study, size: str) -> None:
    (scale,) = (one for one in SIZES if one == size)
    for experiment in study.experiments(scale):
        n = experiment.data.n_train
        assert n is not None
        per_epoch = -(-n // experiment.training.batch_size)
        steps = parse_schedule(experiment.measures[0].when).steps(
            experiment.training.epochs * per_epoch, per_epoch=per_epoch
        )
        wanted = settings.random_grid(scale) if experiment.data.name == "random_labels" else settings.toy_grid(scale)
        assert tuple(step // per_epoch for step in steps) == wanted.epochs


def test_full_size_is_the_papers() -> None:
    assert settings.toy_grid("full").epochs == paper.EPOCHS
    assert settings.toy_grid("full").widths == paper.WIDTHS
    assert len(settings.toy_grid("full").seeds) == 10
    assert settings.random_grid("full").epochs == paper.RANDOM_EPOCHS
    assert settings.random_grid("full").sizes == paper.RANDOM_SIZES
    assert {len(row) for row in (*paper.MOONS.values(), *paper.QUANTILES.values())} == {len(paper.EPOCHS)}
    assert {len(row) for row in paper.RANDOM.values()} == {len(paper.RANDOM_EPOCHS)}


@pytest.mark.parametrize(("width", "count"), [(16, 206), (32, 1151), (64, 4113)])
def test_the_initial_weights_are_the_papers(width: int, count: int) -> None:
    """Default weights after torch.manual_seed(5), which the networks of the studies have too."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        plain = nn.Sequential(
            nn.Linear(2, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, 2),
        )  # fmt: skip
    ours = zoo.build("mlp", classes=2, input_shape=(2,), seed=settings.SEED, depth=settings.DEPTH, width=width)
    for theirs, mine in zip(plain.parameters(), ours.parameters(), strict=True):
        assert torch.equal(theirs, mine)
    assert linear_regions(ours, Box.between(-1.0, 1.0, (2,))).n_linear_regions == count
    assert abs(count - paper.MOONS[width][0]) <= 1


@pytest.mark.parametrize("study", STUDIES, ids=lambda one: one.name)
def test_every_study_runs_at_smoke_size(study: Study, outcomes: list[Outcome]) -> None:
    outcome = outcomes[STUDIES.index(study)]
    assert isinstance(outcome, Outcome)
    assert outcome.claims
    assert outcome.charts
    assert study.scaled["smoke"]
    for chart in outcome.charts:
        figure = chart_figure(chart)
        shown = [ax for ax in figure.axes if ax.axison]
        assert len(shown) == (len(chart.pictures) if isinstance(chart, Pictures) else 1)
    for table in outcome.tables:
        assert {len(row) for row in table.rows} == {len(table.columns)}


def test_counts_before_training_come_through_the_runs(place: Workspace, outcomes: list[Outcome]) -> None:
    for outcome in outcomes[3:6]:
        claims = [claim for claim in outcome.claims if "epoch 0, seed 5" in claim.what]
        assert claims
        assert {claim.verdict.grade for claim in claims} == {Grade.REPRODUCED}
    runs = place.runs(settings.quantiles("smoke"))
    assert course(runs[:2], "linear_regions").first_seed[0] == 206
    assert course(runs[2:], "linear_regions").first_seed[0] == 1151


def test_rows_and_checkpoints_agree(place: Workspace) -> None:
    run = place.runs(settings.moons("smoke"))[0]
    counts = course([run], "linear_regions")
    assert counts.epochs == settings.toy_grid("smoke").epochs
    for i, epoch in enumerate(counts.epochs):
        found = linear_regions(model_at_epoch(run, epoch), Box.between(-1.0, 1.0, (2,)))
        assert found.n_linear_regions == counts.values[0, i]
    with pytest.raises(InputError, match="No checkpoint of epoch 3"):
        model_at_epoch(run, 3)
    with pytest.raises(InputError, match=r"No row 'linear_regions' at epoch 4"):
        course([run], "linear_regions", (0, 4))


def test_a_course_is_over_seeds() -> None:
    found = course_of([{0: 1.0, 2: 4.0, 3: 9.0}, {0: 3.0, 2: 8.0}], "a")
    assert found.epochs == (0, 2)
    assert found.first_seed == (1.0, 4.0)
    assert found.means == (2.0, 6.0)
    assert found.deviations == pytest.approx((2**0.5, 8**0.5))
    assert found.errors == pytest.approx((1.0, 2.0))
    assert found.at(2).tolist() == [4.0, 8.0]
    assert found.range(1) == (4.0, 8.0)
    assert found.series("b").x == (0.0, 2.0)
    with pytest.raises(InputError, match="No row 'a' at epoch 3"):
        course_of([{0: 1.0, 3: 1.0}, {0: 1.0}], "a", (0, 3))


def test_errors_over_epochs_are_paired() -> None:
    two = some_course([(1, 4), (3, 8)])  # changes of 3 and 5: standard deviation 2**0.5, standard error 1
    assert np.hypot(*two.paired_deviations) == pytest.approx(2**0.5)
    assert np.hypot(*two.paired_errors) == pytest.approx(1.0)
    assert two.noise == pytest.approx(2.0)
    apart = some_course([(1, 2, 3), (101, 102, 103)])  # seeds far apart, with one and the same course
    assert apart.paired_errors == pytest.approx((0.0, 0.0, 0.0))
    assert min(apart.errors) == pytest.approx(50.0)
    alone = some_course([(1, 2)])
    assert all(map(np.isnan, (*alone.deviations, *alone.paired_errors, alone.noise)))
    assert compare.course_claim("counts", (1, 5), alone).verdict.grade is Grade.SHOWN
    assert "a single seed does not show" in compare.course_claim("counts", (1, 5), alone).ours


def test_more_than_three_curves_have_no_bands() -> None:
    one = some_course([(1, 2), (2, 3)])
    assert all(series.std for series in curves({str(i): one for i in range(3)}))
    assert not any(series.std for series in curves({str(i): one for i in range(4)}))


def test_a_ratio_has_students_interval() -> None:
    found = compare.ratio_of(np.array([2.0, 4.0, 8.0]), np.array([1.0, 1.0, 1.0]))
    assert (found.value, found.first_seed) == (pytest.approx(4.0), 2.0)
    half = 4.3027 * np.log(2) / 3**0.5  # Student's quantile for 3 seeds, and not 2
    assert np.log([found.low, found.high]) == pytest.approx(np.log(4) + half * np.array([-1, 1]), rel=1e-3)
    alone = compare.ratio_of(np.array([2.0]), np.array([1.0]))
    assert alone.value == 2.0
    assert np.isnan([alone.low, alone.high]).all()
    assert verdict.grows(2.0, alone.value, alone.interval).grade is Grade.INCONCLUSIVE
    assert verdict.stays(compare.ratio_of(np.array([1.0]), np.array([1.0])).interval).grade is Grade.INCONCLUSIVE
    assert compare.larger(np.array([2.0]), np.array([1.0]))[0].grade is Grade.INCONCLUSIVE


@pytest.mark.parametrize(
    ("paper_ratio", "seeds", "wanted"),
    [
        (2.0, (1.9, 2.0, 2.1), Grade.REPRODUCED),
        (2.0, (1.04, 1.05, 1.06), Grade.SAME_TREND),  # grows beyond doubt, and not as much
        (1.5, (1.95, 2.0, 2.05), Grade.SAME_TREND),
        (1.1, (1.0, 1.1, 1.2), Grade.INCONCLUSIVE),  # as much, and within chance
        (2.0, (0.95, 1.05, 1.15), Grade.NOT_REPRODUCED),  # within chance, and not as much
        (2.0, (0.9, 0.91, 0.92), Grade.NOT_REPRODUCED),
    ],
)
def test_growth_is_judged_against_the_papers(paper_ratio: float, seeds: Sequence[float], wanted: Grade) -> None:
    ours = compare.ratio_of(np.array(seeds), np.ones(3))
    assert verdict.grows(paper_ratio, ours.value, ours.interval).grade is wanted


@pytest.mark.parametrize(
    ("seeds", "wanted"),
    [
        ((1.0, 1.05, 1.1), Grade.REPRODUCED),
        ((0.7, 1.05, 1.5), Grade.INCONCLUSIVE),
        ((1.4, 1.41, 1.42), Grade.NOT_REPRODUCED),
        ((0.6, 0.61, 0.62), Grade.NOT_REPRODUCED),
    ],
)
def test_what_stays_is_near_1(seeds: Sequence[float], wanted: Grade) -> None:
    assert verdict.stays(compare.ratio_of(np.array(seeds), np.ones(3)).interval).grade is wanted


def test_wiggles_of_the_papers_one_run_are_not_compared() -> None:
    ours = some_course([(90, 200, 150, 300), (100, 190, 160, 310), (110, 210, 140, 290)])
    wiggle = compare.course_claim("a", (100, 190, 200, 310), ours)  # ours falls from 200 to 150
    assert wiggle.verdict.grade is Grade.REPRODUCED
    assert "5 of 6 pairs compared" in wiggle.ours
    assert wiggle.spread == "sd 10, 10, 10, 10"
    step = compare.course_claim("a", (100, 150, 200, 310), ours)
    assert step.verdict.grade is Grade.SAME_TREND
    few = compare.course_claim("a", (100, 101, 102, 150), ours)
    assert "3 of 6 pairs" in few.ours
    assert few.verdict.grade is Grade.REPRODUCED
    fewer = compare.course_claim("a", (100, 110, 115, 130), ours)
    assert "1 of 6 pairs" in fewer.ours
    assert fewer.verdict.grade is Grade.SAME_TREND
    none = compare.course_claim("a", (100, 101, 102, 103), ours)
    assert none.verdict.grade is Grade.SHOWN
    assert "no pair compared" in none.ours


def test_table_3_doubles_and_then_stays() -> None:
    noise = np.array([[1.0, 1.0, 1.0], [0.98, 1.0, 1.02], [1.02, 1.0, 0.98]])

    def found(*row: float) -> dict[str, Grade]:
        course = Course((0, 10, 100), noise * np.array(row))
        claims = epochs.judge(paper.QUANTILES, {16: course, 32: Course((0, 10, 100), 5 * course.values)}, settles=True)
        return {what.removeprefix("[16, 16, 16], "): grade for what, grade in grades(claims).items()}

    doubles, stays = "epoch 10 / epoch 0", "epoch 100 / epoch 10: stays"
    same = found(207, 415, 436)
    assert (same[doubles], same[stays]) == (Grade.REPRODUCED, Grade.REPRODUCED)
    late = found(207, 235, 436)  # the same last count, reached late
    assert (late[doubles], late[stays]) == (Grade.SAME_TREND, Grade.NOT_REPRODUCED)
    assert late["epoch 100 / epoch 0"] is Grade.REPRODUCED
    assert found(207, 200, 210)[doubles] is Grade.NOT_REPRODUCED
    plain = epochs.judge(paper.MOONS, {w: some_course([(1, 2, 3), (1, 2, 3)], (0, 10, 100)) for w in (16, 32)})
    assert not any("stays" in claim.what for claim in plain)


def test_figure_1_is_judged_over_all_seeds() -> None:
    def found(linear: Sequence[float], decision: Sequence[float]) -> list[Grade]:
        columns = [some_course([(1, value) for value in values]) for values in (linear, decision)]
        return [claim.verdict.grade for claim in data.judge("a", 7082, *columns)]

    assert found((7000, 9000), (2, 2)) == [Grade.REPRODUCED, Grade.REPRODUCED]
    assert found((9_500, 10_500), (2, 3)) == [Grade.SAME_TREND, Grade.NOT_REPRODUCED]
    assert found((500, 700), (1, 2))[0] is Grade.NOT_REPRODUCED


def test_facts_of_the_data_judge_nothing(outcomes: list[Outcome]) -> None:
    claims = outcomes[0].claims
    described = [claim.verdict.grade for claim in claims if "points, classes, range" in claim.what]
    assert described == [Grade.SHOWN, Grade.SHOWN]


def test_pages_say_what_the_paper_leaves_open(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        notes = " ".join(outcome.notes)
        assert "neither the noise" in notes or "not known" in notes
    early = {10_000: some_course([(1151, 1000, 900), (1151, 1100, 700)], (0, 30, 100))}
    said = " ".join(random_labels._notes(early))
    assert "353 regions at epoch 30, 79 regions at epoch 100" in said
    assert "1050 at epoch 30, 800 at epoch 100" in said
    assert "collapse" not in " ".join(outcomes[3].notes)


def test_tables_2_and_3_can_be_reproduced_or_not() -> None:
    printed = {16: paper.MOONS[16], 32: paper.MOONS[32]}

    def found(scale: dict[int, Sequence[float]]) -> dict[str, Grade]:
        noise = np.array([[1.0], [0.98], [1.02]])
        counts = {width: Course(paper.EPOCHS, noise * np.array(row, dtype=float)) for width, row in scale.items()}
        return grades(epochs.judge(printed, counts))

    same = found({16: paper.MOONS[16], 32: paper.MOONS[32]})
    assert Grade.NOT_REPRODUCED not in same.values()
    assert same["[16, 16, 16], epoch 0, seed 5"] is Grade.REPRODUCED
    assert same["wider networks have more regions, last epoch"] is Grade.REPRODUCED
    turned = found({16: paper.MOONS[32][::-1], 32: paper.MOONS[16][::-1]})
    assert set(turned.values()) == {Grade.NOT_REPRODUCED, Grade.SHOWN}


def test_cells_within_the_range_of_the_seeds_are_counted() -> None:
    counts = {16: some_course([(206, 150, 319), (200, 250, 300)], (0, 2, 5))}
    last = epochs.judge(paper.MOONS, counts | {32: some_course([(1151, 1, 1), (1, 1, 1)], (0, 2, 5))})[-1]
    assert "in 2 of 4 cells" in last.ours  # 198 and 319 of Table 2, at epochs 2 and 5
    assert "100% at most" in last.ours


def test_figure_2_needs_more_regions_after_every_layer() -> None:
    rising = [some_course([(5, values), (5, values)]) for values in (10, 20, 30)]
    assert [claim.verdict.grade for claim in layers.judge(rising)] == [Grade.REPRODUCED, Grade.SHOWN]
    stuck = [some_course([(5, values), (5, other)]) for values, other in ((10, 10), (20, 20), (30, 20))]
    claims = layers.judge(stuck)
    assert [claim.verdict.grade for claim in claims] == [Grade.NOT_REPRODUCED, Grade.SHOWN]
    assert "within the bound" in claims[1].ours
    assert claims[1].paper == ""
    assert "in 3 of 4 cases" in claims[0].ours
    crowded = [some_course([(38, values)]) for values in (10, 20, 30)]
    assert "38 at most" in layers.judge(crowded)[1].ours
    assert "ABOVE THE BOUND" in layers.judge(crowded)[1].ours


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ((1.0, 1.2, 1.4), (Grade.REPRODUCED, Grade.REPRODUCED)),
        ((0.2, 0.3, 0.4), (Grade.SAME_TREND, Grade.SAME_TREND)),
        ((0.1, 0.2, 0.3), (Grade.NOT_REPRODUCED, Grade.NOT_REPRODUCED)),
        ((0.1, 2.0, 5.0), (Grade.NOT_REPRODUCED, Grade.SAME_TREND)),
        ((0.0, 0.1, 0.2), (Grade.NOT_REPRODUCED, Grade.NOT_REPRODUCED)),
    ],
)
def test_figure_3_asks_for_a_constant_ratio_near_1(values: tuple[float, ...], wanted: tuple[Grade, Grade]) -> None:
    claims = lines.judge({16: some_course([values, values], (0, 50, 100))}, 0.5)
    assert tuple(claim.verdict.grade for claim in claims) == (*wanted, Grade.SHOWN)
    assert f"{values[0]:.3f} at epoch 0, {values[-1]:.3f} at epoch 100" in claims[0].ours
    assert claims[2].ours == f"{2 * sum(values) / 3:.3f}"  # by a length of 0.5


def test_table_1_can_be_reproduced_or_not() -> None:
    at = paper.RANDOM_EPOCHS
    noise = np.array([[1.0], [0.99], [1.01]])

    def found(counts: Mapping[int, Any], wrong: Sequence[float]) -> dict[str, Grade]:
        courses = {n: Course(at, noise * np.array(row, dtype=float)) for n, row in counts.items()}
        errors = {n: Course(at, noise * np.full(len(at), share)) for n, share in zip(counts, wrong, strict=True)}
        return grades(random_labels.judge(courses, errors))

    same = found(paper.RANDOM, (0.05, 0.1, 0.15, 0.3, 0.4, 0.45))
    assert Grade.NOT_REPRODUCED not in same.values()
    turned = dict(zip(paper.RANDOM_SIZES, reversed(paper.RANDOM.values()), strict=True))
    other = found(turned, (0.45, 0.4, 0.3, 0.15, 0.1, 0.05))
    assert other["epoch 0, seed 5"] is Grade.REPRODUCED
    assert other["200 points, epochs " + ", ".join(map(str, at))] is Grade.NOT_REPRODUCED
    assert other["10,000 points, epochs " + ", ".join(map(str, at))] is Grade.NOT_REPRODUCED
    assert other["epoch 50000, by points 200, 500, 1000, 2000, 5000, 10000"] is Grade.NOT_REPRODUCED
    accuracy = "epoch 50000: the training accuracy is lower with 10,000 points than with 200"
    assert (same[accuracy], other[accuracy]) == (Grade.REPRODUCED, Grade.NOT_REPRODUCED)
    rising = {n: np.linspace(1000 + n, 2000 + n, len(at)) for n in paper.RANDOM_SIZES}
    most = "epoch 50000: 10,000 points have fewer regions than the maximum over the numbers of points"
    assert (same[most], found(rising, (0.1,) * 6)[most]) == (Grade.REPRODUCED, Grade.NOT_REPRODUCED)


def test_the_papers_curves_are_dashed_in_the_colour_of_ours(outcomes: list[Outcome]) -> None:
    chart = outcomes[4].charts[0]
    assert isinstance(chart, Lines)
    drawn = {line.get_label(): line for line in chart_figure(chart).axes[0].get_lines()}
    for width in (16, 32):
        ours, theirs = drawn[str([width] * 3)], drawn[f"{[width] * 3}, paper"]
        assert ours.get_color() == theirs.get_color()
        assert (ours.get_linestyle(), theirs.get_linestyle()) == ("-", "--")


def test_the_curves_of_table_1_say_that_they_are_means(outcomes: list[Outcome]) -> None:
    titles = [chart.title for outcome in outcomes for chart in outcome.charts if chart.title.startswith("Figure 4")]
    assert titles == [
        "Figure 4: ours, mean of 2 seeds",
        "Figure 4: the paper's Table 1",
        "Figure 4: accuracy, ours, mean of 2 seeds",
    ]


def test_studies_write_nothing_beside_the_workspace(place: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip  # noqa: E501
    monkeypatch.chdir(tmp_path)
    for study in STUDIES[:3]:
        study.analyse(place, "smoke")
    assert list(tmp_path.iterdir()) == []
