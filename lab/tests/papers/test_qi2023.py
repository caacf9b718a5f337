"""The studies of Qi & Wei 2023 and hypotheses about them: runs, readings, verdicts that can come out each way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from regionscope.errors import InputError
from regionscope.exact import linear_regions
from regionscope.geometry import Box
from regionscope_lab import zoo
from regionscope_lab.config import DataSpec, Experiment, MeasureSpec, NetworkSpec, Training
from regionscope_lab.papers import verdict
from regionscope_lab.papers.chart_figures import chart_figure
from regionscope_lab.papers.charts import Pictures
from regionscope_lab.papers.qi2023 import (
    STUDIES,
    compare,
    decay,
    epochs,
    layers,
    lines,
    paper,
    random_labels,
    settings,
    theorem1,
)
from regionscope_lab.papers.qi2023.pictures import model_at_epoch
from regionscope_lab.papers.qi2023.read import Course, course, course_of
from regionscope_lab.papers.study import Claim, Outcome, Study
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


@pytest.mark.parametrize(
    ("printed", "said", "grade"),
    [
        ((100, 190, 200, 310), "5 of 6 pairs compared", Grade.REPRODUCED),  # ours falls from 200 to 150
        ((100, 150, 200, 310), "6 of 6 pairs", Grade.SAME_TREND),
        ((100, 101, 102, 150), "3 of 6 pairs", Grade.REPRODUCED),
        ((100, 110, 115, 130), "1 of 6 pairs", Grade.SAME_TREND),
        ((100, 101, 102, 103), "no pair compared", Grade.SHOWN),
    ],
)
def test_wiggles_of_the_papers_one_run_are_not_compared(printed: Sequence[int], said: str, grade: Grade) -> None:
    ours = some_course([(90, 200, 150, 300), (100, 190, 160, 310), (110, 210, 140, 290)])
    claim = compare.course_claim("a", printed, ours)
    assert claim.verdict.grade is grade
    assert said in claim.ours
    assert claim.spread == "sd 10, 10, 10, 10"


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


EPOCHS = (0, 10, 30, 50, 80, 100)
SIZES = (1000, 5000, 10_000)


def some(n: int, factor: float = 1.0) -> Course:
    """Three runs that follow the paper's counts, times ``factor`` after the start."""
    printed = np.array(paper.RANDOM[n][: len(EPOCHS)], dtype=float)
    printed[1:] *= factor
    return Course(EPOCHS, printed * np.array([[0.99], [1.0], [1.01]]))


def grade_of(claims: Sequence[Claim], start: str) -> Grade:
    (found,) = (claim.verdict.grade for claim in claims if claim.what.startswith(start))
    return found


def test_the_printed_setting_and_the_hypothesis_have_grades_of_their_own() -> None:
    flat = {n: Course(EPOCHS, np.array([[1000.0] * 6, [1010.0] * 6, [990.0] * 6])) for n in SIZES}
    claims = decay.judge({0.0: flat, decay.HYPOTHESIS: {n: some(n) for n in SIZES}, 1e-3: flat})
    assert not any("0.001" in claim.what for claim in claims)  # other decays judge nothing
    assert grade_of(claims, "hypothesis (decay 0.0001), 10,000 points, epochs") is Grade.REPRODUCED
    assert grade_of(claims, "hypothesis (decay 0.0001), 10,000 points: ours / paper") is Grade.REPRODUCED
    assert grade_of(claims, "hypothesis (decay 0.0001), epoch 100: regions with 1,000") is Grade.REPRODUCED
    assert grade_of(claims, "as printed (no decay), 10,000 points: ours / paper") is not Grade.REPRODUCED
    assert grade_of(claims, "as printed (no decay), epoch 100: regions with 1,000") is Grade.NOT_REPRODUCED


