"""The largest margin against the partition into all regions, the verdicts, and margins that rounding may turn."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import regionscope as rs
from onnx_graphs import MODELS, needs_models, node, relu_network, write
from regionscope.exact.bounding.bounds import bound_cells, on_vertices, rounding_of
from regionscope.exact.bounding.hinge_network import HingeNetwork, read_hinge_network, with_slacks
from regionscope.verification.decide import margin_by_partition
from regionscope.verification.property import Case, Constraint, Property
from regionscope.verification.search import largest_margin
from regionscope_lab.zoo import mlp


def box(low: str, high: str, *rows: Constraint, n: int = 2) -> Property:
    case = Case((Fraction(low),) * n, (Fraction(high),) * n, (rows,))
    return Property(n, 2, (case,), None, "test")


def at_least(i: int, value: str) -> Constraint:
    return Constraint(((i, Fraction(-1)),), -Fraction(value))


class Skip(nn.Module):
    """A value that is folded, used again without the fold, and joined with a leaky and a clipped branch."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(k, 6), nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        g = nn.functional.leaky_relu(self.b(torch.relu(h)), 0.2)
        return self.c(torch.clamp(g + h, -0.5, 0.8) + torch.abs(h))


class Doubled(nn.Module):
    """Writes min and the identity with ReLU alone, as lattice networks do."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.a = nn.Linear(k, 8)

    def forward(self, x: Tensor) -> Tensor:
        z = self.a(x)
        s, d = z[:, :4] + z[:, 4:], z[:, :4] - z[:, 4:]
        a, b, c, e = torch.relu(torch.cat([s, -s, d, -d], 1)).split(4, 1)
        y = (a - b - c - e) / 2
        return torch.stack([y.sum(1), torch.relu(y[:, 0] - y[:, 1])], 1)


def dead(k: int) -> nn.Module:
    """The first layers do not matter, since the last one has no weights."""
    network = mlp([k, 5, 5, 2], seed=k)
    nn.init.zeros_([layer for layer in network if isinstance(layer, nn.Linear)][-1].weight)
    return network


NETWORKS = {
    "dead": dead,
    "mlp": lambda k: mlp([k, 8, 6, 2], seed=k),
    "deep": lambda k: mlp([k, 5, 5, 5, 2], seed=k),
    "skip": Skip,
    "doubled": Doubled,
    "linear": lambda k: nn.Linear(k, 2),
}


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_search_finds_the_margin_of_the_partition(name: str, k: int) -> None:
    torch.manual_seed(k)
    network = NETWORKS[name](k)
    where = rs.Box.between(-1, 1, (k,))
    program = rs.trace(network, (k,))
    factors, bounds = np.array([[1.0, -1.0], [0.5, 1.0], [-1.0, 0.2]]), np.array([0.1, 0.2, -0.3])
    alternatives = [[0, 1], [2]]
    hinges = with_slacks(read_hinge_network(program, where.embed, k), factors, bounds)
    points = torch.rand(50, k, dtype=torch.float64) * 2 - 1
    rows = np.concatenate([np.ones((50, 1)), points.numpy()], 1)
    wanted = bounds[:, None] - factors @ program(where.embed(points)).numpy().T
    np.testing.assert_allclose(hinges.run(rows), wanted, atol=1e-12)
    found = largest_margin(hinges, alternatives, where, deadline=math.inf, max_cells=10**6)
    twin = margin_by_partition(program, where, factors, bounds, alternatives)
    assert found.complete
    assert abs(found.margin - twin.margin) < 1e-9
    assert found.bound - found.margin <= 2 * found.rounding < 1e-9
    assert found.cells < max(40, 2 * twin.cells)


def test_opposite_and_equal_units_are_merged() -> None:
    program = rs.trace(Doubled(2), (2,))
    hinges = with_slacks(read_hinge_network(program, lambda c: c, 2), np.eye(2), np.zeros(2))
    assert sum(fold.n_units for fold in program.folds) == 17
    assert sum(len(layer.units) for layer in hinges.layers) == 5


@pytest.mark.usefixtures("stored")
def test_verdicts_on_both_sides_of_the_maximum(tmp_path: Path) -> None:
    """sat just below the largest output, unsat just above it, unknown where float32 cannot tell."""
    pytest.importorskip("onnx", reason="reading ONNX files needs the extra onnx")
    network = rs.read_onnx(relu_network(tmp_path / "net.onnx", [2, 12, 12, 2]))
    part = rs.linear_regions(network, rs.Box.between(-1, 1, (2,)))
    largest = float(part.outputs[:, 0].max())
    sat = rs.verify(network, box("-1", "1", at_least(0, str(largest - 0.01))))
    assert sat.verdict == "sat"
    assert sat.margin == pytest.approx(0.01, abs=1e-9)
    assert sat.witness is not None
    assert sat.outputs is not None
    assert float(sat.outputs[0]) >= largest - 0.01
    with torch.no_grad():
        assert float(network(sat.witness[None])[0, 0]) == pytest.approx(largest, abs=1e-5)
    unsat = rs.verify(network, box("-1", "1", at_least(0, str(largest + 0.01))))
    assert (unsat.verdict, unsat.witness) == ("unsat", None)
    assert unsat.bound == pytest.approx(-0.01, abs=1e-9)
    assert 1 <= unsat.n_regions < part.n_activation_regions
    close = rs.verify(network, box("-1", "1", at_least(0, str(largest))))
    assert close.verdict == "unknown"


def test_a_witness_counts_for_its_own_case_alone() -> None:
    """y = 10.0000006 x, which is above 10.0000007 in float32; the other case, y >= 5, is about x = 0."""
    network = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).double()
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([[10.0000006, 0.0], [0.0, 1.0]]).double())
        network[0].weight[0, 0] = 10.0000006
        network[0].bias.zero_()
    zero, one = Fraction(0), Fraction(1)
    at_zero = Case((zero, zero), (zero, one), ((at_least(0, "5"),),))
    at_one = Case((one, zero), (one, one), ((Constraint(((0, one),), Fraction("10.0000007")),),))
    found = rs.verify(network, Property(2, 2, (at_zero, at_one), None, "test"))
    assert (found.verdict, found.witness) == ("unknown", None)
    wide = Case((zero, zero), (zero, one), ((Constraint(((1, one),), Fraction("1e-9")),),))
    found = rs.verify(network, Property(2, 2, (at_one, wide), None, "test"))
    assert found.verdict == "sat"  # a smaller margin, which float32 confirms
    assert found.witness is not None
    assert found.witness.tolist() == [0.0, 0.0]


def test_a_network_with_a_maximum_is_decided_from_its_partition() -> None:
    class Largest(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([torch.maximum(x[:, :1], x[:, 1:]), x[:, :1] - x[:, 1:]], 1)

    found = rs.verify(Largest(), box("-1", "1", Constraint(((0, Fraction(1)),), Fraction(-1, 2))))
    assert (found.verdict, found.n_regions) == ("sat", 2)
    assert found.margin == pytest.approx(0.5)
    missed = rs.verify(Largest(), box("-1", "1", Constraint(((0, Fraction(1)),), Fraction(-2))))
    assert (missed.verdict, missed.margin) == ("unsat", pytest.approx(-1.0))


class Pooled(nn.Module):
    """Several maxima, and two outputs of which one is the network."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(2, 24), nn.Linear(12, 2)

    def forward(self, x: Tensor, shift: float) -> tuple[Tensor, Tensor]:
        h = self.a(x)
        return h, self.b(torch.maximum(h[:, :12], h[:, 12:])) + shift


