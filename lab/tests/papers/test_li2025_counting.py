"""Tables 3 to 6, section 6 and augmentation of Li et al. from hand-made runs: verdicts come out each way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from papers.li2025_runs import grades, made, planted
from regionscope_lab.papers.li2025 import (
    augmentation,
    claims,
    counting,
    evolution,
    tables,
    theory,
)
from regionscope_lab.papers.verdict import Grade
from regionscope_lab.store import RunFolder


def test_what_the_grid_misses(tmp_path: Path) -> None:
    outcome = counting.of_refined(tables.points(planted(tmp_path)))
    assert outcome.claims[0].ours == "+0.0500"
    assert outcome.grade is Grade.SHOWN
    assert [claim.what.split(":")[0] for claim in claims.joined([outcome]).claims[1:3]] == ["plain grid", "refined"]
    assert outcome.claims[3].ours == "+0.000"  # the same for every setting, so nothing is gained


def test_tables_4_and_5_each_way(tmp_path: Path) -> None:
    fine = {"grid_50": 2.9, "grid_200": 3.0, "grid_500": 3.0, "grid_10x10": 4.0, "grid_30x30": 4.4, "grid_50x50": 4.5}
    fine |= {"samples_10": 2.0, "samples_100": 2.9, "samples_500": 3.0}
    chosen = tables.points([made(tmp_path, fine)])
    found = grades(counting.of_table4(chosen, (50, 200, 500), (10, 30, 50)))
    assert list(found.values()) == [Grade.REPRODUCED, Grade.INCONCLUSIVE]  # planes of one seed have no spread
    assert counting.of_table5(chosen, (10, 100, 500)).grade is Grade.REPRODUCED
    wide = [*chosen, *tables.points([made(tmp_path / "wide", fine | {"grid_30x30": 4.6}, seed=1)])]
    planes = list(grades(counting.of_table4(wide, (50, 200, 500), (10, 30, 50))).values())[1]
    assert planes is Grade.SAME_TREND  # the mean is the paper's, and the seeds differ by 4%
    alike = [*chosen, *tables.points([made(tmp_path / "alike", fine, seed=1)])]
    assert list(grades(counting.of_table4(alike, (50, 200, 500), (10, 30, 50))).values())[1] is Grade.SAME_TREND
    other = tables.points([made(tmp_path / "other", fine | {"samples_100": 1.5, "grid_200": 3.0}, seed=1)])
    both = [*chosen, *other]  # the mean of 2.9 and 1.5
    assert counting.of_table5(both, (10, 100, 500)).grade is Grade.NOT_REPRODUCED
    above = tables.points([made(tmp_path / "above", fine | {"samples_100": 3.1}, seed=1)])
    (claim,) = counting.of_table5([*chosen, *above], (10, 100, 500)).claims  # the mean of 2.9 and 3.1 is judged
    assert (claim.ours, claim.verdict.grade) == ("1.000", Grade.REPRODUCED)
    coarse = tables.points([made(tmp_path / "coarse", fine | {"samples_100": 1.5, "grid_200": 1.5})])
    assert counting.of_table5(coarse, (10, 100, 500)).grade is Grade.NOT_REPRODUCED
    assert grades(counting.of_table4(coarse, (50, 200, 500), (10, 30, 50)))[
        "lines: count with 200 points / with the most"
    ] is Grade.NOT_REPRODUCED  # fmt: skip


def trained(folder: Path, *, rising: bool) -> list[RunFolder]:
    """Runs of two lengths with counts and gaps along the way; ``rising``: they go together at the end, not before."""
    runs = []
    for i in range(8):
        length = 100 if i % 2 else 50
        rows: list[dict[str, Any]] = [{"step": 0, "name": "regions_path", "value": 1.0 + 0.01 * i}]
        for share in (0.1, 0.5, 1.0):
            step = int(share * length)
            together = i if (share == 1.0) == rising else 8 - i
            rows += [
                {"step": step, "name": "regions_path", "value": 2.0 + share + 0.1 * i},
                {"step": step, "epoch": int(10 * share), "name": "train_error", "value": 0.05},
                {
                    "step": step,
                    "epoch": int(10 * share),
                    "name": "test_error",
                    "value": 0.1 * share + 0.1 + 0.01 * together,
                },
            ]
        runs.append(made(folder, {}, lr=0.1 / (i + 1), batch_size=length, rows=rows))
    return runs


def test_table_3_each_way(tmp_path: Path) -> None:
    runs = trained(tmp_path / "rising", rising=True)
    moments = tables.evolution(runs)
    assert [moment.share for moment in moments] == [0.0, 0.1, 0.5, 1.0]
    assert moments[0].gap is None
    assert moments[0].found is None
    assert moments[-1].gap == pytest.approx(100 * (0.2 + 0.035 - 0.05))
    assert moments[1].found is not None
    assert moments[1].found.pearson.value < -0.99
    found = grades(evolution.of_table3(runs))
    assert found["correlation at the end"] is Grade.REPRODUCED
    assert found["region count, start and end"] is Grade.REPRODUCED
    falling = grades(evolution.of_table3(trained(tmp_path / "falling", rising=False)))
    assert falling["correlation at the end"] is Grade.NOT_REPRODUCED
    assert falling["course of the correlation"] is Grade.NOT_REPRODUCED


def test_moments_are_compared_within_each_setting(tmp_path: Path) -> None:
    """Settings that differ widely but move alike leave no doubt about the move."""
    runs = []
    for i in range(5):
        rows = []
        for step in (5, 10):
            rows.append({"step": step, "name": "regions_path", "value": 2.0 + i + step})
            rows += [{"step": step, "name": "train_error", "value": 0.0}]
            rows += [{"step": step, "name": "test_error", "value": 0.1 * i + 0.01 * step}]
        runs.append(made(tmp_path, {}, lr=0.1 / (i + 1), rows=rows))
    for moment in tables.evolution(runs):
        assert moment.error < 1e-9
        assert moment.gap_error < 1e-9


def augmented(folder: Path, *, gain: float) -> list[RunFolder]:
    runs = []
    for kind, shift in (({}, 0.0), ({"mixup": 1.0}, 1.0), ({"augment": "crop_flip"}, 2.0)):
        for i in range(6):
            counts = {"regions": 3.0 + 0.1 * i - 0.5 * gain * shift}
            runs.append(made(folder, counts, test=0.3 + 0.01 * i - 0.05 * gain * shift, lr=0.1 / (i + 1), **kind))
    return runs


def test_augmentation_each_way(tmp_path: Path) -> None:
    good = tables.points(augmented(tmp_path / "good", gain=1.0))
    difference, error, n = tables.difference(good[6:12], good[:6], "test_accuracy")
    assert difference == pytest.approx(5.0)
    assert error < 1e-9
    assert n == 6
    assert augmentation.of_augmentation(good).grade is Grade.REPRODUCED
    bad = grades(augmentation.of_augmentation(tables.points(augmented(tmp_path / "bad", gain=-1.0))))
    assert bad["mixup: change of the region count"] is Grade.NOT_REPRODUCED
    assert bad["test accuracy, crop and flip minus mixup"] is Grade.NOT_REPRODUCED
    assert bad["mixup: regions against gap"] is Grade.REPRODUCED


def test_section_6_each_way() -> None:
    found = {
        "line": [theory.descend_with(data="line", n=5, dim=2, width=12, share=share, runs=2, steps=20, record=3)
                 for share in (0.3, 0.6, 0.9)]
    }  # fmt: skip
    outcome = grades(theory.of_section6(found))
    assert all(grade is Grade.REPRODUCED for what, grade in outcome.items() if what.startswith(("Lemma", "Theorem")))
    found["line"][0]["failures"] = 1
    assert grades(theory.of_section6(found))["Lemma 6.4: R(a, b) <= N(a) + N(b) + 2"] is Grade.NOT_REPRODUCED
    trend = "alternating points on a line, all rates: change of the mean region count for each doubling of the rate"
    assert grades(theory.of_section6(found))[trend] is Grade.SHOWN  # rates below the edge are outside the assumption
