"""Proven maps and counts against evaluations, the exact engine, and networks that rounding makes hard."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regionscope as rs
from fuzz.smooth import Function, contradictions, random_network
from regionscope.errors import InputError, NotPiecewiseAffine
from regionscope.network import trace_smooth
from regionscope.network.program import Instruction
from regionscope.smooth import operators
from regionscope.smooth.cells import Intervals, Polygons, cells_of
from regionscope.smooth.forms import Cluster
from regionscope.smooth.network import SmoothNetwork, input_form
from regionscope_lab.zoo import mlp

SQUARE = rs.Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 2.0)


def network(sizes: list[int], activation: type[nn.Module], seed: int, scale: float = 2.0) -> nn.Sequential:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for n, m in pairwise(sizes):
        linear = nn.Linear(n, m).double()
        nn.init.normal_(linear.weight, std=scale / n**0.5)
        nn.init.normal_(linear.bias, std=0.5)
        layers += [linear, activation()]
    return nn.Sequential(*layers[:-1])


def sampled_changes(net: nn.Module, segment: rs.Slice, n: int = 400_001) -> int:
    with torch.no_grad():
        coords = torch.linspace(*segment.corners[:, 0].tolist(), n, dtype=torch.float64)[:, None]
        labels = net(segment.embed(coords)).argmax(1)
    return 1 + int((labels.diff() != 0).sum())


@pytest.mark.parametrize("seed", range(24))
def test_no_sample_contradicts_a_proven_cell(seed: int) -> None:
    case = random_network(seed)
    result = rs.decision_map(case.net, case.slice, undecided=0.05, max_cells=2000)
    assert contradictions(result, case.net, 20_000, seed) == 0, case.text


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_relu_networks_have_the_exact_areas_and_counts(seed: int, dim: int) -> None:
    net = network([2, 8, 8, 3], nn.ReLU, seed)
    slice = SQUARE if dim == 2 else rs.Segment([-2.0, -1.5], [2.0, 1.0])
    exact = rs.decision_regions(net, slice)
    proven = rs.decision_map(net, slice, undecided=0.01)
    assert proven.status
    for label in range(3):
        low, high = proven.area(label)
        true = float(exact.sizes[exact.labels == label].sum())
        assert low - 1e-9 <= true <= high + 1e-9
    bounds = proven.counted
    assert bounds.low <= exact.count
    assert bounds.high is None or exact.count <= bounds.high
    if dim == 1:
        assert proven.n_regions == exact.count


@pytest.mark.parametrize("activation", [nn.GELU, nn.SiLU, nn.Tanh, nn.Softplus, nn.Sigmoid, nn.Mish])
def test_counts_on_segments_are_proven(activation: type[nn.Module]) -> None:
    for seed in range(4):
        net = network([3, 16, 16, 4], activation, seed)
        segment = rs.Segment([-3.0, 1.0, 0.5], [3.0, -2.0, 1.0])
        assert rs.decision_map(net, segment).n_regions == sampled_changes(net, segment)


def test_counts_in_a_plane_are_proven_at_triple_points_too() -> None:
    class Corners(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            a, b = torch.tanh(x[:, 0]), torch.tanh(x[:, 1])
            return torch.stack([a, b, -a - b], 1)

    result = rs.decision_map(Corners(), SQUARE, undecided=0.005)
    assert result.n_regions == 3
    assert result.counted.status


def test_rings_are_counted() -> None:
    def rings(x: Tensor) -> Tensor:
        return torch.sin(3 * torch.square(x).sum(1, keepdim=True) - 0.7)

    # sin(3 r^2 - 0.7) changes its sign at 3 r^2 = 0.7 + n pi <= 24, in the corners too
    radii = [math.sqrt((0.7 + n * math.pi) / 3) for n in range(8)]
    whole = sum(radius < 2 for radius in radii)
    assert rs.decision_map(Function(rings), SQUARE).n_regions == 1 + whole + 4 * (8 - whole)


def test_an_island_smaller_than_any_cell_keeps_the_number_open_or_is_counted() -> None:
    def bump(x: Tensor) -> Tensor:
        return torch.exp(-400 * torch.square(x - 0.123).sum(1, keepdim=True)) - 0.999

    bounds = rs.decision_map(Function(bump), SQUARE).counted
    assert bounds.low <= 2
    assert bounds.high is None or bounds.high >= 2


def test_area_of_a_disc() -> None:
    result = rs.decision_map(Function(lambda_square), SQUARE, value=1.0, undecided=0.001)
    low, high = result.area(0)
    assert low < math.pi < high
    assert high - low < 0.001 * 16 * 1.01
    assert result.n_regions == 2
    assert result.label_at([[0.0, 0.0], [1.9, 1.9], [5.0, 0.0]]).tolist() == [0, 1, -1]


def lambda_square(x: Tensor) -> Tensor:
    return torch.square(x).sum(1, keepdim=True)


def test_volume_of_a_ball() -> None:
    box = rs.Box([0.0] * 3, torch.eye(3), 1.2)
    result = rs.decision_map(Function(lambda_square), box, value=1.0, undecided=0.1, max_cells=20_000)
    low, high = result.area(0)
    assert low < 4 / 3 * math.pi < high
    assert result.n_regions == (2, None)
    points = np.random.default_rng(0).uniform(-1.2, 1.2, (2000, 3))
    labels = result.label_at(points).numpy()
    assert (labels[labels >= 0] == ((points**2).sum(1) > 1)[labels >= 0]).all()


@pytest.mark.parametrize("scale", [1e6, 1e-6, 1e3])
def test_large_and_small_weights(scale: float) -> None:
    net = network([2, 12, 12, 3], nn.GELU, 3)
    with torch.no_grad():
        net[0].weight.mul_(scale)
        net[0].bias.mul_(scale)
        net[2].weight.div_(scale)
    result = rs.decision_map(net, SQUARE, undecided=0.05, max_cells=3000)
    assert contradictions(result, net, 100_000, 0) == 0


def test_cancellation_of_large_numbers_is_not_proven_away() -> None:
    class Cancels(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (torch.tanh(x[:, :1]) + 1e12) - 1e12

    result = rs.decision_map(Cancels(), rs.Segment([-1e-3, 0.0], [1e-3, 0.0]), undecided=0.2, max_cells=500)
    assert contradictions(result, Cancels(), 200_000, 0) == 0
    fine = result.label_at([[0.5 + 1e-3]])  # tanh(2e-6) is below the rounding of 1e12
    assert fine.tolist() == [-1]


def test_margins_at_the_rounding_level_stay_open() -> None:
    class Narrow(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = torch.sigmoid(x[:, :1])
            return torch.cat([y, y + 1e-17], 1)

    result = rs.decision_map(Narrow(), rs.Segment([-1.0], [1.0]), max_cells=200)
    assert result.undecided == 1.0
    assert not result.status
    assert "max_cells=200" in result.status.reason


def test_a_polygon_is_a_slice_like_the_others() -> None:
    """On a hexagon around 0, the map, its areas and its count are those of the disc inside."""
    angles = torch.arange(6, dtype=torch.float64) * math.pi / 3
    hexagon = rs.Polygon(1.5 * torch.stack([angles.cos(), angles.sin()], 1))
    result = rs.decision_map(Function(lambda_square), hexagon, value=1.0, undecided=0.002)
    low, high = result.area(0)
    assert low < math.pi < high
    assert sum(result.area(label)[0] for label in range(2)) == pytest.approx((1 - result.undecided) * hexagon.size)
    assert result.n_regions == 2
    net = network([2, 8, 8, 3], nn.ReLU, 1)
    exact, proven = rs.decision_regions(net, hexagon), rs.decision_map(net, hexagon)
    assert contradictions(proven, net, 50_000, 0) == 0
    for label in range(3):
        low, high = proven.area(label)
        assert low - 1e-9 <= float(exact.sizes[exact.labels == label].sum()) <= high + 1e-9


def test_sums_in_another_order_keep_their_labels() -> None:
    """A forward pass that sums backwards, and one in blocks, agree with every proven cell."""
    net = network([4, 24, 24, 3], nn.SiLU, 5)
    slice = rs.Box([0.0] * 4, torch.eye(4)[:2], 2.0)
    result = rs.decision_map(net, slice, undecided=0.02)

    class Backwards(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            for layer in net:
                if isinstance(layer, nn.Linear):
                    terms = x[:, None] * layer.weight
                    x = terms.flip(2).cumsum(2)[..., -1] + layer.bias
                else:
                    x = layer(x)
            return x

    assert contradictions(result, Backwards(), 100_000, 1) == 0


@pytest.mark.parametrize("kind", ["dense", "convolution", "attention", "fold", "product"])
def test_values_and_derivatives_are_bounded_forwards_and_backwards(kind: str) -> None:
    net, d = BOUNDED[kind]
    torch.manual_seed(2)
    net = net().double()
    slice = rs.Box(torch.randn(d).double(), torch.eye(d)[:2], 1.0)
    with torch.no_grad():
        smooth = SmoothNetwork.of(trace_smooth(net, (d,)), 2)
        center = torch.rand(8, 2, dtype=torch.float64) - 0.5
        frame = 0.1 * torch.eye(2, dtype=torch.float64).expand(8, 2, 2)
        cluster = Cluster(1000)
        out = smooth.run(input_form(cluster, slice, center, frame, 3), cluster)
        labels = torch.arange(8) % 2
        radii = cluster.radius(out).sum(2), cluster.back(out, labels, 1 - labels)
    steps = 2 * torch.rand(8, 200, 2, dtype=torch.float64) - 1

    def difference(coords: Tensor) -> Tensor:
        outputs = net(slice.origin + coords @ slice.basis.flatten(1))
        return outputs[:, 0] - outputs[:, 1]

    coords = (center[:, None] + steps @ frame).reshape(-1, 2).requires_grad_()
    values = difference(coords)
    (slopes,) = torch.autograd.grad(values.sum(), coords)
    true = torch.cat([values[:, None], 0.1 * slopes], 1).detach().reshape(8, 200, 3)  # along the axes of the frame
    sign = (1 - 2 * labels)[:, None, None]
    lines = (out.lines[..., 0] - out.lines[..., 1]).T  # (b, 1 + k)
    affine = torch.cat([lines[:, None, :1] + steps @ lines[:, 1:, None], lines[:, None, 1:].expand(8, 200, 2)], 2)
    away = ((true - affine) * sign).abs().amax(1).T
    for radius in radii:
        assert bool((away <= radius).all())
    assert float((away / radii[1]).max()) > 0.05  # and not by far too much


class Product(nn.Module):
    """Two outputs that are products of smooth functions."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x) * torch.tanh(x.flip(1)) * 3


