"""Gradient flow: against SciPy and tiny steps, its invariants, its events, and the promises of the paper."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from devices import needs_cuda
from regionscope.errors import InputError
from regionscope_lab.shallow import (
    Flow,
    FlowOptions,
    Network,
    Sample,
    alternating_teacher,
    effective_regions,
    example_1,
    flow_table,
    gradient_flow,
    gradient_flows,
    initial_network,
    kkt_residual,
    largest_sigma_o,
    minimum_regions,
    population_loss,
    region_bound,
    regions_vs_teacher_width,
    sample,
    success_vs_width,
    teacher_from_switches,
)
from regionscope_lab.shallow.flow import conserved_drift
from regionscope_lab.shallow.integrate import integrate
from regionscope_lab.shallow.losses import log_threshold, pull
from regionscope_lab.shallow.network import initial_theta
from regionscope_lab.shallow.reference import flow_without_events, small_steps
from regionscope_lab.shallow.state import ENDS
from shallow.settings import flow_start

pytestmark = pytest.mark.slow


DATA = sample(teacher_from_switches([-0.4, 0.1]), 14, seed=1)
START = initial_network(30, sigma_h=1.0, sigma_o=1e-4, seed=2)


@pytest.fixture(scope="module")
def late_flow() -> Flow:
    return gradient_flow(START, DATA, FlowOptions(max_log_loss=1500.0, direction_tol=0.0))


def at(tau: float, **more: object) -> FlowOptions:
    return FlowOptions(max_tau=tau, direction_tol=0.0, **more)


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_a_stretch_without_events_is_that_of_scipy(loss: str) -> None:
    theta, x, y = flow_start(1, 5, 6, seed=2)
    end = integrate(theta, x, y, at(1.0, rtol=1e-8, loss=loss))
    assert int(end.crossed + end.slid + end.quiet) == 0
    expected = flow_without_events(theta[0], x[0], y[0], tau=1.0, loss=loss)
    torch.testing.assert_close(end.theta[0], expected, rtol=0, atol=3e-8)


def starts(seeds: tuple[int, ...], k: int, n: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The flows of several seeds as one batch."""
    theta, x, y = (torch.cat(parts) for parts in zip(*(flow_start(1, k, n, seed=seed) for seed in seeds), strict=True))
    return theta, x, y


@pytest.mark.parametrize(("loss", "seed"), [("exponential", 1), ("logistic", 3)])
def test_sliding_flows_are_the_limit_of_tiny_steps(loss: str, seed: int) -> None:
    """The chattering of small explicit steps converges, at their order one, to the Filippov solution."""
    theta, x, y = flow_start(1, 5, 6, seed=seed)
    fine = integrate(theta, x, y, at(4.0, rtol=1e-6, loss=loss))
    assert int(fine.slid.min()) > 0
    assert int(fine.ambiguous.max()) == 0
    errors = [
        float((small_steps(theta[0], x[0], y[0], step=4 / n, n_steps=n, loss=loss) - fine.theta[0]).abs().max())
        for n in (125, 800)
    ]
    assert errors[1] < 5e-3
    assert errors[0] > 2 * errors[1]


def test_the_answer_converges_with_the_tolerance() -> None:
    theta, x, y = starts((1, 3, 5), 8, 10)
    finest = integrate(theta, x, y, at(4.0, rtol=1e-7)).theta
    for rtol in (1e-4, 1e-6):
        found = integrate(theta, x, y, at(4.0, rtol=rtol)).theta
        assert float((found - finest).abs().max()) < 60 * rtol