def test_limits_and_further_arguments_of_a_network_with_a_maximum() -> None:
    options: dict[str, Any] = {"output": 1, "args": [0.5]}
    whole = rs.verify(Pooled(), box("-1", "1", at_least(0, "100")), **options)
    assert (whole.verdict, whole.reason) == (
        "unsat",
        "No input of the boxes fits the property; the rounding error is an estimate.",
    )
    for limit in ({"timeout": 0.0}, {"max_regions": 2}):
        found = rs.verify(Pooled(), box("-1", "1", at_least(0, "100")), **options, **limit)
        assert found.verdict == "timeout", limit
        assert found.margin <= whole.margin < found.bound == math.inf
    part = rs.linear_regions(Pooled(), rs.Box([0.0, 0.0], torch.eye(2), 1.0), **options)
    largest = float(part.outputs[:, 0].max())
    for value, verdict in ((largest - 1e-3, "sat"), (largest + 1e-3, "unsat")):
        assert rs.verify(Pooled(), box("-1", "1", at_least(0, str(value))), **options).verdict == verdict


def test_fixed_inputs_and_properties_without_inputs() -> None:
    wide = box("-1", "1", at_least(0, "100"), n=5)
    assert rs.verify(mlp([5, 6, 2], seed=0), wide.fixed({2: "0.1", 3: 0.5, 4: 0})).verdict == "unsat"
    assert [case.low[0] for case in UNION.fixed({0: "2.5"}).cases] == [Fraction(5, 2)]
    network = mlp([2, 6, 2], seed=0)
    value = float(rs.trace(network, (2,))(torch.full((1, 2), 0.5))[0, 0])
    for threshold, verdict in ((value - 0.1, "sat"), (value + 0.1, "unsat")):  # a point
        assert rs.verify(network, box("0.5", "0.5", at_least(0, str(threshold)))).verdict == verdict
    empty = replace(box("-1", "1", at_least(0, "0")), cases=())
    for property in (empty, empty.fixed({0: 7})):
        decided = rs.verify(network, property)
        assert decided.verdict == "unsat"
        assert decided.reason == "The property allows no input: its conditions contradict each other."