class Tokens(nn.Module):
    """Attention over three tokens of four numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.heads, self.last = nn.Linear(4, 12), nn.Linear(12, 2)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.heads(x.reshape(-1, 3, 4)).chunk(3, -1)
        return self.last(F.scaled_dot_product_attention(query, key, value).flatten(1))


BOUNDED: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "dense": (lambda: nn.Sequential(nn.Linear(3, 12), nn.GELU(), nn.Linear(12, 12), nn.SiLU(), nn.Linear(12, 2)), 3),
    "convolution": (
        lambda: nn.Sequential(
            nn.Unflatten(1, (1, 4, 4)),
            nn.Conv2d(1, 3, 2),
            nn.Tanh(),
            nn.MaxPool2d(2, 1),
            nn.Flatten(),
            nn.Linear(12, 2),
        ),
        16,
    ),
    "attention": (Tokens, 12),
    "fold": (lambda: nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.3), nn.Linear(8, 2), nn.Hardtanh()), 3),
    "product": (Product, 2),
}


def test_signed_errors_are_tighter_than_plain_ones() -> None:
    net = network([4, 32, 32, 32, 32, 2], nn.GELU, 1, scale=1.4)
    slice = rs.Box([0.0] * 4, torch.eye(4)[:2], 1.0)
    radii = []
    with torch.no_grad():
        smooth = SmoothNetwork.of(trace_smooth(net, (4,)), 2)
        for most_errors in (0, 1000):
            cluster = Cluster(most_errors)
            frame = 0.02 * torch.eye(2, dtype=torch.float64)[None]
            out = smooth.run(input_form(cluster, slice, torch.zeros(1, 2, dtype=torch.float64), frame, 1), cluster)
            radii.append(float(cluster.radius(out)[0].max()))
    assert 4 * radii[1] < radii[0]


def test_cells_cover_the_slice_and_share_vertices() -> None:
    result = rs.decision_map(network([2, 8, 2], nn.Tanh, 0), rs.Simplex([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]))
    assert float(result.sizes.sum()) == pytest.approx(2.0, rel=1e-12)
    assert len(result.cells) == len(result.labels) == len(result)
    assert 0.0 < result.undecided <= 0.01
    assert result.readings()[0][1] == result.undecided


def test_cutting_keeps_the_cells_apart() -> None:
    cells = cells_of(SQUARE)
    assert isinstance(cells, Polygons)
    cells, old = cells.cut(np.array([0]), np.array([[[0.5, 1.0, 0.0], [-0.5, 1.0, 0.0]]]))
    assert old.tolist() == [0, 0, 0]
    assert sorted(cells.sizes.tolist()) == [4.0, 6.0, 6.0]
    assert len(cells.neighbours()) == 2
    halves, old = cells.halved(np.arange(3))
    assert len(halves) == 6
    assert np.bincount(old).tolist() == [2, 2, 2]
    assert halves.locate(np.array([[0.0, 1.0], [3.0, 0.0]])).tolist()[1] == -1
    intervals, _ = Intervals(np.array([0.0, 1.0])).cut(np.array([0]), np.array([[[-0.25, 1.0], [-0.75, 1.0]]]))
    assert intervals.ends.tolist() == [0.0, 0.25, 0.75, 1.0]


def test_the_map_is_the_same_each_time() -> None:
    net = network([3, 16, 3], nn.SiLU, 4)
    slice = rs.Box([0.0] * 3, torch.eye(3)[:2], 2.0)
    first, second = (rs.decision_map(net, slice) for _ in range(2))
    assert torch.equal(first.labels, second.labels)
    assert all(torch.equal(a, b) for a, b in zip(first.cells, second.cells, strict=True))


def test_maps_and_the_first_import_in_inference_mode() -> None:
    """Bounds backwards need gradients, and the record of ReLU is made with one."""
    program = """
