"""The studies of Safran, Vardi & Lee 2022: at smoke size, and their verdicts each way from made-up answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from typer.testing import CliRunner

from regionscope_lab.cli.paper import paper as command
from regionscope_lab.papers.chart_figures import chart_figure
from regionscope_lab.papers.charts import Lines
from regionscope_lab.papers.safran2022 import STUDIES, end_to_end, example1, flows, generalisation, regions, width
from regionscope_lab.papers.safran2022.flows import Ends
from regionscope_lab.papers.safran2022.width import Pooled
from regionscope_lab.papers.study import Claim, Outcome, Study
from regionscope_lab.papers.verdict import Grade
from regionscope_lab.papers.workspace import Place, Workspace
from regionscope_lab.shallow import region_bound


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
def test_smoke(study: Study, place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = study.analyse(place, "smoke")
    assert outcome.claims
    assert outcome.tables
    for table in outcome.tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}
    for one in lines_of(outcome).series:
        assert one.x
        assert len(one.x) == len(one.y)
        assert all(map(math.isfinite, one.y))
    plt.close(chart_figure(lines_of(outcome)))
    for module, function in (
        (example1, example1.flow_from),
        (end_to_end, end_to_end.flows_as_asked),
        (end_to_end, flows.late_flows),
        (regions, flows.late_flows),
        (generalisation, flows.late_flows),
        (width, width.flows_of_width),
    ):
        monkeypatch.setattr(module, function.__name__, _never(function))
    assert study.analyse(place, "smoke") == outcome  # all from what is stored


def _never(function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """A stand-in under the same name, so that the workspace looks for the same answers."""

    def never(*place: Place, **setting: Any) -> dict[str, Any]:
        raise AssertionError(f"computed again: {setting}")

    never.__module__, never.__name__ = function.__module__, function.__name__
    return never


def test_full_size_is_far_above_the_bound() -> None:
    for size in ("desk", "full"):
        for setting in flows.REGION_GRID[size].settings() + flows.ERROR_GRID[size].settings():
            assert setting["width"] >= 4 * region_bound(setting["r"])
        assert [s["r"] for s in flows.REGION_GRID[size].settings()] == list(range(1, 9))


def test_late_flows_leave_out_what_is_not_classified(tmp_path: Path) -> None:
    """One unit cannot follow three switches; many can."""
    here = Place(runs=tmp_path)
    failed = flows.late_flows(here, r=4, width=1, n=6, seeds=2, max_log_loss=20.0)
    assert set(map(len, failed.values())) == {0}
    found = flows.late_flows(here, r=2, width=20, n=4, seeds=2, max_log_loss=20.0)
    assert set(map(len, found.values())) == {2}
    assert all(1 <= line <= exact <= 21 for line, exact in zip(found["line"], found["exact"], strict=True))
    assert all(0 <= error < 0.5 for error in found["error"])


def test_the_tolerance_from_which_on_the_bound_holds() -> None:
    assert flows._within([0.01, 0.1, 0.5], [9, 3, 1], 3) == 0.1
    assert flows._within([0.01, 0.1, 0.5], [2, 9, 1], 3) == 0.5
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
    assert {claim.what: claim.ours for claim in good.claims}[
        "flows that classify every point (the premise)"
    ] == "5 of 6"
    found, bound, least, units = lines_of(good).series
    assert bound.y == (99, 131)
    assert least.y == (1, 2)
    assert units.y == (400, 400)
    assert found.y[0] == pytest.approx(13 / 3)
    assert found.std[0] == pytest.approx(math.sqrt(1 / 3))
    many = regions.of_theorem42([ends([4, 100])])
    assert grade_of(many.claims, "r = 1") is Grade.NOT_REPRODUCED
    early = regions.of_theorem42([ends([4], converged=False)])
    assert grade_of(early.claims, "flows whose direction") is Grade.NOT_REPRODUCED


@pytest.mark.parametrize(
    ("kkt", "grade"), [(0.005, Grade.REPRODUCED), (0.05, Grade.SAME_TREND), (0.2, Grade.NOT_REPRODUCED)]
)
def test_theorem_4_2_judges_the_kkt_residual_of_a_flow_that_converged(kkt: float, grade: Grade) -> None:
    outcome = regions.of_theorem42([ends([4, 5, 4], kkt=kkt)])
    assert grade_of(outcome.claims, "flows whose direction") is Grade.REPRODUCED
    assert grade_of(outcome.claims, "largest KKT residual") is outcome.grade is grade


def test_theorem_4_2_without_a_classified_flow_is_inconclusive() -> None:
    outcome = regions.of_theorem42([ends([])])
    assert outcome.grade is Grade.INCONCLUSIVE
    assert outcome.charts == ()
    assert len(outcome.tables[0].rows[0]) == len(outcome.tables[0].columns)


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
    assert good.claims[1].spread.startswith("± ")
    assert grade_of(good.claims, "r = 1: share") is Grade.SHOWN
    level = generalisation.of_corollary51({1: [replace(one, error=(0.5, 0.5)) for one in falls]})
    assert [claim.verdict.grade for claim in level.claims] == [Grade.NOT_REPRODUCED] * 2 + [Grade.SHOWN]
    curve, bound = lines_of(good).series
    assert curve.x == (10, 40, 160)
    assert bound.beside == curve.label


def test_corollary_5_1_at_its_bound_is_shown() -> None:
    for factor, said in ((0.99, "0.00"), (1.01, "1.00")):
        near = [ends([3], n=n, error=[factor * generalisation.error_bound(1, n)]) for n in (10, 40)]
        (share,) = (one for one in generalisation.of_corollary51({1: near}).claims if "share" in one.what)
        assert (share.ours, share.verdict.grade) == (f"{said} at most", Grade.SHOWN)


def test_the_standard_error_of_a_slope() -> None:
    """Errors 1, 1/4 and 1/4 over n = 1, 2 and 4: in powers of two a slope of -1 and residuals -1/3, 2/3, -1/3."""
    found = generalisation._slope([ends([3], n=n, error=[v]) for n, v in ((1, 1.0), (2, 0.25), (4, 0.25))])
    assert found is not None
    assert found == pytest.approx((-1.0, math.sqrt((1 + 4 + 1) / 9 / 2)))


def test_corollary_5_1_with_errors_of_zero_and_without_flows() -> None:
    perfect = [ends([3, 3], n=n, error=(0.0, 0.0)) for n in (10, 40)]
    assert grade_of(generalisation.of_corollary51({1: perfect}).claims, "r = 1: slope") is Grade.SHOWN
    assert generalisation.of_corollary51({1: [ends([]), ends([])]}).claims == ()


def row(alpha: float, success: float, above: float | None, *, unfinished: int = 0) -> dict[str, Any]:
    bound = (1 - 0.75 * alpha) / 4 if above is not None else None
    return {
        "alpha": alpha, "width": int(6 * alpha), "runs": 10, "success": success, "loss": 1.0, "bound": bound,
        "above_bound": above, "unfinished": unfinished,
    }  # fmt: skip


def test_pooled_runs() -> None:
    one = Pooled.of([row(1.0, 0.2, 0.5), row(1.0, 0.4, 1.0, unfinished=2)])
    assert (one.runs, one.successes, one.share, one.above, one.each) == (20, 6, 0.3, 0.75, (0.2, 0.4))
    closed = replace(one, unfinished=0)
    assert one.interval[0] == closed.interval[0]
    assert one.interval[1] > closed.interval[1]
    assert math.isnan(Pooled.of([row(2.0, 0.5, None)]).above)


@pytest.mark.parametrize(
    ("above", "wide", "needed"),
    [(0.5, 1.0, Grade.REPRODUCED), (0.2, 1.0, Grade.REPRODUCED), (0.5, 0.2, Grade.INCONCLUSIVE),
     (0.5, 0.1, Grade.INCONCLUSIVE), (0.5, 0.0, Grade.INCONCLUSIVE)],
)  # fmt: skip
def test_theorem_3_2_each_way(above: float, wide: float, needed: Grade) -> None:
    outcome = width.of_theorem32([Pooled.of([row(1.0, 0.1, above)]), Pooled.of([row(8.0, wide, None)])])
    assert grade_of(outcome.claims, "width 6") is Grade.SHOWN  # the bound cannot be missed where the loss is read
    assert grade_of(outcome.claims, "success at") is needed
    assert outcome.grade is needed
    share, above_bound = lines_of(outcome).series
    assert share.y == (0.1, wide)
    assert share.label == "every training point classified"  # what is drawn around it is said below the figure
    assert all(low <= y <= high for y, (low, high) in zip(share.y, share.interval, strict=True))
    assert above_bound.x == (1.0,)


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


def test_the_reports_are_written(place: Workspace) -> None:
    """A page of each study through the command."""
    result = CliRunner().invoke(command, ["run", "safran2022", "--size", "smoke", "--folder", str(place.folder)])
    assert result.exit_code == 0, result.output
    for one in STUDIES:
        page = (place.folder / "reports" / one.name / "report.md").read_text(encoding="utf-8")
        assert one.claim in page
        assert "Verdict at size smoke" in page


def stage(reached: int, *, flows: int = 40, width: int = 50_000, theorem: str = "3.1") -> end_to_end.FlowStage:
    return end_to_end.FlowStage(
        theorem, 2, 30, width, 38_000.0, 1e9, (9.0,) * reached + (1.0,) * (flows - reached), (0.1,) * flows,
        (width,) * flows, 0.0, 1e-15, 60,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reached", "grade"), [(40, Grade.REPRODUCED), (38, Grade.INCONCLUSIVE), (20, Grade.NOT_REPRODUCED)]
)
def test_theorem_3_1_each_way(reached: int, grade: Grade) -> None:
    outcome = end_to_end.of_theorem23([stage(reached), stage(0, width=10_000)])
    assert grade_of(outcome.claims, "Theorem 3.1, r = 2, width 50,000") is grade
    assert grade_of(outcome.claims, "Theorem 3.1, r = 2, width 10,000 (below") is Grade.SHOWN
    assert outcome.grade is grade


def test_the_limit_at_the_asked_scale_stays_open() -> None:
    claims = end_to_end.of_theorem23([stage(40, theorem="2.3")]).claims
    assert grade_of(claims, "Theorem 2.3, r = 2, width 50,000: flows") is Grade.REPRODUCED
    assert grade_of(claims, "Theorem 2.3, r = 2, width 50,000: linear regions in the limit") is Grade.INCONCLUSIVE


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
