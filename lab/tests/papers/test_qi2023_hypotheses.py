"""Table 1 with weight decay, and Theorem 1 with He weights: verdicts that can come out each way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from regionscope.errors import InputError
from regionscope_lab import zoo
from regionscope_lab.config import DataSpec, Experiment, MeasureSpec, NetworkSpec, Training
from regionscope_lab.papers.chart_figures import chart_figure
from regionscope_lab.papers.charts import Lines
from regionscope_lab.papers.qi2023 import decay, paper, theorem1
from regionscope_lab.papers.qi2023.read import Course, course
from regionscope_lab.papers.study import Claim
from regionscope_lab.papers.verdict import Grade
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.sweep import run_sweep

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


@pytest.mark.parametrize(("factor", "grade"), [(3.0, Grade.SAME_TREND), (5.0, Grade.NOT_REPRODUCED)])
def test_counts_far_from_the_papers(factor: float, grade: Grade) -> None:
    counts = {n: some(n, factor) for n in SIZES}
    claims = decay.judge({0.0: counts, decay.HYPOTHESIS: counts})
    assert grade_of(claims, "hypothesis (decay 0.0001), 5,000 points: ours / paper") is grade


def test_the_nearest_decay_is_named_as_chosen_after_the_runs() -> None:
    far, near = ({n: some(n, factor) for n in SIZES} for factor in (4.0, 1.1))
    found = {0.0: far, 5e-5: far, decay.HYPOTHESIS: far, 2e-4: near, 1e-3: far}
    outcome = decay.outcome_of(found, found)
    assert len(outcome.charts) == len(SIZES)
    figure = chart_figure(outcome.charts[0])
    assert figure.get_suptitle() == "Table 1 with weight decay: 1,000 points, mean of 3 seeds"
    theirs, *ours = figure.axes[0].get_lines()
    assert [line.get_linestyle() for line in (theirs, *ours)] == ["--", *["-"] * 5]
    assert len({line.get_color() for line in (theirs, *ours)}) == 6
    assert "decay 0.0002 comes nearest to Table 1, off by a factor of 1.10" in outcome.summary
    assert "training without decay is off by 4.00" in outcome.summary
    assert "made after the runs" in outcome.summary


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


def test_full_size_has_the_papers_epochs_and_every_decay() -> None:
    grid = decay.GRIDS["full"]
    assert grid.epochs == paper.RANDOM_EPOCHS[: len(grid.epochs)]
    assert grid.decays == (0.0, 5e-5, 1e-4, 2e-4, 1e-3)
    assert len(grid.settings()) == 45
    assert grid.settings()[0]["n"] == 10_000  # the longest runs begin first


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
    assert grade_of(claims, "Theorem 1, PyTorch's default biases: regions / (neurons x length), mean") is Grade.SHOWN


def test_the_figure_of_theorem_1_has_errors_over_networks() -> None:
    found = {biases: {16: {"0.5": [6, 8], "1.0": [14, 18], "2.0": [24, 48]}} for biases in theorem1.BIASES}
    outcome = theorem1.outcome_of(found, {16: Course((0, 5), np.ones((3, 2)))}, 0.5, 1.0)
    chart = outcome.charts[0]
    assert isinstance(chart, Lines)
    assert chart.title == "Theorem 1: before training, intervals of length 2"
    assert chart.series[0].y == pytest.approx((36 / 96,))
    assert chart.series[0].stderr == pytest.approx((12 / 96,))


@pytest.mark.parametrize(
    ("wide", "grade"), [(1.1, Grade.REPRODUCED), (2.0, Grade.SAME_TREND), (3.0, Grade.NOT_REPRODUCED)]
)
def test_constancy_over_widths(wide: float, grade: Grade) -> None:
    ratios = {w: Course((0, 5), np.full((3, 2), level)) for w, level in ((16, 1.0), (64, wide))}
    claims = theorem1.judge_training(ratios, 0.5)
    assert grade_of(claims, "He initialisation, all widths") is grade
    assert grade_of(claims, "He initialisation, [16, 16, 16]: regions / neurons over training") is Grade.REPRODUCED
    assert all(claim.what.startswith("He initialisation") for claim in claims)


def test_a_run_without_epochs_is_refused() -> None:
    with pytest.raises(InputError, match="Expected epochs"):
        decay.random_counts(n=20, decay=0.0, seed=0, epochs=[])
