"""Rounding: its bound holds, and margins that it may turn leave a property undecided."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import regionscope as rs
from onnx_graphs import node, write
from properties import Skip, at_least, box
from regionscope.exact.bounding.bounds import bound_cells, on_vertices, rounding_of
from regionscope.exact.bounding.stages import Staged, read_stages, with_slacks
from regionscope.verification.property import Case, Constraint, Property
from regionscope_lab.zoo import mlp


@pytest.mark.usefixtures("stored")
def test_a_witness_that_float32_does_not_confirm_is_unknown(tmp_path: Path) -> None:
    """y = (x + 2^-30) - x is positive for real numbers, and 0 in float32."""
    pytest.importorskip("onnx", reason="reading ONNX files needs the extra onnx")
    nodes = [node("Add", ["x", "e"], ["s"]), node("Sub", ["s", "x"], ["d"]), node("Concat", ["d", "d"], ["y"], axis=1)]
    path = write(tmp_path / "net.onnx", nodes, {"e": np.float32([2.0**-30])}, [1, 1])
    found = rs.verify(rs.read_onnx(path), box("1", "2", at_least(0, "1e-10"), n=1))
    assert found.verdict == "unknown"
    assert "float32" in found.reason


def test_the_rounding_bound_holds_for_values_and_enclosures() -> None:
    """Against rational numbers, on a thin cell far from the origin of its coordinates and on the whole square."""
    staged = with_slacks(read_stages(rs.trace(Skip(2), (2,)), lambda x: x, 2), np.eye(2), np.zeros(2))
    random = np.random.default_rng(0)
    corners = np.concatenate([np.ones((4, 1)), [[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]]], 1)
    tolerances, error = rounding_of(staged, corners)
    thin = np.concatenate([np.ones((3, 1)), random.uniform(0.7, 0.7 + 1e-9, (3, 2))], 1)
    for points in (corners[:3], thin):
        bounds = bound_cells(staged, points[None], tolerances)
        run, high, low = staged.run(points), *(on_vertices(f, points[None])[:, 0] for f in (bounds.high, bounds.low))
        for i, point in enumerate(points):
            exact = np.array([float(value) for value in rational(staged, point)])
            assert (np.abs(run[:, i] - exact) <= error).all()
            assert (high[:, i] >= exact - error).all()
            assert (low[:, i] <= exact + error).all()
    assert error.max() < 1e-9


def rational(staged: Staged, point: np.ndarray) -> list[Fraction]:
    """``staged.run`` at one point without rounding."""

    def times(matrix: Any, state: list[Fraction]) -> list[Fraction]:
        rows = matrix.toarray() if hasattr(matrix, "toarray") else matrix
        return [sum((Fraction(float(a)) * b for a, b in zip(row, state, strict=True)), Fraction(0)) for row in rows]

    state = times(staged.first, [Fraction(float(x)) for x in point])
    for stage in staged.stages:
        rest = [state[u] - Fraction(float(t)) for u, t in zip(stage.units, stage.at, strict=True)]
        bent = [max(r, Fraction(0)) - Fraction(float(t)) * r for r, t in zip(rest, stage.tilt, strict=True)]
        state = [a + Fraction(float(b)) for a, b in zip(times(stage.matrix, state + bent), stage.offset, strict=True)]
    return state


def test_a_narrow_input_beside_a_large_fixed_one_is_decided() -> None:
    """The size of a fixed input does not count; an input that varies by less than rounding is unknown."""
    network = mlp([2, 6, 2], seed=0)
    value = network(torch.tensor([[60000.0, 0.5]]))[0, 0].item()
    for high, threshold, verdict in (
        ("0.500001", value + 1, "unsat"), ("0.500001", value - 1, "sat"), ("0.5000000000000001", value, "unknown")
    ):  # fmt: skip
        case = Case(
            (Fraction(60000), Fraction("0.5")), (Fraction(60000), Fraction(high)), ((at_least(0, str(threshold)),),)
        )
        found = rs.verify(network, Property(2, 2, (case,), None, "test"))
        assert found.verdict == verdict, found.reason
    assert "varies by no more than rounding" in found.reason


@pytest.mark.parametrize(("bound", "verdict"), [("0", "unknown"), ("-0.001", "unsat"), ("0.001", "sat")])
@pytest.mark.parametrize("network", ["point", "linear", "folded"])
def test_terms_that_cancel_leave_a_tie_undecided(network: str, bound: str, verdict: str, tmp_path: Path) -> None:
    """x_0 + x_1 - x_2 is 0 for these decimals, and not so in float64; x_3 is a free input without weight."""
    n = 3 if network == "point" else 4
    first = nn.Linear(n, 1, bias=False)
    first.weight.data = torch.tensor([[1.0, 1.0, -1.0, 0.0]])[:, :n]
    model = nn.Sequential(first, nn.LeakyReLU(0.5)) if network == "folded" else first
    text = "".join(f"(declare-const X_{i} Real)" for i in range(n)) + "(declare-const Y_0 Real)"
    text += "".join(f"(assert (= X_{i} {value}))" for i, value in enumerate(("0.1", "0.2", "0.3")))
    text += "(assert (>= X_3 0))(assert (<= X_3 1))" if n == 4 else ""
    (tmp_path / "tie.vnnlib").write_text(f"{text}(assert (<= Y_0 {bound}))")
    assert rs.verify(model, rs.read_vnnlib(tmp_path / "tie.vnnlib")).verdict == verdict


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("maximum", [False, True])
def test_a_decimal_that_float64_rounds_is_not_taken_for_its_neighbour(free: bool, maximum: bool) -> None:
    """1e6 (x - 1e8) is 0.001 at x = 1e8 + 1e-9, and 0 at the nearest float64 number."""

    class Difference(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            h = (x[:, :1] - 1e8) * 1e6
            return torch.maximum(h, 0 * x[:, 1:]) if maximum else torch.relu(h)

    fixed = Fraction("100000000.000000001")
    case = Case((fixed, Fraction(0)), (fixed, Fraction(int(free))), ((at_least(0, "0.0005"),),))
    assert rs.verify(Difference(), Property(2, 1, (case,), None, "test")).verdict == "unknown"


def test_equal_outputs_at_a_fixed_input_are_never_told_apart(tmp_path: Path) -> None:
    """The second output adds up the same units in another order."""
    text = "".join(f"(declare-const {name} Real)" for name in ("X_0", "X_1", "Y_0", "Y_1"))
    (tmp_path / "equal.vnnlib").write_text(f"{text}(assert (= X_0 0.5))(assert (= X_1 0.25))(assert (<= Y_0 Y_1))")
    equal = rs.read_vnnlib(tmp_path / "equal.vnnlib")
    for seed in range(20):
        torch.manual_seed(seed)
        once, order = nn.Linear(2, 30), torch.randperm(30)
        model = nn.Sequential(nn.Linear(2, 60), nn.ReLU(), nn.Linear(60, 2, bias=False))
        with torch.no_grad():
            model[0].weight[:] = torch.cat([once.weight, once.weight[order]])
            model[0].bias[:] = torch.cat([once.bias, once.bias[order]])
            weights = torch.randn(30)
            model[2].weight[:] = torch.block_diag(weights[None], weights[order][None])
        assert rs.verify(model, equal).verdict != "unsat"


@pytest.mark.parametrize("size", [2.0**54, 2.0**70, 3.0 * 2.0**52])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_weights_that_cancel_where_units_are_merged_leave_the_property_undecided(size: float, sign: float) -> None:
    """size relu(x) + relu(x) - size relu(x) is relu(x), and 0 after rounding; with sign -1, so is size z - size z."""
    network = nn.Sequential(nn.Linear(1, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    with torch.no_grad():
        network[0].weight[:] = torch.tensor([[1.0], [1.0], [1.0], [sign]])
        network[2].weight[:] = torch.tensor([[size, 1.0, -size, 0.0], [0.0, 0.0, 1.0, 0.0]])
        network[0].bias.zero_()
        network[2].bias.zero_()
    found = rs.verify(network, box("0", "1", at_least(0, "0.5"), n=1))
    assert (found.verdict, found.witness) == ("unknown", None)
    assert found.rounding >= 0.5
    assert rs.verify(network, box("0", "1", at_least(1, "0.5"), n=1)).verdict == "sat"
    assert rs.verify(network, box("0", "1", at_least(1, "1.5"), n=1)).verdict == "unsat"


def test_outputs_that_cancel_in_a_constraint_leave_it_undecided() -> None:
    """3 fl(0.1) - fl(0.3) is 2.8e-17, and 5.6e-17 after rounding."""
    network = nn.Linear(1, 2, bias=False).double()
    network.weight.data = torch.tensor([[0.1], [0.3]], dtype=torch.float64)
    row = Constraint(((0, Fraction(3)), (1, Fraction(-1))), Fraction("4e-17"))
    assert rs.verify(network, box("0.9", "1", row, n=1)).verdict == "unknown"


def test_the_rounding_bound_covers_merging() -> None:
    """Networks with equal and opposite units and weights that cancel, against rational numbers."""
    random = np.random.default_rng(0)
    for _ in range(30):
        first, second, third = (random.integers(-3, 4, shape) / 7 for shape in ((2, 1), (4, 4), (2, 4)))
        second[1:] = second[:1] * random.choice([-1, 1], (3, 1))
        third[:, ::2] += [2.0**54, -(2.0**54)]
        weights = [np.concatenate([first, -first]), second, third]
        network = nn.Sequential(nn.Linear(1, 4), nn.LeakyReLU(0.3), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
        for layer, weight in zip(network[::2], weights, strict=True):
            layer.double().weight.data, layer.bias.data = torch.from_numpy(weight), torch.zeros(len(weight)).double()
        staged = with_slacks(read_stages(rs.trace(network, (1,)), lambda x: x, 1), np.eye(2), np.zeros(2))
        _, error = rounding_of(staged, np.array([[1.0, -1.0], [1.0, 1.0]]))
        for x in (Fraction(-1), Fraction(1, 2), Fraction(1)):
            state = [x]
            for i, weight in enumerate(weights):
                state = [
                    sum((Fraction(a) * z for a, z in zip(row, state, strict=True)), Fraction(0))
                    for row in weight.tolist()
                ]
                slope = (Fraction(0.3), Fraction(0), Fraction(1))[i]
                state = [max(z, slope * z) for z in state]
            found = staged.run(np.array([[1.0, float(x)]]))[:, 0]
            for value, exact, bound in zip(found, state, error, strict=True):
                assert abs(Fraction(float(value)) + exact) <= Fraction(float(bound))


def test_a_small_weight_beside_a_large_constant_is_read() -> None:
    """y = 2^60 + 2^16 x, where the weight of the last layer is 2^-54."""
    network = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 2)).double()
    with torch.no_grad():
        for layer, weight, bias in ((network[0], 2.0**70, 0.0), (network[2], 2.0**-54, 2.0**60)):
            layer.weight.fill_(weight)
            layer.bias.fill_(bias)
    found = rs.verify(network, box("0", "1", at_least(0, str(2**60 + 40000)), n=1))
    assert found.verdict == "unknown"  # float32 does not hold the difference
    assert found.margin == pytest.approx(2**16 - 40000, abs=found.rounding)


@pytest.mark.parametrize("bound", [2.0**60, float(torch.finfo(torch.float32).max)])
def test_a_clamp_at_very_large_numbers_is_read(bound: float) -> None:
    """Next to such a threshold, a step of 1 is lost."""
    network = nn.Sequential(nn.Linear(1, 2), nn.Hardtanh(-bound, bound))
    found = rs.verify(network, box("0", "1", at_least(0, "100"), n=1))
    assert found.verdict == "unknown"
    assert found.rounding < bound
