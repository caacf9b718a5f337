"""The studies of Li et al. 2025: all run in small, and their numbers are those of the runs that they read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import regionscope as rs
from regionscope.errors import InputError
from regionscope_lab import zoo
from regionscope_lab.config import Experiment
from regionscope_lab.papers.chart_figures import chart_figure
from regionscope_lab.papers.charts import Lines
from regionscope_lab.papers.li2025 import (
    STUDIES,
    augmentation,
    cifar10,
    consistency,
    exact,
    reparametrisation,
    settings,
)
from regionscope_lab.papers.study import Outcome, Study
from regionscope_lab.papers.verdict import Grade
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.sweep import Sweep, run_sweep

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """All smoke runs of the paper, made once."""
    place = Workspace(tmp_path_factory.mktemp("li2025"))
    wanted = [experiment for one in STUDIES for experiment in one.experiments("smoke")]
    done = run_sweep(place.missing(wanted), place.runs_folder)
    assert done.count("finished") == len(done.outcomes), done.outcomes
    return place


@pytest.mark.parametrize("study", STUDIES, ids=lambda one: one.name)
def test_every_study_runs_in_small(study: Study, workspace: Workspace) -> None:
    outcome = study.analyse(workspace, "smoke")
    assert outcome.claims
    assert outcome.tables
    assert outcome.charts
    assert all(claim.ours and (claim.verdict.rule or claim.verdict.grade is Grade.SHOWN) for claim in outcome.claims)
    assert chart_figure(outcome.charts[0]).axes
    assert {"smoke", "desk", "full"} == set(study.scaled)


def trained_in_other_ways(size: Any) -> tuple[Experiment, ...]:
    found = (*augmentation.runs_of_augmentation(size), *consistency.runs_of_table7(size))
    plain = {one.key for one in cifar10.runs_of_cifar10(size)}
    return tuple(one for one in found if one.key not in plain and one.network.name == settings.PRIMARY[size][0])


@pytest.mark.parametrize(
    ("name", "made", "n"),
    [
        ("table1_cifar10", cifar10.runs_of_cifar10, 81),
        ("table1_cifar10_training", trained_in_other_ways, 36),
        ("table4_cifar10", settings.counting_runs, 3),
    ],
)
def test_the_sweep_file_is_the_study(name: str, made: Callable[[str], tuple[Experiment, ...]], n: int) -> None:
    sweep = Sweep.from_toml(ROOT / "examples" / f"{name}.toml")
    assert sweep.keys == tuple(one.key for one in made("full"))  # in the same order
    assert len(sweep) == n


# --- Exact counts -----------------------------------------------------------------------------------------------------


def segment(regions: int, grid: int, pieces: int, boundary: list[float], seconds: float = 3.0) -> dict[str, Any]:
    return {
        "ends": [1, 2], "pieces": [pieces // 2, pieces], "regions": regions, "boundary": boundary, "grid": grid,
        "shortest": 1e-9, "median": 1e-6, "seconds": seconds, "floor": 2.0, "gib": None,
    }  # fmt: skip


def claims_of(outcome: Outcome) -> dict[str, tuple[str, Grade]]:
    return {claim.what: (claim.ours, claim.verdict.grade) for claim in outcome.claims}


def test_what_the_grid_misses() -> None:
    lines = [segment(3, 3, 1000, [0.25, 0.5]), segment(5, 4, 2000, [0.1, 0.2, 0.3, 0.4]), segment(2, 2, 600, [0.7])]
    outcome = exact.of_segments(lines, "a network")
    found = claims_of(outcome)
    assert found["regions on a line: grid of 200 points / exact"] == ("3.00 / 3.33 = 0.900", Grade.NOT_REPRODUCED)
    assert found["linear pieces on a line"][0] == "1,200"
    assert found["seconds over those of a forward pass over the final vertices"][0] == "1.50"
    chart = outcome.charts[0]
    assert isinstance(chart, Lines)
    assert chart.series[0].y == (600, 1200)
    assert chart.y_label == "pieces (lines: 3, mean)"


def test_a_line_is_counted_as_the_engine_counts_it(workspace: Workspace) -> None:
    run = workspace.runs(exact.runs_of_exact("smoke"))[0]
    answer = exact.on_segment(workspace.place, run.path.name, 0)
    inputs = run.split().train.inputs
    line = rs.Segment(*inputs[answer["ends"]])
    model = run.model_at(run.checkpoints()[-1])
    assert answer["regions"] == rs.decision_regions(model, line).count == len(answer["boundary"]) + 1
    assert answer["pieces"] == list(rs.linear_regions(model, line).by_layer.values())
    assert 1 <= answer["grid"] <= answer["regions"]
    assert answer["floor"] > 0


# --- Reparametrisation ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["layers", "neurons", "last"])
def test_rescaling_keeps_every_label(kind: str) -> None:
    model = zoo.mlp([5, 16, 8, 3], seed=0).double()
    inputs = torch.randn(200, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    before = [value.detach().clone() for value in (model(inputs), *model.parameters())]
    reparametrisation.rescale(model, kind)
    with pytest.raises(InputError, match="at least two linear layers"):
        reparametrisation.rescale(torch.nn.Linear(2, 2), kind)
    after = [value.detach() for value in (model(inputs), *model.parameters())]
    torch.testing.assert_close(after[0], (2 if kind == "last" else 1) * before[0])
    moved = [not torch.equal(a, b) for a, b in zip(after[1:], before[1:], strict=True)]
    # weights and biases of three layers; of the second only the weights undo a factor of the first layer
    wanted = {"layers": [True, True, True, False, False, False], "neurons": [True] * 5 + [False],
              "last": [False] * 4 + [True] * 2}  # fmt: skip
    assert moved == wanted[kind]


def test_a_count_that_moves_contradicts_section_3(workspace: Workspace) -> None:
    outcome = reparametrisation.section3(workspace, "smoke")
    assert outcome.grade is Grade.REPRODUCED
    assert claims_of(outcome)["mean output margin, after / before: last layer times 2"][0] == "2.000"
    same = {"norm": 1.0, "distance": 1.0, "margin": 1.0, "sharpness": 1.0, "regions": [3, 4], "change": 0.0}
    other = {"none": same, "layers": same, "neurons": same | {"regions": [3, 5]}, "last": same}
    found = claims_of(reparametrisation.of_rescaled([other]))
    assert found["region counts that differ after a change"] == ("1 of 6", Grade.NOT_REPRODUCED)
    assert found["mean output margin, after / before: last layer times 2"] == ("1.000", Grade.NOT_REPRODUCED)