import torch
with torch.inference_mode():
    import regionscope as rs
    net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.GELU(), torch.nn.Linear(4, 2)).double()
    print(rs.decision_map(net, rs.Box([0.0, 0.0], torch.eye(2), 2.0)).n_regions)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.stdout.strip().isdigit(), run.stderr


def test_time_limit_and_progress() -> None:
    net = network([2, 32, 32, 2], nn.GELU, 0)
    shares: list[float] = []
    result = rs.decision_map(net, SQUARE, undecided=1e-6, max_seconds=0.3, progress=shares.append)
    assert not result.status
    assert "max_seconds" in result.status.reason
    assert shares == sorted(shares)
    assert contradictions(result, net, 20_000, 0) == 0


def test_composed_layers_match_the_module() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm, self.heads = nn.Linear(6, 24), nn.LayerNorm(6), nn.Linear(6, 18)
            self.last = nn.Linear(24, 3)

        def forward(self, x: Tensor) -> Tensor:
            tokens = self.norm(self.first(x).reshape(-1, 4, 6))
            query, key, value = self.heads(tokens).chunk(3, -1)
            weights = F.softmax(query @ key.transpose(1, 2) / 6**0.5, -1)
            return self.last((tokens + weights @ value).flatten(1))

    torch.manual_seed(0)
    net = Block().double()
    segment = rs.Segment(torch.randn(6), torch.randn(6))
    x = segment.embed(torch.rand(5, 1).double())
    with torch.no_grad():
        torch.testing.assert_close(trace_smooth(net, (6,))(x), net(x))
    result = rs.decision_map(net, segment, undecided=0.01)
    assert result.status
    assert contradictions(result, net, 50_000, 0) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rms_norm_has_the_default_eps_of_the_dtype_of_the_model(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 6), nn.RMSNorm(6)).to(dtype)
    with torch.no_grad():
        net[0].weight.mul_(1e-4)
        net[0].bias.zero_()
        x = torch.randn(5, 3, dtype=dtype)
        torch.testing.assert_close(trace_smooth(net, (3,))(x.double()), net(x).double(), rtol=1e-4, atol=1e-5)