def test_without_sliding_the_answer_would_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Break the code: if a kink that should slide is let through, the flow no longer agrees with tiny steps."""
    from regionscope_lab.shallow import events

    theta, x, y = flow_start(1, 5, 6, seed=1)
    right = integrate(theta, x, y, at(4.0, rtol=1e-5)).theta
    honest = events.one_sided

    def blind(*arguments: object) -> tuple[torch.Tensor, torch.Tensor]:
        below, _ = honest(*arguments)
        return below, below

    monkeypatch.setattr(events, "one_sided", blind)
    wrong = integrate(theta, x, y, at(4.0, rtol=1e-5, max_steps=75)).theta
    assert float((wrong - right).abs().max()) > 1e-2


def test_the_batch_does_not_change_the_answer() -> None:
    theta, x, y = flow_start(5, 6, 8, seed=7)
    options = FlowOptions(max_log_loss=30.0, max_steps=120)
    together = gradient_flows(theta, x, y, options)
    assert len(set(together.end.tolist())) > 2  # the flows end in different ways
    parts = gradient_flows(theta, x, y, options, chunk=2)  # two, two and one
    torch.testing.assert_close(parts.theta, together.theta, rtol=1e-7, atol=1e-9)
    assert parts.end.tolist() == together.end.tolist()


def test_loss_falls_and_the_conserved_quantity_stays() -> None:
    theta, x, y = flow_start(4, 20, 12, seed=11)
    seen: list[torch.Tensor] = []

    def watch(flows: Any, rows: torch.Tensor) -> None:
        values = torch.full((4,), math.nan, dtype=torch.float64)
        values[rows] = flows.F
        seen.append(values)

    end = integrate(theta, x, y, FlowOptions(max_log_loss=60.0, max_steps=1500), on_step=watch)
    history = torch.stack(seen)
    steps = history[1:] - history[:-1]
    assert float(steps[~torch.isnan(steps)].min()) > -1e-7
    assert float(conserved_drift(theta, end.theta).max()) < 1e-3


def test_example_1_keeps_its_direction_with_both_losses() -> None:
    example = example_1()
    for loss in ("exponential", "logistic"):
        flow = gradient_flow(
            example.start, example.sample, FlowOptions(loss=loss, max_log_loss=500.0, direction_tol=0.0)
        )
        first, last = example.start.theta, flow.theta[-1]
        assert float((last / last.norm() - first / first.norm()).norm()) < 1e-9
        assert float(last.norm()) > 15 * float(first.norm())
        found = kkt_residual(flow.network(), example.sample)
        assert found is not None
        assert found.residual < 1e-8
        assert found.norm_squared == pytest.approx(2.0, abs=1e-9)
    better = kkt_residual(example.better, example.sample)
    assert better is not None
    assert better.norm_squared == pytest.approx(1.0)  # a larger margin than the one the flow goes to
    assert float((example.sample.y * example.better(example.sample.x)).min()) == pytest.approx(1.0)


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_every_point_is_classified_after_t0(loss: str) -> None:
    n = 7
    threshold = log_threshold(n, loss)
    q = torch.full((n,), 50.0, dtype=torch.float64)
    q[3] = 0.0
    assert float(pull(q, loss).F) == pytest.approx(threshold)
    # At the paper's 1/n for both losses, a logistic point may still be wrong.
    if loss == "logistic":
        q[3] = -0.5
        assert float(pull(q, loss).F) > math.log(1 / 1.0) + math.log(n) - 1e-9 > 0


def test_a_flow_that_cannot_win_comes_to_rest() -> None:
    data = Sample(torch.tensor([-0.5, 0.5], dtype=torch.float64), torch.tensor([1.0, -1.0], dtype=torch.float64))
    flow = gradient_flow(Network([1.0], [2.0], [0.5]), data, FlowOptions(max_steps=1000))
    assert ENDS[int(flow.end.end[0])] in ("stalled", "steps")
    assert not flow.classified


def test_late_flow_has_few_regions_and_a_small_kkt_residual(late_flow: Flow) -> None:
    flow = late_flow
    rows = flow_table(flow, radius=1.0, teacher=teacher_from_switches([-0.4, 0.1]), every=max(1, len(flow) // 6))
    late = [row for row in rows if not math.isnan(row.kkt)]
    assert flow.classified
    assert late[-1].kkt < 0.05 < late[0].kkt
    assert late[-1].margin > late[0].margin
    assert late[-1].slackness < 0.01
    last = effective_regions(flow.network(), radius=1.0)
    assert minimum_regions(DATA.y) <= last.on_inside.count <= 8 < region_bound(3)
    assert rows[-1].classification_error < 0.1
    assert rows[-1].drift < 1e-3
    assert flow.log_t[-1] > 1000  # e^1000 is no float64: nothing underflowed


def test_log_time_is_the_integral_of_the_inverse_loss() -> None:
    """One point at 0 and N = v relu(b): by hand, b = v = e^tau and t is the integral of e^(b v)."""
    data = Sample(torch.tensor([0.0], dtype=torch.float64), torch.ones(1, dtype=torch.float64))
    flow = gradient_flow(Network([0.0], [1.0], [1.0]), data, FlowOptions(max_tau=0.8, direction_tol=0.0, rtol=1e-8))
    q = math.exp(2 * 0.8)
    assert float(flow.log_inverse_loss[-1]) == pytest.approx(q, rel=1e-6)
    s = torch.linspace(0, 0.8, 200_001, dtype=torch.float64)
    assert float(flow.log_t[-1]) == pytest.approx(
        math.log(float(torch.trapezoid(torch.exp(torch.exp(2 * s)), s))), abs=2e-3
    )


def test_a_kink_on_a_point_has_a_free_subgradient(late_flow: Flow) -> None:
    """Late in a flow with a sliding kink, the residual is small only if its pull may be shared."""
    assert int((late_flow.end.modes.slide >= 0).sum()) > 0
    network = late_flow.network()
    with_share, without = kkt_residual(network, DATA), kkt_residual(network, DATA, kink=0.0)
    assert with_share is not None
    assert without is not None
    assert with_share.residual < 0.05
    assert without.residual > 1.5 * with_share.residual


def test_the_direction_stop_says_so_and_leaves_little_to_turn(late_flow: Flow) -> None:
    flow = gradient_flow(START, DATA, FlowOptions(direction_tol=0.05))
    assert ENDS[int(flow.end.end[0])] == "direction"
    assert flow.status.complete
    assert "direction" in flow.ending
    assert float(flow.end.direction_rate[0]) <= 0.05
    assert float(late_flow.log_inverse_loss[-1]) > 4 * float(flow.log_inverse_loss[-1])
    assert "budget" in late_flow.ending
    assert not late_flow.status.complete
    ends = [f.theta[-1] / f.theta[-1].norm() for f in (flow, late_flow)]
    assert float((ends[0] - ends[1]).norm()) < 4 * 0.05
    residuals = [kkt_residual(f.network(), DATA) for f in (flow, late_flow)]
    assert residuals[0] is not None
    assert residuals[1] is not None
    assert residuals[1].residual < residuals[0].residual < 0.2


def test_a_looser_tolerance_takes_fewer_steps() -> None:
    """Steps must not be rejected in turn with accepted ones, nor cut again and again before one event."""
    theta, x, y = flow_start(3, 12, 10, seed=4, sigma_o=1e-2)
    ends = [integrate(theta, x, y, FlowOptions(max_log_loss=6.0, rtol=rtol)) for rtol in (1e-3, 1e-4, 1e-5)]
    counts = [float(end.steps.double().mean()) for end in ends]
    assert counts[0] < counts[1] < counts[2]
    for end in ends:
        assert float((end.rejected / end.steps).mean()) < 0.45


def test_a_creeping_flow_is_at_rest() -> None:
    theta, x, y = flow_start(4, 2, 12, seed=3, switches=(-0.5, 0.0, 0.5))
    end = integrate(theta, x, y, FlowOptions(max_steps=4000, rest=1e-4))
    assert all(ENDS[int(code)] == "stalled" for code in end.end)
    assert bool(torch.isnan(end.log_t0).all())


def test_dead_units_change_nothing() -> None:
    theta, x, y = flow_start(2, 5, 6, seed=1)
    wide = torch.nn.functional.pad(theta, (0, 3))
    small, padded = (integrate(start, x, y, at(2.0, rtol=1e-6)) for start in (theta, wide))
    torch.testing.assert_close(padded.theta[:, :, :5], small.theta, rtol=0, atol=1e-5)
    assert bool((padded.theta[:, :, 5:] == 0).all())


def test_late_flows_of_a_wide_network_keep_the_bound() -> None:
    (row,) = regions_vs_teacher_width([1], n=10, runs=2, options=FlowOptions(max_log_loss=100.0))
    assert (row.width, row.bound, row.minimum) == (396, 99, 1)
    assert row.classified == 2
    assert row.holds
    assert 1 <= row.inside <= row.line
    assert row.converged == 0  # the hidden layer has hardly moved yet, which is no convergence
    assert row.kkt > 0.5
    assert row.error == 0
    with pytest.raises(InputError, match="at least 1"):
        regions_vs_teacher_width([0])


def test_narrow_networks_fail_and_wide_ones_succeed() -> None:
    rows = success_vs_width(4, (0.5, 4.0), n=16, runs=10, options=FlowOptions(max_steps=400, rest=1e-3))
    assert rows[0].low == 0 <= rows[0].success < 0.2
    assert rows[0].success <= rows[0].high <= 1
    assert rows[1].success > rows[0].success + 0.3
    assert rows[0].bound is None


def test_the_loss_of_an_even_number_of_runs_is_their_median() -> None:
    options = FlowOptions(max_steps=1)
    (row,) = success_vs_width(3, [1.0], n=6, runs=2, options=options)
    teacher, deviation = alternating_teacher(3), largest_sigma_o(3, theorem="3.1")
    theta = initial_theta(2, 3, sigma_h=1.0, sigma_o=deviation, seed=1)
    data = sample(teacher, 6, seed=0)
    ends = gradient_flows(theta, data.x, data.y, replace(options, max_log_loss=math.log(6) + 1e-9)).theta
    losses = [population_loss(Network.of(end), teacher) for end in ends]
    assert row.loss == pytest.approx(sum(losses) / 2, rel=1e-12)
    assert losses[0] != losses[1]


def test_a_width_that_is_whole_is_not_rounded_down() -> None:
    (row,) = success_vs_width(100, [1.15], n=5, runs=1, sigma_o=0.0, options=FlowOptions(max_steps=1))
    assert row.width == 115  # 1.15 * 100 is 114.99999999999999
    assert row.loss == pytest.approx(1.0, abs=0.2)  # from an output of 0


def test_bad_input_is_named() -> None:
    theta, x, y = flow_start(2, 3, 4)
    with pytest.raises(InputError, match="x in strictly ascending order, got other values"):
        gradient_flows(theta, x.flip(1), y)
    with pytest.raises(InputError, match="exponential"):
        FlowOptions(loss="hinge")
    with pytest.raises(InputError, match=r"\(B, 3, k\)"):
        gradient_flows(theta[0], x, y)
    with pytest.raises(InputError, match="-1 or 1"):
        gradient_flows(theta, x, y * 2)
    with pytest.raises(InputError, match="Expected finite theta, got NaN"):
        gradient_flows(theta * math.nan, x, y)
    with pytest.raises(InputError, match=r"Expected x of shape \(n,\) or \(2, n\), got \(3, 4\)"):
        gradient_flows(theta, x[:1].expand(3, 4), y)


def test_flows_of_float32_are_computed_in_float64() -> None:
    single = [values.float() for values in flow_start(2, 3, 4)]
    found, expected = (
        gradient_flows(*values, FlowOptions(max_steps=20)) for values in (single, [one.double() for one in single])
    )
    assert found.theta.dtype == torch.float64
    assert torch.equal(found.theta, expected.theta)


@needs_cuda
def test_flows_on_cuda_are_those_of_the_cpu() -> None:
    theta, x, y = flow_start(5, 6, 8, seed=7)
    options = at(1.0, rtol=1e-8, max_steps=400)
    here, there = gradient_flows(theta, x, y, options), gradient_flows(theta.cuda(), x.cuda(), y.cuda(), options)
    assert there.theta.is_cuda
    torch.testing.assert_close(there.theta.cpu(), here.theta, rtol=1e-6, atol=1e-7)
    assert there.end.tolist() == here.end.tolist()


@needs_cuda
def test_successes_on_cuda_are_those_of_the_cpu() -> None:
    def shares(device: str) -> list[float]:
        return [row.success for row in success_vs_width(2, [1.0, 4.0], n=8, runs=8, device=device)]

    assert shares("cuda") == shares("cpu")
