"""Gradient flow against SciPy and tiny steps, its invariants and events; its kernels against dense algebra."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from devices import needs_cuda
from regionscope.errors import InputError
from regionscope_lab.shallow import (
    Flow,
    FlowOptions,
    Network,
    Sample,
    effective_regions,
    example_1,
    flow_table,
    gradient_flow,
    gradient_flows,
    initial_network,
    kernel,
    kkt_residual,
    minimum_regions,
    region_bound,
    sample,
    success_vs_width,
    teacher_from_switches,
)
from regionscope_lab.shallow.flow import conserved_drift
from regionscope_lab.shallow.integrate import integrate
from regionscope_lab.shallow.losses import pull
from regionscope_lab.shallow.modes import Modes, guards, modes_of
from regionscope_lab.shallow.rosenbrock import _Solver, evaluate, rosenbrock_step
from regionscope_lab.shallow.state import ENDS
from shallow.reference import flow_without_events, small_steps

pytestmark = pytest.mark.slow


def flow_start(
    n_flows: int, k: int, n: int, *, seed: int = 0, sigma_o: float = 0.3, switches: tuple[float, ...] = (-0.3, 0.4)
) -> tuple[Tensor, Tensor, Tensor]:
    """theta (B, 3, k), x (B, n) sorted in [-1, 1], y (B, n) that changes sign at ``switches``."""
    generator = torch.Generator().manual_seed(seed)
    x = (torch.rand((n_flows, n), generator=generator, dtype=torch.float64) * 2 - 1).sort(1).values
    y = torch.ones_like(x)
    for at in switches:
        y = torch.where(x > at, -y, y)
    theta = torch.randn((n_flows, 3, k), generator=generator, dtype=torch.float64)
    theta[:, 2] *= sigma_o
    return theta, x, y


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


def test_a_fold_on_a_point_has_a_free_subgradient(late_flow: Flow) -> None:
    """Late in a flow with a sliding fold, the residual is small only if its pull may be shared."""
    assert int((late_flow.end.modes.slide >= 0).sum()) > 0
    network = late_flow.network()
    with_share, without = kkt_residual(network, DATA), kkt_residual(network, DATA, fold=0.0)
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
    assert "budget" in late_flow.ending
    assert not late_flow.status.complete
    ends = [f.theta[-1] / f.theta[-1].norm() for f in (flow, late_flow)]
    assert float((ends[0] - ends[1]).norm()) < 4 * 0.05


def test_a_looser_tolerance_takes_fewer_steps_and_errs_within_it() -> None:
    """Steps must not be rejected in turn with accepted ones, nor cut again and again before one event."""
    theta, x, y = flow_start(3, 8, 10, seed=4)
    ends = [integrate(theta, x, y, at(4.0, rtol=rtol)) for rtol in (1e-3, 1e-4, 1e-5, 1e-6)]
    counts = [float(end.steps.double().mean()) for end in ends]
    assert counts[0] < counts[1] < counts[2] < counts[3]
    for end, rtol in zip(ends[:3], (1e-3, 1e-4, 1e-5), strict=True):
        assert float((end.rejected / end.steps).mean()) < 0.45
        assert float((end.theta - ends[3].theta).abs().max()) < 60 * rtol


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


def test_a_width_that_is_whole_is_not_rounded_down() -> None:
    (row,) = success_vs_width(100, [1.15], n=5, runs=1, options=FlowOptions(max_steps=1))
    assert row.width == 115  # 1.15 * 100 is 114.99999999999999


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda theta, x, y: (theta, x.flip(1), y), "x in strictly ascending order"),
        (lambda theta, x, y: (theta[0], x, y), r"\(B, 3, k\)"),
        (lambda theta, x, y: (theta, x, y * 2), "-1 or 1"),
        (lambda theta, x, y: (theta * math.nan, x, y), "finite theta, got NaN"),
        (lambda theta, x, y: (theta, x[:1].expand(3, 4), y), r"\(2, n\), got \(3, 4\)"),
        (lambda theta, x, y: FlowOptions(loss="hinge"), "exponential"),
    ],
)
def test_bad_input_is_named(change: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        gradient_flows(*change(*flow_start(2, 3, 4)))


@needs_cuda
def test_flows_on_cuda_are_those_of_the_cpu() -> None:
    theta, x, y = flow_start(5, 6, 8, seed=7)
    options = at(1.0, rtol=1e-8, max_steps=400)
    here, there = gradient_flows(theta, x, y, options), gradient_flows(theta.cuda(), x.cuda(), y.cuda(), options)
    assert there.theta.is_cuda
    torch.testing.assert_close(there.theta.cpu(), here.theta, rtol=1e-6, atol=1e-7)
    assert there.end.tolist() == here.end.tolist()


def with_slides(theta: Tensor, modes: Modes, x: Tensor) -> tuple[Tensor, Modes]:
    """Put the first unit that has a fold between two points on the left one of them, sliding."""
    lo, hi, slide = modes.lo.clone(), modes.hi.clone(), modes.slide.clone()
    theta = theta.clone()
    n = x.shape[1]
    for f in range(len(x)):
        for j in range(theta.shape[2]):
            if 1 < lo[f, j] < n and hi[f, j] == n:
                point = int(lo[f, j]) - 1
                slide[f, j] = point
                theta[f, 1, j] = -theta[f, 0, j] * x[f, point]
                break
    return theta, modes.changed(x, lo, hi, slide)


def dense_gradients(theta: Tensor, modes: Modes, x: Tensor, y: Tensor) -> Tensor:
    """Rows d q_i / d theta (n, 3k) of one flow with a frozen pattern, projected for sliding units."""
    w, b, v = theta
    rows = []
    for i in range(len(x)):
        active = ((modes.lo[0] <= i) & (i < modes.hi[0])).double()
        plane = torch.stack([v * x[i], v]) * active
        plane = plane - modes.normal[0] * (modes.normal[0] * plane).sum(0)
        rows.append(torch.cat([plane, ((w * x[i] + b) * active)[None]]).flatten() * y[i])
    return torch.stack(rows)


@pytest.mark.parametrize("seed", range(2))
def test_outputs_and_gradient_are_those_of_the_dense_network(seed: int) -> None:
    theta, x, y = flow_start(3, 7, 9, seed=seed)
    modes = modes_of(theta, x)
    for loss in ("exponential", "logistic"):
        here = evaluate(theta, modes, x, y, loss)
        free = theta.clone().requires_grad_(True)
        z = free[:, 0, None] * x[:, :, None] + free[:, 1, None]
        q = y * (torch.relu(z) * free[:, 2, None]).sum(-1)
        value = pull(q, loss).F
        (slope,) = torch.autograd.grad(value.sum(), free)
        torch.testing.assert_close(here.q, q.detach())
        torch.testing.assert_close(here.speed, slope)


def test_the_modes_of_special_units() -> None:
    x = torch.tensor([[-1.0, 0.0, 1.0]], dtype=torch.float64)
    #                     right of 0, left of 0, all, none, zero, on a point
    w = torch.tensor([1.0, -1.0, 0.0, 0.0, 0.0, 1.0, 0.1])
    b = torch.tensor([-0.5, -0.5, 1.0, -1.0, 0.0, 0.0, 5.0])
    theta = torch.stack([w, b, torch.ones(7)])[None].double()
    modes = modes_of(theta, x)
    assert modes.lo[0].tolist() == [2, 0, 0, 0, 0, 2, 0]
    assert modes.hi[0].tolist() == [3, 1, 3, 0, 0, 3, 3]
    index, sign = guards(modes, 3)
    assert index[0, :, 0].tolist() == [2, 1]
    assert sign[0, :, 0].tolist() == [1, -1]
    assert index[0, :, 1].tolist() == [0, 1]
    assert sign[0, :, 2].tolist() == [1, 1]
    assert sign[0, :, 3].tolist() == [0, 0]


@pytest.mark.parametrize("seed", range(4))
def test_gram_and_solve_match_dense_algebra(seed: int) -> None:
    theta, x, y = flow_start(1, 6, 8, seed=seed)
    theta, modes = with_slides(theta, modes_of(theta, x), x)
    here = evaluate(theta, modes, x, y, "logistic")
    h = torch.tensor([0.7], dtype=torch.float64)
    kappa, k = 2 / h, theta.shape[2]
    block = torch.zeros((3, k, 3, k), dtype=torch.float64)
    for j in range(k):
        for row in range(2):
            block[row, j, 2, j] = block[2, j, row, j] = here.g[0, row, j]
    block = block.reshape(3 * k, 3 * k)
    rows = dense_gradients(theta[0], modes, x[0], y[0])
    middle = float(kappa) * torch.eye(3 * k, dtype=torch.float64) - block
    expected = rows @ torch.linalg.solve(middle, rows.T)
    torch.testing.assert_close(kernel.gram(theta, here.g, kappa, modes, x, y)[0], expected)
    inner = torch.diag(here.pull.d[0]) - here.pull.r[0][:, None] * here.pull.r[0][None]
    right = torch.randn((1, 3, k), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    right[:, :2] = kernel.tangent(right[:, :2], modes)
    solved = _Solver(theta, here, h, modes, x, y)(right)
    torch.testing.assert_close(solved.flatten(), torch.linalg.solve(middle + rows.T @ inner @ rows, right.flatten()))


def test_the_pair_has_order_three_and_two() -> None:
    theta, x, y = flow_start(1, 5, 6, seed=2)
    modes = modes_of(theta, x)

    def run(steps: int) -> tuple[Tensor, float]:
        state, worst = theta, 0.0
        h = torch.tensor([0.4 / steps], dtype=torch.float64)
        for _ in range(steps):
            state, error = rosenbrock_step(
                state, evaluate(state, modes, x, y, "exponential"), h, modes, x, y, loss="exponential"
            )
            worst = max(worst, float(error.abs().max()))
        return state, worst

    exact = run(512)[0]
    errors = [float((run(s)[0] - exact).abs().max()) for s in (4, 8, 16)]
    estimates = [run(s)[1] for s in (4, 8, 16)]
    for coarse, fine in pairwise(errors):
        assert 6.5 < coarse / fine < 10  # 2^3
    for coarse, fine in pairwise(estimates):
        assert 6 < coarse / fine < 10  # a local error of order 2 + 1
