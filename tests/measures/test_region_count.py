"""Region counts: the estimate, its three methods, samplers, the same on a GPU, and what is refused."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn

import regionscope as rs
from devices import needs_cuda
from network.architectures import ResNet
from regionscope import measures
from regionscope.errors import InputError, RegionscopeError
from regionscope.measures.over_slices import bootstrap_interval, over_slices
from regionscope.measures.region_count import _count_shard, open_counter
from regionscope.sampled.drawn_slices import LinesFromOrigin
from regionscope.types import Estimate
from small_slices import mlp

DATA = torch.randn(60, 4, generator=torch.Generator().manual_seed(0)) * 3
NET = mlp(4, 16, 16, 3, seed=3)


def test_the_numbers_of_an_estimate() -> None:
    est = rs.region_count(NET, DATA, dim=1, slices=80)
    counts = est.counts.double()
    assert est.n == len(est.counts) == 80
    assert est.value == pytest.approx(float(counts.mean()))
    assert est.stderr == pytest.approx(float(counts.std()) / math.sqrt(80))
    low, high = est.interval
    assert low < est.value < high
    assert (high - low) / (2 * 1.96 * est.stderr) == pytest.approx(1.0, abs=0.15)
    assert (est.dim, est.method, est.grid, est.seed) == (1, "grid", 200, 0)
    assert 0 < est.model_seconds <= est.seconds
    assert est.status
    assert est.grid_bias is None
    assert f"{est.value:.4g}" in repr(est)


@pytest.mark.parametrize("dim", [1, *(pytest.param(dim, marks=pytest.mark.slow) for dim in (2, 3, 4))])
def test_the_same_seed_gives_the_same_counts_in_any_batch(dim: int) -> None:
    grid = {1: 30, 2: 9, 3: 5, 4: 4}[dim]
    points = math.comb(grid - 1 + dim, dim)
    wanted = rs.region_count(NET, DATA, dim=dim, slices=9, grid=grid).counts
    for batch in (1, 2, points - 1, points, 9 * points):
        assert torch.equal(rs.region_count(NET, DATA, dim=dim, slices=9, grid=grid, batch_size=batch).counts, wanted)
    assert torch.equal(rs.region_count(NET, DATA, dim=dim, slices=20, grid=grid).counts[:9], wanted)
    others = [rs.region_count(NET, DATA, dim=dim, slices=9, grid=grid, seed=seed).counts for seed in range(1, 6)]
    assert any(not torch.equal(other, wanted) for other in others)


def test_exact_and_refined_agree_and_the_bias_of_the_grid_is_reported() -> None:
    exact = rs.region_count(NET, DATA, slices=40, method="exact")
    refined = rs.region_count(NET, DATA, slices=40, grid=20, method="refined")
    plain = rs.region_count(NET, DATA, slices=40, grid=20)
    slices = [rs.sampled.Hulls(DATA, dim=1).draw(i) for i in range(40)]
    assert exact.counts.tolist() == [found.count for found in rs.decision_regions(NET, slices)]
    assert exact.grid is None
    assert torch.equal(refined.plain_counts, plain.counts)
    assert refined.grid_bias.value == pytest.approx(plain.value - refined.value)
    assert (refined.counts != exact.counts).sum() <= 1


def test_unsettled_counts_are_a_status() -> None:
    def noise(x: torch.Tensor) -> torch.Tensor:
        return (((x * 12.9898).sin() * 43758.5453).remainder(1).sum(1).gt(2) & x[:, 0].gt(0)).long()

    quiet, noisy = rs.Segment([-2.0, 0, 0, 0], [-1.0, 1, 1, 1]), rs.Segment([1.0, 0, 0, 0], [9.0, 3, -7, 5])
    slices = [quiet] * 64 + [noisy] * 3 + [quiet] * 2  # in two blocks
    est = rs.region_count(noise, slices=slices, grid=10, method="refined", max_points=100)
    assert not est.status
    assert "3 of 69 slices" in est.status.reason
    assert "incomplete" in repr(est)


def test_sampling_goes_on_until_the_error_is_small_enough() -> None:
    est = rs.region_count(NET, DATA, slices=20, grid=40, until=0.04)
    assert est.status
    assert est.stderr / est.value <= 0.04
    assert est.n % 20 == 0
    assert est.n > 20
    before = Estimate.of(est.counts[:-20])
    assert before.relative_stderr > 0.04
    stopped = rs.region_count(NET, DATA, slices=20, grid=40, until=1e-4, max_slices=50)
    assert stopped.n == 50
    assert not stopped.status
    assert "after 50 slices" in stopped.status.reason
    assert rs.region_count(nn.Linear(4, 1), torch.ones(5, 4) * torch.arange(5)[:, None], until=0.5, slices=5).status


def test_a_few_slices_that_agree_by_chance_do_not_end_the_sampling() -> None:
    drawn: list[int] = []

    def measure(slices: Sequence[rs.Slice]) -> torch.Tensor:
        drawn.extend(range(len(drawn), len(drawn) + len(slices)))
        return torch.tensor([1.0 if i < 4 else 1.0 + i % 7 for i in drawn[-len(slices) :]])

    found = over_slices(measure, rs.sampled.Hulls(DATA, dim=1), slices=2, until=0.05)
    assert len(found.values) > 30
    assert found.estimate.relative_stderr <= 0.05
    assert (
        len(
            over_slices(
                lambda slices: torch.ones(len(slices)), rs.sampled.Hulls(DATA, dim=1), slices=2, until=0.05
            ).values
        )
        == 30
    )


def test_a_constant_classifier_has_one_region_and_no_error() -> None:
    est = rs.region_count(lambda x: torch.zeros(len(x), dtype=torch.int64), DATA, dim=2, slices=5)
    assert (est.value, est.stderr, est.interval) == (1.0, 0.0, (1.0, 1.0))
    one = rs.region_count(NET, DATA, slices=1)
    assert math.isnan(one.stderr)
    assert all(math.isnan(end) for end in one.interval)
    assert "±" not in repr(one)


def test_linear_regions_use_the_same_slices_and_error_bars() -> None:
    fold = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1, bias=False))
    with torch.no_grad():
        fold[0].weight.copy_(torch.tensor([[1.0], [-1.0]]))
        fold[0].bias.zero_()
        fold[2].weight.fill_(1.0)
    points = torch.tensor([[-1.0], [1.0], [2.0], [-2.0]])
    est = measures.linear_region_count(fold, points, slices=60)
    slices = [rs.sampled.Hulls(points, dim=1).draw(i) for i in range(60)]
    crossing = [bool(slice.embed(slice.corners).prod() < 0) for slice in slices]
    assert est.counts.tolist() == [2 if crosses else 1 for crosses in crossing]
    assert est.stderr > 0
    with torch.no_grad():
        fold[2].weight[0, 1] = -1.0  # relu(x) - relu(-x) = x: one map on both sides of the fold
    assert measures.linear_region_count(fold, points, slices=60).counts.tolist() == [1] * 60
    sides = measures.linear_region_count(fold, points, slices=60, pieces="activation")
    assert sides.counts.tolist() == est.counts.tolist()
    with pytest.raises(InputError, match="pieces"):
        measures.linear_region_count(NET, DATA, pieces="convex")


def test_progress_is_the_share_of_the_slices_that_are_done() -> None:
    shares: list[float] = []
    rs.region_count(NET, DATA, slices=80, progress=shares.append)
    assert shares == [64 / 80, 1.0]


@pytest.mark.slow
def test_the_bootstrap_interval_covers_the_mean_about_as_often_as_it_says() -> None:
    generator = torch.Generator().manual_seed(0)
    hits = 0
    for trial in range(200):
        values = torch.poisson(torch.full((60,), 3.0), generator=generator).long()
        low, high = bootstrap_interval(values, seed=trial)
        hits += low <= 3.0 <= high
    assert 0.90 <= hits / 200 <= 0.98


@pytest.mark.parametrize("method", ["grid", "refined"])
def test_the_share_of_a_worker_has_the_counts_of_one_call(method: Any) -> None:
    slices = [rs.sampled.Hulls(DATA, dim=2).draw(i) for i in range(70)]  # more than are counted in one call
    options = {"batch_size": None, "memory": None, "max_points": 300}
    shard = _count_shard(lambda first: open_counter(NET, None, first, method=method, grid=9, **options), slices)
    wanted = rs.region_count(NET, slices=slices, method=method, grid=9, max_points=300)
    assert torch.equal(shard.counts if method == "refined" else shard, wanted.counts)


MIXED = [*[rs.Simplex(list(DATA[:3]))] * 64, rs.Box(DATA[0], torch.eye(4)[:2], 1.0)]  # 64 are counted in one call


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dim": 60}, "60 input"),
        ({"inputs": None}, "inputs to draw slices through, got None"),
        ({"inputs": [rs.Segment(DATA[0], DATA[1])]}, r"got Segment\. Pass slices=\[\.\.\.\]"),
        ({"inputs": rs.sampled.Hulls(DATA)}, r"got Hulls. Pass it as slices="),
        ({"slices": 0}, "slices to be a whole number of at least 1, or a list of slices, got 0"),
        ({"slices": rs.sampled.Hulls(DATA)}, r"either inputs or slices=Hulls\(...\), got both. Leave the inputs out"),
        ({"grid": 1}, "at least 2"),
        ({"method": "best"}, "a valid method, got .best.. Choose from grid, refined, exact"),
        ({"through": "walls"}, "a valid through, got .walls.. Choose from inputs, direction, origin"),
        ({"length": 1.0}, 'length only with through="direction"'),
        ({"through": "direction", "alpha": (-1, 2)}, 'alpha only with through="inputs"'),
        *(
            ({"through": "origin", **option}, 'dim=1 and neither alpha nor length with through="origin"')
            for option in ({"dim": 2}, {"alpha": (-1.0, 2.0)}, {"length": 2.0})
        ),
        *(({"until": value}, "between 0 and 1, got") for value in (0.0, 1, 2, -0.1)),
        *(({"alpha": value}, "alpha") for value in (1, "ab", (0.0, "1"), (0.0, 1.0, 2.0))),
        ({"method": "refined", "max_points": "9"}, "max_points to be a whole number of at least 1, got '9'"),
        ({"model": lambda x: x * math.nan}, "NaN"),
        ({"model": lambda x: x[:, 0]}, r"the function to return integer .*got float32 of shape \(8000,\)"),
        ({"model": nn.Linear(3, 2)}, "failed on inputs"),
        ({"model": lambda x: x, "method": "exact"}, "Expected a torch module"),
        *(
            ({"method": "exact", **option}, f'{next(iter(option))}=None with method="exact"')
            for option in ({"grid": 50}, {"batch_size": 8})
        ),
        ({"slices": []}, "empty"),
        ({"inputs": None, "grid": 3, "slices": MIXED}, "only simplices or only boxes, got both"),
    ],
)
def test_bad_input_is_one_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        rs.region_count(**{"model": NET, "inputs": DATA, **options})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("method", ["grid", "refined"])
def test_a_model_in_half_precision_has_the_regions_of_its_weights(dtype: torch.dtype, method: Any) -> None:
    torch.manual_seed(0)
    half = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 3)).to(dtype)
    nn.init.zeros_(half[2].bias)
    half[0].bias.data = -100 * half[0].weight.data.sum(1)  # the regions meet where half precision is coarse
    inputs = 100 + torch.randn(20, 4, generator=torch.Generator().manual_seed(3))
    found, wanted = (
        rs.region_count(model, inputs, dim=2, slices=10, grid=12, method=method)
        for model in (half, copy.deepcopy(half).float())
    )
    assert torch.equal(found.counts, wanted.counts)
    assert wanted.value > 1
    assert next(half.parameters()).dtype == dtype


def test_no_line_leads_from_the_origin_to_itself() -> None:
    with pytest.raises(RegionscopeError, match="inputs other than the origin, got only the origin in 100 draws"):
        LinesFromOrigin(torch.zeros(3, 2)).draw(0)
    with pytest.raises(InputError, match="at least one input, got 0"):
        LinesFromOrigin(torch.zeros(0, 2))


SAMPLERS: list[tuple[Any, dict[str, Any]]] = [
    (rs.sampled.Hulls(DATA, limit=30), {}),
    (rs.sampled.Hulls(DATA, dim=2, seed=5, limit=30), {"dim": 2, "seed": 5}),
    (rs.sampled.Hulls(DATA, alpha=(-1.0, 2.0), seed=3, limit=30), {"alpha": (-1.0, 2.0), "seed": 3}),
    (rs.sampled.RandomDirections(DATA, limit=30), {"through": "direction"}),
    (
        rs.sampled.RandomDirections(DATA, dim=2, length=5.0, seed=4, limit=30),
        {"dim": 2, "length": 5.0, "seed": 4, "through": "direction"},
    ),
    (LinesFromOrigin(DATA, seed=7, limit=30), {"seed": 7, "through": "origin"}),
]


def same(one: rs.RegionCount, other: rs.RegionCount) -> None:
    assert torch.equal(one.counts, other.counts)
    for name in ("dim", "method", "grid", "seed", "status", "value", "stderr", "interval"):
        assert getattr(one, name) == getattr(other, name), name


@pytest.mark.parametrize(("sampler", "options"), SAMPLERS)
def test_a_sampler_gives_the_counts_of_the_arguments(sampler: Any, options: dict[str, Any]) -> None:
    for count in (rs.region_count, measures.linear_region_count):
        counted = count(NET, slices=sampler)
        assert counted.n == 30
        assert len(counted.counts.unique()) > 1
        same(counted, count(NET, DATA, slices=30, **options))


class Axes:
    dim, seed, limit = 1, None, 4

    def draw(self, i: int) -> rs.Slice:
        return rs.Segment(-3 * torch.eye(4)[i], 3 * torch.eye(4)[i])


def test_any_object_that_draws_slices_is_a_sampler() -> None:
    drawn = [Axes().draw(i) for i in range(4)]
    same(rs.region_count(NET, slices=Axes()), rs.region_count(NET, slices=drawn))


@pytest.mark.parametrize(
    "option", [{"dim": 2}, {"through": "direction"}, {"alpha": (0.0, 2.0)}, {"length": 1.0}, {"seed": 1}]
)
def test_options_of_the_sampler_are_refused_in_the_call(option: dict[str, Any]) -> None:
    for count in (rs.region_count, measures.linear_region_count):
        with pytest.raises(InputError, match=r"with slices=Hulls\(...\), got at least one of them"):
            count(NET, slices=rs.sampled.Hulls(DATA), **option)


@needs_cuda
@pytest.mark.parametrize(("dim", "method"), [(1, "grid"), (2, "refined"), (2, "exact"), (3, "exact"), (3, "refined")])
def test_counts_on_cuda_are_those_of_the_cpu(dim: int, method: str) -> None:
    net = mlp(4, 8, 8, 3, seed=3).double()
    wanted = rs.region_count(net, DATA, dim=dim, slices=15, method=method)
    state = torch.cuda.get_rng_state()
    for inputs in (DATA, DATA.cuda()):
        found = rs.region_count(net.cuda(), inputs, dim=dim, slices=15, method=method)
        assert torch.equal(found.counts, wanted.counts)
    assert torch.equal(torch.cuda.get_rng_state(), state)


@needs_cuda
@pytest.mark.parametrize(("dim", "method"), [(1, "grid"), (2, "refined")])
def test_the_quick_pass_changes_no_count(dim: int, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Float32 networks are screened in half precision; here beside float32 alone."""
    images = 4 * torch.randn(30, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    net = ResNet(width=16).eval()
    with torch.no_grad():
        net.head.bias -= net(images).mean(0)  # so that no class is everywhere the largest
    net.cuda()
    found = rs.region_count(net, images, dim=dim, slices=20, method=method)
    monkeypatch.setattr("regionscope.sampled.labels.HalfPrecisionScreen", lambda quick, exact: exact)
    wanted = rs.region_count(net, images, dim=dim, slices=20, method=method)
    assert wanted.counts.max() > 1
    assert torch.equal(found.counts, wanted.counts)
