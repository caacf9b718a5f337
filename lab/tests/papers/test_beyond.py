"""Questions beyond the papers: claims that can come out each way, and every study at smoke size."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from regionscope.file_io import plain
from regionscope_lab.papers.beyond import STUDIES
from regionscope_lab.papers.beyond.penalty import SETTINGS, _of_a_length_that_fits, outcome
from regionscope_lab.papers.chart_figures import chart_figure
from regionscope_lab.papers.study import Outcome, Study
from regionscope_lab.papers.verdict import Grade
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.sweep import run_sweep

CLAIMS = {"beyond-penalty": 10, "beyond-factors": 7, "beyond-optimiser": 11, "beyond-convnext": 7}
YES, OPEN, NO = Grade.REPRODUCED, Grade.INCONCLUSIVE, Grade.NOT_REPRODUCED


def a_run(lc: float, regions: float, gap: float, train_error: float = 0.0) -> dict[str, float]:
    return {"lc": lc, "regions": regions, "gap": gap, "train_error": train_error, "test_error": gap + train_error}


def test_claims_about_the_penalty_come_out_each_way() -> None:
    plain = [a_run(10 + i, 2 + 0.01 * i, 9 + 0.1 * i) for i in range(3)]
    lower = [a_run(5 + i, 1 + 0.01 * i, 8 + 0.11 * i) for i in range(3)]
    mixed = [a_run(5 + i, 2.5 + 0.01 * i, 9 + 0.3 * (-1) ** i, 2.0) for i in range(3)]
    assert [claim.verdict.grade for claim in outcome({0.0: plain, 1.0: lower}).claims] == [YES, YES, YES, YES]
    found = outcome({0.0: plain, 1.0: mixed})
    assert [claim.verdict.grade for claim in found.claims] == [NO, YES, NO, OPEN]
    assert found.claims[1].ours == "45.7%"  # mean of 1/2, 5/11 and 5/12
    assert "from 2.01 to 2.51" in found.summary


def test_the_fewest_epochs_that_fit_the_data_are_chosen(tmp_path: Path) -> None:
    longest = replace(SETTINGS["smoke"], n_train=16, batch=4, lr=0.02, options={"depth": 2, "width": 32}, epochs=41)
    assert _of_a_length_that_fits(Workspace(tmp_path), longest, (1, 40)).epochs == 40
    assert _of_a_length_that_fits(Workspace(tmp_path), longest, (1,)).epochs == 41


def analysed(study: Study, folder: Path) -> Outcome:
    workspace = Workspace(folder)
    if wanted := study.experiments("smoke"):
        assert run_sweep(wanted, workspace.runs_folder).count("finished") == len(wanted)
    return study.analyse(workspace, "smoke")


@pytest.mark.parametrize("study", STUDIES, ids=lambda one: one.name)
def test_every_study_runs_at_smoke_size(study: Study, tmp_path: Path) -> None:
    before = torch.get_rng_state()
    found = analysed(study, tmp_path)
    assert torch.equal(torch.get_rng_state(), before)
    assert len(found.claims) == CLAIMS[study.name]
    assert plain(asdict(analysed(study, tmp_path / "again"))) == plain(asdict(found))  # the seed decides
    for chart in found.charts:
        assert chart_figure(chart).axes