def test_a_count_is_not_proven_across_the_jump_of_softplus() -> None:
    """Torch returns x in place of softplus(x) above a threshold; a low one makes labels change there."""

    class Jumps(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([F.softplus(x, 1.0, 1.0), x + 0.3], 1)  # 1.3133 and 1.3 at 1, then 1 and 1.3

    segment = rs.Segment([0.9], [1.1])
    assert sampled_changes(Jumps(), segment) == 2
    bounds = rs.decision_map(Jumps(), segment).counted
    assert bounds.high is None or bounds.high == 2


def test_a_convolution_with_pooling() -> None:
    torch.manual_seed(1)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GELU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 2), nn.BatchNorm2d(6), nn.SiLU(),
        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(6, 3),
    ).double().eval()  # fmt: skip
    points = torch.randn(3, 1, 8, 8, dtype=torch.float64)
    result = rs.decision_map(net, rs.Simplex(points), undecided=0.03)
    assert result.status
    assert contradictions(result, net, 50_000, 0) == 0


def test_what_has_no_record_is_refused_by_name() -> None:
    with pytest.raises(NotPiecewiseAffine, match=r"decision_map bounds, but '1' is Hardshrink"):
        rs.decision_map(nn.Sequential(nn.Linear(2, 2), nn.Hardshrink()), SQUARE)
    with pytest.raises(NotPiecewiseAffine, match=r"piecewise-affine network, but '1' is GELU"):
        rs.trace(nn.Sequential(nn.Linear(2, 2), nn.GELU()), (2,))


