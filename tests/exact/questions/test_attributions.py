"""Exact integrated gradients: closed forms, the slow twin, quadrature with many steps, and what is refused."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from torch import Tensor, nn

import regionscope as rs
from devices import needs_cuda
from regionscope.errors import InputError, NotPiecewiseAffine, SliceError
from regionscope.exact.questions import paths as paths_module
from regionscope.exact.questions.quadrature_steps import RULES, gauss_legendre, quadrature
from small_slices import mlp
from strategies import Problem, problems
from twins.reference import reference_partition

NET = mlp(6, 12, 12, 3, seed=3).double()
X = torch.randn(5, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
BASES = torch.randn(3, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def gradients(model: nn.Module, points: Tensor, weights: Tensor) -> Tensor:
    inputs = points.clone().requires_grad_(True)
    (found,) = torch.autograd.grad((model(inputs).flatten(1) * weights).sum(), inputs)
    return found


def by_rule(model: nn.Module, x: Tensor, base: Tensor, weights: Tensor, rule: str, k: int) -> Tensor:
    """Integrated gradients by a quadrature rule, with one backward pass for each node."""
    nodes, shares = (torch.from_numpy(part) for part in quadrature(rule, k))
    shape = (-1, *[1] * x.ndim)
    points = base + nodes.reshape(shape) * (x - base)
    return (x - base) * (gradients(model, points, weights) * shares.reshape(shape)).sum(0)


def test_one_relu_in_closed_form() -> None:
    """relu(w x + b) from 0 to x: the share of the path on which the unit is on, times w x."""
    net = nn.Sequential(nn.Linear(3, 1), nn.ReLU())
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 2.0, -1.0]]))
        net[0].bias.fill_(-0.5)
    x = torch.tensor([[1.0, 0.5, 1.0], [1.0, 1.0, 1.0], [-1.0, 0.0, 0.0]], dtype=torch.float64)
    found = rs.integrated_gradients(net, x)
    share = torch.tensor(
        [[0.5], [0.75], [0.0]], dtype=torch.float64
    )  # w x is 1, 2 and -1; it passes 1/2 at 1/2 and 1/4
    torch.testing.assert_close(found.attributions, share * x * torch.tensor([1.0, 2.0, -1.0]), rtol=1e-14, atol=1e-14)
    assert found.pieces.tolist() == [2, 2, 1]
    assert float(found.gap.max()) < 1e-12
    assert [name for name, _, _ in found.readings()] == ["", "gap"]


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(problems(dims=(1,)))
def test_random_networks_agree_with_the_slow_twin(problem: Problem) -> None:
    """Regions of the slow twin, gradients of the module itself; completeness within rounding."""
    generator = torch.Generator().manual_seed(problem.seed)
    base, x = 2 * torch.randn(2, *problem.input_shape, generator=generator, dtype=torch.float64)
    model = problem.build()
    weights = torch.randn(problem.n_outputs, generator=generator, dtype=torch.float64)
    try:
        segment = rs.Segment(base, x)
    except SliceError:
        assume(False)
    slow = reference_partition(rs.trace(model, problem.input_shape), segment)
    share = torch.from_numpy(np.array([float(ends[1, 0] - ends[0, 0]) for ends in slow.vertices]))
    at_middle = gradients(model, segment.embed(torch.from_numpy(slow.interior)), weights)
    expected = (x - base) * (at_middle * share.reshape(-1, *[1] * x.ndim)).sum(0)
    found = rs.integrated_gradients(model, x[None], baseline=base, target=weights)
    torch.testing.assert_close(
        found.attributions[0], expected, rtol=1e-9, atol=1e-9 * (1 + float(expected.abs().max()))
    )
    assert float(found.gap) < 1e-10
    assert int(found.pieces) == slow.n_activation_regions


class Columns(nn.Module):
    """max(relu(x_0), x_1), whose values have no axis but the batch."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.maximum(torch.relu(x[:, 0]), x[:, 1])[:, None]


def test_values_without_an_axis_but_the_batch() -> None:
    found = rs.integrated_gradients(Columns(), [[2.0, 1.0], [1.0, 3.0]])
    assert torch.allclose(found.attributions, torch.tensor([[2.0, 0.0], [0.0, 3.0]], dtype=torch.float64))
    assert float(found.gap.max()) < 1e-12


