"""The studies of Safran, Vardi & Lee 2022: at smoke size, and their verdicts each way from made-up answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regionscope_lab.papers.chart_figures import chart_figure
from regionscope_lab.papers.charts import Lines
from regionscope_lab.papers.safran2022 import STUDIES, end_to_end, example1, flows, generalisation, regions, width
from regionscope_lab.papers.safran2022.flows import Ends
from regionscope_lab.papers.safran2022.width import Pooled
from regionscope_lab.papers.study import Claim, Outcome, Study
from regionscope_lab.papers.verdict import Grade
from regionscope_lab.papers.workspace import Place, Workspace


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("safran2022"))


def grade_of(claims: Sequence[Claim], start: str) -> Grade:
    (found,) = (claim.verdict.grade for claim in claims if claim.what.startswith(start))
    return found


def lines_of(outcome: Outcome) -> Lines:
    (chart,) = outcome.charts
    assert isinstance(chart, Lines)
    return chart


@pytest.mark.parametrize("study", STUDIES, ids=lambda one: one.name)
def test_every_study_runs_at_smoke_size(study: Study, place: Workspace) -> None:
    outcome = study.analyse(place, "smoke")
    assert outcome.claims
    assert outcome.tables
    for table in outcome.tables:
        assert {len(row) for row in table.rows} == {len(table.columns)}
    assert all(map(math.isfinite, (y for one in lines_of(outcome).series for y in one.y)))
    assert chart_figure(lines_of(outcome)).axes
    computed = {path: path.stat().st_mtime_ns for path in (place.folder / "computed").iterdir()}
    assert study.analyse(place, "smoke") == outcome
    assert {path: path.stat().st_mtime_ns for path in (place.folder / "computed").iterdir()} == computed


def test_late_flows_leave_out_what_is_not_classified(tmp_path: Path) -> None:
    """One unit cannot follow three switches; many can."""
    here = Place(runs=tmp_path)
    failed = flows.late_flows(here, r=4, width=1, n=6, seeds=2, max_log_loss=20.0)
    assert set(map(len, failed.values())) == {0}
    found = flows.late_flows(here, r=2, width=20, n=4, seeds=2, max_log_loss=20.0)
    assert set(map(len, found.values())) == {2}
    assert all(1 <= line <= exact <= 21 for line, exact in zip(found["line"], found["exact"], strict=True))
    assert all(0 <= error < 0.5 for error in found["error"])
    assert flows._within([0.01, 0.1, 0.5], [9, 3, 1], 3) == 0.1
    assert flows._within([0.01, 0.1], [1, 4], 3) is None


def ends(
    line: Sequence[int],
    *,
    r: int = 1,
    n: int = 10,
    error: Sequence[float] = (),
    converged: bool = True,
    kkt: float = 0.005,
) -> Ends:
    m = len(line)
    return Ends(
        line=tuple(line), inside=tuple(line), exact=(50,) * m, decades=(1.0,) * m, within=(0.01,) * m,
        minimum=(r,) * m, kkt=(kkt,) * m, error=tuple(error) or (0.1,) * m, converged=(converged,) * m,
        r=r, n=n, width=400, seeds=3,
    )  # fmt: skip


def test_theorem_4_2_each_way() -> None:
    good = regions.of_theorem42([ends([4, 5, 4]), ends([99 + 32, 7], r=2)])
    assert good.grade is Grade.REPRODUCED
    assert "131 at most" in good.claims[1].ours
    assert "5 of 6" in {claim.ours for claim in good.claims}
    counted, bound, least, units = lines_of(good).series
    assert (bound.y, least.y, units.y) == ((99, 131), (1, 2), (400, 400))
    assert counted.y[0] == pytest.approx(13 / 3)
    assert counted.std[0] == pytest.approx(math.sqrt(1 / 3))
    for flows_of_r, start, grade in (
        (ends([4, 100]), "r = 1", Grade.NOT_REPRODUCED),
        (ends([4], converged=False), "flows whose direction", Grade.NOT_REPRODUCED),
        (ends([4, 5, 4], kkt=0.05), "largest KKT residual", Grade.SAME_TREND),
        (ends([4, 5, 4], kkt=0.2), "largest KKT residual", Grade.NOT_REPRODUCED),
    ):
        assert grade_of(regions.of_theorem42([flows_of_r]).claims, start) is grade
    none = regions.of_theorem42([ends([])])
    assert (none.grade, none.charts) == (Grade.INCONCLUSIVE, ())


def test_the_error_of_the_corollary() -> None:
    for r, n in ((1, 10), (2, 100), (8, 5000)):
        epsilon = generalisation.error_bound(r, n)
        assert (r * math.log(1 / epsilon) + math.log(10)) / epsilon == pytest.approx(n)
    assert generalisation.error_bound(3, 2) == 1.0


def test_corollary_5_1_each_way() -> None:
    falls = [ends([3, 3], n=n, error=(0.9 / n, 1.1 / n)) for n in (10, 40, 160)]
    good = generalisation.of_corollary51({1: falls})
    assert good.grade is Grade.REPRODUCED
    assert "-1.00" in good.claims[1].ours
    assert grade_of(good.claims, "r = 1: share") is Grade.SHOWN
    assert lines_of(good).series[0].x == (10, 40, 160)
    level = generalisation.of_corollary51({1: [replace(one, error=(0.5, 0.5)) for one in falls]})
    assert [claim.verdict.grade for claim in level.claims] == [Grade.NOT_REPRODUCED] * 2 + [Grade.SHOWN]
    perfect = generalisation.of_corollary51({1: [replace(one, error=(0.0, 0.0)) for one in falls]})
    assert grade_of(perfect.claims, "r = 1: slope") is Grade.SHOWN
    assert generalisation.of_corollary51({1: [ends([]), ends([])]}).claims == ()


def test_the_standard_error_of_a_slope() -> None:
    """Errors 1, 1/4 and 1/4 over n = 1, 2 and 4: in powers of two a slope of -1 and residuals -1/3, 2/3, -1/3."""
    found = generalisation._slope([ends([3], n=n, error=[v]) for n, v in ((1, 1.0), (2, 0.25), (4, 0.25))])
    assert found is not None
    assert found == pytest.approx((-1.0, math.sqrt((1 + 4 + 1) / 9 / 2)))


def row(alpha: float, success: float, above: float | None, *, unfinished: int = 0) -> dict[str, Any]:
    bound = (1 - 0.75 * alpha) / 4 if above is not None else None
    return {
        "alpha": alpha, "width": int(6 * alpha), "runs": 10, "success": success, "loss": 1.0, "bound": bound,
        "above_bound": above, "unfinished": unfinished,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("above", "wide", "needed"),
    [(0.5, 1.0, Grade.REPRODUCED), (0.2, 1.0, Grade.REPRODUCED), (0.5, 0.1, Grade.INCONCLUSIVE)],
)
def test_theorem_3_2_each_way(above: float, wide: float, needed: Grade) -> None:
    outcome = width.of_theorem32([Pooled.of([row(1.0, 0.1, above)]), Pooled.of([row(8.0, wide, None)])])
    assert grade_of(outcome.claims, "width 6") is Grade.SHOWN  # the bound cannot be missed where the loss is read
    assert grade_of(outcome.claims, "success at") is outcome.grade is needed
    share, above_bound = lines_of(outcome).series
    assert share.y == (0.1, wide)
    assert all(low <= y <= high for y, (low, high) in zip(share.y, share.interval, strict=True))
    assert above_bound.x == (1.0,)
    pooled = Pooled.of([row(1.0, 0.2, 0.5), row(1.0, 0.4, 1.0, unfinished=2)])
    assert (pooled.runs, pooled.successes, pooled.share, pooled.above) == (20, 6, 0.3, 0.75)
    assert pooled.interval[1] > replace(pooled, unfinished=0).interval[1]


def answer(**other: Any) -> dict[str, Any]:
    plain = {
        "log_loss": [1.0, 90.0], "turned": 1e-15, "second_unit": 0.0, "growth": 9.0, "classified": True,
        "norm_squared": [2.0, 2.0], "kkt": 1e-9, "better": 1.0,
    }  # fmt: skip
    return {**plain, **other}


def test_example_1_each_way() -> None:
    assert example1.of_example1({"exponential": answer()}).grade is Grade.REPRODUCED
    for changed in ({"turned": 0.1}, {"second_unit": 1e-3}, {"classified": False}):
        claims = example1.of_example1({"exponential": answer(**changed)}).claims
        assert grade_of(claims, "exponential loss: the direction") is Grade.NOT_REPRODUCED
    left = example1.of_example1({"exponential": answer(norm_squared=[2.0, 1.0])})
    assert grade_of(left.claims, "exponential loss: |theta|²") is Grade.NOT_REPRODUCED


def stage(reached: int, *, flows: int = 40, width: int = 50_000, theorem: str = "3.1") -> end_to_end.FlowStage:
    return end_to_end.FlowStage(
        theorem, 2, 30, width, 38_000.0, 1e9, (9.0,) * reached + (1.0,) * (flows - reached), (0.1,) * flows,
        (width,) * flows, 0.0, 1e-15, 60,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reached", "grade"), [(40, Grade.REPRODUCED), (38, Grade.INCONCLUSIVE), (20, Grade.NOT_REPRODUCED)]
)
def test_theorem_3_1_each_way(reached: int, grade: Grade) -> None:
    outcome = end_to_end.of_theorem23([stage(reached), stage(0, width=10_000), stage(40, theorem="2.3")])
    assert grade_of(outcome.claims, "Theorem 3.1, r = 2, width 50,000") is grade
    assert grade_of(outcome.claims, "Theorem 3.1, r = 2, width 10,000 (below") is Grade.SHOWN
    assert grade_of(outcome.claims, "Theorem 2.3, r = 2, width 50,000: flows") is Grade.REPRODUCED
    limit = "Theorem 2.3, r = 2, width 50,000: linear regions in the limit"
    assert grade_of(outcome.claims, limit) is Grade.INCONCLUSIVE


def test_theorem_2_3_with_a_smaller_scale_each_way() -> None:
    few = replace(ends([4], r=2), seeds=1)
    start = "Theorem 2.3, r = 2, width 400, sigma_h = 1 (smaller than required): "
    good = end_to_end.of_late([few]).claims
    assert grade_of(good, f"{start}flows that classify") is Grade.REPRODUCED
    assert grade_of(good, f"{start}effective") is Grade.REPRODUCED
    slow = end_to_end.of_late([replace(few, converged=(False,))]).claims
    assert grade_of(slow, f"{start}flows that classify") is Grade.INCONCLUSIVE
    many = end_to_end.of_late([replace(few, line=(132,))]).claims
    assert grade_of(many, f"{start}effective") is Grade.NOT_REPRODUCED


def test_the_asked_scale_is_that_of_the_theorems() -> None:
    """r = 2: one switch in the middle of [-1, 1], so rho = 1; C = 1/2, R = 1, delta = 0.1."""
    first, whole = end_to_end.asked("3.1", 2, 30, 1000), end_to_end.asked("2.3", 2, 30, 1000)
    assert first.k == pytest.approx(6144 * math.log(480))
    assert first.sigma_h == pytest.approx(4200 * 900 * 0.5 * math.sqrt(2000) / 0.1)
    assert whole.k == pytest.approx(6144 * math.log(960))
    assert whole.sigma_h == pytest.approx(2 * first.sigma_h)


def test_flows_at_the_asked_scale_stop_near_the_wanted_loss() -> None:
    """Large hidden weights do not make the steps so long that the flow jumps to the end."""
    found = end_to_end.flows_as_asked(theorem="3.1", r=2, n=8, width=300, first=0, flows=2)
    assert all(math.log(16) <= value < 2 * math.log(16) for value in found["log_loss"])
    assert max(found["hidden"]) < 1e-12
    alone = end_to_end.flows_as_asked(theorem="3.1", r=2, n=8, width=300, first=1, flows=1)
    assert alone["log_loss"] == pytest.approx(found["log_loss"][1:])