def test_level_set_names_decision_map_for_a_smooth_network() -> None:
    with pytest.raises(NotPiecewiseAffine, match=r"Tanh.*decision_map\(model, slice, value=0.0\)"):
        rs.level_set(nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)), SQUARE)


def test_arguments_are_checked() -> None:
    net = mlp([2, 4, 3], seed=0)
    with pytest.raises(InputError, match="undecided between 0 and 1"):
        rs.decision_map(net, SQUARE, undecided=2)
    with pytest.raises(InputError, match="single output"):
        rs.decision_map(net, SQUARE, value=0.5)
    with pytest.raises(InputError, match="dimension 3"):
        rs.decision_map(nn.Linear(4, 2), rs.Simplex(torch.eye(4)))
    result = rs.decision_map(net, SQUARE)
    with pytest.raises(InputError, match="label from 0 to 2"):
        result.area(3)
    with pytest.raises(InputError, match="shape"):
        result.label_at([[0.0]])


class Sums(nn.Module):
    """Sums, differences and multiples of values and constants."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.tensor([0.5, -1.0, 2.0]))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(x)
        return torch.add(y * self.shift, x + self.shift, alpha=-2.0) + (0.5 - torch.sub(y, x, alpha=3.0)) * 4 + 1e-3


@pytest.mark.parametrize("kind", [*BOUNDED, "sums"])
def test_affine_steps_are_those_that_probing_reads(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build, d = {**BOUNDED, "sums": (Sums, 3)}[kind]
    torch.manual_seed(0)
    steps = []

    def note(instruction: Instruction, zeros: list[Tensor]) -> operators.AffineStep:
        steps.append((instruction, list(zeros), operators.read_step(instruction, zeros)))
        return steps[-1][2]

    monkeypatch.setattr("regionscope.smooth.network.read_step", note)
    with torch.no_grad():
        SmoothNetwork.of(trace_smooth(build(), (d,)), 2)
        for instruction, zeros, step in steps:
            shift = instruction.function(*zeros, *instruction.constants)[0]
            x = [torch.randn(3, *row.shape[1:], dtype=torch.float64) for row in zeros]
            torch.testing.assert_close(step.linear(*x) + shift, instruction.function(*x, *instruction.constants))
            torch.testing.assert_close(torch.zeros_like(shift) if step.shift is None else step.shift, shift)
            units = [torch.eye(row.numel(), dtype=torch.float64).reshape(-1, *row.shape[1:]) for row in zeros]
            others = [[unit if i == j else row.expand(len(unit), *row.shape[1:]) for j, row in enumerate(zeros)]
                      for i, unit in enumerate(units)]  # fmt: skip
            columns = [(step.linear(*rows).abs(), step.absolute(*rows)) for rows in others]
            for coefficients, absolute in columns:
                torch.testing.assert_close(absolute, coefficients)
            summed = sum((coefficients != 0).sum(0) for coefficients, _ in columns)
            most = int(torch.as_tensor(summed).max())
            assert step.terms >= most or most <= 1