def test_counts_are_those_of_the_training_loop(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The same points, weights, batches and decay as a stored run: the same counts."""
    ours = decay.random_counts(n=60, decay=1e-3, seed=6, epochs=[0, 3])
    when = "start and steps 6"
    theirs = Experiment(
        data=DataSpec(name="random_labels", n_train=60, n_test=1, seed=6),
        network=NetworkSpec(name="mlp", options={"depth": 3, "width": 32}),
        training=Training(epochs=3, optimizer="adam", lr=1e-3, batch_size=32, schedule="constant", weight_decay=1e-3),
        measures=(
            MeasureSpec(instrument="linear_regions", when=when, options={"box": [-1.0, 1.0]}),
            MeasureSpec(instrument="error_rate", when=when, options={"points": "train"}),
        ),
        seed=6,
    )
    place = Workspace(tmp_path_factory.mktemp("decay"))
    assert run_sweep([theirs], place.runs_folder).count("finished") == 1
    runs = place.runs([theirs])
    assert tuple(ours["regions"]) == course(runs, "linear_regions").first_seed
    assert [1 - one for one in ours["accuracy"]] == pytest.approx(course(runs, "error_rate").first_seed)


@pytest.mark.parametrize(("biases", "variance"), [("he", 2 / 50), ("small", 1e-6), ("default", 1 / 150)])
def test_he_weights(biases: str, variance: float) -> None:
    model = theorem1.he_weights(zoo.mlp([50, 4000, 2], seed=1), biases=biases, seed=3)
    assert float(model[0].weight.detach().var()) == pytest.approx(2 / 50, rel=0.02)
    assert float(model[0].bias.detach().var()) == pytest.approx(variance, rel=0.1)
    again = theorem1.he_weights(zoo.mlp([50, 4000, 2], seed=1), biases=biases, seed=3)
    assert torch.equal(again[2].weight, model[2].weight)


def starts(*levels: float) -> theorem1.Starts:
    """Counts whose ratio to neurons times length has these levels, width by width."""
    return {
        biases: {
            width: {length: [round(3 * width * float(length) * level)] * 2 for length in ("0.5", "1.0", "2.0")}
            for width, level in zip((100, 200), levels, strict=True)
        }
        for biases in theorem1.BIASES
    }


@pytest.mark.parametrize(
    ("levels", "constant", "level"),
    [
        ((1.0, 1.2), Grade.REPRODUCED, Grade.REPRODUCED),
        ((0.3, 0.3), Grade.REPRODUCED, Grade.SAME_TREND),
        ((0.1, 0.3), Grade.NOT_REPRODUCED, Grade.NOT_REPRODUCED),
    ],
)
def test_theorem_1_each_way(levels: tuple[float, float], constant: Grade, level: Grade) -> None:
    claims = theorem1.judge_start(starts(*levels))
    start = "Theorem 1, biases of variance 2 / fan-in: regions / (neurons x length)"
    assert grade_of(claims, f"{start} over widths") is constant
    assert grade_of(claims, f"{start} over lengths") is Grade.REPRODUCED
    assert grade_of(claims, f"{start}, mean") is level


@pytest.mark.parametrize(
    ("wide", "grade"), [(1.1, Grade.REPRODUCED), (2.0, Grade.SAME_TREND), (3.0, Grade.NOT_REPRODUCED)]
)
def test_constancy_over_widths(wide: float, grade: Grade) -> None:
    ratios = {w: Course((0, 5), np.full((3, 2), level)) for w, level in ((16, 1.0), (64, wide))}
    claims = theorem1.judge_training(ratios, 0.5)
    assert grade_of(claims, "He initialisation, all widths") is grade
    assert grade_of(claims, "He initialisation, [16, 16, 16]: regions / neurons over training") is Grade.REPRODUCED


def test_a_run_without_epochs_is_refused() -> None:
    with pytest.raises(InputError, match="Expected epochs"):
        decay.random_counts(n=20, decay=0.0, seed=0, epochs=[])
