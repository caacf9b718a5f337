"""The O(k + n) kernels and the Woodbury solve against dense algebra."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from regionscope_lab.shallow import kernel
from regionscope_lab.shallow.losses import pull
from regionscope_lab.shallow.modes import Modes, guards, modes_of
from regionscope_lab.shallow.rosenbrock import _Solver, evaluate, rosenbrock_step
from shallow.settings import flow_start


def with_slides(theta: Tensor, modes: Modes, x: Tensor) -> tuple[Tensor, Modes]:
    """Put the first unit that has a kink between two points on the left one of them, sliding."""
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


@pytest.mark.parametrize("seed", range(6))
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


def test_a_stiff_transient_is_damped_in_one_step() -> None:
    """L-stability: with |theta|^2 of 1e6 an explicit step of this size would explode."""
    theta, x, y = flow_start(1, 12, 6, seed=3)
    theta = theta * 300
    modes = modes_of(theta, x)
    here = evaluate(theta, modes, x, y, "exponential")
    h = torch.tensor([1e-4], dtype=torch.float64)
    new, _ = rosenbrock_step(theta, here, h, modes, x, y, loss="exponential")
    explicit = theta + h * here.speed
    after = evaluate(new, modes, x, y, "exponential").pull.F
    assert float(after) > float(here.pull.F)
    assert float(evaluate(explicit, modes, x, y, "exponential").pull.F) < float(after) + 1e9
    assert torch.isfinite(new).all()
