"""The studies of transformers: claims that can come out each way, and every study at smoke size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from regionscope_lab import sweep
from regionscope_lab.papers.chart_figures import chart_figure
from regionscope_lab.papers.study import Claim, Study
from regionscope_lab.papers.transformers import STUDIES
from regionscope_lab.papers.transformers.correlation import outcome
from regionscope_lab.papers.transformers.curves import Curve
from regionscope_lab.papers.transformers.grokking import claims_of, phases
from regionscope_lab.papers.transformers.points import Point
from regionscope_lab.papers.transformers.settings import IMAGES, TEXT, grid
from regionscope_lab.papers.verdict import Grade
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.sweep.grid import Sweep

YES, OPEN, NO = Grade.REPRODUCED, Grade.INCONCLUSIVE, Grade.NOT_REPRODUCED
KNOWN, NEW = (0.1, 1.0, 1.0, 1.0, 1.0, 1.0), (0.0, 0.1, 0.2, 0.7, 0.97, 1.0)
FALLING, FLAT, RISING = (
    (5.0, 10.0, 10.0, 7.0, 4.0, 4.0),
    (5.0, 10.0, 9.0, 10.0, 9.5, 9.5),
    (1.0, 2.0, 3.0, 4.0, 5.0, 6.0),
)


def a_curve(values: Sequence[float], noise: float = 0.01) -> Curve:
    table = np.array(values) + noise * np.array([[-1.0], [0.0], [1.0]])
    return Curve((0, 1, 10, 100, 1000, 10_000), table, np.full_like(table, 0.01))


def grades(lc: Sequence[float], control: Sequence[float], new: Sequence[float] = NEW) -> list[Grade]:
    found = [phases(KNOWN, new)] * 3
    kinds = {"weight decay 1": a_curve(lc), "weight decay 0": a_curve(control), "random labels": a_curve(control, 1.0)}
    made = claims_of(found, a_curve(new), kinds, a_curve(lc), a_curve(lc))
    return [claim.verdict.grade for claim in made]


def test_the_phases_of_a_run() -> None:
    one = phases(KNOWN, NEW)
    assert one is not None
    assert (one.memorised, one.before, one.solved) == (1, 2, 4)
    assert one.fall(np.array(FALLING)) == pytest.approx(0.6)
    assert np.isnan(one.fall(np.zeros(6)))
    assert phases(KNOWN, (0.0, 0.1, 0.2, 0.5, 0.9, 0.94)) is None  # never solved
    assert phases((0.1, 0.2, 0.5, 0.9, 1.0, 1.0), NEW) is None  # solved before it has memorised
    assert phases(KNOWN, (0.0, 0.6, 0.9, 1.0, 1.0, 1.0)) is None  # never memorised alone


def test_claims_about_grokking_come_out_each_way() -> None:
    assert grades(FALLING, FLAT) == [YES] * 7
    assert grades(RISING, FLAT) == [YES, NO, NO, NO, NO, NO, NO]
    assert grades(FALLING, FALLING)[5:] == [NO, OPEN]  # the second control is noisy
    assert grades(FALLING, FLAT, new=[0.0] * 6) == [NO, *[OPEN] * 6]


def a_point(lr: float, regions: float, gap: float, train_error: float = 0.0) -> Point:
    experiment = grid(TEXT["smoke"])[0]
    experiment = replace(experiment, training=replace(experiment.training, lr=lr))
    values = {"regions": regions, "gap": gap, "train_error": train_error, "loss.train": 0.1, "loss.test": gap}
    return Point(experiment, 3, values, {})


def test_claims_about_the_correlation_come_out_each_way() -> None:
    gaps = [10.0, 12.0, 14.0, 15.0, 20.0, 21.0]
    for sign, wanted in ((1, YES), (-1, NO)):
        chosen = [a_point(0.1 * (i + 1), 50 + sign * gap, gap) for i, gap in enumerate(gaps)]
        first, *others = outcome(chosen, chosen).claims
        assert first.verdict.grade is wanted
        assert first.ours == f"{sign:+.2f}"
        loss = next(one for one in others if "gap of the loss" in one.what)
        assert loss.ours == f"{sign:+.2f}"
        assert not any("below 1%" in one.what for one in others)
    fitted = outcome(chosen, chosen[:3]).claims[1]
    assert "below 1%" in fitted.what
    assert "3 settings" in fitted.spread


@pytest.mark.parametrize("study", STUDIES, ids=lambda one: one.name)
def test_every_study_runs_at_smoke_size(study: Study, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    done = sweep.run_sweep(study.experiments("smoke"), workspace.runs_folder)
    assert done.count("failed") == 0
    found = study.analyse(workspace, "smoke")
    assert all(isinstance(claim, Claim) for claim in found.claims)
    assert found.charts
    for chart in found.charts:
        assert chart_figure(chart).axes


def test_the_sweep_file_is_the_study() -> None:
    file = Sweep.from_toml(Path(__file__).parents[3] / "examples" / "table1_cifar10_vit.toml")
    assert file.keys == tuple(one.key for one in grid(IMAGES["full"]))