def test_completeness_and_targets() -> None:
    out = NET(X).detach() - NET(torch.zeros(1, 6, dtype=torch.float64)).detach()
    targets = {
        "class": (2, out[:, 2]),
        "difference": ((0, 1), out[:, 0] - out[:, 1]),
        "weights": (torch.tensor([1.0, 2.0, -0.5]), out @ torch.tensor([1.0, 2.0, -0.5], dtype=torch.float64)),
        "classes": (torch.tensor([0, 1, 2, 1, 0]), out[torch.arange(5), [0, 1, 2, 1, 0]]),
        "rows": (torch.eye(3)[[2, 2, 1, 0, 1]], out[torch.arange(5), [2, 2, 1, 0, 1]]),
    }
    for name, (target, expected) in targets.items():
        found = rs.integrated_gradients(NET, X, target=target)
        torch.testing.assert_close(found.attributions.sum(1), expected, rtol=1e-10, atol=1e-12, msg=name)
        assert found.attributions.shape == X.shape


def test_several_baselines_are_averaged_and_inputs_may_be_a_list() -> None:
    together = rs.integrated_gradients(NET, list(X), baseline=BASES, target=0)
    apart = [rs.integrated_gradients(NET, X, baseline=base, target=0) for base in BASES]
    mean = torch.stack([one.attributions for one in apart]).mean(0)
    torch.testing.assert_close(together.attributions, mean, rtol=1e-11, atol=1e-13)
    assert torch.equal(together.pieces, sum(one.pieces for one in apart))
    worst = torch.stack([one.gap for one in apart]).amax(0)
    assert bool((together.gap <= worst + 1e-12).all())


def test_an_input_that_is_its_baseline_gets_zeros() -> None:
    found = rs.integrated_gradients(NET, X[:2], baseline=X[0], target=1)
    assert not found.attributions[0].any()
    assert found.pieces.tolist()[0] == 0
    assert found.gap.tolist()[0] == 0.0
    assert found.attributions[1].any()
    assert found.steps_needed(0.1, k_max=20).errors["riemann_left"][0, 5] == 0.0


