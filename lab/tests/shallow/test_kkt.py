"""The KKT residual against a general solver; lab/tests/shallow/test_flow.py has its free subgradients at kinks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from regionscope_lab.shallow import Network, Sample, initial_network, kkt_residual


def direct(network: Network, data: Sample) -> float:
    """min over lambda >= 0 of the squared residual, by SciPy's L-BFGS-B, for networks without a kink on a point."""
    theta = network.theta / network.theta.norm()
    u = theta.clone().requires_grad_(True)
    q = data.y * (torch.relu(data.x[:, None] * u[0] + u[1]) @ u[2])
    rows = [torch.autograd.grad(q[i], u, retain_graph=True)[0].flatten().numpy() for i in range(len(data))]
    columns, values = np.stack(rows, 1), q.detach().numpy()
    gamma = values.min()
    scaled, slack = columns / (2 * gamma), (values - gamma) / (2 * gamma)

    def value(weights: np.ndarray) -> tuple[float, np.ndarray]:
        rest, tail = theta.flatten().numpy() - scaled @ weights, slack @ weights
        return rest @ rest + tail * tail, -2 * scaled.T @ rest + 2 * tail * slack

    start = np.full(len(data), 1 / len(data))
    bounds = [(0, None)] * len(data)
    found = minimize(
        value,
        start,
        jac=True,
        bounds=bounds,
        method="L-BFGS-B",
        options={"maxiter": 20_000, "ftol": 1e-15, "gtol": 1e-12},
    )
    return float(np.sqrt(found.fun))


@pytest.mark.parametrize("seed", range(5))
def test_against_a_general_solver(seed: int) -> None:
    network = initial_network(8, sigma_h=1.0, sigma_o=1.0, seed=seed)
    x = torch.linspace(-1, 1, 6, dtype=torch.float64)
    data = Sample(x, torch.where(network(x) > 0, 1.0, -1.0).double())
    found = kkt_residual(network, data)
    assert found is not None
    assert found.residual == pytest.approx(direct(network, data), rel=1e-3, abs=1e-6)
    assert bool((found.multipliers >= 0).all())


def test_none_while_a_point_is_wrong() -> None:
    data = Sample(torch.tensor([-1.0, 1.0]).double(), torch.tensor([1.0, -1.0]).double())
    assert kkt_residual(Network([1.0], [0.0], [1.0]), data) is None
    assert kkt_residual(Network([0.0], [0.0], [0.0]), Sample(torch.zeros(1).double(), torch.ones(1).double())) is None


def test_the_residual_does_not_depend_on_the_scale() -> None:
    network = initial_network(8, sigma_h=1.0, sigma_o=1.0, seed=3)
    x = torch.linspace(-1, 1, 6, dtype=torch.float64)
    data = Sample(x, torch.where(network(x) > 0, 1.0, -1.0).double())
    one, other = kkt_residual(network, data), kkt_residual(network.scaled(1000.0), data)
    assert one is not None
    assert other is not None
    assert one.residual == pytest.approx(other.residual, rel=1e-9)