WIDE = box("-1", "0.1", at_least(0, "100"))
UNION = replace(WIDE, cases=box("-1", "0", at_least(0, "1")).cases + box("2", "3", at_least(0, "1")).cases)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rs.verify(mlp([2, 4, 2]), WIDE, timeout=math.nan), "timeout"),
        (lambda: rs.verify(mlp([2, 4, 2]), Property(2, 3, (), None, "test")), "3 outputs"),
        (lambda: rs.verify(mlp([2, 4, 2]), Property(3, 2, (), (1, 2), "test")), "inputs"),
        (lambda: rs.verify(mlp([5, 6, 2]), box("-1", "1", n=5)), r"at most 3 free inputs, got 5 .*fixed"),
        (lambda: WIDE.fixed({0: 0, 1: 7}), r"a value of X_1 between -1 and 0\.1, got 7\. Fix it inside the box\."),
        (lambda: WIDE.fixed({1: 0.1}), r"between -1 and 0\.1, got 0\.1\. Write it as text"),
        (lambda: WIDE.fixed({1: "1e400"}), r"got 1e\+300\."),
        (lambda: UNION.fixed({0: 1}), r"of X_0 between -1 and 0 or between 2 and 3, got 1\."),
        (
            lambda: UNION.fixed({0: "-0.5", 1: "2.5"}),
            r"one of the 2 boxes together, got X_0 = -0\.5, X_1 = 2\.5\.",
        ),
    ],
)
def test_what_does_not_fit_is_one_sentence(call: Callable[[], object], words: str) -> None:
    with pytest.raises(rs.InputError, match=words):
        call()


def test_a_limit_is_a_timeout_and_never_an_answer() -> None:
    network = mlp([2, 30, 30, 2], seed=1)
    part = rs.linear_regions(network, rs.Box.between(-1, 1, (2,)))
    above = str(float(part.outputs[:, 0].max()) + 1e-3)
    found = rs.verify(network, box("-1", "1", at_least(0, above)), max_regions=2)
    assert (found.verdict, found.witness) == ("timeout", None)
    assert found.bound > found.margin
    one = box("-1", "1", at_least(0, above))
    assert rs.verify(network, one, timeout=0).verdict == "timeout"
    many = rs.verify(network, replace(one, cases=one.cases * 3), timeout=0)
    assert (many.verdict, many.n_regions, many.bound) == ("timeout", 1, math.inf)  # later boxes are not looked at


