"""Networks in pieces: counts against the engine, signs, teachers, errors, theorems, KKT residuals."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import regionscope as rs
from regionscope.errors import InputError
from regionscope_lab.shallow import (
    Network,
    Sample,
    Teacher,
    alternating_teacher,
    breakpoints,
    classification_error,
    effective_regions,
    initial_network,
    kkt_residual,
    largest_sigma_o,
    minimum_regions,
    n_linear_regions,
    random_teacher,
    region_bound,
    sample,
    teacher_from_switches,
    theorem_2_3,
    theorem_3_1,
)
from regionscope_lab.shallow.pieces import reduced, sign_pieces, unit_shares


@pytest.mark.parametrize("seed", range(3))
def test_regions_are_those_of_the_exact_engine(seed: int) -> None:
    network = initial_network(30, sigma_h=1.0, sigma_o=1.0, seed=seed)
    part = rs.linear_regions(network.module(), rs.Segment([-2.0], [2.0]))
    assert n_linear_regions(network, radius=2.0) == part.n_linear_regions
    x = torch.linspace(-3, 3, 50, dtype=torch.float64)
    torch.testing.assert_close(network(x), network.module()(x[:, None])[:, 0].detach())


def test_coinciding_opposite_and_flat_units() -> None:
    one = Network([1.0, 2.0], [-0.5, -1.0], [1.0, 1.0])  # both folds at 0.5
    assert n_linear_regions(one) == 2
    none = Network([1.0, -1.0], [-0.5, 0.5], [1.0, -1.0])  # relu(z) - relu(-z) = z
    assert n_linear_regions(none) == 1
    flat = Network([0.0, 1.0], [1.0, -3.0], [1.0, 1.0])
    assert (n_linear_regions(flat), n_linear_regions(flat, radius=1.0)) == (2, 1)
    assert len(breakpoints(Network([0.0], [1.0], [1.0]))) == 0


def test_folds_near_zero_are_told_apart() -> None:
    for shift in (1e-14, 1e-100, 1e-300):
        assert n_linear_regions(Network([1.0, 1.0, 1.0], [0.0, -shift, -2 * shift], [1.0, 1.0, 1.0])) == 4
        assert n_linear_regions(Network([1.0, 1.0], [shift, -shift], [1.0, 1.0])) == 3
    assert n_linear_regions(Network([1.0, 3.0], [-0.1, -0.1 * 3], [1.0, 1.0])) == 2  # 0.1 and its neighbour
    assert n_linear_regions(Network([1.0, 3.0], [0.0, -0.0], [1.0, 1.0])) == 2
    assert n_linear_regions(Network([1.0, 1e-310], [0.5, 1.0], [1.0, 1.0])) == 2  # a fold beyond all numbers


def test_signs_match_a_fine_grid_and_the_decision_regions() -> None:
    for seed in range(6):
        network = initial_network(12, sigma_h=1.0, sigma_o=1.0, seed=seed)
        ends, signs = sign_pieces(network, 1.0)
        grid = torch.linspace(-1, 1, 20_001, dtype=torch.float64)[1:-1]
        mine = signs[(torch.searchsorted(ends, grid) - 1).clamp(0, len(signs) - 1)]
        assert ((mine.double() - network(grid).sign()) != 0).sum() <= len(ends)
        dec = rs.decision_regions(network.module(), rs.Segment([-1.0], [1.0]))
        assert dec.count == len(signs)


def test_effective_regions_of_a_cluster_and_dust() -> None:
    """Three live directions, split into many nearly equal units, and a hundred tiny units."""
    generator = torch.Generator().manual_seed(0)
    folds = torch.tensor([-0.5, 0.0, 0.6]).repeat_interleave(20).double()
    folds = folds + 1e-4 * torch.randn(60, generator=generator, dtype=torch.float64)
    size = 1 + torch.rand(60, generator=generator, dtype=torch.float64)
    sign = torch.tensor([1.0, -1.0, 1.0]).repeat_interleave(20).double()
    dust = 1e-4 * torch.randn((3, 100), generator=generator, dtype=torch.float64)
    theta = torch.cat([torch.stack([size, -folds * size, sign * size]), dust], 1)
    network = Network.of(theta)
    assert n_linear_regions(network) == 161
    found = effective_regions(network, radius=1.0)
    assert found.on_inside.count == found.on_line.count == 4
    assert found.on_inside.decades > 1.5
    assert int(found.line[0]) > 40
    small = reduced(network, tolerance=0.1, radius=1.0)
    assert small is not None
    torch.testing.assert_close(breakpoints(small).at, torch.tensor([-0.5, 0.0, 0.6]).double(), rtol=0, atol=1e-3)
    assert float(unit_shares(network).sum()) <= 0.5 + 1e-12


def test_minimum_regions() -> None:
    assert minimum_regions(torch.tensor([1.0, 1.0, 1.0])) == 1
    assert minimum_regions(torch.tensor([1.0, -1.0])) == 1
    assert minimum_regions(torch.tensor([1.0, -1.0, 1.0, -1.0])) == 3


def test_teachers_switch_where_they_should() -> None:
    for points in ([], [0.1], [-0.7, -0.6, 0.0, 0.9], [-0.9, -0.89]):
        teacher = teacher_from_switches(points)
        torch.testing.assert_close(teacher.switches, torch.tensor(points, dtype=torch.float64), rtol=0, atol=1e-9)
        assert teacher.width == len(points) + 1
        assert float(teacher.network(torch.tensor([-1.0]))) > 0
        lengths = torch.tensor([-1.0, *points, 1.0], dtype=torch.float64).diff()
        assert teacher.rho == pytest.approx(float(lengths.min()), abs=1e-9)
    drawn = [random_teacher(3, seed=seed) for seed in (0, 1, 1)]
    assert [(teacher.width, len(teacher.switches)) for teacher in drawn] == [(3, 2)] * 3
    assert min(teacher.rho for teacher in drawn) >= 1 / 6
    assert torch.equal(drawn[1].network.theta, drawn[2].network.theta)
    assert alternating_teacher(5).rho == pytest.approx(1 / 3)
    with pytest.raises(InputError, match="one that is zero on an interval"):
        Teacher.of(Network([1.0], [-0.5], [1.0]), 1.0)
    with pytest.raises(InputError, match="ascend"):
        teacher_from_switches([0.5, 0.2])


def test_samples_are_uniform_and_follow_the_teacher() -> None:
    teacher = teacher_from_switches([0.0])
    data = sample(teacher, 20_000, seed=3)
    below = torch.arange(1, len(data) + 1).double() / len(data)
    assert (below - (data.x + 1) / 2).abs().max() < 2 / math.sqrt(len(data))  # Kolmogorov, at a level of 0.0007
    assert bool((data.y * teacher.network(data.x) > 0).all())
    assert data.switches == 1
    with pytest.raises(InputError, match="ascend"):
        Sample(torch.zeros(2).double(), torch.ones(2).double())


def test_a_line_through_folds_that_cancel_has_its_signs() -> None:
    line = Network([1.0, -1.0], [0.0, 0.0], [2.0, -2.0])  # 2 x, and the middle of [-1, 1] is on both folds
    ends, signs = sign_pieces(line, 1.0)
    assert (ends.tolist(), signs.tolist()) == ([-1.0, 0.0, 1.0], [-1, 1])
    assert Teacher.of(line, 1.0).switches.tolist() == [0.0]
    always = teacher_from_switches([])
    assert classification_error(line, always) == pytest.approx(0.5)
    assert n_linear_regions(line) == 1


def test_classification_error_is_exact() -> None:
    teacher = teacher_from_switches([-0.5, 0.5])
    shifted = teacher_from_switches([-0.4, 0.45]).network
    assert classification_error(shifted, teacher) == pytest.approx(0.15 / 2)
    assert classification_error(teacher.network.scaled(7.0), teacher) == pytest.approx(0.0, abs=1e-12)


def exact_share_below_zero(network: Network) -> float:
    """P[N(x) <= 0] for x uniform on [-1, 1], in fractions."""
    w, b, v = ([Fraction(number) for number in row.tolist()] for row in network.theta)
    folds = {-c / a for a, c in zip(w, b, strict=True) if a != 0}
    nodes = sorted({Fraction(-1), Fraction(1), *(fold for fold in folds if abs(fold) < 1)})
    total = Fraction(0)
    for left, right in itertools.pairwise(nodes):
        units = zip(w, b, v, strict=True)
        active = [(a * u, c * u) for a, c, u in units if a * (left + right) / 2 + c > 0]
        slope, constant = (sum(column) for column in zip(*active, strict=True)) if active else (0, 0)
        first, last = slope * left + constant, slope * right + constant
        if max(first, last) <= 0:
            total += right - left
        elif min(first, last) < 0:
            total += (right - left) * -min(first, last) / abs(last - first)
    return float(total / 2)


@pytest.mark.parametrize("seed", range(12))
def test_signs_of_very_different_units_are_those_of_fractions(seed: int) -> None:
    draw = np.random.default_rng(seed)
    k = int(draw.integers(1, 8))
    sizes = 10.0 ** draw.uniform(-9, 9, (3, k))
    sizes[1] = sizes[0] * draw.uniform(0, 1.5, k)  # folds in and about [-1, 1]
    network = Network(*(draw.choice([-1.0, 1.0], (3, k)) * sizes))
    found = classification_error(network, teacher_from_switches([]))
    assert found == pytest.approx(exact_share_below_zero(network), abs=1e-9)


def test_the_theorems_as_numbers() -> None:
    found = theorem_2_3(3, 0.5, 1.0, 0.5, k=100_000, n=200, eps=0.1, delta=0.1, sigma_h=1.0, sigma_o=1e-9)
    assert found.n == pytest.approx((3 * math.log(10) + math.log(20)) / 0.1)
    assert found.k == pytest.approx(6144 * math.log(1440) / 0.5)
    assert found.sigma_h == pytest.approx(8400 * 200**2 * 0.5 * math.sqrt(3e5) / 0.05)
    assert found.sigma_o == pytest.approx(1 / (4e5 * math.log(1.2e7)))
    assert found.holds == {"k": True, "n": True, "sigma_h": False, "sigma_o": True}
    other = theorem_3_1(3, 0.5, 0.2, 0.5, k=10, n=200, delta=0.1)
    assert other.n is None
    assert other.k == pytest.approx(6144 * math.log(720) / 0.5)  # R < 1 counts as 1
    assert other.sigma_h == pytest.approx(4200 * 200**2 * 0.5 * math.sqrt(30) / 0.05)
    assert other.sigma_o == pytest.approx(1 / (40 * other.sigma_h * math.log(600)))
    assert other.holds == {"k": False}
    assert largest_sigma_o(100_000) == found.sigma_o
    assert largest_sigma_o(10, theorem="3.1", sigma_h=other.sigma_h, R=0.2) == other.sigma_o
    assert largest_sigma_o(10, sigma_h=2.0, R=3.0, delta=0.5) == pytest.approx(1 / (240 * math.log(240)))
    with pytest.raises(InputError, match=r"Choose from 2\.3, 3\.1"):
        largest_sigma_o(10, theorem="4.2")
    assert (region_bound(1), region_bound(3)) == (99, 163)
    with pytest.raises(InputError, match="delta"):
        theorem_3_1(3, 0.5, 1.0, 0.5, k=10, n=20, delta=1.0)


def direct(network: Network, data: Sample) -> float:
    """min over lambda >= 0 of the squared residual, by SciPy's L-BFGS-B, for networks without a fold on a point."""
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
    scaled = kkt_residual(network.scaled(1000.0), data)
    assert scaled is not None
    assert scaled.residual == pytest.approx(found.residual, rel=1e-9)


def test_none_while_a_point_is_wrong() -> None:
    data = Sample(torch.tensor([-1.0, 1.0]).double(), torch.tensor([1.0, -1.0]).double())
    assert kkt_residual(Network([1.0], [0.0], [1.0]), data) is None
    assert kkt_residual(Network([0.0], [0.0], [0.0]), Sample(torch.zeros(1).double(), torch.ones(1).double())) is None