def test_a_constant_added_to_the_outputs_leaves_the_gap_small() -> None:
    """The target at both ends of a path is 1e7, and their difference is a matter of its last digits."""
    lifted = copy.deepcopy(NET).double()
    with torch.no_grad():
        lifted[-1].bias.fill_(1e7)
    found = rs.integrated_gradients(lifted, X, target=1)
    assert float(found.gap.max()) < 1e-10
    expected = rs.integrated_gradients(NET, X, target=1).attributions
    torch.testing.assert_close(found.attributions, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rows", [1, 2, 7, 10_000])
def test_batches_change_nothing_and_progress_reaches_the_end(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    expected = rs.integrated_gradients(NET, X, baseline=BASES, target=0)
    monkeypatch.setattr(paths_module, "_rows", lambda program, memory: rows)
    monkeypatch.setattr(paths_module, "_PIECES", rows)
    shares: list[float] = []
    found = rs.integrated_gradients(NET, X, baseline=BASES, target=0, progress=shares.append)
    torch.testing.assert_close(found.attributions, expected.attributions, rtol=1e-11, atol=1e-13)
    assert torch.equal(found.pieces, expected.pieces)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert len(set(shares)) > 3


def test_images_through_a_network_that_was_read_before() -> None:
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 4)).double()
    x = torch.rand(2, 1, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = rs.integrated_gradients(rs.trace(net, (1, 6, 6)), x, baseline=np.full((1, 6, 6), 0.5), target=3)
    assert found.attributions.shape == x.shape
    change = (net(x) - net(torch.full_like(x, 0.5)))[:, 3].detach()
    torch.testing.assert_close(found.attributions.sum((1, 2, 3)), change, rtol=1e-9, atol=1e-12)


def test_a_network_read_in_float32_is_computed_in_float64() -> None:
    exact = rs.integrated_gradients(NET, X, target=0).attributions
    program = rs.trace(NET, (X.shape[1],), dtype=torch.float32)
    single = rs.integrated_gradients(program, X, target=0)
    assert single.attributions.dtype == torch.float64
    assert float((single.attributions - exact).norm() / exact.norm()) < 1e-4  # the weights are rounded
    assert float(single.gap.max()) < 1e-10
    with pytest.raises(InputError, match="Expected inputs of shape"):
        rs.integrated_gradients(program, X[:, :5], target=0)


@pytest.mark.parametrize("rule", RULES)
def test_errors_of_a_rule_are_those_of_the_rule_run_by_hand(rule: str) -> None:
    found = rs.integrated_gradients(NET, X[:2], baseline=BASES[:2], target=2)
    errors = found.steps_needed(0.05, k_max=40).errors[rule]
    weights = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    for i in range(2):
        for k in (2, 3, 17, 40):
            by_hand = torch.stack([by_rule(NET, X[i], base, weights, rule, k) for base in BASES[:2]]).mean(0)
            exact = found.attributions[i]
            expected = float((by_hand - exact).norm() / exact.norm())
            assert float(errors[i, k - 1]) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_steps_needed_is_the_start_of_the_last_stretch_below_the_tolerance() -> None:
    found = rs.integrated_gradients(NET, X, target=0)
    needed = found.steps_needed(0.05, k_max=60)
    assert set(needed.steps) == set(RULES)
    for rule in RULES:
        for i in range(len(X)):
            errors = needed.errors[rule][i]
            good = [k for k in range(1, 61) if bool((errors[k - 1 :] <= 0.05).all())]
            assert needed.steps[rule][i] == (good[0] if good else None)
    assert None in found.steps_needed(1e-9, k_max=60).steps["riemann_left"]
    assert found.steps_needed(1e-9, k_max=5).readings()[1][1] == float("inf")
    assert any(float(needed.errors["gausslegendre"][i].diff().max()) > 0 for i in range(5))  # not monotone


def test_small_memory_makes_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    from regionscope.exact.questions import quadrature_steps

    found = rs.integrated_gradients(NET, X[:2], target=0)
    whole = found.steps_needed(0.05, k_max=30)
    monkeypatch.setattr(quadrature_steps, "_NODES", 300)
    assert len(list(quadrature_steps._blocks(30, 10_000))) > 5
    shares: list[float] = []
    parts = found.steps_needed(0.05, k_max=30, progress=shares.append)
    assert shares == sorted(shares)
    assert parts.steps == whole.steps


def test_gauss_legendre_rules_are_those_of_numpy() -> None:
    for k, (nodes, weights) in enumerate(gauss_legendre(1, 130), start=1):
        if k <= 20 or k % 10 == 0:  # those of NumPy take long
            expected, shares = np.polynomial.legendre.leggauss(k)
            np.testing.assert_allclose(nodes, (1 + expected) / 2, atol=1e-13)
            np.testing.assert_allclose(weights, shares / 2, rtol=1e-9)


def test_a_pickled_copy_keeps_the_numbers_and_says_why_it_has_no_steps() -> None:
    copy = pickle.loads(pickle.dumps(rs.integrated_gradients(NET, X, target=0)))
    assert copy.attributions.shape == X.shape
    with pytest.raises(InputError, match="pickled copy"):
        copy.steps_needed(0.1)


def test_softmax_is_refused_with_the_way_out() -> None:
    soft = nn.Sequential(nn.Linear(6, 3), nn.Softmax(1))
    with pytest.raises(NotPiecewiseAffine, match="attribute the logits"):
        rs.integrated_gradients(soft, X, target=0)
    with pytest.raises(NotPiecewiseAffine, match="GELU"):
        rs.integrated_gradients(nn.Sequential(nn.Linear(6, 3), nn.GELU()), X, target=0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "Expected a target, since the network has 3 outputs"),
        ({"target": 3}, "Expected outputs 0 to 2, got 3"),
        ({"target": (0, -1)}, "Expected outputs 0 to 2, got -1"),
        ({"target": torch.ones(2)}, "Expected a target that is an index"),
        ({"target": torch.tensor([0, 1])}, "Expected a target that is an index"),
        ({"target": 0, "baseline": torch.zeros(5)}, "Expected a baseline"),
        ({"target": 0, "baseline": float("nan")}, "Expected finite baselines"),
        ({"target": 0, "progress": 3}, "progress"),
        ({"target": 0, "inputs": torch.full((1, 6), torch.nan)}, "Expected finite inputs"),
        ({"target": 0, "memory": 10}, r"memory to be a whole number of bytes, at least 1 MiB \(1048576\), got 10"),
    ],
)
def test_wrong_arguments(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        rs.integrated_gradients(NET, **{"inputs": X, **options})


@pytest.mark.parametrize(
    ("options", "word"), [({"k_max": 1}, "k_max"), ({"tolerance": 0.0}, "tolerance"), ({"progress": 3}, "progress")]
)
def test_wrong_arguments_of_steps_needed(options: dict[str, Any], word: str) -> None:
    with pytest.raises(InputError, match=word):
        rs.integrated_gradients(NET, X[:1], target=0).steps_needed(**{"tolerance": 0.1, **options})


@needs_cuda
def test_attributions_on_a_gpu_are_those_of_the_cpu() -> None:
    here = rs.integrated_gradients(NET, X, baseline=BASES, target=0)
    there = rs.integrated_gradients(mlp(6, 12, 12, 3, seed=3).double().cuda(), X, baseline=BASES, target=0)
    torch.testing.assert_close(there.attributions.cpu(), here.attributions, rtol=1e-9, atol=1e-12)
    assert there.steps_needed(0.1, k_max=30).steps == here.steps_needed(0.1, k_max=30).steps