@needs_models
@pytest.mark.parametrize(
    ("network", "property", "verdict", "margin"),
    [
        ("test/onnx/test_nano", "test/vnnlib/test_nano", "unsat", -1.0),
        ("test/onnx/test_tiny", "test/vnnlib/test_tiny", "unsat", -99.0),
        ("cersyve/onnx/pendulum_pretrain_con", "cersyve/vnnlib/prop_pendulum", "sat", 0.00120107),
        ("cersyve/onnx/pendulum_finetune_inv", "cersyve/vnnlib/prop_pendulum", "unsat", -0.00013301),
        ("tllverifybench_2023/onnx/tllBench_n=2_N=M=8_m=1_instance_0_0", "tllverifybench_2023/vnnlib/property_N=8_0",
         "unsat", -3.080831),
        ("tllverifybench_2023/onnx/tllBench_n=2_N=M=16_m=1_instance_1_1", "tllverifybench_2023/vnnlib/property_N=16_1",
         "sat", 3.974177),
    ],
)  # fmt: skip
def test_benchmark_instances(network: str, property: str, verdict: str, margin: float) -> None:
    pytest.importorskip("onnx", reason="reading ONNX files needs the extra onnx")
    assert MODELS is not None
    found = rs.verify(rs.read_onnx(MODELS / f"{network}.onnx.gz"), rs.read_vnnlib(MODELS / f"{property}.vnnlib.gz"))
    assert found.verdict == verdict
    assert found.margin == pytest.approx(margin, rel=1e-5)


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
    hinges = with_slacks(read_hinge_network(rs.trace(Skip(2), (2,)), lambda x: x, 2), np.eye(2), np.zeros(2))
    random = np.random.default_rng(0)
    corners = np.concatenate([np.ones((4, 1)), [[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]]], 1)
    tolerances, error = rounding_of(hinges, corners)
    thin = np.concatenate([np.ones((3, 1)), random.uniform(0.7, 0.7 + 1e-9, (3, 2))], 1)
    for points in (corners[:3], thin):
        bounds = bound_cells(hinges, points[None], tolerances)
        run, high, low = hinges.run(points), *(on_vertices(f, points[None])[:, 0] for f in (bounds.high, bounds.low))
        for i, point in enumerate(points):
            exact = np.array([float(value) for value in rational(hinges, point)])
            assert (np.abs(run[:, i] - exact) <= error).all()
            assert (high[:, i] >= exact - error).all()
            assert (low[:, i] <= exact + error).all()
    assert error.max() < 1e-9


def rational(hinges: HingeNetwork, point: np.ndarray) -> list[Fraction]:
    """``hinges.run`` at one point without rounding."""

    def times(matrix: Any, state: list[Fraction]) -> list[Fraction]:
        rows = matrix.toarray() if hasattr(matrix, "toarray") else matrix
        return [sum((Fraction(float(a)) * b for a, b in zip(row, state, strict=True)), Fraction(0)) for row in rows]

    state = times(hinges.first, [Fraction(float(x)) for x in point])
    for layer in hinges.layers:
        rest = [state[u] - Fraction(float(t)) for u, t in zip(layer.units, layer.at, strict=True)]
        bent = [max(r, Fraction(0)) - Fraction(float(t)) * r for r, t in zip(rest, layer.tilt, strict=True)]
        state = [a + Fraction(float(b)) for a, b in zip(times(layer.matrix, state + bent), layer.offset, strict=True)]
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
        hinges = with_slacks(read_hinge_network(rs.trace(network, (1,)), lambda x: x, 1), np.eye(2), np.zeros(2))
        _, error = rounding_of(hinges, np.array([[1.0, -1.0], [1.0, 1.0]]))
        for x in (Fraction(-1), Fraction(1, 2), Fraction(1)):
            state = [x]
            for i, weight in enumerate(weights):
                state = [
                    sum((Fraction(a) * z for a, z in zip(row, state, strict=True)), Fraction(0))
                    for row in weight.tolist()
                ]
                slope = (Fraction(0.3), Fraction(0), Fraction(1))[i]
                state = [max(z, slope * z) for z in state]
            found = hinges.run(np.array([[1.0, float(x)]]))[:, 0]
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
