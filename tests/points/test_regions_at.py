"""``regions_at`` against its slow twin, finite steps and slices."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import regionscope as rs
from devices import needs_cuda
from nasty.modules import (
    Dense,
    LongSkip,
    Maxout,
    ResidualCNN,
    SharedTwice,
    generic_head,
    layers,
    linear,
    mlp,
    pooled_cnn,
    relu_net,
    seeded,
)
from regionscope.monitor.tracking import locate
from regionscope.network import patterns, trace, with_decision
from regionscope.points import PointRegions, regions_at
from twins.points import walls

NORMS = (1.0, 2.0, math.inf)
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "MLP": (seeded(0, lambda: mlp([5, 8, 8, 3])), (5,)),
    "MLP of fewer units than inputs": (seeded(0, lambda: mlp([20, 6, 6, 3])), (20,)),
    "MLP, one output": (seeded(1, lambda: mlp([3, 8, 8, 1])), (3,)),
    "leaky": (seeded(2, lambda: mlp([4, 6, 6, 2], lambda: nn.LeakyReLU(0.1))), (4,)),
    "PReLU": (seeded(2, lambda: mlp([4, 6, 6, 2], nn.PReLU)), (4,)),
    "clamps": (seeded(3, lambda: mlp([4, 6, 6, 2], lambda: nn.Hardtanh(-0.2, 0.3))), (4,)),
    "hard sigmoid": (seeded(3, lambda: mlp([4, 6, 6, 2], nn.Hardsigmoid)), (4,)),
    "shrinkage": (seeded(4, lambda: mlp([4, 6, 6, 2], lambda: nn.Softshrink(0.1))), (4,)),
    "maxout": (seeded(5, lambda: Maxout(nn.Linear(4, 9), 3, mlp([3, 5, 2]))), (4,)),
    "long skip": (seeded(6, lambda: LongSkip(4, 6, 3)), (4,)),
    "dense": (seeded(7, lambda: Dense(4, 5, 3, 2)), (4,)),
    "shared layers": (seeded(8, lambda: SharedTwice(3, 6, 2)), (3,)),
    "residual CNN with BatchNorm": (seeded(9, lambda: ResidualCNN(4, 3)), (1, 4, 4)),
    "max pool": (seeded(10, lambda: pooled_cnn(3, 2, 4)), (1, 4, 4)),
    "max pool with padding": (seeded(11, lambda: pooled_cnn(3, 2, 4, pool=lambda: nn.MaxPool2d(3, 2, 1))), (1, 4, 4)),
    "max pool before ReLU": (
        seeded(12, lambda: nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(1, 2, 2), nn.ReLU(), nn.Flatten(1))),
        (1, 4, 4),
    ),
}  # fmt: skip


def points_of(shape: tuple[int, ...], n: int = 4, seed: int = 0) -> Tensor:
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture(params=NETWORKS, scope="module")
def network(request: pytest.FixtureRequest) -> tuple[nn.Module, Tensor]:
    build, shape = NETWORKS[request.param]
    return build(), points_of(shape)


@pytest.mark.parametrize("norm", NORMS)
def test_distances_equal_those_of_the_slow_twin(network: tuple[nn.Module, Tensor], norm: float) -> None:
    model, x = network
    at = regions_at(model, x, norm=norm)
    program = with_decision(trace(model, tuple(x.shape[1:])))
    for i, point in enumerate(x):
        cell_walls = walls(program, point)
        last = len(program.folds) - 1
        cell = {(w.fold, w.unit, w.candidate): w.distance(norm) for w in cell_walls if w.fold < last}
        expected = min(cell.values())
        assert at.distance[i].item() == pytest.approx(expected, rel=1e-9)
        assert cell[at.nearest.fold[i].item(), at.nearest.unit[i].item(), at.nearest.candidate[i].item()] == (
            pytest.approx(expected, rel=1e-9)
        )
        margin = min((w.distance(norm) for w in cell_walls if w.fold == last), default=math.inf)
        assert at.label_exact[i].item() == (margin <= expected)
        assert at.label_distance[i].item() == pytest.approx(min(margin, expected), rel=1e-9)
    assert not at.on_fold.any()
    assert torch.equal(at.next_distance, at.distance)
    outputs = trace(model, tuple(x.shape[1:]))(x)
    assert torch.equal(at.labels, outputs.argmax(1) if outputs.shape[1] > 1 else (outputs[:, 0] > 0).long())


@pytest.mark.parametrize("norm", NORMS)
def test_a_step_shorter_than_the_distance_changes_nothing_and_a_longer_one_changes_the_unit(
    network: tuple[nn.Module, Tensor], norm: float
) -> None:
    model, x = network
    program = trace(model, tuple(x.shape[1:]))
    at = regions_at(model, x, norm=norm)
    steps = at.nearest_points() - x
    lengths = torch.linalg.vector_norm(steps.flatten(1), norm, dim=1)
    torch.testing.assert_close(lengths, at.distance, rtol=1e-9, atol=0)
    before, shorter, longer = (patterns(program, x + share * steps) for share in (0.0, 0.999, 1.001))
    assert torch.equal(before, shorter)
    starts = torch.tensor([0, *(fold.n_units for fold in program.folds)]).cumsum(0)
    for i, changed in enumerate(before != longer):
        sharing = at.sharing(i)
        assert (at.nearest.modules[i], at.nearest.unit[i]) in sharing
        columns = [starts[at.nearest.names.index(name)] + unit for name, unit in sharing]
        assert changed.nonzero()[:, 0].tolist() == sorted(int(column) for column in columns)


def test_inputs_of_one_pattern_share_an_id(network: tuple[nn.Module, Tensor]) -> None:
    model, x = network
    program = trace(model, tuple(x.shape[1:]))
    many = torch.cat([x, x * (1 + 1e-6), x.flip(0), 3 * x])
    at = regions_at(model, many)
    rows, expected = patterns(program, many).unique(dim=0, return_inverse=True)
    assert at.n_regions == len(rows)
    assert torch.equal(at.ids[:, None] == at.ids, expected[:, None] == expected)
    assert at.ids[0] == 0
    assert all(at.ids[i] <= at.ids[:i].max() + 1 for i in range(1, len(many)))


def test_the_region_on_a_plane_is_the_cut_of_the_cell(network: tuple[nn.Module, Tensor]) -> None:
    """On three planes through an input, the region that holds it consists of the points of its cell."""
    model, x = network
    at = regions_at(model, x[:1])
    cell, program = at.halfspaces(0), trace(model, tuple(x.shape[1:]))
    for seed in range(3):
        plane = rs.Box(x[0], points_of((2, *x.shape[1:]), n=1, seed=seed)[0], 20 * at.distance[0].item())
        part = rs.linear_regions(program, plane)
        region = int(locate(part, torch.zeros(1, 2))[0])
        corners = plane.embed(part.vertices[part.corners[part.offsets[region] : part.offsets[region + 1]]])
        assert cell.contains(corners, margin=1e-9).all()
        shares = torch.rand(200, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2 - 1
        coords = shares * plane.corners.amax(0)
        assert (torch.from_numpy(cell.contains(plane.embed(coords))) == (locate(part, coords) == region)).all()


def test_batching_changes_nothing(network: tuple[nn.Module, Tensor]) -> None:
    model, x = network
    whole = regions_at(model, x)
    for i in range(len(x)):
        single = regions_at(model, x[i : i + 1])
        torch.testing.assert_close(single.distance, whole.distance[i : i + 1], rtol=1e-12, atol=0)
        assert single.nearest.unit == whole.nearest.unit[i]


def relu_pair() -> nn.Module:
    """Folds at x = 0 and x = 2 of the first of two inputs."""
    return relu_net(([[1.0, 0.0], [1.0, 0.0]], [0.0, -2.0]), [[1.0, 1.0]])


def test_an_input_on_a_fold() -> None:
    at = regions_at(relu_pair(), torch.tensor([[0.0, 5.0], [2.0, 1.0], [1.0, 0.0], [2.0, 3.0]], dtype=torch.float64))
    assert at.on_fold.tolist() == [True, True, False, True]
    assert at.distance.tolist() == [0.0, 0.0, 1.0, 0.0]
    assert at.next_distance.tolist() == [2.0, 2.0, 1.0, 2.0]
    right = at.side[0] > 0
    assert (at.ids[1] == at.ids[2]) == (not right)
    assert (at.ids[0] == at.ids[2]) == right
    assert at.ids[1] == at.ids[3]
    assert torch.equal(at.nearest_points()[0], torch.tensor([0.0, 5.0], dtype=torch.float64))


def test_dead_units_and_constant_networks_have_no_folds() -> None:
    dead = relu_net(([[0.0, 0.0], [1.0, 0.0]], [0.0, 1.0]), [[1.0, 1.0]])
    at = regions_at(dead, torch.tensor([[1.0, 1.0]]))
    assert at.distance.tolist() == [2.0]
    assert not at.on_fold.any()
    constant = relu_net(([[0.0], [0.0]], [1.0, 0.0]), [[1.0, 0.0], [0.0, 1.0]])
    at = regions_at(constant, torch.tensor([[1.0]]))
    assert at.distance.tolist() == [math.inf]
    assert at.label_distance.tolist() == [math.inf]
    assert at.nearest.modules == [""]
    assert at.nearest_points().isnan().all()


def test_values_that_cancel_on_the_whole_cell_are_no_folds() -> None:
    """relu(x) + relu(-x) - |x| is zero up to rounding, in a layer of its own."""
    a, b = 0.1, 0.7
    net = layers([[a, b], [-a, -b]], nn.ReLU(), ([[1.0, 1.0], [a + b, -(a + b)], [3.0, -3.0]], [0.0, 0.0, 1.0]))
    again = nn.Sequential(*net, linear([[0.3, 0.1, 0.0], [0.0, 0.1, -(a + b) / 30]]), nn.ReLU(), generic_head(2, 2))
    x = torch.tensor([[0.3, 0.9], [1.7, -0.1]], dtype=torch.float64)
    at = regions_at(again, x)
    assert not at.on_fold.any()
    assert (at.distance > 1e-3).all()


def test_units_that_share_a_fold_are_listed() -> None:
    """Copies of a unit, and the pool that chooses between values that are zero on one side."""
    copies = relu_net(([[1.0, 0.0], [0.0, 1.0], [-2.0, 0.0]], [-1.0, 3.0, 2.0]), [[1.0, 1.0, 1.0]])
    at = regions_at(copies, torch.zeros(1, 2))
    assert at.sharing(0) == [("1", 0), ("1", 2)]
    pooled = nn.Sequential(nn.ReLU(), nn.Unflatten(1, (1, 2)), nn.MaxPool1d(2), nn.Flatten())
    at = regions_at(pooled, torch.tensor([[-3.0, -1.0]]))
    assert at.sharing(0) == [("0", 1), ("2", 0)]
    with pytest.raises(rs.InputError, match="lies on one"):
        regions_at(copies, torch.tensor([[1.0, 0.0]])).sharing(0)


def batch_normed_cnn() -> nn.Module:
    net = nn.Sequential(nn.Conv1d(2, 4, 3, padding=1), nn.BatchNorm1d(4), nn.ReLU(), nn.MaxPool1d(3, 2, 1),
                        nn.Flatten(), nn.LazyLinear(4), nn.ReLU(), nn.Linear(4, 2))  # fmt: skip
    net(torch.randn(4, 2, 7))
    return net.eval()


def test_rounding_leaves_nothing_of_a_unit_that_dies_at_its_fold() -> None:
    """A value of 1e-17 of unit 22, behind its fold, would still win in the pool that follows."""
    net, x = seeded(17, batch_normed_cnn)(), points_of((2, 7), n=3, seed=17)[:1]
    at = regions_at(net, x)
    before, behind = patterns(
        trace(net, (2, 7)), x + torch.tensor([0, 1.001])[:, None, None] * (at.nearest_points() - x)
    )
    assert (before != behind).nonzero()[:, 0].tolist() == [22, 28 + 12]
    assert at.sharing(0) == [("2", 22), ("3", 12)]


def test_equal_candidates_of_a_maximum_are_no_folds() -> None:
    net = nn.Sequential(nn.Conv2d(1, 1, 1, bias=False), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()).double()
    nn.init.constant_(net[0].weight, -1.0)
    x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]], dtype=torch.float64)
    at = regions_at(net, x)
    assert at.nearest.modules == ["1"]
    assert at.distance.tolist() == [1.0]
    assert not at.on_fold.any()


def test_black_pixels_lie_on_the_folds_of_a_pool_in_front() -> None:
    net = nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4, 2)).double()
    x = torch.zeros(1, 1, 4, 4, dtype=torch.float64)
    x[0, 0, 0, 0], x[0, 0, 3, 3] = 1.0, 0.25
    at = regions_at(net, x)
    assert at.on_fold.all()
    assert at.next_distance.item() == pytest.approx(0.25 / math.sqrt(2))


def test_affine_regions_are_patterns_with_one_map() -> None:
    """relu(x) - relu(-x) is x on both sides; relu(x - 2) makes a second map."""
    net = relu_net(([[1.0], [-1.0], [1.0]], [0.0, 0.0, -2.0]), [[1.0, -1.0, 1.0]])
    x = torch.tensor([[3.0], [1.0], [-1.0], [5.0], [-2.0]])
    assert regions_at(net, x).ids.tolist() == [0, 1, 2, 0, 2]
    assert regions_at(net, x, merge="affine").ids.tolist() == [0, 1, 1, 0, 1]


def test_duplicate_inputs_and_float32_give_equal_rows() -> None:
    net = seeded(0, lambda: mlp([5, 8, 8, 3]))()
    x = points_of((5,)).float()
    at = regions_at(net, torch.cat([x, x]))
    assert torch.equal(at.ids[:4], at.ids[4:])
    torch.testing.assert_close(at.distance, regions_at(net.double(), x.double()).distance.repeat(2))


def test_blocks_of_any_size_give_the_same() -> None:
    """With 1 MiB of memory the work is cut into blocks of points and of directions."""
    net = seeded(0, lambda: pooled_cnn(10, 8, 16))()
    x = points_of((1, 16, 16), n=40)
    whole, parts = regions_at(net, x), regions_at(net, x, memory=1 << 20)
    torch.testing.assert_close(parts.distance, whole.distance, rtol=1e-12, atol=0)
    assert torch.equal(parts.ids, whole.ids)
    shares: list[float] = []
    regions_at(net, x, memory=1 << 20, progress=shares.append)
    assert len(shares) > 4
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_the_time_is_estimated_before_the_work_starts() -> None:
    """An image of 150,528 pixels: three passes tell that the limit is too short, and no share is reported."""
    net = nn.Sequential(nn.Conv2d(3, 16, 7, 2), nn.ReLU(), nn.MaxPool2d(4), nn.Conv2d(16, 16, 3), nn.ReLU(),
                        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))  # fmt: skip
    shares: list[float] = []
    began = time.perf_counter()
    with pytest.raises(rs.LimitReached, match=r"time_limit=20 seconds, got an estimate of .* 150,528 directions"):
        regions_at(net, torch.rand(1, 3, 224, 224), time_limit=20, progress=shares.append)
    assert time.perf_counter() - began < 20
    assert not shares
    regions_at(net, torch.rand(1, 3, 32, 32), time_limit=600, progress=shares.append)
    assert shares[-1] == 1.0


def test_many_inputs_of_a_dataset() -> None:
    """10^5 inputs in blocks; the closed form is the distance to the nearer of the folds 0 and 2."""
    x = torch.rand(100_000, 2, generator=torch.Generator().manual_seed(0))
    at = regions_at(relu_pair(), torch.utils.data.TensorDataset(x, torch.zeros(len(x))), memory=1 << 22)
    torch.testing.assert_close(at.distance, x[:, 0].double())
    assert at.n_regions == 1


def test_nothing_is_left_on_the_model() -> None:
    net = seeded(0, lambda: pooled_cnn(3, 2, 4))().train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    random = torch.get_rng_state()
    at = regions_at(net, points_of((1, 4, 4)))
    at.map(0)
    at.nearest_points()
    assert torch.equal(random, torch.get_rng_state())
    assert net.training
    assert all(parameter.grad is None for parameter in net.parameters())
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert not any(module._forward_hooks for module in net.modules())


@needs_cuda
def test_a_gpu_gives_the_numbers_of_the_cpu() -> None:
    for build, shape in NETWORKS.values():
        model, x = build(), points_of(shape)
        for norm in NORMS:
            cpu, gpu = regions_at(model, x, norm=norm), regions_at(model.cuda(), x.cuda(), norm=norm)
            model.cpu()
            torch.testing.assert_close(gpu.distance, cpu.distance, rtol=1e-9, atol=0)
            torch.testing.assert_close(gpu.label_distance, cpu.label_distance, rtol=1e-9, atol=0)
            assert torch.equal(gpu.ids, cpu.ids)
            assert torch.equal(gpu.nearest.unit, cpu.nearest.unit)
            torch.testing.assert_close(gpu.map(0).matrix, cpu.map(0).matrix)


def test_a_monitor_records_regions_and_distances() -> None:
    net, x = seeded(0, lambda: mlp([5, 8, 3]))(), points_of((5,))
    monitor = rs.Monitor({"points": lambda model: regions_at(model, x)}, when=rs.every(1))
    monitor(0, net)
    values = {row.name: row.value for row in monitor.rows}
    assert values["points"] == regions_at(net, x).n_regions
    assert values["points.distance"] == regions_at(net, x).distance.median().item()


def check_error(text: str, call: Callable[[], PointRegions]) -> None:
    with pytest.raises(rs.RegionscopeError, match=text):
        call()


def test_errors_say_what_was_expected() -> None:
    net, x = relu_pair(), torch.zeros(1, 2)
    check_error("norm to be 1, 2 or math.inf, got 3", lambda: regions_at(net, x, norm=3))
    check_error("valid merge, got 'afine'", lambda: regions_at(net, x, merge="afine"))
    check_error("at least one input, got 0", lambda: regions_at(net, x[:0]))
    check_error("finite inputs", lambda: regions_at(net, x / 0))
    wide = (seeded(0, lambda: mlp([300, 300, 2]))(), torch.randn(200, 300))
    check_error("time_limit=1e-09 seconds, got an estimate", lambda: regions_at(*wide, time_limit=1e-9))
    check_error("GELU", lambda: regions_at(nn.Sequential(nn.Linear(2, 2), nn.GELU()), x))
